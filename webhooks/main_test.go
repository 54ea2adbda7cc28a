package webhooks_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stripe/stripe-go/v79/webhook"
	"gorm.io/gorm"

	"paidonce/internal/database"
	"paidonce/internal/devpg/devpgtest"
	"paidonce/internal/web"
	"paidonce/webhooks"
)

// Real: Postgres with the project's migrations, the HTTP server, the router with its middleware,
// and stripe-go, which signs. Made up: event bodies, and the clock that signatures are judged by.
// A test may assert on answers, on the rows of webhook_deliveries and delivery_resources, and on
// notifications.
func TestMain(m *testing.M) { os.Exit(devpgtest.Run(m)) }

const secret = "whsec_test_1f2e"

// signedAt is the provider's time of signing, and the receiver's clock.
func signedAt() time.Time { return time.Unix(1_700_000_000, 0).UTC() }

// ledger is a migrated database with an inbox on it.
type ledger struct {
	dsn   string
	db    *database.DB
	inbox *webhooks.Inbox
}

func newLedger(tb testing.TB) ledger {
	tb.Helper()
	return openLedger(tb, devpgtest.New(tb), 8)
}

// openLedger opens another pool on a database: another process.
func openLedger(tb testing.TB, dsn string, conns int32) ledger {
	tb.Helper()
	db, err := database.Open(tb.Context(), dsn, database.Options{MaxConns: conns})
	must(tb, err)
	tb.Cleanup(db.Close)
	return ledger{dsn, db, webhooks.NewInbox(db.Gorm)}
}

func (l ledger) exec(tb testing.TB, sql string, args ...any) {
	tb.Helper()
	_, err := l.db.Pool.Exec(tb.Context(), sql, args...)
	must(tb, err)
}

// query reads one value.
func query[T any](tb testing.TB, l ledger, sql string, args ...any) T {
	tb.Helper()
	var v T
	must(tb, l.db.Pool.QueryRow(tb.Context(), sql, args...).Scan(&v))
	return v
}

// begin opens a transaction; what a test that fails leaves of it is rolled back.
func (l ledger) begin(tb testing.TB) *gorm.DB {
	tb.Helper()
	tx := l.db.Gorm.Begin()
	must(tb, tx.Error)
	tb.Cleanup(func() { tx.Rollback() })
	return tx
}

// connect opens a session of its own, outside every pool.
func (l ledger) connect(tb testing.TB) *pgx.Conn {
	tb.Helper()
	conn, err := pgx.Connect(tb.Context(), l.dsn)
	must(tb, err)
	tb.Cleanup(func() { _ = conn.Close(context.WithoutCancel(tb.Context())) })
	return conn
}

// record stores one event of the test's provider.
func (l ledger) record(tb testing.TB, id string) webhooks.Key {
	tb.Helper()
	got, err := l.inbox.Record(tb.Context(), envelope(id), webhooks.SourceWebhook, []byte(`{}`))
	must(tb, err)
	if got != webhooks.Accepted {
		tb.Fatalf("event %s: %s, want accepted", id, got)
	}
	return webhooks.Key{Provider: "stripe", EventID: id}
}

func envelope(id string) webhooks.Envelope {
	return webhooks.Envelope{Provider: "stripe", EventID: id, EventType: "charge.succeeded", ResourceID: "ch_1"}
}

// newDoor serves webhooks as the product does: its router, its middleware, its handler.
func newDoor(tb testing.TB, inbox *webhooks.Inbox, secrets ...string) *httptest.Server {
	tb.Helper()
	if len(secrets) == 0 {
		secrets = []string{secret}
	}
	router := web.NewRouter(slog.New(slog.DiscardHandler))
	newHandler(inbox, map[string]webhooks.Provider{"stripe": &webhooks.Stripe{Secrets: secrets}}).Register(router)
	server := httptest.NewServer(router)
	tb.Cleanup(server.Close)
	return server
}

func newHandler(inbox *webhooks.Inbox, providers map[string]webhooks.Provider) *webhooks.Handler {
	return &webhooks.Handler{Inbox: inbox, Providers: providers, Log: slog.New(slog.DiscardHandler), Now: signedAt}
}

// sign is a Stripe-Signature header of stripe-go's making.
func sign(body []byte, key string, at time.Time) string {
	return webhook.GenerateTestSignedPayload(&webhook.UnsignedPayload{Payload: body, Secret: key, Timestamp: at}).Header
}

// answer is what a sender sees.
type answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// field is a top-level string of the answer's JSON.
func (a answer) field(tb testing.TB, name string) string {
	tb.Helper()
	var fields map[string]any
	if err := json.Unmarshal(a.Body, &fields); err != nil {
		tb.Fatalf("answer %d %q: %v", a.Status, a.Body, err)
	}
	return fmt.Sprint(fields[name])
}

// post delivers a body that is signed with the test's secret.
func post(tb testing.TB, url string, body []byte) answer {
	tb.Helper()
	return send(tb, newRequest(tb, url, bytes.NewReader(body), sign(body, secret, signedAt())))
}

func newRequest(tb testing.TB, url string, body io.Reader, signature ...string) *http.Request {
	tb.Helper()
	request, err := http.NewRequestWithContext(tb.Context(), http.MethodPost, url+"/webhooks/stripe", body)
	must(tb, err)
	request.Header["Stripe-Signature"] = signature
	return request
}

// send follows no redirect: providers do not.
func send(tb testing.TB, request *http.Request) answer {
	tb.Helper()
	got, err := try(request)
	must(tb, err)
	return got
}

func try(request *http.Request) (answer, error) {
	response, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	return answer{response.StatusCode, response.Header, body}, err
}

// event is a body with the usual shape.
func event(id, kind, object string) []byte {
	return fmt.Appendf(nil, `{"id":%q,"object":"event","type":%q,"created":1700000000,"livemode":false,"api_version":"2024-06-20","data":{"object":%s}}`,
		id, kind, object)
}

// until polls a condition; it fails the test if it does not come true in time.
func until(tb testing.TB, what string, ok func() bool) {
	tb.Helper()
	deadline := time.NewTimer(20 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-deadline.C:
			tb.Fatalf("not within 20 s: %s", what)
		case <-tick.C:
		}
	}
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
