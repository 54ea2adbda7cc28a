package provider_test

// Real: Postgres with the project's migrations, stripe-go, and HTTP to a simulated Stripe,
// which notes every request byte for byte and goes wrong where a test tells it to. Where
// the simulation cannot say something, a small server says it in Stripe's JSON. Doubled:
// the Enqueuer and the settling, which write into tables of their own, so that a rollback
// shows.
//
// A test may assert on errors, on rows of provider_calls, and on what arrived at Stripe.

import (
	"bytes"
	"context"
	"log/slog"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"gorm.io/gorm"

	"paidonce/internal/database"
	"paidonce/internal/devpg/devpgtest"
	"paidonce/internal/money"
	"paidonce/internal/provider"
	"paidonce/internal/stripesim"
)

func TestMain(m *testing.M) { os.Exit(devpgtest.Run(m)) }

// secretKey is looked for in every error text.
const secretKey = "sk_test_4eC39HqLyjWDarjtT1zdp7dc"

// desk is Calls at a Stripe of its own.
type desk struct {
	*provider.Calls
	t   *testing.T
	sim *stripesim.Sim
	url string
	log *bytes.Buffer // what Calls logged, in JSON; to be read when nothing is under way
}

func openDesk(t *testing.T, maxConns int32) desk {
	t.Helper()
	db, err := database.Open(t.Context(), devpgtest.New(t), database.Options{MaxConns: maxConns})
	must(t, err)
	t.Cleanup(db.Close)
	must(t, db.Gorm.Exec(`CREATE TABLE enqueued (idempotency_key text)`).Error)
	must(t, db.Gorm.Exec(`CREATE TABLE settled (idempotency_key text, result_id text)`).Error)

	sim := stripesim.New(stripesim.Config{})
	server := httptest.NewServer(sim.Handler())
	t.Cleanup(server.Close)
	t.Cleanup(sim.Close) // before the server: it lets go of what a fault holds
	calls := &provider.Calls{
		DB: db.Gorm, Jobs: jobs{}, Now: func() time.Time { return time.Now().UTC().Truncate(time.Microsecond) },
		Stripe: provider.NewStripe(provider.StripeConfig{Key: secretKey, Base: server.URL, Timeout: 10 * time.Second}),
	}
	d := desk{Calls: calls, t: t, sim: sim, url: server.URL, log: &bytes.Buffer{}}
	calls.Log = slog.New(slog.NewJSONHandler(d.log, nil))
	return d
}

// checkout is the request of a new payment: two lines, and text that forms have to escape.
func checkout() provider.CheckoutRequest {
	return provider.CheckoutRequest{
		PaymentID: uuid.Must(uuid.NewV7()), OrderID: uuid.Must(uuid.NewV7()), Email: "a+b@example.com",
		SuccessURL: "https://shop.example/return?session_id={CHECKOUT_SESSION_ID}&x=1", CancelURL: "https://shop.example/",
		Items: []provider.CheckoutItem{
			{Name: "Key & <Lock> 100 % = ✓", Quantity: 2, Unit: money.Amount{Minor: 1999, Currency: "usd"}},
			{Name: "Manual", Quantity: 1, Unit: money.Amount{Minor: 820, Currency: "usd"}},
		},
	}
}

// intended writes a checkout call down and returns its key.
func (d desk) intended() string {
	d.t.Helper()
	return d.intend(checkout().Call())
}

func (d desk) intend(call provider.Call) string {
	d.t.Helper()
	must(d.t, d.DB.Transaction(func(tx *gorm.DB) error { return d.Intend(d.t.Context(), tx, call) }))
	return call.IdempotencyKey
}

func (d desk) perform(key string) error { return d.Perform(context.Background(), key, settle) }

// settle notes the answer in its transaction.
func settle(_ context.Context, tx *gorm.DB, c provider.Call, a provider.Answer) error {
	return tx.Exec(`INSERT INTO settled VALUES (?, ?)`, c.IdempotencyKey, a.ID).Error
}

func (d desk) row(key string) provider.Call {
	d.t.Helper()
	var call provider.Call
	must(d.t, d.DB.First(&call, "idempotency_key = ?", key).Error)
	return call
}

func (d desk) exec(query string, args ...any) {
	d.t.Helper()
	must(d.t, d.DB.Exec(query, args...).Error)
}

func (d desk) count(query string, args ...any) int {
	d.t.Helper()
	var n int
	must(d.t, d.DB.Raw(query, args...).Row().Scan(&n))
	return n
}

// wantState checks where a call stands, and that its last error holds no secret.
func (d desk) wantState(name, key string, want provider.CallState) {
	d.t.Helper()
	row := d.row(key)
	if row.State != want {
		d.t.Errorf("%s: call is %s, want %s", name, row.State, want)
	}
	if row.LastError != nil && strings.Contains(*row.LastError, secretKey[8:]) {
		d.t.Errorf("%s: last_error tells the key: %s", name, *row.LastError)
	}
}

// wantOneEffect checks that Stripe did the thing once, that it was settled once with what
// Stripe did, and that every request was the row's bytes under the row's key.
func (d desk) wantOneEffect(name, key string) {
	d.t.Helper()
	row := d.row(key)
	d.wantState(name, key, provider.CallSent)
	if row.ResultID == nil || row.FinishedAt == nil || row.SendingUntil != nil || row.LastError != nil {
		d.t.Errorf("%s: row %+v", name, row)
	}
	if n := d.count(`SELECT count(*) FROM settled WHERE idempotency_key = ? AND result_id = ?`, key, row.ResultID); n != 1 {
		d.t.Errorf("%s: settled %d times, want once", name, n)
	}
	done := 0
	for _, call := range d.callsUnder(key) {
		if call.Path != row.Path || string(call.Body) != string(row.Params) {
			d.t.Errorf("%s: sent %s %s, the row is %s %s", name, call.Path, call.Body, row.Path, row.Params)
		}
		if call.Status == 200 && !call.Replayed {
			done++
		}
	}
	if done != 1 {
		d.t.Errorf("%s: Stripe did it %d times, want once", name, done)
	}
	if _, ok := d.sim.Session(*row.ResultID); !ok && row.Operation == provider.OpCheckout {
		d.t.Errorf("%s: there is no session %s", name, *row.ResultID)
	}
}

func (d desk) callsUnder(key string) []stripesim.Call {
	var calls []stripesim.Call
	for _, call := range d.sim.Calls() {
		if call.IdempotencyKey == key {
			calls = append(calls, call)
		}
	}
	return calls
}

// arrived waits until n requests under the key are at Stripe.
func (d desk) arrived(key string, n int) {
	d.t.Helper()
	d.until("the requests under "+key, func() bool { return len(d.callsUnder(key)) >= n })
}

// until waits until ok.
func (d desk) until(what string, ok func() bool) {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.t.Context(), 20*time.Second)
	defer cancel()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			d.t.Fatalf("waited too long for %s", what)
		}
	}
}

// lapse ends the lease of whoever is at the call.
func (d desk) lapse(key string) {
	d.t.Helper()
	d.exec(`UPDATE provider_calls SET sending_until = now() - interval '1 s' WHERE idempotency_key = ? AND state = 'sending'`, key)
}

type jobs struct{}

func (jobs) EnqueueCall(_ context.Context, tx *gorm.DB, c provider.Call) error {
	return tx.Exec(`INSERT INTO enqueued VALUES (?)`, c.IdempotencyKey).Error
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
