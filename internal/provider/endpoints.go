package provider

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/stripe/stripe-go/v79"
)

// EndpointMarker is the metadata key of webhook endpoints that were made for us. It tells
// them from those that a person made, which are not ours to change.
const EndpointMarker = "paidonce_endpoint"

// Endpoint is a webhook endpoint at Stripe.
type Endpoint struct {
	ID          string            `json:"id"`
	URL         string            `json:"url"`
	Status      string            `json:"status"`      // enabled or disabled
	APIVersion  string            `json:"api_version"` // "" is the account's default; set at creation, for good
	Events      []string          `json:"enabled_events"`
	Description string            `json:"description"`
	Metadata    map[string]string `json:"metadata"`
	Livemode    bool              `json:"livemode"`
	Created     int64             `json:"created"`

	// Secret is what its deliveries are signed with. Stripe tells it in the answer to the
	// creation, and never again.
	Secret string `json:"secret"`
}

// Ours reports whether the endpoint carries our marker.
func (e Endpoint) Ours() bool { return e.Metadata[EndpointMarker] != "" }

// Enabled reports whether Stripe delivers to it.
func (e Endpoint) Enabled() bool { return e.Status == "enabled" }

// EndpointRequest is what an endpoint of ours is made with.
type EndpointRequest struct {
	URL         string
	Events      []string
	Description string

	// After is the endpoint that this one takes the place of; "" for the first. It is part of
	// the key: without it, a replacement would be answered with what it is to replace.
	After string
}

// platform is the client that acts for the account of its key. Endpoints belong there also
// when orders are sold for a connected account: Stripe delivers that account's events to the
// platform's Connect endpoints (https://docs.stripe.com/connect/webhooks).
func (s *Stripe) platform() *Stripe {
	own := *s
	own.account = ""
	return &own
}

// Endpoints lists every webhook endpoint, newest first.
func (s *Stripe) Endpoints(ctx context.Context) ([]Endpoint, error) {
	query := &stripe.WebhookEndpointListParams{}
	query.Limit = stripe.Int64(pageSize)
	var all []Endpoint
	for range maxPages {
		got, err := s.platform().get(ctx, "/v1/webhook_endpoints", query)
		if err != nil {
			return nil, err
		}
		var page struct {
			Data    []Endpoint
			HasMore bool `json:"has_more"`
		}
		if err := json.Unmarshal(got.LastResponse.RawJSON, &page); err != nil {
			return nil, fmt.Errorf("reading the webhook endpoints: %w", errUnreadable)
		}
		all = append(all, page.Data...)
		if !page.HasMore || len(page.Data) == 0 {
			return all, nil
		}
		query.StartingAfter = stripe.String(page.Data[len(page.Data)-1].ID)
	}
	return nil, fmt.Errorf("reading the webhook endpoints: %w", errTooMany)
}

// endpointTries bounds how often a creation is sent. Each is the same request under the same
// key, so that after a lost answer the next one brings the secret after all.
const endpointTries = 3

// CreateEndpoint makes a webhook endpoint with the API version that this code is written for.
// Its key is made of the request, so that two that ask at once make one. Stripe remembers a
// key for a day, also that of an endpoint that was deleted meanwhile; then the next key
// follows from that one's id.
func (s *Stripe) CreateEndpoint(ctx context.Context, r EndpointRequest) (Endpoint, error) {
	for range endpointTries {
		made, err := s.createOnce(ctx, r)
		if err != nil {
			return Endpoint{}, fmt.Errorf("creating the webhook endpoint: %w", err)
		}
		_, err = s.platform().get(ctx, "/v1/webhook_endpoints/"+made.ID, nil)
		if !errors.Is(err, ErrNotFound) {
			return made, err
		}
		r.After = made.ID
	}
	return Endpoint{}, fmt.Errorf("creating the webhook endpoint: %w: every one that was made is gone again", ErrRefused)
}

func (s *Stripe) createOnce(ctx context.Context, r EndpointRequest) (Endpoint, error) {
	params := &stripe.WebhookEndpointParams{
		URL: stripe.String(r.URL), EnabledEvents: stripe.StringSlice(r.Events), APIVersion: stripe.String(APIVersion),
		Description: stripe.String(r.Description), Metadata: map[string]string{EndpointMarker: "1"},
	}
	if s.account != "" {
		params.Connect = stripe.Bool(true)
	}
	body := freeze(params)
	sum := sha256.Sum256(append(body, "\nafter "+r.After...))
	key := "endpoint:" + hex.EncodeToString(sum[:16])

	for try := 1; ; try++ {
		got, err := s.platform().post(ctx, "/v1/webhook_endpoints", key, body)
		if err == nil {
			return endpointOf(got)
		}
		classified, nothingHappened := classify(err)
		var retry *RetryError
		if !errors.As(classified, &retry) || nothingHappened || try == endpointTries || ctx.Err() != nil {
			return Endpoint{}, classified
		}
	}
}

// EndpointChange is what may be changed about an endpoint. It takes the endpoint over, and
// enables it.
type EndpointChange struct {
	Events      []string
	Description string
}

// UpdateEndpoint changes an endpoint. It sets values and adds up nothing, so that a repeat
// does no more than the first; it is sent once.
func (s *Stripe) UpdateEndpoint(ctx context.Context, id string, c EndpointChange) (Endpoint, error) {
	body := freeze(&stripe.WebhookEndpointParams{
		EnabledEvents: stripe.StringSlice(c.Events), Description: stripe.String(c.Description),
		Disabled: stripe.Bool(false), Metadata: map[string]string{EndpointMarker: "1"},
	})
	values, err := thaw(body)
	if err != nil {
		return Endpoint{}, err
	}
	var got answer
	err = s.backend.CallRaw(http.MethodPost, "/v1/webhook_endpoints/"+id, s.key, values, &stripe.Params{Context: ctx}, &got)
	if err != nil {
		classified, _ := classify(err)
		return Endpoint{}, fmt.Errorf("updating webhook endpoint %s: %w", id, classified)
	}
	return endpointOf(&got)
}

// DeleteEndpoint deletes an endpoint; one that is gone already is no error.
func (s *Stripe) DeleteEndpoint(ctx context.Context, id string) error {
	var got answer
	err := s.backend.CallRaw(http.MethodDelete, "/v1/webhook_endpoints/"+id, s.key, nil, &stripe.Params{Context: ctx}, &got)
	if err != nil {
		classified, _ := classify(err)
		if errors.Is(classified, ErrNotFound) {
			return nil
		}
		return fmt.Errorf("deleting webhook endpoint %s: %w", id, classified)
	}
	return nil
}

func endpointOf(got *answer) (Endpoint, error) {
	var e Endpoint
	if err := json.Unmarshal(got.LastResponse.RawJSON, &e); err != nil || e.ID == "" {
		return Endpoint{}, fmt.Errorf("webhook endpoint: %w", errUnreadable)
	}
	return e, nil
}

// Account is the account that a key belongs to.
type Account struct {
	ID             string `json:"id"`
	ChargesEnabled bool   `json:"charges_enabled"` // Stripe lets it take payments
}

// ErrNotTold is returned by OwnAccount for a key without the permission to read the account.
var ErrNotTold = errors.New("the key may not read the account")

// OwnAccount reads the account that the key belongs to.
func (s *Stripe) OwnAccount(ctx context.Context) (Account, error) {
	var got answer
	err := s.backend.CallRaw(http.MethodGet, "/v1/account", s.key, nil, &stripe.Params{Context: ctx}, &got)
	var refused *stripe.Error
	switch {
	case errors.As(err, &refused) && refused.HTTPStatusCode == http.StatusForbidden:
		return Account{}, ErrNotTold
	case err != nil:
		classified, _ := classify(err)
		return Account{}, fmt.Errorf("reading the account: %w", classified)
	}
	var own Account
	if err := json.Unmarshal(got.LastResponse.RawJSON, &own); err != nil || own.ID == "" {
		return Account{}, fmt.Errorf("reading the account: %w", errUnreadable)
	}
	return own, nil
}
