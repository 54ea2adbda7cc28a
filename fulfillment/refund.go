package fulfillment

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"gorm.io/gorm"

	"paidonce/internal/provider"
	"paidonce/orders"
)

// Refund decides that money of an order goes back. Its payments are read first: what is
// decided is decided on what the provider has now. Sending it is a call like any other, with
// a job behind it: [Service.SendRefund] makes it at once for somebody who waits.
func (s *Service) Refund(ctx context.Context, orderID uuid.UUID, wish orders.RefundWish, p orders.Person) ([]orders.Decided, error) {
	if s.Stripe == nil {
		return nil, provider.ErrNotConfigured
	}
	view, err := s.Orders.Get(ctx, orderID)
	if err != nil {
		return nil, err
	}
	for _, payment := range view.Payments {
		if payment.Status != orders.StatusSucceeded {
			continue
		}
		if err := s.await(ctx, payment.ID, s.readNow); err != nil {
			return nil, fmt.Errorf("reading what is left of payment %s: %w", payment.ID, err)
		}
	}
	return s.Orders.Refund(ctx, orderID, wish, p)
}

// ErrNotRead is wrapped by the error of [Service.SendRefund] when the provider has taken the
// refund, and what became of it could not be read. A job reads it.
var ErrNotRead = errors.New("the refund was sent, and is not read back yet")

// SendRefund makes the call of a refund that was decided, and reads what became of it.
func (s *Service) SendRefund(ctx context.Context, ruling orders.Ruling) error {
	if err := s.PerformCall(ctx, provider.RefundKey(ruling.ID), func(*gorm.DB) error { return nil }); err != nil {
		return err
	}
	if err := s.await(ctx, *ruling.PaymentID, s.ReadPayment); err != nil {
		return fmt.Errorf("%w: %w", ErrNotRead, err)
	}
	return nil
}

// await reads a payment for somebody who waits; if a job is at it, after that.
func (s *Service) await(ctx context.Context, paymentID uuid.UUID, read func(context.Context, uuid.UUID, Complete) error) error {
	ctx, cancel := context.WithTimeout(ctx, readLease)
	defer cancel()
	for {
		err := read(ctx, paymentID, func(*gorm.DB) error { return nil })
		if !errors.Is(err, ErrBeingRead) {
			return err
		}
		select {
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		case <-time.After(awaitEvery):
		}
	}
}

// awaitEvery is how often somebody who waits looks whether a job is done reading.
const awaitEvery = 100 * time.Millisecond
