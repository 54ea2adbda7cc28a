package provider

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gorm.io/gorm"

	"paidonce/internal/database"
)

// begun is a call that an attempt has begun at.
type begun struct {
	Call

	KeyTooOld bool  // the provider may have forgotten the key: it must not be sent again
	Unwanted  error `gorm:"-"` // nobody wants it any more, but it may have been made
}

// begin marks the call as being sent, and returns it; nil if it was settled before. A call
// whose key is too old is marked too: looking for what it did is also done by one at a time.
// The database alone tells the time: first_sent_at, the lease and the key's age are all by
// its clock, however wrong that of a process is.
func (c *Calls) begin(ctx context.Context, key string) (*begun, error) {
	// Invariant I7: what may have happened is on record before it can happen.
	// Without it: a process that dies during the request leaves no trace of it. CW9, CW10.
	const begin = `
UPDATE provider_calls
SET state = 'sending', sending_until = now() + make_interval(secs => @lease), attempts = attempts + 1,
    first_sent_at = coalesce(first_sent_at, now()),
    last_sent_at = CASE WHEN first_sent_at <= now() - make_interval(secs => @key_life) THEN last_sent_at ELSE now() END
WHERE idempotency_key = @key
  AND livemode = @livemode AND account = @account
  AND (state IN ('intended', 'unknown') OR (state = 'sending' AND sending_until <= now()))
RETURNING *, first_sent_at <= now() - make_interval(secs => @key_life) AS key_too_old`
	var rows []begun
	var unwanted error
	err := c.DB.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		err := tx.Raw(begin, map[string]any{
			"key": key, "lease": c.lease().Seconds(), "key_life": KeyLife.Seconds(),
			"livemode": c.Stripe.Livemode(), "account": c.Stripe.Account(),
		}).Scan(&rows).Error
		if err != nil || len(rows) == 0 || c.Guard == nil || rows[0].KeyTooOld {
			return err
		}
		err = c.Guard(ctx, tx, rows[0].Call)
		if !errors.Is(err, ErrNotWanted) {
			return err
		}
		if !rows[0].firstSending() {
			rows[0].Unwanted = err // what it did is looked for, and it is not sent again
			return nil
		}
		unwanted = err
		return dropCall(tx, key, err)
	})
	switch {
	case err != nil:
		return nil, fmt.Errorf("beginning call %s: %w", key, err)
	case unwanted != nil:
		return nil, fmt.Errorf("call %s: %w: %w", key, ErrRefused, unwanted)
	case len(rows) == 1:
		return &rows[0], nil
	}
	return nil, c.explain(ctx, key)
}

// dropCall ends a call that nobody wants any more, before it was ever sent.
func dropCall(tx *gorm.DB, key string, why error) error {
	const drop = `
UPDATE provider_calls
SET state = 'failed', sending_until = NULL, first_sent_at = NULL, last_sent_at = NULL, last_error = ?, finished_at = now()
WHERE idempotency_key = ?`
	return tx.Exec(drop, why.Error(), key).Error
}

func (c *Calls) lease() time.Duration {
	if c.Lease == 0 {
		return DefaultLease
	}
	return c.Lease
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
	if call.Livemode != c.Stripe.Livemode() || call.Account != c.Stripe.Account() {
		return fmt.Errorf("call %s: %w", key, ErrOtherWorld)
	}
	return fmt.Errorf("call %s: %w", key, ErrInFlight)
}

// finish records the answer and applies it, once: if another performer, who took over after
// this one's lease, was faster, nothing is applied again. The note says how the answer was
// come by, if not as the answer to the request.
func (c *Calls) finish(ctx context.Context, call Call, answer Answer, note string, settle Settle) error {
	const finish = `
UPDATE provider_calls
SET state = 'sent', sending_until = NULL, result_id = ?, last_error = nullif(?, ''), finished_at = ?
WHERE idempotency_key = ? AND state <> 'sent'`
	err := c.DB.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		finished := tx.Exec(finish, answer.ID, note, c.Now(), call.IdempotencyKey)
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

// outcome is what is known of an attempt that brought no answer.
type outcome struct {
	err   error     // what the caller is told
	state CallState // what the row says

	// mute: the key will bring this answer again and no other, whatever the call did.
	mute bool
}

// sortOut sorts out why a request failed, and what is known of its outcome.
func (c *Calls) sortOut(call Call, cause error) outcome {
	classified, nothingHappened := classify(cause)
	o := outcome{err: classified, state: CallUnknown, mute: isMute(cause)}
	switch {
	case errors.Is(classified, ErrRefused) && nothingHappened:
		o.state = CallFailed
	case nothingHappened && call.firstSending():
		o.state = CallIntended // as if it had never been sent, its key unused
	}
	return o
}

// firstSending reports whether no earlier attempt can have had an effect: those that certainly
// had none took their time of sending back.
func (c Call) firstSending() bool {
	return c.FirstSentAt != nil && c.LastSentAt != nil && c.FirstSentAt.Equal(*c.LastSentAt)
}

// record ends an attempt that did not settle, and returns why. If another performer has
// taken the call over since, the row is about that one's attempt, and is left alone.
func (c *Calls) record(ctx context.Context, call Call, state CallState, why error) error {
	const record = `
UPDATE provider_calls
SET state = @state, sending_until = NULL, last_error = @why,
    finished_at = CASE WHEN @state = 'failed' THEN CAST(@now AS timestamptz) END,
    first_sent_at = CASE WHEN @state = 'intended' THEN NULL ELSE first_sent_at END,
    last_sent_at = CASE WHEN @state = 'intended' THEN NULL ELSE last_sent_at END
WHERE idempotency_key = @key AND state = 'sending' AND attempts = @attempt`

	// The caller may have been told to stop while the request was under way; what became
	// of it is worth a moment more.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()
	err := c.DB.WithContext(ctx).Exec(record, map[string]any{
		"state": state, "why": database.Text(why.Error()), "now": c.Now(), "key": call.IdempotencyKey, "attempt": call.Attempts,
	}).Error
	if err != nil {
		return errors.Join(why, fmt.Errorf("recording the failure of call %s: %w", call.IdempotencyKey, err))
	}
	return fmt.Errorf("call %s: %w", call.IdempotencyKey, why)
}

// recordTimeout bounds the writing down of a failure.
const recordTimeout = 5 * time.Second
