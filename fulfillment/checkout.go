package fulfillment

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"gorm.io/gorm"

	"paidonce/internal/provider"
	"paidonce/orders"
)

// CheckoutAgain writes down another checkout for an order that is not paid. The one that is
// open is ended first, at the provider: a buyer who had both could pay both. If it turns out
// to be complete, its payment is applied instead, and the order says why it takes no other.
//
// If the provider does not answer, no checkout is added. The wish to end the open one stands
// all the same, as every call that may have been made does (I7): its job carries it out.
func (s *Service) CheckoutAgain(ctx context.Context, m orders.Merchant, orderID uuid.UUID, r *orders.Request) (orders.Created, error) {
	if r != nil {
		if earlier, err := s.Orders.Earlier(ctx, *r); err != nil || earlier != nil {
			return deref(earlier), err
		}
	}
	view, err := s.Orders.Get(ctx, orderID)
	if err != nil {
		return orders.Created{}, err
	}
	if err := view.Order.TakesCheckout(); err != nil {
		return orders.Created{}, err
	}
	for _, p := range view.Payments {
		if p.Status != orders.StatusOpen {
			continue
		}
		if err := s.endCheckout(ctx, p); err != nil {
			return orders.Created{}, fmt.Errorf("ending the checkout of payment %s: %w", p.ID, err)
		}
	}
	return s.Orders.CheckoutAgain(ctx, m, orderID, r)
}

func deref(c *orders.Created) orders.Created {
	if c == nil {
		return orders.Created{}
	}
	return *c
}

// endCheckout ends an open checkout. One that the provider has not been asked for, or has not
// answered, may open at any time: it is opened, so that it can be ended.
func (s *Service) endCheckout(ctx context.Context, p orders.Payment) error {
	if p.ResourceID == nil {
		err := s.OpenCheckout(ctx, provider.CheckoutKey(p.ID))
		if err != nil && !errors.Is(err, provider.ErrRefused) && !errors.Is(err, provider.ErrKeyTooOld) {
			return err
		}
		if err := s.DB.WithContext(ctx).First(&p, "id = ?", p.ID).Error; err != nil {
			return fmt.Errorf("reading it back: %w", err)
		}
		if p.Status != orders.StatusOpen { // stopped, and so it never will be open
			return nil
		}
		if p.ResourceID == nil {
			return fmt.Errorf("payment %s: %w", p.ID, errors.Join(errNoResource, err))
		}
	}
	call := provider.ExpireRequest{PaymentID: p.ID, SessionID: *p.ResourceID}.Call()
	call.Livemode, call.Account = p.Livemode, p.Account
	err := s.DB.WithContext(ctx).Transaction(func(tx *gorm.DB) error { return s.Calls.Intend(ctx, tx, call) })
	if err != nil {
		return err
	}
	if err := s.ExpireCheckout(ctx, call.IdempotencyKey, p.ID, func(*gorm.DB) error { return nil }); err != nil {
		return err
	}
	if err := s.DB.WithContext(ctx).First(&p, "id = ?", p.ID).Error; err != nil {
		return fmt.Errorf("reading it back: %w", err)
	}
	if p.Status == orders.StatusOpen { // the buyer is done there, and the money is on its way
		return &orders.NotOpenError{State: orders.Confirming}
	}
	return nil
}

// ExpireCheckout makes the call that ends a checkout. The provider refuses it for one that is
// not open any more; then what became of the payment is read, and applied.
func (s *Service) ExpireCheckout(ctx context.Context, key string, paymentID uuid.UUID, complete Complete) error {
	err := s.PerformCall(ctx, key, complete)
	if !errors.Is(err, provider.ErrRefused) {
		return err
	}
	err = s.readNow(ctx, paymentID, complete)
	if errors.Is(err, provider.ErrNotFound) {
		// A checkout that the provider does not have cannot be paid.
		err = s.DB.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
			if err := s.Orders.SettleExpiry(ctx, tx, provider.Call{IdempotencyKey: key, SubjectID: paymentID}); err != nil {
				return err
			}
			return complete(tx)
		})
	}
	if err != nil {
		return fmt.Errorf("reading what is not open any more: %w", err)
	}
	return nil
}
