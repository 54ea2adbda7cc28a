package webhooks

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"gorm.io/gorm"
)

// Outcomes are all outcomes, those that a person has to look at first.
func Outcomes() []Outcome {
	return []Outcome{
		OutcomeDead, OutcomeForeign, OutcomeParked, OutcomeUnsupported, OutcomeHeld, OutcomeRead,
		OutcomeApplied, OutcomeAlready, OutcomeStale, OutcomeIgnored,
	}
}

// Reopenable are the outcomes that [Inbox.Reopen] takes back. A dead or foreign delivery was
// given up; an unsupported or ignored one says what this version, or this configuration, had
// no use for, and the next may have. Every other one has had its effect, or is still open.
func Reopenable() []Outcome {
	return []Outcome{OutcomeDead, OutcomeForeign, OutcomeUnsupported, OutcomeIgnored}
}

// ErrNoDelivery is returned for a name that no delivery goes by.
var ErrNoDelivery = errors.New("no such delivery")

// Entry is a row of the ledger as a person looks at it, without its body.
type Entry struct {
	Provider      string     `json:"provider"`
	EventID       string     `json:"event_id"`
	EventType     string     `json:"event_type"`
	ResourceID    string     `json:"resource_id"`
	Livemode      bool       `json:"livemode"`
	Account       string     `json:"account"`
	APIVersion    string     `json:"api_version"`
	Source        Source     `json:"source"`
	OccurredAt    *time.Time `json:"occurred_at"` // nil: the event does not say
	ReceivedAt    time.Time  `json:"received_at"`
	OpenedAt      time.Time  `json:"opened_at"`
	ProcessedAt   *time.Time `json:"processed_at"` // nil: open
	Outcome       *Outcome   `json:"outcome"`      // nil: never looked at
	Detail        *string    `json:"detail"`
	Attempts      int        `json:"attempts"`
	NextAttemptAt time.Time  `json:"next_attempt_at"`
	LastError     *string    `json:"last_error"`
}

// Key is the delivery's key in the ledger.
func (e Entry) Key() Key { return Key{Provider: e.Provider, EventID: e.EventID} }

const entryColumns = `d.provider, d.event_id, d.event_type, d.resource_id, d.livemode, d.account, d.api_version, d.source,
    d.occurred_at, d.received_at, d.opened_at, d.processed_at, d.outcome, d.detail, d.attempts, d.next_attempt_at, d.last_error`

// Filter chooses deliveries. Its zero value chooses all.
type Filter struct {
	Keys     []Key     // any of these; none: whatever its key
	Outcomes []Outcome // any of these
	Open     bool      // or open, parked included
	Type     string    // the event's type; * stands for any text, ? for one character
	Provider string
	Since    time.Time // received then or later
	Until    time.Time // received before
	OrderID  uuid.UUID // names a resource of this order, or caused its transitions
	Before   *Key      // older than this one, for the next page
	Limit    int       // zero: no limit
}

// where is the filter as a condition on d, with its arguments.
func (f Filter) where() (string, map[string]any) {
	conditions, args := []string{"true"}, map[string]any{}
	add := func(condition, name string, value any) {
		conditions = append(conditions, condition)
		args[name] = value
	}
	if len(f.Keys) > 0 {
		add("(d.provider, d.event_id) IN @keys", "keys", pairs(f.Keys))
	}
	if f.Open || len(f.Outcomes) > 0 {
		conditions = append(conditions, f.stands())
	}
	if f.Type != "" {
		add("d.event_type LIKE @type", "type", likeGlob(f.Type))
	}
	if f.Provider != "" {
		add("d.provider = @of_provider", "of_provider", f.Provider)
	}
	if !f.Since.IsZero() {
		add("d.received_at >= @since", "since", f.Since)
	}
	if !f.Until.IsZero() {
		add("d.received_at < @until", "until", f.Until)
	}
	if f.OrderID != uuid.Nil {
		add(f.about(), "order_id", f.OrderID)
	}
	return strings.Join(conditions, "\n  AND "), args
}

// stands is the condition on how a delivery stands. The outcomes are constants in it, so that
// the indexes of those that are few can be used.
func (f Filter) stands() string {
	var either []string
	if f.Open {
		either = append(either, "d.processed_at IS NULL")
	}
	for _, o := range Outcomes() {
		if slices.Contains(f.Outcomes, o) {
			either = append(either, "d.outcome = '"+string(o)+"'")
		}
	}
	if len(either) == 0 {
		return "false" // of an outcome that there is not
	}
	return "(" + strings.Join(either, " OR ") + ")"
}

// about is the condition that a delivery is about an order. Nothing about an order comes long
// before the order does.
//
// What was given up may name the order only inside its body, since nobody has learned its ids;
// that is little, and is searched. Where it is all that is asked for, nothing else is looked
// at: this is asked whenever an order is shown.
func (f Filter) about() string {
	const names = `EXISTS (
    SELECT FROM (
        SELECT r.resource_id AS name FROM payment_resources r JOIN payments p ON p.id = r.payment_id WHERE p.order_id = @order_id
        UNION ALL SELECT CAST(id AS text) FROM payments WHERE order_id = @order_id
        UNION ALL SELECT CAST(@order_id AS text)
    ) names WHERE position(convert_to('"' || name || '"', 'UTF8') IN d.body) > 0)`
	const since = `d.received_at >= (SELECT created_at - interval '1 hour' FROM orders WHERE id = @order_id)`
	if !f.Open && len(f.Outcomes) == 1 && f.Outcomes[0] == OutcomeDead {
		return since + ` AND ` + names
	}
	return `(d.provider, d.event_id) IN (
    SELECT cause_provider, cause_event_id FROM order_transitions WHERE order_id = @order_id
    UNION
    SELECT d.provider, d.event_id FROM webhook_deliveries d WHERE ` + since + ` AND (d.provider, d.resource_id) IN (
        SELECT r.provider, r.resource_id FROM payment_resources r JOIN payments p ON p.id = r.payment_id WHERE p.order_id = @order_id
        UNION SELECT r.provider, r.refund_id FROM refunds r JOIN payments p ON p.id = r.payment_id WHERE p.order_id = @order_id
        UNION SELECT v.provider, v.dispute_id FROM disputes v JOIN payments p ON p.id = v.payment_id WHERE p.order_id = @order_id)
    UNION
    SELECT d.provider, d.event_id FROM webhook_deliveries d WHERE d.outcome = 'dead' AND ` + since + ` AND ` + names + `
    UNION
    SELECT d.provider, d.event_id FROM webhook_deliveries d WHERE d.processed_at IS NULL AND d.outcome = 'parked' AND ` + since + ` AND ` + names + `)`
}

// likeGlob makes a LIKE pattern of a glob.
func likeGlob(glob string) string {
	return strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`, `*`, `%`, `?`, `_`).Replace(glob)
}

// CountedUpTo is where List stops to count: of a ledger of millions, nobody needs to know how
// many millions, and would have to wait for it.
const CountedUpTo = 100_000

// List returns deliveries, the newest first, and how many the filter chooses on all its pages;
// where that takes a count, at most one more than [CountedUpTo].
func (i *Inbox) List(ctx context.Context, f Filter) (entries []Entry, total int, err error) {
	where, args := f.where()
	list := `SELECT ` + entryColumns + ` FROM webhook_deliveries d WHERE ` + where
	if f.Before != nil {
		list += `
  AND (d.received_at, d.provider, d.event_id) < (
      SELECT received_at, provider, event_id FROM webhook_deliveries WHERE provider = @before_provider AND event_id = @before_event)`
		args["before_provider"], args["before_event"] = f.Before.Provider, f.Before.EventID
	}
	list += `
ORDER BY d.received_at DESC, d.provider DESC, d.event_id DESC`
	if f.Limit > 0 {
		list += ` LIMIT @limit`
		args["limit"] = f.Limit
	}
	entries = []Entry{}
	if err := i.DB.WithContext(ctx).Raw(list, named(args)...).Scan(&entries).Error; err != nil {
		return nil, 0, fmt.Errorf("listing deliveries: %w", err)
	}
	if f.Before == nil && (f.Limit == 0 || len(entries) < f.Limit) {
		return entries, len(entries), nil
	}
	total, err = i.count(ctx, f)
	return entries, total, err
}

func (i *Inbox) count(ctx context.Context, f Filter) (total int, err error) {
	where, args := f.where()
	args["count_to"] = CountedUpTo + 1
	count := `SELECT count(*) FROM (SELECT FROM webhook_deliveries d WHERE ` + where + ` LIMIT @count_to) counted`
	if err := i.DB.WithContext(ctx).Raw(count, args).Row().Scan(&total); err != nil {
		return 0, fmt.Errorf("counting deliveries: %w", err)
	}
	return total, nil
}

// named are a statement's arguments: gorm takes no map where the statement names nothing.
func named(args map[string]any) []any {
	if len(args) == 0 {
		return nil
	}
	return []any{args}
}

// LastArrival is when a delivery of a provider last came by itself, and not because it was
// asked for; zero if none ever did.
func (i *Inbox) LastArrival(ctx context.Context, provider string) (time.Time, error) {
	const newest = `SELECT received_at FROM webhook_deliveries WHERE provider = ? AND source = ? ORDER BY received_at DESC LIMIT 1`
	var last time.Time
	err := i.DB.WithContext(ctx).Raw(newest, provider, SourceWebhook).Row().Scan(&last)
	if errors.Is(err, sql.ErrNoRows) {
		return time.Time{}, nil
	}
	if err != nil {
		return time.Time{}, fmt.Errorf("looking for the last delivery of %s: %w", provider, err)
	}
	return last, nil
}

// Find turns what a person calls deliveries into their keys: the id of the event, or
// provider/id where two providers use one. Its error names every one that is not there.
func (i *Inbox) Find(ctx context.Context, names ...string) ([]Key, error) {
	// The providers that there are, each found by one step along the primary key.
	const find = `
WITH RECURSIVE senders AS (
    SELECT min(provider) AS provider FROM webhook_deliveries
    UNION ALL
    SELECT (SELECT min(provider) FROM webhook_deliveries d WHERE d.provider > senders.provider) FROM senders WHERE senders.provider IS NOT NULL
)
SELECT d.provider, d.event_id FROM senders JOIN webhook_deliveries d ON d.provider = senders.provider
WHERE d.event_id IN @names`
	var keys []Key
	var faults []error
	for _, name := range names {
		ids := []string{name}
		if _, id, ok := strings.Cut(name, "/"); ok {
			ids = append(ids, id)
		}
		var found []Key
		if err := i.DB.WithContext(ctx).Raw(find, map[string]any{"names": ids}).Scan(&found).Error; err != nil {
			return nil, fmt.Errorf("looking for delivery %s: %w", name, err)
		}
		var matches []Key
		for _, key := range found {
			if key.EventID == name || key.String() == name {
				matches = append(matches, key)
			}
		}
		switch len(matches) {
		case 0:
			faults = append(faults, fmt.Errorf("%s: %w", name, ErrNoDelivery))
		case 1:
			keys = append(keys, matches[0])
		default:
			faults = append(faults, fmt.Errorf("%s: several providers use this id; name one of %v", name, matches))
		}
	}
	return keys, errors.Join(faults...)
}

// Shown is everything there is about one delivery.
type Shown struct {
	Entry

	Resources []string    // the ids under which it waits, or waited, for a payment
	Orders    []uuid.UUID // the orders that it moved, or whose resources it names
	Body      []byte
}

// Show reads one delivery. Further ids that its body names, as its provider reads it, help to
// find the order that it is about.
func (i *Inbox) Show(ctx context.Context, key Key, names func(body []byte) []string) (Shown, error) {
	var s Shown
	const body = `SELECT body FROM webhook_deliveries WHERE provider = @provider AND event_id = @event_id`
	const resources = `SELECT resource_id FROM delivery_resources WHERE provider = @provider AND event_id = @event_id ORDER BY resource_id`
	const orders = `
SELECT order_id FROM order_transitions WHERE cause_provider = @provider AND cause_event_id = @event_id
UNION
SELECT p.order_id FROM payment_resources r JOIN payments p ON p.id = r.payment_id WHERE r.provider = @provider AND r.resource_id IN @resources
ORDER BY order_id`
	err := i.DB.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		entries, _, err := (&Inbox{DB: tx}).List(ctx, Filter{Keys: []Key{key}})
		if err != nil {
			return err
		}
		if len(entries) == 0 {
			return fmt.Errorf("%s: %w", key, ErrNoDelivery)
		}
		s.Entry = entries[0]
		args := map[string]any{"provider": key.Provider, "event_id": key.EventID}
		if err := tx.Raw(body, args).Row().Scan(&s.Body); err != nil {
			return err
		}
		if err := tx.Raw(resources, args).Scan(&s.Resources).Error; err != nil {
			return err
		}
		s.Resources = distinct(append(append([]string{s.ResourceID}, names(s.Body)...), s.Resources...))
		args["resources"] = append([]string{""}, s.Resources...) // IN takes no empty list; no resource is called ""
		return tx.Raw(orders, args).Scan(&s.Orders).Error
	})
	if err != nil {
		return Shown{}, fmt.Errorf("reading delivery %s: %w", key, err)
	}
	return s, nil
}

// distinct keeps the first of each, and nothing that is empty.
func distinct(list []string) []string {
	seen := map[string]bool{"": true}
	kept := []string{}
	for _, s := range list {
		if !seen[s] {
			kept = append(kept, s)
		}
		seen[s] = true
	}
	return kept
}
