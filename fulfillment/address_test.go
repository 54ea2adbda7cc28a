package fulfillment_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/uuid"

	"paidonce/fulfillment"
	"paidonce/orders"
)

func person() orders.Person { return orders.Person{Name: "ann", Why: "a typo"} }

// correct corrects an order's address, and says what became of its only mail.
func (b *testBundle) correct(t *testing.T, o order, email string) fulfillment.Readdressed {
	t.Helper()
	_, mails, err := b.service.CorrectEmail(t.Context(), o.ID, email, person())
	if err != nil || len(mails) != 1 {
		t.Fatalf("order %s: %+v, %v; want one mail", o.ID, mails, err)
	}
	return mails[0]
}

// B33: an order without an address is fulfilled all the same; its receipt waits where it can
// be seen, and goes out once when there is an address.
func TestB33AReceiptWaitsForAnAddress(t *testing.T) {
	t.Parallel()
	b := setup(t)
	o := b.paid(t, 1, 1)[0]
	b.exec(t, `UPDATE orders SET email = '' WHERE id = ?`, o.ID)
	if err := b.service.FulfillOrder(t.Context(), o.ID, noJob); err != nil {
		t.Fatal(err)
	}
	if state, why := b.receipt(t, o); state != fulfillment.ReceiptParked || why != "the order has no mail address" {
		t.Errorf("order %s: the receipt is %s (%s), want it parked", o.ID, state, why)
	}
	if n := b.count(t, `SELECT count(*) FROM licenses WHERE order_id = ? AND status = 'active'`, o.ID); n != 1 {
		t.Errorf("order %s: %d licenses, want 1", o.ID, n)
	}

	if m := b.correct(t, o, "late@example.com"); !m.Sending || m.To != "late@example.com" {
		t.Errorf("order %s: %+v, want it sent to the address", o.ID, m)
	}
	if m := b.correct(t, o, "late@example.com"); m.Sending {
		t.Errorf("order %s: given again, it is sent again: %+v", o.ID, m)
	}
	if n := b.jobs(t, "send_receipt"); n != 1 {
		t.Errorf("order %s: %d jobs, want 1", o.ID, n)
	}
	for range 2 {
		if err := b.service.SendReceipt(t.Context(), receiptOf(o.ID), noJob); err != nil {
			t.Fatal(err)
		}
	}
	sent := b.mailer.messages()
	if len(sent) != 1 || sent[0].To != "late@example.com" || sent[0].MessageID != "receipt."+o.ID.String()+"@example.com" {
		t.Errorf("order %s: sent %+v, want one mail to the address", o.ID, sent)
	}
	if got := value[string](t, b, `SELECT decided_by || ': ' || reason FROM order_decisions WHERE order_id = ?`, o.ID); got != "ann: a typo (before: none)" {
		t.Errorf("order %s: the decision says %q", o.ID, got)
	}
}

// A mail goes to another address only while nothing can have gone out.
func TestAMailIsAddressedAnewOnlyWhileNothingWentOut(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for what, tt := range map[string]struct {
		answers []string
		again   bool
		key     string // what is behind <kind>:<subject>
	}{
		"not tried yet":        {nil, true, ""},
		"refused":              {[]string{rejected}, true, ":2"},
		"refused later":        {[]string{notSent, rejected}, true, ":3"},
		"key taken":            {[]string{keyUsed}, true, ":2"},
		"sent":                 {[]string{taken}, false, ""},
		"unknown":              {[]string{lost, lost}, false, ""},
		"unknown, and refused": {[]string{lost, rejected}, false, ""},
	} {
		inTurn(t, what, func() {
			o := b.fulfilled(t)
			if tt.answers != nil {
				b.walk(t, o, tt.answers...)
			}
			before, was := b.mailer.to(o.ID), value[string](t, b, `SELECT state FROM sent_receipts WHERE order_id = ?`, o.ID)
			m := b.correct(t, o, "other@example.com")
			if m.Sending != tt.again || (m.To == "other@example.com") != tt.again || !tt.again && string(m.State) != was {
				t.Errorf("%s: %+v, want it sent there: %v", what, m, tt.again)
			}
			b.mailer.answer = nil
			if err := b.service.SendReceipt(t.Context(), receiptOf(o.ID), noJob); err != nil {
				t.Error(err)
			}
			want := before
			if tt.again {
				want++
			}
			if n := b.mailer.to(o.ID); n != want {
				t.Errorf("%s: %d mails, want %d", what, n, want)
			}
			if tt.again {
				sent := b.mailer.messages()
				last := sent[len(sent)-1]
				id := "receipt." + o.ID.String() + strings.ReplaceAll(tt.key, ":", ".") + "@example.com"
				if last.To != "other@example.com" || last.Key != "receipt:"+o.ID.String()+tt.key || last.MessageID != id {
					t.Errorf("%s: sent to %s under %s as %s", what, last.To, last.Key, last.MessageID)
				}
			}
		})
	}
}

// A mail that is being sent is left alone: its sender may be about to succeed.
func TestAMailThatIsBeingSentIsLeftAlone(t *testing.T) {
	t.Parallel()
	b := setup(t)
	o := b.fulfilled(t)
	sending, answer, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	b.mailer.answer = func(fulfillment.Message) error { close(sending); <-answer; return nil }
	go func() { ended <- b.service.SendReceipt(t.Context(), receiptOf(o.ID), noJob) }()
	wait(t, "the sender", sending)
	if m := b.correct(t, o, "other@example.com"); m.Sending || m.State != fulfillment.ReceiptSending || m.To != "a@example.com" {
		t.Errorf("order %s: %+v, want it left alone", o.ID, m)
	}
	close(answer)
	if err := wait(t, "its end", ended); err != nil {
		t.Error(err)
	}
	if state, _ := b.receipt(t, o); state != fulfillment.ReceiptSent {
		t.Errorf("order %s: %s, want sent", o.ID, state)
	}
}

// What is no address, or comes from nobody, changes nothing.
func TestACorrectionIsChecked(t *testing.T) {
	t.Parallel()
	b := setup(t)
	o := b.order(t)
	for name, tt := range map[string]struct {
		email string
		p     orders.Person
		field string
	}{
		"two addresses": {"a@example.org,b@example.org", person(), "email"},
		"a header":      {"a@example.org\r\nBcc: b@example.org", person(), "email"},
		"none":          {" ", person(), "email"},
		"nobody":        {"b@example.com", orders.Person{Why: "x"}, "by"},
		"for nothing":   {"b@example.com", orders.Person{Name: "x"}, "why"},
	} {
		_, _, err := b.service.CorrectEmail(t.Context(), o.ID, tt.email, tt.p)
		var input *orders.InputError
		if !errors.As(err, &input) || input.Field != tt.field {
			t.Errorf("%s: %v, want a fault of %s", name, err, tt.field)
		}
	}
	if _, _, err := b.service.CorrectEmail(t.Context(), uuid.New(), "b@example.com", person()); !errors.Is(err, orders.ErrNotFound) {
		t.Errorf("an order that is not there: %v", err)
	}
	if got := value[string](t, b, `SELECT email FROM orders`) + value[string](t, b, `SELECT count(*)::text FROM order_decisions`); got != "a@example.com0" {
		t.Errorf("order %s: %s after refused corrections", o.ID, got)
	}
}
