package stripesim

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stripe/stripe-go/v79"
)

func TestAuth(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{})
	basic := func(key string) string { return "Basic " + base64.StdEncoding.EncodeToString([]byte(key+":")) }
	for _, c := range []struct {
		header string
		want   int
	}{
		{"Bearer sk_test_1", 200},
		{"bearer rk_test_1", 200},
		{basic("sk_test_1"), 200},
		{"", 401},
		{"Bearer", 401},
		{"Bearer sk_live_1", 401},
		{basic("rk_live_1"), 401},
		{"Bearer sk_test_", 401},
		{"Bearer pk_test_1", 401},
		{"Token sk_test_1", 401},
	} {
		r := b.do(t, "GET", "/v1/events", "", "Authorization", c.header)
		if r.status != c.want {
			t.Errorf("%q: %d, want %d", c.header, r.status, c.want)
		}
		if c.want == 401 && (r.err.Type != "invalid_request_error" || r.err.Message == "") {
			t.Errorf("%q: %s", c.header, r.body)
		}
		if r.header.Get("Request-Id") == "" || r.header.Get("Stripe-Version") != APIVersion {
			t.Errorf("%q: headers %v", c.header, r.header)
		}
	}
}

// TestRefusals: each is refused with Stripe's status, code and param, and leaves nothing behind.
func TestRefusals(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	b := setup(t, Config{Now: func() time.Time { return now }})
	const sessions = "/v1/checkout/sessions"
	without := func(part string) string {
		var keep []string
		for _, p := range strings.Split(form(), "&") {
			if !strings.HasPrefix(p, part) {
				keep = append(keep, p)
			}
		}
		return strings.Join(keep, "&")
	}
	many := make([]string, 51)
	for i := range many {
		many[i] = fmt.Sprintf("metadata[k%d]=v", i)
	}
	for _, c := range []struct {
		name, form, code, param string
	}{
		{"Unknown", form("colour=red"), "parameter_unknown", "colour"},
		{"UnknownInside", form("line_items[0][price_data][colour]=red"), "", "line_items[0][price_data][colour]"},
		{
			"UnknownDeep", strings.Replace(form(), "product_data][name]", "product_data][title]", 1), "parameter_unknown",
			"line_items[0][price_data][product_data][title]",
		},
		{"Unsupported", form("tax_id_collection[enabled]=true"), "", "tax_id_collection"},
		{"NoMode", without("mode"), "parameter_missing", "mode"},
		{"OtherMode", strings.Replace(form(), "mode=payment", "mode=subscription", 1), "", "mode"},
		{"NoSuchMode", strings.Replace(form(), "mode=payment", "mode=gift", 1), "", "mode"},
		{"NoLines", without("line_items"), "parameter_missing", "line_items"},
		{"NoSuccessURL", without("success_url"), "parameter_missing", "success_url"},
		{"BadSuccessURL", strings.Replace(form(), "https://shop.example/ok", "javascript:alert(1)", 1), "url_invalid", "success_url"},
		{"NoCurrency", without("line_items[][price_data][currency]"), "parameter_missing", "line_items[0][price_data][currency]"},
		{"BadCurrency", strings.Replace(form(), "usd", "us1", 1), "", "line_items[0][price_data][currency]"},
		{"NoUnitAmount", without("line_items[][price_data][unit_amount]"), "parameter_missing", "line_items[0][price_data][unit_amount]"},
		{"BadUnitAmount", strings.Replace(form(), "=700", "=7.5", 1), "parameter_invalid_integer", "line_items[0][price_data][unit_amount]"},
		{"NegativeUnitAmount", strings.Replace(form(), "=700", "=-1", 1), "parameter_invalid_integer", "line_items[0][price_data][unit_amount]"},
		{"HugeUnitAmount", strings.Replace(form(), "=700", "=9223372036854775808", 1), "parameter_invalid_integer", "line_items[0][price_data][unit_amount]"},
		{"TotalTooLarge", strings.Replace(form(), "=700", "=999999999999", 1), "amount_too_large", "line_items"},
		{"NoName", without("line_items[][price_data][product_data]"), "parameter_missing", "line_items[0][price_data][product_data]"},
		{"NoQuantity", without("line_items[][quantity]"), "parameter_missing", "line_items[0][quantity]"},
		{"NoneOfIt", strings.Replace(form(), "quantity]=3", "quantity]=0", 1), "parameter_invalid_integer", "line_items[0][quantity]"},
		{"TwoCurrencies", form("line_items[][price_data][currency]=eur", "line_items[][price_data][unit_amount]=1",
			"line_items[][price_data][product_data][name]=B", "line_items[][quantity]=1"), "", "line_items[1][price_data][currency]"},
		{
			"NoSuchPrice", "mode=payment&success_url=https://a.b/&line_items[0][price]=price_1&line_items[0][quantity]=1",
			"resource_missing", "line_items[0][price]",
		},
		{"IndexGap", "mode=payment&success_url=https://a.b/&line_items[1][quantity]=1", "", "line_items"},
		{"TextForObject", form("payment_intent_data=x"), "", "payment_intent_data"},
		{"ObjectForText", form("locale[a]=x"), "", "locale"},
		{"EmptyText", form("locale="), "parameter_invalid_empty", "locale"},
		{"BadEmail", form("customer_email=nobody"), "email_invalid", "customer_email"},
		{"LongReference", form("client_reference_id=" + strings.Repeat("x", 201)), "", "client_reference_id"},
		{"LongMetadataKey", form("metadata[" + strings.Repeat("x", 41) + "]=v"), "", ""},
		{"LongMetadataValue", form("metadata[k]=" + strings.Repeat("x", 501)), "", "metadata[k]"},
		{"ManyMetadata", form(many...), "", "metadata"},
		{"DeepMetadata", form("metadata[a][b]=v"), "", "metadata[a]"},
		{"ExpiresSoon", form(fmt.Sprint("expires_at=", now.Add(29*time.Minute).Unix())), "", "expires_at"},
		{"ExpiresLate", form(fmt.Sprint("expires_at=", now.Add(25*time.Hour).Unix())), "", "expires_at"},
		{"BadExpand", form("expand[]=payment_intent.customer.name"), "", "expand"},
	} {
		r := b.do(t, "POST", sessions, c.form)
		if r.status != 400 || r.err.Type != "invalid_request_error" || r.err.Message == "" {
			t.Errorf("%s: %d %s", c.name, r.status, r.body)
		}
		if c.code != "" && r.err.Code != c.code || c.param != "" && r.err.Param != c.param {
			t.Errorf("%s: code %q param %q, want %q %q", c.name, r.err.Code, r.err.Param, c.code, c.param)
		}
	}
	b.sim.mu.Lock()
	defer b.sim.mu.Unlock()
	if b.sim.sessions.len() != 0 {
		t.Errorf("%d sessions were stored", b.sim.sessions.len())
	}
}

func TestNotThere(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{})
	for _, path := range []string{
		"GET /v1/checkout/sessions/cs_test_x", "POST /v1/checkout/sessions/cs_test_x/expire",
		"GET /v1/checkout/sessions/cs_test_x/line_items", "GET /v1/payment_intents/pi_x", "POST /v1/payment_intents/pi_x",
		"GET /v1/charges/ch_x", "GET /v1/events/evt_x",
	} {
		method, p, _ := strings.Cut(path, " ")
		if r := b.do(t, method, p, ""); r.status != 404 || r.err.Code != "resource_missing" || r.err.Param == "" {
			t.Errorf("%s: %d %s", path, r.status, r.body)
		}
	}
	for _, path := range []string{"GET /v1/payouts", "DELETE /v1/events", "GET /v1/"} {
		method, p, _ := strings.Cut(path, " ")
		if r := b.do(t, method, p, ""); r.status != 404 || r.err.Type != "invalid_request_error" || r.err.Code != "" {
			t.Errorf("%s: %d %s", path, r.status, r.body)
		}
	}
	_, err := b.api.CheckoutSessions.Get("cs_test_x", nil)
	var e *stripe.Error
	if !errors.As(err, &e) || e.Code != stripe.ErrorCodeResourceMissing || e.RequestID == "" {
		t.Errorf("stripe-go: %v", err)
	}
}

func TestBodyTooLarge(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{})
	r := b.do(t, "POST", "/v1/checkout/sessions", form("metadata[k]="+strings.Repeat("x", maxBody)))
	if r.status != 413 || r.err.Message == "" {
		t.Errorf("%d %.200s", r.status, r.body)
	}
}

// TestNoParameterOfStripeGoIsUnknown: what stripe-go can send is supported or refused as not supported, never called
// unknown, which would be untrue of Stripe.
func TestNoParameterOfStripeGoIsUnknown(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		of   any
		spec spec
	}{
		{stripe.CheckoutSessionParams{}, sessionParams()},
		{stripe.CheckoutSessionPaymentIntentDataParams{}, sessionParams().members["payment_intent_data"]},
		{stripe.CheckoutSessionLineItemParams{}, *sessionParams().members["line_items"].of},
		{stripe.CheckoutSessionLineItemPriceDataParams{}, sessionParams().members["line_items"].of.members["price_data"]},
		{
			stripe.CheckoutSessionLineItemPriceDataProductDataParams{},
			sessionParams().members["line_items"].of.members["price_data"].members["product_data"],
		},
		{stripe.PaymentIntentConfirmParams{}, confirmParams()},
		{stripe.PaymentIntentCaptureParams{}, captureParams()},
		{stripe.PaymentIntentCancelParams{}, cancelParams()},
		{stripe.PaymentIntentParams{}, intentParams()},
		{stripe.PaymentIntentParams{}, newIntentParams()},
		{stripe.RefundParams{}, refundParams()},
		{stripe.DisputeParams{}, disputeParams()},
		{stripe.DisputeEvidenceParams{}, disputeParams().members["evidence"]},
		{stripe.ProductParams{}, productParams()},
		{stripe.PriceParams{}, priceParams()},
		{stripe.PriceProductDataParams{}, priceParams().members["product_data"]},
		{stripe.CouponParams{}, couponParams()},
		{stripe.PromotionCodeParams{}, promoParams()},
		{stripe.PaymentMethodParams{}, methodParams()},
		{stripe.PaymentMethodCardParams{}, methodParams().members["card"]},
		{stripe.WebhookEndpointParams{}, hookParams(true)},
		{stripe.CheckoutSessionListParams{}, pageParams(sessionFilters())},
		{stripe.PaymentIntentListParams{}, pageParams(intentFilters())},
		{stripe.ChargeListParams{}, pageParams(chargeFilters())},
		{stripe.RefundListParams{}, pageParams(returnFilters())},
		{stripe.DisputeListParams{}, pageParams(returnFilters())},
		{stripe.EventListParams{}, pageParams(eventFilters())},
		{stripe.ProductListParams{}, pageParams(productFilters())},
		{stripe.PriceListParams{}, pageParams(priceFilters())},
		{stripe.CouponListParams{}, pageParams(createdFilter())},
		{stripe.PromotionCodeListParams{}, pageParams(promoFilters())},
	} {
		typ := reflect.TypeOf(c.of)
		for i := range typ.NumField() {
			name, _, _ := strings.Cut(typ.Field(i).Tag.Get("form"), ",")
			if _, known := c.spec.members[name]; !known && name != "*" && name != "-" {
				t.Errorf("%s: %s is unknown", typ.Name(), name)
			}
		}
	}
}

func TestCreateSession(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	b := setup(t, Config{Now: func() time.Time { return now }})
	b.sim.SetBaseURL("https://pay.example/")
	r := b.do(t, "POST", "/v1/checkout/sessions", form(
		"metadata[a]=1", "metadata[b]=", "payment_method_types[]=card", "locale=de",
		fmt.Sprint("expires_at=", now.Add(time.Hour).Unix()), "expand[]=line_items"))
	if r.status != 200 {
		t.Fatalf("%d %s", r.status, r.body)
	}
	id, _ := dig(t, r.body, "id").(string)
	for _, c := range []struct {
		path string
		want any
	}{
		{"amount_total", json.Number("2100")},
		{"currency", "usd"},
		{"status", "open"},
		{"payment_status", "unpaid"},
		{"locale", "de"},
		{"expires_at", json.Number("1700003600")},
		{"created", json.Number("1700000000")},
		{"livemode", false},
		{"payment_intent", nil},
		{"url", "https://pay.example/pay/" + id},
	} {
		if got := dig(t, r.body, c.path); got != c.want {
			t.Errorf("%s = %v, want %v", c.path, got, c.want)
		}
	}
	if got := fmt.Sprint(dig(t, r.body, "metadata")); got != "map[a:1]" {
		t.Errorf("metadata %s", got)
	}
	if len(id) != len("cs_test_")+58 {
		t.Errorf("id %q", id)
	}
	if got := len(dig(t, r.body, "line_items", "data").([]any)); got != 1 {
		t.Errorf("%d expanded lines", got)
	}
	if !strings.HasPrefix(string(r.body), "{\n  \"id\": ") {
		t.Errorf("not in Stripe's layout: %.40s", r.body)
	}
}

// TestLineItemsPages: an expanded list is a first page of ten; the rest is there for who asks.
func TestLineItemsPages(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{})
	p := newParams()
	for range 11 {
		p.LineItems = append(p.LineItems, p.LineItems[1])
	}
	p.AddExpand("line_items")
	s, err := b.api.CheckoutSessions.New(p)
	if err != nil {
		t.Fatal(err)
	}
	if len(s.LineItems.Data) != 10 || !s.LineItems.HasMore {
		t.Errorf("%d lines, more %v", len(s.LineItems.Data), s.LineItems.HasMore)
	}
	it := b.api.CheckoutSessions.ListLineItems(&stripe.CheckoutSessionListLineItemsParams{Session: stripe.String(s.ID)})
	n, total := 0, int64(0)
	for it.Next() {
		n++
		total += it.LineItem().AmountTotal
	}
	if it.Err() != nil || n != 13 || total != s.AmountTotal {
		t.Errorf("%d lines of %d, %v", n, total, it.Err())
	}
}

func TestUpdateIntent(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{})
	p := b.pay(t, b.create(t).ID, PayOptions{})
	before := len(b.sim.Events())

	params := &stripe.PaymentIntentParams{ReceiptEmail: stripe.String("ada@example.com"), Description: stripe.String("Two keys")}
	params.AddMetadata("license_ids", "a,b")
	params.AddMetadata("order_id", "") // deletes
	got, err := b.api.PaymentIntents.Update(p.PaymentIntentID, params)
	if err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(got.Metadata) != "map[license_ids:a,b]" || got.ReceiptEmail != "ada@example.com" || got.Description != "Two keys" {
		t.Errorf("%+v", got)
	}
	// The charge copied the metadata when it was made and keeps that; no event tells of the update.
	ch, _ := b.sim.Charge(p.ChargeID)
	if got := dig(t, ch, "metadata", "order_id"); got != "order-1" {
		t.Errorf("charge metadata: %v", got)
	}
	if after := len(b.sim.Events()); after != before {
		t.Errorf("%d events more", after-before)
	}

	path := "/v1/payment_intents/" + p.PaymentIntentID
	if r := b.do(t, "POST", path, "metadata=&receipt_email="); fmt.Sprint(dig(t, r.body, "metadata")) != "map[]" ||
		dig(t, r.body, "receipt_email") != nil {
		t.Errorf("cleared: %s", r.body)
	}
	for _, bad := range []string{"receipt_email=x", "colour=red", "amount=1", "metadata[a]=1&expand[]=none", "metadata=x"} {
		if r := b.do(t, "POST", path, bad); r.status != 400 {
			t.Errorf("%s: %d", bad, r.status)
		}
	}
	if r := b.do(t, "GET", path+"?expand[]=latest_charge", ""); dig(t, r.body, "latest_charge", "id") != p.ChargeID ||
		fmt.Sprint(dig(t, r.body, "metadata")) != "map[]" {
		t.Errorf("%s", r.body)
	}
}
