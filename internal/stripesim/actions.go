package stripesim

import (
	"fmt"
	"slices"
	"strings"
)

// PayOptions says how a session is paid. The zero value pays what it asks for, by card, at once.
type PayOptions struct {
	Amount   *int64 // pay another amount: session, intent and charge then state it
	Currency string // pay in another currency, likewise
	Email    string // default: the session's customer_email, else buyer@example.com
	Name     string // default Test Buyer
	Delayed  bool   // by bank debit: complete with payment_status unpaid, intent processing, until SettleDelayed
	Hold     bool   // create the events and deliver none of them
}

// Payment is what Pay created. A session whose total is zero is completed without intent and charge.
type Payment struct {
	SessionID, PaymentIntentID, ChargeID string
	Events                               []Event // in the order of creation
}

// act is one action in progress: its cause and the events it has created. s.mu is held through it.
type act struct {
	*Sim
	cause
	events []Event
}

func (a *act) emit(typ string, object any) {
	a.events = append(a.events, a.Sim.emit(a.cause, typ, object))
}

// Pay completes an open session. Events: payment_intent.created (a Checkout Session gets its intent when the buyer first
// tries to pay, https://docs.stripe.com/upgrades#2022-08-01), charge.succeeded, payment_intent.succeeded and
// checkout.session.completed; with Delayed payment_intent.processing and charge.pending in the places of the successes.
func (s *Sim) Pay(sessionID string, o PayOptions) (Payment, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, err := s.openSession(sessionID)
	if err != nil {
		return Payment{}, err
	}
	if s.cfg.Now().Unix() >= v.ExpiresAt {
		return Payment{}, fmt.Errorf("pay %s: %w: past its expires_at", sessionID, ErrNotOpen)
	}
	if err := setPrice(v, o); err != nil {
		return Payment{}, err
	}
	a := &act{Sim: s, cause: s.byBuyer()}
	a.hold = o.Hold
	buyer := s.buyerOf(v, o)
	p := Payment{SessionID: v.ID}
	if v.AmountTotal == 0 {
		v.PaymentStatus = "no_payment_required"
	} else {
		pi := a.intentOf(v)
		ch := s.newCharge(a.now, pi, buyer, o.Delayed)
		p.PaymentIntentID, p.ChargeID = pi.ID, ch.ID
		if o.Delayed {
			a.process(v, pi, ch)
		} else {
			a.succeed(pi, ch)
			v.PaymentStatus = "paid"
		}
	}
	v.CustomerDetails = &customerDetails{
		Address: &buyer.Address, Email: buyer.Email, Name: buyer.Name, TaxExempt: "none", TaxIDs: []none{},
	}
	v.Status, v.URL = "complete", ""
	a.emit("checkout.session.completed", v)
	p.Events = a.events
	return p, nil
}

// SettleDelayed lets the bank answer a payment made with Delayed. ok: charge.succeeded, payment_intent.succeeded,
// checkout.session.async_payment_succeeded. Not ok: charge.failed, payment_intent.payment_failed,
// checkout.session.async_payment_failed.
func (s *Sim) SettleDelayed(sessionID string, ok bool) ([]Event, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, known := s.sessions[sessionID]
	if !known {
		return nil, fmt.Errorf("settle %s: %w", sessionID, ErrNoSession)
	}
	pi := s.intents[v.PaymentIntent.id]
	if pi == nil || pi.Status != "processing" {
		return nil, fmt.Errorf("settle %s: %w", sessionID, ErrNotProcessing)
	}
	a, ch := &act{Sim: s, cause: s.byStripe()}, s.charges[pi.LatestCharge.id]
	if ok {
		a.succeed(pi, ch)
		v.PaymentStatus = "paid"
		a.emit("checkout.session.async_payment_succeeded", v)
	} else {
		a.fail(pi, ch, decline{
			code: "insufficient_funds", message: "The customer's account has insufficient funds to cover this payment.",
			kind: "invalid_request_error", seller: "The customer's bank did not pay.", risk: "not_assessed",
		})
		a.emit("checkout.session.async_payment_failed", v)
	}
	return a.events, nil
}

// Decline is a card that is refused: charge.failed and payment_intent.payment_failed, after payment_intent.created if it
// is the first try. The session stays open and can still be paid, by the same intent and another charge.
func (s *Sim) Decline(sessionID string) ([]Event, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, err := s.openSession(sessionID)
	if err != nil {
		return nil, err
	}
	a := &act{Sim: s, cause: s.byBuyer()}
	pi := a.intentOf(v)
	a.fail(pi, s.newCharge(a.now, pi, s.buyerOf(v, PayOptions{}), false), decline{
		code: "card_declined", declineCode: "generic_decline", message: "Your card was declined.", kind: "card_error",
		seller: "The bank did not return any further details with this decline.", risk: "normal",
	})
	return a.events, nil
}

// Expire ends an open session as Stripe does at its expires_at: checkout.session.expired.
func (s *Sim) Expire(sessionID string) ([]Event, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, err := s.openSession(sessionID)
	if err != nil {
		return nil, err
	}
	return []Event{s.expire(s.byStripe(), v)}, nil
}

// expire is shared with the API. s.mu is held.
func (s *Sim) expire(c cause, v *session) Event {
	v.Status, v.URL = "expired", ""
	return s.emit(c, "checkout.session.expired", v)
}

func (s *Sim) openSession(id string) (*session, error) {
	v, ok := s.sessions[id]
	if !ok {
		return nil, fmt.Errorf("session %s: %w", id, ErrNoSession)
	}
	if v.Status != "open" {
		return nil, fmt.Errorf("session %s is %s: %w", id, v.Status, ErrNotOpen)
	}
	return v, nil
}

// setPrice makes the session state what is paid, where that differs from what it asked for.
func setPrice(v *session, o PayOptions) error {
	amount, currency := v.AmountTotal, v.Currency
	if o.Amount != nil {
		amount = *o.Amount
	}
	if o.Currency != "" {
		currency = strings.ToLower(o.Currency)
	}
	if amount < 0 || amount > maxAmount || !isCurrency(currency) {
		return fmt.Errorf("pay %s with %d %q: %w", v.ID, amount, currency, ErrBadPayment)
	}
	if amount != v.AmountTotal {
		v.AmountSubtotal, v.AmountTotal = amount, amount
	}
	v.Currency = currency
	return nil
}

func (s *Sim) buyerOf(v *session, o PayOptions) billingDetails {
	email, name := optional(o.Email), optional(o.Name)
	if email == "" {
		email = v.CustomerEmail
	}
	if email == "" {
		email = "buyer@example.com"
	}
	if name == "" {
		name = "Test Buyer"
	}
	return billingDetails{Address: address{Country: "US", PostalCode: "42424"}, Email: email, Name: name}
}

// process leaves the money on its way. s.mu is held.
func (a *act) process(v *session, pi *paymentIntent, ch *charge) {
	if !slices.Contains(v.PaymentMethodTypes, bankDebit) {
		v.PaymentMethodTypes = append(slices.Clone(v.PaymentMethodTypes), bankDebit)
	}
	pi.PaymentMethodTypes = v.PaymentMethodTypes
	pi.Status, pi.PaymentMethod.id, pi.LatestCharge.id, pi.LastPaymentError = "processing", ch.PaymentMethod, ch.ID, nil
	ch.Status, ch.Captured, ch.Outcome = "pending", true, approval("not_assessed", 0)
	a.emit("payment_intent.processing", pi)
	a.emit("charge.pending", ch)
}
