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
	timeout time.Duration
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
//
// stripe-go would retry too, twice by default and within seconds, and obey Stripe-Should-Retry.
// Its retries carry the same key, and so would do no harm; but they would hold a worker, run
// past the call's lease, and multiply with the queue's: three requests an attempt, in step with
// everybody else's. So there is one schedule, and it is not here.
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
		key: c.Key, account: c.Account, timeout: timeout, backend: backend,
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

// SessionAnswer is what we keep of a created checkout session.
type SessionAnswer struct {
	ID        string
	URL       string
	CreatedAt time.Time
	Resources []string
}

// errNoSession means that an answer to a creation is not a session.
var errNoSession = errors.New("the answer is not a checkout session")
