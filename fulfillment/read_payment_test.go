package fulfillment_test

import (
	"database/sql"
	"errors"
	"net/http"
	"strings"
	"testing"

	"gorm.io/gorm"

	"paidonce/internal/provider"
	"paidonce/internal/stripesim"
	"paidonce/orders"
)

// readUntil is the lease of whoever reads a payment.
func (b *testBundle) readUntil(t *testing.T, c checkout) sql.NullTime {
	t.Helper()
	return value[sql.NullTime](t, b, `SELECT read_until FROM payments WHERE id = ?`, c.PaymentID)
}

// held begins to read a payment and is held at a list, so that it has read the session and not
// yet that list. It ends when the gate is closed.
func (b *testBundle) held(t *testing.T, c checkout, list string, done *int) (gate chan struct{}, ended chan error) {
	t.Helper()
	gate, ended = make(chan struct{}), make(chan error, 1)
	b.sim.Inject(stripesim.Fault{Method: http.MethodGet, Path: list, Gate: gate})
	calls := len(b.sim.Calls())
	go func() { ended <- b.service.ReadPayment(t.Context(), c.PaymentID, counted(done)) }()
	eventually(t, "the reader is at "+list, func() bool {
		for _, call := range b.sim.Calls()[calls:] {
			if call.Path == list {
				return true
			}
		}
		return false
	})
	return gate, ended
}

// Of two readers of one payment, the second comes back later and asks for nothing meanwhile.
func TestReadPayment_OneAtATime(t *testing.T) {
	t.Parallel()
	b := setup(t)
	o := b.bought(t)
	c := o.checkouts[0]
	b.exec(t, `UPDATE payments SET read_wanted = read_wanted + 1`)
	done, before := 0, b.readsOf(c)
	gate, ended := b.held(t, c, "/v1/disputes", &done)
	for range 3 {
		err := b.another(t).service.ReadPayment(t.Context(), c.PaymentID, counted(&done))
		if err == nil || !strings.Contains(err.Error(), "read by another") || done != 0 {
			t.Errorf("a second reader: %v after %d completions, want it sent away", err, done)
		}
	}
	close(gate)
	if err := wait(t, "the reader", ended); err != nil || done != 1 {
		t.Errorf("the reader: %v after %d completions", err, done)
	}
	if n := b.readsOf(c) - before; n != 1 {
		t.Errorf("read %d times, want once", n)
	}
	if until := b.readUntil(t, c); until.Valid {
		t.Errorf("somebody reads until %s", until.Time)
	}
}

// A reader that failed lets the next one in at once; one that died, after its lease.
func TestReadPayment_AfterOneThatFailed(t *testing.T) {
	t.Parallel()
	b := setup(t)
	o := b.bought(t)
	c := o.checkouts[0]
	b.exec(t, `UPDATE payments SET read_wanted = read_wanted + 1`)
	for _, list := range []string{"/v1/checkout/sessions", "/v1/refunds", "/v1/disputes"} {
		b.sim.Inject(stripesim.Fault{Method: http.MethodGet, Path: list, Status: http.StatusServiceUnavailable})
		var retry *provider.RetryError
		if err := b.service.ReadPayment(t.Context(), c.PaymentID, noJob); !errors.As(err, &retry) || b.readUntil(t, c).Valid {
			t.Errorf("%s is away: %v, read until %v; want a retry, and nobody at it", list, err, b.readUntil(t, c))
		}
	}
	lost := errors.New("the job is not mine any more")
	if err := b.service.ReadPayment(t.Context(), c.PaymentID, func(*gorm.DB) error { return lost }); !errors.Is(err, lost) || b.readUntil(t, c).Valid {
		t.Errorf("got %v, read until %v; want the job's error, and nobody at it", err, b.readUntil(t, c))
	}
	b.exec(t, `UPDATE payments SET read_until = now() + interval '1 h'`)
	if err := b.service.ReadPayment(t.Context(), c.PaymentID, noJob); err == nil {
		t.Error("read while somebody is at it")
	}
	b.exec(t, `UPDATE payments SET read_until = now()`)
	if err := b.service.ReadPayment(t.Context(), c.PaymentID, noJob); err != nil {
		t.Errorf("after the lease: %v", err)
	}
}

// Three wishes are answered by one read, and their jobs end without asking again.
func TestReadPayment_AnsweredWishesAreNotReadAgain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	o := b.bought(t)
	c := o.checkouts[0]
	before, jobs := b.readsOf(c), b.jobs(t, "read_payment")
	_, events := b.refunded(t, c, 500)
	for n := range 3 {
		b.record(t, again(events[0], n))
	}
	b.drain(t)
	if n := b.jobs(t, "read_payment") - jobs; n != 3 {
		t.Errorf("%d jobs to read, want 3", n)
	}
	b.settle(t)
	if n := b.readsOf(c) - before; n != 1 {
		t.Errorf("read %d times, want once", n)
	}
	if n := b.count(t, `SELECT count(*) FROM river_job WHERE kind = 'read_payment' AND state <> 'completed'`); n != 0 {
		t.Errorf("%d jobs are not done", n)
	}
}

// A refund that is made behind the reader's back, after the refunds were listed: its event's
// wish came during the read, and is answered by another.
func TestReadPayment_ARefundBehindItsBack(t *testing.T) {
	t.Parallel()
	b := setup(t)
	o := b.bought(t)
	c := o.checkouts[0]
	b.exec(t, `UPDATE payments SET read_wanted = read_wanted + 1`)
	done := 0
	gate, ended := b.held(t, c, "/v1/disputes", &done)
	_, events := b.refunded(t, c, 0)
	for _, e := range events {
		b.record(t, e.Body)
	}
	b.drain(t)
	b.exec(t, `UPDATE river_job SET state = 'completed', finalized_at = now() WHERE kind = 'read_payment'`) // the event's own job is lost
	close(gate)
	if err := wait(t, "the reader", ended); err != nil {
		t.Fatal(err)
	}
	if got := b.refundedMinor(t, c); got != 0 {
		t.Errorf("%d refunded by the read that could not see it", got)
	}
	b.settle(t)
	b.wantState(t, o, orders.Refunded)
	if got := b.refundedMinor(t, c); got != o.Total {
		t.Errorf("%d refunded, want all", got)
	}
}

// TestB14_TheSlowReaderDoesNotOverwrite: a reader overslept its lease, another read meanwhile
// what had changed. Both noted the same wish; what the slow one saw is older all the same.
func TestB14_TheSlowReaderDoesNotOverwrite(t *testing.T) {
	t.Parallel()
	b := setup(t)
	o := b.bought(t)
	c := o.checkouts[0]
	b.exec(t, `UPDATE payments SET read_wanted = read_wanted + 1`)
	slow, fast := 0, 0
	gate, ended := b.held(t, c, "/v1/disputes", &slow)
	b.refunded(t, c, 0) // after the slow one has listed the refunds
	b.exec(t, `UPDATE payments SET read_until = now()`)
	if err := b.another(t).service.ReadPayment(t.Context(), c.PaymentID, counted(&fast)); err != nil || fast != 1 {
		t.Fatalf("the fast reader: %v", err)
	}
	b.wantState(t, o, orders.Refunded)
	before := b.everything(t)
	close(gate)
	if err := wait(t, "the slow reader", ended); err == nil || slow != 0 {
		t.Errorf("the slow reader: %v after %d completions, want it told that it was too slow", err, slow)
	}
	if after := b.everything(t); after != before {
		t.Errorf("the slow reader wrote:\n%s\nit was\n%s", after, before)
	}
	b.settle(t)
	b.wantState(t, o, orders.Refunded)
}

// A reader that overslept does not let others in while the next one is at it.
func TestReadPayment_TheSlowReaderTakesNoLeaseAway(t *testing.T) {
	t.Parallel()
	b := setup(t)
	o := b.bought(t)
	c := o.checkouts[0]
	b.exec(t, `UPDATE payments SET read_wanted = read_wanted + 1`)
	for name, fault := range map[string]stripesim.Fault{"it succeeds": {}, "it fails": {Path: "/v1/disputes", Status: http.StatusInternalServerError}} {
		done := 0
		gate, ended := b.held(t, c, "/v1/refunds", &done)
		if fault.Status != 0 {
			b.sim.Inject(fault)
		}
		b.exec(t, `UPDATE payments SET read_until = date_trunc('second', now() + interval '1 h')`)
		close(gate)
		if err := wait(t, "the slow reader", ended); err == nil {
			t.Errorf("%s: no error", name)
		}
		if !b.readUntil(t, c).Valid {
			t.Errorf("%s: the next reader's lease is gone", name)
		}
		b.exec(t, `UPDATE payments SET read_until = NULL`)
	}
}

// The provider is down for as long as it likes: every attempt asks to be made again, the wish
// stands, and the first read after it heals the order.
func TestReadPayment_TheProviderIsDown(t *testing.T) {
	t.Parallel()
	b := setup(t)
	o := b.bought(t)
	c := o.checkouts[0]
	_, events := b.refunded(t, c, 0)
	for _, e := range events {
		b.record(t, e.Body)
	}
	b.drain(t)
	const down = 5
	b.sim.Inject(stripesim.Fault{Method: http.MethodGet, Status: http.StatusServiceUnavailable, Times: down})
	before := b.readsOf(c)
	b.start(t)
	eventually(t, "it is up, and all is read", func() bool {
		b.exec(t, `UPDATE river_job SET state = 'available', scheduled_at = now() WHERE kind = 'read_payment' AND state = 'retryable'`)
		return b.state(t, o) == orders.Refunded
	})
	const attempts = `SELECT max(attempt) FROM river_job WHERE kind = 'read_payment' AND state NOT IN ('cancelled', 'discarded')`
	if n := b.count(t, attempts); n != down+1 || b.readsOf(c) != before+down+1 {
		t.Errorf("healed by attempt %d and %d requests, want %d of both", n, b.readsOf(c)-before, down+1)
	}
}

// The wish to end a checkout is refused since it is complete. It is read then, though every
// wish to read it was answered before.
func TestExpireCheckout_ReadsWhetherWishedOrNot(t *testing.T) {
	t.Parallel()
	b := setup(t)
	o := b.order(t)
	c := o.checkouts[0]
	b.exec(t, `UPDATE payments SET read_wanted = 1`)
	if err := b.service.ReadPayment(t.Context(), c.PaymentID, noJob); err != nil {
		t.Fatal(err)
	}
	if _, err := b.orders.Cancel(t.Context(), o.ID, orders.Person{Name: "clerk@example.com", Why: "called off"}); err != nil {
		t.Fatal(err)
	}
	b.pay(t, c, stripesim.PayOptions{}) // its events are lost
	before := b.readsOf(c)
	completed, err := b.expireJob(t, o)
	if err != nil || completed != 1 || b.readsOf(c) != before+1 {
		t.Errorf("%v, completed %d times after %d reads; want one of each", err, completed, b.readsOf(c)-before)
	}
	b.wantState(t, o, orders.Review)
}
