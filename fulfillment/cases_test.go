package fulfillment_test

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"gorm.io/gorm"

	"paidonce/fulfillment"
	"paidonce/internal/stripesim"
	"paidonce/orders"
	"paidonce/webhooks"
)

// B09: three events and the buyer's return, each of which alone would fulfill the order, at
// once and in every order of arrival.
func TestB09FourTriggersFulfillOnce(t *testing.T) {
	t.Parallel()
	kinds := []string{completed, intentPaid, chargePaid}
	pick := func(t *testing.T, events []stripesim.Event, kind string) stripesim.Event {
		t.Helper()
		i := slices.IndexFunc(events, func(e stripesim.Event) bool { return e.Type == kind })
		if i < 0 {
			t.Fatalf("no %s among the events", kind)
		}
		return events[i]
	}

	t.Run("at once", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		other := b.another(t)
		for range 5 {
			o := b.order(t)
			events := b.pay(t, o.checkouts[0], stripesim.PayOptions{})
			start := make(chan struct{})
			var running sync.WaitGroup
			for _, kind := range kinds {
				event := pick(t, events, kind)
				for _, process := range []*testBundle{b, other} {
					running.Go(func() {
						<-start
						if _, err := process.tryRecord(t.Context(), event.Body); err != nil {
							t.Error(err)
						}
						if _, err := process.drainer.Drain(t.Context()); err != nil {
							t.Error(err)
						}
					})
				}
			}
			running.Go(func() {
				<-start
				if err := b.service.ReadPayment(t.Context(), o.checkouts[0].PaymentID, noJob); err != nil {
					t.Error(err)
				}
			})
			close(start)
			running.Wait()
			b.settle(t)
			b.wantState(t, o, orders.Fulfilled)
			b.wantEffects(t, o, once(o))
		}
	})

	t.Run("in every order", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		for _, sequence := range permutations([]string{completed, intentPaid, chargePaid, "return"}) {
			o := b.order(t)
			events := b.pay(t, o.checkouts[0], stripesim.PayOptions{})
			for _, trigger := range sequence {
				if trigger == "return" {
					if err := b.service.ReadPayment(t.Context(), o.checkouts[0].PaymentID, noJob); err != nil {
						t.Fatal(err)
					}
				} else {
					b.record(t, pick(t, events, trigger).Body)
				}
				b.settle(t)
			}
			b.wantState(t, o, orders.Fulfilled)
			b.wantEffects(t, o, once(o))
			if t.Failed() {
				t.Fatalf("in the order %s", strings.Join(sequence, ", "))
			}
		}
	})
}

// B13: the event is faster than the commit that records the session's id.
func TestB13TheEventIsFasterThanItsOrder(t *testing.T) {
	t.Parallel()

	// opening performs the checkout call, and holds its last transaction open, with the
	// session's id written and not committed, until it is told how to end.
	opening := func(t *testing.T, b *testBundle) (o order, end chan error, ended chan error) {
		t.Helper()
		o = b.unopened(t)
		session := make(chan string, 1)
		end, ended = make(chan error), make(chan error, 1)
		other := b.another(t)
		go func() {
			ended <- other.service.PerformCall(t.Context(), o.callKey, func(tx *gorm.DB) error {
				var id string
				err := tx.Raw(`SELECT resource_id FROM payments WHERE order_id = ?`, o.ID).Row().Scan(&id)
				session <- id
				return errors.Join(err, <-end)
			})
		}()
		o.checkouts[0].Session = wait(t, "the session", session)
		return o, end, ended
	}

	t.Run("its transaction commits later", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		o, end, ended := opening(t, b)
		for _, e := range b.pay(t, o.checkouts[0], stripesim.PayOptions{}) {
			b.record(t, e.Body)
		}
		for range 3 { // three seconds and more
			b.drain(t)
			b.later(t, time.Second)
		}
		b.wantState(t, o, orders.Pending)
		b.exec(t, `UPDATE webhook_deliveries SET next_attempt_at = now() + interval '1 hour' WHERE processed_at IS NULL`)
		end <- nil
		if err := wait(t, "the commit", ended); err != nil {
			t.Fatal(err)
		}
		// Its own release was before the events came. Their next try is a few seconds away;
		// should that be lost, the sweep is not.
		if err := b.service.SweepParked(t.Context(), noJob); err != nil {
			t.Fatal(err)
		}
		b.drain(t)
		b.doJobs(t)
		b.wantState(t, o, orders.Fulfilled)
		b.settle(t)
		b.wantEffects(t, o, once(o))
	})

	t.Run("only the intent is known at event time", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		o := b.order(t)
		events := b.pay(t, o.checkouts[0], stripesim.PayOptions{})
		i := slices.IndexFunc(events, func(e stripesim.Event) bool { return e.Type == intentPaid })
		b.record(t, events[i].Body)
		b.drain(t)
		b.wantOutcome(t, events[i].ID, webhooks.OutcomeParked)
		if reads := b.jobs(t, "read_payment"); reads != 0 {
			t.Errorf("%d reads at the first try, want none: the session's event is usually next", reads)
		}
		b.later(t, time.Second)
		b.drain(t)
		if reads := b.jobs(t, "read_payment"); reads != 1 {
			t.Errorf("%d reads at the second try, want 1", reads)
		}
		b.exec(t, `UPDATE webhook_deliveries SET next_attempt_at = now() + interval '1 hour' WHERE processed_at IS NULL`)
		b.doJobs(t) // the read learns the alias, and pays
		b.drain(t)  // which released the delivery
		b.wantOutcome(t, events[i].ID, webhooks.OutcomeAlready)
		b.settle(t)
		b.wantState(t, o, orders.Fulfilled)
		b.wantEffects(t, o, once(o))
	})

	t.Run("its transaction rolls back", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		o, end, ended := opening(t, b)
		events := b.pay(t, o.checkouts[0], stripesim.PayOptions{})
		for _, e := range events {
			b.record(t, e.Body)
		}
		b.drain(t)
		rolledBack := errors.New("rolled back")
		end <- rolledBack
		if err := wait(t, "the end", ended); !errors.Is(err, rolledBack) {
			t.Fatalf("got %v, want %v", err, rolledBack)
		}

		tries := 0
		for ; b.count(t, `SELECT count(*) FROM webhook_deliveries WHERE processed_at IS NULL`) > 0; tries++ {
			b.later(t, time.Minute)
			b.drain(t)
			if tries < 10 { // one that came after the end would open it again
				for _, e := range events {
					if got := b.record(t, e.Body); got != webhooks.Duplicate {
						t.Errorf("a redelivery meanwhile is %s, want duplicate", got)
					}
				}
			}
			if tries > 20 {
				t.Fatal("the events wait for ever")
			}
		}
		for _, e := range events {
			if e.Type == "payment_intent.created" {
				continue
			}
			if d := b.delivery(t, e.ID); d.outcome() != webhooks.OutcomeDead || text(d.Detail) != webhooks.Unmatched {
				t.Errorf("%s: %+v, want dead and unmatched: it bears our marker", e.Type, d)
			}
		}

		// The call's job opens the checkout after all: the same key, hence the same session.
		// Learning it reopens what was given up, and nothing paid is lost.
		b.exec(t, `UPDATE provider_calls SET sending_until = now() WHERE state = 'sending'`)
		b.exec(t, `UPDATE river_job SET state = 'available', scheduled_at = now() WHERE kind = 'create_checkout'`)
		b.settle(t)
		b.wantState(t, o, orders.Fulfilled)
		b.wantEffects(t, o, once(o))
	})

	t.Run("there never was such an order", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		ghost := checkout{Order: uuid.New(), Session: "cs_ghost", Intent: "pi_ghost", Charge: "ch_ghost", Amount: 1999}
		b.record(t, ghost.event("evt_marked", completed))
		ghost.unmarked = true
		b.record(t, ghost.event("evt_unmarked", intentPaid))
		b.drain(t)
		b.later(t, fulfillment.DefaultParkFor)
		b.drain(t)
		b.wantOutcome(t, "evt_marked", webhooks.OutcomeDead)
		b.wantOutcome(t, "evt_unmarked", webhooks.OutcomeForeign)
		b.forward(t)
		if more := b.drain(t); more != 0 {
			t.Errorf("%d deliveries are tried again, want none", more)
		}
		if jobs := b.count(t, `SELECT count(*) FROM river_job`); jobs != 0 {
			t.Errorf("%d jobs, want none", jobs)
		}
	})
}

// B15: an expiry or a cancelation of any of its checkouts, after the order was paid.
func TestB15ExpiryAfterPaymentChangesNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	late := []struct {
		checkout int
		event    string
	}{{0, expired}, {1, expired}, {0, intentCancels}, {1, intentCancels}}
	for _, sequence := range permutations([]int{0, 1, 2, 3}) {
		o := b.placed(t, 1, 1, 2)[0]
		b.record(t, o.checkouts[1].event("evt_paid_"+o.ID.String(), completed))
		b.settle(t)
		b.wantState(t, o, orders.Fulfilled)
		for _, n := range sequence {
			id := "evt_" + string(rune('a'+n)) + "_" + o.ID.String()
			b.record(t, o.checkouts[late[n].checkout].event(id, late[n].event))
			b.forward(t)
			b.drain(t) // an intent waits until its session's event names it
			b.wantState(t, o, orders.Fulfilled)
		}
		b.settle(t)
		b.wantState(t, o, orders.Fulfilled)
		if got := b.effects(t, o); got.Pays != 1 || got.Licenses != 1 || got.Receipts != 1 {
			t.Errorf("order %s: effects %+v, want each once", o.ID, got)
		}
		if after := b.count(t, `SELECT count(*) FROM order_transitions WHERE order_id = ?`, o.ID); after != 2 {
			t.Errorf("order %s: %d transitions, want pay and fulfill", o.ID, after)
		}
	}
}

// B17: completed is not paid. What is waiting for its money has no effect; the money, whenever
// and in whatever order its events come, has each once.
func TestB17CompletedIsNotPaid(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, tt := range []struct {
		events []string
		states []orders.State // after each
	}{
		{[]string{unpaid, asyncPaid}, []orders.State{orders.Confirming, orders.Fulfilled}},
		{[]string{asyncPaid, unpaid}, []orders.State{orders.Fulfilled, orders.Fulfilled}},
		{[]string{unpaid, asyncFailed}, []orders.State{orders.Confirming, orders.Failed}},
		{[]string{asyncFailed, unpaid}, []orders.State{orders.Failed, orders.Failed}},
		{[]string{expired, asyncPaid}, []orders.State{orders.Expired, orders.Fulfilled}},
		{[]string{unpaid, expired, asyncPaid}, []orders.State{orders.Confirming, orders.Expired, orders.Fulfilled}},
		{[]string{unpaid, asyncFailed, asyncPaid}, []orders.State{orders.Confirming, orders.Failed, orders.Fulfilled}},
		{[]string{asyncPaid, asyncFailed}, []orders.State{orders.Fulfilled, orders.Fulfilled}},
		{[]string{unpaid, intentPaid, asyncPaid}, []orders.State{orders.Confirming, orders.Fulfilled, orders.Fulfilled}},
	} {
		inTurn(t, strings.Join(tt.events, " then "), func() {
			o := b.placed(t, 1, 3, 1)[0]
			for n, name := range tt.events {
				b.record(t, o.checkouts[0].event(string(rune('a'+n))+o.ID.String(), name))
				b.settle(t)
				b.wantState(t, o, tt.states[n])
				want := effects{}
				if tt.states[n] == orders.Fulfilled {
					want = effects{Pays: 1, Licenses: 3, Receipts: 1}
				}
				b.wantEffects(t, o, want)
			}
		})
	}
}

// permutations are all orders of a list.
func permutations[T any](list []T) [][]T {
	if len(list) == 0 {
		return [][]T{nil}
	}
	var all [][]T
	for i, first := range list {
		rest := slices.Concat(list[:i:i], list[i+1:])
		for _, p := range permutations(rest) {
			all = append(all, append([]T{first}, p...))
		}
	}
	return all
}
