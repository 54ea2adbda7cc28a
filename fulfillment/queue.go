package fulfillment

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/riverqueue/river"
	"gorm.io/gorm"

	"paidonce/internal/database"
	"paidonce/internal/provider"
	"paidonce/licenses"
	"paidonce/orders"
)

// Queue puts jobs into transactions. It is what orders and provider know of this package:
// it implements orders.Follower, orders.Reader and provider.Enqueuer.
type Queue struct {
	// Client is the River client; it works jobs too in a process with workers. It is set
	// once, after the stores that the workers need exist, and before anything is enqueued.
	Client *river.Client[*sql.Tx]

	Licenses *licenses.Store
}

// enqueue inserts a job in the transaction that makes it necessary: a rollback leaves none,
// and no worker sees it before the commit.
func (q *Queue) enqueue(ctx context.Context, tx *gorm.DB, args river.JobArgs, after time.Duration) error {
	sqlTx, err := database.Tx(tx)
	if err != nil {
		return fmt.Errorf("enqueueing %s: %w", args.Kind(), err)
	}
	l := limitsOf(args.Kind())
	opts := &river.InsertOpts{Queue: l.queue, MaxAttempts: l.attempts}
	if after > 0 {
		opts.ScheduledAt = time.Now().UTC().Add(after) //nolint:forbidigo // River compares it with its own clock
	}
	if _, err := q.Client.InsertTx(ctx, sqlTx, args, opts); err != nil {
		return fmt.Errorf("enqueueing %s: %w", args.Kind(), err)
	}
	return nil
}

// EnqueueCall implements provider.Enqueuer.
func (q *Queue) EnqueueCall(ctx context.Context, tx *gorm.DB, c provider.Call) error {
	switch c.Operation {
	case provider.OpCheckout:
		return q.enqueue(ctx, tx, CreateCheckoutArgs{Key: c.IdempotencyKey}, takeOverAfter)
	case provider.OpExpire:
		return q.enqueue(ctx, tx, ExpireCheckoutArgs{Key: c.IdempotencyKey, PaymentID: c.SubjectID}, takeOverAfter)
	case provider.OpFulfill:
		return q.enqueue(ctx, tx, NotifyProviderArgs{Key: c.IdempotencyKey}, 0)
	case provider.OpRefund:
		return q.enqueue(ctx, tx, SendRefundArgs{Key: c.IdempotencyKey}, takeOverAfter)
	}
	return fmt.Errorf("bug: no job performs %q", c.Operation)
}

// WantRead implements orders.Reader.
func (q *Queue) WantRead(ctx context.Context, tx *gorm.DB, paymentID uuid.UUID) error {
	return q.enqueue(ctx, tx, ReadPaymentArgs{PaymentID: paymentID}, 0)
}

// OrderMoved implements orders.Follower: licenses follow the order's state, and every
// return to paid asks for fulfillment.
func (q *Queue) OrderMoved(ctx context.Context, tx *gorm.DB, m orders.Move) error {
	if status, follows := licenseStatus(m.To); follows {
		if _, err := q.Licenses.Follow(ctx, tx, m.OrderID, status, m.At); err != nil {
			return fmt.Errorf("licenses of order %s: %w", m.OrderID, err)
		}
	}
	if m.To == orders.Paid {
		return q.enqueue(ctx, tx, FulfillOrderArgs{OrderID: m.OrderID}, 0)
	}
	return nil
}
