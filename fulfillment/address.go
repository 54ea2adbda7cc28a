package fulfillment

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"gorm.io/gorm"

	"paidonce/orders"
)

// Readdressed is what a new address meant for one mail of an order.
type Readdressed struct {
	Kind      MailKind     `json:"kind"`
	SubjectID string       `json:"subject_id"`
	State     ReceiptState `json:"state"` // now
	Sending   bool         `json:"sending"`
	To        string       `json:"to"` // where it goes, or went
	Unknowns  int          `json:"-"`
}

// CorrectEmail gives an order another address. Mails of which nothing can have gone out are
// frozen anew for it, and sent; all others stay as they are: to send them again is another
// decision. An order without an address, whose receipt is parked, gets it so.
//
// Where an order's address comes from: the order itself, which is given one when it is made,
// and this. What the buyer typed in at the provider's checkout is not taken: whoever pays is
// not always who ordered.
func (s *Service) CorrectEmail(ctx context.Context, orderID uuid.UUID, email string, p orders.Person) (orders.Decided, []Readdressed, error) {
	var decided orders.Decided
	var mails []Readdressed
	err := s.DB.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		var err error
		if decided, err = s.Orders.CorrectEmail(ctx, tx, orderID, email, p); err != nil {
			return err
		}
		mails, err = s.readdress(ctx, tx, decided.Order, s.Now())
		return err
	})
	if err != nil {
		return orders.Decided{}, nil, fmt.Errorf("correcting the address of an order: %w", err)
	}
	return decided, mails, nil
}

// readdress freezes an order's mails anew that have not gone out. One that was tried before
// gets another key, and so another Message-ID: it is another mail, and a mail service may know
// the old key with the old one.
func (s *Service) readdress(ctx context.Context, tx *gorm.DB, order orders.Order, now time.Time) ([]Readdressed, error) {
	const list = `
SELECT kind, subject_id, state, unknowns, request->>'to' AS to FROM sent_receipts WHERE order_id = ? ORDER BY created_at, kind, subject_id FOR UPDATE`
	const freeze = `
UPDATE sent_receipts
SET state = 'intended', last_error = NULL, key_service = NULL, key_used_at = NULL, updated_at = @now,
    idempotency_key = kind || ':' || subject_id || CASE WHEN attempts = 0 THEN '' ELSE ':' || (attempts + 1) END,
    request = request || jsonb_build_object('to', CAST(@to AS text), 'from', '', 'message_id', '')
WHERE order_id = @order_id AND kind = @kind AND subject_id = @subject_id`
	var mails []Readdressed
	if err := tx.Raw(list, order.ID).Scan(&mails).Error; err != nil {
		return nil, fmt.Errorf("reading the mails of order %s: %w", order.ID, err)
	}
	for i := range mails {
		m := &mails[i]
		// Invariant I7: only what certainly did not go out is sent to another address.
		// Without it: whoever got the mail gets it again, or two people have the license.
		if m.To == order.Email || m.Unknowns > 0 || (m.State != ReceiptIntended && m.State != ReceiptParked) {
			continue
		}
		args := SendReceiptArgs{OrderID: order.ID, About: m.Kind, SubjectID: m.SubjectID}
		named := args.named()
		named["to"], named["now"] = order.Email, now
		if err := tx.Exec(freeze, named).Error; err != nil {
			return nil, fmt.Errorf("addressing the %s mail of order %s anew: %w", m.Kind, order.ID, err)
		}
		if err := s.Queue.enqueue(ctx, tx, args, 0); err != nil {
			return nil, err
		}
		m.State, m.To, m.Sending = ReceiptIntended, order.Email, true
	}
	return mails, nil
}
