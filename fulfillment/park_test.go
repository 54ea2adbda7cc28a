package fulfillment_test

import (
	"fmt"
	"testing"
	"time"

	"paidonce/fulfillment"
	"paidonce/orders"
	"paidonce/webhooks"
)

// Both ways round, a delivery that waits and the transaction that learns its id find each
// other. Here the waiting one commits first.
func TestAParkedDeliveryIsReleasedByWhoLearnsItsID(t *testing.T) {
	t.Parallel()
	b := setup(t)
	o := b.placed(t, 1, 1, 1)[0]
	c := o.checkouts[0]
	b.record(t, c.event("evt_intent", intentPaid))
	b.record(t, c.event("evt_charge", chargePaid))
	b.drain(t)
	for _, id := range []string{"evt_intent", "evt_charge"} {
		d := b.delivery(t, id)
		if d.outcome() != webhooks.OutcomeParked || d.Attempts != 0 || d.ProcessedAt != nil || d.DueIn > 1 {
			t.Errorf("%s: %+v, want it parked for a second, its attempt given back", id, d)
		}
	}
	b.exec(t, `UPDATE webhook_deliveries SET next_attempt_at = now() + interval '1 hour'`) // only a release brings them back

	// An expiry is no success, but it names the intent.
	b.record(t, c.event("evt_expired", expired))
	b.drain(t)
	for _, id := range []string{"evt_intent", "evt_charge", "evt_expired"} {
		if d := b.delivery(t, id); d.ProcessedAt == nil {
			t.Errorf("%s: %+v, want it released and ended", id, d)
		}
	}
	b.wantState(t, o, orders.Paid)
}

// Here a drainer has found nothing and is about to park, when another transaction learns the
// id, releases what waits, and commits. Its release cannot see the delivery; the sweep does,
// and so would the delivery's own retry a second later. At no point does one wait for the
// other.
func TestAReleaseThatCameTooEarlyIsMadeGoodByTheSweep(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		again bool // the delivery had been parked before, and is being tried again
	}{{"the first try", false}, {"a later try", true}} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			o := b.placed(t, 1, 1, 1)[0]
			c := o.checkouts[0]
			c.unmarked = true // one that bears our marker has its payment read, and locks it for that
			b.record(t, c.event("evt_intent", intentPaid))
			if tt.again {
				b.drain(t)
				b.forward(t)
			}

			parking, learned, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
			slow := b.another(t)
			slow.drainer.Crash = func(window string) {
				if window == "CW4" {
					close(parking)
					<-learned
				}
			}
			go func() { _, err := slow.drainer.Drain(t.Context()); done <- err }()
			wait(t, "the drainer that is about to park", parking)
			b.record(t, c.event("evt_expired", expired))
			b.drain(t) // learns pi_…, while the other transaction is open
			b.wantOutcome(t, "evt_expired", webhooks.OutcomeApplied)
			close(learned)
			if err := wait(t, "its commit", done); err != nil {
				t.Fatal(err)
			}

			d := b.delivery(t, "evt_intent")
			if d.outcome() != webhooks.OutcomeParked || d.DueIn > 1 {
				t.Errorf("%+v, want it parked, and due within a second in any case", d)
			}
			b.exec(t, `UPDATE webhook_deliveries SET next_attempt_at = now() + interval '1 hour' WHERE processed_at IS NULL`)
			if err := b.service.SweepParked(t.Context(), noJob); err != nil {
				t.Fatal(err)
			}
			b.drain(t)
			b.wantOutcome(t, "evt_intent", webhooks.OutcomeApplied)
			b.wantState(t, o, orders.Paid)
		})
	}
}

// A drainer that has claimed the delivery again looks after the other's commit, and finds it.
func TestAReleaseLeavesADeliveryThatIsBeingWorked(t *testing.T) {
	t.Parallel()
	b := setup(t)
	o := b.placed(t, 1, 1, 1)[0]
	c := o.checkouts[0]
	b.record(t, c.event("evt_intent", intentPaid))
	b.drain(t)
	b.forward(t)
	claimed, learned, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	slow := b.another(t)
	slow.drainer.Crash = func(window string) {
		if window == "CW3" {
			close(claimed)
			<-learned
		}
	}
	go func() { _, err := slow.drainer.Drain(t.Context()); done <- err }()
	wait(t, "the claim", claimed)
	before := b.delivery(t, "evt_intent")
	b.record(t, c.event("evt_expired", expired))
	b.drain(t)
	if d := b.delivery(t, "evt_intent"); d.Claim == nil || !d.NextAttemptAt.Equal(before.NextAttemptAt) {
		t.Errorf("%+v, want it as it was claimed", d)
	}
	close(learned)
	if err := wait(t, "its commit", done); err != nil {
		t.Fatal(err)
	}
	if d := b.delivery(t, "evt_intent"); d.outcome() != webhooks.OutcomeApplied || d.Attempts != 1 {
		t.Errorf("%+v, want it applied by its first attempt", d)
	}
}

// The waits double with the time waited: 1, 1, 2, 4… s, at most a minute, and never longer
// in all than the time after which the wait is over.
func TestWaitsOfAParkedDelivery(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.record(t, eventOf("evt_1", completed, map[string]any{"id": "cs_unknown"}))
	waited, tries := 0.0, 0
	for b.delivery(t, "evt_1").ProcessedAt == nil {
		b.drain(t)
		d := b.delivery(t, "evt_1")
		if d.ProcessedAt != nil {
			break
		}
		if want := min(max(waited, 1), 60); d.DueIn > want+1 || d.DueIn < want-1 {
			t.Errorf("after %.0f s: due in %.1f s, want %.0f s", waited, d.DueIn, want)
		}
		if d.Attempts != 0 {
			t.Errorf("after %.0f s: %d attempts, want none: waiting is no failure", waited, d.Attempts)
		}
		step := time.Duration(d.DueIn * float64(time.Second))
		waited += d.DueIn
		b.later(t, step)
		if tries++; tries > 50 {
			t.Fatal("it waits for ever")
		}
	}
	if limit := fulfillment.DefaultParkFor.Seconds(); waited < limit || waited > limit+61 {
		t.Errorf("foreign after %.0f s, want %.0f s and at most one wait more", waited, limit)
	}
	b.wantOutcome(t, "evt_1", webhooks.OutcomeForeign)
}

// B36: events that are not ours are stored, wait a bounded time and end as foreign; a real
// one behind 500 of them is not held up.
func TestB36ForeignEventsDelayNobodyAndEnd(t *testing.T) {
	t.Parallel()
	const foreign = 500
	b := setup(t)
	o := b.placed(t, 1, 1, 1)[0]
	for n := range foreign {
		object := map[string]any{
			"object": "checkout.session", "id": fmt.Sprintf("cs_other_%d", n), "payment_status": "paid", "amount_total": 1999, "currency": "usd",
		}
		switch n % 3 { // unknown ids without metadata, with none, with another shop's order
		case 1:
			object["metadata"] = map[string]string{}
		case 2:
			object["metadata"] = map[string]string{"order_id": "1001", "paidonce_order": "1001"}
		}
		if got := b.record(t, eventOf(fmt.Sprintf("evt_other_%d", n), completed, object)); got != webhooks.Accepted {
			t.Fatalf("event %d is %s, want accepted", n, got)
		}
	}
	b.record(t, o.checkouts[0].event("evt_real", completed))
	for range (foreign+1)/fulfillment.DefaultBatch + 1 {
		if _, err := b.drainer.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	b.wantOutcome(t, "evt_real", webhooks.OutcomeApplied) // no later than its turn

	count := func(outcome webhooks.Outcome) int {
		return b.count(t, `SELECT count(*) FROM webhook_deliveries WHERE outcome = ? AND event_id LIKE 'evt_other_%'`, outcome)
	}
	if got := count(webhooks.OutcomeParked); got != foreign {
		t.Errorf("%d are parked, want %d: none is foreign before its time", got, foreign)
	}
	b.later(t, fulfillment.DefaultParkFor-time.Minute)
	b.drain(t)
	if got := count(webhooks.OutcomeParked); got != foreign {
		t.Errorf("a minute before their time %d are parked, want %d", got, foreign)
	}
	b.later(t, time.Minute)
	b.drain(t)
	if got := count(webhooks.OutcomeForeign); got != foreign {
		t.Errorf("after their time %d are foreign, want %d", got, foreign)
	}
	if calls := len(b.sim.Calls()) + b.jobs(t, "read_payment"); calls != 0 {
		t.Errorf("%d reads for events that are not ours, want none", calls)
	}
}

// A delivery that failed after it had been parked is in its backoff, not waiting for an id:
// a sweep does not bring it forward.
func TestAFailedRowThatWasParkedKeepsItsBackoff(t *testing.T) {
	t.Parallel()
	b := setup(t)
	o := b.unopened(t)
	early := checkout{Order: o.ID, Session: "cs_early", Intent: "pi_early", Amount: o.Total}
	b.record(t, early.event("evt_early", completed))
	b.drain(t)
	b.wantOutcome(t, "evt_early", webhooks.OutcomeParked)

	b.exec(t, `UPDATE payments SET resource_id = 'cs_early' WHERE order_id = ?`, o.ID)
	b.exec(t, `INSERT INTO payment_resources SELECT provider, resource_id, id, now() FROM payments`)
	b.raising(t, "UPDATE", "orders", "true", "P0001")
	b.forward(t)
	b.drain(t)
	b.exec(t, `UPDATE webhook_deliveries SET next_attempt_at = now() + interval '5 minutes'`)
	if err := b.service.SweepParked(t.Context(), noJob); err != nil {
		t.Fatal(err)
	}
	if d := b.delivery(t, "evt_early"); d.Attempts != 1 || d.DueIn < 200 {
		t.Errorf("%+v is due in %.0f s, want its backoff of 300 s", d, d.DueIn)
	}
}
