package stripesim

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/stripe/stripe-go/v79"
)

// TestPricesOfProducts: a session of prices that exist, line names from their products.
func TestPricesOfProducts(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{})
	pr, err := b.api.Products.New(&stripe.ProductParams{Name: stripe.String("Key")})
	if err != nil {
		t.Fatal(err)
	}
	of, err := b.api.Prices.New(&stripe.PriceParams{Product: &pr.ID, UnitAmount: stripe.Int64(1500), Currency: stripe.String("usd")})
	if err != nil {
		t.Fatal(err)
	}
	made, err := b.api.Prices.New(&stripe.PriceParams{
		ProductData: &stripe.PriceProductDataParams{Name: stripe.String("Manual")}, UnitAmount: stripe.Int64(1),
		Currency: stripe.String("usd"),
	})
	if err != nil || made.Product.ID == "" {
		t.Fatalf("%+v, %v", made, err)
	}
	params := &stripe.CheckoutSessionParams{
		Mode: stripe.String("payment"), SuccessURL: stripe.String("https://shop.example/"),
		LineItems: []*stripe.CheckoutSessionLineItemParams{
			{Price: &of.ID, Quantity: stripe.Int64(2)}, {Price: &made.ID, Quantity: stripe.Int64(1)},
		},
	}
	params.AddExpand("line_items.data.price.product")
	s, err := b.api.CheckoutSessions.New(params)
	if err != nil {
		t.Fatal(err)
	}
	l := s.LineItems.Data
	if s.AmountTotal != 3001 || l[0].Description != "Key" || l[1].Price.Product.Name != "Manual" {
		t.Errorf("%d %+v", s.AmountTotal, l)
	}
	for query, want := range map[string]int{
		"/v1/products?ids[]=" + pr.ID: 1, "/v1/products?active=true": 2, "/v1/prices?product=" + pr.ID: 1, "/v1/prices?currency=eur": 0,
		"/v1/checkout/sessions?status=open": 1, "/v1/checkout/sessions?status=complete": 0, "/v1/payment_intents": 0, "/v1/coupons": 0,
	} {
		r := b.do(t, "GET", query, "")
		if ids, _ := idsOf(t, r.body); len(ids) != want {
			t.Errorf("%s: %d, want %d", query, len(ids), want)
		}
	}
}

// TestDiscount: a coupon at creation, or a code typed by the buyer; the total is the subtotal less it.
func TestDiscount(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{})
	b.do(t, "POST", "/v1/coupons", "id=HALF&percent_off=50")
	b.do(t, "POST", "/v1/coupons", "id=FIVER&amount_off=500&currency=usd&max_redemptions=1")
	b.do(t, "POST", "/v1/coupons", "id=ALL&percent_off=100")
	promo := b.do(t, "POST", "/v1/promotion_codes", "coupon=FIVER&code=FIVE")
	promoID, _ := dig(t, promo.body, "id").(string)
	totals := func(doc []byte) string {
		return fmt.Sprint(dig(t, doc, "amount_subtotal"), " ", dig(t, doc, "total_details", "amount_discount"), " ", dig(t, doc, "amount_total"))
	}
	for given, want := range map[string]string{
		"discounts[0][coupon]=HALF": "2100 1050 1050", "discounts[0][promotion_code]=" + promoID: "2100 500 1600",
		"discounts[0][coupon]=ALL": "2100 2100 0", "allow_promotion_codes=true": "2100 0 2100",
	} {
		r := b.do(t, "POST", sessionsPath, form(given))
		if got := totals(r.body); got != want {
			t.Errorf("%s: %s, want %s", given, got, want)
		}
	}
	for _, bad := range []string{
		"discounts[0][coupon]=NONE", "discounts[0][coupon]=HALF&allow_promotion_codes=true",
		"discounts[0][coupon]=HALF&discounts[1][coupon]=ALL", "discounts[0][promotion_code]=promo_x",
	} {
		if r := b.do(t, "POST", sessionsPath, form(bad)); r.status != 400 {
			t.Errorf("%s: %d", bad, r.status)
		}
	}

	// Typed on the page; used up by it.
	r := b.do(t, "POST", sessionsPath, form("allow_promotion_codes=true"))
	id, _ := dig(t, r.body, "id").(string)
	if _, err := b.sim.Pay(id, PayOptions{PromotionCode: "NONE"}); !errors.Is(err, ErrBadPayment) {
		t.Errorf("no such code: %v", err)
	}
	p := b.pay(t, id, PayOptions{PromotionCode: "five"})
	if got := field(t, b.sim.PaymentIntent, p.PaymentIntentID, "amount_received"); got != "1600" {
		t.Errorf("received %s", got)
	}
	if r := b.do(t, "POST", sessionsPath, form("discounts[0][promotion_code]="+promoID)); r.status != 400 {
		t.Errorf("redeemed twice: %d", r.status)
	}

	// Everything off: nothing to pay, and no intent.
	r = b.do(t, "POST", sessionsPath, form("discounts[0][coupon]=ALL"))
	id, _ = dig(t, r.body, "id").(string)
	if p := b.pay(t, id, PayOptions{}); p.PaymentIntentID != "" || kinds(p.Events) != "checkout.session.completed" {
		t.Errorf("%+v", p)
	}
}

// TestTax: known only when the buyer pays; total = subtotal − discount + tax.
func TestTax(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{})
	b.do(t, "POST", "/v1/coupons", "id=TENTH&percent_off=10")
	for given, want := range map[string]string{
		"": "2100 0 399 2499", "discounts[0][coupon]=TENTH": "2100 210 359 2249",
		"line_items[0][price_data][tax_behavior]=inclusive": "2100 0 335 2100",
	} {
		f := form("automatic_tax[enabled]=true", given)
		if given == "line_items[0][price_data][tax_behavior]=inclusive" {
			f = form("automatic_tax[enabled]=true", "line_items[][price_data][tax_behavior]=inclusive")
		}
		r := b.do(t, "POST", sessionsPath, f)
		if dig(t, r.body, "total_details", "amount_tax") != json.Number("0") ||
			dig(t, r.body, "automatic_tax", "status") != "requires_location_inputs" {
			t.Errorf("at creation: %s", r.body)
		}
		id, _ := dig(t, r.body, "id").(string)
		b.pay(t, id, PayOptions{})
		doc, _ := b.sim.Session(id)
		got := fmt.Sprint(dig(t, doc, "amount_subtotal"), " ", dig(t, doc, "total_details", "amount_discount"), " ",
			dig(t, doc, "total_details", "amount_tax"), " ", dig(t, doc, "amount_total"))
		if got != want {
			t.Errorf("%q: %s, want %s", given, got, want)
		}
	}
}

func TestShare(t *testing.T) {
	t.Parallel()
	for _, c := range [][4]int64{
		{100, 1, 3, 33},
		{100, 2, 3, 67},
		{1, 5000, 10000, 1},
		{0, 1, 2, 0},
		{maxAmount, maxAmount, maxAmount, maxAmount},
		{maxAmount, 1900, 10000, 190_000_000_000},
	} {
		if got := share(c[0], c[1], c[2]); got != c[3] {
			t.Errorf("share(%d, %d, %d) = %d, want %d", c[0], c[1], c[2], got, c[3])
		}
	}
}

func TestPercent(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"25.5": "25.5", "50": "50", "12.25": "12.25", "100": "100", "0.01": "0.01",
		"0": "", "101": "", "1.234": "", "x": "", "-5": "", "": "", "1e2": "",
	} {
		p, ok := parsePercent(text)
		if ok != (want != "") || ok && string(encode(p)) != want {
			t.Errorf("%q: %s %v", text, encode(p), ok)
		}
	}
}

// TestExpand: references become objects, in lists too; what leads nowhere is refused before anything is done.
func TestExpand(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{})
	p := b.paid(t, "createDispute")
	for _, c := range []struct {
		path string
		at   []string
	}{
		{"/v1/checkout/sessions/" + p.SessionID + "?expand[]=payment_intent.latest_charge.dispute", []string{"payment_intent", "latest_charge", "dispute", "object"}},
		{"/v1/checkout/sessions/" + p.SessionID + "?expand[]=payment_intent.payment_method", []string{"payment_intent", "payment_method", "object"}},
		{"/v1/charges/" + p.ChargeID + "?expand[]=balance_transaction&expand[]=payment_intent", []string{"payment_intent", "object"}},
		{"/v1/disputes/" + b.sim.Disputes()[0] + "?expand[]=charge", []string{"charge", "object"}},
	} {
		r := b.do(t, "GET", c.path, "")
		if got, _ := dig(t, r.body, c.at...).(string); r.status != 200 || got == "" {
			t.Errorf("%s: %d %s", c.path, r.status, r.body)
		}
	}
	r := b.do(t, "GET", "/v1/charges?expand[]=data.payment_intent", "")
	if v := dig(t, r.body, "data").([]any)[0].(map[string]any)["payment_intent"].(map[string]any)["id"]; v != p.PaymentIntentID {
		t.Errorf("%v", v)
	}
	if doc, _ := b.sim.Charge(p.ChargeID); dig(t, doc, "payment_intent") != p.PaymentIntentID {
		t.Error("the charge itself was expanded")
	}
	for _, bad := range []string{
		"/v1/charges?expand[]=payment_intent", "/v1/charges?expand[]=data", "/v1/charges/" + p.ChargeID + "?expand[]=amount",
		"/v1/charges/" + p.ChargeID + "?expand[]=payment_intent.latest_charge.payment_intent.latest_charge.dispute",
		"/v1/charges/" + p.ChargeID + "?expand[]=balance_transaction.source",
	} {
		if r := b.do(t, "GET", bad, ""); r.status != 400 || r.err.Param != "expand" {
			t.Errorf("%s: %d", bad, r.status)
		}
	}
}
