package migrations_test

import (
	"database/sql"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"paidonce/internal/devpg/devpgtest"
	"paidonce/migrations"
)

// Real: Postgres, every migration, and the queue's. Made up: a row of a newer binary's migration.
func TestMain(m *testing.M) { os.Exit(devpgtest.Run(m)) }

func open(tb testing.TB, dsn string) *sql.DB {
	tb.Helper()
	db, err := sql.Open("pgx", dsn)
	must(tb, err)
	tb.Cleanup(func() { _ = db.Close() })
	return db
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// tables lists what there is, but for goose's own table.
func tables(tb testing.TB, db *sql.DB) []string {
	tb.Helper()
	var list string
	must(tb, db.QueryRowContext(tb.Context(), `SELECT coalesce(string_agg(tablename, ' ' ORDER BY tablename), '') FROM pg_tables
		WHERE schemaname = 'public' AND tablename <> 'goose_db_version'`).Scan(&list))
	return strings.Fields(list)
}

// from lists the versions from one on to the newest.
func from(version int64) []int64 {
	var v []int64
	for ; version <= migrations.Newest(); version++ {
		v = append(v, version)
	}
	return v
}

func versions(list []migrations.Migration) []int64 {
	var v []int64
	for _, m := range list {
		v = append(v, m.Version)
	}
	return v
}

// Up from empty, all the way down, and up again: each time the same schema, the queue's included.
func TestUpDownUp(t *testing.T) {
	t.Parallel()
	dsn := devpgtest.NewEmpty(t)
	db := open(t, dsn)
	all := from(1)
	var first []string
	for round := range 2 {
		applied, err := migrations.Up(t.Context(), dsn)
		must(t, err)
		if diff := cmp.Diff(all, versions(applied)); diff != "" {
			t.Fatalf("round %d: applied (-want +got)\n%s", round, diff)
		}
		must(t, migrations.Check(t.Context(), db))
		if again, err := migrations.Up(t.Context(), dsn); err != nil || len(again) != 0 {
			t.Errorf("round %d: up again applied %v, %v; want nothing", round, again, err)
		}
		if round == 0 {
			first = tables(t, db)
		} else if diff := cmp.Diff(first, tables(t, db)); diff != "" {
			t.Errorf("the second time up differs (-first +second)\n%s", diff)
		}

		for version := int64(len(all)); version > 0; version-- {
			undone, err := migrations.Down(t.Context(), dsn)
			must(t, err)
			if undone == nil || undone.Version != version {
				t.Fatalf("round %d: took back %+v, want version %d", round, undone, version)
			}
			if err := migrations.Check(t.Context(), db); !errors.Is(err, migrations.ErrBehind) {
				t.Errorf("round %d: below version %d: got %v, want behind", round, version, err)
			}
		}
		if left := tables(t, db); len(left) != 0 {
			t.Errorf("round %d: left behind: %v", round, left)
		}
		if undone, err := migrations.Down(t.Context(), dsn); err != nil || undone != nil {
			t.Errorf("round %d: down from nothing: %+v, %v", round, undone, err)
		}
	}
	if got := query[int](t, db, `SELECT count(*) FROM pg_proc WHERE pronamespace = 'public'::regnamespace`); got != 0 {
		t.Errorf("%d functions left behind", got)
	}
}

func TestUp_Tables(t *testing.T) {
	t.Parallel()
	db := open(t, devpgtest.New(t))
	var ours, queue []string
	for _, table := range tables(t, db) {
		if strings.HasPrefix(table, "river_") {
			queue = append(queue, table)
		} else {
			ours = append(ours, table)
		}
	}
	want := []string{
		"api_requests", "delivery_resources", "disputes", "licenses", "order_decisions", "order_lines", "order_transitions", "orders",
		"payment_resources", "payments", "products", "provider_calls", "reconcile_findings", "reconcile_runs", "refunds", "sent_receipts",
		"webhook_deliveries",
	}
	if diff := cmp.Diff(want, ours); diff != "" {
		t.Errorf("ours (-want +got)\n%s", diff)
	}
	if diff := cmp.Diff([]string{"river_job", "river_leader", "river_migration", "river_notification", "river_queue"}, queue); diff != "" {
		t.Errorf("the queue's (-want +got)\n%s", diff)
	}
}

func TestStatus(t *testing.T) {
	t.Parallel()
	dsn := devpgtest.NewEmpty(t)
	before, err := migrations.Status(t.Context(), dsn)
	must(t, err)
	_, err = migrations.Up(t.Context(), dsn)
	must(t, err)
	after, err := migrations.Status(t.Context(), dsn)
	must(t, err)
	if diff := cmp.Diff(from(1), versions(before)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	for i := range before {
		if !before[i].AppliedAt.IsZero() || after[i].AppliedAt.IsZero() {
			t.Errorf("version %d: applied at %s before, %s after", before[i].Version, before[i].AppliedAt, after[i].AppliedAt)
		}
		if before[i].Name != after[i].Name || before[i].Name == "" {
			t.Errorf("version %d is called %q, then %q", before[i].Version, before[i].Name, after[i].Name)
		}
	}
	if got := after[3].Name; got != "river" {
		t.Errorf("the queue's migration is called %q", got)
	}
}

// A database that no migration has touched is behind, not broken.
func TestCheck_EmptyDatabaseIsBehind(t *testing.T) {
	t.Parallel()
	err := migrations.Check(t.Context(), open(t, devpgtest.NewEmpty(t)))
	if !errors.Is(err, migrations.ErrBehind) || !errors.Is(err, migrations.ErrEmpty) || !strings.Contains(err.Error(), "paidonce migrate up") {
		t.Errorf("got %v, want behind and empty, and what to do", err)
	}
}

// An older binary refuses a newer database, and changes nothing of it.
func TestAhead(t *testing.T) {
	t.Parallel()
	dsn := devpgtest.New(t)
	db := open(t, dsn)
	_, err := db.ExecContext(t.Context(), `INSERT INTO goose_db_version (version_id, is_applied) VALUES ($1, true)`, migrations.Newest()+1)
	must(t, err)
	before := tables(t, db)
	if err := migrations.Check(t.Context(), db); !errors.Is(err, migrations.ErrAhead) {
		t.Errorf("Check: got %v, want ahead", err)
	}
	if applied, err := migrations.Up(t.Context(), dsn); !errors.Is(err, migrations.ErrAhead) || len(applied) != 0 {
		t.Errorf("Up: got %v, %v; want ahead", applied, err)
	}
	if undone, err := migrations.Down(t.Context(), dsn); err == nil {
		t.Errorf("Down: took back %+v of a schema it does not know", undone)
	}
	if diff := cmp.Diff(before, tables(t, db)); diff != "" {
		t.Errorf("changed (-before +after)\n%s", diff)
	}
}

// A migration that fails leaves none of itself, and the next run goes on from there.
func TestUp_AFailedMigrationLeavesNothing(t *testing.T) {
	t.Parallel()
	dsn := devpgtest.NewEmpty(t)
	db := open(t, dsn)
	_, err := db.ExecContext(t.Context(), `CREATE TABLE payments (id int)`) // in the way of version 2
	must(t, err)
	if _, err := migrations.Up(t.Context(), dsn); err == nil {
		t.Fatal("no error")
	}
	if diff := cmp.Diff([]string{"delivery_resources", "payments", "webhook_deliveries"}, tables(t, db)); diff != "" {
		t.Errorf("after the failure (-want +got)\n%s", diff)
	}
	_, err = db.ExecContext(t.Context(), `DROP TABLE payments`)
	must(t, err)
	applied, err := migrations.Up(t.Context(), dsn)
	must(t, err)
	if diff := cmp.Diff(from(2), versions(applied)); diff != "" {
		t.Errorf("the next run (-want +got)\n%s", diff)
	}
}

// A migration never takes a connection from the traffic, and leaves none behind.
func TestUp_LeavesNoSessionAndNoLock(t *testing.T) {
	t.Parallel()
	dsn := devpgtest.NewEmpty(t)
	_, err := migrations.Up(t.Context(), dsn)
	must(t, err)
	db := open(t, dsn)
	if got := query[int](t, db, `SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`); got != 0 {
		t.Errorf("%d advisory locks are held", got)
	}
}

func query[T any](tb testing.TB, db *sql.DB, stmt string, args ...any) T {
	tb.Helper()
	var v T
	must(tb, db.QueryRowContext(tb.Context(), stmt, args...).Scan(&v))
	return v
}
