package webhooks

import (
	"errors"
	"fmt"
	"time"
)

var (
	// ErrNoSignature is returned by Verify when the signature header is missing or has no
	// signature of the live scheme.
	ErrNoSignature = errors.New("no signature")

	// ErrBadSignature is returned by Verify when no signature matches any of the secrets.
	ErrBadSignature = errors.New("signature does not match")

	// ErrNotEvent is returned by Verify when the signature is good and the body is not an
	// event: not a JSON object, or without a usable id or type.
	ErrNotEvent = errors.New("not an event")

	// ErrUnsupported is returned by Parse for a genuine event in a form that this provider
	// does not read. It ends a delivery, it is never retried.
	ErrUnsupported = errors.New("unsupported event")
)

// SkewError is returned by Verify when the signature is good and its timestamp is too far
// from now, on either side. A wrong host clock shows as this and a wrong secret as
// [ErrBadSignature], so that an operator can tell them apart.
type SkewError struct {
	Skew      time.Duration // now minus the signed time; negative: signed in the future
	Tolerance time.Duration
}

func (e *SkewError) Error() string {
	return fmt.Sprintf("signature is genuine, but its timestamp is %s away from this clock (tolerance %s): a replay, or a wrong clock",
		e.Skew, e.Tolerance)
}
