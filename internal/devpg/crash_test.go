//go:build unix

package devpg

import (
	"context"
	"errors"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// Window: the owner is killed with kill -9 while sessions are open. Left behind: a server
// without an owner, its temporary folder, a lock that it holds. The supervisor's watcher
// acts; the next Start waits for it.
func TestKilledOwner_LeavesNoServerAndAFolderThatStarts(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(openDir(t), "pg")
	owner := startChild(t, dir)
	execute(t, owner.url, "CREATE TABLE paid (id int); INSERT INTO paid VALUES (42)")
	pid := postmasterPID(t, dir)
	u, err := url.Parse(owner.url)
	must(t, err)
	run := u.Query().Get("host")

	owner.kill(t)

	// At once, while the old server may still be on its way out.
	s := start(t, Options{Dir: dir})
	if got := query[int](t, s.URL("postgres"), "SELECT id FROM paid"); got != 42 {
		t.Errorf("the committed row is %d, want 42", got)
	}
	if !gone(t, pid) {
		t.Errorf("the old postmaster, process %d, is still there", pid)
	}
	eventually(t, "the watcher removes the temporary folder", func() bool { return !exists(run) })
}

// Nobody starts the folder again: the server must end all the same.
func TestKilledOwner_ServerEndsByItself(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(openDir(t), "pg")
	owner := startChild(t, dir)
	pid := postmasterPID(t, dir)
	owner.kill(t)
	eventually(t, "the postmaster ends", func() bool { return gone(t, pid) })
	eventually(t, "its pid file goes", func() bool { return !exists(filepath.Join(dir, "data", "postmaster.pid")) })
}

// Window: killed between the first file of the cluster and its last. Left behind: a running
// initdb and half a cluster. The watcher stops the one, the next Start removes the other.
func TestKilledOwner_DuringInitdb(t *testing.T) {
	t.Parallel()
	dir, tmp := filepath.Join(openDir(t), "pg"), openDir(t)
	must(t, os.Chmod(tmp, 0o777|os.ModeSticky)) // as /tmp is
	owner := spawnChild(t, dir, tmp)
	eventually(t, "initdb is at work", func() bool { return exists(filepath.Join(dir, "data.new", "PG_VERSION")) })
	owner.kill(t)

	s := start(t, Options{Dir: dir})
	must(t, connect(t, s.URL("postgres")).Ping(t.Context()))
	eventually(t, "the watcher empties the temporary folder", func() bool {
		entries, err := os.ReadDir(tmp)
		return err == nil && len(entries) == 0
	})
}

// Ctrl-C reaches the whole process group of the terminal. The server is not in it: its
// owner still has a database for an orderly end.
func TestInterruptedOwner_StillHasItsServer(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(openDir(t), "pg")
	owner := startChild(t, dir)
	must(t, syscall.Kill(-owner.cmd.Process.Pid, syscall.SIGINT))
	if got := owner.line(); got != "stopped" {
		t.Fatalf("the child says %q, want stopped", got)
	}
	must(t, owner.cmd.Wait())
	s := start(t, Options{Dir: dir})
	if !query[bool](t, s.URL("postgres"), "SELECT to_regclass('after_interrupt') IS NOT NULL") {
		t.Error("the owner's last write is gone")
	}
}

// The postmaster itself is killed: Stop says so and cleans up, the folder starts again, in
// spite of the pid file left behind, even when its number now belongs to somebody else.
func TestKilledServer_StopSaysSoAndTheFolderStarts(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(openDir(t), "pg")
	s, err := Start(t.Context(), Options{Dir: dir})
	must(t, err)
	execute(t, s.URL("postgres"), "CREATE TABLE committed ()")
	must(t, syscall.Kill(postmasterPID(t, dir), syscall.SIGKILL))
	eventually(t, "the end is noticed", func() bool { return !s.main.running() })
	if err := s.Stop(t.Context()); err == nil || !strings.Contains(err.Error(), "ended by itself: signal: killed") {
		t.Errorf("Stop: %v, want that the server had been killed", err)
	}

	// The number of a live process of the server's own user, which PostgreSQL would take
	// for a live server.
	stranger := exec.CommandContext(t.Context(), "sleep", "600")
	stranger.SysProcAttr = detached(s.account)
	stranger.Dir = "/"
	must(t, stranger.Start())
	t.Cleanup(func() { _ = stranger.Process.Kill(); _ = stranger.Wait() })
	pidFile := filepath.Join(dir, "data", "postmaster.pid")
	content, err := os.ReadFile(pidFile)
	must(t, err)
	_, rest, _ := strings.Cut(string(content), "\n")
	must(t, os.WriteFile(pidFile, []byte(strconv.Itoa(stranger.Process.Pid)+"\n"+rest), 0o600))

	again := start(t, Options{Dir: dir})
	if !query[bool](t, again.URL("postgres"), "SELECT to_regclass('committed') IS NOT NULL") {
		t.Error("what was committed is gone")
	}
}

// A server on the same data that holds no lock of ours.
func TestStart_RefusesAServerStartedByHand(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(openDir(t), "pg")
	s, err := Start(t.Context(), Options{Dir: dir})
	must(t, err)
	must(t, s.Stop(t.Context()))

	socket, err := makeRunFolder(os.Getenv, s.account)
	must(t, err)
	t.Cleanup(func() { must(t, os.RemoveAll(socket)) })
	must(t, s.give(socket))
	hand := exec.CommandContext(t.Context(), filepath.Join(s.bin, "postgres"),
		"-D", s.data(), "-c", "listen_addresses=", "-k", socket, "-p", "5432")
	hand.Dir, hand.Env, hand.SysProcAttr = "/", s.env, detached(s.account)
	must(t, hand.Start())
	t.Cleanup(func() { _ = hand.Process.Signal(syscall.SIGQUIT); _ = hand.Wait() })
	eventually(t, "the server by hand is there", func() bool { return exists(filepath.Join(socket, ".s.PGSQL.5432")) })

	if _, err := Start(t.Context(), Options{Dir: dir}); !errors.Is(err, ErrInUse) {
		t.Errorf("Start: %v, want ErrInUse", err)
	}
	if !exists(filepath.Join(dir, "data", "postmaster.pid")) {
		t.Error("the pid file of a live server was removed")
	}
}

// The caller gives up at two points of a start: nothing is running and nothing half-made.
func TestStart_CanceledLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	for name, reached := range map[string]string{
		"DuringInitdb": "data.new/PG_VERSION",
		"DuringBoot":   "data/postmaster.pid",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, tmp := filepath.Join(openDir(t), "pg"), openDir(t)
			getenv := func(name string) string {
				if name == "TMPDIR" {
					return tmp
				}
				return os.Getenv(name)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			result := make(chan error, 1)
			go func() {
				s, err := Start(ctx, Options{Dir: dir, Getenv: getenv})
				if err == nil { // the start was faster than the cancel, and is an ordinary one
					err = s.Stop(context.Background())
				}
				result <- err
			}()
			eventually(t, reached, func() bool { return exists(filepath.Join(dir, reached)) })
			cancel()
			if err := <-result; err != nil && !errors.Is(err, context.Canceled) {
				t.Errorf("Start: %v, want context.Canceled", err)
			}

			for _, left := range []string{"data.new", "data/postmaster.pid"} {
				if exists(filepath.Join(dir, left)) {
					t.Errorf("%s is left behind", left)
				}
			}
			entries, err := os.ReadDir(tmp)
			must(t, err)
			if len(entries) != 0 {
				t.Errorf("left in the temporary folder: %v", entries)
			}
			start(t, Options{Dir: dir})
		})
	}
}
