package fulfillment_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"gorm.io/gorm"

	"paidonce/fulfillment"
	"paidonce/licenses"
	"paidonce/orders"
	"paidonce/webhooks"
)

// effects is what an order caused: the numbers that must be one, whatever happens.
type effects struct {
	Pays     int // pay transitions
	Licenses int // active ones
	Receipts int // mails that the transport was given
	Notices  int // requests at the provider that wrote the order's ids, repeats under the key not counted
}

// once is what a paid order of that quantity has.
func once(o order) effects { return effects{Pays: 1, Licenses: o.Quantity, Receipts: 1, Notices: 1} }

func (b *testBundle) effects(t *testing.T, o order) effects {
	t.Helper()
	got := effects{
		Pays:     b.count(t, `SELECT count(*) FROM order_transitions WHERE order_id = ? AND event = 'pay'`, o.ID),
		Licenses: b.count(t, `SELECT count(*) FROM licenses WHERE order_id = ? AND status = ?`, o.ID, licenses.StatusActive),
		Receipts: b.mailer.to(o.ID),
	}
	for _, call := range b.sim.Calls() {
		if call.IdempotencyKey == "fulfill:"+o.ID.String() && call.Status == 200 && !call.Replayed {
			got.Notices++
		}
	}
	return got
}

func (b *testBundle) wantEffects(t *testing.T, o order, want effects) {
	t.Helper()
	if got := b.effects(t, o); got != want {
		t.Errorf("order %s: effects %+v, want %+v", o.ID, got, want)
	}
}

func (b *testBundle) wantState(t *testing.T, o order, want orders.State) {
	t.Helper()
	if got := b.state(t, o); got != want {
		t.Errorf("order %s is %s, want %s", o.ID, got, want)
	}
}

func (b *testBundle) state(t *testing.T, o order) orders.State {
	t.Helper()
	return value[orders.State](t, b, `SELECT state FROM orders WHERE id = ?`, o.ID)
}

// value is the one value of a query.
func value[T any](t *testing.T, b *testBundle, query string, args ...any) T {
	t.Helper()
	var v T
	if err := b.db.Gorm.WithContext(t.Context()).Raw(query, args...).Row().Scan(&v); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return v
}

func (b *testBundle) count(t *testing.T, query string, args ...any) int {
	t.Helper()
	return value[int](t, b, query, args...)
}

func (b *testBundle) exec(t *testing.T, statement string, args ...any) {
	t.Helper()
	if err := b.db.Gorm.WithContext(t.Context()).Exec(statement, args...).Error; err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// delivery is a row of the ledger.
type delivery struct {
	Outcome       *webhooks.Outcome
	Detail        *string
	LastError     *string
	Attempts      int
	Claim         *uuid.UUID
	ProcessedAt   *time.Time
	NextAttemptAt time.Time
	DueIn         float64 // seconds
}

func (b *testBundle) delivery(t *testing.T, eventID string) delivery {
	t.Helper()
	var rows []delivery
	err := b.db.Gorm.WithContext(t.Context()).Raw(`
SELECT outcome, detail, last_error, attempts, claim, processed_at, next_attempt_at, extract(epoch FROM next_attempt_at - now()) AS due_in
FROM webhook_deliveries WHERE event_id = ?`, eventID).Scan(&rows).Error
	if err != nil || len(rows) != 1 {
		t.Fatalf("delivery %s: %d rows, %v", eventID, len(rows), err)
	}
	return rows[0]
}

func (d delivery) outcome() webhooks.Outcome {
	if d.Outcome == nil {
		return ""
	}
	return *d.Outcome
}

func (b *testBundle) wantOutcome(t *testing.T, eventID string, want webhooks.Outcome) {
	t.Helper()
	if got := b.delivery(t, eventID).outcome(); got != want {
		t.Errorf("delivery %s: outcome %q, want %q", eventID, got, want)
	}
}

// drain drains until nothing is due, and returns how many deliveries it took.
func (b *testBundle) drain(t *testing.T) int {
	t.Helper()
	for total, round := 0, 0; ; round++ {
		taken, err := b.drainer.Drain(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if total += taken; taken == 0 {
			return total
		}
		if round > 1000 {
			t.Fatal("the inbox is never empty")
		}
	}
}

// forward makes every open delivery due now, and lets every claim lapse.
func (b *testBundle) forward(t *testing.T) {
	t.Helper()
	b.exec(t, `UPDATE webhook_deliveries SET next_attempt_at = now(), claim_until = CASE WHEN claim IS NULL THEN NULL ELSE now() END
WHERE processed_at IS NULL`)
}

// later lets open deliveries have waited that much longer, and makes them due.
func (b *testBundle) later(t *testing.T, by time.Duration) {
	t.Helper()
	b.exec(t, `UPDATE webhook_deliveries SET opened_at = opened_at - make_interval(secs => ?) WHERE processed_at IS NULL`, by.Seconds())
	b.forward(t)
}

// settle drains and does jobs until neither is left.
func (b *testBundle) settle(t *testing.T) {
	t.Helper()
	for range 100 {
		b.forward(t)
		if b.drain(t)+b.doJobs(t) == 0 {
			return
		}
	}
	t.Fatal("work is never done")
}

// doJobs does every job that may be done now, one after another, in the order of their ids.
// It stands in for the queue's client where a test is about the steps, not about the queue.
func (b *testBundle) doJobs(t *testing.T) (done int) {
	t.Helper()
	var jobs []struct {
		ID   int64
		Kind string
		Args []byte
	}
	err := b.db.Gorm.WithContext(t.Context()).Raw(
		`SELECT id, kind, args FROM river_job WHERE state = 'available' ORDER BY id`).Scan(&jobs).Error
	if err != nil {
		t.Fatal(err)
	}
	for _, job := range jobs {
		const end = `UPDATE river_job SET state = 'completed', finalized_at = now() WHERE id = ?`
		err := b.do(t.Context(), job.Kind, job.Args, func(tx *gorm.DB) error { return tx.Exec(end, job.ID).Error })
		if err != nil {
			t.Errorf("job %s %s: %v", job.Kind, job.Args, err)
		}
		b.exec(t, end, job.ID)
	}
	return len(jobs)
}

func (b *testBundle) do(ctx context.Context, kind string, args []byte, complete fulfillment.Complete) error {
	var named struct {
		OrderID   uuid.UUID `json:"order_id"`
		PaymentID uuid.UUID `json:"payment_id"`
		Key       string    `json:"idempotency_key"`
	}
	if err := json.Unmarshal(args, &named); err != nil {
		return err
	}
	switch kind {
	case "notify_provider", "read_payment":
		if b.offline {
			return nil
		}
	}
	switch kind {
	case "create_checkout", "notify_provider", "send_refund":
		return b.service.PerformCall(ctx, named.Key, complete)
	case "expire_checkout":
		return b.service.ExpireCheckout(ctx, named.Key, named.PaymentID, complete)
	case "fulfill_order":
		return b.service.FulfillOrder(ctx, named.OrderID, complete)
	case "send_receipt":
		var mail fulfillment.SendReceiptArgs
		if err := json.Unmarshal(args, &mail); err != nil {
			return err
		}
		return b.service.SendReceipt(ctx, mail, complete)
	case "read_payment":
		return b.service.ReadPayment(ctx, named.PaymentID, complete)
	}
	return fmt.Errorf("no job %s", kind)
}

func receiptOf(id uuid.UUID) fulfillment.SendReceiptArgs {
	return fulfillment.SendReceiptArgs{OrderID: id, About: fulfillment.MailReceipt, SubjectID: id.String()}
}

// noJob completes nothing: for a step that is called without a job.
func noJob(*gorm.DB) error { return nil }

// jobs counts the jobs of a kind, in whatever state.
func (b *testBundle) jobs(t *testing.T, kind string) int {
	t.Helper()
	return b.count(t, `SELECT count(*) FROM river_job WHERE kind = ?`, kind)
}

// inTurn is a case of a table whose cases share a database, and so never run side by side.
func inTurn(t *testing.T, name string, test func()) {
	t.Helper()
	before := t.Failed()
	test()
	if t.Failed() && !before {
		t.Logf("the first fault is in the case %q", name)
	}
}

// eventually polls until the fact holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	limit := time.After(deadline)
	for !holds() {
		select {
		case <-ticker.C:
		case <-limit:
			t.Fatalf("never came about: %s", what)
		}
	}
}

// wait waits for a signal.
func wait[T any](t *testing.T, what string, signal <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-signal:
	case <-time.After(deadline):
		t.Fatalf("never came: %s", what)
	}
	return v
}

// recorder is a mailer that keeps what it was given, and answers as told.
type recorder struct {
	mu     sync.Mutex
	sent   []fulfillment.Message
	answer func(m fulfillment.Message) error // nil: taken
	during func(ctx context.Context)         // nil: at once
}

// Send implements fulfillment.Mailer.
func (r *recorder) Send(ctx context.Context, m fulfillment.Message) (string, error) {
	r.mu.Lock()
	r.sent = append(r.sent, m)
	answer, during := r.answer, r.during
	r.mu.Unlock()
	if during != nil {
		during(ctx)
	}
	if answer != nil {
		return "", answer(m)
	}
	return m.MessageID, nil
}

func (r *recorder) messages() []fulfillment.Message {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.sent)
}

func (r *recorder) to(orderID uuid.UUID) (n int) {
	for _, m := range r.messages() {
		if strings.Contains(m.MessageID, orderID.String()) {
			n++
		}
	}
	return n
}
