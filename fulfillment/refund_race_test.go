package fulfillment_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"gorm.io/gorm"

	"paidonce/internal/database"
	"paidonce/internal/provider"
	"paidonce/internal/stripesim"
	"paidonce/orders"
)

func ann() orders.Person { return orders.Person{Name: "ann", Why: "the buyer asked"} }

// shopOfTwo is two processes on one database that work everything there is: deliveries, which
// the simulated Stripe's events become at once, and jobs.
type shopOfTwo struct {
	*world
	processes [2]*testBundle
}

func openShopOfTwo(t *testing.T) shopOfTwo {
	t.Helper()
	w := openWorld(t)
	s := shopOfTwo{world: w, processes: [2]*testBundle{w.testBundle, w.another(t)}}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	t.Cleanup(func() { stop(); running.Wait() })
	for i, b := range s.processes {
		b.start(t)
		running.Go(func() { // each hears of every second event
			for seen := 0; ctx.Err() == nil; {
				for events := w.sim.Events(); seen < len(events); seen++ {
					if seen%2 == i {
						if _, err := b.tryRecord(ctx, events[seen].Body); err != nil && ctx.Err() == nil {
							t.Error(err)
						}
					}
				}
				if taken, err := b.drainer.Drain(ctx); err != nil && ctx.Err() == nil {
					t.Error(err)
				} else if taken == 0 {
					select {
					case <-ctx.Done():
					case <-time.After(time.Millisecond): // between two looks
					}
				}
			}
		})
	}
	return s
}

// atOnce has every process do something n times at one moment, and returns what went wrong.
func (s shopOfTwo) atOnce(n int, do func(b *testBundle) error) []error {
	var errs []error
	var mu sync.Mutex
	var running sync.WaitGroup
	start := make(chan struct{})
	for i := range n * len(s.processes) {
		running.Go(func() {
			<-start
			err := do(s.processes[i%len(s.processes)])
			mu.Lock()
			defer mu.Unlock()
			errs = append(errs, err)
		})
	}
	close(start)
	running.Wait()
	return errs
}

// idle waits until every event has arrived and all work is done.
func (s shopOfTwo) idle(t *testing.T) {
	t.Helper()
	eventually(t, "all work is done", func() bool {
		arrived := s.count(t, `SELECT count(*) FROM webhook_deliveries`) == len(s.sim.Events())
		return arrived && s.count(t, `
SELECT (SELECT count(*) FROM webhook_deliveries WHERE processed_at IS NULL)
     + (SELECT count(*) FROM river_job WHERE finalized_at IS NULL AND kind NOT IN ('sweep_parked', 'create_checkout', 'send_refund'))`) == 0
	})
}

// live pays the first checkouts of an order, and waits until all is done.
func (s shopOfTwo) live(t *testing.T, checkouts int) *life {
	t.Helper()
	l := &life{order: s.order(t)}
	if checkouts == 2 {
		l.order = s.secondCheckout(t, l.order)
	}
	for nth := range checkouts {
		s.happen(t, l, pays(nth))
		l.arrived[nth] = 1
	}
	s.idle(t)
	s.wantState(t, l.order, orders.Fulfilled)
	return l
}

// refund decides, and sends. That a job, or the other process, is at it is no fault.
func refund(t *testing.T, b *testBundle, l *life, wish orders.RefundWish) error {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	all, err := b.service.Refund(ctx, l.ID, wish, ann())
	if err != nil {
		return err
	}
	for _, one := range all {
		if err := b.service.SendRefund(ctx, one.Ruling); err != nil && !errors.Is(err, provider.ErrInFlight) {
			return err
		}
	}
	return nil
}

// A refund that is asked for eight times at one moment, by two processes, while events about
// other refunds of the payment arrive and are read, is one refund (I7).
func TestOneRefundHoweverOftenItIsAskedFor(t *testing.T) {
	t.Parallel()
	s := openShopOfTwo(t)
	for _, wish := range []orders.RefundWish{{}, {AmountMinor: 700}, {Key: "the buyer's second mail"}} {
		l := s.live(t, 1)
		before := len(s.sim.Refunds())
		errs := s.atOnce(4, func(b *testBundle) error {
			// Somebody else sends parts back, at Stripe's own page, while there is something left.
			_, _, _ = s.sim.Refund(l.paid[0].PaymentIntentID, 100, "", stripesim.Held)
			return refund(t, b, l, wish)
		})
		for _, err := range errs {
			if err != nil {
				t.Errorf("%+v: %v", wish, err)
			}
		}
		s.timeOfTheJobs(t)
		s.idle(t)
		ours := 0
		for _, id := range s.sim.Refunds()[before:] {
			if object, _ := s.sim.RefundObject(id); strings.Contains(string(object), provider.RefundMarker) {
				ours++
			}
		}
		if ours != 1 {
			t.Errorf("%+v: %d refunds at Stripe, want 1", wish, ours)
		}
		if n := s.count(t, `SELECT count(*) FROM order_decisions WHERE order_id = ?`, l.ID); n != 1 {
			t.Errorf("%+v: %d decisions, want 1", wish, n)
		}
		s.wantTruth(t, l)
	}
	s.wantNoMailTwice(t)
	s.wantNoDeadlock(t)
}

// timeOfTheJobs lets the jobs of calls have waited for who asked for them.
func (s shopOfTwo) timeOfTheJobs(t *testing.T) {
	t.Helper()
	s.exec(t, `UPDATE river_job SET scheduled_at = now() WHERE state = 'scheduled' AND kind = 'send_refund'`)
	eventually(t, "the jobs of refunds are done", func() bool {
		return s.count(t, `SELECT count(*) FROM river_job WHERE kind = 'send_refund' AND finalized_at IS NULL`) == 0
	})
}

func (s shopOfTwo) wantTruth(t *testing.T, l *life) {
	t.Helper()
	want, got := s.truth(t, l), s.came(t, l)
	if got.Open = 0; got != want { // whatever became of the deliveries
		t.Errorf("order %s: %+v, want %+v", l.ID, got, want)
	}
}

func (s shopOfTwo) wantNoDeadlock(t *testing.T) {
	t.Helper()
	if n := s.count(t, `SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()`); n != 0 {
		t.Errorf("%d deadlocks", n)
	}
}

// Money that was surplus when somebody decided to send it back, and pays the order by the time
// the call begins, stays. Whoever wants it back all the same asks for that payment.
func TestSurplusThatPaysTheOrderIsNotSentBack(t *testing.T) {
	t.Parallel()
	w := openWorld(t)
	l := &life{order: w.secondCheckout(t, w.order(t))}
	for nth := range 2 {
		w.happen(t, l, pays(nth))
		w.take(t, l, step{move: nth, arrives: true}, nil)
	}
	w.finish(t)
	s := shopOfTwo{world: w}
	counted, other, err := s.countedOf(t, l)
	if err != nil {
		t.Fatal(err)
	}
	all, err := w.service.Refund(t.Context(), l.ID, orders.RefundWish{Surplus: true}, ann())
	if err != nil || len(all) != 1 {
		t.Fatalf("%d decisions, %v", len(all), err)
	}
	if _, _, err := w.sim.Refund(counted, 0, "", stripesim.Held); err != nil {
		t.Fatal(err)
	}
	events := w.sim.Events()
	w.record(t, events[len(events)-1].Body)
	w.drainAll(t)
	for _, job := range w.readJobs(t, l.ID) {
		w.mustDo(t, job)
	}
	for range 2 {
		if err := w.service.SendRefund(t.Context(), all[0].Ruling); !errors.Is(err, provider.ErrRefused) {
			t.Errorf("sending it: %v, want that it is not wanted any more", err)
		}
	}
	if n := len(w.sim.Refunds()); n != 1 {
		t.Errorf("%d refunds, want the other one's alone", n)
	}
	w.finish(t)
	w.wantState(t, l.order, orders.Fulfilled)

	if err := refund(t, w.testBundle, l, orders.RefundWish{Payment: other}); err != nil {
		t.Error(err)
	}
	w.finish(t)
	w.wantState(t, l.order, orders.Refunded)
}

// Surplus money is sent back by two processes while the payment that counts is refunded: then
// the surplus one pays the order, and is sent back only if that was sooner. Nobody waits for
// each other.
func TestSurplusIsSentBackAmidRefunds(t *testing.T) {
	t.Parallel()
	s := openShopOfTwo(t)
	for round := range 4 {
		l := s.live(t, 2)
		counted, _, err := s.countedOf(t, l)
		if err != nil {
			t.Fatal(err)
		}
		moved := make(chan error, 1)
		errs := s.atOnce(2, func(b *testBundle) error {
			select {
			case moved <- nil:
				_, _, err := s.sim.Refund(counted, 0, "", stripesim.Held)
				return err
			default:
				return refund(t, b, l, orders.RefundWish{Surplus: true})
			}
		})
		for _, err := range errs {
			if err != nil && !errors.Is(err, provider.ErrNotWanted) && !errors.Is(err, orders.ErrNothingToRefund) && !errors.Is(err, provider.ErrRefused) {
				t.Errorf("round %d: %v", round, err)
			}
		}
		s.timeOfTheJobs(t)
		s.idle(t)
		s.wantTruth(t, l)
	}
	s.wantNoDeadlock(t)
}

// countedOf is the intents of the payment that counts and of the other.
func (s shopOfTwo) countedOf(t *testing.T, l *life) (counted, other string, err error) {
	t.Helper()
	surplus := s.view(t, l.order).Surplus()
	if len(surplus) != 1 {
		return "", "", fmt.Errorf("%d surplus payments, want 1", len(surplus))
	}
	for _, p := range l.paid {
		if p.SessionID == *surplus[0].ResourceID {
			other = p.PaymentIntentID
		} else {
			counted = p.PaymentIntentID
		}
	}
	return counted, other, nil
}

// Whoever begins a call about surplus money holds its row and waits for the order (the
// guard). Whoever holds the order needs nothing of the call's row, also if it writes the same
// call down again: so they cannot wait for each other (B40).
func TestWhoHoldsTheOrderNeedsNoCall(t *testing.T) {
	t.Parallel()
	w := openWorld(t)
	l := &life{order: w.secondCheckout(t, w.order(t))}
	for nth := range 2 {
		w.happen(t, l, pays(nth))
		w.take(t, l, step{move: nth, arrives: true}, nil)
	}
	w.finish(t)
	all, err := w.service.Refund(t.Context(), l.ID, orders.RefundWish{Surplus: true}, ann())
	if err != nil || len(all) != 1 {
		t.Fatalf("%d decisions, %v", len(all), err)
	}
	key := provider.RefundKey(all[0].Ruling.ID)
	var call provider.Call
	if err := w.db.Gorm.First(&call, "idempotency_key = ?", key).Error; err != nil {
		t.Fatal(err)
	}
	sent := make(chan error, 1)
	err = w.db.Gorm.WithContext(t.Context()).Transaction(func(tx *gorm.DB) error {
		if err := tx.Exec(`SELECT FROM orders WHERE id = ? FOR UPDATE`, l.ID).Error; err != nil {
			return err
		}
		go func() { sent <- w.service.PerformCall(context.WithoutCancel(t.Context()), key, noJob) }()
		eventually(t, "the call waits for the order", func() bool {
			return w.count(t, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`) == 1
		})
		if err := tx.Exec(`SET LOCAL lock_timeout = '500ms'`).Error; err != nil {
			return err
		}
		if err := w.calls.Intend(t.Context(), tx, call); err != nil {
			return err
		}
		return w.orders.WantRead(t.Context(), tx, *all[0].Ruling.PaymentID)
	})
	if err != nil {
		t.Errorf("holding the order: %v (contended: %t)", err, database.Contended(err))
	}
	if err := wait(t, "the call is sent", sent); err != nil {
		t.Errorf("the call: %v", err)
	}
	if n := len(w.sim.Refunds()); n != 1 {
		t.Errorf("%d refunds, want 1", n)
	}
}
