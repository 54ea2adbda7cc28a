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
	ReceiptUnknown  ReceiptState = "unknown"  // it may or may not have gone out; resend_at says whether that is tried again
	ReceiptParked   ReceiptState = "parked"   // it cannot go out as it is; last_error says why
)

// sentReceipt is a row of sent_receipts, as read under its lock.
type sentReceipt struct {
	IdempotencyKey string
	Request        []byte
	State          ReceiptState
	SendingUntil   *time.Time
	Attempts       int
	Unknowns       int
	ResendAt       *time.Time
	KeyService     *string
	KeyUsedAt      *time.Time
	Now            time.Time // by the database's clock, which all leases go by
}

// errMailLater is returned for a mail that is not to be sent now.
type errMailLater struct {
	until time.Time
	why   string
}

func (e errMailLater) Error() string { return e.why }

// SendReceipt sends a mail that was written down: one transaction marks it as sending, then
// it is sent, then one transaction records how that ended (TX4).
//
// Over SMTP mail cannot be sent exactly once: if the answer to the last dot of DATA is lost,
// nobody knows. So the row says "sending" before anything is sent. Whoever finds it so, after
// its time, knows that it may have gone out, and does what outcome.go says. The license never
// waits for any of this.
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
		return fmt.Errorf("the %s mail of order %s: its frozen request is unreadable: %w", args.About, args.OrderID, err)
	}
	message.Key = begun.IdempotencyKey

	s.crash("CW13")
	providerID, sendErr := s.Mailer.Send(ctx, message)
	s.crash("CW14")
	if err := s.endReceipt(ctx, args, *begun, providerID, sendErr, complete); err != nil {
		return err
	}
	s.crash("CW15")
	return nil
}

// beginReceipt marks the mail as being sent and returns it. It returns nil, and completes
// the job, if there is nothing to send.
func (s *Service) beginReceipt(ctx context.Context, args SendReceiptArgs, complete Complete) (mine *sentReceipt, err error) {
	var later error
	err = s.DB.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		row, err := lockMail(tx, args)
		if err != nil {
			return err
		}
		do, err := s.whatToDo(row)
		if err != nil {
			return err
		}
		if do.send {
			mine, err = s.markSending(tx, args, do.unknowns)
			return err
		}
		if do.unknowns != row.Unknowns || do.resendAt != row.ResendAt {
			if err := markUnknown(tx, args, do); err != nil {
				return err
			}
			s.Log.Error("a mail has an unknown outcome", "order_id", args.OrderID, "kind", args.About, "resend_at", do.resendAt)
		}
		if do.resendAt != nil {
			later = errMailLater{until: *do.resendAt, why: "the mail is sent once more after a pause"}
			return nil
		}
		return complete(tx) // sent, parked, or for a person: not this job's any more
	})
	if err = errors.Join(err, later); err != nil {
		return nil, fmt.Errorf("beginning the %s mail of order %s: %w", args.About, args.OrderID, err)
	}
	return mine, nil
}

// lockMail reads a mail's row and holds it.
func lockMail(tx *gorm.DB, args SendReceiptArgs) (sentReceipt, error) {
	const lock = `
SELECT idempotency_key, request, state, sending_until, attempts, unknowns, resend_at, key_service, key_used_at, now() AS now
FROM sent_receipts WHERE order_id = @order_id AND kind = @kind AND subject_id = @subject_id FOR UPDATE`
	var found []sentReceipt
	if err := tx.Raw(lock, args.named()).Scan(&found).Error; err != nil {
		return sentReceipt{}, err
	}
	if len(found) == 0 {
		return sentReceipt{}, ErrNoMail
	}
	return found[0], nil
}

// markSending is the line before which nothing can have gone out. A mail that is sent for the
// first time gets its sender, for good; a service that keeps keys has this one from now on.
func (s *Service) markSending(tx *gorm.DB, args SendReceiptArgs, unknowns int) (*sentReceipt, error) {
	// Invariant I7: what may have happened is on record before it can happen.
	// Without it: two workers, or a worker that died after the send, send twice. CW13, CW14.
	const begin = `
UPDATE sent_receipts
SET state = 'sending', sending_until = now() + make_interval(secs => @lease), attempts = attempts + 1, updated_at = now(),
    unknowns = @unknowns, resend_at = NULL, key_service = NULLIF(@service, ''),
    key_used_at = CASE
        WHEN @service = '' THEN NULL
        WHEN @unknowns = 0 OR key_service IS DISTINCT FROM @service THEN now()
        ELSE key_used_at END,
    request = CASE WHEN request->>'from' = ''
        THEN request || jsonb_build_object('from', CAST(@sender AS text), 'message_id', replace(idempotency_key, ':', '.') || '@' || @domain)
        ELSE request END
WHERE order_id = @order_id AND kind = @kind AND subject_id = @subject_id
RETURNING idempotency_key, request, state, sending_until, attempts, unknowns, resend_at, key_service, key_used_at, now() AS now`
	service, _ := s.keys()
	named := args.named()
	named["lease"], named["unknowns"], named["service"] = s.SendLease.Seconds(), unknowns, service
	named["sender"], named["domain"] = s.MailFrom, domainOf(s.MailFrom)
	var row sentReceipt
	if err := tx.Raw(begin, named).Scan(&row).Error; err != nil {
		return nil, err
	}
	return &row, nil
}

// markUnknown records that nobody knows whether a mail went out, and what is to follow.
func markUnknown(tx *gorm.DB, args SendReceiptArgs, do action) error {
	const mark = `
UPDATE sent_receipts
SET state = 'unknown', sending_until = NULL, unknowns = @unknowns, resend_at = @resend_at, updated_at = now(),
    last_error = CASE WHEN state = 'sending' THEN 'its sender ended before it could say whether the mail went out' ELSE last_error END
WHERE order_id = @order_id AND kind = @kind AND subject_id = @subject_id`
	named := args.named()
	named["unknowns"], named["resend_at"] = do.unknowns, do.resendAt
	return tx.Exec(mark, named).Error
}

// endReceipt records how the sending ended (TX4), and what is to follow.
//
// A sender that overslept its lease finds the row as unknown. That the mail did go out is
// still worth writing down; anything else is not its business any more, and its job looks again.
func (s *Service) endReceipt(ctx context.Context, args SendReceiptArgs, begun sentReceipt, providerID string, sendErr error, complete Complete) error {
	end := s.ending(begun, sendErr)
	lastError := ""
	if sendErr != nil {
		lastError = sendErr.Error()
	}
	const record = `
UPDATE sent_receipts
SET state = @state, sending_until = NULL, provider_id = NULLIF(@provider_id, ''), last_error = NULLIF(@last_error, ''),
    unknowns = @unknowns, resend_at = @resend_at,
    sent_at = CASE WHEN @state = 'sent' THEN CAST(@now AS timestamptz) END, updated_at = @now
WHERE order_id = @order_id AND kind = @kind AND subject_id = @subject_id
  AND ((state = 'sending' AND attempts = @attempt) OR (@state = 'sent' AND state = 'unknown'))`
	named := args.named()
	named["state"], named["unknowns"], named["resend_at"] = end.state, end.unknowns, end.resendAt
	named["provider_id"], named["last_error"] = providerID, database.Text(lastError)
	named["now"], named["attempt"] = s.Now(), begun.Attempts

	// The process may have been told to stop while the mail was under way. That it went out
	// is worth a moment more to write down.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	err := s.DB.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		ended := tx.Exec(record, named)
		if ended.Error == nil && ended.RowsAffected == 0 {
			end.next = errMailLater{until: s.Now(), why: "the mail was taken over while it was being sent"}
		}
		if ended.Error != nil || end.next != nil {
			return ended.Error
		}
		return complete(tx)
	})
	if err != nil {
		return fmt.Errorf("recording the %s mail of order %s as %s: %w", args.About, args.OrderID, end.state, err)
	}
	if end.state != ReceiptSent {
		s.Log.Error("mail not sent", "order_id", args.OrderID, "kind", args.About, "state", end.state, "error", lastError, "resend_at", end.resendAt)
	}
	return end.next
}

// named are the mail's identity, as the statements here name it.
func (a SendReceiptArgs) named() map[string]any {
	return map[string]any{"order_id": a.OrderID, "kind": a.About, "subject_id": a.SubjectID}
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
