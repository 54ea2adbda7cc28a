package fulfillment_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"gorm.io/gorm"

	"paidonce/internal/stripesim"
	"paidonce/licenses"
	"paidonce/orders"
)

// license is the one status of an order's licenses, and when they got it.
func (b *testBundle) license(t *testing.T, o order) (status licenses.Status, since time.Time) {
	t.Helper()
	all, err := b.licenses.ForOrder(t.Context(), b.db.Gorm, o.ID)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range all {
		if l.Status != all[0].Status || !l.UpdatedAt.Equal(all[0].UpdatedAt) {
			t.Errorf("order %s: licenses differ: %+v", o.ID, all)
		}
	}
	if len(all) == 0 {
		return "", time.Time{}
	}
	return all[0].Status, all[0].UpdatedAt
}

// follows checks the status of an order's licenses, and returns since when they have it.
func (b *testBundle) follows(t *testing.T, o order, want licenses.Status) (since time.Time) {
	t.Helper()
	status, since := b.license(t, o)
	if status != want {
		t.Errorf("order %s: licenses are %s, want %s", o.ID, status, want)
	}
	return since
}

// correctly reads a payment by hand: what the simulated provider cannot become.
func (b *testBundle) correctly(t *testing.T, c checkout, received int64, disputes ...orders.PaymentDispute) {
	t.Helper()
	err := b.db.Gorm.Transaction(func(tx *gorm.DB) error {
		_, err := b.orders.Apply(t.Context(), tx, orders.Fact{
			Provider: "stripe", Resources: []string{c.Session}, Status: orders.StatusSucceeded, Read: true, ReadSeq: 1000,
			ReceivedMinor: received, IntendedMinor: received, ReceivedCurrency: "usd",
			Returns: &orders.Returns{ChargedCurrency: "usd", Disputes: disputes},
			Cause:   orders.Cause{Provider: "job", EventID: "read_payment"},
		})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	b.settle(t)
}

// TestB47_ThePolicy: the table of policy.go, row by row. Every event comes twice.
func TestB47_ThePolicy(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var events []stripesim.Event // of the present case
	come := func(more []stripesim.Event) {
		events = append(events, more...)
		b.arrive(t, more)
	}
	refund := func(c checkout, minor int64) string { id, more := b.refunded(t, c, minor); come(more); return id }
	dispute := func(c checkout, reason string) string { id, more := b.disputed(t, c, reason); come(more); return id }
	for _, row := range []struct {
		name    string
		do      func(o order) (subject string)
		state   orders.State
		license licenses.Status
		mails   string // beside the receipt
	}{
		{"a part was refunded", func(o order) string { return refund(o.checkouts[0], 500) }, orders.Fulfilled, licenses.StatusActive, "refund"},
		{"all was refunded", func(o order) string { return refund(o.checkouts[0], 0) }, orders.Refunded, licenses.StatusRevoked, "refund"},
		{"surplus money was refunded", func(o order) string {
			o = b.secondCheckout(t, o)
			come(b.pay(t, o.checkouts[1], stripesim.PayOptions{}))
			view, err := b.orders.Get(t.Context(), o.ID)
			if surplus := view.Surplus(); err != nil || len(surplus) != 1 {
				t.Fatalf("surplus %v, %v", surplus, err)
			}
			return refund(o.checkouts[1], 0)
		}, orders.Fulfilled, licenses.StatusActive, "refund"},
		{"a refund failed after all", func(o order) string {
			id := refund(o.checkouts[0], 0)
			b.follows(t, o, licenses.StatusRevoked)
			come(b.failed(t, id))
			return id
		}, orders.Fulfilled, licenses.StatusActive, "refund refund_failed"},
		{"the bank inquires", func(o order) string { return dispute(o.checkouts[0], "inquiry") }, orders.Fulfilled, licenses.StatusActive, ""},
		{"the inquiry is over", func(o order) string {
			id := dispute(o.checkouts[0], "inquiry")
			come(b.decided(t, id, "won"))
			return id
		}, orders.Fulfilled, licenses.StatusActive, ""},
		{"a dispute is open", func(o order) string { return dispute(o.checkouts[0], "") }, orders.Disputed, licenses.StatusSuspended, "dispute"},
		{"it is won", func(o order) string {
			id := dispute(o.checkouts[0], "")
			b.follows(t, o, licenses.StatusSuspended)
			come(b.decided(t, id, "won"))
			return id
		}, orders.Fulfilled, licenses.StatusActive, "dispute dispute_won"},
		{"it is lost", func(o order) string {
			id := dispute(o.checkouts[0], "")
			come(b.decided(t, id, "lost"))
			return id
		}, orders.ChargedBack, licenses.StatusRevoked, "dispute dispute_lost"},
		{"lost, then won after all", func(o order) string {
			id := dispute(o.checkouts[0], "")
			come(b.decided(t, id, "lost"))
			b.follows(t, o, licenses.StatusRevoked)
			b.correctly(t, o.checkouts[0], o.Total, orders.PaymentDispute{DisputeID: id, AmountMinor: o.Total, Currency: "usd", Status: "won"})
			events = nil // the simulated provider would have it lost again
			return id
		}, orders.Fulfilled, licenses.StatusActive, "dispute dispute_lost dispute_won"},
		{"wrong money", func(o order) string {
			b.correctly(t, o.checkouts[0], 1)
			return ""
		}, orders.Review, licenses.StatusSuspended, ""},
		{"wrong money, accepted", func(o order) string {
			b.correctly(t, o.checkouts[0], 1)
			b.follows(t, o, licenses.StatusSuspended)
			if _, err := b.orders.Accept(t.Context(), o.ID, orders.Person{Name: "clerk@example.com", Why: "we owe them"}); err != nil {
				t.Fatal(err)
			}
			b.settle(t)
			return ""
		}, orders.Fulfilled, licenses.StatusActive, ""},
	} {
		inTurn(t, row.name, func() {
			o := b.bought(t)
			issued := b.follows(t, o, licenses.StatusActive)
			events = nil
			subject := row.do(o)
			want := []string{"receipt"}
			for kind := range strings.FieldsSeq(row.mails) {
				want = append(want, kind+" "+subject)
			}
			b.wantState(t, o, row.state)
			since := b.follows(t, o, row.license)
			moved := value[time.Time](t, b, `SELECT max(at) FROM order_transitions WHERE order_id = ?`, o.ID)
			if !since.Equal(issued) && !since.Equal(moved) {
				t.Errorf("order %s: licenses changed at %s, the order moved at %s; want one transaction", o.ID, since, moved)
			}
			if diff := cmp.Diff(want, b.mails(t, o)); diff != "" {
				t.Errorf("order %s: mails (-want +got):\n%s", o.ID, diff)
			}

			sent := len(b.mailer.messages())
			for n, e := range events { // the same again, in another order too
				b.record(t, again(events[len(events)-1-n], n))
				b.record(t, e.Body)
			}
			b.settle(t)
			b.wantState(t, o, row.state)
			if again := b.follows(t, o, row.license); !again.Equal(since) {
				t.Errorf("order %s: licenses were changed again, at %s after %s", o.ID, again, since)
			}
			if n := len(b.mailer.messages()); n != sent || len(b.mails(t, o)) != len(want) {
				t.Errorf("order %s: %d more mails by the same events: %v", o.ID, n-sent, b.mails(t, o))
			}
		})
	}
}

// What is held before it was ever fulfilled has no license and no mail; a person who accepts
// it has it fulfilled, with its receipt.
func TestPolicy_AcceptedByAPerson(t *testing.T) {
	t.Parallel()
	b := setup(t)
	o := b.order(t)
	less := int64(1000)
	b.arrive(t, b.pay(t, o.checkouts[0], stripesim.PayOptions{Amount: &less}))
	b.wantState(t, o, orders.Review)
	if status, _ := b.license(t, o); status != "" || len(b.mails(t, o)) != 0 {
		t.Errorf("order %s: license %q, mails %v; want none", o.ID, status, b.mails(t, o))
	}
	for range 2 {
		if _, err := b.orders.Accept(t.Context(), o.ID, orders.Person{Name: "clerk@example.com", Why: "a discount"}); err != nil {
			t.Fatal(err)
		}
		b.settle(t)
		b.wantState(t, o, orders.Fulfilled)
		b.wantEffects(t, o, once(o))
	}
}

// TestB55_ARefundThatFails: the refund succeeded and fails later. Its total is corrected, the
// order and its license are what they were, the buyer and the merchant are told.
func TestB55_ARefundThatFails(t *testing.T) {
	t.Parallel()
	b := setup(t)
	o := b.bought(t)
	c := o.checkouts[0]
	first, events := b.refunded(t, c, 1000)
	b.arrive(t, events)
	second, events := b.refunded(t, c, 0)
	b.arrive(t, events)
	b.wantState(t, o, orders.Refunded)
	b.follows(t, o, licenses.StatusRevoked)

	alerts := b.alerts()
	b.arrive(t, b.failed(t, second))
	b.wantState(t, o, orders.Fulfilled)
	b.follows(t, o, licenses.StatusActive)
	if got := b.refundedMinor(t, c); got != 1000 {
		t.Errorf("order %s: %d refunded, want 1000", o.ID, got)
	}
	view, err := b.orders.Get(t.Context(), o.ID)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range view.Refunds {
		got = append(got, r.RefundID+" "+r.Status)
	}
	if want := []string{first + " succeeded", second + " failed"}; !slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))) {
		t.Errorf("order %s: refunds %v, want %v", o.ID, got, want)
	}
	if want := []string{"receipt", "refund " + first, "refund " + second, "refund_failed " + second}; !slices.Equal(b.mails(t, o), want) {
		t.Errorf("order %s: mails %v, want %v", o.ID, b.mails(t, o), want)
	}
	if got := alerts(); !slices.Equal(got, []string{"refund_failed " + second}) {
		t.Errorf("alerts %v, want that it failed", got)
	}
	if pays := b.effects(t, o).Pays; pays != 1 {
		t.Errorf("order %s: paid %d times", o.ID, pays)
	}
}

// What the merchant has to act on is an alert, once; what went as it should is not.
func TestAlertsAboutReturns(t *testing.T) {
	t.Parallel()
	b := setup(t)
	alerts := b.alerts()
	o := b.bought(t)
	_, events := b.refunded(t, o.checkouts[0], 500)
	b.arrive(t, events)
	_, events = b.disputed(t, o.checkouts[0], "inquiry")
	b.arrive(t, events)
	if got := alerts(); len(got) != 0 {
		t.Errorf("alerts %v, want none", got)
	}
	for _, result := range []string{"won", "lost"} {
		o := b.bought(t)
		id, events := b.disputed(t, o.checkouts[0], "")
		b.arrive(t, events)
		for range 2 {
			b.arrive(t, events)
		}
		if got := alerts(); !slices.Equal(got, []string{"dispute_opened " + id}) {
			t.Errorf("alerts %v, want that a dispute is open", got)
		}
		b.arrive(t, b.decided(t, id, result))
		want := map[string][]string{"lost": {"dispute_lost " + id}}[result]
		if got := alerts(); !slices.Equal(got, want) {
			t.Errorf("%s: alerts %v, want %v", result, got, want)
		}
	}
}

// alerts has the service log to the test, and returns what the alerts since the last look say:
// what, and of which subject. Nothing may be under way at a look.
func (b *testBundle) alerts() (look func() []string) {
	log := &bytes.Buffer{}
	b.service.Log = slog.New(slog.NewJSONHandler(log, nil))
	return func() (alerts []string) {
		for decoder := json.NewDecoder(log); ; {
			var line struct {
				Level, Msg string
				Alert      bool
				SubjectID  string `json:"subject_id"`
				OrderID    string `json:"order_id"`
				PaymentID  string `json:"payment_id"`
				Amount     string
			}
			if err := decoder.Decode(&line); err != nil {
				return alerts
			}
			if !line.Alert {
				continue
			}
			if line.Level != "ERROR" || line.OrderID == "" || line.PaymentID == "" || line.Amount == "" {
				alerts = append(alerts, "not whole:")
			}
			alerts = append(alerts, line.Msg+" "+line.SubjectID)
		}
	}
}

// A mail that cannot be written down takes the whole read with it: no license is revoked whose
// buyer is not told.
func TestMoneyReturned_IsOneCommit(t *testing.T) {
	t.Parallel()
	b := setup(t)
	o := b.bought(t)
	b.exec(t, `ALTER TABLE sent_receipts ADD CONSTRAINT no_refunds CHECK (kind <> 'refund')`)
	_, events := b.refunded(t, o.checkouts[0], 0)
	b.record(t, events[0].Body)
	b.drain(t)
	before := b.everything(t)
	err := b.service.ReadPayment(t.Context(), o.checkouts[0].PaymentID, func(*gorm.DB) error { return errors.New("not reached") })
	if err == nil || !strings.Contains(err.Error(), "no_refunds") {
		t.Errorf("got %v, want the constraint", err)
	}
	if after := b.everything(t); after != before {
		t.Errorf("rows are left:\n%s\nwere\n%s", after, before)
	}
	b.exec(t, `ALTER TABLE sent_receipts DROP CONSTRAINT no_refunds`)
	b.settle(t)
	b.wantState(t, o, orders.Refunded)
	b.follows(t, o, licenses.StatusRevoked)
}
