package stripesim

func (s *Sim) getSession(req *request) (any, *apiError) {
	v, ok := s.sessions[req.target]
	if !ok {
		return nil, noSuch("checkout.session", req.target, "session")
	}
	return s.expandedSession(v, req)
}

// expireSession is the merchant's own act, so the event names the request
// (https://docs.stripe.com/api/checkout/sessions/expire).
func (s *Sim) expireSession(req *request) (any, *apiError) {
	v, ok := s.sessions[req.target]
	if !ok {
		return nil, noSuch("checkout.session", req.target, "session")
	}
	if v.Status != "open" {
		return nil, refused("", "",
			"Only Checkout Sessions with a status in [\"open\"] can be expired. This one has a status of %s.", v.Status)
	}
	if _, err := s.expandedSession(v, req); err != nil {
		return nil, err
	}
	s.expire(req.cause(), v)
	return s.expandedSession(v, req)
}

// listLineItems pages in the order in which the lines were given.
func (s *Sim) listLineItems(req *request) (any, *apiError) {
	v, ok := s.sessions[req.target]
	if !ok {
		return nil, noSuch("checkout.session", req.target, "session")
	}
	return page(req.params, linesURL(v), v.items, func(l lineItem) string { return l.ID }, "item")
}

func linesURL(v *session) string { return "/v1/checkout/sessions/" + v.ID + "/line_items" }

// expandedSession is a copy of v with what expand[] asks for. An expanded list holds its first ten, as any first page.
func (s *Sim) expandedSession(v *session, req *request) (*session, *apiError) {
	out := *v
	for _, path := range req.params.strs("expand") {
		switch path {
		case "line_items":
			lines, err := page(&node{}, linesURL(v), v.items, func(l lineItem) string { return l.ID }, "item")
			if err != nil {
				return nil, err
			}
			out.LineItems = lines
		case "payment_intent", "payment_intent.latest_charge":
			if pi, ok := s.intents[v.PaymentIntent.id]; ok {
				deep := path != "payment_intent"
				if already, ok := out.PaymentIntent.object.(*paymentIntent); ok && already.LatestCharge.object != nil {
					deep = true
				}
				out.PaymentIntent.object = s.expandedIntent(pi, deep)
			}
		case "customer", "invoice", "payment_link", "setup_intent", "subscription":
			// null, and null stays null
		default:
			return nil, cannotExpand(path)
		}
	}
	return &out, nil
}

func (s *Sim) expandedIntent(pi *paymentIntent, charge bool) *paymentIntent {
	out := *pi
	if ch, ok := s.charges[pi.LatestCharge.id]; ok && charge {
		out.LatestCharge.object = ch
	}
	return &out
}

func (s *Sim) getCharge(req *request) (any, *apiError) {
	v, ok := s.charges[req.target]
	if !ok {
		return nil, noSuch("charge", req.target, "id")
	}
	out := *v
	for _, path := range req.params.strs("expand") {
		switch path {
		case "payment_intent":
			if pi, ok := s.intents[v.PaymentIntent.id]; ok {
				out.PaymentIntent.object = pi
			}
		case "customer", "dispute", "invoice", "review":
			// null, and null stays null
		default:
			return nil, cannotExpand(path)
		}
	}
	return &out, nil
}

func expandParam() spec { return arrayOf(spec{}) }

func cannotExpand(path string) *apiError {
	return invalid("", "expand", "This property cannot be expanded (%s).", path)
}
