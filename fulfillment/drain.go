package fulfillment

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/google/uuid"
	"gorm.io/gorm"

	"paidonce/internal/database"
	"paidonce/orders"
	"paidonce/webhooks"
)

// Drainer takes stored deliveries and applies them to orders. Any number of drainers may
// run, in any number of processes, on one database.
type Drainer struct {
	DB        *gorm.DB
	Inbox     *webhooks.Inbox
	Orders    *orders.Store
	Queue     *Queue
	Providers map[string]webhooks.Provider // by name; they only parse here

	// Livemode and Account are the world of this process: an event of another that names no
	// recorded payment is ignored instead of waited for. (That it never touches a payment of
	// another world, orders sees to.) Livemode is nil in a process without an API key.
	Livemode *bool
	Account  string

	// Batch is how many deliveries one transaction takes; Lease how long a drainer has for
	// them before they are taken for those of a dead process; MaxAttempts when a failing
	// delivery is dead; ParkFor how long a delivery waits for a resource that nobody knows.
	Batch       int
	Lease       time.Duration
	MaxAttempts int
	ParkFor     time.Duration

	Log *slog.Logger

	// Crash, if set, is called at every crash window with its id. Nil in production.
	Crash func(window string)
}

// The defaults. A transaction of 50 deliveries takes some tens of milliseconds, so that a
// lease of 15 s is only missed by a process that is gone or frozen. Ten attempts with
// doubling waits are 17 minutes: longer than a bad deploy takes to be seen, shorter than a
// merchant's patience. Fifteen minutes is longer than any transaction that could still
// commit the order a delivery is waiting for.
const (
	DefaultBatch       = 50
	DefaultLease       = 15 * time.Second
	DefaultMaxAttempts = 10
	DefaultParkFor     = 15 * time.Minute
)

// giveBackAfter is the pause before rows are tried again whose failure was no fault of
// theirs: long enough for the other side of a deadlock to commit. contendedPause is that of a
// single row whose order somebody has locked: whoever holds it that long is a person.
const (
	giveBackAfter  = 50 * time.Millisecond
	contendedPause = time.Second
)

// Drain claims what is due and applies it (TX2), once. It returns how many deliveries it
// took, so that its caller knows whether to ask again at once.
//
// A claim commits by itself, with the attempt counted; then all rows of the batch are
// applied in one transaction. If that fails, they are done one by one, so that a row that
// cannot be applied costs only itself.
func (d *Drainer) Drain(ctx context.Context) (int, error) {
	token := webhooks.NewClaim()
	rows, died, err := d.claim(ctx, token)
	if err != nil {
		return 0, err
	}
	for _, row := range died {
		d.logOf(row).Error("delivery is dead", "attempts", row.Attempts, "reason", "its process never finished it")
	}
	if len(rows) == 0 {
		return len(died), nil
	}
	d.crash("CW3")

	if ctx.Err() != nil { // asked to stop between the claim and the work
		return 0, d.giveBack(ctx, token, rows, giveBackAfter)
	}
	if err := d.apply(ctx, token, rows); err != nil {
		d.recover(ctx, token, rows, err)
	}
	return len(rows) + len(died), nil
}

// claim lets the claiming statement finish even when a stop is asked for meanwhile: one that
// commits while nobody waits for its answer leaves rows that carry a token nobody knows.
func (d *Drainer) claim(ctx context.Context, token webhooks.Claim) (rows, died []webhooks.Delivery, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), d.Lease)
	defer cancel()
	return d.Inbox.Claim(ctx, token, d.Batch, d.MaxAttempts, d.Lease)
}

// recover decides what becomes of a batch that failed as a whole.
//
// A server that is away, or a stop, is no fault of any row: all go back with their attempts.
// Anything else may be one row's matter, be it a row that cannot be applied, one whose order
// somebody has locked, or one that costs its connection whenever it is touched: so they are
// done one by one, and only that row pays for it.
func (d *Drainer) recover(ctx context.Context, token webhooks.Claim, rows []webhooks.Delivery, cause error) {
	if ctx.Err() != nil || database.Away(cause) {
		d.returnRows(ctx, token, rows, cause, giveBackAfter)
		return
	}
	// Counted from here and not from the claim, so that a slow row cannot have its whole batch
	// given back for ever: each try gets at least one of them judged. Rows whose lease has lapsed
	// by then stay as they are, and come back alone.
	patience, cancel := context.WithTimeout(ctx, d.Lease/2)
	defer cancel()
	for n, row := range rows {
		if patience.Err() != nil {
			d.returnRows(ctx, token, rows[n:], cause, giveBackAfter)
			return
		}
		alone := []webhooks.Delivery{row}
		err := cause
		if len(rows) > 1 {
			err = d.apply(ctx, token, alone)
		}
		switch {
		case err == nil:
		case database.Contended(err):
			d.returnRows(ctx, token, alone, err, contendedPause)
		case database.Away(err):
			d.returnRows(ctx, token, alone, err, giveBackAfter)
		default:
			d.fail(ctx, token, row, err)
		}
	}
}

// returnRows gives rows back, or says why it could not: then their lease lapses.
func (d *Drainer) returnRows(ctx context.Context, token webhooks.Claim, rows []webhooks.Delivery, cause error, pause time.Duration) {
	d.Log.Warn("deliveries given back", "count", len(rows), "reason", cause.Error())
	if err := d.giveBack(ctx, token, rows, pause); err != nil {
		d.Log.Error("deliveries not given back; their lease will lapse", "count", len(rows), "error", err.Error())
	}
}

// fail records one row's failed attempt.
func (d *Drainer) fail(ctx context.Context, token webhooks.Claim, row webhooks.Delivery, cause error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
	defer cancel()
	dead, err := d.Inbox.Fail(ctx, token, row.Key(), cause, d.MaxAttempts, backoff(row.Attempts))
	switch {
	case err != nil:
		d.logOf(row).Error("failure not recorded; the lease will lapse", "error", err.Error(), "cause", cause.Error())
	case dead:
		d.logOf(row).Error("delivery is dead", "attempts", row.Attempts, "error", cause.Error())
	default:
		d.logOf(row).Warn("delivery failed", "attempts", row.Attempts, "error", cause.Error(), "retry_in", backoff(row.Attempts).String())
	}
}

// settleTimeout bounds what is written after a batch has failed, also when the process has
// been told to stop: worth a moment, and no more.
const settleTimeout = 5 * time.Second

// backoff is the wait after the n-th failed attempt: 1, 2, 4… s, at most five minutes.
func backoff(n int) time.Duration {
	return min(time.Second<<min(max(n-1, 0), 10), 5*time.Minute)
}

// giveBack returns rows with their attempts.
func (d *Drainer) giveBack(ctx context.Context, token webhooks.Claim, rows []webhooks.Delivery, pause time.Duration) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
	defer cancel()
	return d.Inbox.GiveBack(ctx, token, keysOf(rows), pause)
}

// apply is TX2: its own rows locked first, then the orders in the order of their ids, then
// every fact merged, every verdict written, and one commit. A panic is an error like any
// other: the row that caused it will be alone with it on the second try.
func (d *Drainer) apply(ctx context.Context, token webhooks.Claim, rows []webhooks.Delivery) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	// A stop lets the transaction that is under way finish: it is short, and bounded by
	// its lease.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), d.Lease)
	defer cancel()

	var done []result
	err = d.DB.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		// One locked order must not hold up those behind it for the session's whole patience.
		if err := tx.Exec(`SET LOCAL lock_timeout = '250ms'`).Error; err != nil {
			return err
		}
		ours, err := d.Inbox.Lock(ctx, tx, token, keysOf(rows))
		if err != nil {
			return err
		}
		items := d.parse(rows, ours)
		if err := d.Orders.LockAll(ctx, tx, resourcesOf(items), hintsOf(items)); err != nil {
			return err
		}
		for _, item := range items {
			r, err := d.applyOne(ctx, tx, item)
			if err != nil {
				return fmt.Errorf("delivery %s: %w", item.row.Key(), err)
			}
			if err := d.Inbox.Finish(ctx, tx, r.verdict); err != nil {
				return err
			}
			done = append(done, r)
		}
		d.crash("CW4")
		return nil
	})
	if err != nil {
		return fmt.Errorf("applying %d deliveries: %w", len(rows), err)
	}
	d.crash("CW5")
	for _, r := range done {
		r.log(ctx, d.logOf(r.row))
	}
	return nil
}

// item is a delivery with what was read from it.
type item struct {
	row      webhooks.Delivery
	event    webhooks.Event
	parseErr error
}

// parse reads the rows that are still this drainer's.
func (d *Drainer) parse(rows []webhooks.Delivery, ours map[webhooks.Key]bool) []item {
	var items []item
	for _, row := range rows {
		if !ours[row.Key()] {
			d.logOf(row).Warn("delivery left: the lease was overslept")
			continue
		}
		it := item{row: row}
		if provider, ok := d.Providers[row.Provider]; ok {
			it.event, it.parseErr = provider.Parse(row.Body)
		} else {
			it.parseErr = fmt.Errorf("no provider %q in this process", row.Provider)
		}
		items = append(items, it)
	}
	return items
}

// result is what became of one delivery.
type result struct {
	row     webhooks.Delivery
	verdict webhooks.Verdict
	order   orders.Result
}

func (r result) log(ctx context.Context, log *slog.Logger) {
	level := slog.LevelInfo
	if r.verdict.Outcome == webhooks.OutcomeDead || r.verdict.Outcome == webhooks.OutcomeHeld {
		level = slog.LevelError
	}
	attrs := []any{"outcome", r.verdict.Outcome, "attempts", r.row.Attempts}
	if r.order.OrderID != uuid.Nil {
		attrs = append(attrs, "order_id", r.order.OrderID, "payment_id", r.order.PaymentID, "from", r.order.From, "to", r.order.To)
	}
	if r.verdict.Detail != "" {
		attrs = append(attrs, "detail", r.verdict.Detail)
	}
	log.Log(ctx, level, "delivery processed", attrs...)
}

// applyOne gives one delivery its verdict.
func (d *Drainer) applyOne(ctx context.Context, tx *gorm.DB, it item) (result, error) {
	r := result{row: it.row, verdict: webhooks.Verdict{Key: it.row.Key()}}
	end := func(o webhooks.Outcome, detail string) (result, error) {
		r.verdict.Outcome, r.verdict.Detail = o, detail
		return r, nil
	}
	switch {
	case errors.Is(it.parseErr, webhooks.ErrUnsupported):
		return end(webhooks.OutcomeUnsupported, it.parseErr.Error())
	case it.parseErr != nil:
		return r, it.parseErr
	case !it.event.Handled:
		return end(webhooks.OutcomeIgnored, "this type says nothing about payments")
	case len(it.event.Resources) == 0:
		return end(webhooks.OutcomeUnsupported, "it names no object")
	}

	applied, err := d.Orders.Apply(ctx, tx, factOf(it.row, it.event))
	if err != nil {
		return r, err
	}
	r.order = applied
	switch applied.Outcome {
	case orders.Applied:
		return end(webhooks.OutcomeApplied, "")
	case orders.Held:
		return end(webhooks.OutcomeHeld, string(applied.Reason))
	case orders.Already:
		return end(webhooks.OutcomeAlready, "")
	case orders.Stale:
		return end(webhooks.OutcomeStale, "")
	case orders.Wanted:
		return end(webhooks.OutcomeRead, "")
	case orders.Mode:
		return end(webhooks.OutcomeIgnored, "the payment is of another mode or account")
	case orders.Unknown:
		// Only here does this process's own world decide: a payment that was recorded has its
		// own mode and account, and a process with an old key must not drop its events.
		switch {
		case d.Livemode != nil && it.row.Livemode != *d.Livemode:
			return end(webhooks.OutcomeIgnored, "of the other mode (test or live)")
		case it.row.Account != d.Account:
			return end(webhooks.OutcomeIgnored, "of another account")
		}
		r.verdict, err = d.park(ctx, tx, it)
		return r, err
	}
	return r, fmt.Errorf("bug: no verdict on outcome %q", applied.Outcome)
}

// factOf translates an event into the words of orders.
func factOf(row webhooks.Delivery, e webhooks.Event) orders.Fact {
	return orders.Fact{
		Provider: row.Provider, Resources: e.Resources, Livemode: row.Livemode, Account: row.Account,
		Status:        orders.Status(e.Status),
		ReceivedMinor: e.ReceivedMinor, ReceivedCurrency: e.Currency, IntendedMinor: e.IntendedMinor,
		Breakdown:       (*orders.Breakdown)(e.Breakdown),
		ObjectCreatedAt: e.CheckoutCreatedAt, Hint: e.Hint,
		Cause: orders.Cause{Provider: row.Provider, EventID: row.EventID},
	}
}

func resourcesOf(items []item) []orders.Resource {
	var all []orders.Resource
	for _, it := range items {
		for _, id := range it.event.Resources {
			all = append(all, orders.Resource{Provider: it.row.Provider, ID: id})
		}
	}
	return all
}

// hintsOf is the orders whose payments may be asked to be read, since the events' own markers
// name them and they were parked before. They are only locked for it.
func hintsOf(items []item) []uuid.UUID {
	var hinted []uuid.UUID
	for _, it := range items {
		if order, ok := ourOrder(it.event); ok && it.row.Outcome != nil {
			hinted = append(hinted, order)
		}
	}
	return hinted
}

func keysOf(rows []webhooks.Delivery) []webhooks.Key {
	keys := make([]webhooks.Key, len(rows))
	for i, row := range rows {
		keys[i] = row.Key()
	}
	return keys
}

func (d *Drainer) logOf(row webhooks.Delivery) *slog.Logger {
	return d.Log.With("provider", row.Provider, "event_id", row.EventID, "event_type", row.EventType, "resource_id", row.ResourceID)
}

func (d *Drainer) crash(window string) {
	if d.Crash != nil {
		d.Crash(window)
	}
}
