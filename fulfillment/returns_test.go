package fulfillment_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"paidonce/internal/stripesim"
	"paidonce/orders"
)

// bought is an order that was paid and fulfilled, and all work about it is done.
func (b *testBundle) bought(t *testing.T) order {
	t.Helper()
	o := b.order(t)
	b.arrive(t, b.pay(t, o.checkouts[0], stripesim.PayOptions{}))
	b.wantState(t, o, orders.Fulfilled)
	return o
}

// arrive brings events in by the door and does all that follows.
func (b *testBundle) arrive(t *testing.T, events []stripesim.Event) {
	t.Helper()
	for _, e := range events {
		b.record(t, e.Body)
	}
	b.settle(t)
}

// refunded is a refund at the provider, of which nobody has heard; 0 is all that is left.
func (b *testBundle) refunded(t *testing.T, c checkout, minor int64) (id string, events []stripesim.Event) {
	t.Helper()
	id, events, err := b.sim.Refund(c.Session, minor, "", stripesim.Held)
	if err != nil {
		t.Fatal(err)
	}
	return id, events
}

// failed lets a refund fail after all.
func (b *testBundle) failed(t *testing.T, refund string) []stripesim.Event {
	t.Helper()
	events, err := b.sim.FailRefund(refund, stripesim.Held)
	if err != nil {
		t.Fatal(err)
	}
	return events
}

// disputed is a dispute at the provider; the reason "inquiry" only asks.
func (b *testBundle) disputed(t *testing.T, c checkout, reason string) (id string, events []stripesim.Event) {
	t.Helper()
	id, events, err := b.sim.OpenDispute(c.Session, 0, reason, stripesim.Held)
	if err != nil {
		t.Fatal(err)
	}
	return id, events
}

// decided is the end of a dispute.
func (b *testBundle) decided(t *testing.T, dispute, result string) []stripesim.Event {
	t.Helper()
	events, err := b.sim.CloseDispute(dispute, result, stripesim.Held)
	if err != nil {
		t.Fatal(err)
	}
	return events
}

// readsOf counts how often a payment was read at the provider.
func (b *testBundle) readsOf(c checkout) (n int) {
	for _, call := range b.sim.Calls() {
		if call.Method == http.MethodGet && call.Path == "/v1/checkout/sessions/"+c.Session {
			n++
		}
	}
	return n
}

// mails are the mails about an order, its receipt too, as "kind subject".
func (b *testBundle) mails(t *testing.T, o order) (mails []string) {
	t.Helper()
	var rows []struct{ Kind, SubjectID, State string }
	err := b.db.Gorm.WithContext(t.Context()).Raw(
		`SELECT kind, subject_id, state FROM sent_receipts WHERE order_id = ? ORDER BY created_at, kind`, o.ID).Scan(&rows).Error
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		if r.State != "sent" {
			t.Errorf("order %s: the %s mail is %s", o.ID, r.Kind, r.State)
		}
		mails = append(mails, strings.TrimSuffix(fmt.Sprintf("%s %s", r.Kind, r.SubjectID), " "+o.ID.String()))
	}
	return mails
}

// refundedMinor is what a payment is known to have sent back.
func (b *testBundle) refundedMinor(t *testing.T, c checkout) int64 {
	t.Helper()
	return value[int64](t, b, `SELECT refunded_minor FROM payments WHERE id = ?`, c.PaymentID)
}
