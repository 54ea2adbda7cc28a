package fulfillment_test

import (
	"net/http"
	"testing"

	"paidonce/internal/stripesim"
	"paidonce/orders"
)

// A surplus refund whose first request was cut before Stripe saw it; by the second one the
// payment is the one that pays the order.
func TestRefund_SurplusNoMoreAfterALostRequest(t *testing.T) {
	t.Parallel()
	b := setup(t)
	o := b.secondCheckout(t, b.order(t))
	for _, c := range o.checkouts {
		b.arrive(t, b.pay(t, c, stripesim.PayOptions{}))
	}
	all, err := b.service.Refund(t.Context(), o.ID, orders.RefundWish{Surplus: true}, clerk())
	if err != nil || len(all) != 1 {
		t.Fatalf("%+v, %v", all, err)
	}
	b.sim.Inject(stripesim.Fault{Method: http.MethodPost, Path: "/v1/refunds", Kind: stripesim.LoseRequest})
	t.Log("first:", b.service.SendRefund(t.Context(), all[0].Ruling))
	counted := o.checkouts[0]
	if *all[0].Ruling.PaymentID == counted.PaymentID {
		counted = o.checkouts[1]
	}
	b.refunded(t, counted, 0)
	b.exec(t, `UPDATE payments SET read_wanted = read_wanted + 1`)
	if err := b.service.ReadPayment(t.Context(), counted.PaymentID, noJob); err != nil {
		t.Fatal(err)
	}
	t.Log("between:", value[string](t, b, `SELECT state FROM orders WHERE id = ?`, o.ID))
	t.Log("second:", b.service.SendRefund(t.Context(), all[0].Ruling))
	if got := value[string](t, b, `SELECT state FROM orders WHERE id = ?`, o.ID); got == "refunded" || len(b.sim.Refunds()) > 1 {
		t.Errorf("the payment that pays the order was sent back as surplus: the order is %s", got)
	}
}
