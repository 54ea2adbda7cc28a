package provider

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/stripe/stripe-go/v79"
)

var (
	// ErrNotConfigured is returned when the provider has no API key.
	ErrNotConfigured = errors.New("provider is not configured")

	// ErrOtherWorld is returned when a call was written down for another mode (test or live)
	// or account than this process' key acts in. The process that has that key makes it.
	ErrOtherWorld = errors.New("the call is meant for another mode or account")

	// ErrInFlight is returned by Perform while another process performs the call.
	ErrInFlight = errors.New("the call is in flight")

	// ErrRefused is returned when the provider has answered that the call will never
	// succeed as it stands.
	ErrRefused = errors.New("the provider refused the call")

	// ErrNotWanted is returned by a guard for a call that must not be made any more.
	ErrNotWanted = errors.New("the call is not wanted any more")

	// ErrKeyTooOld is returned when a call has been tried for longer than the provider
	// remembers its key: sending it again could act twice. A person has to look.
	ErrKeyTooOld = errors.New("the call's key is older than the provider remembers")

	// ErrNotFound is returned by reads of an object that the provider does not have.
	ErrNotFound = errors.New("no such object at the provider")
)

// RetryError is returned when the same call, under the same key, should be made again.
type RetryError struct {
	After time.Duration // as the provider asked; zero: as the caller sees fit
	Cause error
}

func (e *RetryError) Error() string { return "the call has to be made again: " + e.Cause.Error() }

// Unwrap returns the cause.
func (e *RetryError) Unwrap() error { return e.Cause }

// classify sorts what stripe-go returns into: never (ErrRefused), again (RetryError), and
// whether the outcome is known to be "nothing happened".
//
// Facts: https://docs.stripe.com/error-low-level. A 409 or 429 was turned away before the
// endpoint ran. A 500, a timeout or a cut connection says nothing about the outcome.
func classify(err error) (classified error, nothingHappened bool) {
	var answer *stripe.Error
	if !errors.As(err, &answer) {
		return &RetryError{Cause: withoutBody(err)}, false
	}
	switch status := answer.HTTPStatusCode; {
	case answer.Type == stripe.ErrorTypeIdempotency && status == http.StatusBadRequest:
		return fmt.Errorf("%w: %w", ErrRefused, describe(answer)), false
	case status == http.StatusConflict, status == http.StatusTooManyRequests:
		return &RetryError{After: retryAfter(answer), Cause: describe(answer)}, true
	case status >= http.StatusInternalServerError:
		return &RetryError{After: retryAfter(answer), Cause: describe(answer)}, false
	case status == http.StatusNotFound:
		return fmt.Errorf("%w: %w: %w", ErrRefused, ErrNotFound, describe(answer)), true
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		// A wrong or rolled key is mended by configuration, and the call is still wanted.
		return &RetryError{After: time.Minute, Cause: describe(answer)}, true
	default:
		return fmt.Errorf("%w: %w", ErrRefused, describe(answer)), true
	}
}

// errUnreadable stands for an answer that is not Stripe's: a proxy's page, or half an object.
var errUnreadable = errors.New("the answer could not be read")

// withoutBody keeps the errors of the connection. Of an answer it cannot read, stripe-go
// makes an error that quotes the body, whatever that holds and however long it is.
func withoutBody(err error) error {
	var transport *url.Error
	var network net.Error
	switch {
	case errors.As(err, &transport):
		return withoutQuery(transport)
	case errors.As(err, &network), errors.Is(err, io.ErrUnexpectedEOF),
		errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	}
	return errUnreadable
}

// withoutQuery names what was asked for, and not how: a list's query is a kilobyte of a log's
// line, and of a person's screen.
func withoutQuery(e *url.Error) error {
	short := *e
	short.URL, _, _ = strings.Cut(e.URL, "?")
	return &short
}

// isMute reports whether an answer is the key's last word: other bytes were sent under it
// (idempotency_error), or it brought back a 500 that Stripe has kept.
func isMute(err error) bool {
	var answer *stripe.Error
	if !errors.As(err, &answer) {
		return false
	}
	if answer.Type == stripe.ErrorTypeIdempotency {
		return answer.HTTPStatusCode == http.StatusBadRequest
	}
	return answer.HTTPStatusCode >= http.StatusInternalServerError &&
		answer.LastResponse != nil && answer.LastResponse.Header.Get("Idempotent-Replayed") == "true"
}

// describe keeps of Stripe's error what helps and is no secret: a message may quote parts
// of an API key.
func describe(e *stripe.Error) error {
	return fmt.Errorf("stripe answered %d type=%s code=%s param=%s request=%s",
		e.HTTPStatusCode, e.Type, e.Code, e.Param, e.RequestID)
}

// maxRetryAfter bounds a wait that the other side asks for.
const maxRetryAfter = 10 * time.Minute

// retryAfter is the wait that an answer asks for, in seconds or until a date
// (https://www.rfc-editor.org/rfc/rfc9110#field.retry-after); zero if it asks for none. The
// date is compared with the answer's own: both are by the same clock, which is not ours.
func retryAfter(e *stripe.Error) time.Duration {
	if e.LastResponse == nil {
		return 0
	}
	header := e.LastResponse.Header
	asked := header.Get("Retry-After")
	if seconds, err := strconv.ParseUint(asked, 10, 32); err == nil {
		return min(time.Duration(seconds)*time.Second, maxRetryAfter)
	}
	until, err := http.ParseTime(asked)
	if err != nil {
		return 0
	}
	answered, err := http.ParseTime(header.Get("Date"))
	if err != nil {
		return 0
	}
	return min(max(until.Sub(answered), 0), maxRetryAfter)
}
