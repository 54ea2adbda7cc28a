package stripesim

// Reading: one object, or a page of them, newest first.

func (s *Sim) getSession(req *request) (any, *apiError) {
	return found(find(&s.sessions, req.target, "checkout.session", "session"))
}

func (s *Sim) getIntent(req *request) (any, *apiError) {
	return found(find(&s.intents, req.target, "payment_intent", "intent"))
}

func (s *Sim) getCharge(req *request) (any, *apiError) {
	return found(find(&s.charges, req.target, "charge", "id"))
}

func (s *Sim) getRefund(req *request) (any, *apiError) {
	return found(find(&s.refunds, req.target, "refund", "id"))
}

func (s *Sim) getDispute(req *request) (any, *apiError) {
	return found(find(&s.disputes, req.target, "dispute", "id"))
}

func (s *Sim) getProduct(req *request) (any, *apiError) {
	return found(find(&s.products, req.target, "product", "id"))
}

func (s *Sim) getPrice(req *request) (any, *apiError) {
	return found(find(&s.prices, req.target, "price", "price"))
}

func (s *Sim) getCoupon(req *request) (any, *apiError) {
	return found(find(&s.coupons, req.target, "coupon", "coupon"))
}

func (s *Sim) getPromo(req *request) (any, *apiError) {
	return found(find(&s.promos, req.target, "promotion_code", "id"))
}

func (s *Sim) getMethod(req *request) (any, *apiError) {
	return found(find(&s.methods, req.target, "PaymentMethod", "id"))
}

func (s *Sim) getHook(req *request) (any, *apiError) {
	return found(find(&s.hooks, req.target, "webhook endpoint", "id"))
}

// found keeps a nil pointer from becoming an object that is not nil.
func found[T any](v *T, err *apiError) (any, *apiError) {
	if err != nil {
		return nil, err
	}
	return v, nil
}

func sessionFilters() map[string]spec {
	f := filters("payment_intent")
	f["status"] = spec{among: []string{"complete", "expired", "open"}}
	f["customer_details"] = fields(map[string]spec{"email": {required: true}})
	for _, name := range []string{"customer", "payment_link", "subscription"} {
		f[name] = spec{kind: unsupported}
	}
	return f
}

func (s *Sim) listSessions(req *request) (any, *apiError) {
	p := req.params
	email := p.str("customer_details", "email")
	all := s.sessions.newest(func(v *session) bool {
		return inSpan(p.get("created"), v.Created) && p.same("status", v.Status) &&
			p.same("payment_intent", v.PaymentIntent.id) &&
			(email == "" || v.CustomerDetails != nil && string(v.CustomerDetails.Email) == email)
	})
	return page(p, "/v1/checkout/sessions", all, func(v *session) string { return v.ID }, "checkout.session")
}

// listLineItems pages in the order in which the lines were given.
func (s *Sim) listLineItems(req *request) (any, *apiError) {
	v, err := find(&s.sessions, req.target, "checkout.session", "session")
	if err != nil {
		return nil, err
	}
	return page(req.params, linesURL(v), v.items, func(l lineItem) string { return l.ID }, "item")
}

func linesURL(v *session) string { return "/v1/checkout/sessions/" + v.ID + "/line_items" }

// firstLines is what an expanded list holds: its first ten, as any first page.
func firstLines(v *session) *list {
	out, _ := page(&node{}, linesURL(v), v.items, func(l lineItem) string { return l.ID }, "item") // no cursor can be wrong
	return out
}

func intentFilters() map[string]spec {
	f := createdFilter()
	f["customer"] = spec{kind: unsupported}
	return f
}

func (s *Sim) listIntents(req *request) (any, *apiError) {
	all := s.intents.newest(func(v *paymentIntent) bool { return inSpan(req.params.get("created"), v.Created) })
	return page(req.params, "/v1/payment_intents", all, func(v *paymentIntent) string { return v.ID }, "payment_intent")
}

func chargeFilters() map[string]spec {
	f := filters("payment_intent")
	f["customer"], f["transfer_group"] = spec{kind: unsupported}, spec{kind: unsupported}
	return f
}

func (s *Sim) listCharges(req *request) (any, *apiError) {
	p := req.params
	all := s.charges.newest(func(v *charge) bool {
		return inSpan(p.get("created"), v.Created) && p.same("payment_intent", v.PaymentIntent.id)
	})
	return page(p, "/v1/charges", all, func(v *charge) string { return v.ID }, "charge")
}

func returnFilters() map[string]spec { return filters("charge", "payment_intent") }

func (s *Sim) listRefunds(req *request) (any, *apiError) {
	p := req.params
	all := s.refunds.newest(func(v *refund) bool {
		return inSpan(p.get("created"), v.Created) && p.same("charge", v.Charge.id) && p.same("payment_intent", v.PaymentIntent.id)
	})
	return page(p, "/v1/refunds", all, func(v *refund) string { return v.ID }, "refund")
}

func (s *Sim) listDisputes(req *request) (any, *apiError) {
	p := req.params
	all := s.disputes.newest(func(v *dispute) bool {
		return inSpan(p.get("created"), v.Created) && p.same("charge", v.Charge.id) && p.same("payment_intent", v.PaymentIntent.id)
	})
	return page(p, "/v1/disputes", all, func(v *dispute) string { return v.ID }, "dispute")
}

func (s *Sim) listHooks(req *request) (any, *apiError) {
	return page(req.params, "/v1/webhook_endpoints", s.hooks.newest(nil), func(v *webhookEndpoint) string { return v.ID },
		"webhook endpoint")
}

// same reports whether a filter was not given or has this value.
func (n *node) same(filter, value string) bool { return n.get(filter) == nil || n.str(filter) == value }
