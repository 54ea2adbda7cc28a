package stripesim

// intentParams is what POST /v1/payment_intents/:id takes here: what may still change after a payment. The unsupported
// ones are Stripe's remaining parameters (https://docs.stripe.com/api/payment_intents/update).
func intentParams() spec {
	members := map[string]spec{
		"metadata":      {kind: metadata},
		"description":   {length: 1000, clear: true},
		"receipt_email": {clear: true},
		"expand":        expandParam(),
	}
	for _, name := range []string{
		"amount", "application_fee_amount", "automatic_payment_methods", "capture_method", "client_secret", "confirm",
		"confirmation_method", "confirmation_token", "currency", "customer", "error_on_requires_action", "mandate",
		"mandate_data", "off_session", "on_behalf_of", "payment_method", "payment_method_configuration",
		"payment_method_data", "payment_method_options", "payment_method_types", "radar_options", "return_url",
		"setup_future_usage", "shipping", "statement_descriptor", "statement_descriptor_suffix", "transfer_data",
		"transfer_group", "use_stripe_sdk",
	} {
		members[name] = spec{kind: unsupported}
	}
	return fields(members)
}

func intentReadParams() spec {
	return fields(map[string]spec{"client_secret": {}, "expand": expandParam()})
}

func (s *Sim) getIntent(req *request) (any, *apiError) {
	pi, ok := s.intents[req.target]
	if !ok {
		return nil, noSuch("payment_intent", req.target, "intent")
	}
	return s.intentFor(pi, req)
}

// updateIntent merges metadata and sets what else was given. Stripe creates no event for it, and the charge keeps the
// metadata it copied when it was made.
func (s *Sim) updateIntent(req *request) (any, *apiError) {
	pi, ok := s.intents[req.target]
	if !ok {
		return nil, noSuch("payment_intent", req.target, "intent")
	}
	p := req.params
	merged, fits := p.get("metadata").mergeInto(pi.Metadata)
	if !fits {
		return nil, invalid("", "metadata", "Metadata can have at most 50 keys.")
	}
	if v := p.str("receipt_email"); v != "" && !isEmail(v) {
		return nil, invalid("email_invalid", "receipt_email", "Invalid email address: %s", v)
	}
	if _, err := s.intentFor(pi, req); err != nil { // a bad expand must change nothing
		return nil, err
	}
	pi.Metadata = merged
	if p.get("receipt_email") != nil {
		pi.ReceiptEmail = optional(p.str("receipt_email"))
	}
	if p.get("description") != nil {
		pi.Description = optional(p.str("description"))
	}
	pi.LastPaymentError = nil // "cleared if the PaymentIntent is later updated for any reason"
	return s.intentFor(pi, req)
}

func (s *Sim) intentFor(pi *paymentIntent, req *request) (*paymentIntent, *apiError) {
	charge := false
	for _, path := range req.params.strs("expand") {
		switch path {
		case "latest_charge":
			charge = true
		case "customer", "invoice", "review":
			// null, and null stays null
		default:
			return nil, cannotExpand(path)
		}
	}
	return s.expandedIntent(pi, charge), nil
}
