package fulfillment_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"paidonce/orders"
	"paidonce/webhooks"
)

// raising makes every statement of that kind on the table fail for which when holds, until
// the returned function ends it.
func (b *testBundle) raising(t *testing.T, action, table, when, sqlstate string) (stop func()) {
	t.Helper()
	b.exec(t, fmt.Sprintf(`
CREATE FUNCTION raise_%[2]s() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
	IF %[3]s THEN RAISE EXCEPTION 'injected' USING ERRCODE = '%[4]s'; END IF;
	RETURN coalesce(NEW, OLD);
END $$;
CREATE TRIGGER raise_%[2]s BEFORE %[1]s ON %[2]s FOR EACH ROW EXECUTE FUNCTION raise_%[2]s();`, action, table, when, sqlstate))
	return func() {
		t.Helper()
		b.exec(t, fmt.Sprintf(`DROP FUNCTION raise_%s() CASCADE`, table))
	}
}

// parsing is a provider whose reading of a body can be made to misbehave.
type parsing struct {
	webhooks.Provider

	before func(body []byte)
}

func (p parsing) Parse(body []byte) (webhooks.Event, error) {
	p.before(body)
	return p.Provider.Parse(body)
}

// names reports whether the body is the event's.
func names(body []byte, eventID string) bool { return strings.Contains(string(body), `"`+eventID+`"`) }

// recordOne records one paid event per order, in order, and returns their ids.
func (b *testBundle) recordOne(t *testing.T, placed []order) []string {
	t.Helper()
	ids := make([]string, len(placed))
	for i, o := range placed {
		ids[i] = "evt_" + o.ID.String()
		b.record(t, o.checkouts[0].event(ids[i], completed))
	}
	return ids
}

// A row that fails, in whatever way, costs only itself: the others of its batch are applied
// by the same call, and it waits with one attempt counted.
func TestAFailingRowCostsOnlyItself(t *testing.T) {
	t.Parallel()
	const bad = 20
	for _, tt := range []struct {
		name string
		fail func(t *testing.T, b *testBundle, o order, eventID string) (mend func())
		says string
	}{
		{"the database refuses", func(t *testing.T, b *testBundle, o order, _ string) func() {
			t.Helper()
			return b.raising(t, "UPDATE", "orders", fmt.Sprintf("NEW.id = '%s'", o.ID), "P0001")
		}, "injected"},
		{"reading it panics", func(_ *testing.T, b *testBundle, _ order, eventID string) func() {
			b.drainer.Providers = map[string]webhooks.Provider{"stripe": parsing{b.stripe, func(body []byte) {
				if names(body, eventID) {
					panic("poison")
				}
			}}}
			return func() { b.drainer.Providers = map[string]webhooks.Provider{"stripe": b.stripe} }
		}, "panic: poison"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			placed := b.placed(t, 50, 1, 1)
			ids := b.recordOne(t, placed)
			mend := tt.fail(t, b, placed[bad], ids[bad])

			if taken, err := b.drainer.Drain(t.Context()); err != nil || taken != len(placed) {
				t.Fatalf("took %d, %v; want %d", taken, err, len(placed))
			}
			for i, o := range placed {
				if i != bad {
					b.wantState(t, o, orders.Paid)
				}
			}
			d := b.delivery(t, ids[bad])
			if d.Attempts != 1 || d.ProcessedAt != nil || d.Claim != nil || !strings.Contains(text(d.LastError), tt.says) {
				t.Errorf("the failing row: %+v (%s), want one attempt and its error", d, text(d.LastError))
			}
			b.wantState(t, placed[bad], orders.Pending)

			mend()
			b.forward(t)
			b.drain(t)
			b.wantState(t, placed[bad], orders.Paid)
			if d := b.delivery(t, ids[bad]); d.LastError != nil || d.Attempts != 2 {
				t.Errorf("the mended row: %+v, want it applied by its second attempt, without an error", d)
			}
		})
	}
}

// B26: a row that fails every time waits longer each time, ends dead, and stays dead: no
// sweep brings it back. A redelivery does, with all its attempts.
func TestB26ARowThatAlwaysFailsEndsDeadAndIsLeftAlone(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.drainer.MaxAttempts = 4
	o := b.placed(t, 1, 1, 1)[0]
	event := o.checkouts[0].event("evt_bad", completed)
	b.record(t, event)
	mend := b.raising(t, "UPDATE", "orders", "true", "P0001")

	for attempt := 1; attempt < 4; attempt++ {
		if taken := b.drain(t); taken != 1 {
			t.Fatalf("attempt %d: took %d, want 1 and then a wait", attempt, taken)
		}
		d := b.delivery(t, "evt_bad")
		if want := math.Exp2(float64(attempt - 1)); d.Attempts != attempt || d.outcome() != "" || d.DueIn > want || d.DueIn < want-1 {
			t.Errorf("attempt %d: %+v, want it due in %v s", attempt, d, want)
		}
		b.forward(t)
	}
	b.drain(t)
	dead := b.delivery(t, "evt_bad")
	if dead.outcome() != webhooks.OutcomeDead || dead.Attempts != 4 || dead.ProcessedAt == nil || !strings.Contains(text(dead.LastError), "injected") {
		t.Errorf("%+v, want dead after 4 attempts with its last error", dead)
	}
	b.wantLeftAlone(t, "evt_bad", dead)

	mend()
	if got := b.record(t, event); got != webhooks.Duplicate {
		t.Errorf("the redelivery is %s, want duplicate", got)
	}
	if d := b.delivery(t, "evt_bad"); d.Attempts != 0 || d.ProcessedAt != nil {
		t.Errorf("after the redelivery: %+v, want it open with all its attempts", d)
	}
	b.settle(t)
	b.wantState(t, o, orders.Fulfilled)
}

// wantLeftAlone sweeps and drains ten times and expects the row as it was, also if it had
// waited for an id that is known by now.
func (b *testBundle) wantLeftAlone(t *testing.T, eventID string, was delivery) {
	t.Helper()
	b.exec(t, `INSERT INTO delivery_resources SELECT provider, resource_id, event_id FROM webhook_deliveries WHERE event_id = ?`, eventID)
	for range 10 {
		if err := b.service.SweepParked(t.Context(), noJob); err != nil {
			t.Fatal(err)
		}
		b.forward(t)
		if taken := b.drain(t); taken != 0 {
			t.Errorf("a sweep brought %d deliveries back, want none", taken)
		}
	}
	if d := b.delivery(t, eventID); d.outcome() != was.outcome() || d.Attempts != was.Attempts {
		t.Errorf("delivery %s after ten sweeps: %+v, was %+v", eventID, d, was)
	}
}

// A drainer that oversleeps its lease finds its row taken over. Whatever it had in mind for
// it does not happen, and nothing happens twice.
func TestADrainerThatOverslept(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		then func(b *testBundle, stop context.CancelFunc) // what befalls the sleeper on waking
	}{
		{"goes on", func(*testBundle, context.CancelFunc) {}},
		{"fails", func(b *testBundle, _ context.CancelFunc) {
			b.drainer.Providers = map[string]webhooks.Provider{"stripe": parsing{b.stripe, func([]byte) { panic("late") }}}
		}},
		{"is stopped", func(_ *testBundle, stop context.CancelFunc) { stop() }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			placed := b.placed(t, 3, 2, 1)
			other := b.another(t)
			ids := b.recordOne(t, placed)

			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			asleep, wake, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
			b.drainer.Crash = func(window string) {
				if window == "CW3" { // it has its rows, and has not begun
					close(asleep)
					<-wake
				}
			}
			go func() { _, err := b.drainer.Drain(ctx); done <- err }()
			wait(t, "the claim", asleep)
			other.forward(t) // the lease lapses
			other.drain(t)
			for _, o := range placed {
				other.wantState(t, o, orders.Paid)
			}
			before := other.everything(t)
			tt.then(b, stop)
			close(wake)
			if err := wait(t, "the sleeper's end", done); err != nil {
				t.Error(err)
			}

			if after := other.everything(t); after != before {
				t.Errorf("the sleeper changed rows:\n%s\nwere\n%s", after, before)
			}
			for _, id := range ids {
				if d := other.delivery(t, id); d.outcome() != webhooks.OutcomeApplied || d.Attempts != 2 || d.LastError != nil {
					t.Errorf("delivery %s: %+v, want it applied by its second attempt", id, d)
				}
			}
			other.settle(t)
			for _, o := range placed {
				other.wantState(t, o, orders.Fulfilled)
				if got := other.effects(t, o); got.Pays != 1 || got.Licenses != 2 || got.Receipts != 1 {
					t.Errorf("order %s: effects %+v, want each once", o.ID, got)
				}
			}
		})
	}
}

// A rolled back transaction leaves no job (B59): it fails in its last statement, when the
// order is paid and its job enqueued.
func TestB59ARolledBackTransactionLeavesNoJob(t *testing.T) {
	t.Parallel()
	b := setup(t)
	o := b.placed(t, 1, 1, 1)[0]
	b.record(t, o.checkouts[0].event("evt_1", completed))
	before := b.everything(t)
	mend := b.raising(t, "UPDATE", "webhook_deliveries", "NEW.outcome = 'applied'", "P0001")
	b.drain(t)
	if after := b.everything(t); after != before {
		t.Errorf("rows are left of a rolled back transaction:\n%s\nwere\n%s", after, before)
	}
	mend()
	b.forward(t)
	b.drain(t)
	if jobs := b.jobs(t, "fulfill_order"); jobs != 1 {
		t.Errorf("%d fulfill jobs, want 1", jobs)
	}
}

// seen is what another connection sees of an order while its transaction is open.
func (b *testBundle) seen(t *testing.T, id uuid.UUID) (state orders.State, jobs int) {
	t.Helper()
	return value[orders.State](t, b, `SELECT state FROM orders WHERE id = ?`, id), b.count(t, `SELECT count(*) FROM river_job`)
}

// No worker sees an order before its commit (B59): neither the job nor the state.
func TestB59NoWorkerSeesAnUncommittedOrder(t *testing.T) {
	t.Parallel()
	b := setup(t)
	other := b.another(t)
	o := b.placed(t, 1, 1, 1)[0]
	b.record(t, o.checkouts[0].event("evt_1", completed))
	looked := errors.New("never looked")
	b.drainer.Crash = func(window string) {
		if window == "CW4" { // all is written, nothing committed
			state, jobs := other.seen(t, o.ID)
			if looked = nil; state != orders.Pending || jobs != 0 {
				looked = fmt.Errorf("another connection sees the state %s and %d jobs", state, jobs)
			}
		}
	}
	b.drain(t)
	if looked != nil {
		t.Error(looked)
	}
	if state, jobs := other.seen(t, o.ID); state != orders.Paid || jobs != 1 {
		t.Errorf("after the commit: %s with %d jobs, want paid with 1", state, jobs)
	}
}

// A claim lasts as long as its lease: until then no other drainer gets the row, and after it
// the word of the one that had it counts for nothing.
func TestARowUnderALeaseIsNobodyElses(t *testing.T) {
	t.Parallel()
	b := setup(t)
	o := b.placed(t, 1, 1, 1)[0]
	b.record(t, o.checkouts[0].event("evt_1", completed))
	token := webhooks.NewClaim()
	rows, _, err := b.inbox.Claim(t.Context(), token, 50, 10, time.Minute)
	if err != nil || len(rows) != 1 {
		t.Fatalf("claimed %d, %v; want 1", len(rows), err)
	}
	if taken := b.drain(t); taken != 0 {
		t.Errorf("took %d deliveries of another drainer, want none", taken)
	}

	late := func() {
		t.Helper()
		before := b.delivery(t, "evt_1")
		dead, err := b.inbox.Fail(t.Context(), token, rows[0].Key(), errors.New("late"), 1, time.Hour)
		if err != nil || dead {
			t.Errorf("a late failure: %v, dead %v; want nothing", err, dead)
		}
		if err := b.inbox.GiveBack(t.Context(), token, []webhooks.Key{rows[0].Key()}, time.Hour); err != nil {
			t.Error(err)
		}
		after := b.delivery(t, "evt_1")
		if after.Attempts != before.Attempts || after.outcome() != before.outcome() || !after.NextAttemptAt.Equal(before.NextAttemptAt) || after.LastError != nil {
			t.Errorf("%+v, was %+v", after, before)
		}
	}
	b.forward(t)
	other := webhooks.NewClaim()
	if _, _, err := b.inbox.Claim(t.Context(), other, 50, 10, time.Minute); err != nil {
		t.Fatal(err)
	}
	late() // another has it
	b.forward(t)
	b.drain(t)
	b.wantState(t, o, orders.Paid)
	late() // it has ended
}
