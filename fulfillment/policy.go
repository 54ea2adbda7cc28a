package fulfillment

import (
	"context"
	"fmt"
	"time"

	"gorm.io/gorm"

	"paidonce/licenses"
	"paidonce/orders"
)

// What money that goes back means for a buyer. The order's state is [orders.Target]'s; the
// licenses follow the state in the same transaction; each mail goes out once for its refund
// or dispute, for ever.
//
//	what was read of the provider     order                  licenses     mail to the buyer
//	a part was refunded               stays as it is         stay         refund
//	all was refunded                  refunded               revoked      refund
//	surplus money was refunded        stays as it is         stay         refund
//	a refund failed after all         paid again             active       refund_failed
//	the bank inquires                 stays as it is         stay         none: nothing has moved
//	a dispute is open                 disputed               suspended    dispute
//	it is won                         paid again             active       dispute_won
//	it is lost                        charged_back           revoked      dispute_lost
//	lost, then won after all          paid again             active       dispute_won
//	wrong money, or after a cancel    review                 suspended    none: a person decides first
//	accepted by a person              paid                   active       the receipt, if there was none
//
// A merchant who wants another policy changes the two functions below; the table in
// docs/tour.md is this one.

// licenseStatus is what an order's state means for its licenses; follows is false for a
// state that says nothing about them.
func licenseStatus(s orders.State) (status licenses.Status, follows bool) {
	switch s {
	case orders.Fulfilled:
		return licenses.StatusActive, true
	case orders.Disputed, orders.Review:
		return licenses.StatusSuspended, true
	case orders.Refunded, orders.ChargedBack:
		return licenses.StatusRevoked, true
	case orders.Pending, orders.Confirming, orders.Paid, orders.Failed, orders.Expired, orders.Canceled:
	}
	return "", false
}

// mailAbout is the mail that tells the buyer.
func mailAbout(e orders.ReturnEvent) MailKind {
	switch e {
	case orders.RefundSucceeded:
		return MailRefund
	case orders.RefundFailed:
		return MailRefundFailed
	case orders.DisputeOpened:
		return MailDispute
	case orders.DisputeWon:
		return MailDisputeWon
	case orders.DisputeLost:
		return MailDisputeLost
	}
	panic("bug: no mail about " + string(e))
}

// MoneyReturned implements orders.Follower: it writes the mails down, each with what it means
// for the licenses.
func (q *Queue) MoneyReturned(ctx context.Context, tx *gorm.DB, order orders.Order, at time.Time, news []orders.ReturnNews) error {
	var license licenses.Status
	if order.FulfilledAt != nil {
		license, _ = licenseStatus(order.State)
	}
	for _, n := range news {
		kind := mailAbout(n.Event)
		intent := mailIntent{
			OrderID: order.ID, Kind: kind, SubjectID: n.SubjectID, At: at, Message: returnMessage(kind, order, n.Amount, license),
		}
		if err := q.intendMail(ctx, tx, intent); err != nil {
			return fmt.Errorf("telling the buyer of order %s: %w", order.ID, err)
		}
	}
	return nil
}
