package stripesim

import (
	"net/http"
	"strings"
)

// newIntentParams is what POST /v1/payment_intents takes (https://docs.stripe.com/api/payment_intents/create). The
// unsupported ones are Stripe's remaining parameters at this version.
func newIntentParams() spec {
	members := map[string]spec{
		"amount": {kind: integer, required: true, min: 1, max: maxAmount}, "currency": {required: true},
		"automatic_payment_methods": fields(map[string]spec{
			"enabled": {kind: boolean, required: true}, "allow_redirects": {among: []string{"always", "never"}},
		}),
		"capture_method":      {among: []string{"automatic", "automatic_async", "manual"}},
		"confirmation_method": {among: []string{"automatic", "manual"}},
		"confirm":             {kind: boolean}, "description": {length: 1000}, "metadata": {kind: metadata},
		"payment_method": {}, "payment_method_types": arrayOf(spec{}), "receipt_email": {}, "return_url": {},
		"mandate_data": {kind: anything}, "off_session": {kind: boolean}, "error_on_requires_action": {kind: boolean},
		"setup_future_usage": {among: []string{"off_session", "on_session"}}, "shipping": shippingParams(),
		"statement_descriptor": {length: 22}, "statement_descriptor_suffix": {length: 22}, "expand": expandParam(),
	}
	for _, name := range strings.Fields(`application_fee_amount client_secret confirmation_token customer mandate on_behalf_of
		payment_method_configuration payment_method_data payment_method_options radar_options transfer_data transfer_group
		use_stripe_sdk`) {
		members[name] = spec{kind: unsupported}
	}
	return fields(members)
}

func (s *Sim) createIntent(req *request) (any, *apiError) {
	p := req.params
	currency := strings.ToLower(p.str("currency"))
	if !isCurrency(currency) {
		return nil, invalid("", "currency", "Invalid currency: %s", currency)
	}
	if v := p.str("receipt_email"); v != "" && !isEmail(v) {
		return nil, invalid("email_invalid", "receipt_email", "Invalid email address: %s", v)
	}
	data, err := newMetadata(p)
	if err != nil {
		return nil, err
	}
	var pm *paymentMethod
	if id := p.str("payment_method"); id != "" {
		if pm, err = s.methodFor(req, id, "payment_method"); err != nil {
			return nil, err
		}
	} else if p.str("confirm") == "true" {
		return nil, missingParam("payment_method")
	}
	a := s.act(req.cause(), nil)
	types := p.strs("payment_method_types")
	if types == nil {
		types = []string{"card"}
	}
	pi := a.newIntent(p.num("amount"), currency, intentData{
		Metadata: data, Description: p.str("description"), ReceiptEmail: p.str("receipt_email"),
		StatementDescriptor: p.str("statement_descriptor"), StatementDescriptorSuffix: p.str("statement_descriptor_suffix"),
		CaptureMethod: p.str("capture_method"), SetupFutureUsage: p.str("setup_future_usage"),
		Shipping: shippingOf(p.get("shipping")),
	}, types)
	if p.get("payment_method_types") == nil {
		pi.AutomaticPaymentMethods = &automaticMethods{AllowRedirects: "always", Enabled: true}
		if v := p.str("automatic_payment_methods", "allow_redirects"); v != "" {
			pi.AutomaticPaymentMethods.AllowRedirects = v
		}
	}
	if p.get("confirmation_method") != nil {
		pi.ConfirmationMethod = p.str("confirmation_method")
	}
	if pm != nil {
		pi.PaymentMethod.id, pi.Status = pm.ID, "requires_confirmation"
	}
	a.emit("payment_intent.created", pi)
	if p.str("confirm") == "true" {
		return a.confirm(pi, pm, p.str("return_url"))
	}
	return pi, nil
}

// confirm tries to pay an intent by pm. A card that asks for authentication leaves it waiting for that; a declined one is
// 402, with the intent as it is then (https://docs.stripe.com/error-handling#payment-errors).
//
// Simplified: the page that next_action names is not there; confirming again counts as having been to it.
func (a *act) confirm(pi *paymentIntent, pm *paymentMethod, returnURL string) (any, *apiError) {
	if pm.behavior().challenge {
		pi.PaymentMethod.id, pi.Status, pi.LastPaymentError = pm.ID, "requires_action", nil
		pi.NextAction = &nextAction{Type: "redirect_to_url"}
		pi.NextAction.RedirectToURL.ReturnURL = optional(returnURL)
		pi.NextAction.RedirectToURL.URL = a.baseURL + "/pay/" + pi.ID
		a.emit("payment_intent.requires_action", pi)
		return pi, nil
	}
	if ch, d := a.collect(pi, pm); d != nil {
		return nil, cardDeclined(d, ch, pi)
	}
	return pi, nil
}

func confirmParams() spec {
	members := map[string]spec{
		"payment_method": {}, "return_url": {}, "receipt_email": {}, "mandate_data": {kind: anything},
		"off_session": {kind: boolean}, "error_on_requires_action": {kind: boolean},
		"setup_future_usage": {among: []string{"off_session", "on_session"}}, "shipping": shippingParams(),
		"capture_method": {among: []string{"automatic", "automatic_async", "manual"}}, "expand": expandParam(),
	}
	for _, name := range strings.Fields(`client_secret confirmation_token mandate payment_method_data payment_method_options
		payment_method_types radar_options use_stripe_sdk`) {
		members[name] = spec{kind: unsupported}
	}
	return fields(members)
}

// confirmIntent pays an intent. One that waits for authentication counts as authenticated when confirmed again.
func (s *Sim) confirmIntent(req *request) (any, *apiError) {
	pi, err := find(&s.intents, req.target, "payment_intent", "intent")
	if err != nil {
		return nil, err
	}
	switch pi.Status {
	case "requires_payment_method", "requires_confirmation", "requires_action":
	default:
		return nil, unexpectedState(pi, "confirm")
	}
	p := req.params
	id := p.str("payment_method")
	if id == "" {
		id = pi.PaymentMethod.id
	}
	if id == "" {
		return nil, refused("payment_intent_unexpected_state", "",
			"You cannot confirm this PaymentIntent because it's missing a payment method.")
	}
	pm, err := s.methodFor(req, id, "payment_method")
	if err != nil {
		return nil, err
	}
	if v := p.str("receipt_email"); v != "" {
		pi.ReceiptEmail = optional(v)
	}
	if p.get("shipping") != nil {
		pi.Shipping = shippingOf(p.get("shipping"))
	}
	if v := p.str("capture_method"); v != "" {
		pi.CaptureMethod = v
	}
	a := s.act(req.cause(), nil)
	if pi.Status == "requires_action" && pm.ID == pi.PaymentMethod.id {
		a.collect(pi, pm)
		return pi, nil
	}
	return a.confirm(pi, pm, p.str("return_url"))
}

func unexpectedState(pi *paymentIntent, verb string) *apiError {
	e := refused("payment_intent_unexpected_state", "",
		"You cannot %s this PaymentIntent because it has a status of %s.", verb, pi.Status)
	e.decline = &declinedError{intent: pi}
	e.status = http.StatusBadRequest
	return e
}

// intentParams is what POST /v1/payment_intents/:id takes here: what may still change after a payment. The unsupported
// ones are Stripe's remaining parameters (https://docs.stripe.com/api/payment_intents/update).
func intentParams() spec {
	members := map[string]spec{
		"metadata":      {kind: metadata},
		"description":   {length: 1000, clear: true},
		"receipt_email": {clear: true},
		"expand":        expandParam(),
	}
	for _, name := range strings.Fields(`amount application_fee_amount automatic_payment_methods capture_method client_secret
		confirm confirmation_method confirmation_token currency customer error_on_requires_action mandate mandate_data
		off_session on_behalf_of payment_method payment_method_configuration payment_method_data payment_method_options
		payment_method_types radar_options return_url setup_future_usage shipping statement_descriptor
		statement_descriptor_suffix transfer_data transfer_group use_stripe_sdk`) {
		members[name] = spec{kind: unsupported}
	}
	return fields(members)
}

func intentReadParams() spec {
	return fields(map[string]spec{"client_secret": {}, "expand": expandParam()})
}

// updateIntent merges metadata and sets what else was given. Stripe creates no event for it, and the charge keeps the
// metadata it copied when it was made.
func (s *Sim) updateIntent(req *request) (any, *apiError) {
	pi, err := find(&s.intents, req.target, "payment_intent", "intent")
	if err != nil {
		return nil, err
	}
	p := req.params
	merged, fits := p.get("metadata").mergeInto(pi.Metadata)
	if !fits {
		return nil, invalid("", "metadata", "Metadata can have at most 50 keys.")
	}
	if v := p.str("receipt_email"); v != "" && !isEmail(v) {
		return nil, invalid("email_invalid", "receipt_email", "Invalid email address: %s", v)
	}
	pi.Metadata = merged
	if p.get("receipt_email") != nil {
		pi.ReceiptEmail = optional(p.str("receipt_email"))
	}
	if p.get("description") != nil {
		pi.Description = optional(p.str("description"))
	}
	pi.LastPaymentError = nil // "cleared if the PaymentIntent is later updated for any reason"
	return pi, nil
}
