package webhooks

import (
	"context"
	"fmt"
	"time"
)

// Reopening is a delivery that Reopen opened again, or would have.
type Reopening struct {
	Provider  string    `json:"provider"`
	EventID   string    `json:"event_id"`
	EventType string    `json:"event_type"`
	Was       Outcome   `json:"was"`
	DueAt     time.Time `json:"due_at"`
}

// Key is the delivery's key in the ledger.
func (r Reopening) Key() Key { return Key{Provider: r.Provider, EventID: r.EventID} }

// Reopen opens deliveries again that were given up or had no use, with all their attempts and
// at the front of their wait, the oldest first and each after the one before by stagger. It is
// one statement, and repeats are safe: what is open by now, or has had its effect, is not
// among what it chooses. No signature is looked at again: the row is ours, and was verified
// when it was stored.
//
// Without outcomes in the filter it takes all that are [Reopenable]. With dryRun it changes
// nothing and tells what it would choose.
func (i *Inbox) Reopen(ctx context.Context, f Filter, stagger time.Duration, dryRun bool) ([]Reopening, error) {
	where, args := f.where()
	args["reopenable"], args["stagger"], args["channel"] = Reopenable(), stagger.Seconds(), Channel
	limit, lock := "", "\n    FOR UPDATE"
	if f.Limit > 0 {
		limit, args["limit"] = "\n    LIMIT @limit", f.Limit
	}
	if dryRun {
		lock = ""
	}

	// Invariant I1: a delivery that is stored is work. To open it again is to say that the
	// work was not done; for one that is open, or was applied, it would not be true. What
	// another took back while this statement waited for its lock is judged as it is then.
	chosen := `
WITH given_up AS (
    SELECT d.provider, d.event_id, d.event_type, d.outcome, d.received_at
    FROM webhook_deliveries d
    WHERE ` + where + `
      AND d.outcome IN @reopenable
    ORDER BY d.received_at, d.provider, d.event_id` + limit + lock + `
), chosen AS (
    SELECT provider, event_id, event_type, outcome AS was,
        now() + make_interval(secs => @stagger) * (row_number() OVER (ORDER BY received_at, provider, event_id) - 1) AS due_at
    FROM given_up
)`
	const show = `
SELECT provider, event_id, event_type, was, due_at FROM chosen ORDER BY due_at, provider, event_id`
	const reopen = `, reopened AS (
    UPDATE webhook_deliveries d
    SET processed_at = NULL, outcome = NULL, detail = NULL, attempts = 0, opened_at = c.due_at, next_attempt_at = c.due_at
    FROM chosen c
    WHERE d.provider = c.provider AND d.event_id = c.event_id AND d.outcome IN @reopenable
    RETURNING c.provider, c.event_id, c.event_type, c.was, c.due_at
)
SELECT provider, event_id, event_type, was, due_at, pg_notify(@channel, '') AS told FROM reopened ORDER BY due_at, provider, event_id`
	statement := chosen + reopen
	if dryRun {
		statement = chosen + show
	}
	reopened := []Reopening{}
	if err := i.DB.WithContext(ctx).Raw(statement, args).Scan(&reopened).Error; err != nil {
		return nil, fmt.Errorf("opening deliveries again: %w", err)
	}
	return reopened, nil
}
