package fulfillment_test

import (
	"errors"
	"net/http"
	"testing"

	"gorm.io/gorm"

	"paidonce/internal/provider"
	"paidonce/internal/stripesim"
	"paidonce/orders"
)

// An order whose checkout did not come about, for whatever reason, is not a dead end: its
// buyer opens another one.
func TestAStoppedCheckoutLeavesTheOrderOpenToAnother(t *testing.T) {
	t.Parallel()
	for name, stop := range map[string]func(t *testing.T, b *testBundle, o order){
		"refused once": func(t *testing.T, b *testBundle, o order) {
			t.Helper()
			b.sim.Inject(stripesim.Fault{Method: http.MethodPost, Status: http.StatusBadRequest})
			if err := b.service.OpenCheckout(t.Context(), o.callKey); err == nil {
				t.Error("the checkout was opened")
			}
			b.wantState(t, o, orders.Failed)
		},
		"its key too old, and nothing found": func(t *testing.T, b *testBundle, _ order) {
			t.Helper()
			b.exec(t, `UPDATE provider_calls SET state = 'unknown', first_sent_at = now() - interval '25 h', last_sent_at = now() - interval '25 h'`)
		},
		"its key used by somebody else": func(t *testing.T, b *testBundle, o order) {
			t.Helper()
			// The same key with other bytes: what Stripe keeps under it is not ours.
			const swap = `UPDATE provider_calls SET params = ?, state = 'intended' WHERE idempotency_key = ?`
			var ours []byte
			if err := b.db.Gorm.Raw(`SELECT params FROM provider_calls WHERE idempotency_key = ?`, o.callKey).Row().Scan(&ours); err != nil {
				t.Fatal(err)
			}
			theirs := "mode=payment&success_url=https%3A%2F%2Fx.example.com&line_items[0][quantity]=1&line_items[0][price_data][currency]=usd" +
				"&line_items[0][price_data][unit_amount]=100&line_items[0][price_data][product_data][name]=x"
			b.exec(t, swap, []byte(theirs), o.callKey)
			b.sim.Inject(stripesim.Fault{Method: http.MethodPost, Kind: stripesim.LoseAnswer})
			if err := b.service.OpenCheckout(t.Context(), o.callKey); err == nil {
				t.Error("the lost answer was not missed")
			}
			b.exec(t, swap, ours, o.callKey)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			o := b.unopened(t)
			stop(t, b, o)
			if _, err := b.service.CheckoutAgain(t.Context(), merchant(), o.ID, nil); err != nil {
				t.Errorf("another checkout: %v", err)
			}
			b.wantState(t, o, orders.Pending)
		})
	}
}

// A checkout that the provider does not have (any more) cannot be paid, and does not stand in
// the way of another.
func TestACheckoutThatIsGoneIsNoDeadEnd(t *testing.T) {
	t.Parallel()
	b := setup(t)
	o := b.order(t)
	b.exec(t, `UPDATE payments SET resource_id = 'cs_test_gone'`)
	b.exec(t, `UPDATE payment_resources SET resource_id = 'cs_test_gone'`)
	if _, err := b.service.CheckoutAgain(t.Context(), merchant(), o.ID, nil); err != nil {
		t.Errorf("another checkout: %v", err)
	}
	if n := b.count(t, `SELECT count(*) FROM payments WHERE status = 'expired'`); n != 1 {
		t.Errorf("%d payments expired, want the one that is gone", n)
	}
	b.wantState(t, o, orders.Pending)
}

// A payment of another mode or account is not read with this process' key: it would not be
// found, and the wish to read it would be given up.
func TestAReadWaitsForItsOwnWorld(t *testing.T) {
	t.Parallel()
	for _, world := range []string{`livemode = true`, `account = 'acct_other'`} {
		b := setup(t)
		o := b.order(t)
		b.exec(t, `UPDATE payments SET `+world)
		calls := len(b.sim.Calls())
		err := b.service.ReadPayment(t.Context(), o.checkouts[0].PaymentID, noJob)
		if !errors.Is(err, provider.ErrOtherWorld) || len(b.sim.Calls()) != calls {
			t.Errorf("%s: got %v after %d requests, want ErrOtherWorld and none", world, err, len(b.sim.Calls())-calls)
		}
	}
}

// Stripe cancels the intent of a checkout that ran out after a declined card. Nobody called
// the order off, so it takes another checkout.
func TestAnIntentThatIsCanceledWithItsCheckoutIsNoDeadEnd(t *testing.T) {
	t.Parallel()
	b := setup(t)
	o := b.order(t)
	for _, status := range []orders.Status{orders.StatusExpired, orders.StatusCanceled} {
		b.apply(t, orders.Fact{Resources: []string{o.checkouts[0].Session}, Status: status})
	}
	b.wantState(t, o, orders.Canceled)
	if _, err := b.service.CheckoutAgain(t.Context(), merchant(), o.ID, nil); err != nil {
		t.Errorf("another checkout: %v", err)
	}
	b.wantState(t, o, orders.Pending)
}

// I5: the breakdown of an adjustable total may come with either of two statements of one
// success.
func TestABreakdownMayComeSecond(t *testing.T) {
	t.Parallel()
	for _, readFirst := range []bool{false, true} {
		b := setup(t)
		o := b.order(t)
		b.exec(t, `UPDATE payments SET adjustable = true`)
		event := orders.Fact{
			Resources: []string{o.checkouts[0].Session}, Status: orders.StatusSucceeded,
			ReceivedMinor: o.Total, ReceivedCurrency: "usd", IntendedMinor: o.Total,
			Breakdown: &orders.Breakdown{SubtotalMinor: o.Total},
		}
		read := event
		read.Breakdown, read.Read, read.ReadSeq = nil, true, 1
		facts := []orders.Fact{event, read}
		if readFirst {
			facts = []orders.Fact{read, event}
		}
		for _, f := range facts {
			b.apply(t, f)
		}
		b.wantState(t, o, orders.Paid)
	}
}

// apply applies a fact of Stripe's in a transaction of its own.
func (b *testBundle) apply(t *testing.T, f orders.Fact) {
	t.Helper()
	f.Provider, f.Cause = "stripe", orders.Cause{Provider: "stripe", EventID: "evt_" + string(f.Status)}
	err := b.db.Gorm.Transaction(func(tx *gorm.DB) error {
		_, err := b.orders.Apply(t.Context(), tx, f)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
