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

// expireJob does the job of the call that ends the order's first checkout.
func (b *testBundle) expireJob(t *testing.T, o order) (completed int, err error) {
	t.Helper()
	payment := o.checkouts[0].PaymentID
	err = b.service.ExpireCheckout(t.Context(), "expire:"+payment.String(), payment, func(*gorm.DB) error {
		completed++
		return nil
	})
	return completed, err
}

// A provider that was away while another checkout was asked for: nothing is added, and the
// wish to end the open one is carried out by its job, once.
func TestCheckoutAgain_TheJobCarriesOutTheWish(t *testing.T) {
	t.Parallel()
	b := setup(t)
	o := b.order(t)
	b.sim.Inject(stripesim.Fault{Method: http.MethodPost, Kind: stripesim.LoseRequest})
	var retry *provider.RetryError
	if _, err := b.service.CheckoutAgain(t.Context(), merchant(), o.ID, nil); !errors.As(err, &retry) {
		t.Fatalf("got %v, want a retry", err)
	}
	b.wantState(t, o, orders.Pending)
	if n := b.count(t, `SELECT count(*) FROM payments`); n != 1 {
		t.Errorf("%d payments", n)
	}
	if n := b.jobs(t, "expire_checkout"); n != 1 {
		t.Errorf("%d jobs to end it, want one", n)
	}
	for range 2 { // twice: a job may run again
		if _, err := b.expireJob(t, o); err != nil {
			t.Fatal(err)
		}
		b.wantState(t, o, orders.Expired)
	}

	created, err := b.service.CheckoutAgain(t.Context(), merchant(), o.ID, nil)
	if err != nil {
		t.Fatal(err)
	}
	b.wantState(t, o, orders.Pending)
	if n := b.count(t, `SELECT count(*) FROM payments WHERE order_id = ?`, o.ID); n != 2 || created.Order.ID != o.ID {
		t.Errorf("%d payments; got %+v", n, created)
	}
}

// The buyer pays before the job gets to ending the checkout: the job reads the payment
// instead, and is done. It is no dead letter.
func TestExpireCheckout_PaidMeanwhile(t *testing.T) {
	t.Parallel()
	b := setup(t)
	o := b.order(t)
	b.sim.Inject(stripesim.Fault{Method: http.MethodPost, Kind: stripesim.LoseRequest})
	if _, err := b.service.CheckoutAgain(t.Context(), merchant(), o.ID, nil); err == nil {
		t.Fatal("no error")
	}
	b.pay(t, o.checkouts[0], stripesim.PayOptions{}) // its events are still to come
	completed, err := b.expireJob(t, o)
	if err != nil || completed != 1 {
		t.Errorf("completed %d times, %v; want once", completed, err)
	}
	b.wantState(t, o, orders.Paid)
	var closed *orders.NotOpenError
	if _, err := b.service.CheckoutAgain(t.Context(), merchant(), o.ID, nil); !errors.As(err, &closed) || closed.State != orders.Paid {
		t.Errorf("another checkout: %v, want it refused as paid", err)
	}
}
