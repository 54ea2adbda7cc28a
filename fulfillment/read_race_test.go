package fulfillment_test

import (
	"testing"

	"github.com/google/uuid"

	"paidonce/fulfillment"
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
