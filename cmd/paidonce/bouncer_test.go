package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"paidonce/internal/database"
)

// A shop whose processes all go through a real PgBouncer in session mode: everything works,
// migrations, LISTEN and time limits included.
func TestPgBouncer_SessionMode(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.dsn = bouncer(t, s.dsn, "session")
	s.web()
	worker := s.start("work")
	order := s.order()
	s.pay(order)
	s.settled(order)
	if diff := cmp.Diff(fulfilledOnce(), s.outcome(order)); diff != "" {
		t.Errorf("order %s (-want +got):\n%s", order, diff)
	}
	s.eventually("the worker to listen through it", func() bool { return s.works(worker) })
	db := openDB(t, s.dsn)
	var limit string
	if err := db.Pool.QueryRow(t.Context(), `SHOW statement_timeout`).Scan(&limit); err != nil || limit != "10s" {
		t.Errorf("statement_timeout is %q, %v", limit, err)
	}
}

// In transaction mode no process begins, and each says why.
func TestPgBouncer_TransactionModeIsRefused(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	for _, mode := range []string{"transaction", "statement"} {
		env := s.environment()
		env["DATABASE_URL"], env["WAIT_FOR_DATABASE"] = bouncer(t, s.dsn, mode), "5s"
		for _, args := range [][]string{{"serve"}, {"work"}, {"migrate", "up"}} {
			refused(t, env, "pooler in transaction mode", args...)
		}
	}
}

// bouncer starts a PgBouncer before the database at dsn and returns its address.
func bouncer(t *testing.T, dsn, mode string) string {
	t.Helper()
	program, err := exec.LookPath("pgbouncer")
	if err != nil {
		if program, err = exec.LookPath("/usr/sbin/pgbouncer"); err != nil {
			t.Skip("NOT TESTED: there is no pgbouncer here (apt-get install pgbouncer)")
		}
	}
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	addr := freeAddr(t)
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "paidonce-bouncer-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	file := filepath.Join(dir, "pgbouncer.ini")
	server := fmt.Sprintf("host=%s port=%d user=%s", config.Host, config.Port, config.User)
	if config.Password != "" {
		server += " password=" + config.Password
	}
	ini := fmt.Sprintf("[databases]\n* = %s\n[pgbouncer]\nlisten_addr=127.0.0.1\nlisten_port=%s\n"+
		"unix_socket_dir=\nauth_type=any\npool_mode=%s\ndefault_pool_size=60\n", server, port, mode)
	if err := os.WriteFile(file, []byte(ini), 0o644); err != nil {
		t.Fatal(err)
	}
	args := []string{file}
	if os.Geteuid() == 0 { // as whom it refuses to run; this is who may enter the socket's folder
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		args = []string{"-u", socketOwner(t, config.Host), file}
	}
	cmd := exec.Command(program, args...)
	var log strings.Builder
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("log of pgbouncer:\n%s", &log)
		}
	})
	(&shop{t: t}).eventually("pgbouncer to listen", func() bool {
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
	return fmt.Sprintf("postgres://%s@%s/%s?sslmode=disable", config.User, addr, config.Database)
}

// socketOwner is the name of the user whose the socket's folder is.
func socketOwner(t *testing.T, folder string) string {
	t.Helper()
	out, err := exec.Command("stat", "-c", "%U", folder).Output()
	if err != nil || !strings.HasPrefix(folder, "/") {
		return "nobody"
	}
	return strings.TrimSpace(string(out))
}

func openDB(t *testing.T, dsn string) *database.DB {
	t.Helper()
	db, err := database.Open(t.Context(), dsn, database.Options{MaxConns: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	return db
}
