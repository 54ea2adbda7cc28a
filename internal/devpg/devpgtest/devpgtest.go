package devpgtest

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"
)

// shared is the one cluster of this test binary: Go gives a test no other way to what the
// tests of its package have in common. It is idle until the first New.
var shared = cluster{getenv: os.Getenv} //nolint:gochecknoglobals // see above

const (
	// startTime bounds the first New: initdb, start and migrations, with other packages'
	// tests doing the same on the same machine.
	startTime = 3 * time.Minute

	// workTime bounds one CREATE or DROP DATABASE, and the end of the cluster.
	workTime = time.Minute
)

// Run runs the tests and then stops the cluster, if one was started. It returns the exit
// code for os.Exit: a cluster that does not end well fails the run.
func Run(m *testing.M) int {
	shared.open()
	code := m.Run()
	if err := shared.close(os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "devpgtest:", err)
		return max(code, 1)
	}
	return code
}

// New returns the address of a fresh database with every migration applied. It is dropped,
// with the sessions that are left in it, when the test ends.
func New(tb testing.TB) string {
	tb.Helper()
	return shared.create(tb, true)
}

// NewEmpty is New without migrations, for the tests of migrations.
func NewEmpty(tb testing.TB) string {
	tb.Helper()
	return shared.create(tb, false)
}

// create makes one database and promises its end to the test.
func (c *cluster) create(tb testing.TB, migrated bool) string {
	tb.Helper()
	name, err := c.clone(migrated)
	if err != nil {
		tb.Fatalf("devpgtest: %v", err)
	}
	dsn, err := c.dsn(name)
	if err != nil {
		tb.Fatalf("devpgtest: %v", err)
	}
	tb.Cleanup(func() {
		if tb.Failed() && c.keeps() {
			c.kept.Add(1)
			tb.Logf("devpgtest: the database is kept: %s", dsn)
			return
		}
		if tb.Failed() {
			tb.Logf("devpgtest: the database was %s; set %s=1 to keep it", name, keepEnv)
		}
		if err := c.drop(name); err != nil {
			tb.Errorf("devpgtest: %v", err)
		}
	})
	return dsn
}

// background is a context for what several tests share: a test's own ends with that test,
// and before its cleanup.
func background(limit time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), limit)
}
