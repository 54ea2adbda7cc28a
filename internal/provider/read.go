package provider

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/stripe/stripe-go/v79"
)

// APIVersion is the version in which objects are read.
const APIVersion = stripe.APIVersion

// PaymentState is a payment as the provider has it now.
type PaymentState struct {
	Resources []string // the session's id first, then its intent's and its charge's
	CreatedAt time.Time

	Succeeded, Processing, Expired, Canceled bool

	// Of a success: our minor units, and the lower-case currency.
	ReceivedMinor, IntendedMinor int64
	Currency                     string
	Breakdown                    *Breakdown // what the total is made of; nil if the session does not say

	Returns Returns // of a success: what went back of it
}

// Breakdown is what a total is made of, in minor units of its currency.
type Breakdown struct {
	SubtotalMinor int64
	DiscountMinor int64
	TaxMinor      int64
	ShippingMinor int64
}

// ReadPayment reads a checkout session with its intent, and all that went back of its money.
// What the intent says it received is the money; the session's total only stands in where
// there is no intent.
func (s *Stripe) ReadPayment(ctx context.Context, sessionID string) (PaymentState, error) {
	params := &stripe.CheckoutSessionParams{Params: stripe.Params{Context: ctx}}
	params.AddExpand("payment_intent.latest_charge")
	if s.account != "" {
		params.SetStripeAccount(s.account)
	}
	session, err := s.api.CheckoutSessions.Get(sessionID, params)
	if err != nil {
		classified, _ := classify(err)
		return PaymentState{}, fmt.Errorf("reading session %s: %w", sessionID, classified)
	}
	state := stateOf(session)
	if !state.Succeeded {
		return state, nil
	}
	if state.Returns, err = s.readReturns(ctx, session.PaymentIntent); err != nil {
		return PaymentState{}, fmt.Errorf("reading what went back of session %s: %w", sessionID, err)
	}
	if err := state.inOurUnits(session); err != nil {
		// Not to be read any better by reading it again.
		return PaymentState{}, fmt.Errorf("reading session %s: %w: %w", sessionID, ErrRefused, err)
	}
	return state, nil
}

// SessionState is the state of a session that was listed with its intent, by the same rules
// as ReadPayment's.
func SessionState(raw []byte) (PaymentState, error) {
	var session stripe.CheckoutSession
	if err := json.Unmarshal(raw, &session); err != nil {
		return PaymentState{}, fmt.Errorf("%w: %w", errNoSession, err)
	}
	state := stateOf(&session)
	if !state.Succeeded {
		return state, nil
	}
	return state, state.inOurUnits(&session)
}

// stateOf is the state in Stripe's units.
func stateOf(session *stripe.CheckoutSession) PaymentState {
	state := PaymentState{
		Resources: []string{session.ID},
		CreatedAt: time.Unix(session.Created, 0).UTC(),
		Expired:   session.Status == stripe.CheckoutSessionStatusExpired,
		Currency:  strings.ToLower(string(session.Currency)),
	}
	paid := session.PaymentStatus == stripe.CheckoutSessionPaymentStatusPaid ||
		session.PaymentStatus == stripe.CheckoutSessionPaymentStatusNoPaymentRequired // not: whatever is not unpaid
	intent := session.PaymentIntent
	if intent == nil {
		if session.Status == stripe.CheckoutSessionStatusComplete && paid {
			state.Succeeded, state.ReceivedMinor, state.IntendedMinor = true, session.AmountTotal, session.AmountTotal
		}
		return state
	}

	state.Resources = append(state.Resources, intent.ID)
	if intent.LatestCharge != nil {
		state.Resources = append(state.Resources, intent.LatestCharge.ID)
	}
	switch intent.Status {
	case stripe.PaymentIntentStatusSucceeded:
		state.Succeeded, state.ReceivedMinor, state.IntendedMinor = true, intent.AmountReceived, intent.Amount
		state.Currency = strings.ToLower(string(intent.Currency))
	case stripe.PaymentIntentStatusProcessing:
		state.Processing = true
	case stripe.PaymentIntentStatusCanceled:
		state.Canceled = true
	case stripe.PaymentIntentStatusRequiresAction, stripe.PaymentIntentStatusRequiresCapture,
		stripe.PaymentIntentStatusRequiresConfirmation, stripe.PaymentIntentStatusRequiresPaymentMethod:
		// Nothing has been received.
	}
	return state
}

// inOurUnits turns a success into our minor units, and into the merchant's currency, if the
// buyer paid in full in another and the session says what that is.
func (p *PaymentState) inOurUnits(session *stripe.CheckoutSession) error {
	converted := session.CurrencyConversion
	switch {
	case converted != nil && p.ReceivedMinor == p.IntendedMinor:
		p.ReceivedMinor, p.IntendedMinor, p.Currency = converted.AmountTotal, converted.AmountTotal, string(converted.SourceCurrency)
	case converted == nil && session.TotalDetails != nil && strings.EqualFold(p.Currency, string(session.Currency)):
		details := session.TotalDetails
		p.Breakdown = &Breakdown{
			SubtotalMinor: session.AmountSubtotal, DiscountMinor: details.AmountDiscount,
			TaxMinor: details.AmountTax, ShippingMinor: details.AmountShipping,
		}
	}
	figures := []*int64{&p.ReceivedMinor, &p.IntendedMinor}
	if b := p.Breakdown; b != nil {
		figures = append(figures, &b.SubtotalMinor, &b.DiscountMinor, &b.TaxMinor, &b.ShippingMinor)
	}
	p.Currency = strings.ToLower(p.Currency)
	for _, figure := range figures {
		if err := inOurUnits(figure, p.Currency); err != nil {
			return err
		}
	}
	var charged int64
	if session.PaymentIntent != nil {
		charged = session.PaymentIntent.AmountReceived
	}
	return p.Returns.inOurUnits(charged, p.ReceivedMinor)
}

// ReadSession reads a checkout session and returns it byte for byte.
func (s *Stripe) ReadSession(ctx context.Context, id string) ([]byte, error) {
	session, err := s.get(ctx, "/v1/checkout/sessions/"+id, nil)
	if err != nil {
		return nil, err
	}
	return session.LastResponse.RawJSON, nil
}
