package reconcile_test

import (
	"net/http"
	"testing"
	"time"

	"paidonce/internal/provider"
	"paidonce/internal/stripesim"
	"paidonce/orders"
	"paidonce/reconcile"
)

// An event that was recorded and cannot be applied is still missed in the next run.
func TestRun_AnEventThatCannotBeAppliedStaysOpen(t *testing.T) {
	t.Parallel()
	b := setup(t)
	o := b.order()
	_, err := b.sim.Pay(o.Session, stripesim.PayOptions{Delayed: true})
	must(t, err)
	_, err = b.sim.SettleDelayed(o.Session, false)
	must(t, err)
	b.exec(`CREATE FUNCTION boom() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'boom'; END $$`)
	b.exec(`CREATE TRIGGER boom BEFORE UPDATE ON orders FOR EACH ROW EXECUTE FUNCTION boom()`)
	first := b.run()
	t.Logf("first: %s %q", first.Outcome, kinds(first))
	second := b.run()
	open := b.text(`SELECT count(*) FROM webhook_deliveries WHERE processed_at IS NULL`)
	closed := b.text(`SELECT count(*) FROM reconcile_findings WHERE kind = 'event_missed' AND healed_at IS NOT NULL`)
	t.Logf("second: %s %q; %s deliveries open, %s event_missed findings closed as healed", second.Outcome, kinds(second), open, closed)
	if second.Outcome == reconcile.Clean && open != "0" {
		t.Errorf("clean, and %s recorded events were never applied; order is %s", open, b.text(`SELECT state FROM orders WHERE id = ?`, o.ID))
	}
}

// What a person acknowledged of test mode says nothing of live mode.
func TestRun_AnAckOfAnotherWorld(t *testing.T) {
	t.Parallel()
	b := setup(t)
	o, _ := b.paid()
	b.run()
	b.fulfill(o)
	b.sim.Advance(2 * time.Hour)
	b.wantRun("silent", reconcile.Drift, "webhooks_silent 1 open 0 healed")
	_, err := reconcile.Ack(t.Context(), b.db.Gorm, "webhooks_silent/test", "ann", "no tunnel in test mode", time.Now())
	must(t, err)

	live := *b.runner
	live.Stripe = provider.NewStripe(provider.StripeConfig{Key: "sk_test_1", Account: "acct_other", Base: b.url})
	lists := *b.runner.Lists
	lists.Stripe = live.Stripe
	live.Lists = &lists
	report, err := live.Run(t.Context(), b.window())
	must(t, err)
	t.Logf("live: livemode %v, %s, %+v", report.Livemode, report.Outcome, report.Kinds)
	if report.Outcome == reconcile.Clean {
		t.Errorf("live webhooks are silent, and the run is clean: acked by %q", b.text(`SELECT coalesce(max(ack_reason), (SELECT '-')) FROM reconcile_findings`))
	}
}

// A real refund of the amount that a capture for less released.
func TestRun_ARefundOfTheReleasedAmount(t *testing.T) {
	t.Parallel()
	b := setup(t)
	_, _, err := b.sim.Refund(b.capturedForLess(), 1000, "succeeded", stripesim.Held)
	must(t, err)
	b.mute.Store(true)
	b.wantRun("a real one", reconcile.Drift, "refund_missed 0 open 1 healed")
	b.wantRun("and now both are told apart", reconcile.Clean, "")
}

// One listing that is refused for good must not stop the looking at new payments.
func TestRun_AListingThatIsRefusedForGood(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.sim.Inject(stripesim.Fault{Method: http.MethodGet, Path: "/v1/disputes", Status: http.StatusForbidden, Times: 1_000_000})
	first, _ := b.paid()
	_, err := b.runner.Run(t.Context(), b.window())
	t.Log("first:", err)
	b.wantState(first, orders.Paid)
	b.sim.Advance(24 * time.Hour)
	second, _ := b.paid()
	for range 3 {
		b.sim.Advance(24 * time.Hour)
		_, err = b.runner.Run(t.Context(), b.window())
		t.Log("later:", err)
	}
	b.wantState(second, orders.Paid)
}

// Likewise a check of our own rows that always fails (60 s are not enough).
func TestRun_ACheckThatAlwaysFails(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.exec(`ALTER TABLE order_transitions RENAME COLUMN cause_event_id TO x`) // only to have a check fail; put right below
	b.exec(`ALTER TABLE order_transitions RENAME COLUMN x TO cause_event_id`)
	b.exec(`ALTER TABLE licenses RENAME COLUMN ordinal TO x`)
	_, err := b.runner.Run(t.Context(), b.window())
	t.Log("first:", err)
	o, _ := b.paid()
	b.sim.Advance(24 * time.Hour)
	for range 2 {
		_, err = b.runner.Run(t.Context(), b.window())
		t.Log("later:", err)
	}
	b.wantState(o, orders.Paid)
}

// Webhooks have stopped for a day, in a shop with few events.
func TestRun_SilenceAfterALivelyTime(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.runner.Lists.PageSize = 100
	b.told()
	b.sim.Advance(24 * time.Hour)
	for range 5 {
		o, _ := b.paid() // nothing arrives any more
		b.run()
		b.fulfill(o)
		b.sim.Advance(4 * time.Hour)
	}
	report := b.run()
	t.Logf("%s %q", report.Outcome, kinds(report))
	if report.Outcome == reconcile.Clean {
		t.Error("no webhook has come for 20 hours, 15 events were missed, and the run is clean")
	}
}

// Webhooks have stopped for hours, in a busy shop: the newest page is younger than an hour.
func TestRun_SilenceInABusyShop(t *testing.T) {
	t.Parallel()
	b := setup(t) // a page is 5
	for range 3 {
		o, _ := b.paid()
		b.run()
		b.fulfill(o)
		b.sim.Advance(5 * time.Hour)
	}
	for range 3 {
		o, _ := b.paid()
		b.run()
		b.fulfill(o)
	}
	report := b.run()
	t.Logf("%s %q", report.Outcome, kinds(report))
	if report.Outcome == reconcile.Clean {
		t.Error("no webhook ever came in 15 hours, and the run is clean")
	}
}
