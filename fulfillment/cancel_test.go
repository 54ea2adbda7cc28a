package fulfillment_test

import (
	"encoding/json"
	"testing"

	"paidonce/internal/stripesim"
	"paidonce/orders"
)

// sessionStatus is what the provider says of a checkout.
func (b *testBundle) sessionStatus(t *testing.T, c checkout) string {
	t.Helper()
	body, _ := b.sim.Session(c.Session)
	var session struct{ Status string }
	if err := json.Unmarshal(body, &session); err != nil {
		t.Fatalf("session %q: %v", c.Session, err)
	}
	return session.Status
}

// An order that is called off leaves no checkout open at the provider, in whatever state they
// were: open, or still on their way.
func TestCancel_LeavesNoCheckoutOpen(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for name, place := range map[string]func() order{
		"open":       func() order { return b.order(t) },
		"two":        func() order { return b.secondCheckout(t, b.order(t)) },
		"on its way": func() order { return b.unopened(t) },
	} {
		o := place()
		if _, err := b.orders.Cancel(t.Context(), o.ID, clerk()); err != nil {
			t.Fatal(err)
		}
		for range 2 { // the jobs of the second round were enqueued by the first
			b.exec(t, `UPDATE river_job SET state = 'available', scheduled_at = now() WHERE state = 'scheduled'`)
			b.settle(t)
		}
		o = b.reload(t, o)
		for _, c := range o.checkouts {
			if got := b.sessionStatus(t, c); got != "expired" {
				t.Errorf("%s: checkout %s is %s, want it expired", name, c.Session, got)
			}
		}
		b.wantState(t, o, orders.Canceled)
	}
}

// The buyer was faster than the job that ends the checkout: the money is not lost. A person
// sees it, and can accept it.
func TestCancel_TheBuyerWasFaster(t *testing.T) {
	t.Parallel()
	b := setup(t)
	o := b.order(t)
	if _, err := b.orders.Cancel(t.Context(), o.ID, clerk()); err != nil {
		t.Fatal(err)
	}
	b.pay(t, o.checkouts[0], stripesim.PayOptions{}) // and no event ever tells
	b.exec(t, `UPDATE river_job SET state = 'available', scheduled_at = now() WHERE state = 'scheduled'`)
	b.settle(t)
	b.wantState(t, o, orders.Review)
	b.wantEffects(t, o, effects{})
	if _, err := b.orders.Accept(t.Context(), o.ID, clerk()); err != nil {
		t.Fatal(err)
	}
	b.settle(t)
	b.wantState(t, o, orders.Fulfilled)
	b.wantEffects(t, o, once(o))
}
