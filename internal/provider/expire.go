package provider

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"
)

// ExpireRequest ends an open checkout, so that nobody can pay it any more. Stripe refuses it
// for a session that is complete or has expired by itself
// (https://docs.stripe.com/api/checkout/sessions/expire).
type ExpireRequest struct {
	PaymentID uuid.UUID
	SessionID string
}

// Call freezes the request under the key expire:<payment id>. It has no parameters: the path
// says all of it.
func (r ExpireRequest) Call() Call {
	return Call{
		IdempotencyKey: string(OpExpire) + ":" + r.PaymentID.String(),
		Provider:       "stripe", Operation: OpExpire, SubjectID: r.PaymentID,
		Path: "/v1/checkout/sessions/" + r.SessionID + "/expire", Params: []byte{},
	}
}

// lookWhetherExpired finds out whether an expiry was made: then the session says so. Whether
// this call did it or time, makes no difference.
func (c *Calls) lookWhetherExpired(ctx context.Context, call Call) (*Answer, error) {
	session, err := c.Stripe.get(ctx, strings.TrimSuffix(call.Path, "/expire"), nil)
	if errors.Is(err, ErrNotFound) {
		return nil, nil // no trace of it
	}
	if err != nil {
		return nil, err
	}
	var is struct {
		Status string `json:"status"`
	}
	if err := json.Unmarshal(session.LastResponse.RawJSON, &is); err != nil {
		return nil, fmt.Errorf("reading session %s: %w", session.ID, err)
	}
	if is.Status != "expired" {
		return nil, nil // no trace of it
	}
	return &Answer{ID: session.ID, Body: session.LastResponse.RawJSON}, nil
}
