// Package devpgtest gives every test a PostgreSQL database of its own. It is for tests only.
//
// It owns one cluster per test binary, started by the first test that asks and stopped by
// [Run], or the server that DATABASE_URL names; there, it creates and drops databases called
// paidonce_test_<random> and touches nothing else. It promises that each call of [New] or
// [NewEmpty] returns a database that nobody else has, that parallel tests may call them, and
// that a missing PostgreSQL fails the test: a test is never skipped for it.
//
//	func TestMain(m *testing.M) { os.Exit(devpgtest.Run(m)) }
//
//	func TestRefund(t *testing.T) {
//		t.Parallel()
//		dsn := devpgtest.New(t) // migrated; dropped when the test ends
//		…
//	}
//
// The schema is migrated once per test binary, into a template that New clones: some tens of
// milliseconds a test instead of a second.
//
// With PAIDONCE_KEEP_DB=1 the database of a failed test is kept for psql, and the test's log
// tells its address. A private cluster's folder is then kept too; Run tells how to start it.
//
// A test binary that is killed leaves no private server. On a server of DATABASE_URL it
// leaves its databases, which may be dropped at any time when no tests run.
package devpgtest
