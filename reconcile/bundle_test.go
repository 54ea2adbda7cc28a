package reconcile_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"paidonce/fulfillment"
	"paidonce/internal/database"
	"paidonce/internal/devpg/devpgtest"
	"paidonce/internal/provider"
	"paidonce/internal/stripesim"
	"paidonce/licenses"
	"paidonce/orders"
	"paidonce/reconcile"
	"paidonce/webhooks"
)

// Real: Postgres with the project's migrations, every transaction, and the HTTP client that
// talks to the provider. Doubled: the provider, by a simulated Stripe behind HTTP that knows no
// webhook endpoint, so that no event arrives unless a test brings it. No jobs are worked: what
// is healed was healed by the run. Time moves by the simulated Stripe's clock, which is the
// runner's too, and by rows' timestamps being changed in SQL.
//
// A test may assert on reports, on rows, and on what the simulated Stripe was asked.
func TestMain(m *testing.M) { os.Exit(devpgtest.Run(m)) }

const testSecret = "whsec_test"

// bundle is one process, with an empty shop.
type bundle struct {
	t       *testing.T
	dsn     string
	db      *database.DB
	sim     *stripesim.Sim
	url     string
	mute    *atomic.Bool // the provider lists no events, as if they had never been made
	manual  *atomic.Bool // checkouts only authorize, as a merchant's settings at the provider may have it
	inbox   *webhooks.Inbox
	orders  *orders.Store
	service *fulfillment.Service
	drainer *fulfillment.Drainer
	events  *webhooks.Stripe
	runner  *reconcile.Runner
}

func setup(t *testing.T) *bundle {
	t.Helper()
	sim := stripesim.New(stripesim.Config{})
	mute, manual := &atomic.Bool{}, &atomic.Bool{}
	api := sim.Handler()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if mute.Load() && r.URL.Path == "/v1/events" {
			_, _ = fmt.Fprint(w, `{"object":"list","data":[],"has_more":false,"url":"/v1/events"}`)
			return
		}
		if manual.Load() && r.Method == http.MethodPost && r.URL.Path == "/v1/checkout/sessions" {
			r.Body = io.NopCloser(io.MultiReader(r.Body, strings.NewReader("&payment_intent_data[capture_method]=manual")))
			r.ContentLength = -1
		}
		api.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	t.Cleanup(sim.Close)
	b := process(t, devpgtest.New(t), sim, server.URL)
	b.mute, b.manual = mute, manual
	product := orders.Product{SKU: "KEY-1", Name: "Key", UnitMinor: 1999, Currency: "usd"}
	must(t, b.orders.ImportProducts(t.Context(), []orders.Product{product}))
	return b
}

// process wires one as cmd/paidonce does.
func process(t *testing.T, dsn string, sim *stripesim.Sim, url string) *bundle {
	t.Helper()
	db, err := database.Open(t.Context(), dsn, database.Options{MaxConns: 8})
	must(t, err)
	t.Cleanup(db.Close)
	keys, err := licenses.ParseKeyring("k1:nWGxne/9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A=")
	must(t, err)
	log := slog.New(slog.DiscardHandler)
	store := &licenses.Store{Keys: keys}
	queue := &fulfillment.Queue{Licenses: store}
	stripe := provider.NewStripe(provider.StripeConfig{Key: "sk_test_1", Base: url})
	calls := &provider.Calls{DB: db.Gorm, Stripe: stripe, Jobs: queue, Now: database.Now}
	b := &bundle{t: t, dsn: dsn, db: db, sim: sim, url: url, inbox: webhooks.NewInbox(db.Gorm), orders: orders.New(db.Gorm)}
	b.orders.Calls, b.orders.Follower, b.orders.Reader, b.orders.Releaser = calls, queue, queue, b.inbox
	b.service = &fulfillment.Service{
		DB: db.Gorm, Orders: b.orders, Licenses: store, Inbox: b.inbox, Calls: calls, Stripe: stripe, Queue: queue,
		SendLease: fulfillment.DefaultSendLease, Now: database.Now, Log: log,
	}
	b.events = &webhooks.Stripe{Secrets: []string{testSecret}}
	testMode := false
	b.drainer = &fulfillment.Drainer{
		DB: db.Gorm, Inbox: b.inbox, Orders: b.orders, Queue: queue,
		Providers: map[string]webhooks.Provider{"stripe": b.events}, Livemode: &testMode,
		Batch: fulfillment.DefaultBatch, Lease: fulfillment.DefaultLease, MaxAttempts: fulfillment.DefaultMaxAttempts,
		ParkFor: fulfillment.DefaultParkFor, Log: log,
	}
	queue.Client, err = fulfillment.NewClient(db, nil, nil, 0, log)
	must(t, err)
	b.runner = &reconcile.Runner{
		DB: db.Gorm, Stripe: stripe, Events: b.events, Inbox: b.inbox, Orders: b.orders, Service: b.service, Drainer: b.drainer,
		Lists: &provider.Lister{Stripe: stripe, PageSize: 5, PerSecond: 1000, Attempts: 1, Now: time.Now},
		Now:   func() time.Time { return sim.Now().UTC().Truncate(time.Microsecond) }, Log: log,
	}
	return b
}

// shopOrder is an order with its checkout.
type shopOrder struct {
	ID, PaymentID uuid.UUID
	Session       string
}

// order makes an order, of two if nothing else is said, with its checkout opened.
func (b *bundle) order(items ...orders.Item) shopOrder {
	b.t.Helper()
	created := b.unopened(items...)
	must(b.t, b.service.OpenCheckout(b.t.Context(), created.CallKey))
	return shopOrder{
		ID: created.Order.ID, PaymentID: created.PaymentID,
		Session: b.text(`SELECT resource_id FROM payments WHERE id = ?`, created.PaymentID),
	}
}

func (b *bundle) unopened(items ...orders.Item) orders.Created {
	b.t.Helper()
	if len(items) == 0 {
		items = []orders.Item{{SKU: "KEY-1", Quantity: 2}}
	}
	merchant := orders.Merchant{ReturnURL: func(uuid.UUID) (string, string) {
		return "https://shop.example.com/return", "https://shop.example.com/cancel"
	}}
	created, err := b.orders.Create(b.t.Context(), merchant, orders.NewOrder{
		Email: "a@example.com", Locale: "en", Items: items,
	})
	must(b.t, err)
	return created
}

// paid is an order that is paid at the provider, of which nothing has arrived.
func (b *bundle) paid() (shopOrder, stripesim.Payment) {
	b.t.Helper()
	o := b.order()
	payment, err := b.sim.Pay(o.Session, stripesim.PayOptions{})
	must(b.t, err)
	return o, payment
}

// told is an order that is paid, and of which everything has arrived and is done: a healthy one.
func (b *bundle) told() (shopOrder, stripesim.Payment) {
	b.t.Helper()
	o, payment := b.paid()
	b.deliver(payment.Events)
	b.fulfill(o)
	return o, payment
}

// fulfill does what the jobs of a paid order do.
func (b *bundle) fulfill(o shopOrder) {
	b.t.Helper()
	must(b.t, b.service.FulfillOrder(b.t.Context(), o.ID, nothing))
	b.exec(`UPDATE sent_receipts SET state = 'sent', sent_at = now() WHERE order_id = ?`, o.ID)
	b.exec(`UPDATE provider_calls SET state = 'sent', result_id = 'x', finished_at = now() WHERE subject_id = ?`, o.ID)
}

// deliver brings events by webhook and drains them.
func (b *bundle) deliver(events []stripesim.Event) {
	b.t.Helper()
	for _, e := range events {
		b.post(e)
	}
	b.drain()
}

// post brings an event in by the door.
func (b *bundle) post(e stripesim.Event) {
	now := time.Now()
	header := http.Header{b.events.SignatureHeader(): {stripesim.Sign(e.Body, now, testSecret)}}
	envelope, err := b.events.Verify(header, e.Body, now)
	if err == nil {
		_, err = b.inbox.Record(context.Background(), envelope, webhooks.SourceWebhook, e.Body)
	}
	if err != nil {
		b.t.Error(err)
	}
}

func (b *bundle) drain() {
	b.t.Helper()
	for {
		taken, err := b.drainer.Drain(b.t.Context())
		must(b.t, err)
		if taken == 0 {
			return
		}
	}
}

// run runs over the last hours of the simulated Stripe's clock, until now.
func (b *bundle) run() reconcile.Report {
	b.t.Helper()
	report, err := b.runner.Run(b.t.Context(), b.window())
	must(b.t, err)
	return report
}

// window is three days until now: also what has just happened.
func (b *bundle) window() reconcile.Options {
	until := b.sim.Now().Add(2 * time.Second)
	return reconcile.Options{Since: until.Add(-72 * time.Hour), Until: until}
}

// kinds are a report's findings in short: kind, and how many are open and healed.
func kinds(r reconcile.Report) string {
	var all []string
	for _, k := range r.Kinds {
		all = append(all, fmt.Sprintf("%s %d open %d healed", k.Kind, k.Open, k.Healed))
	}
	return strings.Join(all, ", ")
}

// wantRun runs and compares what was found.
func (b *bundle) wantRun(name string, outcome reconcile.Outcome, want string) reconcile.Report {
	b.t.Helper()
	report := b.run()
	if report.Outcome != outcome || kinds(report) != want {
		b.t.Errorf("%s: %s: %q, want %s: %q\n%+v", name, report.Outcome, kinds(report), outcome, want, report)
	}
	return report
}

func (b *bundle) wantState(o shopOrder, want orders.State) {
	b.t.Helper()
	if got := b.text(`SELECT state FROM orders WHERE id = ?`, o.ID); got != string(want) {
		b.t.Errorf("order %s is %s, want %s", o.ID, got, want)
	}
}

// eventually polls until ok.
func (b *bundle) eventually(what string, ok func() bool) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), 30*time.Second)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			b.t.Fatalf("waited too long for %s", what)
		}
	}
}

func (b *bundle) text(query string, args ...any) string {
	b.t.Helper()
	var v any
	if err := b.db.Gorm.Raw(query, args...).Row().Scan(&v); err != nil {
		b.t.Fatalf("%s: %v", query, err)
	}
	return fmt.Sprint(v)
}

func (b *bundle) exec(query string, args ...any) {
	b.t.Helper()
	if err := b.db.Gorm.Exec(query, args...).Error; err != nil {
		b.t.Fatalf("%s: %v", query, err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
