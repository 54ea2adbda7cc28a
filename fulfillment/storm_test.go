package fulfillment_test

import (
	"net/http/httptest"
	"testing"
	"time"

	"paidonce/internal/devpg/devpgtest"
	"paidonce/internal/stripesim"
	"paidonce/orders"
)

// TestB28_AStormOfTwoHundred: two hundred checkouts at a Stripe that takes 50 requests a
// second and tells the others to wait. Each is opened once, under its own key, never sooner
// than asked and at no attempt's cost; the storm passes; and meanwhile a payment that comes
// in is fulfilled as on any other day.
func TestB28_AStormOfTwoHundred(t *testing.T) {
	t.Parallel()
	const jobs, perSecond, asked = 200, 50, time.Second
	sim := stripesim.New(stripesim.Config{RateLimit: perSecond, RetryAfter: "1"})
	server := httptest.NewServer(sim.Handler())
	t.Cleanup(server.Close)
	t.Cleanup(sim.Close)
	b := newProcess(t, devpgtest.New(t), sim, server.URL, &recorder{}, 0)
	b.importProducts(t)
	bystander := b.order(t)
	for range jobs {
		b.unopened(t)
	}
	b.exec(t, `UPDATE river_job SET state = 'available', scheduled_at = now() WHERE kind = 'create_checkout'`)
	started := time.Now()
	b.start(t)

	// In the middle of it.
	eventually(t, "the storm is on", func() bool { return turnedAway(sim) > jobs/4 })
	b.deliverPaid(t, bystander)
	eventually(t, "the bystander is fulfilled", func() bool {
		return b.state(t, bystander) == orders.Fulfilled && b.mailer.to(bystander.ID) == 1
	})
	fulfilledAfter, opened := time.Since(started), b.opened(t)
	if opened >= jobs {
		t.Error("the storm was over before the bystander came")
	}

	eventually(t, "every checkout is open", func() bool { return b.opened(t) == jobs+1 })
	took := time.Since(started)
	eventually(t, "every job is completed", func() bool { return b.unfinished(t) == 0 })
	if failed := b.count(t, `SELECT count(*) FROM river_job WHERE errors IS NOT NULL OR (state = 'completed' AND attempt > 1)`); failed != 0 {
		t.Errorf("%d jobs paid for the storm with attempts", failed)
	}

	// What Stripe saw.
	last, done, requests := map[string]time.Time{}, map[string]int{}, 0
	for _, call := range sim.Calls() {
		if call.IdempotencyKey == "" {
			continue
		}
		requests++
		if before, again := last[call.IdempotencyKey]; again && call.At.Sub(before) < asked {
			t.Errorf("%s came again after %s, asked to wait %s", call.IdempotencyKey, call.At.Sub(before), asked)
		}
		last[call.IdempotencyKey] = call.At
		if call.Status == 200 && !call.Replayed {
			done[call.IdempotencyKey]++
		}
	}
	if len(done) != jobs+2 || len(last) != jobs+2 {
		t.Errorf("%d things done under %d keys, want %d: a key a job, and the bystander's two", len(done), len(last), jobs+2)
	}
	for key, n := range done {
		if n != 1 {
			t.Errorf("%s was done %d times", key, n)
		}
	}
	if requests > 5*jobs {
		t.Errorf("%d requests for %d jobs: the waits do not spread them", requests, jobs)
	}
	t.Logf("%d jobs, %d a second: %s, %d requests; the bystander was fulfilled after %s", jobs, perSecond, took, requests, fulfilledAfter)
}

func turnedAway(sim *stripesim.Sim) (n int) {
	for _, call := range sim.Calls() {
		if call.Status == 429 {
			n++
		}
	}
	return n
}

// opened counts the checkouts that are open.
func (b *testBundle) opened(t *testing.T) int {
	t.Helper()
	return b.count(t, `SELECT count(*) FROM payments WHERE resource_id IS NOT NULL`)
}
