package fulfillment

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"gorm.io/gorm"

	"paidonce/internal/database"
)

// ReceiptState is where a mail stands.
type ReceiptState string

// The states of a mail.
const (
	ReceiptIntended ReceiptState = "intended" // written down, nothing sent
	ReceiptSending  ReceiptState = "sending"  // somebody is at it until sending_until, or died at it
	ReceiptSent     ReceiptState = "sent"     // the transport has taken it
	ReceiptUnknown  ReceiptState = "unknown"  // it may or may not have gone out; a person decides
	ReceiptParked   ReceiptState = "parked"   // it cannot go out as it is; last_error says why
)

// sentReceipt is a row of sent_receipts.
type sentReceipt struct {
	State        ReceiptState
	Request      []byte
	SendingUntil *time.Time
	Live         bool // its sender still has time, by the database's clock
	Attempts     int
}

// errStillSending is returned while another process is sending the same mail.
type errStillSending struct{ until time.Time }

func (e errStillSending) Error() string { return "the mail is being sent by another process" }

// SendReceipt sends a mail that was written down: one transaction marks it as sending, then
// it is sent, then one transaction records how that ended (TX4).
//
// Mail cannot be sent exactly once: if the answer to the last dot of DATA is lost, nobody
// knows. So the row says "sending" before anything is sent. Whoever finds it so, after its
// time, knows that it may have gone out, and does not send it again: it becomes unknown,
// and waits for a person. The license never waits for any of this.
func (s *Service) SendReceipt(ctx context.Context, args SendReceiptArgs, complete Complete) error {
	if s.Mailer == nil {
		return errMailNotConfigured
	}
	s.crash("CW12")
	begun, err := s.beginReceipt(ctx, args, complete)
	if err != nil || begun == nil {
		return err
	}
	var message Message
	if err := json.Unmarshal(begun.Request, &message); err != nil {
		return fmt.Errorf("receipt of order %s: its frozen request is unreadable: %w", args.OrderID, err)
	}

	s.crash("CW13")
	providerID, sendErr := s.Mailer.Send(ctx, message)
	s.crash("CW14")
	if err := s.endReceipt(ctx, args, begun.Attempts, providerID, sendErr, complete); err != nil {
		return err
	}
	s.crash("CW15")
	return nil
}

// beginReceipt marks the mail as being sent and returns it. It returns nil, and completes
// the job, if there is nothing to send.
func (s *Service) beginReceipt(ctx context.Context, args SendReceiptArgs, complete Complete) (mine *sentReceipt, err error) {
	// Invariant I7: what may have happened is on record before it can happen.
	// Without it: two workers, or a worker that died after the send, send twice. CW13, CW14.
	const begin = `
UPDATE sent_receipts
SET state = 'sending', sending_until = now() + make_interval(secs => @lease), attempts = attempts + 1, updated_at = now(),
    request = CASE WHEN request->>'from' = ''
        THEN request || jsonb_build_object('from', CAST(@sender AS text), 'message_id', replace(idempotency_key, ':', '.') || '@' || @domain)
        ELSE request END
WHERE order_id = @order_id AND kind = @kind AND subject_id = @subject_id AND state = 'intended'
RETURNING request, attempts`
	const read = `
SELECT state, sending_until, sending_until > now() AS live FROM sent_receipts
WHERE order_id = @order_id AND kind = @kind AND subject_id = @subject_id FOR UPDATE`
	const giveUp = `
UPDATE sent_receipts
SET state = 'unknown', sending_until = NULL, last_error = 'its sender ended before it could say whether the mail went out', updated_at = now()
WHERE order_id = @order_id AND kind = @kind AND subject_id = @subject_id AND state = 'sending'`

	named := map[string]any{
		"order_id": args.OrderID, "kind": args.About, "subject_id": args.SubjectID, "lease": s.SendLease.Seconds(),
		"sender": s.MailFrom, "domain": domainOf(s.MailFrom),
	}
	err = s.DB.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		var begun []sentReceipt
		if err := tx.Raw(begin, named).Scan(&begun).Error; err != nil {
			return err
		}
		if len(begun) == 1 {
			mine = &begun[0]
			return nil
		}
		var found []sentReceipt
		if err := tx.Raw(read, named).Scan(&found).Error; err != nil {
			return err
		}
		if len(found) == 0 {
			return errors.New("the mail was never written down")
		}
		if found[0].State != ReceiptSending {
			return complete(tx) // sent, unknown or parked: not this job's any more
		}
		if found[0].Live {
			return errStillSending{until: *found[0].SendingUntil}
		}
		if err := tx.Exec(giveUp, named).Error; err != nil {
			return err
		}
		s.Log.Error("receipt has an unknown outcome", "order_id", args.OrderID, "kind", args.About)
		return complete(tx)
	})
	if err != nil {
		return nil, fmt.Errorf("beginning the receipt of order %s: %w", args.OrderID, err)
	}
	return mine, nil
}

// endReceipt records how the sending ended (TX4). Only what certainly did not go out is
// intended again.
//
// A sender that overslept its lease finds the row as unknown. That the mail did go out is
// still worth writing down; anything else is not its business any more.
func (s *Service) endReceipt(ctx context.Context, args SendReceiptArgs, attempt int, providerID string, sendErr error, complete Complete) error {
	state, retry := ReceiptSent, false
	var rejected *RejectedError
	switch {
	case sendErr == nil:
	case errors.As(sendErr, &rejected):
		state = ReceiptParked
	case errors.Is(sendErr, ErrNotSent):
		state, retry = ReceiptIntended, true
	default:
		state = ReceiptUnknown
	}
	lastError := ""
	if sendErr != nil {
		lastError = sendErr.Error()
	}
	const end = `
UPDATE sent_receipts
SET state = @state, sending_until = NULL, provider_id = NULLIF(@provider_id, ''), last_error = NULLIF(@last_error, ''),
    sent_at = CASE WHEN @state = 'sent' THEN CAST(@now AS timestamptz) END, updated_at = @now
WHERE order_id = @order_id AND kind = @kind AND subject_id = @subject_id
  AND ((state = 'sending' AND attempts = @attempt) OR (@state = 'sent' AND state = 'unknown'))`

	// The process may have been told to stop while the mail was under way. That it went out
	// is worth a moment more to write down.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	err := s.DB.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		ended := tx.Exec(end, map[string]any{
			"state": state, "provider_id": providerID, "last_error": database.Text(lastError), "now": s.Now(), "attempt": attempt,
			"order_id": args.OrderID, "kind": args.About, "subject_id": args.SubjectID,
		})
		if ended.Error != nil || retry {
			return ended.Error
		}
		return complete(tx)
	})
	if err != nil {
		return fmt.Errorf("recording the receipt of order %s as %s: %w", args.OrderID, state, err)
	}
	if state != ReceiptSent {
		s.Log.Error("receipt not sent", "order_id", args.OrderID, "kind", args.About, "state", state, "error", lastError)
	}
	if retry {
		return sendErr
	}
	return nil
}

// ReceiptStatus tells how a mail of an order stands.
type ReceiptStatus struct {
	Kind      MailKind
	SubjectID string
	State     ReceiptState
	LastError *string
}

// Receipts lists the mails of an order, oldest first.
func (s *Service) Receipts(ctx context.Context, orderID uuid.UUID) ([]ReceiptStatus, error) {
	const list = `SELECT kind, subject_id, state, last_error FROM sent_receipts WHERE order_id = ? ORDER BY created_at, kind, subject_id`
	var receipts []ReceiptStatus
	if err := s.DB.WithContext(ctx).Raw(list, orderID).Scan(&receipts).Error; err != nil {
		return nil, fmt.Errorf("reading the receipts of order %s: %w", orderID, err)
	}
	return receipts, nil
}
