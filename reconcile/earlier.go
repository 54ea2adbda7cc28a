package reconcile

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"paidonce/internal/provider"
)

// earlierBatch is how many findings are looked at between two stores of the cursor.
const earlierBatch = 20

// earlier looks again at the open findings about objects that the window has left behind, one
// by one. Without it a finding that is put right after three days would stay open for ever.
func (r *run) earlier(ctx context.Context) error {
	if r.options.DryRun {
		return nil
	}
	const open = `
SELECT f.* FROM reconcile_findings f JOIN reconcile_runs last ON last.id = f.run_id
WHERE f.provider = @provider AND f.healed_at IS NULL AND f.kind IN @kinds AND f.run_id <> @run
  AND last.livemode = @livemode AND last.account = @account
  AND (f.kind = @event_missed OR NOT (f.object_at >= @since AND f.object_at < @until)) AND f.id::text > @after
ORDER BY f.id::text LIMIT @limit`
	for {
		var findings []Finding
		err := r.DB.WithContext(ctx).Raw(open, map[string]any{
			"provider": stripeName, "kinds": thereKinds(), "run": r.id, "livemode": r.Stripe.Livemode(), "account": r.Stripe.Account(),
			"event_missed": EventMissed, "since": r.options.Since, "until": r.options.Until, "after": string(r.cursor), "limit": earlierBatch,
		}).Scan(&findings).Error
		if err != nil {
			return fmt.Errorf("looking for earlier findings: %w", err)
		}
		for _, f := range findings {
			if err := r.lookAgain(ctx, f); err != nil {
				return fmt.Errorf("%s: %w", f.key(), err)
			}
			r.cursor = provider.Cursor(f.ID.String())
		}
		r.counts[string(StageEarlier)] += int64(len(findings))
		more := len(findings) == earlierBatch
		if err := r.pageDone(ctx, time.Time{}, more); err != nil || !more {
			return err
		}
	}
}

// lookAgain compares one object again, or what became of one event.
func (r *run) lookAgain(ctx context.Context, f Finding) error {
	var o provider.Object
	var again compare
	var err error
	switch {
	case f.Kind == EventMissed:
		o, again = provider.Object{ID: f.ResourceID}, r.openEvents
	case f.Kind == CheckoutUnrecorded:
		return r.lookAtCheckout(ctx, f)
	case f.Kind == RefundMissed:
		again = r.compareRefunds
		o, err = r.Lists.Get(ctx, provider.ListRefunds, f.ResourceID)
	case f.Kind == DisputeMissed:
		again = r.compareDisputes
		o, err = r.Lists.Get(ctx, provider.ListDisputes, f.ResourceID)
	case strings.HasPrefix(f.ResourceID, "pi_"):
		again = r.compareIntents
		o, err = r.Lists.Get(ctx, provider.ListIntents, f.ResourceID)
	default:
		again = r.compareSessions
		o, err = r.Lists.Get(ctx, provider.ListSessions, f.ResourceID)
	}
	if errors.Is(err, provider.ErrNotFound) {
		return r.lookHere(ctx, f)
	}
	if err != nil {
		return err
	}
	left, err := again(ctx, []provider.Object{o})
	switch {
	case err != nil:
		return err
	case len(left) == 0:
		return r.healed(ctx, f)
	case f.Kind == EventMissed:
		return r.note(ctx, f)
	}
	return r.settle(ctx, []provider.Object{o}, again, again)
}

// lookHere looks whether a payment still says that it was paid by an object which the provider
// does not have.
func (r *run) lookHere(ctx context.Context, f Finding) error {
	var paid int64
	const ask = `SELECT count(*) FROM payments WHERE provider = ? AND resource_id = ? AND status = 'succeeded'`
	if err := r.DB.WithContext(ctx).Raw(ask, stripeName, f.ResourceID).Row().Scan(&paid); err != nil {
		return fmt.Errorf("reading the payment: %w", err)
	}
	if f.Kind == PaidHere && paid == 0 {
		return r.healed(ctx, f)
	}
	return r.note(ctx, f)
}

// lookAtCheckout finds out whether a checkout's opening was recorded meanwhile.
func (r *run) lookAtCheckout(ctx context.Context, f Finding) error {
	var recorded int64
	const ask = `SELECT count(*) FROM payments WHERE id::text = ? AND resource_id IS NOT NULL`
	if err := r.DB.WithContext(ctx).Raw(ask, f.ResourceID).Row().Scan(&recorded); err != nil {
		return fmt.Errorf("reading the payment: %w", err)
	}
	if recorded == 1 {
		return r.healed(ctx, f)
	}
	return r.note(ctx, f)
}
