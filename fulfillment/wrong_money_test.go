package fulfillment_test

import (
	"strings"
	"testing"

	"paidonce/fulfillment"
	"paidonce/internal/stripesim"
	"paidonce/orders"
)

// B19, the half of it that Stripe has: money that is late, too little, too much, on its way, or
// there twice. Only the right amount that has arrived fulfills; all else is stored and seen.
func TestB19LateTooLittleTooMuchAndTwice(t *testing.T) {
	t.Parallel()
	b := setup(t)
	nothing := effects{}
	pay := func(o order, c checkout, options stripesim.PayOptions) {
		t.Helper()
		b.arrive(t, b.pay(t, c, options))
	}
	for name, amount := range map[string]int64{"too little": 500, "too much": 9999} {
		o := b.order(t)
		pay(o, o.checkouts[0], stripesim.PayOptions{Amount: &amount})
		b.wantState(t, o, orders.Review)
		view, err := b.orders.Get(t.Context(), o.ID)
		if err != nil {
			t.Fatal(err)
		}
		if got := view.ReceivedMinor(); got != amount || *view.Order.ReviewReason != orders.ReasonAmount {
			t.Errorf("%s: %d received, held for %s", name, got, *view.Order.ReviewReason)
		}
		b.wantAttention(t, o, fulfillment.AttentionReview)
		b.wantEffects(t, o, nothing)
	}

	// On its way is not here.
	delayed := b.order(t)
	pay(delayed, delayed.checkouts[0], stripesim.PayOptions{Delayed: true})
	b.wantState(t, delayed, orders.Confirming)
	b.wantEffects(t, delayed, nothing)

	// Late: the first checkout has expired, and a second one is paid. Then the buyer of an order
	// that is fulfilled pays once more.
	o := b.order(t)
	expired, err := b.sim.Expire(o.checkouts[0].Session, stripesim.Held)
	if err != nil {
		t.Fatal(err)
	}
	b.arrive(t, expired)
	b.wantState(t, o, orders.Expired)
	o = b.secondCheckout(t, b.secondCheckout(t, o))
	pay(o, o.checkouts[1], stripesim.PayOptions{})
	b.wantState(t, o, orders.Fulfilled)
	b.wantEffects(t, o, once(o))
	pay(o, o.checkouts[2], stripesim.PayOptions{})
	b.wantState(t, o, orders.Fulfilled)
	b.wantEffects(t, o, once(o))
	b.wantAttention(t, o, fulfillment.AttentionSurplus)
}

// A receipt tells what was paid, where that is not the sum of its prices.
func TestAReceiptTellsWhatWasPaid(t *testing.T) {
	t.Parallel()
	b := setup(t)
	less := int64(500)
	short, whole := b.order(t), b.bought(t)
	b.arrive(t, b.pay(t, short.checkouts[0], stripesim.PayOptions{Amount: &less}))
	if _, err := b.orders.Accept(t.Context(), short.ID, orders.Person{Name: "ann", Why: "the rest was paid in cash"}); err != nil {
		t.Fatal(err)
	}
	b.settle(t)
	b.wantEffects(t, short, once(short))
	for _, m := range b.mailer.messages() {
		told := strings.Contains(m.Text, "\nTotal: $39.98\nPaid: $5.00\n") && strings.Contains(m.HTML, "Paid") && strings.Contains(m.HTML, "$5.00")
		if of := strings.Contains(m.Text, short.ID.String()); told != of || strings.Contains(m.Text, "Paid") != of {
			t.Errorf("the receipt of an order that was paid short: %t\n%s\n%s", of, m.Text, m.HTML)
		}
	}
	b.wantEffects(t, whole, once(whole))
}
