package devpgtest

// What is real: the server, its databases and the migrations. What is doubled: testing.TB
// where a test has to fail without failing (recorder), and DATABASE_URL, which is a database
// of the shared server.

import (
	"database/sql"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"paidonce/migrations"
)

func TestMain(m *testing.M) { os.Exit(Run(m)) }

func TestNew_IsMigratedAndIsolated(t *testing.T) {
	t.Parallel()
	a, b := New(t), New(t)
	for _, dsn := range []string{a, b} {
		db, err := sql.Open("pgx", dsn)
		must(t, err)
		must(t, migrations.Check(t.Context(), db))
		must(t, db.Close())
	}
	execute(t, a, "CREATE TABLE only_in_a ()")
	if query[bool](t, b, "SELECT to_regclass('only_in_a') IS NOT NULL") {
		t.Error("two tests share a database")
	}
}

func TestNew_InParallel(t *testing.T) {
	t.Parallel()
	const n = 8
	dsns := make([]string, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { dsns[i] = New(t) })
	}
	wg.Wait()
	names := map[string]bool{}
	for _, dsn := range dsns {
		names[query[string](t, dsn, "SELECT current_database()")] = true
	}
	if len(names) != n {
		t.Errorf("%d databases for %d calls", len(names), n)
	}
}

func TestNewEmpty_HasNoTables(t *testing.T) {
	t.Parallel()
	const tables = "SELECT count(*) FROM pg_tables WHERE schemaname NOT IN ('pg_catalog', 'information_schema')"
	if got := query[int](t, NewEmpty(t), tables); got != 0 {
		t.Errorf("%d tables, want none", got)
	}
}

// Several processes start at once after a deploy: one migrates, the others wait and find
// nothing to do.
func TestMigrationsUp_FiveAtOnce(t *testing.T) {
	t.Parallel()
	const n = 5
	dsn := NewEmpty(t)
	start := make(chan struct{})
	applied, errs := make([]int, n), make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			<-start
			done, err := migrations.Up(t.Context(), dsn)
			applied[i], errs[i] = len(done), err
		})
	}
	close(start)
	wg.Wait()

	workers, total := 0, 0
	for i := range n {
		if errs[i] != nil {
			t.Errorf("process %d: %v", i, errs[i])
		}
		if applied[i] > 0 {
			workers++
		}
		total += applied[i]
	}
	all, err := migrations.Status(t.Context(), dsn)
	must(t, err)
	if workers != 1 || total != len(all) {
		t.Errorf("applied %v: want one run of all %d", applied, len(all))
	}
}

func TestCleanup_DropsInSpiteOfSessions(t *testing.T) {
	t.Parallel()
	r := &recorder{TB: t}
	dsn := shared.create(r, true)
	left := connect(t, dsn)
	r.end()
	if r.said != "" {
		t.Errorf("the test was told %q", r.said)
	}
	if left.Ping(t.Context()) == nil || reachable(t, dsn) {
		t.Error("the database is still there")
	}
}

func TestCleanup_OfAFailedTest(t *testing.T) {
	t.Parallel()
	for name, keep := range map[string]bool{"Kept": true, "NotKept": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := onServer(t, NewEmpty(t))
			if keep {
				c.set(keepEnv, "1")
			}
			r := &recorder{TB: t, failed: true}
			dsn := c.create(r, false)
			database := query[string](t, dsn, "SELECT current_database()")
			r.end()
			if !strings.Contains(r.said, database) {
				t.Errorf("the test was told %q, want the database's name", r.said)
			}
			if got := reachable(t, dsn); got != keep {
				t.Errorf("the database is there: %v, want %v", got, keep)
			}
			must(t, shared.drop(database))
		})
	}
}

// A private cluster of a failed test stays as a folder; one without failures does not.
func TestKeep_PrivateFolder(t *testing.T) {
	t.Parallel()
	for name, failed := range map[string]bool{"Failed": true, "Passed": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := private(t)
			c.set(keepEnv, "1")
			r := &recorder{TB: t, failed: failed}
			c.create(r, false)
			r.end()
			var out strings.Builder
			must(t, c.close(&out))
			_, err := os.Stat(c.folder)
			if there := err == nil; there != failed || strings.Contains(out.String(), c.folder) != failed {
				t.Errorf("the folder is there: %v, want %v; said: %s", there, failed, out.String())
			}
			must(t, os.RemoveAll(c.folder))
		})
	}
}

// On a server of DATABASE_URL only databases of our own come and go.
func TestDatabaseURL_IsUsedAndLeftAlone(t *testing.T) {
	t.Parallel()
	theirs := NewEmpty(t)
	execute(t, theirs, "CREATE TABLE precious (id int); INSERT INTO precious VALUES (7)")
	c := onServer(t, theirs)
	r := &recorder{TB: t}
	dsn := c.create(r, true)
	if name := query[string](t, dsn, "SELECT current_database()"); !strings.HasPrefix(name, "paidonce_test_") {
		t.Errorf("the database is called %s", name)
	}
	template := c.template
	r.end()
	must(t, c.close(os.Stderr))

	if reachable(t, dsn) {
		t.Error("the test's database is left behind")
	}
	if query[int](t, theirs, "SELECT count(*) FROM pg_database WHERE datname = '"+template+"'") != 0 {
		t.Error("the template is left behind")
	}
	if c.server != nil {
		t.Error("a private server was started beside DATABASE_URL's")
	}
	if got := query[string](t, theirs, "SELECT string_agg(tablename, ',') FROM pg_tables WHERE schemaname = 'public'"); got != "precious" {
		t.Errorf("tables of the named database: %s, want precious alone", got)
	}
}

func TestNew_FailsClearly(t *testing.T) {
	t.Parallel()
	wrong := private(t)
	wrong.set("PAIDONCE_PG_BIN", t.TempDir())
	for name, test := range map[string]struct {
		c    *cluster
		want string
	}{
		"WithoutRun":      {&cluster{getenv: os.Getenv}, "os.Exit(devpgtest.Run(m))"},
		"WithoutBinaries": {wrong.cluster, "PAIDONCE_PG_BIN"},
		"UnreadableURL":   {onServer(t, "postgres://u:secret@[::1/db").cluster, urlEnv},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for range 2 { // the second test of a binary hears the same
				r := &recorder{TB: t}
				r.run(func() { test.c.create(r, true) })
				if !r.failed || !strings.Contains(r.said, test.want) || strings.Contains(r.said, "secret") {
					t.Errorf("failed %v, said %q; want %q", r.failed, r.said, test.want)
				}
			}
		})
	}
}

func TestWithDatabase(t *testing.T) {
	t.Parallel()
	got := map[string]string{}
	for _, dsn := range []string{
		"postgres://u:p%40ss@db:5432/shop?sslmode=require",
		"postgresql:///shop?host=/run/pg",
		"postgres://db/shop?dbname=other&sslmode=disable",
		"host=/run/pg dbname=shop",
	} {
		other, err := withDatabase(dsn, "x")
		must(t, err)
		config, err := pgx.ParseConfig(other)
		must(t, err)
		got[other] = config.Database
	}
	want := map[string]string{
		"postgres://u:p%40ss@db:5432/x?sslmode=require": "x",
		"postgresql:///x?host=/run/pg":                  "x",
		"postgres://db/x?sslmode=disable":               "x",
		"host=/run/pg dbname=shop dbname=x":             "x",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
