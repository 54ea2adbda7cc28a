package reconcile_test

import (
	"strings"
	"testing"
	"time"

	"paidonce/internal/stripesim"
	"paidonce/orders"
	"paidonce/reconcile"
)

// A read that cannot be stored must not be repeated as fast as Stripe answers.
func TestRun_AReadThatCannotBeStored(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.mute.Store(true)
	_, payment := b.told()
	_, _, err := b.sim.Refund(payment.PaymentIntentID, 3998, "succeeded")
	must(t, err)
	b.exec(`CREATE FUNCTION boom() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'boom'; END $$`)
	b.exec(`CREATE TRIGGER boom BEFORE UPDATE ON orders FOR EACH ROW EXECUTE FUNCTION boom()`)
	before := len(b.sim.Calls())
	began := time.Now()
	report := b.run()
	n := 0
	for _, c := range b.sim.Calls()[before:] {
		if strings.HasPrefix(c.Path, "/v1/checkout/sessions/") {
			n++
		}
	}
	t.Logf("%s %q in %s", report.Outcome, kinds(report), time.Since(began))
	if n > 10 {
		t.Errorf("one payment was read %d times (%d requests) by one run", n, len(b.sim.Calls())-before)
	}
}

// Paid in what cannot be read.
func TestRun_PaidInWhatCannotBeRead(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.mute.Store(true)
	o := b.order()
	_, err := b.sim.Pay(o.Session, stripesim.PayOptions{Currency: "zzz"})
	must(t, err)
	report := b.run()
	t.Logf("%s %q %v %v", report.Outcome, kinds(report), report.Counts, report.Notes)
	if report.Outcome == reconcile.Clean {
		t.Errorf("order %s is %s, its session is paid at the provider, and the run is clean", o.ID, b.text(`SELECT state FROM orders WHERE id = ?`, o.ID))
	}
	_ = orders.Paid
}

// A finding of a run that was left, which came right before it was resumed.
func TestRun_ALeftRunsFindingThatCameRight(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.mute.Store(true)
	o, _ := b.told()
	b.exec(`UPDATE orders SET state = 'paid' WHERE id = ?`, o.ID)
	b.sim.Inject(stripesim.Fault{Path: "/v1/disputes", Status: 503})
	report, err := b.runner.Run(t.Context(), b.window())
	t.Logf("left: %s %q %v", report.Outcome, kinds(report), err)
	b.exec(`UPDATE orders SET state = 'fulfilled' WHERE id = ?`, o.ID)
	report, err = b.runner.Run(t.Context(), b.window())
	t.Logf("resumed: %s %q %v", report.Outcome, kinds(report), err)
	if report.Outcome != reconcile.Clean && strings.Contains(kinds(report), "1 open") {
		t.Error("what was put right before the run was resumed is reported as open")
	}
}
