package fulfillment_test

import (
	"fmt"
	"strings"
	"testing"

	"paidonce/internal/stripesim"
	"paidonce/orders"
	"paidonce/webhooks"
)

func TestAPaidOrderIsFulfilledOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	o := b.order(t, orders.Item{SKU: "KEY-1", Quantity: 2}, orders.Item{SKU: "KEY-2", Quantity: 1})
	if o.Total != 2*1999+500 {
		t.Fatalf("order %s costs %d, want 4498", o.ID, o.Total)
	}

	events := b.pay(t, o.checkouts[0], stripesim.PayOptions{})
	for range 2 { // the second time all of them are repeats
		for _, e := range events {
			b.record(t, e.Body)
		}
		b.settle(t)
		b.wantState(t, o, orders.Fulfilled)
		b.wantEffects(t, o, once(o))
	}
	view, err := b.orders.Get(t.Context(), o.ID)
	if err != nil {
		t.Fatal(err)
	}
	if got := view.ReceivedMinor(); got != 4498 {
		t.Errorf("order %s received %d, want 4498", o.ID, got)
	}
	for _, e := range events {
		d := b.delivery(t, e.ID)
		if d.Claim != nil || d.ProcessedAt == nil || d.Attempts != 1 {
			t.Errorf("delivery %s (%s): %+v, want it ended by its first attempt", e.ID, e.Type, d)
		}
	}
	if waiting := b.count(t, `SELECT count(*) FROM delivery_resources`); waiting != 0 {
		t.Errorf("%d resources are still waited for, want none", waiting)
	}
}

// One transaction takes the whole batch: its commit is one, so its time is one.
func TestABatchIsOneTransaction(t *testing.T) {
	t.Parallel()
	b := setup(t)
	placed := b.placed(t, 20, 1, 1)
	for i, o := range placed {
		b.record(t, o.checkouts[0].event(fmt.Sprintf("evt_%d", i), completed))
	}
	taken, err := b.drainer.Drain(t.Context())
	if err != nil || taken != len(placed) {
		t.Fatalf("took %d, %v; want %d", taken, err, len(placed))
	}
	if times := b.count(t, `SELECT count(DISTINCT processed_at) FROM webhook_deliveries`); times != 1 {
		t.Errorf("processed in %d transactions, want 1", times)
	}
	for _, o := range placed {
		b.wantState(t, o, orders.Paid)
	}
	if jobs := b.jobs(t, "fulfill_order"); jobs != len(placed) {
		t.Errorf("%d fulfill jobs, want %d", jobs, len(placed))
	}
}

func TestVerdicts(t *testing.T) {
	t.Parallel()
	b := setup(t)
	object := func(t *testing.T, body []byte, change func(object map[string]any)) []byte {
		t.Helper()
		return edited(t, body, func(_, o map[string]any) { change(o) })
	}
	for _, tt := range []struct {
		name    string
		before  string // an event that was applied before
		event   func(t *testing.T, c checkout) []byte
		want    webhooks.Outcome
		detail  string
		state   orders.State
		waiting bool
	}{
		// What a statement about a known payment can be.
		{"a success is applied", "", func(_ *testing.T, c checkout) []byte { return c.event("e", completed) }, webhooks.OutcomeApplied, "", orders.Paid, false},
		{"a second one says nothing new", completed, func(_ *testing.T, c checkout) []byte { return c.event("e", completed) }, webhooks.OutcomeAlready, "", orders.Paid, false},
		{"a second one teaches another id", completed, func(_ *testing.T, c checkout) []byte { return c.event("e", intentPaid) }, webhooks.OutcomeApplied, "", orders.Paid, false},
		{"less than is known is stale", completed, func(_ *testing.T, c checkout) []byte { return c.event("e", expired) }, webhooks.OutcomeStale, "", orders.Paid, false},
		{"money that was not agreed is held", "", func(_ *testing.T, c checkout) []byte { c.Amount--; return c.event("e", completed) }, webhooks.OutcomeHeld, "amount", orders.Review, false},
		{"two amounts of one success are read", completed, func(_ *testing.T, c checkout) []byte { c.Amount--; return c.event("e", intentPaid) }, webhooks.OutcomeRead, "", orders.Paid, false},
		{"a success without its amount is read", "", func(t *testing.T, c checkout) []byte {
			t.Helper()
			return object(t, c.event("e", completed), func(o map[string]any) { delete(o, "amount_total") })
		}, webhooks.OutcomeRead, "", orders.Pending, false},
		{"a total with a fraction is read", "", func(t *testing.T, c checkout) []byte {
			t.Helper()
			return object(t, c.event("e", completed), func(o map[string]any) { o["amount_total"] = 19.99 })
		}, webhooks.OutcomeRead, "", orders.Pending, false},
		{"an unknown payment status is read", "", func(t *testing.T, c checkout) []byte {
			t.Helper()
			return object(t, c.event("e", completed), func(o map[string]any) { o["payment_status"] = "new_word" })
		}, webhooks.OutcomeRead, "", orders.Pending, false},
		{"a declined attempt changes nothing", completed, func(_ *testing.T, c checkout) []byte { return c.event("e", intentFailed) }, webhooks.OutcomeApplied, "", orders.Paid, false}, // it teaches the charge's id

		// What names nothing we know.
		{"an unknown resource waits", "", func(_ *testing.T, c checkout) []byte {
			c.Session, c.Intent = "cs_unknown", "pi_unknown"
			return c.event("e", completed)
		}, webhooks.OutcomeParked, "", orders.Pending, true},
		{"our marker on an unknown resource proves nothing", "", func(_ *testing.T, c checkout) []byte {
			c.Session, c.Intent, c.Charge = "cs_forged", "pi_forged", "ch_forged"
			return c.event("e", chargePaid)
		}, webhooks.OutcomeParked, "", orders.Pending, true},

		// What is not for us to read.
		{"a type that is not about payments", "", func(*testing.T, checkout) []byte {
			return eventOf("e", "customer.created", map[string]any{"id": "cus_1"})
		}, webhooks.OutcomeIgnored, "this type says nothing about payments", orders.Pending, false},
		{"an intent that was only created", "", func(t *testing.T, c checkout) []byte {
			t.Helper()
			return edited(t, c.event("e", intentFailed), func(e, _ map[string]any) { e["type"] = "payment_intent.created" })
		}, webhooks.OutcomeIgnored, "this type says nothing about payments", orders.Pending, false},
		{"a thin event", "", func(*testing.T, checkout) []byte {
			return []byte(`{"id":"e","object":"v2.core.event","type":"v2.core.account.updated","created":"2025-01-01T00:00:00.000Z"}`)
		}, webhooks.OutcomeUnsupported, "v2.core.event", orders.Pending, false},
		{"an event without data", "", func(*testing.T, checkout) []byte {
			return []byte(`{"id":"e","object":"event","type":"checkout.session.completed"}`)
		}, webhooks.OutcomeUnsupported, "no object", orders.Pending, false},
		{"an event with a null object", "", func(*testing.T, checkout) []byte {
			return []byte(`{"id":"e","object":"event","type":"checkout.session.completed","data":{"object":null}}`)
		}, webhooks.OutcomeUnsupported, "no object", orders.Pending, false},
		{"an object without an id", "", func(*testing.T, checkout) []byte {
			return eventOf("e", completed, map[string]any{"payment_status": "paid", "amount_total": 1, "currency": "usd"})
		}, webhooks.OutcomeUnsupported, "it names no object", orders.Pending, false},
	} {
		inTurn(t, tt.name, func() {
			o := b.placed(t, 1, 1, 1)[0]
			if tt.before != "" {
				b.record(t, o.checkouts[0].event("evt_before_"+o.ID.String(), tt.before))
				b.drain(t)
			}
			id := "evt_" + o.ID.String()
			b.record(t, edited(t, tt.event(t, o.checkouts[0]), func(e, _ map[string]any) { e["id"] = id }))
			b.drain(t)

			got := b.delivery(t, id)
			if got.outcome() != tt.want || !strings.Contains(text(got.Detail), tt.detail) {
				t.Errorf("outcome %q (%s), want %q (%s)", got.outcome(), text(got.Detail), tt.want, tt.detail)
			}
			if open := got.ProcessedAt == nil; open != tt.waiting || got.Claim != nil {
				t.Errorf("open %v with claim %v, want open %v without one", open, got.Claim, tt.waiting)
			}
			if waits := b.count(t, `SELECT count(*) FROM delivery_resources WHERE event_id = ?`, id); (waits > 0) != tt.waiting {
				t.Errorf("%d resources are waited for, want some: %v", waits, tt.waiting)
			}
			b.wantState(t, o, tt.state)
		})
	}
}

// A hint is no fact: it asks for a read, and the read is what counts.
func TestAHintIsReadAndThenCounts(t *testing.T) {
	t.Parallel()
	b := setup(t)
	o := b.order(t)
	events := b.pay(t, o.checkouts[0], stripesim.PayOptions{})
	last := events[len(events)-1]
	b.record(t, edited(t, last.Body, func(_, o map[string]any) { delete(o, "currency") }))
	b.drain(t)
	b.wantOutcome(t, last.ID, webhooks.OutcomeRead)
	b.wantState(t, o, orders.Pending)

	b.settle(t)
	b.wantState(t, o, orders.Fulfilled)
	b.wantEffects(t, o, once(o))
}

func TestAProviderThatThisProcessDoesNotKnowIsTriedAgain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	o := b.placed(t, 1, 1, 1)[0]
	b.record(t, o.checkouts[0].event("evt_1", completed))
	known := b.drainer.Providers
	b.drainer.Providers = nil
	b.drain(t)
	if d := b.delivery(t, "evt_1"); d.Attempts != 1 || d.ProcessedAt != nil || !strings.Contains(text(d.LastError), `"stripe"`) {
		t.Errorf("delivery %+v, want one failed attempt that names the provider", d)
	}
	b.drainer.Providers = known // a deploy later
	b.forward(t)
	b.drain(t)
	b.wantState(t, o, orders.Paid)
}

// B35: events of another mode or account are stored, answered, and touch nothing at all.
func TestB35EventsOfAnotherWorldTouchNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	o := b.order(t)
	events := b.pay(t, o.checkouts[0], stripesim.PayOptions{})
	paid := events[len(events)-1].Body
	before, calls := b.everything(t), len(b.sim.Calls())

	other := func(id string, change func(event map[string]any)) string {
		b.record(t, edited(t, paid, func(e, _ map[string]any) { e["id"] = id; change(e) }))
		return id
	}
	ids := []string{
		other("evt_live", func(e map[string]any) { e["livemode"] = true }),
		other("evt_account", func(e map[string]any) { e["account"] = "acct_other" }),
		other("evt_both", func(e map[string]any) { e["livemode"], e["account"] = true, "acct_other" }),
	}
	b.settle(t)
	for _, id := range ids {
		b.wantOutcome(t, id, webhooks.OutcomeIgnored)
	}

	// Nor in a process without an API key, or with one of another world: a recorded payment
	// has a mode and an account of its own.
	b.drainer.Livemode = nil
	b.drainer.Account = "acct_other"
	ids = []string{
		other("evt_live_2", func(e map[string]any) { e["livemode"], e["account"] = true, "acct_other" }),
		other("evt_account_2", func(e map[string]any) { e["account"] = "acct_other" }),
	}
	b.settle(t)
	for _, id := range ids {
		b.wantOutcome(t, id, webhooks.OutcomeIgnored)
	}
	if after := b.everything(t); after != before {
		t.Errorf("order %s: its rows changed:\n%s\nwere\n%s", o.ID, after, before)
	}
	if got := len(b.sim.Calls()); got != calls {
		t.Errorf("%d calls to the provider, want none", got-calls)
	}

	// And such a process still applies what belongs to the payment's own world.
	id := other("evt_own", func(map[string]any) {})
	b.settle(t)
	b.wantOutcome(t, id, webhooks.OutcomeApplied)
	b.wantEffects(t, o, once(o))
}

// An event of another world that names nothing we know is not waited for.
func TestB35AnUnknownResourceOfAnotherWorldDoesNotWait(t *testing.T) {
	t.Parallel()
	b := setup(t)
	unknown := checkout{Session: "cs_unknown", Intent: "pi_unknown", Amount: 1999, unmarked: true}
	for id, change := range map[string]func(event map[string]any){
		"evt_live":    func(e map[string]any) { e["livemode"] = true },
		"evt_account": func(e map[string]any) { e["account"] = "acct_other" },
	} {
		b.record(t, edited(t, unknown.event(id, completed), func(e, _ map[string]any) { change(e) }))
		b.drain(t)
		b.wantOutcome(t, id, webhooks.OutcomeIgnored)
	}
	if waits := b.count(t, `SELECT count(*) FROM delivery_resources`); waits != 0 {
		t.Errorf("%d resources are waited for, want none", waits)
	}
}

// everything is all rows that an event could change, as text.
func (b *testBundle) everything(t *testing.T) string {
	t.Helper()
	var all []string
	for _, table := range []string{
		"orders", "payments", "payment_resources", "order_transitions", "licenses", "sent_receipts", "provider_calls", "river_job",
	} {
		all = append(all, value[string](t, b, fmt.Sprintf(
			`SELECT '%s ' || coalesce(string_agg(x::text, E'\n' ORDER BY x::text), '') FROM %s x`, table, table)))
	}
	return strings.Join(all, "\n")
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
