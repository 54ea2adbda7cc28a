package web_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"
	"gorm.io/gorm"

	"paidonce/internal/money"
	"paidonce/internal/stripesim"
	"paidonce/internal/web"
	"paidonce/orders"
)

// sell puts one more product on sale and orders one of it.
func (s shop) sell(t *testing.T, sku string, minor int64, currency money.Currency) created {
	t.Helper()
	must(t, s.store.ImportProducts(t.Context(), []orders.Product{{SKU: sku, Name: "Thing", UnitMinor: minor, Currency: currency}}))
	got := do(t, http.MethodPost, s.url+"/orders", fmt.Sprintf(`{"email":"a@example.com","locale":"en","items":[{"sku":%q,"quantity":1}]}`, sku))
	if got.Status != http.StatusCreated {
		t.Fatalf("%s: got %d %s", sku, got.Status, got.Body)
	}
	return decode[created](t, got.Body)
}

// fulfill issues an order, and returns the text of its receipt.
func (s shop) fulfill(t *testing.T, order created) string {
	t.Helper()
	must(t, s.service.FulfillOrder(t.Context(), order.ID, func(*gorm.DB) error { return nil }))
	return query[string](t, s, `SELECT request::text FROM sent_receipts WHERE order_id = $1`, order.ID)
}

// B20: currencies of no, two and three decimals, and one that Stripe counts otherwise than
// everybody, from the order to the receipt.
func TestB20_CurrenciesEndToEnd(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	for i, c := range []struct {
		minor    int64
		currency money.Currency
		told     int64 // what Stripe is told, and states
		wrong    int64 // by a fixed factor of 100, or of 10
		receipt  string
	}{
		{1999, "usd", 1999, 19, "$19.99"},
		{100, "jpy", 100, 10000, "¥100"},
		{18600, "kwd", 18600, 1860, "18.600"},
		{100, "isk", 10000, 100, "ISK\u00a0100"},
	} {
		order := s.sell(t, fmt.Sprint("SKU-", i), c.minor, c.currency)
		params := query[string](t, s, `SELECT convert_from(params, 'UTF8') FROM provider_calls WHERE subject_id = (SELECT id FROM payments WHERE order_id = $1)`, order.ID)
		if !strings.Contains(params, fmt.Sprintf("[unit_amount]=%d&", c.told)) {
			t.Errorf("%s: Stripe is asked for %s", c.currency, params)
		}
		s.pay(t, order, stripesim.PayOptions{Currency: strings.ToUpper(string(c.currency))})
		receipt := s.fulfill(t, order)
		if got := s.state(t, order); got != "fulfilled" || !strings.Contains(receipt, c.receipt) {
			t.Errorf("%s: the order is %s, the receipt %s", c.currency, got, receipt)
		}
		if got := query[int64](t, s, `SELECT received_minor FROM payments WHERE order_id = $1`, order.ID); got != c.minor {
			t.Errorf("%s: received %d, want %d", c.currency, got, c.minor)
		}

		// Read, it is the same.
		read := s.sell(t, fmt.Sprint("SKU-", i), c.minor, c.currency)
		_, err := s.sim.Pay(s.session(t, read, 0), stripesim.PayOptions{Hold: true})
		must(t, err)
		must(t, s.service.ReadPayment(t.Context(), s.payment(t, read), func(*gorm.DB) error { return nil }))
		if got := s.state(t, read); got != "paid" {
			t.Errorf("%s: read, the order is %s", c.currency, got)
		}

		// Paid by a factor: held, never fulfilled.
		wrong := s.sell(t, fmt.Sprint("SKU-", i), c.minor, c.currency)
		s.pay(t, wrong, stripesim.PayOptions{Amount: &c.wrong})
		if got := s.state(t, wrong); got != "review" {
			t.Errorf("%s: paid with %d, the order is %s", c.currency, c.wrong, got)
		}
	}
}

func (s shop) payment(t *testing.T, order created) uuid.UUID {
	t.Helper()
	return query[uuid.UUID](t, s, `SELECT id FROM payments WHERE order_id = $1`, order.ID)
}

// B20: a price that Stripe cannot be told is refused where it is ordered, if a shop has it.
func TestB20_UnpayableCurrencies(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	execute(t, s.dsn, `INSERT INTO products VALUES ('UGX-1', 'Old', 500, 'ugx', true, now()), ('KWD-1', 'Old', 18601, 'kwd', true, now()),
		('ISK-1', 'Dear', 1000000, 'isk', true, now())`)
	for sku, field := range map[string]string{"UGX-1": "items[0].sku", "KWD-1": "items[0].sku", "ISK-1": "items"} {
		got := do(t, http.MethodPost, s.url+"/orders", fmt.Sprintf(`{"email":"a@example.com","items":[{"sku":%q,"quantity":1}]}`, sku))
		if p := got.problem(t); got.Status != http.StatusUnprocessableEntity || p.Field != field {
			t.Errorf("%s: got %d %s", sku, got.Status, got.Body)
		}
	}
	if got := query[int](t, s, `SELECT count(*) FROM orders`); got != 0 {
		t.Errorf("%d orders", got)
	}
}

// B22: nothing to pay is paid: two free orders, without an intent, each once; and the same
// claim about an order that costs something is held.
func TestB22_NothingToPay(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	for range 2 {
		order := s.sell(t, "FREE-1", 0, "usd")
		s.pay(t, order, stripesim.PayOptions{})
		receipt := s.fulfill(t, order)
		if got := s.state(t, order); got != "fulfilled" || !strings.Contains(receipt, "$0.00") {
			t.Errorf("the free order is %s, its receipt %s", got, receipt)
		}
		if got := query[int](t, s, `SELECT count(*) FROM licenses WHERE order_id = $1`, order.ID); got != 1 {
			t.Errorf("%d licenses", got)
		}
	}
	if got := query[int](t, s, `SELECT count(*) FROM provider_calls WHERE operation <> 'checkout'`); got != 0 {
		t.Errorf("%d calls about intents that do not exist", got)
	}

	order := s.order(t)
	session := s.session(t, order, 0)
	s.bring(t, fmt.Appendf(nil, `{"id":"evt_free","object":"event","type":"checkout.session.completed","created":1740830400,"livemode":false,
"data":{"object":{"id":%q,"object":"checkout.session","status":"complete","payment_status":"no_payment_required","payment_intent":null,
"amount_subtotal":4498,"amount_total":0,"total_details":{"amount_discount":4498,"amount_shipping":0,"amount_tax":0},"currency":"usd","created":1740830400}}}`, session))
	if state, reason := s.state(t, order), query[string](t, s, `SELECT coalesce(review_reason, '') FROM orders WHERE id = $1`, order.ID); state != "review" || reason != "amount" {
		t.Errorf("the order that costs something is %s %s", state, reason)
	}
}

// B22, B24: with promotion codes allowed, a code for everything leaves nothing to pay, and
// one for a part the rest; with tax, more. All of it is what was agreed.
func TestB24_PromotionCodesAndTax(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		percent  string
		tax      bool
		received int64
	}{
		"Everything off":    {"100", false, 0},
		"A quarter off":     {"25", false, 3374},
		"Tax":               {"", true, 5353}, // 4498 and 19 %
		"A quarter and tax": {"25", true, 4015},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newShop(t, func(o *web.Orders) { o.Merchant.PromotionCodes, o.Merchant.AutomaticTax = c.percent != "", c.tax })
			order := s.order(t)
			pay := stripesim.PayOptions{Hold: true}
			if c.percent != "" {
				pay.PromotionCode = s.code(t, c.percent)
			}
			paid, err := s.sim.Pay(s.session(t, order, 0), pay)
			must(t, err)
			s.bringEvents(t, paid.Events)
			got := query[int64](t, s, `SELECT coalesce(received_minor, -1) FROM payments WHERE order_id = $1`, order.ID)
			if s.state(t, order) != "paid" || got < c.received-1 || got > c.received+1 {
				t.Errorf("the order is %s, received %d, want about %d", s.state(t, order), got, c.received)
			}
			whole := query[bool](t, s, `SELECT subtotal_minor = expected_minor AND subtotal_minor - discount_minor + tax_minor + shipping_minor = received_minor FROM payments WHERE order_id = $1`, order.ID)
			if !whole {
				t.Error("the breakdown is not stored, or does not add up")
			}
			s.fulfill(t, order)
			if got := s.state(t, order); got != "fulfilled" {
				t.Errorf("it ends as %s", got)
			}

			// By the read alone it ends the same.
			other := s.order(t)
			_, err = s.sim.Pay(s.session(t, other, 0), pay)
			must(t, err)
			must(t, s.service.ReadPayment(t.Context(), s.payment(t, other), func(*gorm.DB) error { return nil }))
			if got := s.state(t, other); got != "paid" {
				t.Errorf("read, it is %s", got)
			}
		})
	}
}

// code makes a promotion code at the simulated Stripe.
func (s shop) code(t *testing.T, percent string) string {
	t.Helper()
	post := func(path, form string) string {
		got := do(t, http.MethodPost, s.stripe.URL+path, form, "Authorization", "Bearer sk_test_123", "Content-Type", "application/x-www-form-urlencoded")
		if got.Status != http.StatusOK {
			t.Fatalf("%s: got %d %s", path, got.Status, got.Body)
		}
		return decode[struct{ ID string }](t, got.Body).ID
	}
	coupon := post("/v1/coupons", "duration=once&percent_off="+percent)
	post("/v1/promotion_codes", "code=OFF"+percent+"&coupon="+coupon)
	return "OFF" + percent
}

// B24: honest events whose total is not what was asked for, in Stripe's own shapes.
func TestB24_HonestTotals(t *testing.T) {
	t.Parallel()
	taxed := `"amount_subtotal":1999,"amount_total":2679,"currency":"usd","total_details":{"amount_discount":200,"amount_shipping":500,"amount_tax":380}`
	presented := `"amount_subtotal":1999,"amount_total":1999,"currency":"usd","presentment_details":{"presentment_currency":"eur","presentment_amount":1852}`
	converted := `"amount_subtotal":1852,"amount_total":1852,"currency":"eur","currency_conversion":{"amount_subtotal":1999,"amount_total":1999,"fx_rate":"0.9265","source_currency":"usd"}`
	for name, c := range map[string]struct {
		adjustable    bool
		session       string
		state, reason string
	}{
		"a: taxed, discounted and shipped":       {true, taxed, "paid", ""},
		"a: and nobody allowed it":               {false, taxed, "review", "amount"},
		"a: another subtotal":                    {true, strings.Replace(taxed, "1999", "1998", 1), "review", "amount"},
		"a: it does not add up":                  {true, strings.Replace(taxed, "2679", "2678", 1), "review", "amount"},
		"a: in another currency":                 {true, strings.Replace(taxed, "usd", "eur", 1), "review", "currency"},
		"b: presented in euro":                   {false, presented, "paid", ""},
		"c: converted to euro":                   {false, converted, "paid", ""},
		"c: converted, from another amount":      {false, strings.ReplaceAll(converted, "1999", "1998"), "review", "amount"},
		"c: converted, from another currency":    {false, strings.ReplaceAll(converted, "usd", "gbp"), "review", "currency"},
		"c: in euro, and nothing says from what": {false, `"amount_total":1852,"currency":"eur"`, "review", "currency"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newShop(t, func(o *web.Orders) { o.Merchant.PromotionCodes = c.adjustable })
			order := s.sell(t, "ONE-1", 1999, "usd")
			session := s.session(t, order, 0)
			s.bring(t, fmt.Appendf(nil, `{"id":"evt_1","object":"event","type":"checkout.session.completed","created":1740830400,"livemode":false,
"data":{"object":{"id":%q,"object":"checkout.session","status":"complete","payment_status":"paid","payment_intent":"pi_1","created":1740830400,%s}}}`, session, c.session))
			reason := query[string](t, s, `SELECT coalesce(review_reason, '') FROM orders WHERE id = $1`, order.ID)
			if got := s.state(t, order); got != c.state || reason != c.reason {
				t.Errorf("the order is %s %s, want %s %s", got, reason, c.state, c.reason)
			}
		})
	}
}

// I4: where a total may differ, an event that does not say what it is made of is a hint: the
// read says it.
func TestB24_AnEventWithoutTheBreakdownIsAHint(t *testing.T) {
	t.Parallel()
	s := newShop(t, func(o *web.Orders) { o.Merchant.PromotionCodes = true })
	order := s.order(t)
	paid, err := s.sim.Pay(s.session(t, order, 0), stripesim.PayOptions{Hold: true, PromotionCode: s.code(t, "25")})
	must(t, err)
	for _, e := range paid.Events {
		if strings.HasPrefix(e.Type, "checkout.") { // it teaches the intent's id, and no more
			s.bring(t, []byte(strings.Replace(string(e.Body), `"total_details"`, `"total_detail"`, 1)))
		}
	}
	s.bringEvents(t, paid.Events[:2])
	if got := s.state(t, order); got != "pending" {
		t.Errorf("before the read the order is %s", got)
	}
	if jobs := query[int](t, s, `SELECT count(*) FROM river_job WHERE kind = 'read_payment'`); jobs == 0 {
		t.Error("nobody reads it")
	}
	must(t, s.service.ReadPayment(t.Context(), s.payment(t, order), func(*gorm.DB) error { return nil }))
	if got := s.state(t, order); got != "paid" {
		t.Errorf("after the read the order is %s", got)
	}
	s.bringEvents(t, paid.Events)
	if got := s.history(t, order); got != "pay" {
		t.Errorf("history %s", got)
	}
}
