package webhooks

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"gorm.io/gorm"

	"paidonce/internal/database"
)

// Delivery is a stored event, as a drainer gets it.
type Delivery struct {
	Provider    string
	EventID     string
	EventType   string
	ResourceID  string
	Livemode    bool
	Account     string
	Source      Source
	Body        []byte
	ReceivedAt  time.Time
	OpenedAt    time.Time
	Attempts    int
	Outcome     *Outcome // parked, or nil
	ProcessedAt *time.Time

	// Waited is how long the delivery had been open when it was claimed, by the
	// database's clock.
	Waited time.Duration
}

// Key is the delivery's key in the ledger.
func (d Delivery) Key() Key { return Key{Provider: d.Provider, EventID: d.EventID} }

// Claim hands out due deliveries: it counts an attempt on each, marks them with the token,
// and gives the claimer until the lease lapses. It is one small statement and commits by
// itself, so that whatever happens next, the attempt has been counted.
//
// A row that was claimed before and never finished may be what killed its process. It is
// handed out alone, so that it takes no other row with it; and if it is out of attempts it
// is ended here, as dead, by the same statement: it needs nobody who survives it. The
// second list holds those.
func (i *Inbox) Claim(ctx context.Context, token Claim, limit, maxAttempts int, lease time.Duration) (claimed, died []Delivery, err error) {
	const claim = `
WITH due AS (
    SELECT provider, event_id, attempts, next_attempt_at, claim IS NOT NULL AS suspect
    FROM webhook_deliveries
    WHERE processed_at IS NULL AND next_attempt_at <= now() AND (claim_until IS NULL OR claim_until <= now())
    ORDER BY next_attempt_at
    LIMIT @limit
    FOR UPDATE SKIP LOCKED
), head AS (
    SELECT * FROM due WHERE NOT (suspect AND attempts >= @max_attempts) ORDER BY next_attempt_at LIMIT 1
), picked AS (
    SELECT due.provider, due.event_id, suspect AND attempts >= @max_attempts AS exhausted
    FROM due
    WHERE (suspect AND attempts >= @max_attempts)
       OR CASE WHEN (SELECT suspect FROM head)
               THEN (provider, event_id) = (SELECT provider, event_id FROM head)
               ELSE NOT suspect END
)
UPDATE webhook_deliveries d
SET attempts     = CASE WHEN exhausted THEN d.attempts ELSE d.attempts + 1 END,
    claim        = CASE WHEN exhausted THEN NULL ELSE CAST(@token AS uuid) END,
    claim_until  = CASE WHEN exhausted THEN NULL ELSE now() + make_interval(secs => @lease) END,
    processed_at = CASE WHEN exhausted THEN now() END,
    outcome      = CASE WHEN exhausted THEN 'dead' ELSE d.outcome END,
    last_error   = CASE WHEN exhausted THEN 'its process ended, or overslept, every time it was tried' ELSE d.last_error END
FROM picked
WHERE d.provider = picked.provider AND d.event_id = picked.event_id
RETURNING d.provider, d.event_id, d.event_type, d.resource_id, d.livemode, d.account, d.source, d.body,
    d.received_at, d.opened_at, d.attempts, d.outcome, d.processed_at,
    CAST(extract(epoch FROM now() - d.opened_at) * 1e9 AS bigint) AS waited`

	var rows []Delivery
	err = i.DB.WithContext(ctx).Raw(claim, map[string]any{
		"token": token, "limit": limit, "max_attempts": maxAttempts, "lease": lease.Seconds(),
	}).Scan(&rows).Error
	if err != nil {
		return nil, nil, fmt.Errorf("claiming deliveries: %w", err)
	}
	for _, row := range rows {
		if row.ProcessedAt != nil {
			died = append(died, row)
		} else {
			claimed = append(claimed, row)
		}
	}
	return claimed, died, nil
}

// Lock takes the row locks on those of the keys that still carry the token, and returns
// them. A drainer that overslept its lease finds them claimed by another, or finished, and
// gets none: what it had in mind for them does not happen.
func (i *Inbox) Lock(ctx context.Context, tx *gorm.DB, token Claim, keys []Key) (map[Key]bool, error) {
	const lock = `
SELECT provider, event_id FROM webhook_deliveries
WHERE (provider, event_id) IN @keys AND claim = @token AND processed_at IS NULL
ORDER BY provider, event_id
FOR UPDATE`
	var held []Key
	err := tx.WithContext(ctx).Raw(lock, map[string]any{"keys": pairs(keys), "token": token}).Scan(&held).Error
	if err != nil {
		return nil, fmt.Errorf("locking claimed deliveries: %w", err)
	}
	ours := make(map[Key]bool, len(held))
	for _, key := range held {
		ours[key] = true
	}
	return ours, nil
}

// Verdict is how one delivery's processing ended.
type Verdict struct {
	Key       Key
	Outcome   Outcome
	Detail    string        // "" if the outcome says it all
	Resources []string      // of a waiting delivery: the ids that will find it again
	RetryIn   time.Duration // of a parked delivery
}

// Finish writes a verdict, in the transaction that did what it says (TX2). It ends the
// claim. A parked delivery stays open, gets its attempt back, and is due again after
// RetryIn.
func (i *Inbox) Finish(ctx context.Context, tx *gorm.DB, v Verdict) error {
	const finish = `
UPDATE webhook_deliveries
SET outcome = @outcome, detail = NULLIF(@detail, ''), last_error = NULL, claim = NULL, claim_until = NULL,
    processed_at = CASE WHEN @parked THEN NULL ELSE now() END,
    attempts = CASE WHEN @parked THEN GREATEST(attempts - 1, 0) ELSE attempts END,
    next_attempt_at = CASE WHEN @parked THEN now() + make_interval(secs => @retry_in) ELSE next_attempt_at END
WHERE provider = @provider AND event_id = @event_id`
	err := tx.WithContext(ctx).Exec(finish, map[string]any{
		"outcome": v.Outcome, "detail": database.Text(v.Detail), "parked": v.Outcome == OutcomeParked, "retry_in": v.RetryIn.Seconds(),
		"provider": v.Key.Provider, "event_id": v.Key.EventID,
	}).Error
	if err != nil {
		return fmt.Errorf("finishing delivery %s: %w", v.Key, err)
	}
	return i.rememberResources(ctx, tx, v)
}

// rememberResources keeps the ids of a delivery that waits, and forgets those of one that
// found its payment.
func (i *Inbox) rememberResources(ctx context.Context, tx *gorm.DB, v Verdict) error {
	waits := v.Outcome == OutcomeParked || v.Outcome == OutcomeForeign || v.Detail == Unmatched
	if !waits {
		const forget = `DELETE FROM delivery_resources WHERE provider = ? AND event_id = ?`
		if err := tx.WithContext(ctx).Exec(forget, v.Key.Provider, v.Key.EventID).Error; err != nil {
			return fmt.Errorf("forgetting the resources of %s: %w", v.Key, err)
		}
		return nil
	}
	const remember = `
INSERT INTO delivery_resources (provider, resource_id, event_id) VALUES (?, ?, ?)
ON CONFLICT (provider, resource_id, event_id) DO NOTHING`
	for _, id := range v.Resources {
		if err := tx.WithContext(ctx).Exec(remember, v.Key.Provider, id, v.Key.EventID).Error; err != nil {
			return fmt.Errorf("remembering the resources of %s: %w", v.Key, err)
		}
	}
	return nil
}

// Fail records a failed attempt: the row is due again after retryIn, or, if its attempts
// are used up, dead. It reports whether the row died. It does nothing to a row that is no
// longer the token's.
func (i *Inbox) Fail(ctx context.Context, token Claim, key Key, cause error, maxAttempts int, retryIn time.Duration) (dead bool, err error) {
	const fail = `
UPDATE webhook_deliveries
SET last_error = @cause, claim = NULL, claim_until = NULL,
    next_attempt_at = now() + make_interval(secs => @retry_in),
    processed_at = CASE WHEN attempts >= @max_attempts THEN now() END,
    outcome = CASE WHEN attempts >= @max_attempts THEN 'dead' END -- not parked any more: a sweep must not cut its wait short
WHERE provider = @provider AND event_id = @event_id AND claim = @token AND processed_at IS NULL
RETURNING processed_at IS NOT NULL`
	var ended []bool
	err = i.DB.WithContext(ctx).Raw(fail, map[string]any{
		"cause": database.Text(cause.Error()), "retry_in": retryIn.Seconds(), "max_attempts": maxAttempts,
		"provider": key.Provider, "event_id": key.EventID, "token": token,
	}).Scan(&ended).Error
	if err != nil {
		return false, fmt.Errorf("recording the failure of %s: %w", key, err)
	}
	return len(ended) == 1 && ended[0], nil
}

// GiveBack returns claimed rows untouched, with their attempt: a graceful stop, a lock
// timeout or a lost connection is no fault of theirs. They are due again after retryIn.
func (i *Inbox) GiveBack(ctx context.Context, token Claim, keys []Key, retryIn time.Duration) error {
	const giveBack = `
UPDATE webhook_deliveries
SET claim = NULL, claim_until = NULL, attempts = GREATEST(attempts - 1, 0),
    next_attempt_at = GREATEST(next_attempt_at, now() + make_interval(secs => @retry_in))
WHERE (provider, event_id) IN @keys AND claim = @token AND processed_at IS NULL`
	err := i.DB.WithContext(ctx).Exec(giveBack, map[string]any{
		"keys": pairs(keys), "token": token, "retry_in": retryIn.Seconds(),
	}).Error
	if err != nil {
		return fmt.Errorf("giving deliveries back: %w", err)
	}
	return nil
}

// NextDue tells how long it is until the next delivery that nobody has claimed is due; ok is
// false if there is none. A drainer sleeps that long, unless it is woken. A lapsed claim is
// left to the drainer's poll: looking for it here would read every open row.
func (i *Inbox) NextDue(ctx context.Context) (wait time.Duration, ok bool, err error) {
	const next = `
SELECT CAST(extract(epoch FROM next_attempt_at - now()) * 1e9 AS bigint)
FROM webhook_deliveries WHERE processed_at IS NULL AND claim IS NULL
ORDER BY next_attempt_at LIMIT 1`
	var nanos []int64
	if err := i.DB.WithContext(ctx).Raw(next).Scan(&nanos).Error; err != nil {
		return 0, false, fmt.Errorf("looking for the next due delivery: %w", err)
	}
	if len(nanos) == 0 {
		return 0, false, nil
	}
	return max(0, time.Duration(nanos[0])), true, nil
}

// NewClaim returns a fresh token.
func NewClaim() Claim { return uuid.New() }

// pairs makes keys what gorm expands into a list of rows.
func pairs(keys []Key) [][]any {
	list := make([][]any, len(keys))
	for n, key := range keys {
		list[n] = []any{key.Provider, key.EventID}
	}
	return list
}
