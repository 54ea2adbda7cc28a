package stripesim

import "fmt"

// Refund gives back amount of a payment, named by its intent or its charge; 0 is all that is left. status is what the
// refund begins as, "" for what its card does: succeeded, pending, requires_action, failed. Several partial refunds may be
// made. Events: charge.refunded.
func (s *Sim) Refund(paymentOrCharge string, amount int64, status string, how ...How) (refundID string, _ []Event, _ error) {
	s.mu.Lock()
	defer s.finish()
	ch := s.chargeOf(paymentOrCharge)
	switch {
	case ch == nil:
		return "", nil, fmt.Errorf("refund %s: %w", paymentOrCharge, ErrNoPayment)
	case amount == 0:
		amount = refundable(ch)
	}
	if amount < 1 || amount > refundable(ch) {
		return "", nil, fmt.Errorf("refund %d of %s: %w: %d is left", amount, ch.ID, ErrBadAmount, refundable(ch))
	}
	switch status {
	case "", "succeeded", "pending", "requires_action", "failed":
	default:
		return "", nil, fmt.Errorf("refund %s: %w: no refund begins as %q", ch.ID, ErrNotPossible, status)
	}
	a := s.act(s.byStripe(), how)
	r := a.refundBy(ch, amount, status, "", nil)
	a.fallDueOf(r.ID)
	return r.ID, a.events, nil
}

// refundBy is shared with the API: the status is the card's unless one is given, and what the card does later is set up.
func (a *act) refundBy(ch *charge, amount int64, status, reason string, metadata map[string]string) *refund {
	var card testMethod
	if pm := a.methods.get(ch.PaymentMethod); pm != nil && status == "" {
		card = pm.behavior()
	}
	if status == "" {
		status = "succeeded"
		if card.refund == dueRefundPasses {
			status = "pending"
		}
	}
	r := a.newRefund(ch, amount, status, reason, metadata)
	if card.refund != "" {
		a.later(a.cfg.Lag, card.refund, r.ID)
	}
	return r
}

// SettleRefund changes a pending refund to succeeded, failed or canceled, or lets one that succeeded fail after all. Events:
// charge.refund.updated.
func (s *Sim) SettleRefund(refundID, status string, how ...How) ([]Event, error) {
	s.mu.Lock()
	defer s.finish()
	r := s.refunds.get(refundID)
	if r == nil {
		return nil, fmt.Errorf("refund %s: %w", refundID, ErrNoPayment)
	}
	ended := r.Status == "failed" || r.Status == "canceled"
	if ended || r.Status == "succeeded" && status != "failed" || status != "succeeded" && status != "failed" && status != "canceled" {
		return nil, fmt.Errorf("refund %s from %s to %q: %w", refundID, r.Status, status, ErrNotPossible)
	}
	a := s.act(s.byStripe(), how)
	a.changeRefund(r, status)
	return a.events, nil
}

// FailRefund lets a refund fail after all: the money stays with the merchant. Events: charge.refund.updated.
func (s *Sim) FailRefund(refundID string, how ...How) ([]Event, error) {
	return s.SettleRefund(refundID, "failed", how...)
}

// OpenDispute is the buyer's bank taking amount of a charge back, or of an intent's charge; 0 is all of it. reason is
// Stripe's, as fraudulent or product_not_received; "inquiry" asks without taking. A charge can be disputed again.
// Events: charge.dispute.created, charge.dispute.funds_withdrawn; for an inquiry the first alone.
func (s *Sim) OpenDispute(paymentOrCharge string, amount int64, reason string, how ...How) (disputeID string, _ []Event, _ error) {
	s.mu.Lock()
	defer s.finish()
	ch := s.chargeOf(paymentOrCharge)
	switch {
	case ch == nil:
		return "", nil, fmt.Errorf("dispute %s: %w", paymentOrCharge, ErrNoPayment)
	case amount == 0:
		amount = ch.Amount
	}
	if amount < 1 || amount > ch.Amount || !ch.Captured {
		return "", nil, fmt.Errorf("dispute %d of %s: %w", amount, ch.ID, ErrBadAmount)
	}
	inquiry := reason == "inquiry"
	if reason == "" || inquiry {
		reason = "fraudulent"
	}
	a := s.act(s.byStripe(), how)
	d := a.openDispute(ch, amount, reason, inquiry)
	return d.ID, a.events, nil
}

// EscalateDispute turns an inquiry into a dispute. Events: charge.dispute.updated, charge.dispute.funds_withdrawn.
func (s *Sim) EscalateDispute(disputeID string, how ...How) ([]Event, error) {
	return s.disputeAct(disputeID, how, func(a *act, d *dispute) bool {
		if d.Status != "warning_needs_response" && d.Status != "warning_under_review" {
			return false
		}
		a.escalate(d)
		return true
	})
}

// CloseDispute ends a dispute as "won" or "lost". Events: charge.dispute.closed, and charge.dispute.funds_reinstated if won.
func (s *Sim) CloseDispute(disputeID, result string, how ...How) ([]Event, error) {
	return s.disputeAct(disputeID, how, func(a *act, d *dispute) bool {
		if !d.open() || result != "won" && result != "lost" {
			return false
		}
		a.closeDispute(d, result == "won")
		return true
	})
}

func (s *Sim) disputeAct(id string, how []How, do func(*act, *dispute) bool) ([]Event, error) {
	s.mu.Lock()
	defer s.finish()
	d := s.disputes.get(id)
	if d == nil {
		return nil, fmt.Errorf("dispute %s: %w", id, ErrNoPayment)
	}
	a := s.act(s.byStripe(), how)
	if !do(a, d) {
		return nil, fmt.Errorf("dispute %s is %s: %w", id, d.Status, ErrNotPossible)
	}
	return a.events, nil
}

// Capture takes amount of what an intent with capture_method manual has reserved; 0 is all of it. Events: charge.captured,
// payment_intent.succeeded.
func (s *Sim) Capture(intentID string, amount int64, how ...How) ([]Event, error) {
	s.mu.Lock()
	defer s.finish()
	pi := s.intents.get(intentID)
	switch {
	case pi == nil:
		return nil, fmt.Errorf("capture %s: %w", intentID, ErrNoPayment)
	case pi.Status != "requires_capture":
		return nil, fmt.Errorf("capture %s, which is %s: %w", intentID, pi.Status, ErrNotPossible)
	case amount == 0:
		amount = pi.AmountCapturable
	}
	if amount < 1 || amount > pi.AmountCapturable {
		return nil, fmt.Errorf("capture %d of %s: %w: %d is reserved", amount, intentID, ErrBadAmount, pi.AmountCapturable)
	}
	a := s.act(s.byStripe(), how)
	a.capture(pi, amount)
	return a.events, nil
}

// chargeOf takes the id of a charge, of an intent, or of a session.
func (s *Sim) chargeOf(id string) *charge {
	if v := s.sessions.get(id); v != nil {
		id = v.PaymentIntent.id
	}
	if pi := s.intents.get(id); pi != nil {
		id = pi.LatestCharge.id
	}
	return s.charges.get(id)
}
