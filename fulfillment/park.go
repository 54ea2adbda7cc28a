package fulfillment

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"gorm.io/gorm"

	"paidonce/webhooks"
)

// park decides about a delivery that names nothing we have recorded. It may be early: the
// provider is often faster than the commit that stores a session's id, and an intent's id
// is only learned from its session. So it waits, with all its ids written down; whoever
// learns one of them releases it.
//
// After ParkFor the wait is over: what carries our own marker is dead, since we did make
// that object and something is wrong, and the rest is foreign. Neither is retried, and
// neither was ever anything but a 2xx to the provider.
func (d *Drainer) park(ctx context.Context, tx *gorm.DB, it item) (webhooks.Verdict, error) {
	v := webhooks.Verdict{Key: it.row.Key(), Resources: it.event.Resources}
	order, marked := ourOrder(it.event)
	switch {
	case it.row.Waited < d.ParkFor, it.row.Outcome == nil:
		// Also the first time it is looked at, however late that is: a backlog is not a wait.
		v.Outcome = webhooks.OutcomeParked
		// As long again as it has waited: 1, 2, 4… s, without a counter.
		v.RetryIn = min(max(it.row.Waited, time.Second), time.Minute)
	case marked:
		v.Outcome, v.Detail = webhooks.OutcomeDead, webhooks.Unmatched
	default:
		v.Outcome = webhooks.OutcomeForeign
	}

	// A read of the order's recorded payments learns the alias, if the event that would
	// teach it never comes. The first wait is left to that event: it is usually the next.
	secondTry := it.row.Outcome != nil
	if marked && secondTry && v.Outcome == webhooks.OutcomeParked {
		if err := d.readPaymentsOf(ctx, tx, order); err != nil {
			return v, err
		}
	}
	return v, nil
}

// ourOrder is the order that the event's marker names. It only helps to look.
func ourOrder(e webhooks.Event) (uuid.UUID, bool) {
	if e.OrderHint == "" {
		return uuid.Nil, false
	}
	id, err := uuid.Parse(e.OrderHint)
	return id, err == nil
}

// readPaymentsOf asks for a read of each payment of the order that we recorded ourselves.
func (d *Drainer) readPaymentsOf(ctx context.Context, tx *gorm.DB, order uuid.UUID) error {
	var payments []uuid.UUID
	const recorded = `SELECT id FROM payments WHERE order_id = ? AND resource_id IS NOT NULL`
	if err := tx.WithContext(ctx).Raw(recorded, order).Scan(&payments).Error; err != nil {
		return fmt.Errorf("looking for the payments of order %s: %w", order, err)
	}
	for _, id := range payments {
		if err := d.Orders.WantRead(ctx, tx, id); err != nil {
			return err
		}
	}
	return nil
}
