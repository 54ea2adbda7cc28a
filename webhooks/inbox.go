package webhooks

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"gorm.io/gorm"

	"paidonce/internal/database"
)

// Channel is the Postgres notification channel on which new work is announced.
const Channel = "webhook_deliveries"

// Source tells by which way an event came in.
type Source string

// The ways in. All of them end in [Inbox.Record].
const (
	SourceWebhook   Source = "webhook"
	SourceReconcile Source = "reconcile"
	SourceReturn    Source = "return"
)

// Outcome is how a delivery ended.
type Outcome string

// The outcomes. Only a parked delivery is still open.
const (
	OutcomeApplied     Outcome = "applied"     // it changed what we know
	OutcomeAlready     Outcome = "already"     // all of it was known
	OutcomeStale       Outcome = "stale"       // it says less than what is known
	OutcomeRead        Outcome = "read"        // a hint: the payment will be read from the provider
	OutcomeParked      Outcome = "parked"      // it names nothing we know yet; open, tried again
	OutcomeForeign     Outcome = "foreign"     // it waited and is not ours
	OutcomeIgnored     Outcome = "ignored"     // not about payments, or of another mode or account
	OutcomeUnsupported Outcome = "unsupported" // a form we do not read
	OutcomeHeld        Outcome = "held"        // applied, and the order is in review
	OutcomeDead        Outcome = "dead"        // given up: a person has to look
)

// Recorded is what Record found.
type Recorded string

// What a sender is told; both are a success.
const (
	Accepted  Recorded = "accepted"
	Duplicate Recorded = "duplicate"
)

// Inbox is the ledger of deliveries, and the queue of the work they cause.
type Inbox struct {
	DB *gorm.DB

	// Now is the receiving time, in UTC. Leases and due times are Postgres' own now():
	// one clock for every machine.
	Now func() time.Time

	// Crash, if set, is called at every crash window with its id (docs/crash-windows.md).
	// It is nil in production; tests and the demo kill the process in it.
	Crash func(window string)
}

// NewInbox returns an inbox on db.
func NewInbox(db *gorm.DB) *Inbox {
	return &Inbox{DB: db, Now: database.Now}
}

// Record stores an event, once, and wakes the drainers (TX1). It is one statement, and its
// own transaction: when it returns without an error the delivery is committed, and the
// sender may be told so (I1).
//
// A repeat is Duplicate and changes nothing, with one exception: if the row had been given
// up (dead, or foreign), a redelivery is a person asking to try again, and opens it.
func (i *Inbox) Record(ctx context.Context, e Envelope, source Source, body []byte) (Recorded, error) {
	i.crash("CW1")

	// Invariant I2: at most one row per event of a provider (webhook_deliveries_pkey).
	// Without it: every redelivery is new work, and only the guards behind it are left.
	//
	// The naive form, insert and catch the unique violation, aborts the transaction it
	// runs in; ON CONFLICT DO NOTHING asks the same question and leaves an answer. Alone
	// it would wait for whoever is changing the row at this moment, a drainer in TX2 say,
	// since the row might be about to go; NOT EXISTS looks at what is committed, so that
	// only two firsts wait for each other. The UPDATE sees the row as it was before the
	// statement, and touches it only if it had been given up: a redelivery of an open or
	// finished row takes no lock on it.
	const record = `
WITH stored AS (
    INSERT INTO webhook_deliveries (provider, event_id, event_type, resource_id, livemode, account, api_version,
        occurred_at, received_at, source, body, opened_at, next_attempt_at)
    SELECT @provider, @event_id, @event_type, @resource_id, @livemode, @account, @api_version,
        @occurred_at, @received_at, @source, @body, now(), now()
    WHERE NOT EXISTS (SELECT FROM webhook_deliveries WHERE provider = @provider AND event_id = @event_id)
    ON CONFLICT (provider, event_id) DO NOTHING
    RETURNING 1
), reopened AS (
    UPDATE webhook_deliveries
    SET processed_at = NULL, outcome = NULL, detail = NULL, attempts = 0, opened_at = now(), next_attempt_at = now()
    WHERE provider = @provider AND event_id = @event_id AND outcome IN ('dead', 'foreign')
    RETURNING 1
), counted AS (
    SELECT (SELECT count(*) FROM stored) AS stored, (SELECT count(*) FROM reopened) AS reopened
)
SELECT stored, CASE WHEN stored + reopened > 0 THEN pg_notify(@channel, '') END FROM counted`

	var occurred *time.Time
	if !e.OccurredAt.IsZero() {
		occurred = &e.OccurredAt
	}
	var stored int
	err := i.DB.WithContext(ctx).Raw(record, map[string]any{
		"provider": e.Provider, "event_id": e.EventID, "event_type": e.EventType, "resource_id": e.ResourceID,
		"livemode": e.Livemode, "account": e.Account, "api_version": e.APIVersion,
		"occurred_at": occurred, "received_at": i.Now(), "source": source, "body": body, "channel": Channel,
	}).Row().Scan(&stored, new(any))
	if err != nil {
		return "", fmt.Errorf("recording %s event %s: %w", e.Provider, e.EventID, err)
	}

	i.crash("CW2")
	if stored == 0 {
		return Duplicate, nil
	}
	return Accepted, nil
}

// Release makes every waiting delivery that names one of the ids due at once: parked ones
// come forward, and those given up for want of a match are opened again. It runs in the
// transaction that learned the ids. Rows that a drainer has locked at this moment are
// skipped: their retry is at most seconds away, and the sweep finds the rest.
func (i *Inbox) Release(ctx context.Context, tx *gorm.DB, provider string, ids []string) error {
	const release = `
WITH waiting AS (
    SELECT d.provider, d.event_id
    FROM webhook_deliveries d
    WHERE (d.outcome IN ('parked', 'foreign') OR (d.outcome = 'dead' AND d.detail = @unmatched))
      AND (d.provider, d.event_id) IN (
          SELECT provider, event_id FROM delivery_resources WHERE provider = @provider AND resource_id IN @ids)
    FOR UPDATE SKIP LOCKED
)` + reopenWaiting
	return i.reopen(ctx, tx, release, map[string]any{"provider": provider, "ids": ids})
}

// Sweep releases every waiting delivery that names a resource learned within the last hour.
// It closes the race of a delivery that was being parked while another transaction learned
// its id; that race is seconds wide, and an hour outlasts a worker that is away for a deploy.
// It starts from what was learned, never from what waits: foreign rows only ever grow. A
// delivery that died of its attempts is not waiting, and is left alone.
func (i *Inbox) Sweep(ctx context.Context, tx *gorm.DB) error {
	const sweep = `
WITH learned AS (
    SELECT r.provider, r.event_id
    FROM payment_resources p JOIN delivery_resources r ON r.provider = p.provider AND r.resource_id = p.resource_id
    WHERE p.learned_at > now() - interval '1 hour'
), waiting AS (
    SELECT d.provider, d.event_id
    FROM webhook_deliveries d
    WHERE (d.provider, d.event_id) IN (SELECT provider, event_id FROM learned)
      AND (d.outcome IN ('parked', 'foreign') OR (d.outcome = 'dead' AND d.detail = @unmatched))
      AND (d.processed_at IS NOT NULL OR d.next_attempt_at > now())
    FOR UPDATE SKIP LOCKED
)` + reopenWaiting
	return i.reopen(ctx, tx, sweep, map[string]any{})
}

// Unmatched is the detail of a delivery that carried our own marker and whose resource
// never became known.
const Unmatched = "unmatched"

// reopenWaiting is the second half of Release and Sweep. A row under a live lease is left
// to whoever holds it.
const reopenWaiting = `, reopened AS (
    UPDATE webhook_deliveries d
    SET processed_at = NULL, outcome = 'parked', detail = NULL, next_attempt_at = now(),
        opened_at = CASE WHEN d.processed_at IS NULL THEN d.opened_at ELSE now() END,
        attempts = CASE WHEN d.processed_at IS NULL THEN d.attempts ELSE 0 END
    FROM waiting w
    WHERE d.provider = w.provider AND d.event_id = w.event_id AND (d.claim IS NULL OR d.claim_until <= now())
    RETURNING 1
)
SELECT CASE WHEN count(*) > 0 THEN pg_notify(@channel, '') END FROM reopened`

func (i *Inbox) reopen(ctx context.Context, tx *gorm.DB, statement string, args map[string]any) error {
	args["unmatched"], args["channel"] = Unmatched, Channel
	if err := tx.WithContext(ctx).Raw(statement, args).Row().Scan(new(any)); err != nil {
		return fmt.Errorf("releasing waiting deliveries: %w", err)
	}
	return nil
}

func (i *Inbox) crash(window string) {
	if i.Crash != nil {
		i.Crash(window)
	}
}

// Key names one delivery.
type Key struct {
	Provider string
	EventID  string
}

func (k Key) String() string { return k.Provider + "/" + k.EventID }

// Claim is a drainer's token: the rows that carry it are that drainer's until the lease
// lapses.
type Claim = uuid.UUID
