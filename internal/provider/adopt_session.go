package provider

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"
)

// windowSlack widens the window in which a call's object is looked for: for the difference
// between two clocks, and for the time that a request was under way.
const windowSlack = 5 * time.Minute

// errOthersToo means that more than one call may have made what was found. An old row does not
// name its payment in what it sends, so that nothing tells whose it is.
var errOthersToo = fmt.Errorf("%w: more than one call may have made what was found", ErrRefused)

// madeSession is what tells whose a session is. Metadata is our own word: a buyer cannot set
// it, while a payment link lets one choose the client_reference_id.
type madeSession struct {
	ID                string
	ClientReferenceID string
	Metadata          map[string]string
	raw               json.RawMessage
}

// lookForSession lists every session made in the window of the call, and returns the one
// that names the call's payment; the oldest, if there are several: it is what a buyer was
// sent to.
func (c *Calls) lookForSession(ctx context.Context, call Call) (*Answer, error) {
	wanted, err := writtenMetadata(call.Params)
	if err != nil {
		return nil, err
	}
	from, to := window(call)
	var found []madeSession
	err = c.Stripe.eachSession(ctx, from, to, func(s madeSession) {
		if s.madeBy(wanted) {
			found = append(found, s)
		}
	})
	if err != nil {
		return nil, err
	}
	if wanted[PaymentMarker] == "" {
		if found, err = c.unambiguous(ctx, call, wanted[OrderMarker], found); err != nil {
			return nil, err
		}
	}
	if len(found) == 0 {
		return nil, nil // no trace of it
	}
	oldest := found[len(found)-1] // Stripe lists the newest first
	if len(found) > 1 {
		ids := make([]string, len(found))
		for i, s := range found {
			ids[i] = s.ID
		}
		c.alert(ctx, call, "several sessions name one payment: the oldest is adopted, the others stay open", "found", ids, "adopted", oldest.ID)
	}
	return &Answer{ID: oldest.ID, Body: oldest.raw}, nil
}

// madeBy reports whether the session carries what the call writes.
func (s madeSession) madeBy(wanted map[string]string) bool {
	if wanted[OrderMarker] == "" || s.Metadata[OrderMarker] != wanted[OrderMarker] {
		return false
	}
	if wanted[PaymentMarker] == "" {
		return s.Metadata[PaymentMarker] == "" && s.ClientReferenceID == wanted[OrderMarker]
	}
	return s.Metadata[PaymentMarker] == wanted[PaymentMarker]
}

// unambiguous is for a call that was written down before payments were named in it: what
// was found is its own only if it is no other call's, and could be no other call's.
func (c *Calls) unambiguous(ctx context.Context, call Call, order string, found []madeSession) ([]madeSession, error) {
	const others = `
SELECT coalesce(result_id, '') FROM provider_calls
WHERE provider = ? AND operation = ? AND idempotency_key <> ? AND first_sent_at IS NOT NULL
  AND state <> 'failed' AND position(convert_to(?, 'UTF8') IN params) > 0`
	var results []string
	err := c.DB.WithContext(ctx).Raw(others, call.Provider, call.Operation, call.IdempotencyKey, order).Scan(&results).Error
	if err != nil {
		return nil, fmt.Errorf("reading the other calls of order %s: %w", order, err)
	}
	theirs := make(map[string]bool, len(results))
	for _, id := range results {
		theirs[id] = true
	}
	var left []madeSession
	for _, s := range found {
		if !theirs[s.ID] {
			left = append(left, s)
		}
	}
	if len(left) > 1 || len(left) == 1 && theirs[""] {
		return nil, errOthersToo
	}
	return left, nil
}

// window is when the call can have made something. A row that was last sent before that was
// written down may have been sent for as long as its key lived.
func window(call Call) (from, to time.Time) {
	from, to = *call.FirstSentAt, call.FirstSentAt.Add(KeyLife)
	if call.LastSentAt != nil {
		to = *call.LastSentAt
	}
	return from.Add(-windowSlack), to.Add(windowSlack)
}

// writtenMetadata is the metadata that frozen parameters write.
func writtenMetadata(params []byte) (map[string]string, error) {
	values, err := url.ParseQuery(string(params))
	if err != nil {
		return nil, fmt.Errorf("%w: frozen parameters: %w", ErrRefused, err)
	}
	metadata := map[string]string{}
	for name := range values {
		if key, ok := strings.CutPrefix(name, "metadata["); ok {
			metadata[strings.TrimSuffix(key, "]")] = values.Get(name)
		}
	}
	if len(metadata) == 0 {
		return nil, fmt.Errorf("%w: %w", ErrRefused, errNoMarks)
	}
	return metadata, nil
}

// errNoMarks means that a call writes nothing by which to find its object.
var errNoMarks = errors.New("the call carries no metadata to look for")

// metadataOf reads an object's metadata; ok is false if it is not as Stripe writes it, a
// string for each key. A number would lose its digits on the way through a map.
func metadataOf(object []byte) (metadata map[string]string, ok bool) {
	var o struct{ Metadata map[string]string }
	return o.Metadata, json.Unmarshal(object, &o) == nil
}
