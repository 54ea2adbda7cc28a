package provider

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/stripe/stripe-go/v79"
	"github.com/stripe/stripe-go/v79/client"
	"github.com/stripe/stripe-go/v79/form"
)

// DefaultTimeout bounds one request to a provider. Stripe's own clients wait 80 s; a call
// that has not been answered after 20 is better made again under its key than waited for.
const DefaultTimeout = 20 * time.Second

// Stripe reads and changes objects at Stripe.
type Stripe struct {
	key     string
	account string
	backend stripe.Backend
	api     *client.API
}

// StripeConfig says where Stripe is and who we are there.
type StripeConfig struct {
	Key     string        // sk_… or rk_…; its prefix tells test mode from live
	Base    string        // "" for Stripe's own API
	Account string        // a connected account to act for; "" for our own
	Timeout time.Duration // of one request; zero means DefaultTimeout
}

// NewStripe returns a client. It makes each request once: retries are the job queue's, where
// they survive the process, are spaced out, and can be seen.
func NewStripe(c StripeConfig) *Stripe {
	timeout := c.Timeout
	if timeout == 0 {
		timeout = DefaultTimeout
	}
	config := &stripe.BackendConfig{
		HTTPClient:        &http.Client{Timeout: timeout},
		MaxNetworkRetries: stripe.Int64(0),
		EnableTelemetry:   stripe.Bool(false),
		LeveledLogger:     &stripe.LeveledLogger{Level: stripe.LevelNull}, // its log lines quote bodies
	}
	if c.Base != "" {
		config.URL = stripe.String(strings.TrimSuffix(c.Base, "/"))
	}
	backend := stripe.GetBackendWithConfig(stripe.APIBackend, config)
	return &Stripe{
		key: c.Key, account: c.Account, backend: backend,
		api: client.New(c.Key, &stripe.Backends{API: backend, Connect: backend, Uploads: backend}),
	}
}

// Livemode reports whether a key acts on real money. Restricted keys have the same form.
func Livemode(key string) bool {
	return strings.HasPrefix(key, "sk_live_") || strings.HasPrefix(key, "rk_live_")
}

// Livemode reports whether this client acts on real money.
func (s *Stripe) Livemode() bool { return Livemode(s.key) }

// Account is the connected account that this client acts for, "" for our own.
func (s *Stripe) Account() string { return s.account }

// answer is any object of the API: its id, and its bytes.
type answer struct {
	stripe.APIResource
	ID string `json:"id"`
}

// post sends a frozen body under its key.
func (s *Stripe) post(ctx context.Context, path, key string, body []byte) (*answer, error) {
	values, err := thaw(body)
	if err != nil {
		return nil, err
	}
	params := &stripe.Params{Context: ctx, IdempotencyKey: stripe.String(key)}
	if s.account != "" {
		params.SetStripeAccount(s.account)
	}
	var got answer
	if err := s.backend.CallRaw(http.MethodPost, path, s.key, values, params, &got); err != nil {
		return nil, err
	}
	return &got, nil
}

// freeze encodes parameters into the bytes that every attempt sends.
func freeze(params any) []byte {
	values := &form.Values{}
	form.AppendTo(values, params)
	return []byte(values.Encode())
}

// thaw turns frozen bytes back into ordered values, which encode to the same bytes again.
// A url.Values would sort them.
func thaw(body []byte) (*form.Values, error) {
	values := &form.Values{}
	for pair := range strings.SplitSeq(string(body), "&") {
		if pair == "" {
			continue
		}
		key, value, _ := strings.Cut(pair, "=")
		k, err := url.QueryUnescape(key)
		if err != nil {
			return nil, fmt.Errorf("frozen parameters: %w", err)
		}
		v, err := url.QueryUnescape(value)
		if err != nil {
			return nil, fmt.Errorf("frozen parameters: %w", err)
		}
		values.Add(k, v)
	}
	return values, nil
}

// PaymentState is a payment as the provider has it now.
type PaymentState struct {
	Resources []string // the session's id first, then its intent's and its charge's
	CreatedAt time.Time

	Succeeded, Processing, Expired, Canceled bool

	// Of a success: minor units, and the lower-case currency.
	ReceivedMinor, IntendedMinor int64
	Currency                     string
}

// ReadPayment reads a checkout session and its intent. What the intent says it received is
// the money; the session's total only stands in where there is no intent.
func (s *Stripe) ReadPayment(ctx context.Context, sessionID string) (PaymentState, error) {
	params := &stripe.CheckoutSessionParams{Params: stripe.Params{Context: ctx}}
	params.AddExpand("payment_intent")
	if s.account != "" {
		params.SetStripeAccount(s.account)
	}
	session, err := s.api.CheckoutSessions.Get(sessionID, params)
	if err != nil {
		classified, _ := classify(err)
		return PaymentState{}, fmt.Errorf("reading session %s: %w", sessionID, classified)
	}

	state := PaymentState{
		Resources: []string{session.ID},
		CreatedAt: time.Unix(session.Created, 0).UTC(),
		Expired:   session.Status == stripe.CheckoutSessionStatusExpired,
		Currency:  strings.ToLower(string(session.Currency)),
	}
	paid := session.PaymentStatus != stripe.CheckoutSessionPaymentStatusUnpaid
	intent := session.PaymentIntent
	if intent == nil {
		if session.Status == stripe.CheckoutSessionStatusComplete && paid {
			state.Succeeded, state.ReceivedMinor, state.IntendedMinor = true, session.AmountTotal, session.AmountTotal
		}
		return state, nil
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
	return state, nil
}

// SessionAnswer is what we keep of a created checkout session.
type SessionAnswer struct {
	ID        string
	URL       string
	CreatedAt time.Time
	Resources []string
}

// errNoSession means that an answer to a creation is not a session.
var errNoSession = errors.New("the answer is not a checkout session")
