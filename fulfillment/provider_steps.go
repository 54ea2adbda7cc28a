package fulfillment

import (
	"context"
	"errors"
	"fmt"

	"gorm.io/gorm"

	"paidonce/internal/provider"
	"paidonce/orders"
)

// PerformCall makes a call that was written down: it opens a checkout, or tells the
// provider what a payment paid for. Settling the answer and completing the job are one
// transaction (TX4).
func (s *Service) PerformCall(ctx context.Context, key string, complete Complete) error {
	err := s.Calls.Perform(ctx, key, func(ctx context.Context, tx *gorm.DB, c provider.Call, a provider.Answer) error {
		if err := s.settle(ctx, tx, c, a); err != nil {
			return err
		}
		return complete(tx)
	})
	if errors.Is(err, provider.ErrRefused) || errors.Is(err, provider.ErrKeyTooOld) {
		if failed := s.settleRefusal(ctx, key); failed != nil {
			return failed // so that the job comes back; the call is refused again without being sent
		}
	}
	return err
}

// settleRefusal applies that a call will not be made, or that what it did cannot be found. The
// job stays a dead letter: somebody has to see why. It runs again whenever the call is tried
// again, and does nothing then.
func (s *Service) settleRefusal(ctx context.Context, key string) error {
	var call provider.Call
	if err := s.DB.WithContext(ctx).First(&call, "idempotency_key = ?", key).Error; err != nil {
		return fmt.Errorf("reading call %s: %w", key, err)
	}
	if call.Operation != provider.OpCheckout || call.State == provider.CallSent {
		return nil
	}
	return s.DB.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		return s.Orders.CheckoutFailed(ctx, tx, call.SubjectID, orders.Cause{Provider: "job", EventID: kindCreateCheckout})
	})
}

// settle applies the answer to a call.
func (s *Service) settle(ctx context.Context, tx *gorm.DB, c provider.Call, a provider.Answer) error {
	switch c.Operation {
	case provider.OpCheckout:
		return s.Orders.SettleCheckout(ctx, tx, c, a)
	case provider.OpExpire:
		return s.Orders.SettleExpiry(ctx, tx, c)
	case provider.OpFulfill:
		return nil // the answer changes nothing here
	case provider.OpRefund:
		return s.Orders.SettleRefund(ctx, tx, c)
	}
	return fmt.Errorf("bug: nothing settles %q", c.Operation)
}

// OpenCheckout makes a checkout call at once, for a request that waits for its answer. The
// call's job stands behind it: if this process dies, or gives up, the job opens it.
func (s *Service) OpenCheckout(ctx context.Context, key string) error {
	return s.PerformCall(ctx, key, func(*gorm.DB) error { return nil })
}
