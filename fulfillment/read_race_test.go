package fulfillment_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"

	"paidonce/fulfillment"
	"paidonce/internal/provider"
	"paidonce/internal/stripesim"
	"paidonce/orders"
)

// oneLife is an order that was paid by its first checkout, and fulfilled.
func (w *world) oneLife(t *testing.T) *life {
	t.Helper()
	l := &life{order: w.order(t)}
	w.happen(t, l, pays(0))
	w.take(t, l, step{move: 0, arrives: true}, nil)
	w.finish(t)
	w.wantState(t, l.order, orders.Fulfilled)
	return l
}

// readJobs are the jobs that ask for a read of an order's payments.
func (w *world) readJobs(t *testing.T, order uuid.UUID) (reads []readyJob) {
	t.Helper()
	for _, job := range w.ready(t)[order] {
		if job.Kind == "read_payment" {
			reads = append(reads, job)
		}
	}
	return reads
}

// A reader that was frozen for longer than it has, and wakes up after another has read, has
// nothing to say any more: neither does it store what is older, nor let a third in beside the
// one that is at it.
func TestAReaderThatOversleptStoresNothing(t *testing.T) {
	t.Parallel()
	w := openWorld(t)
	l := w.oneLife(t)
	w.happen(t, l, refunds(0, 1000))
	for range 2 { // two wishes, noted by whoever reads next
		w.take(t, l, step{move: 1, arrives: true}, nil)
	}
	w.drainAll(t)
	reads := w.readJobs(t, l.ID)
	if len(reads) != 2 {
		t.Fatalf("%d jobs, want 2", len(reads))
	}
	refunded := func() int64 { return w.view(t, l.order).RefundedMinor() }

	// The first is told of one refund, and freezes. The second one happens, and is read, by
	// somebody who has noted the same wish.
	err := w.during(t, l, reads[0], 2, func() {
		w.happen(t, l, refunds(0, 0))
		w.exec(t, `UPDATE payments SET read_until = now() WHERE order_id = ?`, l.ID)
		w.mustDo(t, reads[1])
		if refunded() != l.Total {
			t.Errorf("read meanwhile: %d refunded, want %d", refunded(), l.Total)
		}
		// A third is at it when the first wakes up.
		w.exec(t, `UPDATE payments SET read_until = now() + interval '1 minute' WHERE order_id = ?`, l.ID)
	})
	if !fulfillment.IsBeingRead(err) {
		t.Errorf("the first reader: %v, want that another is at it", err)
	}
	if refunded() != l.Total {
		t.Errorf("%d refunded, want the %d that were read last", refunded(), l.Total)
	}
	if n := w.count(t, `SELECT count(*) FROM payments WHERE order_id = ? AND read_until IS NULL`, l.ID); n != 0 {
		t.Error("the first reader ended the third one's lease")
	}
	w.wantState(t, l.order, orders.Refunded)
}

// While one reads, another asks the provider nothing, and comes again.
func TestOneReaderAtATime(t *testing.T) {
	t.Parallel()
	w := openWorld(t)
	l := w.oneLife(t)
	w.happen(t, l, refunds(0, 1000))
	for range 2 {
		w.take(t, l, step{move: 1, arrives: true}, nil)
	}
	w.drainAll(t)
	reads := w.readJobs(t, l.ID)
	gets := func() (n int) {
		for _, call := range w.sim.Calls() {
			if call.Method == http.MethodGet {
				n++
			}
		}
		return n
	}
	err := w.during(t, l, reads[0], 0, func() {
		before := gets()
		if err := w.doOne(t, reads[1]); !fulfillment.IsBeingRead(err) || gets() != before {
			t.Errorf("the second reader: %v, and %d requests", err, gets()-before)
		}
	})
	if err != nil {
		t.Error(err)
	}
	before := gets()
	w.mustDo(t, reads[1]) // both wishes were noted by the first
	if gets() != before {
		t.Errorf("%d requests for a wish that was answered", gets()-before)
	}
}

// A read that the provider turns away, for good or for now, stores nothing and lets the next
// one in at once. What it was to answer stays unanswered.
func TestAReadThatIsTurnedAway(t *testing.T) {
	t.Parallel()
	w := openWorld(t)
	l := w.oneLife(t)
	w.happen(t, l, refunds(0, 0))
	w.take(t, l, step{move: 1, arrives: true}, nil)
	w.drainAll(t)
	job := w.readJobs(t, l.ID)[0]
	for _, path := range []string{"/v1/checkout/sessions/", "/v1/refunds", "/v1/disputes"} {
		for status, final := range map[int]bool{http.StatusNotFound: true, http.StatusGone: true, http.StatusTooManyRequests: false, http.StatusInternalServerError: false} {
			w.sim.Inject(stripesim.Fault{Method: http.MethodGet, Path: path, Status: status})
			err := w.doOne(t, job)
			var again *provider.RetryError
			if errors.Is(err, provider.ErrRefused) != final || errors.As(err, &again) == final {
				t.Errorf("%s answers %d: %v", path, status, err)
			}
			if n := w.count(t, `SELECT count(*) FROM payments WHERE order_id = ? AND read_until IS NULL AND read_seq < read_wanted AND refunded_minor = 0`, l.ID); n != 1 {
				t.Errorf("%s answers %d: the payment is not as it was", path, status)
			}
		}
	}
	w.mustDo(t, job)
	w.wantState(t, l.order, orders.Refunded)
}

// What went back is read to the last page.
func TestAReadOfManyRefunds(t *testing.T) {
	t.Parallel()
	w := openWorld(t)
	l := w.oneLife(t)
	const many = 205 // more than two pages
	for range many {
		w.happen(t, l, refunds(0, 1))
	}
	w.take(t, l, step{move: many, arrives: true}, nil)
	w.drainAll(t)
	w.mustDo(t, w.readJobs(t, l.ID)[0])
	if v := w.view(t, l.order); v.RefundedMinor() != many || len(v.Refunds) != many {
		t.Errorf("%d refunded in %d refunds, want %d", v.RefundedMinor(), len(v.Refunds), many)
	}
	if n := w.count(t, `SELECT count(*) FROM sent_receipts WHERE order_id = ? AND kind = 'refund'`, l.ID); n != many {
		t.Errorf("%d mails, want one a refund", n)
	}
}

// A refund is decided on what the provider says now, by a process that may ask it: nothing is
// decided for a payment of the other mode, or that is not to be found.
func TestARefundIsDecidedOnARead(t *testing.T) {
	t.Parallel()
	w := openWorld(t)
	l := w.oneLife(t)
	w.sim.Inject(stripesim.Fault{Method: http.MethodGet, Path: "/v1/checkout/sessions/", Status: http.StatusNotFound})
	if _, err := w.service.Refund(t.Context(), l.ID, orders.RefundWish{}, ann()); !errors.Is(err, provider.ErrNotFound) {
		t.Errorf("not to be found: %v", err)
	}
	w.exec(t, `UPDATE payments SET livemode = true WHERE order_id = ?`, l.ID)
	if _, err := w.service.Refund(t.Context(), l.ID, orders.RefundWish{}, ann()); !errors.Is(err, provider.ErrOtherWorld) {
		t.Errorf("of the other mode: %v", err)
	}
	w.exec(t, `UPDATE payments SET livemode = false WHERE order_id = ?`, l.ID)
	if n := w.count(t, `SELECT count(*) FROM order_decisions`); n != 0 {
		t.Errorf("%d decisions, want none", n)
	}

	// 10.00 went back at Stripe's own page a moment ago, and nobody has told yet.
	w.happen(t, l, refunds(0, 1000))
	var input *orders.InputError
	_, err := w.service.Refund(t.Context(), l.ID, orders.RefundWish{AmountMinor: l.Total}, ann())
	if !errors.As(err, &input) || input.Field != "amount" || !strings.Contains(err.Error(), "2998") {
		t.Errorf("more than is left: %v", err)
	}
	all, err := w.service.Refund(t.Context(), l.ID, orders.RefundWish{}, ann())
	if err != nil || len(all) != 1 || *all[0].Ruling.AmountMinor != l.Total-1000 {
		t.Errorf("all that is left: %+v, %v", all, err)
	}
}
