package fulfillment_test

import (
	"context"
	"database/sql"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/riverqueue/river"

	"paidonce/fulfillment"
	"paidonce/internal/stripesim"
	"paidonce/orders"
)

// start starts the queue's client of this process and stops it when the test ends.
func (b *testBundle) start(t *testing.T) *river.Client[*sql.Tx] {
	t.Helper()
	client := b.client(t, 4)
	if err := client.Start(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stopNow(t, client) })
	return client
}

// stopNow takes the jobs' contexts away at once, as a graceful stop does when its time is up.
func stopNow(t *testing.T, client *river.Client[*sql.Tx]) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), deadline)
	defer cancel()
	if err := client.StopAndCancel(ctx); err != nil {
		t.Error(err)
	}
}

// unfinished counts the jobs that are not completed, the sweep's not counted.
func (b *testBundle) unfinished(t *testing.T) int {
	t.Helper()
	return b.count(t, `SELECT count(*) FROM river_job WHERE state <> 'completed' AND kind <> 'sweep_parked'`)
}

// deliverPaid brings in the events of a paid order, and applies them.
func (b *testBundle) deliverPaid(t *testing.T, o order) {
	t.Helper()
	for _, e := range b.pay(t, o.checkouts[0], stripesim.PayOptions{}) {
		b.record(t, e.Body)
	}
	b.forward(t)
	b.drain(t)
}

// jobState is the state of an order's job of a kind.
func (b *testBundle) jobState(t *testing.T, kind string) string {
	t.Helper()
	return value[string](t, b, `SELECT coalesce(string_agg(CAST(state AS text), ' ' ORDER BY id), '') FROM river_job WHERE kind = ?`, kind)
}

func TestTheQueueTakesAnOrderToItsEnd(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.start(t)
	for range 5 {
		o := b.order(t)
		b.deliverPaid(t, o)
		eventually(t, "the order has its effects", func() bool {
			return b.state(t, o) == orders.Fulfilled && b.effects(t, o) == once(o)
		})
	}
	// The takeover jobs of the checkouts come a few seconds later, and find nothing to do.
	b.exec(t, `UPDATE river_job SET scheduled_at = now(), state = 'available' WHERE kind = 'create_checkout' AND state = 'scheduled'`)
	eventually(t, "every job is completed", func() bool { return b.unfinished(t) == 0 })
	if b.sessions() != 5 {
		t.Errorf("%d sessions, want 5", b.sessions())
	}
}

// B25: the answer was lost after the work was done at the provider. The job runs again, and
// the effect stays one.
func TestB25ALostAnswerIsAskedForAgain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	o := b.order(t)
	b.sim.Inject(stripesim.Fault{Method: http.MethodPost, Path: "/v1/payment_intents", Kind: stripesim.LoseAnswer})
	b.start(t)
	b.deliverPaid(t, o)
	eventually(t, "the notice is settled", func() bool { return b.jobState(t, "notify_provider") == "completed" })
	b.wantEffects(t, o, once(o))
	calls := 0
	for _, call := range b.sim.Calls() {
		if call.IdempotencyKey == "fulfill:"+o.ID.String() {
			calls++
		}
	}
	attempts := b.count(t, `SELECT attempt FROM river_job WHERE kind = 'notify_provider'`)
	if calls != 2 || attempts != 2 {
		t.Errorf("order %s: %d requests in %d attempts, want 2 in 2", o.ID, calls, attempts)
	}
}

// B25: the provider is slower than the rescue. The rescued job finds the call in flight and
// comes back later; the first run's answer counts, and neither run completes anything twice.
func TestB25ARescuedJobDoesNotDoubleTheCall(t *testing.T) {
	t.Parallel()
	b := setup(t)
	o := b.order(t)
	gate := make(chan struct{})
	b.sim.Inject(stripesim.Fault{Method: http.MethodPost, Path: "/v1/payment_intents", Gate: gate})
	b.start(t)
	b.deliverPaid(t, o)
	under := func() (n int) {
		for _, call := range b.sim.Calls() {
			if call.IdempotencyKey == "fulfill:"+o.ID.String() {
				n++
			}
		}
		return n
	}
	eventually(t, "the call is under way", func() bool { return under() == 1 })

	// What the rescuer does with a job that has been running for too long.
	b.exec(t, `UPDATE river_job SET state = 'available', scheduled_at = now() WHERE kind = 'notify_provider' AND state = 'running'`)
	eventually(t, "the second run has come and gone", func() bool {
		return b.count(t, `SELECT count(*) FROM river_job WHERE kind = 'notify_provider' AND (metadata->>'snoozes') IS NOT NULL`) == 1
	})
	if got := under(); got != 1 {
		t.Errorf("order %s: %d requests, want the second run to leave the first alone", o.ID, got)
	}
	close(gate)
	eventually(t, "the first run's answer is recorded", func() bool {
		return b.count(t, `SELECT count(*) FROM provider_calls WHERE operation = 'fulfill' AND state = 'sent'`) == 1
	})
	b.exec(t, `UPDATE river_job SET state = 'available', scheduled_at = now() WHERE kind = 'notify_provider' AND state = 'scheduled'`)
	eventually(t, "the job is completed", func() bool { return b.jobState(t, "notify_provider") == "completed" })
	b.wantEffects(t, o, once(o))
	if got := under(); got != 1 {
		t.Errorf("order %s: %d requests, want 1", o.ID, got)
	}
}

// B25: a process died at its job. The real rescuer brings the job back, and leaves a
// completed one alone, however long ago it was begun.
func TestB25TheRescuerBringsBackWhatADeadProcessHad(t *testing.T) {
	t.Parallel()
	b := setup(t)
	o := b.order(t)
	b.deliverPaid(t, o)
	dead := b.fulfilled(t)
	const long = `attempt = 1, attempted_at = now() - interval '10 minutes', attempted_by = '{dead}'`
	b.exec(t, `UPDATE river_job SET state = 'running', `+long+` WHERE kind = 'fulfill_order' AND args->>'order_id' = CAST(? AS text)`, o.ID)
	b.exec(t, `UPDATE river_job SET state = 'completed', finalized_at = now(), `+long+` WHERE args->>'order_id' = CAST(? AS text)`, dead.ID)
	b.start(t)
	eventually(t, "the order has its effects", func() bool {
		return b.state(t, o) == orders.Fulfilled && b.effects(t, o) == once(o)
	})
	if rescued := b.count(t, `SELECT CAST(metadata->>'river:rescue_count' AS integer) FROM river_job
		WHERE kind = 'fulfill_order' AND args->>'order_id' = CAST(? AS text)`, o.ID); rescued != 1 {
		t.Errorf("order %s: its job was rescued %d times, want once", o.ID, rescued)
	}
	if back := b.count(t, `SELECT count(*) FROM river_job WHERE args->>'order_id' = CAST(? AS text) AND (state <> 'completed' OR attempt <> 1)`, dead.ID); back != 0 {
		t.Errorf("order %s: %d completed jobs came back", dead.ID, back)
	}
	if sent := b.mailer.to(dead.ID); sent != 0 {
		t.Errorf("order %s: %d mails by a completed job", dead.ID, sent)
	}
}

// B26: jobs that can never be done, among good ones. The good ones are done; the bad ones
// end as dead letters, with their errors, and are kept.
func TestB26PoisonJobsEndAndHoldNobodyUp(t *testing.T) {
	t.Parallel()
	b := setup(t)
	panics := b.order(t)
	b.mailer.answer = func(m fulfillment.Message) error {
		if strings.Contains(m.MessageID, panics.ID.String()) {
			panic("poison")
		}
		return nil
	}
	for _, bad := range []struct{ kind, queue, args string }{
		{"fulfill_order", "fulfill_order", `{"order_id": 7}`},
		{"fulfill_order", "fulfill_order", `{"order_id": "no id"}`},
		{"fulfill_order", "fulfill_order", `{"order_id": "01890a5d-ac96-774b-bcce-b302099a8057"}`}, // of no order
		{"no_such_kind", "fulfill_order", `{}`},
		{"send_receipt", "send_receipt", `[]`},
		{"read_payment", "read_payment", `{}`},
	} {
		b.exec(t, `INSERT INTO river_job (kind, queue, args, max_attempts) VALUES (?, ?, CAST(? AS jsonb), 2)`, bad.kind, bad.queue, bad.args)
	}
	b.start(t)
	b.deliverPaid(t, panics)
	for range 5 {
		o := b.order(t)
		b.deliverPaid(t, o)
		eventually(t, "a good order has its effects", func() bool { return b.effects(t, o) == once(o) })
	}
	eventually(t, "the poison jobs have ended", func() bool {
		b.exec(t, `UPDATE river_job SET state = 'available', scheduled_at = now() WHERE max_attempts = 2 AND state = 'retryable'`)
		return b.count(t, `SELECT count(*) FROM river_job WHERE max_attempts = 2 AND state = 'discarded' AND attempt = 2 AND array_length(errors, 1) = 2`) == 6
	})

	// The mail whose sender panicked may have gone out: it is not tried again before its pause is over.
	eventually(t, "the panic is recorded", func() bool {
		return b.count(t, `SELECT count(*) FROM river_job WHERE kind = 'send_receipt' AND args->>'order_id' = CAST(? AS text) AND array_length(errors, 1) = 1`, panics.ID) == 1
	})
	b.exec(t, `UPDATE sent_receipts SET sending_until = now() WHERE order_id = ?`, panics.ID)
	eventually(t, "its outcome is unknown", func() bool {
		b.exec(t, `UPDATE river_job SET state = 'available', scheduled_at = now() WHERE kind = 'send_receipt' AND state IN ('retryable', 'scheduled')`)
		state, _ := b.receipt(t, panics)
		return state == fulfillment.ReceiptUnknown
	})
	b.wantEffects(t, panics, once(panics)) // the one mail that was being sent
}

// A stop takes the contexts of jobs that are still running away when its time is up. They
// hand themselves back, with their attempts.
func TestAStopHandsJobsBack(t *testing.T) {
	t.Parallel()
	b := setup(t)
	o := b.order(t)
	gate := make(chan struct{})
	defer close(gate)
	b.sim.Inject(stripesim.Fault{Method: http.MethodPost, Path: "/v1/payment_intents", Gate: gate})
	client := b.client(t, 4)
	if err := client.Start(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
	b.deliverPaid(t, o)
	eventually(t, "the call is under way", func() bool {
		return b.count(t, `SELECT count(*) FROM provider_calls WHERE operation = 'fulfill' AND state = 'sending'`) == 1
	})
	started := time.Now()
	stopNow(t, client)
	if took := time.Since(started); took > 10*time.Second {
		t.Errorf("the stop took %s", took)
	}
	if got := b.jobState(t, "notify_provider"); got != "available" {
		t.Errorf("order %s: the job is %s, want it available", o.ID, got)
	}
	if attempt := b.count(t, `SELECT attempt FROM river_job WHERE kind = 'notify_provider'`); attempt != 0 {
		t.Errorf("order %s: %d attempts are burned, want none", o.ID, attempt)
	}
	if state := value[string](t, b, `SELECT state FROM provider_calls WHERE operation = 'fulfill'`); state != "unknown" {
		t.Errorf("order %s: the call is %s, want unknown: it may have been done", o.ID, state)
	}
}

// A mail went out while its process was being stopped: that is written down, and its job
// is completed with it, though the job's own context is gone.
func TestAStopDuringTheSendCompletesTheJob(t *testing.T) {
	t.Parallel()
	b := setup(t)
	o := b.order(t)
	sending := make(chan struct{})
	b.mailer.during = func(ctx context.Context) { close(sending); <-ctx.Done() }
	client := b.client(t, 4)
	if err := client.Start(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
	b.deliverPaid(t, o)
	wait(t, "the mail is under way", sending)
	stopNow(t, client)
	if state, _ := b.receipt(t, o); state != fulfillment.ReceiptSent {
		t.Errorf("order %s: receipt is %s, want sent", o.ID, state)
	}
	if got := b.jobState(t, "send_receipt"); got != "completed" {
		t.Errorf("order %s: its job is %s, want completed", o.ID, got)
	}
	if sent := b.mailer.to(o.ID); sent != 1 {
		t.Errorf("order %s: %d mails, want 1", o.ID, sent)
	}
}
