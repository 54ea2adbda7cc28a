package orders_test

// Real: Postgres with the project's migrations, every transaction, and provider.Calls as far
// as it writes calls down. Doubled: the package's own edges (Follower, Reader, Releaser, the
// Enqueuer), which note what they were told; Enqueuer does it in a table, so that it can be
// rolled back. No provider is spoken to: an answer is given to SettleCheckout as bytes.
//
// A test may assert on results, on the rows of this package's tables, and on what the edges
// were told.

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"gorm.io/gorm"

	"paidonce/internal/database"
	"paidonce/internal/devpg/devpgtest"
	"paidonce/internal/provider"
	"paidonce/orders"
)

func TestMain(m *testing.M) { os.Exit(devpgtest.Run(m)) }

// shop is a store on a database of its own, selling KEY-1 for 19.99, KEY-2 for 8.20 and
// YEN-1 for 100 yen.
type shop struct {
	*orders.Store
	t     *testing.T
	edges *edges
}

// openedAt is every shop's clock. It stands: one transaction has one now.
func openedAt() time.Time { return time.Date(2025, 3, 1, 12, 0, 0, 123456000, time.UTC) }

func openShop(t *testing.T) shop {
	t.Helper()
	db, err := database.Open(t.Context(), devpgtest.New(t), database.Options{MaxConns: 20})
	must(t, err)
	t.Cleanup(db.Close)
	must(t, db.Gorm.Exec(`CREATE TABLE enqueued (idempotency_key text)`).Error)

	s := shop{Store: orders.New(db.Gorm), t: t, edges: &edges{}}
	s.Now = openedAt
	s.Follower, s.Reader, s.Releaser = s.edges, s.edges, s.edges
	s.Calls = &provider.Calls{DB: db.Gorm, Jobs: s.edges, Now: openedAt}
	must(t, s.ImportProducts(t.Context(), []orders.Product{
		{SKU: "KEY-1", Name: "Key", UnitMinor: 1999, Currency: "usd"},
		{SKU: "KEY-2", Name: "Small key", UnitMinor: 820, Currency: "usd"},
		{SKU: "YEN-1", Name: "鍵", UnitMinor: 100, Currency: "jpy"},
	}))
	return s
}

// merchant sells in test mode, on its own account.
func merchant() orders.Merchant {
	return orders.Merchant{ReturnURL: func(id uuid.UUID) (string, string) {
		base := "https://shop.example/orders/" + id.String()
		return base + "/return?session_id={CHECKOUT_SESSION_ID}", base
	}}
}

// sale is an order and the checkouts that were opened for it.
type sale struct {
	ID        uuid.UUID
	PaymentID uuid.UUID // of the first
	CallKey   string
	Session   string // cs_…; "" while the provider has not answered
	Total     int64
}

// order sells one KEY-1, or the items given, and has its checkout opened.
func (s shop) order(items ...orders.Item) sale {
	s.t.Helper()
	o := s.unanswered(items...)
	o.Session = "cs_" + o.PaymentID.String()
	s.answer(o.PaymentID, o.CallKey, o.Session)
	return o
}

// unanswered sells, and the provider has not answered yet.
func (s shop) unanswered(items ...orders.Item) sale {
	s.t.Helper()
	if len(items) == 0 {
		items = []orders.Item{{SKU: "KEY-1", Quantity: 1}}
	}
	created, err := s.Create(s.t.Context(), merchant(), orders.NewOrder{Email: "a@example.com", Items: items})
	must(s.t, err)
	return sale{ID: created.Order.ID, PaymentID: created.PaymentID, CallKey: created.CallKey, Total: created.Order.TotalMinor}
}

// secondCheckout gives the order another open checkout, and returns its session's id.
func (s shop) secondCheckout(o sale) string {
	s.t.Helper()
	id := s.NewID()
	const second = `
INSERT INTO payments (id, order_id, provider, livemode, account, currency, expected_minor, status, created_at, updated_at)
SELECT @id, order_id, provider, livemode, account, currency, expected_minor, 'open', created_at + interval '1 h', updated_at
FROM payments WHERE id = @first`
	must(s.t, s.DB.Exec(second, map[string]any{"id": id, "first": o.PaymentID}).Error)
	session := "cs_" + id.String()
	s.answer(id, "checkout:"+id.String(), session)
	return session
}

// answer is the provider's answer to a checkout call, settled.
func (s shop) answer(payment uuid.UUID, key, session string) {
	s.t.Helper()
	must(s.t, s.tx(func(tx *gorm.DB) error {
		return s.SettleCheckout(s.t.Context(), tx, provider.Call{IdempotencyKey: key, SubjectID: payment}, sessionAnswer(session))
	}))
}

func sessionAnswer(id string) provider.Answer {
	body := fmt.Sprintf(`{"id":%q,"object":"checkout.session","url":"https://pay.example/%s","created":1740830400,"payment_intent":null}`, id, id)
	return provider.Answer{ID: id, Body: []byte(body)}
}

// apply is Apply in a transaction of its own, which has to commit.
func (s shop) apply(f orders.Fact) orders.Result {
	s.t.Helper()
	r, err := s.tryApply(f)
	must(s.t, err)
	return r
}

func (s shop) tryApply(f orders.Fact) (r orders.Result, err error) {
	err = s.tx(func(tx *gorm.DB) error {
		var err error
		r, err = s.Apply(context.Background(), tx, f)
		return err
	})
	return r, err
}

func (s shop) tx(do func(tx *gorm.DB) error) error { return s.DB.Transaction(do) }

func (s shop) view(id uuid.UUID) orders.View {
	s.t.Helper()
	v, err := s.Get(s.t.Context(), id)
	must(s.t, err)
	return v
}

// history is an order's transitions, as "from event to".
func (s shop) history(id uuid.UUID) []string {
	s.t.Helper()
	var steps []string
	for _, row := range s.view(id).Transitions {
		steps = append(steps, fmt.Sprintf("%s %s %s", row.FromState, row.Event, row.ToState))
	}
	return steps
}

// dump is every row of the package's tables and of provider_calls, to be compared.
func (s shop) dump() string {
	s.t.Helper()
	rows := map[string]json.RawMessage{}
	for _, table := range []string{
		"products", "orders", "order_lines", "payments", "payment_resources", "order_transitions", "provider_calls", "enqueued",
		"refunds", "disputes", "order_decisions",
	} {
		var all []byte
		must(s.t, s.DB.Raw(`SELECT coalesce(json_agg(r ORDER BY r::text), '[]') FROM `+table+` r`).Row().Scan(&all))
		rows[table] = all
	}
	text, err := json.MarshalIndent(rows, "", " ")
	must(s.t, err)
	return string(text)
}

// count is the number that a query answers.
func (s shop) count(query string, args ...any) int {
	s.t.Helper()
	var n int
	must(s.t, s.DB.Raw(query, args...).Row().Scan(&n))
	return n
}

// paid is what checkout.session.completed says of a session: paid in full, by its intent.
func paid(session string, minor int64) orders.Fact {
	return orders.Fact{
		Provider: "stripe", Resources: []string{session, "pi_of_" + session}, Status: orders.StatusSucceeded,
		ReceivedMinor: minor, IntendedMinor: minor, ReceivedCurrency: "usd",
		ObjectCreatedAt: time.Unix(1740830400, 0).UTC(),
		Cause:           orders.Cause{Provider: "stripe", EventID: "evt_completed_" + session},
	}
}

// says is a statement about a session that names no money.
func says(session string, status orders.Status) orders.Fact {
	return orders.Fact{
		Provider: "stripe", Resources: []string{session}, Status: status,
		Cause: orders.Cause{Provider: "stripe", EventID: "evt_" + string(status) + "_" + session},
	}
}

// edges notes what the package's partners are told.
type edges struct {
	mu       sync.Mutex
	moves    []orders.Move
	reads    []uuid.UUID
	released []string
	news     []orders.ReturnNews
}

func (e *edges) OrderMoved(_ context.Context, _ *gorm.DB, m orders.Move) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.moves = append(e.moves, m)
	return nil
}

func (e *edges) MoneyReturned(_ context.Context, _ *gorm.DB, _ orders.Order, _ time.Time, news []orders.ReturnNews) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.news = append(e.news, news...)
	return nil
}

func (e *edges) WantRead(_ context.Context, _ *gorm.DB, id uuid.UUID) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.reads = append(e.reads, id)
	return nil
}

func (e *edges) Release(_ context.Context, _ *gorm.DB, _ string, ids []string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.released = append(e.released, ids...)
	return nil
}

func (e *edges) EnqueueCall(_ context.Context, tx *gorm.DB, c provider.Call) error {
	return tx.Exec(`INSERT INTO enqueued VALUES (?)`, c.IdempotencyKey).Error
}

// forget drops what was noted, so that a test sees only what comes after.
func (e *edges) forget() { *e = edges{} }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
