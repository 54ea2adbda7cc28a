package stripesim

import (
	"net/url"
	"slices"
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
		"capture_method":         {among: []string{"automatic", "automatic_async", "manual"}},
		"setup_future_usage":     {among: []string{"off_session", "on_session"}},
		"shipping":               shippingParams(),
		"application_fee_amount": {kind: unsupported}, "on_behalf_of": {kind: unsupported},
		"transfer_data": {kind: unsupported}, "transfer_group": {kind: unsupported},
	})
	tax := fields(map[string]spec{"enabled": {kind: boolean, required: true}, "liability": {kind: unsupported}})
	discount := fields(map[string]spec{"coupon": {}, "promotion_code": {}})
	members := map[string]spec{
		"mode":                  {required: true, among: []string{"payment", "setup", "subscription"}},
		"line_items":            arrayOf(item),
		"success_url":           {},
		"cancel_url":            {},
		"client_reference_id":   {length: 200},
		"customer_email":        {},
		"metadata":              {kind: metadata},
		"payment_intent_data":   intent,
		"payment_method_types":  arrayOf(spec{}),
		"expires_at":            {kind: integer},
		"locale":                {},
		"submit_type":           {among: []string{"auto", "book", "donate", "pay"}},
		"ui_mode":               {among: []string{"hosted"}},
		"automatic_tax":         tax,
		"allow_promotion_codes": {kind: boolean},
		"discounts":             arrayOf(discount),
		"expand":                expandParam(),
	}
	for _, name := range []string{
		"after_expiration", "billing_address_collection", "consent_collection",
		"currency", "custom_fields", "custom_text", "customer", "customer_creation", "customer_update",
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
		{&v.intent.Metadata, []string{"payment_intent_data", "metadata"}},
	} {
		merged, ok := p.get(m.path...).mergeInto(nil)
		if !ok {
			return nil, invalid("", m.path[0], "Metadata can have at most 50 keys.")
		}
		*m.to = merged
	}
	if err := s.discountAtCreation(v, p, req.now); err != nil {
		return nil, err
	}
	// What could be refused is behind us: nothing of a refused session may stay.
	for _, l := range v.items {
		if s.prices.get(l.Price.ID) == nil {
			s.prices.add(l.Price.ID, l.Price)
		}
	}
	s.sessions.add(v.ID, v)
	s.expiresAt(v.ExpiresAt)
	return v, nil
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
	if v.PaymentMethodTypes == nil {
		v.PaymentMethodTypes = []string{"card"}
	}
	v.setTypes(v.PaymentMethodTypes)
	if p.get("allow_promotion_codes") != nil {
		allow := p.str("allow_promotion_codes") == "true"
		v.AllowPromotionCodes = &allow
	}
	if p.str("automatic_tax", "enabled") == "true" {
		v.AutomaticTax = automaticTax{Enabled: true, Liability: &liability{Type: "self"}, Status: "requires_location_inputs"}
	}
	if v.CustomerEmail != "" {
		v.CustomerDetails = &customerDetails{Email: v.CustomerEmail, TaxExempt: "none"}
	}
	v.URL = optional(base + "/pay/" + v.ID)
	data := func(name string) string { return p.str("payment_intent_data", name) }
	v.intent = intentData{
		Description: data("description"), ReceiptEmail: data("receipt_email"),
		StatementDescriptor: data("statement_descriptor"), StatementDescriptorSuffix: data("statement_descriptor_suffix"),
		CaptureMethod: data("capture_method"), SetupFutureUsage: data("setup_future_usage"),
		Shipping: shippingOf(p.get("payment_intent_data", "shipping")),
	}
	return v
}

// setTypes sets payment_method_types, and options for each of them.
func (v *session) setTypes(types []string) {
	v.PaymentMethodTypes, v.PaymentMethodOptions = slices.Clone(types), sessionMethodOptions{}
	for _, t := range types {
		switch t {
		case "card":
			v.PaymentMethodOptions.Card = &sessionCard{RequestThreeDSecure: "automatic"}
		case sepaDebit:
			v.PaymentMethodOptions.SepaDebit = &struct{}{}
		case bankDebit:
			v.PaymentMethodOptions.USBankAccount = &bankOptions{VerificationMethod: "automatic"}
		}
	}
}

// expireSession is the merchant's own act, so the event names the request
// (https://docs.stripe.com/api/checkout/sessions/expire).
func (s *Sim) expireSession(req *request) (any, *apiError) {
	v, err := find(&s.sessions, req.target, "checkout.session", "session")
	if err != nil {
		return nil, err
	}
	if v.Status != "open" {
		return nil, refused("", "",
			"Only Checkout Sessions with a status in [\"open\"] can be expired. This one has a status of %s.", v.Status)
	}
	s.act(req.cause(), nil).expire(v)
	return v, nil
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
