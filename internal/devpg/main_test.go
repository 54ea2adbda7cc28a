//go:build unix

package devpg

// Everything here is real: PostgreSQL, its processes, folders, signals and users. Only the
// binaries that must fail are scripts. A test may assert on what a caller or an operator can
// see (a session, an error's text, a process, a folder), never on the time something took.

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// childEnv makes the test binary run [child] on the folder that it names.
const childEnv = "DEVPG_TEST_CHILD"

// patience bounds every wait for something that must happen: far above what it takes on a
// busy machine, so that only a fault reaches it.
const patience = time.Minute

func TestMain(m *testing.M) {
	if dir := os.Getenv(childEnv); dir != "" {
		if err := child(dir); err != nil {
			fmt.Println("child:", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// child is a program that owns a server: it says where, serves until Ctrl-C, proves that
// the server is still there, and stops it in order.
func child(dir string) error {
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt)
	ctx := context.Background()
	s, err := Start(ctx, Options{Dir: dir})
	if err != nil {
		return err
	}
	fmt.Println(s.URL("postgres"))
	<-interrupted

	conn, err := pgx.Connect(ctx, s.URL("postgres"))
	if err != nil {
		return err
	}
	if _, err := conn.Exec(ctx, "CREATE TABLE after_interrupt ()"); err != nil {
		return err
	}
	if err := s.Stop(ctx); err != nil {
		return err
	}
	fmt.Println("stopped")
	return nil
}

// owned is a running child.
type owned struct {
	cmd *exec.Cmd
	out *bufio.Scanner
	url string
}

// startChild starts a child on dir and waits for its server.
func startChild(t *testing.T, dir string) *owned {
	t.Helper()
	o := spawnChild(t, dir, os.TempDir())
	o.url = o.line()
	if !strings.HasPrefix(o.url, "postgres://") {
		t.Fatalf("the child says %q, want a URL", o.url)
	}
	return o
}

// spawnChild starts the test binary again as the owner of a server on dir, in a process
// group of its own, as a terminal does.
func spawnChild(t *testing.T, dir, tmp string) *owned {
	t.Helper()
	exe, err := os.Executable()
	must(t, err)
	cmd := exec.CommandContext(t.Context(), exe)
	cmd.Env = append(os.Environ(), childEnv+"="+dir, "TMPDIR="+tmp)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stdout, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	o := &owned{cmd: cmd, out: bufio.NewScanner(stdout)}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	return o
}

// kill ends the child as kill -9 does: nothing of it runs any more.
func (o *owned) kill(t *testing.T) {
	t.Helper()
	must(t, o.cmd.Process.Kill())
	_ = o.cmd.Wait() // its error says that it was killed
}

func (o *owned) line() string {
	o.out.Scan()
	return o.out.Text()
}

// start starts a server that the test's end stops.
func start(t *testing.T, o Options) *Server {
	t.Helper()
	s, err := Start(t.Context(), o)
	must(t, err)
	t.Cleanup(func() { must(t, s.Stop(context.Background())) })
	return s
}

func connect(t *testing.T, dsn string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	must(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func execute(t *testing.T, dsn, sql string) {
	t.Helper()
	_, err := connect(t, dsn).Exec(t.Context(), sql)
	must(t, err)
}

func query[T any](t *testing.T, dsn, sql string) T {
	t.Helper()
	var v T
	must(t, connect(t, dsn).QueryRow(t.Context(), sql).Scan(&v))
	return v
}

// openDir is a temporary folder that every user may enter; t.TempDir is closed to the
// server's user when the tests run as root.
func openDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "devpg-test-")
	must(t, err)
	must(t, os.Chmod(dir, 0o755))
	t.Cleanup(func() { must(t, os.RemoveAll(dir)) })
	return dir
}

// postmasterPID reads the process id that the server on dir noted.
func postmasterPID(t *testing.T, dir string) int {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(dir, "data", "postmaster.pid"))
	must(t, err)
	first, _, _ := strings.Cut(string(content), "\n")
	pid, err := strconv.Atoi(first)
	must(t, err)
	return pid
}

// gone tells whether a process has ended; where nobody reaps orphans it stays a zombie.
func gone(t *testing.T, pid int) bool {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "ps", "-o", "stat=", "-p", strconv.Itoa(pid)).Output()
	return err != nil || strings.HasPrefix(strings.TrimSpace(string(out)), "Z")
}

func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := poll(ctx, func() (bool, error) { return done(), nil }); err != nil {
		t.Fatalf("%s: not within %s", what, patience)
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
