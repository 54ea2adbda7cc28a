package stripesim

import (
	"net/url"
	"strconv"
	"strings"
	"time"
)

// maxAmount is twelve digits of minor units, the most Stripe takes for any card payment
// (https://docs.stripe.com/currencies#minimum-and-maximum-charge-amounts).
const maxAmount = 999_999_999_999

// sessionParams is what POST /v1/checkout/sessions takes
// (https://docs.stripe.com/api/checkout/sessions/create). The unsupported ones are Stripe's remaining parameters at this
// version: refused by name, since a checkout without the tax or discount that was asked for would be another checkout.
func sessionParams() spec {
	productData := fields(map[string]spec{
		"name": {required: true}, "description": {}, "images": arrayOf(spec{}), "metadata": {kind: metadata}, "tax_code": {},
	})
	priceData := fields(map[string]spec{
		"currency": {required: true}, "unit_amount": {kind: integer, required: true, max: maxAmount},
		"product_data": productData, "tax_behavior": {among: []string{"exclusive", "inclusive", "unspecified"}},
		"product": {}, "recurring": {kind: unsupported}, "unit_amount_decimal": {kind: unsupported},
	})
	item := fields(map[string]spec{
		"price": {}, "price_data": priceData, "quantity": {kind: integer, min: 1, max: 999_999},
		"adjustable_quantity": {kind: unsupported}, "dynamic_tax_rates": {kind: unsupported}, "tax_rates": {kind: unsupported},
	})
	intent := fields(map[string]spec{
		"metadata": {kind: metadata}, "description": {length: 1000}, "receipt_email": {},
		"statement_descriptor": {length: 22}, "statement_descriptor_suffix": {length: 22},
		"application_fee_amount": {kind: unsupported}, "capture_method": {kind: unsupported},
		"on_behalf_of": {kind: unsupported}, "setup_future_usage": {kind: unsupported}, "shipping": {kind: unsupported},
		"transfer_data": {kind: unsupported}, "transfer_group": {kind: unsupported},
	})
	members := map[string]spec{
		"mode":                 {required: true, among: []string{"payment", "setup", "subscription"}},
		"line_items":           arrayOf(item),
		"success_url":          {},
		"cancel_url":           {},
		"client_reference_id":  {length: 200},
		"customer_email":       {},
		"metadata":             {kind: metadata},
		"payment_intent_data":  intent,
		"payment_method_types": arrayOf(spec{}),
		"expires_at":           {kind: integer},
		"locale":               {},
		"submit_type":          {among: []string{"auto", "book", "donate", "pay"}},
		"ui_mode":              {among: []string{"hosted"}},
		"expand":               expandParam(),
	}
	for _, name := range []string{
		"after_expiration", "allow_promotion_codes", "automatic_tax", "billing_address_collection", "consent_collection",
		"currency", "custom_fields", "custom_text", "customer", "customer_creation", "customer_update", "discounts",
		"invoice_creation", "payment_method_collection", "payment_method_configuration", "payment_method_data",
		"payment_method_options", "phone_number_collection", "redirect_on_completion", "return_url",
		"saved_payment_method_options", "setup_intent_data", "shipping_address_collection", "shipping_options",
		"subscription_data", "tax_id_collection",
	} {
		members[name] = spec{kind: unsupported}
	}
	return fields(members)
}

// createSession refuses what Stripe refuses, in the order of the reference, then makes the session.
func (s *Sim) createSession(req *request) (any, *apiError) {
	p := req.params
	if mode := p.str("mode"); mode != "payment" {
		return nil, invalid("", "mode", "The simulated Stripe supports mode payment only, not %s.", mode)
	}
	if len(p.elems("line_items")) == 0 {
		return nil, missingParam("line_items")
	}
	if p.get("success_url") == nil {
		return nil, missingParam("success_url")
	}
	for _, name := range []string{"success_url", "cancel_url"} {
		if v := p.str(name); v != "" && !isURL(v) {
			return nil, invalid("url_invalid", name, "Not a valid URL: %s", v)
		}
	}
	if v := p.str("customer_email"); v != "" && !isEmail(v) {
		return nil, invalid("email_invalid", "customer_email", "Invalid email address: %s", v)
	}
	expires, err := expiry(p, req.now)
	if err != nil {
		return nil, err
	}
	v := s.newSession(req, expires)
	if err := s.fillItems(v, p.elems("line_items"), req.now); err != nil {
		return nil, err
	}
	for _, m := range []struct {
		to   *map[string]string
		path []string
	}{
		{&v.Metadata, []string{"metadata"}},
		{&v.intent.metadata, []string{"payment_intent_data", "metadata"}},
	} {
		merged, ok := p.get(m.path...).mergeInto(nil)
		if !ok {
			return nil, invalid("", m.path[0], "Metadata can have at most 50 keys.")
		}
		*m.to = merged
	}
	out, err := s.expandedSession(v, req) // before it is stored: a bad expand must leave nothing behind
	if err != nil {
		return nil, err
	}
	s.sessions[v.ID] = v
	return out, nil
}

func (s *Sim) newSession(req *request, expires int64) *session {
	p := req.params
	prefix := "cs_test_"
	if s.cfg.Livemode {
		prefix = "cs_live_"
	}
	base := s.baseURL
	if base == "" {
		base = "http://" + req.host
	}
	v := &session{
		ID: s.cfg.NewID(prefix), Object: "checkout.session", Created: req.now.Unix(), ExpiresAt: expires,
		CancelURL: optional(p.str("cancel_url")), SuccessURL: p.str("success_url"),
		ClientReferenceID: optional(p.str("client_reference_id")), CustomerEmail: optional(p.str("customer_email")),
		CustomFields: []none{}, CustomerCreation: "if_required", ShippingOptions: []none{},
		InvoiceCreation: invoiceCreation{InvoiceData: invoiceData{Metadata: map[string]string{}}},
		Livemode:        s.cfg.Livemode, Locale: optional(p.str("locale")), Mode: "payment",
		PaymentMethodCollection: "if_required", PaymentMethodTypes: p.strs("payment_method_types"),
		PaymentStatus: "unpaid", Status: "open", SubmitType: optional(p.str("submit_type")), UIMode: "hosted",
	}
	v.PaymentMethodOptions.Card.RequestThreeDSecure = "automatic"
	if v.PaymentMethodTypes == nil {
		v.PaymentMethodTypes = []string{"card"}
	}
	if v.CustomerEmail != "" {
		v.CustomerDetails = &customerDetails{Email: v.CustomerEmail, TaxExempt: "none"}
	}
	v.URL = optional(base + "/pay/" + v.ID)
	v.intent = intentData{
		description:               p.str("payment_intent_data", "description"),
		receiptEmail:              p.str("payment_intent_data", "receipt_email"),
		statementDescriptor:       p.str("payment_intent_data", "statement_descriptor"),
		statementDescriptorSuffix: p.str("payment_intent_data", "statement_descriptor_suffix"),
	}
	return v
}

// fillItems makes line items, prices and the totals. All lines are in one currency.
func (s *Sim) fillItems(v *session, items []*node, now time.Time) *apiError {
	for i, n := range items {
		at := within("line_items", strconv.Itoa(i))
		switch {
		case n.get("price") != nil:
			return refused("resource_missing", within(at, "price"), "No such price: '%s'", n.str("price"))
		case n.get("price_data") == nil:
			return missingParam(within(at, "price_data"))
		case n.get("price_data", "product") != nil:
			return refused("resource_missing", within(within(at, "price_data"), "product"),
				"No such product: '%s'", n.str("price_data", "product"))
		case n.get("price_data", "product_data") == nil:
			return missingParam(within(within(at, "price_data"), "product_data"))
		case n.get("quantity") == nil:
			return missingParam(within(at, "quantity"))
		}
		currency := strings.ToLower(n.str("price_data", "currency"))
		if !isCurrency(currency) {
			return invalid("", within(within(at, "price_data"), "currency"), "Invalid currency: %s", currency)
		}
		if v.Currency != "" && v.Currency != currency {
			return invalid("", within(within(at, "price_data"), "currency"), "All line items must be in one currency: %s.", v.Currency)
		}
		v.Currency = currency
		unit, quantity := n.num("price_data", "unit_amount"), n.num("quantity")
		if unit > (maxAmount-v.AmountTotal)/quantity {
			return invalid("amount_too_large", "line_items", "The total must be no more than %d.", int64(maxAmount))
		}
		v.AmountSubtotal += unit * quantity
		v.AmountTotal = v.AmountSubtotal
		v.items = append(v.items, s.newItem(n, currency, now))
	}
	return nil
}

func (s *Sim) newItem(n *node, currency string, now time.Time) lineItem {
	unit, quantity := n.num("price_data", "unit_amount"), n.num("quantity")
	behavior := n.str("price_data", "tax_behavior")
	if behavior == "" {
		behavior = "unspecified"
	}
	return lineItem{
		ID: s.cfg.NewID("li_"), Object: "item", AmountSubtotal: unit * quantity, AmountTotal: unit * quantity,
		Currency: currency, Description: n.str("price_data", "product_data", "name"), Quantity: quantity,
		Price: price{
			ID: s.cfg.NewID("price_"), Object: "price", BillingScheme: "per_unit", Created: now.Unix(), Currency: currency,
			Livemode: s.cfg.Livemode, Metadata: map[string]string{}, Product: s.cfg.NewID("prod_"), TaxBehavior: behavior,
			Type: "one_time", UnitAmount: unit, UnitAmountDecimal: strconv.FormatInt(unit, 10),
		},
	}
}

// expiry is 24 hours from now unless asked for, and then 30 minutes to 24 hours
// (https://docs.stripe.com/api/checkout/sessions/create#create_checkout_session-expires_at).
func expiry(p *node, now time.Time) (int64, *apiError) {
	if p.get("expires_at") == nil {
		return now.Add(24 * time.Hour).Unix(), nil
	}
	at := p.num("expires_at")
	switch {
	case at < now.Add(30*time.Minute).Unix():
		return 0, invalid("", "expires_at", "The expires_at timestamp must be at least 30 minutes from Checkout Session creation.")
	case at > now.Add(24*time.Hour).Unix():
		return 0, invalid("", "expires_at", "The expires_at timestamp must be less than 24 hours from Checkout Session creation.")
	}
	return at, nil
}

// isURL allows http and https alone: the pay page sends buyers there.
func isURL(v string) bool {
	u, err := url.Parse(v)
	return err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Host != ""
}

func isEmail(v string) bool {
	name, host, ok := strings.Cut(v, "@")
	return ok && name != "" && host != "" && !strings.ContainsAny(v, " \r\n<>") && !strings.Contains(host, "@")
}

func isCurrency(v string) bool {
	return len(v) == 3 && strings.Trim(v, "abcdefghijklmnopqrstuvwxyz") == ""
}
