package provider

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	"github.com/google/uuid"
	"github.com/stripe/stripe-go/v79"

	"paidonce/internal/money"
)

// RefundMarker is the metadata key under which a refund names the decision that it carries
// out: of several refunds of one payment, it tells the one that a call made.
const RefundMarker = "paidonce_refund"

// RefundRequest sends money back.
type RefundRequest struct {
	DecisionID      uuid.UUID
	OrderID         uuid.UUID
	PaymentIntentID string
	Amount          *money.Amount // in the currency that was charged; nil for all that is left
}

// RefundKey is the key of the call that carries a decision out.
func RefundKey(decisionID uuid.UUID) string { return string(OpRefund) + ":" + decisionID.String() }

// Call freezes the request. Its error is that of [money.ToStripe].
func (r RefundRequest) Call() (Call, error) {
	params := &stripe.RefundParams{
		PaymentIntent: stripe.String(r.PaymentIntentID),
		Metadata:      map[string]string{OrderMarker: r.OrderID.String(), RefundMarker: r.DecisionID.String()},
	}
	if r.Amount != nil {
		minor, err := money.ToStripe(*r.Amount)
		if err != nil {
			return Call{}, fmt.Errorf("amount: %w", err)
		}
		params.Amount = stripe.Int64(minor)
	}
	return Call{
		IdempotencyKey: RefundKey(r.DecisionID), Provider: "stripe", Operation: OpRefund, SubjectID: r.DecisionID,
		Path: "/v1/refunds", Params: freeze(params),
	}, nil
}

// lookForRefund finds the refund that a call made, by the marker that it wrote onto it.
func (c *Calls) lookForRefund(ctx context.Context, call Call) (*Answer, error) {
	frozen, err := url.ParseQuery(string(call.Params))
	if err != nil {
		return nil, fmt.Errorf("frozen parameters: %w", err)
	}
	query := &stripe.RefundListParams{PaymentIntent: stripe.String(frozen.Get("payment_intent"))}
	var found *Answer
	err = c.Stripe.eachObject(ctx, "/v1/refunds", query, &query.ListParams, func(id string, raw []byte) {
		if metadata, ok := metadataOf(raw); ok && strings.EqualFold(metadata[RefundMarker], call.SubjectID.String()) {
			found = &Answer{ID: id, Body: raw}
		}
	})
	return found, err
}
