package fulfillment_test

import (
	"errors"
	"testing"

	"github.com/google/uuid"

	"paidonce/fulfillment"
	"paidonce/orders"
)

// A person decides about a mail that is unknown or parked, and about no other. Sending it
// again is the same mail again; one whose first copy may be out is not addressed anew.
func TestAPersonDecidesAboutAMail(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for what, tt := range map[string]struct {
		answers []string
		decided bool // it may be
		moves   bool // to another address, after it was decided
	}{
		"unknown":        {[]string{lost, lost}, true, false},
		"parked":         {[]string{rejected}, true, true},
		"sent":           {[]string{taken}, false, false},
		"not tried yet":  {nil, false, true},
		"parked, by key": {[]string{keyUsed}, true, true},
	} {
		inTurn(t, what, func() {
			o := b.fulfilled(t)
			if tt.answers != nil {
				b.walk(t, o, tt.answers...)
			}
			jobs := b.jobs(t, "send_receipt")
			_, err := b.service.ResendMail(t.Context(), receiptOf(o.ID), person())
			var settled *fulfillment.MailSettledError
			if tt.decided != (err == nil) || err != nil && !errors.As(err, &settled) {
				t.Errorf("%s: %v, want it decided: %v", what, err, tt.decided)
			}
			if got := b.jobs(t, "send_receipt") - jobs; (got == 1) != tt.decided {
				t.Errorf("%s: %d new jobs", what, got)
			}
			if m := b.correct(t, o, "other@example.com"); m.Sending != tt.moves {
				t.Errorf("%s: addressed anew: %v, want %v", what, m.Sending, tt.moves)
			}
			if !tt.decided {
				return
			}
			before := b.mailer.messages()
			b.mailer.answer = nil
			if err := b.service.SendReceipt(t.Context(), receiptOf(o.ID), noJob); err != nil {
				t.Error(err)
			}
			after := b.mailer.messages()
			if len(after) != len(before)+1 || !tt.moves && after[len(after)-1] != before[len(before)-1] {
				t.Errorf("%s: sent again is %+v", what, after[len(before):])
			}
			if state, _ := b.receipt(t, o); state != fulfillment.ReceiptSent {
				t.Errorf("%s: %s, want sent", what, state)
			}
		})
	}
}

// What a person sends again has its own unknown outcome, and is not repeated by itself.
func TestAResentMailIsNotRepeated(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.service.Resend = fulfillment.ResendNever
	o := b.fulfilled(t)
	b.walk(t, o, lost)
	b.service.Resend = fulfillment.ResendOnce
	if _, err := b.service.ResendMail(t.Context(), receiptOf(o.ID), person()); err != nil {
		t.Fatal(err)
	}
	if got := b.walk(t, o, lost, lost); len(got) != 1 || got[0] != "unknown" || b.mailer.to(o.ID) != 2 {
		t.Errorf("order %s: %q after %d mails, want unknown after 2", o.ID, got, b.mailer.to(o.ID))
	}

	// Nothing is sent for a mail that is taken for sent; who said so is on record.
	if _, err := b.service.MarkMailSent(t.Context(), receiptOf(o.ID), person()); err != nil {
		t.Fatal(err)
	}
	if err := b.service.SendReceipt(t.Context(), receiptOf(o.ID), noJob); err != nil {
		t.Error(err)
	}
	if state, _ := b.receipt(t, o); state != fulfillment.ReceiptSent || b.mailer.to(o.ID) != 2 {
		t.Errorf("order %s: %s after %d mails", o.ID, state, b.mailer.to(o.ID))
	}
	got := value[string](t, b, `SELECT string_agg(action || ' ' || decided_by || ' ' || reason, '; ' ORDER BY decided_at) FROM order_decisions`)
	receipt := "(receipt " + o.ID.String() + ": "
	if want := "mail ann a typo " + receipt + "to be sent again); mail ann a typo " + receipt + "taken for sent)"; got != want {
		t.Errorf("order %s: on record is %q, want %q", o.ID, got, want)
	}
}

// A decision about what is not there, or by nobody, changes nothing and is not on record.
func TestADecisionAboutNoMail(t *testing.T) {
	t.Parallel()
	b := setup(t)
	o := b.fulfilled(t)
	b.walk(t, o, rejected)
	other := receiptOf(o.ID)
	other.About = fulfillment.MailRefund
	var input *orders.InputError
	if _, err := b.service.ResendMail(t.Context(), other, person()); !errors.Is(err, fulfillment.ErrNoMail) {
		t.Errorf("no such mail: %v", err)
	}
	if _, err := b.service.ResendMail(t.Context(), receiptOf(uuid.New()), person()); !errors.Is(err, orders.ErrNotFound) {
		t.Errorf("no such order: %v", err)
	}
	if _, err := b.service.MarkMailSent(t.Context(), receiptOf(o.ID), orders.Person{Name: "ann"}); !errors.As(err, &input) || input.Field != "why" {
		t.Errorf("for no reason: %v", err)
	}
	if n := b.count(t, `SELECT count(*) FROM order_decisions`); n != 0 {
		t.Errorf("%d decisions are on record", n)
	}

	for name, tt := range map[string]struct {
		filter fulfillment.MailFilter
		want   int
	}{
		"all":         {fulfillment.MailFilter{}, 1},
		"parked":      {fulfillment.MailFilter{States: []fulfillment.ReceiptState{fulfillment.ReceiptParked, fulfillment.ReceiptUnknown}}, 1},
		"sent":        {fulfillment.MailFilter{States: []fulfillment.ReceiptState{fulfillment.ReceiptSent}}, 0},
		"the order's": {fulfillment.MailFilter{OrderID: o.ID, Limit: 5}, 1},
		"another's":   {fulfillment.MailFilter{OrderID: uuid.New()}, 0},
	} {
		mails, err := b.service.Mails(t.Context(), tt.filter)
		if err != nil || len(mails) != tt.want {
			t.Errorf("%s: %+v, %v; want %d", name, mails, err, tt.want)
		}
		for _, m := range mails {
			if m.OrderID != o.ID || m.Number != 1 || m.To != "a@example.com" || m.LastError == nil || m.Attempts != 1 {
				t.Errorf("%s: %+v", name, m)
			}
		}
	}
}
