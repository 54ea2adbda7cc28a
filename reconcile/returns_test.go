package reconcile_test

import (
	"testing"

	"paidonce/orders"
	"paidonce/reconcile"
)

// Refunds and disputes of which no event exists: each change of each of them is found, and the
// payment is read.
func TestRun_RefundsAndDisputesThatNobodyTold(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.mute.Store(true)
	refunded, first := b.told()
	disputed, second := b.told()
	b.wantRun("before", reconcile.Clean, "")

	refund, _, err := b.sim.Refund(first.PaymentIntentID, 3998, "succeeded")
	must(t, err)
	dispute, _, err := b.sim.OpenDispute(second.PaymentIntentID, 3998, "fraudulent")
	must(t, err)
	b.wantRun("refunded and disputed", reconcile.Drift, "refund_missed 0 open 1 healed, dispute_missed 0 open 1 healed")
	b.wantState(refunded, orders.Refunded)
	b.wantState(disputed, orders.Disputed)
	b.wantRun("then", reconcile.Clean, "")

	_, err = b.sim.FailRefund(refund)
	must(t, err)
	_, err = b.sim.CloseDispute(dispute, "lost")
	must(t, err)
	b.wantRun("failed and lost", reconcile.Drift, "refund_missed 0 open 1 healed, dispute_missed 0 open 1 healed")
	b.wantState(refunded, orders.Fulfilled)
	b.wantState(disputed, orders.ChargedBack)
	b.wantRun("in the end", reconcile.Clean, "")
}

// The events of an outage are hints where money goes back: they are recorded, and what they
// hint at is read by the same run.
func TestRun_AnOutageInWhichMoneyGoesBack(t *testing.T) {
	t.Parallel()
	b := setup(t)
	o, payment := b.told()
	_, _, err := b.sim.Refund(payment.PaymentIntentID, 1000, "succeeded")
	must(t, err)
	b.wantRun("after the outage", reconcile.Drift, "refund_missed 0 open 1 healed, event_missed 0 open 1 healed")
	if got := b.text(`SELECT refunded_minor FROM payments WHERE order_id = ?`, o.ID); got != "1000" {
		t.Errorf("%s refunded, want 1000", got)
	}
	b.wantState(o, orders.Fulfilled)
}

// What a capture for less leaves of the authorization is shown as a refund, and is none.
func TestRun_TheRestOfAnAuthorizationIsNoRefund(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.capturedForLess()
	b.mute.Store(true)
	b.wantRun("a release", reconcile.Clean, "")
}

// capturedForLess is an order of 39.98, all of it authorized and 29.98 captured: everything has
// arrived, and it is in review. It answers the intent.
func (b *bundle) capturedForLess() string {
	b.t.Helper()
	b.manual.Store(true)
	o, payment := b.paid()
	b.manual.Store(false)
	captured, err := b.sim.Capture(payment.PaymentIntentID, 2998)
	must(b.t, err)
	b.deliver(append(payment.Events, captured...))
	must(b.t, b.service.ReadPayment(b.t.Context(), o.PaymentID, nothing))
	b.wantState(o, orders.Review)
	return payment.PaymentIntentID
}
