package provider

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"gorm.io/gorm"
)

// Operation is a kind of call; it is the first part of the call's key.
type Operation string

// The operations.
const (
	OpCheckout Operation = "checkout" // create a checkout session for a payment
	OpExpire   Operation = "expire"   // end an open checkout session
	OpFulfill  Operation = "fulfill"  // write order and license ids onto the intent
	OpRefund   Operation = "refund"   // send money back
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
	Livemode       bool   // the world that the call is meant for
	Account        string // "" for our own
	Operation      Operation
	SubjectID      uuid.UUID
	Path           string
	Params         []byte
	State          CallState
	SendingUntil   *time.Time
	FirstSentAt    *time.Time
	LastSentAt     *time.Time
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

// KeyLife is how long a key is used. Stripe may forget one after 24 h
// (https://docs.stripe.com/api/idempotent_requests); an hour is left for clocks and queues.
const KeyLife = 23 * time.Hour

// Times bound an attempt at a call, and all attempts together. Whoever schedules them has to
// fit in: Request < Lease < the time of an attempt, and the last attempt within KeyLife.
type Times struct {
	Request, Lease, KeyLife time.Duration
}

// Times returns the times of c.
func (c *Calls) Times() Times {
	request := DefaultTimeout
	if c.Stripe != nil {
		request = c.Stripe.timeout
	}
	return Times{Request: request, Lease: c.lease(), KeyLife: KeyLife}
}

// Calls performs calls that change something at a provider: written down first, then sent
// under their own key, then settled.
type Calls struct {
	DB     *gorm.DB
	Stripe *Stripe // nil: not configured
	Jobs   Enqueuer
	Now    func() time.Time
	Lease  time.Duration // zero means DefaultLease; must exceed the client's timeout
	Log    *slog.Logger  // nil: alerts are in the error and in last_error alone

	// Guard is asked before every sending, in the transaction that marks the call as sending. An
	// error that is ErrNotWanted ends a call that was never sent; what one did that may have been
	// sent is looked for. nil: every call is still wanted.
	Guard func(ctx context.Context, tx *gorm.DB, call Call) error

	// Crash, if set, is called at every crash window with its id. Nil in production.
	Crash func(window string)
}

// Intend writes a call down and enqueues its job, in the caller's transaction. A call that
// is written down already stays as it is: its first bytes are its bytes.
func (c *Calls) Intend(ctx context.Context, tx *gorm.DB, call Call) error {
	// The look comes first so that nobody waits: ON CONFLICT alone waits for a transaction that
	// changes the row. One that settles the call does, and may wait for the order that the
	// caller holds.
	const intend = `
INSERT INTO provider_calls (idempotency_key, provider, livemode, account, operation, subject_id, path, params, created_at)
SELECT ?, ?, ?::boolean, ?, ?, ?::uuid, ?, ?::bytea, ?::timestamptz
WHERE NOT EXISTS (SELECT FROM provider_calls WHERE idempotency_key = ?)
ON CONFLICT (idempotency_key) DO NOTHING`
	inserted := tx.WithContext(ctx).Exec(intend,
		call.IdempotencyKey, call.Provider, call.Livemode, call.Account, call.Operation, call.SubjectID, call.Path, call.Params, c.Now(),
		call.IdempotencyKey)
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
// Where the key cannot bring the answer any more, what the call did is looked for at the
// provider and settled as if it had been the answer (see adopt). It may be called any number
// of times, by the request handler and by the job: a call that was settled before returns
// nil and does nothing. Errors: ErrInFlight, ErrRefused, ErrKeyTooOld, ErrNotConfigured,
// ErrOtherWorld, or a RetryError.
func (c *Calls) Perform(ctx context.Context, key string, settle Settle) error {
	if c.Stripe == nil {
		return fmt.Errorf("call %s: %w", key, ErrNotConfigured)
	}
	c.crash("CW8")
	call, err := c.begin(ctx, key)
	if err != nil || call == nil {
		return err
	}

	// Invariant I7: a key is not sent once the provider may have forgotten it.
	// Without it: a retry on the second day opens a second checkout. CW10.
	if call.KeyTooOld {
		return c.adopt(ctx, call.Call, outcome{err: ErrKeyTooOld, state: CallUnknown}, settle)
	}

	// Likewise once nobody wants it: it is looked for, since it may have been made. If nothing is
	// there it has failed; if nobody could look, it stays unknown, and somebody has to see it.
	if call.Unwanted != nil {
		return c.adopt(ctx, call.Call, outcome{err: fmt.Errorf("%w: %w", ErrRefused, call.Unwanted), state: CallFailed}, settle)
	}

	// A process that dies here or below leaves the row as sending. Whoever finds it after
	// the lease sends the same bytes under the same key, and Stripe answers with what the
	// first one did.
	c.crash("CW9")
	answer, err := c.Stripe.post(ctx, call.Path, key, call.Params)
	c.crash("CW10")
	if err != nil {
		failed := c.sortOut(call.Call, err)
		if failed.mute {
			return c.adopt(ctx, call.Call, failed, settle)
		}
		return c.record(ctx, call.Call, failed.state, failed.err)
	}
	if err := c.finish(ctx, call.Call, Answer{ID: answer.ID, Body: answer.LastResponse.RawJSON}, "", settle); err != nil {
		return c.record(ctx, call.Call, CallUnknown, err) // the same key brings the same answer again
	}
	c.crash("CW11")
	return nil
}

func (c *Calls) crash(window string) {
	if c.Crash != nil {
		c.Crash(window)
	}
}
