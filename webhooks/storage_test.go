package webhooks_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"paidonce/internal/devpg"
	"paidonce/internal/web"
	"paidonce/migrations"
	"paidonce/webhooks"
)

// B37: 200 is said only after the commit (I1). Each test takes the ledger away in another way, sees
// no success, brings it back, and sees the redelivery accepted as new.

// notStored asserts that a delivery was refused with a 503 that asks for another.
func notStored(tb testing.TB, got answer) {
	tb.Helper()
	wantProblem(tb, "not stored", got, 503, "NOT_STORED")
	if got.Header.Get("Retry-After") == "" {
		tb.Error("no Retry-After")
	}
}

// thenAccepted asserts that nothing had been stored, and that the redelivery is.
func thenAccepted(tb testing.TB, l ledger, url string, body []byte) {
	tb.Helper()
	if got := query[int](tb, l, `SELECT count(*) FROM webhook_deliveries`); got != 0 {
		tb.Errorf("%d rows after a refusal, want none", got)
	}
	if got := post(tb, url, body); got.Status != 200 || got.field(tb, "status") != "accepted" {
		tb.Errorf("redelivered: got %d %s, want it accepted", got.Status, got.Body)
	}
	if got := post(tb, url, body); got.Status != 200 || got.field(tb, "status") != "duplicate" {
		tb.Errorf("once more: got %d %s, want duplicate", got.Status, got.Body)
	}
}

func TestB37_PostgresStopped(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "paidonce-b37-") // t.TempDir is closed to the account that a root's server runs as
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	must(t, os.Chmod(dir, 0o755))
	start := func() *devpg.Server {
		server, err := devpg.Start(t.Context(), devpg.Options{Dir: filepath.Join(dir, "pg")})
		must(t, err)
		return server
	}
	stop := func(server *devpg.Server) { must(t, server.Stop(context.WithoutCancel(t.Context()))) }

	server := start()
	l := openLedger(t, server.URL("postgres"), 4)
	_, err = migrations.Up(t.Context(), l.dsn)
	must(t, err)
	door := newDoor(t, l.inbox)
	body := event("evt_1", "charge.succeeded", `{"id":"ch_1"}`)
	stop(server)
	notStored(t, post(t, door.URL, body)) // on connections that were open
	notStored(t, post(t, door.URL, body)) // and on new ones

	server = start()
	t.Cleanup(func() { stop(server) })
	again := openLedger(t, server.URL("postgres"), 4) // the private socket has a new address
	thenAccepted(t, again, newDoor(t, again.inbox).URL, body)
}

// The backend is killed while the insert is done and the commit is not.
func TestB37_KilledBetweenInsertAndCommit(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	door := newDoor(t, l.inbox)
	// The trigger runs after the row is in the table, and waits for a lock that the test holds.
	l.exec(t, `CREATE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_advisory_xact_lock(7); RETURN NULL; END';
		CREATE TRIGGER hold AFTER INSERT ON webhook_deliveries FOR EACH ROW EXECUTE FUNCTION hold()`)
	holder := l.connect(t)
	_, err := holder.Exec(t.Context(), `SELECT pg_advisory_lock(7)`)
	must(t, err)

	body := event("evt_1", "charge.succeeded", `{"id":"ch_1"}`)
	said := make(chan answer, 1)
	go func() {
		got, err := try(newRequest(t, door.URL, strings.NewReader(string(body)), sign(body, secret, signedAt())))
		if err != nil {
			t.Error(err)
		}
		said <- got
	}()
	waitForBlocked(t, l, 1)
	select {
	case got := <-said:
		t.Fatalf("answered %d before the commit", got.Status)
	default:
	}
	l.exec(t, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`)
	notStored(t, <-said)
	_, err = holder.Exec(t.Context(), `SELECT pg_advisory_unlock(7)`)
	must(t, err)
	thenAccepted(t, l, door.URL, body)
}

// A statement that Postgres refuses is no success either: a full disk, a failing trigger.
func TestB37_InsertFails(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	door := newDoor(t, l.inbox)
	l.exec(t, `CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''secret internals'' USING ERRCODE = ''disk_full''; END';
		CREATE TRIGGER full_disk BEFORE INSERT ON webhook_deliveries FOR EACH ROW EXECUTE FUNCTION full_disk()`)
	body := event("evt_1", "charge.succeeded", `{"id":"ch_1"}`)
	got := post(t, door.URL, body)
	notStored(t, got)
	if strings.Contains(string(got.Body), "internals") {
		t.Errorf("the answer tells what is inside: %s", got.Body)
	}
	l.exec(t, `DROP TRIGGER full_disk ON webhook_deliveries`)
	thenAccepted(t, l, door.URL, body)
}

// The commit itself fails, after the row and the answer's counts are made.
func TestB37_CommitFails(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	door := newDoor(t, l.inbox)
	l.exec(t, `CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''not now''; END';
		CREATE CONSTRAINT TRIGGER refuse AFTER INSERT ON webhook_deliveries DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION refuse()`)
	body := event("evt_1", "charge.succeeded", `{"id":"ch_1"}`)
	notStored(t, post(t, door.URL, body))
	l.exec(t, `DROP TRIGGER refuse ON webhook_deliveries`)
	thenAccepted(t, l, door.URL, body)
}

// Every connection is taken, and the sender's patience ends first.
func TestB37_PoolExhausted(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	small := openLedger(t, l.dsn, 1)
	taken, err := small.db.Pool.Acquire(t.Context())
	must(t, err)
	body := event("evt_1", "charge.succeeded", `{"id":"ch_1"}`)

	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	notStored(t, serve(ctx, small.inbox, body))
	taken.Release()
	thenAccepted(t, small, newDoor(t, small.inbox).URL, body)
}

// The sender hangs up before the statement begins.
func TestB37_SenderGone(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	body := event("evt_1", "charge.succeeded", `{"id":"ch_1"}`)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	notStored(t, serve(ctx, l.inbox, body))
	thenAccepted(t, l, newDoor(t, l.inbox).URL, body)
}

// The sender hangs up while the statement waits; over HTTP, as a sender does.
func TestB37_SenderHangsUpMidway(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	door := newDoor(t, l.inbox)
	tx, err := l.connect(t).Begin(t.Context())
	must(t, err)
	_, err = tx.Exec(t.Context(), `LOCK TABLE webhook_deliveries IN SHARE MODE`)
	must(t, err)

	body := event("evt_1", "charge.succeeded", `{"id":"ch_1"}`)
	ctx, cancel := context.WithCancel(t.Context())
	request := newRequest(t, door.URL, strings.NewReader(string(body)), sign(body, secret, signedAt())).WithContext(ctx)
	gone := make(chan error, 1)
	go func() { _, err := try(request); gone <- err }()
	waitForBlocked(t, l, 1)
	cancel()
	if err := <-gone; err == nil {
		t.Error("answered a sender that had hung up")
	}
	waitForBlocked(t, l, 0) // the statement ended with its sender
	must(t, tx.Rollback(t.Context()))
	thenAccepted(t, l, door.URL, body)
}

// A table that cannot be written for longer than a sender should wait ends in a refusal by itself:
// the session's lock_timeout is shorter than the handler's patience.
func TestB37_LockedTable(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	impatient := openLedger(t, withSetting(l.dsn, "lock_timeout=100ms"), 2)
	door := newDoor(t, impatient.inbox)
	tx, err := l.connect(t).Begin(t.Context())
	must(t, err)
	_, err = tx.Exec(t.Context(), `LOCK TABLE webhook_deliveries IN SHARE MODE`)
	must(t, err)
	body := event("evt_1", "charge.succeeded", `{"id":"ch_1"}`)
	notStored(t, post(t, door.URL, body))
	must(t, tx.Rollback(t.Context()))
	thenAccepted(t, impatient, door.URL, body)
}

// serve hands one signed request to the product's router, under a context of the test's.
func serve(ctx context.Context, inbox *webhooks.Inbox, body []byte) answer {
	router := web.NewRouter(slog.New(slog.DiscardHandler))
	newHandler(inbox, map[string]webhooks.Provider{"stripe": &webhooks.Stripe{Secrets: []string{secret}}}).Register(router)
	request := httptest.NewRequestWithContext(ctx, http.MethodPost, "/webhooks/stripe", strings.NewReader(string(body)))
	request.Header.Set("Stripe-Signature", sign(body, secret, signedAt()))
	recorder := httptest.NewRecorder()
	router.ServeHTTP(recorder, request)
	return answer{recorder.Code, recorder.Header(), recorder.Body.Bytes()}
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
