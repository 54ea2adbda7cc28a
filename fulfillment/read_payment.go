package fulfillment

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"gorm.io/gorm"

	"paidonce/internal/money"
	"paidonce/internal/provider"
	"paidonce/orders"
)

var (
	// errNoResource means that the provider has not answered yet with the checkout's id.
	errNoResource = errors.New("its checkout is not open yet")

	// ErrBeingRead means that another reader is at the payment.
	ErrBeingRead = errors.New("the payment is being read by another job")
)

// readLease is how long a reader has for a payment, beyond the time of its job. A reader that
// died costs the payment this much waiting, and nothing else.
const readLease = 60 * time.Second

// ReadPayment carries out the wishes to read a payment: its present state at the provider is
// applied through the same door as an event. Several wishes that came before the read began
// are one read; if all were answered by an earlier one, nothing is read.
//
// A wish that comes while it is reading may be about something this read did not see, and is
// answered by another: the newest wish is noted before the first request, and the job asks
// for itself again if there is a newer one at the end.
func (s *Service) ReadPayment(ctx context.Context, paymentID uuid.UUID, complete Complete) error {
	var wished orders.Payment
	if err := s.DB.WithContext(ctx).First(&wished, "id = ?", paymentID).Error; err != nil {
		return fmt.Errorf("reading payment %s: %w", paymentID, err)
	}
	if wished.ReadWanted > 0 && wished.ReadSeq >= wished.ReadWanted {
		return s.DB.WithContext(ctx).Transaction(complete)
	}
	return s.readNow(ctx, paymentID, complete)
}

// readNow reads a payment whether or not somebody wished for it.
func (s *Service) readNow(ctx context.Context, paymentID uuid.UUID, complete Complete) error {
	if s.Stripe == nil {
		return provider.ErrNotConfigured
	}
	noted, err := s.beginRead(ctx, paymentID)
	if err != nil {
		return err
	}
	s.crash("CW18")
	state, err := s.Stripe.ReadPayment(ctx, *noted.ResourceID)
	if err == nil {
		err = s.endRead(ctx, *noted, state, complete)
	}
	if err != nil {
		return errors.Join(err, s.leaveRead(ctx, *noted))
	}
	return nil
}

// beginRead makes the caller the one reader of the payment, and notes the newest wish. Of two
// that read at the same time, one could store what the other one knew better.
func (s *Service) beginRead(ctx context.Context, paymentID uuid.UUID) (*orders.Payment, error) {
	const begin = `
UPDATE payments SET read_until = now() + make_interval(secs => @lease)
WHERE id = @id AND resource_id IS NOT NULL AND livemode = @livemode AND account = @account
  AND (read_until IS NULL OR read_until <= now())
RETURNING *`
	var begun []orders.Payment
	err := s.DB.WithContext(ctx).Raw(begin, map[string]any{
		"id": paymentID, "lease": readLease.Seconds(), "livemode": s.Stripe.Livemode(), "account": s.Stripe.Account(),
	}).Scan(&begun).Error
	if err != nil {
		return nil, fmt.Errorf("beginning to read payment %s: %w", paymentID, err)
	}
	if len(begun) == 1 {
		return &begun[0], nil
	}
	var payment orders.Payment
	if err := s.DB.WithContext(ctx).First(&payment, "id = ?", paymentID).Error; err != nil {
		return nil, fmt.Errorf("reading payment %s: %w", paymentID, err)
	}
	why := ErrBeingRead
	switch {
	case payment.ResourceID == nil:
		why = errNoResource
	case payment.Livemode != s.Stripe.Livemode() || payment.Account != s.Stripe.Account():
		why = provider.ErrOtherWorld
	}
	return nil, fmt.Errorf("payment %s: %w", paymentID, why)
}

// endRead stores what was read, and asks for another read if a newer wish has come meanwhile.
func (s *Service) endRead(ctx context.Context, noted orders.Payment, state provider.PaymentState, complete Complete) error {
	var result orders.Result
	err := s.DB.WithContext(ctx).Transaction(func(tx *gorm.DB) (err error) {
		if result, err = s.Orders.Apply(ctx, tx, factOfRead(noted, state)); err != nil {
			return err
		}
		// Only the reader whose lease it still is stores anything. One that overslept it may have
		// seen less than another that has read since, in answer to the same wish.
		// Without it: an order whose money is back is fulfilled again by an older answer.
		const end = `UPDATE payments SET read_until = NULL WHERE id = ? AND read_until = ? RETURNING read_wanted`
		var wanted []int64
		if err := tx.Raw(end, noted.ID, noted.ReadUntil).Scan(&wanted).Error; err != nil {
			return fmt.Errorf("ending the read of payment %s: %w", noted.ID, err)
		}
		if len(wanted) == 0 {
			return fmt.Errorf("after the lease: %w", ErrBeingRead)
		}
		if wanted[0] > noted.ReadWanted {
			if err := s.Queue.WantRead(ctx, tx, noted.ID); err != nil {
				return err
			}
		}
		return complete(tx)
	})
	if err != nil {
		return fmt.Errorf("storing the read of payment %s: %w", noted.ID, err)
	}
	s.crash("CW19")
	s.logNews(result)
	return nil
}

// logNews says what the merchant has to know about money that goes back. docs/operations.md
// says what to do about what is an alert.
func (s *Service) logNews(r orders.Result) {
	for _, n := range r.News {
		log := s.Log.With("order_id", r.OrderID, "payment_id", r.PaymentID, "subject_id", n.SubjectID, "amount", n.Amount.String(), "state", r.To)
		switch n.Event {
		case orders.RefundFailed, orders.DisputeOpened, orders.DisputeLost:
			log.Error(string(n.Event), "alert", true)
		case orders.RefundSucceeded, orders.DisputeWon:
			log.Info(string(n.Event))
		}
	}
}

// leaveRead lets the next reader in, if this one has found out nothing.
func (s *Service) leaveRead(ctx context.Context, noted orders.Payment) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
	defer cancel()
	const leave = `UPDATE payments SET read_until = NULL WHERE id = ? AND read_until = ?`
	if err := s.DB.WithContext(ctx).Exec(leave, noted.ID, noted.ReadUntil).Error; err != nil {
		return fmt.Errorf("leaving payment %s: %w", noted.ID, err)
	}
	return nil
}

// factOfRead puts a read into the words of orders. An open checkout claims nothing.
func factOfRead(p orders.Payment, state provider.PaymentState) orders.Fact {
	f := orders.Fact{
		Provider: p.Provider, Resources: state.Resources, Livemode: p.Livemode, Account: p.Account,
		ObjectCreatedAt: state.CreatedAt, Read: true, ReadSeq: p.ReadWanted,
		Cause: orders.Cause{Provider: "job", EventID: kindReadPayment},
	}
	switch {
	case state.Succeeded:
		f.Status = orders.StatusSucceeded
		f.ReceivedMinor, f.ReceivedCurrency, f.IntendedMinor = state.ReceivedMinor, state.Currency, state.IntendedMinor
		f.Breakdown = (*orders.Breakdown)(state.Breakdown)
		f.Returns = returnsOf(state.Returns)
	case state.Expired: // also where its intent was canceled for it
		f.Status = orders.StatusExpired
	case state.Canceled:
		f.Status = orders.StatusCanceled
	case state.Processing:
		f.Status = orders.StatusProcessing
	}
	return f
}

func returnsOf(read provider.Returns) *orders.Returns {
	r := &orders.Returns{RefundedMinor: read.RefundedMinor, ChargedCurrency: read.ChargedCurrency}
	for _, v := range read.Refunds {
		r.Refunds = append(r.Refunds, orders.PaymentRefund{
			RefundID: v.ID, AmountMinor: v.AmountMinor, Currency: money.Currency(v.Currency), Status: v.Status, CreatedAt: v.CreatedAt,
		})
	}
	for _, v := range read.Disputes {
		r.Disputes = append(r.Disputes, orders.PaymentDispute{
			DisputeID: v.ID, AmountMinor: v.AmountMinor, Currency: money.Currency(v.Currency), Status: v.Status, Reason: v.Reason,
			DueAt: v.DueAt, CreatedAt: v.CreatedAt,
		})
	}
	return r
}
