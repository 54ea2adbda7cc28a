//go:build unix

package devpg

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestStart_WithoutBinariesNamesTheWaysOut(t *testing.T) {
	t.Parallel()
	_, err := findBinaries(func(string) string { return "" }, nil)
	if !errors.Is(err, ErrNoBinaries) {
		t.Fatalf("got %v, want ErrNoBinaries", err)
	}
	for _, way := range []string{"DATABASE_URL", "apt-get install postgresql", "brew install postgresql", "PAIDONCE_PG_BIN"} {
		if !strings.Contains(err.Error(), way) {
			t.Errorf("the error does not name %s:\n%v", way, err)
		}
	}
}

func TestStart_WrongBinariesAreNamed(t *testing.T) {
	t.Parallel()
	empty := openDir(t)
	getenv := func(name string) string {
		if name == binEnv {
			return empty
		}
		return os.Getenv(name)
	}
	_, err := Start(t.Context(), Options{Getenv: getenv})
	if err == nil || !strings.Contains(err.Error(), binEnv) || !strings.Contains(err.Error(), empty) {
		t.Errorf("got %v, want the variable and the folder", err)
	}
}

func TestStart_FailingInitdbShowsItsOutput(t *testing.T) {
	t.Parallel()
	bin, dir := openDir(t), filepath.Join(openDir(t), "pg")
	program(t, filepath.Join(bin, "initdb"), "#!/bin/sh\necho 'initdb: error: the disk is full' >&2\nexit 3\n")
	program(t, filepath.Join(bin, "postgres"), "#!/bin/sh\n")
	_, err := Start(t.Context(), Options{Dir: dir, BinDir: bin})
	if err == nil || !strings.Contains(err.Error(), "the disk is full") || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("got %v, want the output and the exit status", err)
	}
	if exists(filepath.Join(dir, "data.new")) || exists(filepath.Join(dir, "data")) {
		t.Error("a half-made cluster is left behind")
	}
}

func TestStart_FailingServerShowsItsLog(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(openDir(t), "pg")
	s, err := Start(t.Context(), Options{Dir: dir})
	must(t, err)
	must(t, s.Stop(t.Context()))
	must(t, os.WriteFile(filepath.Join(dir, "data", "postgresql.conf"), []byte("work_mem = banana\n"), 0o644))
	_, err = Start(t.Context(), Options{Dir: dir})
	if err == nil || !strings.Contains(err.Error(), "banana") {
		t.Errorf("got %v, want the server's own words", err)
	}
	if exists(s.run) {
		t.Error("the temporary folder is left behind")
	}
}

// As root the data has to be where the server's user can go. The error names the folder
// that bars the way; nothing is opened for it.
func TestStart_ClosedFolderIsNamed(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root starts servers as somebody else")
	}
	closed := openDir(t)
	must(t, os.Chmod(closed, 0o700))
	_, err := Start(t.Context(), Options{Dir: filepath.Join(closed, "below", "pg")})
	if err == nil || !strings.Contains(err.Error(), "may not enter "+closed+" ") {
		t.Errorf("got %v, want the closed folder", err)
	}
}

// program writes an executable. A shell does it, since a file that this process has just had
// open for writing may still be so in a child that another test is starting.
func program(t *testing.T, path, content string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must(t, exec.CommandContext(t.Context(), "sh", "-c", `printf %s "$1" >"$2" && chmod 755 "$2"`, "sh", content, path).Run())
}
