package stripesim

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stripe/stripe-go/v79"
)

// The fields each object must have at API version 2024-06-20, written by hand from Stripe's reference
// (https://docs.stripe.com/api) and from objects that Stripe sent at that version in July 2024. Not derived from the
// structs, or the test would say nothing.
func requiredFields() map[string]string {
	return map[string]string{
		"checkout.session": `id object after_expiration allow_promotion_codes amount_subtotal amount_total automatic_tax
			billing_address_collection cancel_url client_reference_id client_secret consent consent_collection created
			currency currency_conversion custom_fields custom_text customer customer_creation customer_details
			customer_email expires_at invoice invoice_creation livemode locale metadata mode payment_intent payment_link
			payment_method_collection payment_method_configuration_details payment_method_options payment_method_types
			payment_status phone_number_collection recovered_from saved_payment_method_options setup_intent
			shipping_address_collection shipping_cost shipping_details shipping_options status submit_type subscription
			success_url total_details ui_mode url`,
		"payment_intent": `id object amount amount_capturable amount_details amount_received application
			application_fee_amount automatic_payment_methods canceled_at cancellation_reason capture_method client_secret
			confirmation_method created currency customer description invoice last_payment_error latest_charge livemode
			metadata next_action on_behalf_of payment_method payment_method_configuration_details payment_method_options
			payment_method_types processing receipt_email review setup_future_usage shipping source statement_descriptor
			statement_descriptor_suffix status transfer_data transfer_group`,
		"charge": `id object amount amount_captured amount_refunded application application_fee application_fee_amount
			balance_transaction billing_details calculated_statement_descriptor captured created currency customer
			description destination dispute disputed failure_balance_transaction failure_code failure_message
			fraud_details invoice livemode metadata on_behalf_of order outcome paid payment_intent payment_method
			payment_method_details radar_options receipt_email receipt_number receipt_url refunded review shipping source
			source_transfer statement_descriptor statement_descriptor_suffix status transfer_data transfer_group`,
		"event": `id object api_version created data livemode pending_webhooks request type`,
		"item":  `id object amount_discount amount_subtotal amount_tax amount_total currency description price quantity`,
		"price": `id object active billing_scheme created currency custom_unit_amount livemode lookup_key metadata
			nickname product recurring tax_behavior tiers_mode transform_quantity type unit_amount unit_amount_decimal`,
		"list": `object data has_more url`,
		"product": `id object active attributes created default_price description images livemode marketing_features metadata
			name package_dimensions shippable statement_descriptor tax_code type unit_label updated url`,
		"coupon": `id object amount_off created currency duration duration_in_months livemode max_redemptions metadata name
			percent_off redeem_by times_redeemed valid`,
		"promotion_code": `id object active code coupon created customer expires_at livemode max_redemptions metadata
			restrictions times_redeemed`,
		"payment_method": `id object allow_redisplay billing_details created customer livemode metadata type`,
		"refund": `id object amount balance_transaction charge created currency destination_details metadata payment_intent
			reason receipt_number source_transfer_reversal status transfer_reversal`,
		"dispute": `id object amount balance_transaction balance_transactions charge created currency evidence
			evidence_details is_charge_refundable livemode metadata payment_intent payment_method_details reason status`,
		"balance_transaction": `id object amount available_on created currency description exchange_rate fee fee_details net
			reporting_category source status type`,
		"webhook_endpoint": `id object api_version application created description enabled_events livemode metadata status
			url`,
		"account": `id object charges_enabled details_submitted payouts_enabled type`, // Stripe has many more
		// Of our own making: Stripe does not document it.
		"payment_page": `id object amount_total created currency customer_email expires_at livemode payment_intent
			payment_method_types payment_status session_id status success_url`,
	}
}

// sometimesFields are those that Stripe sends in some states only.
func sometimesFields() map[string]string {
	return map[string]string{
		"checkout.session": `line_items`,
		"payment_method":   `card sepa_debit us_bank_account`,
		"refund":           `failure_balance_transaction failure_reason`,
		"webhook_endpoint": `secret`,
	}
}

// TestShapes holds every object that goes over the wire, in every state it can have, against the list: each field
// present, none beyond, in Stripe's order.
func TestShapes(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{})
	card, late, refused, gone := b.create(t), b.create(t), b.create(t), b.create(t)
	paid := b.pay(t, card.ID, PayOptions{})
	delayed := b.pay(t, late.ID, PayOptions{Delayed: true})
	if _, err := b.sim.SettleDelayed(late.ID, false); err != nil {
		t.Fatal(err)
	}
	if _, err := b.sim.Decline(refused.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := b.sim.Expire(gone.ID); err != nil {
		t.Fatal(err)
	}

	for _, path := range []string{
		"/v1/checkout/sessions/" + card.ID, "/v1/checkout/sessions/" + late.ID, "/v1/checkout/sessions/" + refused.ID,
		"/v1/checkout/sessions/" + gone.ID, "/v1/payment_intents/" + paid.PaymentIntentID,
		"/v1/payment_intents/" + delayed.PaymentIntentID, "/v1/charges/" + paid.ChargeID,
		"/v1/charges/" + delayed.ChargeID, "/v1/events?limit=100", "/v1/checkout/sessions/" + card.ID + "/line_items",
	} {
		r := b.do(t, "GET", path, "")
		if r.status != 200 {
			t.Errorf("GET %s: status %d %s", path, r.status, r.body)
			continue
		}
		checkShapes(t, path, r.body)
	}
	for _, e := range b.sim.Events() {
		checkShapes(t, e.Type, e.Body)
	}
	r := b.do(t, "GET", "/v1/checkout/sessions/"+card.ID+"?expand[]=payment_intent.latest_charge", "")
	checkShapes(t, "expanded session", r.body)
}

// TestShapesOfTheRest: the objects around a payment, as created, as listed and as told by events.
func TestShapesOfTheRest(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{EventAPIVersion: refundsSince})
	paid := b.paid(t, "")
	page := b.create(t)
	failed, _, err := b.sim.Refund(paid.ChargeID, 100, "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.sim.FailRefund(failed); err != nil {
		t.Fatal(err)
	}
	if _, _, err := b.sim.Refund(paid.ChargeID, 100, "pending"); err != nil {
		t.Fatal(err)
	}
	won, _, err := b.sim.OpenDispute(paid.ChargeID, 0, "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.sim.CloseDispute(won, "won"); err != nil {
		t.Fatal(err)
	}
	for _, post := range []struct{ path, form string }{
		{"/v1/products", "name=Key&images[]=https://a.example/i.png"},
		{"/v1/prices", "currency=usd&unit_amount=5&product_data[name]=Key"},
		{"/v1/coupons", "percent_off=12.5"},
		{"/v1/coupons", "id=C&amount_off=5&currency=usd"},
		{"/v1/promotion_codes", "coupon=C"},
		{"/v1/payment_methods", "type=card&card[token]=tok_visa"},
		{"/v1/payment_methods", "type=card&card[number]=4000000000000002&card[exp_month]=1&card[exp_year]=2030&card[cvc]=123"},
		{"/v1/payment_methods", "type=sepa_debit&sepa_debit[iban]=AT611904300234573201"},
		{"/v1/payment_methods", "type=us_bank_account&us_bank_account[routing_number]=110000000"},
		{"/v1/payment_intents", "amount=5&currency=usd&automatic_payment_methods[enabled]=true"},
		{"/v1/payment_intents", "amount=5&currency=usd&payment_method=pm_card_authenticationRequired&confirm=true&shipping[name]=A&return_url=https://a.example/"},
		{"/v1/webhook_endpoints", "url=https://a.example/&enabled_events[]=charge.pending"},
		{"/v1/payment_pages/" + page.ID + "/confirm", "payment_method=pm_card_visa"},
	} {
		r := b.do(t, "POST", post.path, post.form)
		if r.status != 200 {
			t.Errorf("POST %s: %d %s", post.path, r.status, r.body)
			continue
		}
		checkShapes(t, post.path, r.body)
	}
	for _, path := range []string{
		"checkout/sessions", "payment_intents", "charges", "refunds", "disputes", "products", "prices", "coupons",
		"promotion_codes", "webhook_endpoints", "account", "events", "payment_pages/" + page.ID, "refunds/" + failed, "disputes/" + won,
	} {
		r := b.do(t, "GET", "/v1/"+path, "")
		if r.status != 200 {
			t.Errorf("GET %s: %d %s", path, r.status, r.body)
			continue
		}
		checkShapes(t, path, r.body)
	}
	for _, e := range b.sim.Events() {
		checkShapes(t, e.Type, e.Body)
	}
}

// checkShapes walks a document and checks every object in it that names its kind.
func checkShapes(t *testing.T, where string, doc []byte) {
	t.Helper()
	want := requiredFields()
	var raw json.RawMessage = doc
	var walk func(json.RawMessage)
	walk = func(raw json.RawMessage) {
		switch {
		case strings.HasPrefix(string(raw), "["):
			var items []json.RawMessage
			if err := json.Unmarshal(raw, &items); err != nil {
				t.Fatalf("%s: %v", where, err)
			}
			for _, v := range items {
				walk(v)
			}
		case strings.HasPrefix(string(raw), "{"):
			names, values := members(t, raw)
			if i := slices.Index(names, "object"); i >= 0 && values[i][0] == '"' {
				kind := strings.Trim(string(values[i]), `"`)
				sometimes := strings.Fields(sometimesFields()[kind])
				names = slices.DeleteFunc(slices.Clone(names), func(n string) bool { return slices.Contains(sometimes, n) })
				if diff := cmp.Diff(strings.Fields(want[kind]), names); diff != "" {
					t.Errorf("%s: fields of %s (-want +got):\n%s", where, kind, diff)
				}
				if !slices.IsSorted(names[2:]) && kind != "list" {
					t.Errorf("%s: fields of %s are not in alphabetical order", where, kind)
				}
			}
			for _, v := range values {
				walk(v)
			}
		}
	}
	walk(raw)
}

// members returns names and values of a JSON object in the order written.
func members(t *testing.T, raw json.RawMessage) (names []string, values []json.RawMessage) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(string(raw)))
	if _, err := d.Token(); err != nil {
		t.Fatal(err)
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			t.Fatal(err)
		}
		var v json.RawMessage
		if err := d.Decode(&v); err != nil {
			t.Fatal(err)
		}
		names, values = append(names, name.(string)), append(values, v)
	}
	return names, values
}

// TestNullsAndValues: what Stripe sends as null before a payment, and what the payment fills in.
func TestNullsAndValues(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{})
	s := b.create(t)
	open, _ := b.sim.Session(s.ID)
	for _, name := range []string{
		"payment_intent", "customer", "client_secret", "invoice", "locale", "submit_type", "shipping_details", "subscription",
	} {
		if got := dig(t, open, name); got != nil {
			t.Errorf("open session: %s = %v, want null", name, got)
		}
	}
	if got := dig(t, open, "customer_details", "tax_ids"); got != nil {
		t.Errorf("open session: tax_ids = %v, want null", got)
	}
	b.pay(t, s.ID, PayOptions{})
	done, _ := b.sim.Session(s.ID)
	if got := dig(t, done, "url"); got != nil {
		t.Errorf("paid session: url = %v, want null", got)
	}
	if got := dig(t, done, "payment_intent"); got == nil {
		t.Error("paid session: payment_intent is null")
	}
	if got, ok := dig(t, done, "customer_details", "tax_ids").([]any); !ok || len(got) != 0 {
		t.Errorf("paid session: tax_ids = %v, want []", got)
	}
}

// TestStripeGoReadsEverything: each object of each event decodes through stripe-go's own types to the values meant.
func TestStripeGoReadsEverything(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{})
	s := b.create(t)
	p := b.pay(t, s.ID, PayOptions{})

	got, err := b.api.CheckoutSessions.Get(s.ID, &stripe.CheckoutSessionParams{
		Expand: stripe.StringSlice([]string{"line_items", "payment_intent.latest_charge"}),
	})
	if err != nil {
		t.Fatal(err)
	}
	type view struct {
		Status, PaymentStatus, Currency, Reference, Email string
		Total, Subtotal                                   int64
		Lines                                             []string
		Quantities                                        []int64
		IntentStatus                                      string
		Received                                          int64
		IntentMetadata, ChargeMetadata                    map[string]string
		Charged                                           int64
		Captured, Paid                                    bool
		Last4                                             string
	}
	v := view{
		string(got.Status), string(got.PaymentStatus), string(got.Currency), got.ClientReferenceID, got.CustomerDetails.Email,
		got.AmountTotal, got.AmountSubtotal, nil, nil, string(got.PaymentIntent.Status), got.PaymentIntent.AmountReceived,
		got.PaymentIntent.Metadata, got.PaymentIntent.LatestCharge.Metadata, got.PaymentIntent.LatestCharge.AmountCaptured,
		got.PaymentIntent.LatestCharge.Captured, got.PaymentIntent.LatestCharge.Paid,
		got.PaymentIntent.LatestCharge.PaymentMethodDetails.Card.Last4,
	}
	for _, l := range got.LineItems.Data {
		v.Lines, v.Quantities = append(v.Lines, l.Description), append(v.Quantities, l.Quantity)
	}
	order := map[string]string{"order_id": "order-1"}
	want := view{
		"complete", "paid", "eur", "order-1", "ada@example.com", newTotal, newTotal,
		[]string{"Key & <Lock>", "Manual"},
		[]int64{2, 1},
		"succeeded", newTotal, order, order, newTotal, true, true, "4242",
	}
	if diff := cmp.Diff(want, v); diff != "" {
		t.Errorf("paid session through stripe-go (-want +got):\n%s", diff)
	}
	if got.PaymentIntent.ID != p.PaymentIntentID || got.PaymentIntent.LatestCharge.ID != p.ChargeID {
		t.Errorf("ids: %s %s, Pay said %+v", got.PaymentIntent.ID, got.PaymentIntent.LatestCharge.ID, p)
	}
	ch, err := b.api.Charges.Get(p.ChargeID, nil)
	if err != nil || ch.PaymentIntent.ID != p.PaymentIntentID || ch.Status != "succeeded" {
		t.Errorf("charge: %+v, %v", ch, err)
	}
	if _, err := b.api.PaymentIntents.Get(p.PaymentIntentID, nil); err != nil {
		t.Errorf("intent: %v", err)
	}
}
