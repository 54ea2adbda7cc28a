package provider

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"gorm.io/gorm"
)

// Operation is a kind of call; it is the first part of the call's key.
type Operation string

// The operations.
const (
	OpCheckout Operation = "checkout" // create a checkout session for a payment
	OpFulfill  Operation = "fulfill"  // write order and license ids onto the intent
)

// CallState is where a call stands.
type CallState string

// The states of a call.
const (
	CallIntended CallState = "intended" // written down; nothing is under way
	CallSending  CallState = "sending"  // somebody is at it until sending_until, or died at it
	CallSent     CallState = "sent"     // answered, and the answer is applied
	CallUnknown  CallState = "unknown"  // it may or may not have happened; the same key finds out
	CallFailed   CallState = "failed"   // refused for good
)

// Call is a row of provider_calls.
type Call struct {
	IdempotencyKey string `gorm:"primaryKey"`
	Provider       string
	Operation      Operation
	SubjectID      uuid.UUID
	Path           string
	Params         []byte
	State          CallState
	SendingUntil   *time.Time
	FirstSentAt    *time.Time
	Attempts       int
	ResultID       *string
	LastError      *string
	CreatedAt      time.Time
	FinishedAt     *time.Time
}

// TableName tells gorm the table.
func (Call) TableName() string { return "provider_calls" }

// Answer is what the provider said to a call.
type Answer struct {
	ID   string
	Body []byte
}

// Enqueuer puts the job that performs a call into the transaction that writes its row.
type Enqueuer interface {
	EnqueueCall(ctx context.Context, tx *gorm.DB, c Call) error
}

// Settle applies an answer, in the transaction that records it (TX4).
type Settle func(ctx context.Context, tx *gorm.DB, c Call, a Answer) error

// DefaultLease is how long a performer has before another may take the call over: longer
// than a request can take, so that two are not under way at once.
const DefaultLease = DefaultTimeout + 10*time.Second

// keyLife is how long a key is used. Stripe may forget one after 24 h
// (https://docs.stripe.com/api/idempotent_requests); an hour is left for clocks and queues.
const keyLife = 23 * time.Hour

// Calls performs calls that change something at a provider: written down first, then sent
// under their own key, then settled.
type Calls struct {
	DB     *gorm.DB
	Stripe *Stripe // nil: not configured
	Jobs   Enqueuer
	Now    func() time.Time
	Lease  time.Duration // zero means DefaultLease; must exceed the client's timeout

	// Crash, if set, is called at every crash window with its id. Nil in production.
	Crash func(window string)
}

// Intend writes a call down and enqueues its job, in the caller's transaction. A call that
// is written down already stays as it is: its first bytes are its bytes.
func (c *Calls) Intend(ctx context.Context, tx *gorm.DB, call Call) error {
	const intend = `
INSERT INTO provider_calls (idempotency_key, provider, operation, subject_id, path, params, created_at)
VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (idempotency_key) DO NOTHING`
	inserted := tx.WithContext(ctx).Exec(intend,
		call.IdempotencyKey, call.Provider, call.Operation, call.SubjectID, call.Path, call.Params, c.Now())
	if inserted.Error != nil {
		return fmt.Errorf("writing down call %s: %w", call.IdempotencyKey, inserted.Error)
	}
	if inserted.RowsAffected == 0 {
		return nil
	}
	return c.Jobs.EnqueueCall(ctx, tx, call)
}

// Perform makes a call that was written down, and settles it. It is two transactions with
// the request between them, and never inside one (I8):
//
//	mark the row as sending ── request ── record the answer and apply it (TX4)
//
// It may be called any number of times, by the request handler and by the job: a call that
// was settled before returns nil and does nothing. Errors: ErrInFlight, ErrRefused,
// ErrKeyTooOld, ErrNotConfigured, or a RetryError.
func (c *Calls) Perform(ctx context.Context, key string, settle Settle) error {
	if c.Stripe == nil {
		return fmt.Errorf("call %s: %w", key, ErrNotConfigured)
	}
	c.crash("CW8")
	call, err := c.begin(ctx, key)
	if err != nil || call == nil {
		return err
	}

	// A process that dies here or below leaves the row as sending. Whoever finds it after
	// the lease sends the same bytes under the same key, and Stripe answers with what the
	// first one did.
	c.crash("CW9")
	answer, err := c.Stripe.post(ctx, call.Path, key, call.Params)
	c.crash("CW10")
	if err != nil {
		return c.fail(ctx, *call, err)
	}
	if err := c.finish(ctx, *call, Answer{ID: answer.ID, Body: answer.LastResponse.RawJSON}, settle); err != nil {
		return c.record(ctx, *call, CallUnknown, err) // the same key brings the same answer again
	}
	c.crash("CW11")
	return nil
}

// begin marks the call as being sent, and returns it; nil if it was settled before.
func (c *Calls) begin(ctx context.Context, key string) (*Call, error) {
	// Invariant I7: what may have happened is on record before it can happen.
	// Without it: a process that dies during the request leaves no trace of it. CW9, CW10.
	const begin = `
UPDATE provider_calls
SET state = 'sending', sending_until = now() + make_interval(secs => @lease), attempts = attempts + 1,
    first_sent_at = coalesce(first_sent_at, now())
WHERE idempotency_key = @key
  AND (state IN ('intended', 'unknown') OR (state = 'sending' AND sending_until <= now()))
  AND (first_sent_at IS NULL OR first_sent_at > now() - make_interval(secs => @key_life))
RETURNING *`
	lease := c.Lease
	if lease == 0 {
		lease = DefaultLease
	}
	var begun []Call
	err := c.DB.WithContext(ctx).Raw(begin, map[string]any{
		"key": key, "lease": lease.Seconds(), "key_life": keyLife.Seconds(),
	}).Scan(&begun).Error
	if err != nil {
		return nil, fmt.Errorf("beginning call %s: %w", key, err)
	}
	if len(begun) == 1 {
		return &begun[0], nil
	}
	return nil, c.explain(ctx, key)
}

// explain says why a call could not begin; nil if it was settled before.
func (c *Calls) explain(ctx context.Context, key string) error {
	var call Call
	if err := c.DB.WithContext(ctx).First(&call, "idempotency_key = ?", key).Error; err != nil {
		return fmt.Errorf("reading call %s: %w", key, err)
	}
	switch call.State {
	case CallSent:
		return nil
	case CallFailed:
		return fmt.Errorf("call %s: %w", key, ErrRefused)
	case CallSending, CallIntended, CallUnknown:
	}
	if call.FirstSentAt != nil && c.Now().Sub(*call.FirstSentAt) > keyLife {
		return fmt.Errorf("call %s: %w", key, ErrKeyTooOld)
	}
	return fmt.Errorf("call %s: %w", key, ErrInFlight)
}

// finish records the answer and applies it, once: if another performer, who took over after
// this one's lease, was faster, nothing is applied again.
func (c *Calls) finish(ctx context.Context, call Call, answer Answer, settle Settle) error {
	const finish = `
UPDATE provider_calls
SET state = 'sent', sending_until = NULL, result_id = ?, last_error = NULL, finished_at = ?
WHERE idempotency_key = ? AND state <> 'sent'`
	err := c.DB.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		finished := tx.Exec(finish, answer.ID, c.Now(), call.IdempotencyKey)
		if finished.Error != nil || finished.RowsAffected == 0 {
			return finished.Error
		}
		return settle(ctx, tx, call, answer)
	})
	if err != nil {
		return fmt.Errorf("settling: %w", err)
	}
	return nil
}

// fail sorts out why a request failed, and what is known of its outcome.
func (c *Calls) fail(ctx context.Context, call Call, cause error) error {
	classified, nothingHappened := classify(cause)
	state := CallUnknown
	switch {
	case errors.Is(classified, ErrRefused) && nothingHappened:
		state = CallFailed
	case nothingHappened && call.Attempts == 1:
		state = CallIntended
	}
	return c.record(ctx, call, state, classified)
}

// record ends an attempt that did not settle, and returns why. If another performer has
// taken the call over since, the row is about that one's attempt, and is left alone.
func (c *Calls) record(ctx context.Context, call Call, state CallState, why error) error {
	const record = `
UPDATE provider_calls
SET state = ?, sending_until = NULL, last_error = ?, finished_at = CASE WHEN ? = 'failed' THEN CAST(? AS timestamptz) END
WHERE idempotency_key = ? AND state = 'sending' AND attempts = ?`

	// The caller may have been told to stop while the request was under way; what became
	// of it is worth a moment more.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()
	err := c.DB.WithContext(ctx).Exec(record, state, why.Error(), state, c.Now(), call.IdempotencyKey, call.Attempts).Error
	if err != nil {
		return errors.Join(why, fmt.Errorf("recording the failure of call %s: %w", call.IdempotencyKey, err))
	}
	return fmt.Errorf("call %s: %w", call.IdempotencyKey, why)
}

// recordTimeout bounds the writing down of a failure.
const recordTimeout = 5 * time.Second

func (c *Calls) crash(window string) {
	if c.Crash != nil {
		c.Crash(window)
	}
}
