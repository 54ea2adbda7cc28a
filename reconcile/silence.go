package reconcile

import (
	"context"
	"fmt"
	"time"

	"github.com/tidwall/gjson"
	"gorm.io/gorm"

	"paidonce/internal/provider"
	"paidonce/webhooks"
)

// silence finds out whether webhooks come at all: of the newest events of our types, some of
// them older than Silence, none has come by webhook. Those that reconcile itself recorded are
// no sign of life.
//
// It ends the stages that compare us with the provider: what they have not seen again is no
// more.
func (r *run) silence(ctx context.Context) error {
	if err := r.settled(ctx); err != nil {
		return err
	}
	if err := r.close(ctx, thereKinds(), inWorld); err != nil {
		return err
	}
	patience := r.Silence
	if patience == 0 {
		patience = DefaultSilence
	}
	w := provider.Walk{
		Listing: provider.ListEvents, Since: r.earliestEvent(),
		Until: r.Now().Add(-patience).UTC().Truncate(time.Second),
	}
	w.Types = webhooks.StripeEventTypes()
	w.Types = w.Types[:min(len(w.Types), provider.MaxTypes)]
	newest, err := r.Lists.Newest(ctx, w)
	if err != nil {
		return err
	}
	silent, err := r.unheard(ctx, newest)
	if err != nil {
		return err
	}
	if silent != nil {
		if err := r.note(ctx, *silent); err != nil {
			return err
		}
	}
	return r.close(ctx, []Kind{WebhooksSilent}, inWorld)
}

// settled closes what this run has found and what came right only later in it: an event of an
// intent waits for its session's, which may have been pages away.
func (r *run) settled(ctx context.Context) error {
	if r.options.DryRun {
		return nil
	}
	if err := r.sweep(ctx); err != nil {
		return err
	}
	const settled = `
UPDATE reconcile_findings f SET healed_at = @now
WHERE f.run_id = @run AND f.healed_at IS NULL AND (
    f.kind = @event_missed AND EXISTS (
        SELECT FROM webhook_deliveries d
        WHERE d.provider = f.provider AND d.event_id = f.resource_id AND d.processed_at IS NOT NULL AND d.outcome <> 'dead')
    OR f.kind = @paid_there AND EXISTS (
        SELECT FROM payments p WHERE p.provider = f.provider AND p.resource_id = f.resource_id AND p.status = 'succeeded'))`
	err := r.DB.WithContext(ctx).Exec(settled, map[string]any{
		"now": r.Now(), "run": r.id, "event_missed": EventMissed, "paid_there": PaidThere,
	}).Error
	if err != nil {
		return fmt.Errorf("closing what came right: %w", err)
	}
	return nil
}

// sweepFor bounds the wait for events that wait for one another, and that other drainers may
// have at this moment.
const (
	sweepFor  = 3 * time.Second
	sweepWait = 50 * time.Millisecond
)

// sweep brings back what waits for something that was learned meanwhile, and drains it.
func (r *run) sweep(ctx context.Context) error {
	const waiting = `
SELECT count(*) FROM reconcile_findings f JOIN webhook_deliveries d ON d.provider = f.provider AND d.event_id = f.resource_id
WHERE f.run_id = ? AND f.kind = ? AND f.healed_at IS NULL AND d.processed_at IS NULL`
	timer := time.NewTimer(sweepFor)
	defer timer.Stop()
	for {
		var left int64
		if err := r.DB.WithContext(ctx).Raw(waiting, r.id, EventMissed).Row().Scan(&left); err != nil {
			return fmt.Errorf("looking what waits: %w", err)
		}
		if left == 0 {
			return nil
		}
		// Not Service.SweepParked, which also tells of dead jobs: that is for the workers' log.
		if err := r.DB.WithContext(ctx).Transaction(func(tx *gorm.DB) error { return r.Inbox.Sweep(ctx, tx) }); err != nil {
			return fmt.Errorf("releasing what waits: %w", err)
		}
		if _, err := r.Drainer.Drain(ctx); err != nil {
			return fmt.Errorf("draining: %w", err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
			return nil
		case <-time.After(sweepWait):
		}
	}
}

// unheard is the finding that nobody hears the provider; nil if somebody does, or if nothing
// has been said for long enough to tell: of what is as old as the newest event that had its
// time, or younger, nothing has come by webhook.
func (r *run) unheard(ctx context.Context, newest []provider.Object) (*Finding, error) {
	if len(newest) == 0 {
		return nil, nil
	}
	const arrived = `
SELECT count(*) FROM (
    SELECT FROM webhook_deliveries
    WHERE provider = @provider AND livemode = @livemode AND account = @account AND source = @source
      AND occurred_at >= @since AND received_at >= CAST(@since AS timestamptz) - interval '1 hour' LIMIT 1) heard`
	var heard int64
	err := r.DB.WithContext(ctx).Raw(arrived, map[string]any{
		"provider": stripeName, "livemode": r.Stripe.Livemode(), "account": r.Stripe.Account(), "source": webhooks.SourceWebhook,
		"since": newest[0].Created,
	}).Row().Scan(&heard)
	if err != nil {
		return nil, fmt.Errorf("looking for events that came by webhook: %w", err)
	}
	if heard > 0 {
		return nil, nil
	}
	last, first := newest[0], newest[len(newest)-1]
	return &Finding{
		Kind: WebhooksSilent, ResourceID: r.world(), Action: "nothing", // one of each world: an ack of one is not of another
		Theirs: fmt.Sprintf("%d events from %s to %s", len(newest), first.Created.Format(time.DateTime), last.Created.Format(time.DateTime)),
		Ours:   "none of them came by webhook",
	}, nil
}

// world names the run's mode and account.
func (r *run) world() string {
	mode := "test"
	if r.Stripe.Livemode() {
		mode = "live"
	}
	if r.Stripe.Account() != "" {
		mode += ":" + r.Stripe.Account()
	}
	return mode
}

// typeOf is an event's type, as text for people.
func typeOf(e provider.Object) string { return gjson.GetBytes(e.Raw, "type").Str }
