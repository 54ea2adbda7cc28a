//go:build unix

package devpg

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// The tests that prove the promises once more, as an ordinary user. Root has its own way
// through the code, so each of the two is needed.
func TestAsOrdinaryUser(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("the other tests are running as one already")
	}
	nobody, err := lookUp("nobody")
	must(t, err)

	// The binary where that user can execute it: go test puts it in a closed folder. Another
	// process copies it, since a file that is open for writing in this one, or in a child
	// that another test is just starting, cannot be executed.
	home := openDir(t)
	exe, err := os.Executable()
	must(t, err)
	theirs := filepath.Join(home, "devpg.test")
	must(t, exec.CommandContext(t.Context(), "cp", exe, theirs).Run())
	must(t, os.Chmod(theirs, 0o755))

	// And with a umask that keeps others out, which is for the modes of what is downloaded.
	cmd := exec.CommandContext(t.Context(), "sh", "-c", `umask 077; exec "$0" "$@"`, theirs, "-test.v", "-test.parallel=2",
		"-test.run=^(TestServer_|TestKilledOwner_|TestKilledServer_|TestInterruptedOwner_|TestStart_Keeps|TestStart_Canceled|TestDownload_)")
	cmd.Dir = home
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody.uid, Gid: nobody.gid}}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("as %s: %v\n%s", nobody.name, err, out)
	}
	if n := strings.Count(string(out), "--- PASS"); n < 8 {
		t.Errorf("only %d tests ran as %s:\n%s", n, nobody.name, out)
	}
}

// Data keeps the account that made it, whatever users the system has gained since.
func TestChooseAccount_OwnerOfTheData(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	if os.Geteuid() != 0 {
		got, err := chooseAccount(data)
		if got != nil || err != nil {
			t.Errorf("got %v, %v; want ourselves", got, err)
		}
		return
	}
	must(t, os.Chown(data, 4242, 2424))
	got, err := chooseAccount(data)
	must(t, err)
	if got == nil || got.uid != 4242 || got.gid != 2424 {
		t.Errorf("got %+v, want the folder's owner", got)
	}
}

// Root without a user postgres, as in most containers, has nobody.
func TestFirstAccount(t *testing.T) {
	t.Parallel()
	got, err := firstAccount("paidonce-is-no-user", "nobody")
	if err != nil || got.name != "nobody" || got.uid == 0 {
		t.Errorf("got %+v, %v; want nobody", got, err)
	}
	if _, err := firstAccount("paidonce-is-no-user"); err == nil || !strings.Contains(err.Error(), "no user paidonce-is-no-user") {
		t.Errorf("got %v, want whom there is not", err)
	}
}
