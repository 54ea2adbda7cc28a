package fulfillment

import (
	"context"
	"errors"

	"gorm.io/gorm"

	"paidonce/internal/money"
	"paidonce/licenses"
	"paidonce/orders"
)

// MailIntent is a mail to be written down.
type MailIntent = mailIntent

// IntendMail is intendMail, for tests that need the database's test bundle.
func (q *Queue) IntendMail(ctx context.Context, tx *gorm.DB, m MailIntent) error {
	return q.intendMail(ctx, tx, m)
}

// ReturnMessage is returnMessage.
func ReturnMessage(kind MailKind, order orders.Order, amount money.Amount, license licenses.Status) Message {
	return returnMessage(kind, order, amount, license)
}

// IsBeingRead reports whether somebody else reads the payment, or has done so.
func IsBeingRead(err error) bool { return errors.Is(err, ErrBeingRead) }

// MakeDue is makeDue.
func MakeDue(tx *gorm.DB, ids []int64, r Retry) error { return makeDue(tx, ids, r) }
