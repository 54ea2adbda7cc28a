package provider

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/stripe/stripe-go/v79"
	"github.com/stripe/stripe-go/v79/form"
)

// Stripe lists up to 100 objects a page (https://docs.stripe.com/api/pagination). A hundred
// pages are what can be read within a job's time; a window with more is a person's work, who
// has a search at hand.
const (
	pageSize = 100
	maxPages = 100
)

// errTooMany means that a window holds more objects than are looked through.
var errTooMany = errors.New("too many objects in the window to look through")

// get reads any object, or a page of a list.
func (s *Stripe) get(ctx context.Context, path string, query any) (*answer, error) {
	params := &stripe.Params{Context: ctx}
	if s.account != "" {
		params.SetStripeAccount(s.account)
	}
	values := &form.Values{}
	if query != nil {
		form.AppendTo(values, query)
	}
	var got answer
	if err := s.backend.CallRaw(http.MethodGet, path, s.key, values, params, &got); err != nil {
		classified, _ := classify(err)
		return nil, fmt.Errorf("reading %s: %w", path, classified)
	}
	return &got, nil
}

// eachSession calls do for every session made from one time to another, the newest first.
func (s *Stripe) eachSession(ctx context.Context, from, to time.Time, do func(madeSession)) error {
	query := &stripe.CheckoutSessionListParams{CreatedRange: &stripe.RangeQueryParams{
		GreaterThanOrEqual: from.Unix(), LesserThanOrEqual: to.Unix(),
	}}
	return s.eachObject(ctx, "/v1/checkout/sessions", query, &query.ListParams, func(id string, raw []byte) {
		var named struct {
			ClientReferenceID string `json:"client_reference_id"`
		}
		if err := json.Unmarshal(raw, &named); err != nil {
			return
		}
		if metadata, ok := metadataOf(raw); ok {
			do(madeSession{ID: id, ClientReferenceID: named.ClientReferenceID, Metadata: metadata, raw: raw})
		}
	})
}

// eachObject calls do for every object of a list, the newest first. An object that cannot be
// read is none of ours, and does not hide the others. list is the part of the query that
// turns pages.
func (s *Stripe) eachObject(ctx context.Context, path string, query any, list *stripe.ListParams, do func(id string, raw []byte)) error {
	list.Limit = stripe.Int64(pageSize)
	for range maxPages {
		got, err := s.get(ctx, path, query)
		if err != nil {
			return err
		}
		var page struct {
			Object  string            `json:"object"`
			Data    []json.RawMessage `json:"data"`
			HasMore bool              `json:"has_more"`
		}
		if err := json.Unmarshal(got.LastResponse.RawJSON, &page); err != nil || page.Object != "list" {
			return fmt.Errorf("listing %s: %w", path, &RetryError{Cause: errUnreadable})
		}
		var last string
		for _, raw := range page.Data {
			var named struct {
				ID string `json:"id"`
			}
			if err := json.Unmarshal(raw, &named); err != nil {
				continue
			}
			last = named.ID
			do(named.ID, raw)
		}
		if !page.HasMore {
			return nil
		}
		if last == "" {
			return fmt.Errorf("listing %s: %w", path, &RetryError{Cause: errUnreadable})
		}
		list.StartingAfter = stripe.String(last)
	}
	return fmt.Errorf("listing %s: %w: %w", path, ErrRefused, errTooMany)
}
