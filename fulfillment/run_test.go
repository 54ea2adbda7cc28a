package fulfillment_test

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"testing"
	"time"

	"paidonce/fulfillment"
	"paidonce/internal/stripesim"
	"paidonce/orders"
	"paidonce/webhooks"
)

// listening passes announcements on to a channel of the test's own, until the test ends.
func (b *testBundle) listening(t *testing.T) <-chan struct{} {
	t.Helper()
	wake := make(chan struct{}, 1)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		fulfillment.Listen(ctx, b.db.Pool, slog.New(slog.DiscardHandler), wake)
	}()
	t.Cleanup(func() { stop(); wait(t, "the end of listening", ended) })
	wait(t, "the wake-up at the start", wake)
	return wake
}

// Whatever makes a delivery due is announced: that it came, that it came again after it had
// been given up, and that what it waits for was learned. A repeat that changes nothing is not.
func TestWhatIsDueIsAnnounced(t *testing.T) {
	t.Parallel()
	b := setup(t)
	wake := b.listening(t)
	o := b.placed(t, 1, 1, 1)[0]
	c := o.checkouts[0]

	b.record(t, c.event("evt_intent", intentPaid))
	wait(t, "the wake-up for a new delivery", wake)
	b.drain(t)
	b.record(t, c.event("evt_expired", expired))
	wait(t, "the wake-up for another", wake)
	b.drainer.Batch = 1
	if _, err := b.drainer.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	wait(t, "the wake-up for the one that was released", wake)
	b.drain(t)
	b.wantState(t, o, orders.Paid)

	b.record(t, c.event("evt_expired", expired))
	b.record(t, eventOf("evt_foreign", completed, map[string]any{"id": "cs_foreign"})) // the barrier
	wait(t, "the wake-up for the barrier", wake)
	b.drain(t)
	b.later(t, fulfillment.DefaultParkFor)
	b.drain(t)
	b.wantOutcome(t, "evt_foreign", webhooks.OutcomeForeign)
	b.record(t, eventOf("evt_foreign", completed, map[string]any{"id": "cs_foreign"}))
	wait(t, "the wake-up for one that was opened again", wake)
}

// A listener whose connection is killed listens again, and wakes everybody for what may have
// been announced meanwhile.
func TestAKilledListenerListensAgain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	wake := b.listening(t)
	for range 2 {
		if killed := b.count(t, `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
			WHERE datname = current_database() AND query LIKE 'LISTEN %'`); killed != 1 {
			t.Fatalf("%d listeners, want 1", killed)
		}
		wait(t, "the wake-up after listening again", wake)
		b.record(t, eventOf("evt_"+time.Now().Format(time.RFC3339Nano), "customer.created", map[string]any{"id": "cus_1"}))
		wait(t, "the wake-up for a new delivery", wake)
	}
}

// running runs a drainer until the returned function has stopped it.
func (b *testBundle) running(t *testing.T, wake <-chan struct{}) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); b.drainer.Run(ctx, wake) }()
	var once sync.Once
	stop = func() { once.Do(func() { cancel(); wait(t, "the drainer's end", ended) }) }
	t.Cleanup(stop)
	return stop
}

// A new delivery wakes a sleeping drainer; it does not wait for the poll, which comes every
// five seconds.
func TestARecordWakesADrainer(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.running(t, b.listening(t))
	placed := b.placed(t, 4, 1, 1)
	for _, o := range placed {
		started := time.Now()
		b.record(t, o.checkouts[0].event("evt_"+o.ID.String(), completed))
		eventually(t, "the order is paid", func() bool { return b.state(t, o) == orders.Paid })
		if took := time.Since(started); took > 3*time.Second {
			t.Errorf("order %s: paid after %s, want it woken", o.ID, took)
		}
	}
}

// Without any wake-up the drainer comes by itself when the next delivery is due: here a
// second after it was parked.
func TestADrainerComesWhenADeliveryIsDue(t *testing.T) {
	t.Parallel()
	b := setup(t)
	o := b.unopened(t)
	early := checkout{Order: o.ID, Session: "cs_early", Intent: "pi_early", Amount: o.Total}
	b.record(t, early.event("evt_early", completed))
	b.drain(t)
	b.exec(t, `INSERT INTO payment_resources SELECT provider, 'cs_early', id, now() FROM payments`)
	b.running(t, nil)
	eventually(t, "the order is paid", func() bool { return b.state(t, o) == orders.Paid })
	if d := b.delivery(t, "evt_early"); d.ProcessedAt.Sub(d.NextAttemptAt) > 3*time.Second {
		t.Errorf("processed %s after it was due, want it at once", d.ProcessedAt.Sub(d.NextAttemptAt))
	}
}

// A stop ends a drainer soon, whether it sleeps or works, and it gives nothing up: no row
// stays claimed, no attempt is lost.
func TestAStoppedDrainerLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.drainer.Batch = 3
	placed := b.placed(t, 120, 1, 1)
	b.recordOne(t, placed)
	for stops := 0; ; stops++ {
		before := b.count(t, `SELECT count(*) FROM webhook_deliveries WHERE processed_at IS NOT NULL`)
		stop := b.running(t, nil)
		eventually(t, "it works", func() bool {
			return b.count(t, `SELECT count(*) FROM webhook_deliveries WHERE processed_at IS NOT NULL`) >= min(before+5, len(placed))
		})
		started := time.Now()
		stop()
		if took := time.Since(started); took > 5*time.Second {
			t.Errorf("the stop took %s", took)
		}
		if held := b.count(t, `SELECT count(*) FROM webhook_deliveries WHERE claim IS NOT NULL OR attempts <> CASE WHEN processed_at IS NULL THEN 0 ELSE 1 END`); held != 0 {
			t.Fatalf("stop %d left %d deliveries claimed or with a wrong count of attempts", stops, held)
		}
		if before == len(placed) {
			break
		}
	}
	for _, o := range placed {
		b.wantState(t, o, orders.Paid)
	}
}

// B44: no connection is held while the provider is thinking. With a pool of three, and ten
// calls and reads waiting for their answers, deliveries are stored and applied.
func TestB44NoConnectionIsHeldAcrossHTTP(t *testing.T) {
	t.Parallel()
	whole := setup(t)
	b := newProcess(t, whole.dsn, whole.sim, whole.simURL, whole.mailer, 3)
	var waiting []order
	for range 5 {
		waiting = append(waiting, b.unopened(t), b.order(t))
	}
	paid := b.order(t)
	events := b.pay(t, paid.checkouts[0], stripesim.PayOptions{})

	gate := make(chan struct{})
	b.sim.Inject(stripesim.Fault{Method: http.MethodPost, Gate: gate, Times: 5})
	b.sim.Inject(stripesim.Fault{Method: http.MethodGet, Gate: gate, Times: 5})
	var calls sync.WaitGroup
	before := len(b.sim.Calls())
	for _, o := range waiting {
		calls.Go(func() {
			var err error
			if o.checkouts[0].Session == "" {
				err = b.service.OpenCheckout(t.Context(), o.callKey)
			} else {
				err = b.service.ReadPayment(t.Context(), o.checkouts[0].PaymentID, noJob)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	eventually(t, "all of them wait for the provider", func() bool { return len(b.sim.Calls()) == before+len(waiting) })

	if used := b.db.Pool.Stat().AcquiredConns(); used != 0 {
		t.Errorf("%d connections are held while the provider thinks, want none", used)
	}
	started := time.Now()
	for _, e := range events {
		b.record(t, e.Body)
	}
	b.drain(t)
	b.wantState(t, paid, orders.Paid)
	if took := time.Since(started); took > 5*time.Second {
		t.Errorf("storing and applying took %s", took)
	}
	close(gate)
	calls.Wait()
	for _, o := range waiting {
		if o = b.reload(t, o); o.checkouts[0].Session == "" {
			t.Errorf("order %s has no session", o.ID)
		}
	}
}
