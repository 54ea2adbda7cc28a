package fulfillment

import (
	"context"
	"fmt"

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
		if err := s.readNow(ctx, payment.ID, func(*gorm.DB) error { return nil }); err != nil {
			return nil, fmt.Errorf("reading what is left of payment %s: %w", payment.ID, err)
		}
	}
	return s.Orders.Refund(ctx, orderID, wish, p)
}

// SendRefund makes the call of a refund that was decided, and reads what became of it.
func (s *Service) SendRefund(ctx context.Context, ruling orders.Ruling) error {
	nothing := func(*gorm.DB) error { return nil }
	if err := s.PerformCall(ctx, provider.RefundKey(ruling.ID), nothing); err != nil {
		return err
	}
	return s.ReadPayment(ctx, *ruling.PaymentID, nothing)
}
