package database_test

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"gorm.io/gorm"

	"paidonce/internal/database"
	"paidonce/internal/devpg/devpgtest"
)

// Real: Postgres, the pool in its three shapes, and the errors of a server. Made up: errors of a
// network that a local socket does not have.
func TestMain(m *testing.M) { os.Exit(devpgtest.Run(m)) }

func open(tb testing.TB, dsn string, conns int32) *database.DB {
	tb.Helper()
	db, err := database.Open(tb.Context(), dsn, database.Options{MaxConns: conns})
	must(tb, err)
	tb.Cleanup(db.Close)
	return db
}

// withSetting adds a session setting to an address, in either of its forms.
func withSetting(dsn, setting string) string {
	switch {
	case !strings.Contains(dsn, "://"):
		return dsn + " " + setting
	case strings.Contains(dsn, "?"):
		return dsn + "&" + setting
	}
	return dsn + "?" + setting
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

func show(tb testing.TB, db *database.DB, names ...string) map[string]string {
	tb.Helper()
	values := map[string]string{}
	for _, name := range names {
		var v string
		must(tb, db.Pool.QueryRow(tb.Context(), `SELECT current_setting($1)`, name).Scan(&v))
		values[name] = v
	}
	return values
}

// Every session has time limits, so that what is stuck ends and frees its locks.
func TestOpen_SessionSettings(t *testing.T) {
	t.Parallel()
	db := open(t, devpgtest.NewEmpty(t), 2)
	want := map[string]string{
		"application_name": "paidonce", "statement_timeout": "10s", "lock_timeout": "5s", "idle_in_transaction_session_timeout": "10s", "TimeZone": "UTC",
	}
	got := show(t, db, "application_name", "statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout", "TimeZone")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// A setting that the address gives is the operator's, and stays.
func TestOpen_TheAddressWins(t *testing.T) {
	t.Parallel()
	dsn := withSetting(withSetting(devpgtest.NewEmpty(t), "lock_timeout=123ms"), "application_name=mine")
	want := map[string]string{"lock_timeout": "123ms", "application_name": "mine", "statement_timeout": "10s"}
	if diff := cmp.Diff(want, show(t, open(t, dsn, 2), "lock_timeout", "application_name", "statement_timeout")); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// The limits work: a transaction that idles is ended by the server, and its locks are free.
func TestOpen_AnIdleTransactionFreesItsLocks(t *testing.T) {
	t.Parallel()
	dsn := devpgtest.NewEmpty(t)
	frozen, other := open(t, withSetting(dsn, "idle_in_transaction_session_timeout=50ms"), 1), open(t, dsn, 1)
	must(t, other.Gorm.Exec(`CREATE TABLE things (id int)`).Error)
	tx := frozen.Gorm.Begin()
	defer tx.Rollback()
	must(t, tx.Exec(`LOCK TABLE things`).Error)
	must(t, other.Gorm.Exec(`INSERT INTO things VALUES (1)`).Error) // waits until the server ends the other
	if err := tx.Commit().Error; err == nil {
		t.Error("the frozen transaction committed")
	}
}

// gorm, the queue's sql.DB and LISTEN share one pool: what one holds, the others wait for; and a
// connection goes back to it when its user is done.
func TestOpen_OnePoolInThreeShapes(t *testing.T) {
	t.Parallel()
	db := open(t, devpgtest.NewEmpty(t), 1)
	uses := map[string]func(context.Context) error{
		"Pool": func(ctx context.Context) error { _, err := db.Pool.Exec(ctx, `SELECT 1`); return err },
		"SQL":  func(ctx context.Context) error { _, err := db.SQL.ExecContext(ctx, `SELECT 1`); return err },
		"Gorm": func(ctx context.Context) error { return db.Gorm.WithContext(ctx).Exec(`SELECT 1`).Error },
	}
	for name, use := range uses {
		if err := use(t.Context()); err != nil {
			t.Errorf("%s with a free pool: %v", name, err)
		}
	}
	held, err := db.Pool.Acquire(t.Context())
	must(t, err)
	for name, use := range uses {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
		if use(ctx) == nil {
			t.Errorf("%s does not use the pool", name)
		}
		cancel()
	}
	held.Release()
	for name, use := range uses {
		if err := use(t.Context()); err != nil {
			t.Errorf("%s after the release: %v", name, err)
		}
	}
}

// An address that cannot be read is refused without being quoted: it holds a password.
func TestOpen_TellsNoPassword(t *testing.T) {
	t.Parallel()
	for _, dsn := range []string{"postgres://u:hunter2@[::1/db", "postgres://u:hunter2@h:port/db", "password=hunter2 port=x", "postgres://u:hunter2@h/db?sslmode=maybe"} {
		db, err := database.Open(t.Context(), dsn, database.Options{})
		if err == nil {
			db.Close()
			t.Errorf("%s is accepted", dsn)
			continue
		}
		if !strings.Contains(err.Error(), "DATABASE_URL") || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", dsn, err)
		}
	}
}

// Opening asks no server: a database that is away is told by its first use.
func TestOpen_DoesNotWait(t *testing.T) {
	t.Parallel()
	db := open(t, "postgres:///x?host=/nowhere", 1)
	if err := db.SQL.PingContext(t.Context()); !database.NoFault(err) {
		t.Errorf("the first use: got %v, want a lost connection", err)
	}
}

// A time is the same before and after it was stored.
func TestNow_SurvivesTheDatabase(t *testing.T) {
	t.Parallel()
	db := open(t, devpgtest.NewEmpty(t), 1)
	for range 20 {
		now := database.Now()
		var got time.Time
		must(t, db.Pool.QueryRow(t.Context(), `SELECT $1::timestamptz`, now).Scan(&got))
		if got = got.UTC(); got != now {
			t.Errorf("stored %s, read %s", now, got)
		}
	}
}

// What goes through Tx is the gorm transaction's own: it is seen inside, and rolled back with it.
func TestTx_IsTheSameTransaction(t *testing.T) {
	t.Parallel()
	db := open(t, devpgtest.NewEmpty(t), 2)
	must(t, db.Gorm.Exec(`CREATE TABLE things (id int)`).Error)
	for name, session := range map[string]*gorm.DB{"Plain": db.Gorm, "Prepared": db.Gorm.Session(&gorm.Session{PrepareStmt: true})} {
		tx := session.Begin()
		defer tx.Rollback()
		inner, err := database.Tx(tx)
		must(t, err)
		_, err = inner.ExecContext(t.Context(), `INSERT INTO things VALUES (1)`)
		must(t, err)
		var inside, outside int
		must(t, tx.Raw(`SELECT count(*) FROM things`).Scan(&inside).Error)
		must(t, tx.Rollback().Error)
		must(t, db.Gorm.Raw(`SELECT count(*) FROM things`).Scan(&outside).Error)
		if inside != 1 || outside != 0 {
			t.Errorf("%s: %d rows inside, %d after the rollback", name, inside, outside)
		}
	}
	if _, err := database.Tx(db.Gorm); err == nil {
		t.Error("a session without a transaction has one")
	}
}
