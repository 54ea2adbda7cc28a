package provider

// Inside the package, for classify. Pure: the answers are values as stripe-go makes them.

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stripe/stripe-go/v79"
)

func TestClassify(t *testing.T) {
	t.Parallel()
	answer := func(status int, kind stripe.ErrorType, retryAfter string) error {
		return &stripe.Error{
			HTTPStatusCode: status, Type: kind, Msg: "about sk_test_1234",
			APIResource: stripe.APIResource{LastResponse: &stripe.APIResponse{Header: http.Header{"Retry-After": {retryAfter}}}},
		}
	}
	invalid := stripe.ErrorTypeInvalidRequest
	for name, test := range map[string]struct {
		err     error
		again   bool // a RetryError; otherwise ErrRefused
		after   time.Duration
		nothing bool // nothing happened
	}{
		// No answer of Stripe's.
		"no connection":  {&url.Error{Op: "Post", URL: "https://api.stripe.com", Err: errors.New("refused")}, true, 0, false},
		"a long list":    {&url.Error{Op: "Get", URL: "https://api.stripe.com/v1/events?types[]=1234", Err: errors.New("refused")}, true, 0, false},
		"a timeout":      {context.DeadlineExceeded, true, 0, false},
		"something else": {errors.New("said sk_test_1234"), true, 0, false},

		// Turned away before anything ran.
		"409":           {answer(409, invalid, ""), true, 0, true},
		"429":           {answer(429, invalid, "7"), true, 7 * time.Second, true},
		"429, too long": {answer(429, invalid, "601"), true, 10 * time.Minute, true},
		"401":           {answer(401, invalid, ""), true, time.Minute, true},
		"403":           {answer(403, invalid, ""), true, time.Minute, true},

		// It may have run.
		"500":               {answer(500, stripe.ErrorTypeAPI, ""), true, 0, false},
		"503 with a wait":   {answer(503, stripe.ErrorTypeAPI, "5"), true, 5 * time.Second, false},
		"idempotency_error": {answer(400, stripe.ErrorTypeIdempotency, ""), false, 0, false},

		// Never.
		"400": {answer(400, invalid, ""), false, 0, true},
		"402": {answer(402, stripe.ErrorTypeCard, ""), false, 0, true},
		"404": {answer(404, invalid, ""), false, 0, true},
		"413": {answer(413, invalid, ""), false, 0, true},

		// Wrapped, as callers may.
		"wrapped": {fmt.Errorf("posting: %w", answer(409, invalid, "")), true, 0, true},
	} {
		got, nothing := classify(test.err)
		var retry *RetryError
		again := errors.As(got, &retry)
		if again != test.again || errors.Is(got, ErrRefused) == test.again || nothing != test.nothing {
			t.Errorf("%s: got %v, nothing happened %v; want a retry %v, %v", name, got, nothing, test.again, test.nothing)
		}
		if again && retry.After != test.after {
			t.Errorf("%s: wait %s, want %s", name, retry.After, test.after)
		}
		if strings.Contains(got.Error(), "1234") {
			t.Errorf("%s quotes what it should not: %v", name, got)
		}
		if errors.Is(got, ErrNotFound) != (name == "404") {
			t.Errorf("%s: %v, ErrNotFound %v", name, got, errors.Is(got, ErrNotFound))
		}
	}
}
