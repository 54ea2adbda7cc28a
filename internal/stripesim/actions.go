package stripesim

import (
	"fmt"
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

	Method        string // a test card by name or number, as "createDispute" or "4000000000000259"; default visa
	PromotionCode string // typed in by the buyer, where the session allows it
}

// How changes what an action does with its events.
type How int

// Held creates the events and delivers none of them: the test posts them itself, or calls Deliver.
const Held How = 1

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

func (s *Sim) act(c cause, how []How) *act {
	a := &act{Sim: s, cause: c}
	for _, h := range how {
		a.hold = a.hold || h == Held
	}
	return a
}

func (a *act) emit(typ string, object any) { a.emitSince("", typ, object) }

// Pay completes an open session. Events: payment_intent.created (a Checkout Session gets its intent when the buyer first
// tries to pay, https://docs.stripe.com/upgrades#2022-08-01), charge.succeeded, payment_intent.succeeded and
// checkout.session.completed; with Delayed payment_intent.processing and charge.pending in the places of the successes.
func (s *Sim) Pay(sessionID string, o PayOptions) (Payment, error) {
	s.mu.Lock()
	defer s.finish()
	v, err := s.payableSession(sessionID)
	if err != nil {
		return Payment{}, err
	}
	test, err := methodOf(o)
	if err != nil {
		return Payment{}, err
	}
	if test.decline != nil {
		return Payment{}, fmt.Errorf("pay %s by %s: %w: that card is declined, see Decline", sessionID, test.name, ErrBadPayment)
	}
	a := s.act(s.byBuyer(), nil)
	a.hold = o.Hold
	buyer := s.buyerOf(v, o)
	if err := a.agree(v, o); err != nil {
		return Payment{}, err
	}
	p := Payment{SessionID: v.ID}
	if v.AmountTotal > 0 {
		pm := s.newMethod(a.at, test, buyer)
		pi := a.intentOf(v)
		ch, _ := a.collect(pi, pm)
		p.PaymentIntentID, p.ChargeID = pi.ID, ch.ID
	}
	a.complete(v, buyer)
	a.fallDueOf(p.PaymentIntentID, p.ChargeID)
	p.Events = a.events
	return p, nil
}

// agree settles what is to be paid: code and tax of the page, then what the options say instead.
func (a *act) agree(v *session, o PayOptions) error {
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
	if o.PromotionCode != "" {
		if err := a.redeem(v, o.PromotionCode); err != nil {
			return err
		}
	}
	a.tax(v)
	if o.Amount != nil && *o.Amount != v.AmountTotal {
		v.AmountSubtotal, v.AmountTotal, v.TotalDetails = amount, amount, totalDetails{}
	}
	v.Currency = currency
	return nil
}

// complete ends a session with the payment made, or on its way, or needless.
func (a *act) complete(v *session, buyer billingDetails) {
	pi := a.intents.get(v.PaymentIntent.id)
	switch {
	case v.AmountTotal == 0:
		v.PaymentStatus = "no_payment_required"
	case pi != nil && pi.Status == "succeeded":
		v.PaymentStatus = "paid"
	}
	if pi != nil {
		v.setTypes(pi.PaymentMethodTypes)
	}
	where := buyer.Address
	v.CustomerDetails = &customerDetails{
		Address: &where, Email: buyer.Email, Name: buyer.Name, Phone: buyer.Phone, TaxExempt: "none", TaxIDs: []none{},
	}
	v.Status, v.URL = "complete", ""
	a.countRedemption(v)
	a.emit("checkout.session.completed", v)
}

// SettleDelayed lets the bank answer a payment made with Delayed. ok: charge.succeeded, payment_intent.succeeded,
// checkout.session.async_payment_succeeded. Not ok: charge.failed, payment_intent.payment_failed,
// checkout.session.async_payment_failed.
func (s *Sim) SettleDelayed(sessionID string, ok bool, how ...How) ([]Event, error) {
	s.mu.Lock()
	defer s.finish()
	v := s.sessions.get(sessionID)
	if v == nil {
		return nil, fmt.Errorf("settle %s: %w", sessionID, ErrNoSession)
	}
	pi := s.intents.get(v.PaymentIntent.id)
	if pi == nil || pi.Status != "processing" {
		return nil, fmt.Errorf("settle %s: %w", sessionID, ErrNotProcessing)
	}
	a := s.act(s.byStripe(), how)
	a.settle(pi, ok)
	return a.events, nil
}

// Decline is a card that is refused: charge.failed and payment_intent.payment_failed, after payment_intent.created if it
// is the first try. The session stays open and can still be paid, by the same intent and another charge.
func (s *Sim) Decline(sessionID string, how ...How) ([]Event, error) {
	return s.declineBy(sessionID, "chargeDeclined", how)
}

func (s *Sim) declineBy(sessionID, card string, how []How) ([]Event, error) {
	s.mu.Lock()
	defer s.finish()
	v, err := s.openSession(sessionID)
	if err != nil {
		return nil, err
	}
	test, _ := findMethod(card)
	a := s.act(s.byBuyer(), how)
	a.collect(a.intentOf(v), s.newMethod(a.at, test, s.buyerOf(v, PayOptions{})))
	return a.events, nil
}

// Expire ends an open session as Stripe does at its expires_at: checkout.session.expired.
func (s *Sim) Expire(sessionID string, how ...How) ([]Event, error) {
	s.mu.Lock()
	defer s.finish()
	v, err := s.openSession(sessionID)
	if err != nil {
		return nil, err
	}
	a := s.act(s.byStripe(), how)
	a.expire(v)
	return a.events, nil
}

// expire is shared with the API and the clock. s.mu is held.
func (a *act) expire(v *session) {
	v.Status, v.URL = "expired", ""
	a.emit("checkout.session.expired", v)
}

func (s *Sim) openSession(id string) (*session, error) {
	v := s.sessions.get(id)
	if v == nil {
		return nil, fmt.Errorf("session %s: %w", id, ErrNoSession)
	}
	if v.Status != "open" {
		return nil, fmt.Errorf("session %s is %s: %w", id, v.Status, ErrNotOpen)
	}
	return v, nil
}

// payableSession is open, and not past its end though nobody has expired it yet.
func (s *Sim) payableSession(id string) (*session, error) {
	v, err := s.openSession(id)
	if err == nil && s.now().Unix() >= v.ExpiresAt {
		return nil, fmt.Errorf("pay %s: %w: past its expires_at", id, ErrNotOpen)
	}
	return v, err
}

// methodOf is the test method that the options name.
func methodOf(o PayOptions) (testMethod, error) {
	name := o.Method
	if name == "" {
		name = "visa"
		if o.Delayed {
			name = "bank"
		}
	}
	m, ok := findMethod(name)
	if !ok {
		return m, fmt.Errorf("%w: no test method is called %q", ErrBadPayment, name)
	}
	return m, nil
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
