package orders

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"gorm.io/gorm"

	"paidonce/internal/provider"
)

// Request names what a client asks for by a key of its own, so that asking again is asking
// once.
type Request struct {
	Route string // method and path: "POST /orders"
	Key   string
}

// Answered is the answer that a request was given, without what may not be stored.
type Answered struct {
	Status int
	Body   []byte // JSON
}

var (
	// ErrKeyReused is returned when a request's key was used for another request.
	ErrKeyReused = errors.New("the key was used for another request")

	// ErrInFlight is returned while somebody else is at work on the same thing.
	ErrInFlight = errors.New("the request is being worked on")
)

// RequestLease is how long the owner of a request has to answer it. It must exceed what a
// request handler may take; a retry that comes later takes the owner for dead.
const RequestLease = 45 * time.Second

// earlier is a row of api_requests that was there before.
type earlier struct {
	Fingerprint []byte
	OrderID     uuid.UUID
	CallKey     string
	Status      *int
	Answer      []byte
	Live        bool // its owner is at work
}

// claim writes the request down for this transaction to work on; what it is about to make
// has its ids already. If somebody has done so before, it returns that one instead, with its
// lease renewed if its owner is gone.
func (s *Store) claim(tx *gorm.DB, r *Request, fingerprint []byte, orderID uuid.UUID, callKey string) (*earlier, error) {
	if r == nil {
		return nil, nil //nolint:nilnil // nobody was there before
	}
	// Invariant: one effect per key of a client (api_requests_pkey).
	// Without it: a client that asks again after a timeout has ordered twice. CW17.
	//
	// Of several at once, one inserts, and the others wait here until it has committed.
	const claim = `
INSERT INTO api_requests (route, idempotency_key, fingerprint, order_id, call_key, locked_until, created_at)
VALUES (?, ?, ?, ?, ?, now() + make_interval(secs => ?), ?)
ON CONFLICT (route, idempotency_key) DO NOTHING`
	claimed := tx.Exec(claim, r.Route, r.Key, fingerprint, orderID, callKey, RequestLease.Seconds(), s.Now())
	if claimed.Error != nil {
		return nil, fmt.Errorf("writing down a request to %s: %w", r.Route, claimed.Error)
	}
	if claimed.RowsAffected == 1 {
		return nil, nil //nolint:nilnil // nobody was there before
	}
	return s.takeOver(tx, *r, fingerprint)
}

// takeOver returns the request that was written down before; nil if there is none. One that
// has no answer, and whose owner is gone, is the caller's from now on.
func (s *Store) takeOver(tx *gorm.DB, r Request, fingerprint []byte) (*earlier, error) {
	const look = `
SELECT fingerprint, order_id, call_key, status, answer, locked_until > now() AS live
FROM api_requests WHERE route = ? AND idempotency_key = ? FOR UPDATE`
	var rows []earlier
	if err := tx.Raw(look, r.Route, r.Key).Scan(&rows).Error; err != nil {
		return nil, fmt.Errorf("reading a request to %s: %w", r.Route, err)
	}
	if len(rows) == 0 {
		return nil, nil //nolint:nilnil // there is none
	}
	found := rows[0]
	switch {
	case string(found.Fingerprint) != string(fingerprint):
		return nil, ErrKeyReused
	case found.Status != nil:
		return &found, nil
	case found.Live:
		return nil, ErrInFlight
	}
	const renew = `UPDATE api_requests SET locked_until = now() + make_interval(secs => ?) WHERE route = ? AND idempotency_key = ?`
	if err := tx.Exec(renew, RequestLease.Seconds(), r.Route, r.Key).Error; err != nil {
		return nil, fmt.Errorf("taking over a request to %s: %w", r.Route, err)
	}
	return &found, nil
}

// madeBy is what an earlier request made.
func (s *Store) madeBy(tx *gorm.DB, e earlier) (Created, error) {
	created := Created{CallKey: e.CallKey}
	var err error
	if created.PaymentID, err = uuid.Parse(strings.TrimPrefix(e.CallKey, string(provider.OpCheckout)+":")); err != nil {
		return Created{}, fmt.Errorf("request with the call %s: %w", e.CallKey, err)
	}
	if err := tx.First(&created.Order, "id = ?", e.OrderID).Error; err != nil {
		return Created{}, fmt.Errorf("reading order %s: %w", e.OrderID, err)
	}
	if e.Status != nil {
		created.Answered = &Answered{Status: *e.Status, Body: e.Answer}
	}
	return created, nil
}

// Answer keeps the answer to a request, and returns the one that stands: the first. An owner
// who was slow, and was taken for dead, gives the answer of whoever took over.
func (s *Store) Answer(ctx context.Context, r Request, a Answered) (Answered, error) {
	const keep = `
UPDATE api_requests SET status = ?, answer = CAST(? AS jsonb)
WHERE route = ? AND idempotency_key = ? AND status IS NULL`
	tx := s.DB.WithContext(ctx)
	if err := tx.Exec(keep, a.Status, string(a.Body), r.Route, r.Key).Error; err != nil {
		return Answered{}, fmt.Errorf("keeping the answer of a request to %s: %w", r.Route, err)
	}
	const stands = `SELECT status, answer FROM api_requests WHERE route = ? AND idempotency_key = ?`
	var standing Answered
	if err := tx.Raw(stands, r.Route, r.Key).Row().Scan(&standing.Status, &standing.Body); err != nil {
		return Answered{}, fmt.Errorf("reading the answer of a request to %s: %w", r.Route, err)
	}
	return standing, nil
}

// Leave ends the lease of a request whose answer is not its last: the next one that asks
// goes on from here, and need not wait.
func (s *Store) Leave(ctx context.Context, r Request) error {
	const leave = `UPDATE api_requests SET locked_until = now() WHERE route = ? AND idempotency_key = ? AND status IS NULL`
	if err := s.DB.WithContext(ctx).Exec(leave, r.Route, r.Key).Error; err != nil {
		return fmt.Errorf("leaving a request to %s: %w", r.Route, err)
	}
	return nil
}
