package fulfillment

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"gorm.io/gorm"

	"paidonce/orders"
)

// ErrNoMail is returned for a mail that was never written down.
var ErrNoMail = errors.New("the order has no such mail")

// MailSettledError is returned for a mail about which there is nothing to decide.
type MailSettledError struct{ State ReceiptState }

func (e *MailSettledError) Error() string {
	return "a person decides about a mail that is unknown or parked; this one is " + string(e.State)
}

// MailFilter chooses mails. Its zero value chooses all.
type MailFilter struct {
	States  []ReceiptState // any of these; none: whatever its state
	OrderID uuid.UUID
	Limit   int // zero: no limit
}

// MailEntry is a mail as a person looks at it.
type MailEntry struct {
	OrderID   uuid.UUID    `json:"order_id"`
	Number    int64        `json:"number"`
	Kind      MailKind     `json:"kind"`
	SubjectID string       `json:"subject_id"`
	State     ReceiptState `json:"state"`
	To        string       `json:"to"`
	Attempts  int          `json:"attempts"`
	Unknowns  int          `json:"unknowns"`  // how many copies may be out, if it is not sent
	ResendAt  *time.Time   `json:"resend_at"` // when it is sent once more by itself; nil: it is not
	LastError *string      `json:"last_error"`
	UpdatedAt time.Time    `json:"updated_at"`
}

// Mails lists mails, what changed last first.
func (s *Service) Mails(ctx context.Context, f MailFilter) ([]MailEntry, error) {
	chosen := s.DB.WithContext(ctx).Table("sent_receipts m").Joins("JOIN orders o ON o.id = m.order_id").
		Select("m.order_id, o.number, m.kind, m.subject_id, m.state, m.request->>'to' AS to, m.attempts, m.unknowns, m.resend_at, m.last_error, m.updated_at").
		Order("m.updated_at DESC, m.order_id, m.kind, m.subject_id")
	if len(f.States) > 0 {
		chosen = chosen.Where("m.state IN ?", f.States)
	}
	if f.OrderID != uuid.Nil {
		chosen = chosen.Where("m.order_id = ?", f.OrderID)
	}
	if f.Limit > 0 {
		chosen = chosen.Limit(f.Limit)
	}
	found := []MailEntry{}
	if err := chosen.Scan(&found).Error; err != nil {
		return nil, fmt.Errorf("listing mails: %w", err)
	}
	return found, nil
}

// ResendMail sends a mail again of which nobody knows whether it went out, or that could not.
// It is a retry (I12): the same key, the same bytes, the same Message-ID. What it may add is
// one copy; if its outcome is unknown again, it is not repeated by itself.
func (s *Service) ResendMail(ctx context.Context, args SendReceiptArgs, p orders.Person) (orders.Decided, error) {
	const open = `
UPDATE sent_receipts SET state = 'intended', resend_at = NULL, updated_at = @now
WHERE order_id = @order_id AND kind = @kind AND subject_id = @subject_id`
	return s.decideMail(ctx, args, p, "to be sent again", open, func(tx *gorm.DB) error { return s.Queue.enqueue(ctx, tx, args, 0) })
}

// MarkMailSent takes a mail for sent: a person knows that it arrived, or told the buyer
// otherwise.
func (s *Service) MarkMailSent(ctx context.Context, args SendReceiptArgs, p orders.Person) (orders.Decided, error) {
	const mark = `
UPDATE sent_receipts SET state = 'sent', sent_at = @now, resend_at = NULL, updated_at = @now
WHERE order_id = @order_id AND kind = @kind AND subject_id = @subject_id`
	return s.decideMail(ctx, args, p, "taken for sent", mark, func(*gorm.DB) error { return nil })
}

// decideMail carries out what a person decided about a mail, and writes it down.
func (s *Service) decideMail(
	ctx context.Context, args SendReceiptArgs, p orders.Person, what, change string, then func(*gorm.DB) error,
) (orders.Decided, error) {
	var decided orders.Decided
	err := s.DB.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		var err error
		if decided, err = s.Orders.DecideMail(ctx, tx, args.OrderID, p, string(args.About)+" "+args.SubjectID+": "+what); err != nil {
			return err
		}
		row, err := lockMail(tx, args)
		if err != nil {
			return err
		}
		if row.State != ReceiptUnknown && row.State != ReceiptParked {
			return &MailSettledError{State: row.State}
		}
		named := args.named()
		named["now"] = s.Now()
		if err := tx.Exec(change, named).Error; err != nil {
			return err
		}
		return then(tx)
	})
	if err != nil {
		return orders.Decided{}, fmt.Errorf("the %s mail of order %s: %w", args.About, args.OrderID, err)
	}
	return decided, nil
}
