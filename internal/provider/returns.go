package provider

import (
	"cmp"
	"context"
	"math/big"
	"slices"
	"strings"
	"time"

	"github.com/stripe/stripe-go/v79"

	"paidonce/internal/money"
)

// Returns is what went back of a payment: all its refunds and disputes, as they are now.
type Returns struct {
	// RefundedMinor is how much of what was received went back, in the minor units in which
	// the payment states what it received.
	RefundedMinor int64

	// ChargedCurrency is the currency in which refunds and disputes are stated: that of the
	// buyer's bank. It differs from the payment's where the buyer paid in a currency of
	// their own. "" if nothing was charged.
	ChargedCurrency string

	Refunds  []Refund  // the oldest first
	Disputes []Dispute // likewise
}

// Refund is money that was sent back.
type Refund struct {
	ID          string
	AmountMinor int64 // of ChargedCurrency
	Currency    string
	Status      string // pending, requires_action, succeeded, failed, canceled
	CreatedAt   time.Time
}

// Dispute is money that the buyer's bank asks back.
type Dispute struct {
	ID          string
	AmountMinor int64 // of ChargedCurrency
	Currency    string
	Status      string // needs_response, under_review, won, lost, warning_…
	Reason      string
	DueAt       *time.Time // by when evidence has to be given; nil if Stripe does not say
	CreatedAt   time.Time
}

// RefundCounts reports whether a refund of a status has taken its money from the merchant:
// from the moment it is made until it fails or is canceled, as Stripe's own amount_refunded
// does (https://docs.stripe.com/api/refunds/object#refund_object-status).
func RefundCounts(status string) bool { return status != "failed" && status != "canceled" }

// readReturns lists the refunds and disputes of an intent, to the last page, in Stripe's
// units.
func (s *Stripe) readReturns(ctx context.Context, intent *stripe.PaymentIntent) (Returns, error) {
	if intent == nil {
		return Returns{}, nil // nothing was charged, so nothing can go back
	}
	r := Returns{ChargedCurrency: strings.ToLower(string(intent.Currency))}

	refundsOf := &stripe.RefundListParams{PaymentIntent: stripe.String(intent.ID)}
	s.prepare(ctx, &refundsOf.ListParams)
	refunds := s.api.Refunds.List(refundsOf)
	for refunds.Next() {
		v := refunds.Refund()
		r.Refunds = append(r.Refunds, Refund{
			ID: v.ID, AmountMinor: v.Amount, Currency: strings.ToLower(string(v.Currency)), Status: string(v.Status),
			CreatedAt: time.Unix(v.Created, 0).UTC(),
		})
	}
	disputesOf := &stripe.DisputeListParams{PaymentIntent: stripe.String(intent.ID)}
	s.prepare(ctx, &disputesOf.ListParams)
	disputes := s.api.Disputes.List(disputesOf)
	for disputes.Next() {
		v := disputes.Dispute()
		r.Disputes = append(r.Disputes, Dispute{
			ID: v.ID, AmountMinor: v.Amount, Currency: strings.ToLower(string(v.Currency)), Status: string(v.Status),
			Reason: string(v.Reason), DueAt: dueAt(v), CreatedAt: time.Unix(v.Created, 0).UTC(),
		})
	}
	if err := cmp.Or(refunds.Err(), disputes.Err()); err != nil {
		classified, _ := classify(err)
		return Returns{}, classified // nothing of it counts: a part of what went back is worse than none
	}
	slices.Reverse(r.Refunds) // Stripe lists the newest first
	slices.Reverse(r.Disputes)
	r.withoutRelease(intent.LatestCharge)
	return r, nil
}

// dueAt is when the time for evidence ends.
func dueAt(d *stripe.Dispute) *time.Time {
	if d.EvidenceDetails == nil || d.EvidenceDetails.DueBy == 0 {
		return nil
	}
	at := time.Unix(d.EvidenceDetails.DueBy, 0).UTC()
	return &at
}

// prepare makes a list ask for whole pages, in the account that we act for.
func (s *Stripe) prepare(ctx context.Context, params *stripe.ListParams) {
	params.Context, params.Limit = ctx, stripe.Int64(pageSize)
	if s.account != "" {
		params.SetStripeAccount(s.account)
	}
}

// withoutRelease leaves out what a capture for less gave back: Stripe shows the rest of the
// authorization, which was never received, as a refund made with the capture. It is the
// oldest one, of exactly that amount.
func (r *Returns) withoutRelease(charge *stripe.Charge) {
	if charge == nil || !charge.Captured || charge.AmountCaptured >= charge.Amount {
		return
	}
	released := charge.Amount - charge.AmountCaptured
	if i := slices.IndexFunc(r.Refunds, func(v Refund) bool { return v.AmountMinor == released && RefundCounts(v.Status) }); i >= 0 {
		r.Refunds = slices.Delete(r.Refunds, i, i+1)
	}
}

// inOurUnits turns the amounts into our minor units, and finds out how much of what was
// received they are. charged is what the buyer was charged, in Stripe's units. In another
// currency than the payment's it is the same part of it, rounded down: only all of it is all
// of it.
func (r *Returns) inOurUnits(charged, receivedMinor int64) error {
	var sum int64
	for i, v := range r.Refunds {
		if RefundCounts(v.Status) {
			sum += v.AmountMinor
		}
		if err := inOurUnits(&r.Refunds[i].AmountMinor, v.Currency); err != nil {
			return err
		}
	}
	for i, v := range r.Disputes {
		if err := inOurUnits(&r.Disputes[i].AmountMinor, v.Currency); err != nil {
			return err
		}
	}
	switch {
	case charged == 0:
	case sum >= charged:
		r.RefundedMinor = receivedMinor
	default:
		part := new(big.Int).Mul(big.NewInt(receivedMinor), big.NewInt(sum))
		r.RefundedMinor = part.Div(part, big.NewInt(charged)).Int64()
	}
	return nil
}

func inOurUnits(figure *int64, currency string) error {
	a, err := money.FromStripe(*figure, currency)
	if err != nil {
		return err
	}
	*figure = a.Minor
	return nil
}
