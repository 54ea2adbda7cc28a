package devpgtest

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"testing"

	"github.com/jackc/pgx/v5"
)

// recorder is a test that may fail without failing the one that watches it.
type recorder struct {
	testing.TB
	failed   bool
	said     string
	cleanups []func()
}

func (r *recorder) Helper()                   {}
func (r *recorder) Failed() bool              { return r.failed }
func (r *recorder) Cleanup(f func())          { r.cleanups = append(r.cleanups, f) }
func (r *recorder) Logf(f string, a ...any)   { r.said += fmt.Sprintf(f, a...) }
func (r *recorder) Errorf(f string, a ...any) { r.Logf(f, a...); r.failed = true }
func (r *recorder) Fatalf(f string, a ...any) { r.Errorf(f, a...); runtime.Goexit() }

// run calls f where Fatalf can end it.
func (r *recorder) run(f func()) {
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	<-done
}

func (r *recorder) end() {
	for _, f := range r.cleanups {
		f()
	}
}

// other is a cluster beside the shared one, with an environment of its own.
type other struct {
	*cluster
	env map[string]string
}

func (o *other) set(name, value string) { o.env[name] = value }

// onServer is a cluster on the server of a DATABASE_URL.
func onServer(t *testing.T, url string) *other {
	t.Helper()
	o := private(t)
	o.set(urlEnv, url)
	return o
}

// private is a cluster that will start a server of its own.
func private(t *testing.T) *other {
	t.Helper()
	env := map[string]string{urlEnv: "", keepEnv: ""}
	o := &other{env: env, cluster: &cluster{getenv: func(name string) string {
		if v, ok := env[name]; ok {
			return v
		}
		return os.Getenv(name)
	}}}
	o.open()
	return o
}

func connect(t *testing.T, dsn string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	must(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func reachable(t *testing.T, dsn string) bool {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		return false
	}
	must(t, conn.Close(t.Context()))
	return true
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

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
