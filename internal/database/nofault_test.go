package database_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"gorm.io/gorm"

	"paidonce/internal/database"
	"paidonce/internal/devpg/devpgtest"
)

func TestNoFault(t *testing.T) {
	t.Parallel()
	lost := func(err error) error {
		return &net.OpError{Op: "read", Net: "tcp", Err: os.NewSyscallError("read", err)}
	}
	code := func(c string) error { return &pgconn.PgError{Code: c} }
	for _, c := range []struct {
		err  error
		want bool
	}{
		// The other side's doing.
		{code("40P01"), true},
		{code("40001"), true},
		{code("55P03"), true},
		{code("57P01"), true},
		{code("57P02"), true},
		{code("57P03"), true},
		{code("08006"), true},
		{code("08P01"), true},
		{fmt.Errorf("applying: %w", fmt.Errorf("finishing: %w", code("40P01"))), true},

		// A connection that was lost.
		{sql.ErrConnDone, true},
		{driver.ErrBadConn, true},
		{io.EOF, true},
		{io.ErrUnexpectedEOF, true},
		{lost(syscall.ECONNRESET), true},
		{lost(syscall.EPIPE), true},
		{lost(syscall.ETIMEDOUT), true},
		{lost(syscall.EHOSTUNREACH), true},
		{fmt.Errorf("claiming: %w", lost(syscall.ETIMEDOUT)), true},

		// The work's own doing: trying again at once would only fail again.
		{nil, false},
		{errors.New("panic: index out of range"), false},
		{code("23505"), false},
		{code("23514"), false},
		{code("22021"), false},
		{code("42601"), false},
		{code("25P02"), false},
		{code("57014"), false},
		{code("53100"), false},
		{code(""), false},
		{gorm.ErrRecordNotFound, false},
		{context.Canceled, false},
		{context.DeadlineExceeded, false},
	} {
		if got := database.NoFault(c.err); got != c.want {
			t.Errorf("%v: got %v, want %v", c.err, got, c.want)
		}
	}
}

// The same, of errors that a server really gives, through gorm and the pool.
func TestNoFault_RealErrors(t *testing.T) {
	t.Parallel()
	dsn := devpgtest.NewEmpty(t)
	setup := open(t, dsn, 2)
	must(t, setup.Gorm.Exec(`CREATE TABLE things (id int PRIMARY KEY, n int CHECK (n >= 0)); INSERT INTO things VALUES (1, 0), (2, 0)`).Error)
	impatient := open(t, withSetting(dsn, "lock_timeout=30ms"), 2)
	brief := open(t, withSetting(dsn, "statement_timeout=30ms"), 2)

	for name, c := range map[string]struct {
		provoke func(t *testing.T) error
		want    bool
	}{
		"Unique violation": {func(*testing.T) error { return setup.Gorm.Exec(`INSERT INTO things VALUES (1, 0)`).Error }, false},
		"Check violation":  {func(*testing.T) error { return setup.Gorm.Exec(`UPDATE things SET n = -1 WHERE id = 1`).Error }, false},
		"Statement too long": {func(*testing.T) error {
			return brief.Gorm.Exec(`SELECT pg_sleep(5)`).Error
		}, false},
		"Lock not to be had": {func(t *testing.T) error {
			t.Helper()
			tx := setup.Gorm.Begin()
			defer tx.Rollback()
			must(t, tx.Exec(`SELECT 1 FROM things WHERE id = 1 FOR UPDATE`).Error)
			return impatient.Gorm.Exec(`UPDATE things SET n = 1 WHERE id = 1`).Error
		}, true},
		"Not serializable": {func(t *testing.T) error {
			t.Helper()
			tx := setup.Gorm.Begin(&sql.TxOptions{Isolation: sql.LevelRepeatableRead})
			defer tx.Rollback()
			must(t, tx.Exec(`SELECT n FROM things`).Error)
			must(t, impatient.Gorm.Exec(`UPDATE things SET n = n + 1 WHERE id = 2`).Error)
			return tx.Exec(`UPDATE things SET n = n + 1 WHERE id = 2`).Error
		}, true},
		"Session ended by an administrator": {func(t *testing.T) error {
			t.Helper()
			tx := setup.Gorm.Begin()
			defer tx.Rollback()
			var pid int
			must(t, tx.Raw(`SELECT pg_backend_pid()`).Scan(&pid).Error)
			must(t, impatient.Gorm.Exec(`SELECT pg_terminate_backend(?)`, pid).Error)
			first := tx.Exec(`SELECT 1`).Error
			if again := tx.Exec(`SELECT 1`).Error; !database.NoFault(again) {
				t.Errorf("on the session that is gone: %v is taken for a fault", again)
			}
			return first
		}, true},
		"Deadline of the caller": {func(t *testing.T) error {
			t.Helper()
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
			defer cancel()
			return setup.Gorm.WithContext(ctx).Exec(`SELECT pg_sleep(5)`).Error
		}, false},
		"No server": {func(t *testing.T) error {
			t.Helper()
			return open(t, "postgres://u@127.0.0.1:1/x", 1).Gorm.Exec(`SELECT 1`).Error
		}, true},
		"Server that says nothing": {func(t *testing.T) error {
			t.Helper()
			mute, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
			must(t, err)
			defer func() { _ = mute.Close() }()
			return open(t, "postgres://u@"+mute.Addr().String()+"/x?sslmode=disable&connect_timeout=1", 1).Gorm.Exec(`SELECT 1`).Error
		}, true},
	} {
		err := c.provoke(t)
		if err == nil {
			t.Errorf("%s: no error", name)
		}
		if got := database.NoFault(err); got != c.want {
			t.Errorf("%s: %v: got %v, want %v", name, err, got, c.want)
		}
	}
}

// Two transactions that lock in opposite order: the one that Postgres ends may simply try again.
func TestNoFault_Deadlock(t *testing.T) {
	t.Parallel()
	db := open(t, devpgtest.NewEmpty(t), 4)
	must(t, db.Gorm.Exec(`CREATE TABLE things (id int PRIMARY KEY); INSERT INTO things VALUES (1), (2)`).Error)
	const lock = `SELECT 1 FROM things WHERE id = ? FOR UPDATE`
	a, b := db.Gorm.Begin(), db.Gorm.Begin()
	must(t, a.Exec(lock, 1).Error)
	must(t, b.Exec(lock, 2).Error)
	done := make(chan error, 1)
	go func() { done <- errors.Join(a.Exec(lock, 2).Error, a.Rollback().Error) }()
	err := errors.Join(b.Exec(lock, 1).Error, b.Rollback().Error, <-done)
	if err == nil || !database.NoFault(err) {
		t.Errorf("got %v, want a deadlock that is no fault", err)
	}
}
