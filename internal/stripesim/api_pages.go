package stripesim

// The payment page is what the browser of Stripe's hosted checkout talks to. Stripe does not document it; the Stripe CLI
// uses two of its endpoints to pay a session, with a secret key and the session's id
// (https://github.com/stripe/stripe-cli, pkg/fixtures/triggers/checkout.session.completed.json).
//
// Simplified: the answer has the few fields that a fixture needs.

// paymentPage is a session as its page shows it.
type paymentPage struct {
	ID                 string   `json:"id"`
	Object             string   `json:"object"`
	AmountTotal        int64    `json:"amount_total"`
	Created            int64    `json:"created"`
	Currency           string   `json:"currency"`
	CustomerEmail      optional `json:"customer_email"`
	ExpiresAt          int64    `json:"expires_at"`
	Livemode           bool     `json:"livemode"`
	PaymentIntent      ref      `json:"payment_intent"`
	PaymentMethodTypes []string `json:"payment_method_types"`
	PaymentStatus      string   `json:"payment_status"`
	SessionID          string   `json:"session_id"`
	Status             string   `json:"status"`
	SuccessURL         string   `json:"success_url"`
}

func pageOf(v *session) *paymentPage {
	return &paymentPage{
		ID: "ppage_" + v.ID[max(0, len(v.ID)-24):], Object: "payment_page", AmountTotal: v.AmountTotal, Created: v.Created,
		Currency: v.Currency, CustomerEmail: v.CustomerEmail, ExpiresAt: v.ExpiresAt, Livemode: v.Livemode,
		PaymentIntent: v.PaymentIntent, PaymentMethodTypes: v.PaymentMethodTypes, PaymentStatus: v.PaymentStatus,
		SessionID: v.ID, Status: v.Status, SuccessURL: v.SuccessURL,
	}
}

func (s *Sim) getPaymentPage(req *request) (any, *apiError) {
	v, err := find(&s.sessions, req.target, "checkout.session", "session")
	if err != nil {
		return nil, err
	}
	return pageOf(v), nil
}

func pageConfirmParams() spec {
	return fields(map[string]spec{
		"payment_method": {required: true}, "expected_amount": {kind: integer}, "expand": expandParam(),
	})
}

// confirmPaymentPage is the buyer's click on Pay, by the payment method given. expected_amount is what the page showed:
// another total is refused rather than taken.
func (s *Sim) confirmPaymentPage(req *request) (any, *apiError) {
	v, err := find(&s.sessions, req.target, "checkout.session", "session")
	if err != nil {
		return nil, err
	}
	if v.Status != "open" {
		return nil, refused("checkout_not_active_session", "", "This Checkout Session is no longer active: it is %s.", v.Status)
	}
	if want := req.params.whole("expected_amount"); want != nil && *want != v.AmountTotal {
		return nil, refused("checkout_amount_mismatch", "expected_amount", "The total has changed: it is %d.", v.AmountTotal)
	}
	pm, err := s.methodFor(req, req.params.str("payment_method"), "payment_method")
	if err != nil {
		return nil, err
	}
	a := s.act(cause{at: req.now, request: req.cause().request}, nil)
	a.tax(v)
	buyer := pm.BillingDetails
	if buyer.Email == "" {
		buyer = s.buyerOf(v, PayOptions{Name: string(buyer.Name)})
	}
	if v.AmountTotal > 0 {
		pi := a.intentOf(v)
		if ch, d := a.collect(pi, pm); d != nil {
			return nil, cardDeclined(d, ch, pi)
		}
	}
	a.complete(v, buyer)
	return pageOf(v), nil
}
