package fulfillment

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/tidwall/gjson"
	"gorm.io/gorm"

	"paidonce/orders"
	"paidonce/webhooks"
)

// returnReadEvery is how often the return pages of one checkout read it, all of them and all
// processes together: a buyer who waits for the webhook is told in time, and one who holds
// the reload key costs nothing. For an older checkout it is a twentieth of its age: a page
// that is left open for days while a bank thinks asks a few times an hour, then less.
const returnReadEvery = 3 * time.Second

// Returned is what the buyer's return taught.
type Returned struct {
	Ours bool // the session is a checkout of this order
	Paid bool // it was read now, and says that it is paid
}

// ReadReturn is for the page that a provider sends the buyer back to. It reads the session,
// if it is a checkout of the order, may still be paid, and was not read a moment ago, and
// records what it read like any delivery: the drainer applies it. So page and webhook are
// two deliveries of one fact, and there is no second way to be paid.
//
// An error means that nothing was learned. The webhook comes all the same.
func (s *Service) ReadReturn(ctx context.Context, orderID uuid.UUID, sessionID string) (Returned, error) {
	payment, due, err := s.returnDue(ctx, orderID, sessionID)
	if err != nil || payment == nil {
		return Returned{}, err
	}
	if !due || s.Stripe == nil {
		return Returned{Ours: true}, nil
	}
	session, err := s.Stripe.ReadSession(ctx, sessionID)
	if err != nil {
		return Returned{Ours: true}, err
	}
	paid := gjson.GetBytes(session, "status").Str == "complete" && gjson.GetBytes(session, "payment_status").Str != "unpaid"
	if !paid {
		return Returned{Ours: true}, nil // whatever else it says, its event says, and the page has no use for it
	}
	e, body := (&webhooks.Stripe{}).SessionRead(webhooks.SourceReturn, s.Stripe.Account(), session, s.Now())
	if _, err := s.Inbox.Record(ctx, e, webhooks.SourceReturn, body); err != nil {
		return Returned{Ours: true}, err
	}
	return Returned{Ours: true, Paid: true}, nil
}

// returnDue finds the order's payment behind a session, and tells whether to read it. Of
// several pages that ask at the same moment, one is told yes.
func (s *Service) returnDue(ctx context.Context, orderID uuid.UUID, sessionID string) (*orders.Payment, bool, error) {
	tx := s.DB.WithContext(ctx)
	var payment orders.Payment
	err := tx.First(&payment, "order_id = ? AND resource_id = ?", orderID, sessionID).Error
	if errors.Is(err, gorm.ErrRecordNotFound) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("looking for a session of order %s: %w", orderID, err)
	}
	const due = `
UPDATE payments SET return_read_at = now()
WHERE id = ? AND status IN ('open', 'processing')
  AND (return_read_at IS NULL
       OR return_read_at <= now() - GREATEST(make_interval(secs => ?), (return_read_at - created_at) / 20))`
	marked := tx.Exec(due, payment.ID, returnReadEvery.Seconds())
	if marked.Error != nil {
		return nil, false, fmt.Errorf("noting a read of payment %s: %w", payment.ID, marked.Error)
	}
	return &payment, marked.RowsAffected == 1, nil
}
