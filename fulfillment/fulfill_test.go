package fulfillment_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"gorm.io/gorm"

	"paidonce/orders"
)

// paid places orders and pays them, without doing what follows.
func (b *testBundle) paid(t *testing.T, n, quantity int) []order {
	t.Helper()
	placed := b.placed(t, n, quantity, 1)
	b.recordOne(t, placed)
	b.drain(t)
	for _, o := range placed {
		b.wantState(t, o, orders.Paid)
	}
	return placed
}

// Twenty workers at once on one order: its licenses, its receipt and its notice exist once.
func TestI6TwentyWorkersFulfillOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	other := b.another(t)
	for _, o := range b.paid(t, 3, 5) {
		// The event also names the intent, so there is somebody to tell.
		start := make(chan struct{})
		var running sync.WaitGroup
		for n := range 20 {
			process := []*testBundle{b, other}[n%2]
			running.Go(func() {
				<-start
				if err := process.service.FulfillOrder(t.Context(), o.ID, noJob); err != nil {
					t.Error(err)
				}
			})
		}
		close(start)
		running.Wait()
		b.wantState(t, o, orders.Fulfilled)
		for what, query := range map[string]string{
			"active licenses": `SELECT count(*) / 5 FROM licenses WHERE status = 'active' AND order_id = ?`,
			"receipts":        `SELECT count(*) FROM sent_receipts WHERE order_id = ?`,
			"notices":         `SELECT count(*) FROM provider_calls WHERE operation = 'fulfill' AND subject_id = ?`,
			"fulfill steps":   `SELECT count(*) FROM order_transitions WHERE event = 'fulfill' AND order_id = ?`,
			"receipt jobs":    `SELECT count(*) FROM river_job WHERE kind = 'send_receipt' AND args->>'order_id' = CAST(? AS text)`,
			"notice jobs":     `SELECT count(*) FROM river_job WHERE kind = 'notify_provider' AND args->>'idempotency_key' = 'fulfill:' || ?`,
		} {
			var id any = o.ID
			if what == "notice jobs" {
				id = o.ID.String()
			}
			if got := b.count(t, query, id); got != 1 {
				t.Errorf("order %s: %d times %s, want once", o.ID, got, what)
			}
		}
	}
}

func TestOnlyAPaidOrderIsFulfilled(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, state := range orders.States() {
		if state == orders.Paid {
			continue
		}
		inTurn(t, string(state), func() {
			o := b.placed(t, 1, 2, 1)[0]
			b.exec(t, `UPDATE orders SET state = ?, review_reason = CASE WHEN ? = 'review' THEN 'amount' END WHERE id = ?`, state, state, o.ID)
			before := b.everything(t)
			completions := 0
			err := b.service.FulfillOrder(t.Context(), o.ID, func(*gorm.DB) error { completions++; return nil })
			if err != nil || completions != 1 {
				t.Errorf("order %s: %v after %d completions, want nothing to do and the job done", o.ID, err, completions)
			}
			if after := b.everything(t); after != before {
				t.Errorf("order %s: its rows changed:\n%s\nwere\n%s", o.ID, after, before)
			}
		})
	}
}

// All of TX3 is one commit: seen from outside it is there as a whole, and with its job's end
// it fails as a whole.
func TestB59FulfillingIsOneCommit(t *testing.T) {
	t.Parallel()
	b := setup(t)
	other := b.another(t)
	o := b.paid(t, 1, 2)[0]
	before := b.everything(t)

	lost := errors.New("the job is not mine any more")
	err := b.service.FulfillOrder(t.Context(), o.ID, func(*gorm.DB) error {
		if meanwhile := other.everything(t); meanwhile != before {
			return fmt.Errorf("another connection sees an uncommitted order:\n%s", meanwhile)
		}
		return lost
	})
	if !errors.Is(err, lost) {
		t.Fatalf("got %v, want %v", err, lost)
	}
	if after := b.everything(t); after != before {
		t.Errorf("rows are left of a rolled back transaction:\n%s\nwere\n%s", after, before)
	}

	if err := b.service.FulfillOrder(t.Context(), o.ID, noJob); err != nil {
		t.Fatal(err)
	}
	for what, want := range map[string]int{"licenses": 2, "sent_receipts": 1} {
		if got := b.count(t, `SELECT count(*) FROM `+what+` WHERE order_id = ?`, o.ID); got != want {
			t.Errorf("order %s: %d %s, want %d", o.ID, got, what, want)
		}
	}
	if got := b.jobs(t, "send_receipt") + b.jobs(t, "notify_provider"); got != 2 {
		t.Errorf("order %s: %d jobs for receipt and notice, want 2", o.ID, got)
	}
}

// The licenses exist already, of a run that was undone by hand or by an older version: the
// stored ones stand.
func TestFulfillingAgainKeepsTheStoredLicenses(t *testing.T) {
	t.Parallel()
	b := setup(t)
	o := b.paid(t, 1, 2)[0]
	if err := b.service.FulfillOrder(t.Context(), o.ID, noJob); err != nil {
		t.Fatal(err)
	}
	keys := func() string {
		return value[string](t, b, `SELECT string_agg(key, ' ' ORDER BY ordinal) FROM licenses WHERE order_id = ?`, o.ID)
	}
	before := keys()
	b.exec(t, `UPDATE orders SET state = 'paid' WHERE id = ?`, o.ID)
	if err := b.service.FulfillOrder(t.Context(), o.ID, noJob); err != nil {
		t.Fatal(err)
	}
	b.wantState(t, o, orders.Fulfilled)
	if after := keys(); after != before {
		t.Errorf("order %s: its keys were\n%s and are\n%s", o.ID, before, after)
	}
	if got := b.count(t, `SELECT count(*) FROM sent_receipts WHERE order_id = ?`, o.ID) + b.jobs(t, "send_receipt"); got != 2 {
		t.Errorf("order %s: %d receipts and receipt jobs, want one of each", o.ID, got)
	}
}
