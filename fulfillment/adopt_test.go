package fulfillment_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"paidonce/internal/provider"
	"paidonce/internal/stripesim"
	"paidonce/orders"
)

// B27: the answer to a checkout is lost, nobody comes back for a day, and meanwhile the buyer
// has found the checkout and paid it. Its events belong to nothing we know. The call's job
// finds the session, and all of it falls into place: once.
func TestB27APaymentOfAForgottenCheckoutIsFulfilled(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.sim.Advance(-25 * time.Hour)
	o := b.unopened(t)
	b.sim.Inject(stripesim.Fault{Method: http.MethodPost, Kind: stripesim.LoseAnswer})
	if err := b.service.OpenCheckout(t.Context(), o.callKey); err == nil {
		t.Fatal("a lost answer is no error")
	}
	o.checkouts[0].Session = b.sim.Sessions()[0]
	for _, e := range b.pay(t, o.checkouts[0], stripesim.PayOptions{}) {
		b.record(t, e.Body)
	}
	b.drain(t)
	b.wantState(t, o, orders.Pending)

	b.sim.Advance(25 * time.Hour) // Stripe has forgotten the key
	b.exec(t, `UPDATE provider_calls SET first_sent_at = first_sent_at - interval '25 hours', last_sent_at = last_sent_at - interval '25 hours'`)
	b.exec(t, `UPDATE river_job SET state = 'available', scheduled_at = now() WHERE kind = 'create_checkout'`)
	b.settle(t)
	b.wantState(t, o, orders.Fulfilled)
	b.wantEffects(t, o, once(o))
	if b.callState(t, o) != provider.CallSent || len(b.sim.Sessions()) != 1 {
		t.Errorf("order %s: call %s, %d sessions; want it settled with the one", o.ID, b.callState(t, o), len(b.sim.Sessions()))
	}
}

// B27: a key that was used for something else, by a job of the real queue: it ends as a dead
// letter at its first attempt, and other orders go on.
func TestB27AKeyUsedOtherwiseIsADeadLetter(t *testing.T) {
	t.Parallel()
	b := setup(t)
	o := b.unopened(t)
	body := `mode=payment&success_url=https%3A%2F%2Fshop.example%2F&line_items[0][quantity]=1&line_items[0][price_data][currency]=usd` +
		`&line_items[0][price_data][unit_amount]=5&line_items[0][price_data][product_data][name]=x`
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.simURL+"/v1/checkout/sessions", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer sk_test_1")
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.Header.Set("Idempotency-Key", o.callKey)
	response, err := http.DefaultClient.Do(request)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%v %v", response, err)
	}
	_ = response.Body.Close()

	b.exec(t, `UPDATE river_job SET state = 'available', scheduled_at = now() WHERE kind = 'create_checkout'`)
	b.start(t)
	eventually(t, "the job has ended", func() bool { return b.jobState(t, "create_checkout") == "cancelled" })
	if n := b.count(t, `SELECT attempt FROM river_job WHERE kind = 'create_checkout'`); n != 1 {
		t.Errorf("order %s: %d attempts, want 1", o.ID, n)
	}
	if b.callState(t, o) != provider.CallUnknown || len(b.sim.Sessions()) != 1 {
		t.Errorf("order %s: call %s, %d sessions; want it unknown, and no other session made", o.ID, b.callState(t, o), len(b.sim.Sessions()))
	}
	other := b.order(t)
	b.deliverPaid(t, other)
	eventually(t, "another order is fulfilled", func() bool { return b.state(t, other) == orders.Fulfilled })
}
