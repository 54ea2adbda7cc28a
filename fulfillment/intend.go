package fulfillment

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"gorm.io/gorm"
)

// MailKind is what a mail is about; with the order and a subject it is the mail's identity.
type MailKind string

// The kinds of mail. The subject of a receipt is its order, of the others the refund or the
// dispute at the provider.
const (
	MailReceipt      MailKind = "receipt"
	MailRefund       MailKind = "refund"        // money goes back to the buyer
	MailRefundFailed MailKind = "refund_failed" // it did not arrive
	MailDispute      MailKind = "dispute"       // the buyer's bank asks for it
	MailDisputeWon   MailKind = "dispute_won"
	MailDisputeLost  MailKind = "dispute_lost"
)

// mailIntent is a mail to be written down. Its message has no sender yet.
type mailIntent struct {
	OrderID   uuid.UUID
	Kind      MailKind
	SubjectID string
	Message   Message
	At        time.Time // the transaction's one time; also the mail's date
}

// key is the mail's idempotency key.
func (m mailIntent) key() string { return string(m.Kind) + ":" + m.SubjectID }

// noAddress is why a mail is parked that has nobody to go to.
const noAddress = "the order has no mail address"

// intendMail writes a mail down, and enqueues its sending, in the transaction that makes it
// due. A kind of mail goes out once for each subject, for ever: a second intent finds the row
// and does nothing. Sender and Message-ID are frozen at the first sending, so that a mail may
// be written down before a sender is configured, and by a process that has none.
//
// A mail that has nobody to go to is parked, with the reason; it gets its job with its
// address (Service.CorrectEmail).
func (q *Queue) intendMail(ctx context.Context, tx *gorm.DB, m mailIntent) error {
	m.Message.From, m.Message.MessageID, m.Message.Date = "", "", m.At
	frozen, err := json.Marshal(m.Message)
	if err != nil {
		return fmt.Errorf("freezing the %s mail of order %s: %w", m.Kind, m.OrderID, err)
	}
	state, why := ReceiptIntended, ""
	if strings.TrimSpace(m.Message.To) == "" {
		state, why = ReceiptParked, noAddress
	}

	// Invariant I7: one mail per order, kind and subject (sent_receipts_pkey).
	// Without it: an order that is paid again after a dispute gets a second receipt.
	const intend = `
INSERT INTO sent_receipts (order_id, kind, subject_id, idempotency_key, request, state, last_error, created_at, updated_at)
VALUES (@order_id, @kind, @subject_id, @key, CAST(@request AS jsonb), @state, NULLIF(@why, ''), @now, @now)
ON CONFLICT (order_id, kind, subject_id) DO NOTHING`
	inserted := tx.WithContext(ctx).Exec(intend, map[string]any{
		"order_id": m.OrderID, "kind": m.Kind, "subject_id": m.SubjectID, "key": m.key(), "request": string(frozen),
		"state": state, "why": why, "now": m.At,
	})
	if inserted.Error != nil {
		return fmt.Errorf("writing down the %s mail of order %s: %w", m.Kind, m.OrderID, inserted.Error)
	}
	if inserted.RowsAffected == 0 || state == ReceiptParked {
		return nil
	}
	return q.enqueue(ctx, tx, SendReceiptArgs{OrderID: m.OrderID, About: m.Kind, SubjectID: m.SubjectID}, 0)
}
