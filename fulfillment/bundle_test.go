package fulfillment_test

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/riverqueue/river"

	"paidonce/fulfillment"
	"paidonce/internal/database"
	"paidonce/internal/devpg/devpgtest"
	"paidonce/internal/money"
	"paidonce/internal/provider"
	"paidonce/internal/stripesim"
	"paidonce/licenses"
	"paidonce/orders"
	"paidonce/webhooks"
)

// Real: Postgres with the project's migrations, every transaction, the job queue's tables and
// in queue_test.go its client, and the HTTP client that talks to the provider. Doubled: the
// provider (a simulated Stripe behind HTTP), the transport of mails (a recorder, or in
// mailer_test.go an SMTP server of the test's own), and, where a test says so, the reading of
// an event's body. Time moves by rows' timestamps being changed in SQL.
//
// A test may assert on rows, on what the simulated Stripe was asked, and on what the mailer
// was given. It must not assert on log lines, alerts excepted, or on how many statements
// something takes.
func TestMain(m *testing.M) {
	if dsn := os.Getenv(poisonEnv); dsn != "" {
		os.Exit(drainAsChild(dsn))
	}
	if dsn := os.Getenv(jobPoisonEnv); dsn != "" {
		os.Exit(workAsChild(dsn, os.Getenv(poisonOrderEnv)))
	}
	os.Exit(devpgtest.Run(m))
}

// testBundle is one process's parts, wired as cmd does it, on a database of the test's own.
type testBundle struct {
	dsn      string
	db       *database.DB
	sim      *stripesim.Sim
	simURL   string
	inbox    *webhooks.Inbox
	orders   *orders.Store
	licenses *licenses.Store
	calls    *provider.Calls
	queue    *fulfillment.Queue
	service  *fulfillment.Service
	drainer  *fulfillment.Drainer
	mailer   *recorder
	stripe   *webhooks.Stripe

	// offline is set where orders were placed that the provider does not know: jobs that
	// would ask it about them are left out.
	offline bool
}

const (
	testSecret = "whsec_test"
	testSender = "Shop <shop@example.com>"
	deadline   = 30 * time.Second // of a test that waits: never reached unless it fails
)

// setup is a fresh database, a simulated Stripe, and one process.
func setup(t *testing.T) *testBundle {
	t.Helper()
	b := setupAt(t, devpgtest.New(t))
	b.importProducts(t)
	return b
}

func setupAt(t *testing.T, dsn string) *testBundle {
	t.Helper()
	sim := stripesim.New(stripesim.Config{})
	server := httptest.NewServer(sim.Handler())
	t.Cleanup(server.Close)
	t.Cleanup(sim.Close) // first: it ends injected waits
	return newProcess(t, dsn, sim, server.URL, &recorder{}, 0)
}

// another is a second process on the same database, with a pool of its own.
func (b *testBundle) another(t *testing.T) *testBundle {
	t.Helper()
	other := newProcess(t, b.dsn, b.sim, b.simURL, b.mailer, 0)
	other.offline = b.offline
	return other
}

func newProcess(t *testing.T, dsn string, sim *stripesim.Sim, simURL string, mailer *recorder, conns int32) *testBundle {
	t.Helper()
	b, err := wire(t.Context(), dsn, simURL, mailer, conns)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.db.Close)
	b.sim, b.simURL = sim, simURL
	return b
}

// wire joins the parts as cmd/paidonce/app.go does.
func wire(ctx context.Context, dsn, simURL string, mailer *recorder, conns int32) (*testBundle, error) {
	db, err := database.Open(ctx, dsn, database.Options{MaxConns: conns})
	if err != nil {
		return nil, err
	}
	keys, err := licenses.ParseKeyring("k1:nWGxne/9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A=")
	if err != nil {
		return nil, err
	}
	log := slog.New(slog.DiscardHandler)
	b := &testBundle{dsn: dsn, db: db, mailer: mailer, stripe: &webhooks.Stripe{Secrets: []string{testSecret}}}
	b.licenses = &licenses.Store{Keys: keys}
	b.queue = &fulfillment.Queue{Licenses: b.licenses}
	b.inbox = webhooks.NewInbox(db.Gorm)
	stripe := provider.NewStripe(provider.StripeConfig{Key: "sk_test_1", Base: simURL})
	b.calls = &provider.Calls{DB: db.Gorm, Stripe: stripe, Jobs: b.queue, Now: database.Now}
	b.orders = orders.New(db.Gorm)
	b.calls.Guard = b.orders.StillWanted
	b.orders.Calls, b.orders.Follower, b.orders.Reader, b.orders.Releaser = b.calls, b.queue, b.queue, b.inbox
	b.service = &fulfillment.Service{
		DB: db.Gorm, Orders: b.orders, Licenses: b.licenses, Inbox: b.inbox, Calls: b.calls, Stripe: stripe, Queue: b.queue,
		Mailer: mailer, MailFrom: testSender, SendLease: fulfillment.DefaultSendLease, Now: database.Now, Log: log,
	}
	testMode := false
	b.drainer = &fulfillment.Drainer{
		DB: db.Gorm, Inbox: b.inbox, Orders: b.orders, Queue: b.queue,
		Providers: map[string]webhooks.Provider{"stripe": b.stripe}, Livemode: &testMode,
		Batch: fulfillment.DefaultBatch, Lease: fulfillment.DefaultLease, MaxAttempts: fulfillment.DefaultMaxAttempts,
		ParkFor: fulfillment.DefaultParkFor, Log: log,
	}
	b.queue.Client, err = fulfillment.NewClient(db, nil, nil, 0, log)
	return b, err
}

func (b *testBundle) importProducts(t *testing.T) {
	t.Helper()
	err := b.orders.ImportProducts(t.Context(), []orders.Product{
		{SKU: "KEY-1", Name: "Key", UnitMinor: 1999, Currency: "usd"},
		{SKU: "KEY-2", Name: "Small key", UnitMinor: 500, Currency: "usd"},
	})
	if err != nil {
		t.Fatal(err)
	}
}

// merchant is what all orders of a test have in common.
func merchant() orders.Merchant {
	return orders.Merchant{ReturnURL: func(uuid.UUID) (string, string) {
		return "https://shop.example.com/return", "https://shop.example.com/cancel"
	}}
}

// order creates one through the real calls: written down, and its checkout opened at the
// provider.
func (b *testBundle) order(t *testing.T, items ...orders.Item) order {
	t.Helper()
	o := b.unopened(t, items...)
	if err := b.service.OpenCheckout(t.Context(), o.callKey); err != nil {
		t.Fatal(err)
	}
	return b.reload(t, o)
}

// unopened is an order whose checkout the provider has not been asked for yet.
func (b *testBundle) unopened(t *testing.T, items ...orders.Item) order {
	t.Helper()
	if len(items) == 0 {
		items = []orders.Item{{SKU: "KEY-1", Quantity: 2}}
	}
	created, err := b.orders.Create(t.Context(), merchant(), orders.NewOrder{Email: "a@example.com", Locale: "en", Items: items})
	if err != nil {
		t.Fatal(err)
	}
	o := order{ID: created.Order.ID, Total: created.Order.TotalMinor, Currency: created.Order.Currency, callKey: created.CallKey}
	for _, item := range items {
		o.Quantity += item.Quantity
	}
	o.checkouts = []checkout{{PaymentID: created.PaymentID, Order: o.ID, Amount: o.Total}}
	return o
}

// secondCheckout opens another checkout for the same order, as a buyer does who comes back.
func (b *testBundle) secondCheckout(t *testing.T, o order) order {
	t.Helper()
	now := database.Now()
	payment := orders.Payment{
		ID: uuid.Must(uuid.NewV7()), OrderID: o.ID, Provider: "stripe", Currency: o.Currency, ExpectedMinor: o.Total,
		Status: orders.StatusOpen, CreatedAt: now, UpdatedAt: now,
	}
	call := provider.CheckoutRequest{
		PaymentID: payment.ID, OrderID: o.ID, Email: "a@example.com", SuccessURL: "https://shop.example.com/return", CancelURL: "https://shop.example.com/cancel",
		Items: []provider.CheckoutItem{{Name: "Key", Quantity: 1, Unit: money.Amount{Minor: o.Total, Currency: o.Currency}}},
	}.Call()
	tx := b.db.Gorm.WithContext(t.Context()).Begin()
	err := errors.Join(tx.Create(&payment).Error, b.calls.Intend(t.Context(), tx, call), tx.Commit().Error)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.service.OpenCheckout(t.Context(), call.IdempotencyKey); err != nil {
		t.Fatal(err)
	}
	o.checkouts = append(o.checkouts, checkout{PaymentID: payment.ID, Order: o.ID, Amount: o.Total})
	return b.reload(t, o)
}

// reload fills in what the provider's answers taught.
func (b *testBundle) reload(t *testing.T, o order) order {
	t.Helper()
	view, err := b.orders.Get(t.Context(), o.ID)
	if err != nil {
		t.Fatal(err)
	}
	for i := range o.checkouts {
		for _, p := range view.Payments {
			if p.ID == o.checkouts[i].PaymentID && p.ResourceID != nil {
				o.checkouts[i].Session, o.checkouts[i].Created = *p.ResourceID, p.ObjectCreatedAt.Unix()
			}
		}
	}
	return o
}

// record brings an event in by the door: verified, then stored.
func (b *testBundle) record(t *testing.T, body []byte) webhooks.Recorded {
	t.Helper()
	recorded, err := b.tryRecord(t.Context(), body)
	if err != nil {
		t.Fatal(err)
	}
	return recorded
}

func (b *testBundle) tryRecord(ctx context.Context, body []byte) (webhooks.Recorded, error) {
	now := time.Now()
	header := http.Header{b.stripe.SignatureHeader(): {stripesim.Sign(body, now, testSecret)}}
	envelope, err := b.stripe.Verify(header, body, now)
	if err != nil {
		return "", err
	}
	return b.inbox.Record(ctx, envelope, webhooks.SourceWebhook, body)
}

// client is a client that works the jobs of this process, once it is started.
func (b *testBundle) client(t *testing.T, perQueue int) *river.Client[*sql.Tx] {
	t.Helper()
	client, err := fulfillment.NewClient(b.db, fulfillment.Workers(b.service), fulfillment.Queues(), perQueue, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	b.queue.Client = client
	return client
}
