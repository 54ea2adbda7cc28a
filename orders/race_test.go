package orders_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"gorm.io/gorm"

	"paidonce/orders"
)

// atOnce runs do n times, all at one moment, and returns what each answered.
func atOnce[R any](n int, do func(i int) (R, error)) ([]R, []error) {
	results, errs := make([]R, n), make([]error, n)
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			<-start
			results[i], errs[i] = do(i)
		})
	}
	close(start)
	wg.Wait()
	return results, errs
}

// TestB41_TwentyAtOncePayOnce: the machine in memory decides nothing between requests. Each
// of twenty transactions has its own; the row lock and the guarded UPDATE let one through.
func TestB41_TwentyAtOncePayOnce(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	o := s.order()
	s.teach(o)
	results, errs := atOnce(20, func(i int) (orders.Result, error) {
		f := []orders.Fact{paid(o.Session, 1999), intentPaid(o.Session, 1999, 1999), chargePaid(o.Session, 1999)}[i%3]
		f.Cause.EventID = fmt.Sprintf("evt_%d", i)
		return s.tryApply(f)
	})
	won := ""
	for i, err := range errs {
		must(t, err)
		switch r := results[i]; r.Outcome {
		case orders.Applied:
			if won != "" {
				t.Errorf("%s and evt_%d both moved the order", won, i)
			}
			won = fmt.Sprintf("evt_%d", i)
		case orders.Already:
		default:
			t.Errorf("evt_%d: got %+v, want applied or already", i, r)
		}
	}
	v := s.view(o.ID)
	if len(v.Transitions) != 1 || v.Transitions[0].Event != orders.Pay || v.Transitions[0].CauseEventID != won {
		t.Errorf("%+v, want one pay, caused by %s", v.Transitions, won)
	}
	if len(s.edges.moves) != 1 {
		t.Errorf("the follower was told %v, want one move", s.edges.moves)
	}
}

// Both checkouts of an order are paid at once: one pay, the other is surplus.
func TestRace_TwoCheckoutsOfOneOrder(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	o := s.order()
	second := s.secondCheckout(o)
	_, errs := atOnce(20, func(i int) (orders.Result, error) {
		return s.tryApply(paid([]string{o.Session, second}[i%2], 1999))
	})
	must(t, errors.Join(errs...))
	if got := s.history(o.ID); !slices.Equal(got, []string{"pending pay paid"}) {
		t.Errorf("history %v", got)
	}
	if got := s.view(o.ID).ReceivedMinor(); got != 2*1999 {
		t.Errorf("received %d, want both payments", got)
	}
}

// Batches that name the same orders in opposite order lock them in one order.
func TestRace_LockAllHasOneOrder(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	var resources []orders.Resource
	for range 6 {
		resources = append(resources, orders.Resource{Provider: "stripe", ID: s.order().Session})
	}
	_, errs := atOnce(12, func(i int) (struct{}, error) {
		mine := slices.Clone(resources)
		if i%2 == 1 {
			slices.Reverse(mine)
		}
		return struct{}{}, s.tx(func(tx *gorm.DB) error {
			if err := s.LockAll(context.Background(), tx, mine, nil); err != nil {
				return err
			}
			for _, r := range mine { // the batch's own order
				if _, err := s.Apply(context.Background(), tx, paid(r.ID, 1999)); err != nil {
					return err
				}
			}
			return nil
		})
	})
	if err := errors.Join(errs...); err != nil {
		t.Errorf("a batch failed: %v", err)
	}
	if got := s.count(`SELECT count(*) FROM order_transitions WHERE event = 'pay'`); got != 6 {
		t.Errorf("%d pays, want 6", got)
	}
	must(t, s.tx(func(tx *gorm.DB) error { return s.LockAll(t.Context(), tx, nil, nil) }))
}

// TestLockAll_LocksWhatItNames: the rows are locked until the end, and no others.
func TestLockAll_LocksWhatItNames(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	named, hinted, other := s.order(), s.order(), s.order()
	must(t, s.tx(func(tx *gorm.DB) error {
		wanted := []orders.Resource{{Provider: "stripe", ID: named.Session}, {Provider: "stripe", ID: "cs_nobody"}, {Provider: "paymos", ID: other.Session}}
		if err := s.LockAll(t.Context(), tx, wanted, []uuid.UUID{hinted.ID, uuid.New()}); err != nil {
			return err
		}
		const probe = `SELECT count(*) FROM (SELECT id FROM orders WHERE id = ? FOR UPDATE SKIP LOCKED) free`
		if s.count(probe, named.ID) != 0 || s.count(probe, hinted.ID) != 0 || s.count(probe, other.ID) != 1 {
			t.Error("the named or the hinted order is not locked, or another one is")
		}
		return nil
	}))
}

// TestLockAll_TheSmallestIDFirst: it waits for the first order without holding any other, so
// that two batches cannot wait for each other, whatever order their events came in.
func TestLockAll_TheSmallestIDFirst(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	first := s.order() // ids of version 7 grow
	var named []orders.Resource
	for range 15 {
		named = append(named, orders.Resource{Provider: "stripe", ID: s.order().Session})
	}
	named = append(named, orders.Resource{Provider: "stripe", ID: first.Session})

	done := make(chan error, 1)
	must(t, s.tx(func(tx *gorm.DB) error {
		must(t, tx.Exec(`SELECT FROM orders WHERE id = ? FOR UPDATE`, first.ID).Error)
		go func() {
			done <- s.tx(func(tx *gorm.DB) error { return s.LockAll(context.Background(), tx, named, nil) })
		}()
		const waiting = `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`
		for deadline := time.Now().Add(4 * time.Second); s.count(waiting) == 0; {
			if time.Now().After(deadline) {
				t.Fatal("nobody waits for the first order")
			}
		}
		if n := s.count(`SELECT count(*) FROM (SELECT FROM orders FOR UPDATE SKIP LOCKED) free`); n != 15 {
			t.Errorf("%d of the 15 other orders are free while the first is waited for", n)
		}
		return nil
	}))
	must(t, <-done)
}

// TestB42_ADuplicatePoisonsNothing: a repeated id is a conflict that does nothing. Inserted
// and caught, it would end the transaction for all that follows (25P02).
func TestB42_ADuplicatePoisonsNothing(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	a, b := s.order(), s.order()
	must(t, s.tx(func(tx *gorm.DB) error {
		for range 3 {
			if _, err := s.Apply(t.Context(), tx, paid(a.Session, 1999)); err != nil {
				return err
			}
		}
		_, err := s.Apply(t.Context(), tx, paid(b.Session, 1999))
		return err
	}))
	if s.view(a.ID).Order.State != orders.Paid || s.view(b.ID).Order.State != orders.Paid {
		t.Error("what followed the duplicates is not there")
	}

	// An id that another transaction is just recording is waited for, and is then known.
	_, errs := atOnce(10, func(i int) (orders.Result, error) {
		f := says([]string{a.Session, b.Session}[i%2], "")
		f.Resources = append(f.Resources, "in_shared")
		return s.tryApply(f)
	})
	must(t, errors.Join(errs...))
	if got := s.count(`SELECT count(*) FROM payment_resources WHERE resource_id = 'in_shared'`); got != 1 {
		t.Errorf("%d rows of one id, want 1", got)
	}
}

// TestB42_NoRowIsResurrected: a payment that vanished is an error, and none is written.
func TestB42_NoRowIsResurrected(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	o := s.unanswered()
	must(t, s.DB.Exec(`DELETE FROM payments WHERE id = ?`, o.PaymentID).Error)
	before := s.dump()
	err := s.tx(func(tx *gorm.DB) error {
		return s.SettleCheckout(t.Context(), tx, callOf(o), sessionAnswer("cs_1"))
	})
	if !errors.Is(err, gorm.ErrRecordNotFound) {
		t.Errorf("got %v, want that there is no such payment", err)
	}
	if diff := cmp.Diff(before, s.dump()); diff != "" {
		t.Errorf("rows changed (-before +after):\n%s", diff)
	}
}
