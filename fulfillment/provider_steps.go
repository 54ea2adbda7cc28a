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
	}
	return fmt.Errorf("bug: nothing settles %q", c.Operation)
}

// OpenCheckout makes a checkout call at once, for a request that waits for its answer. The
// call's job stands behind it: if this process dies, or gives up, the job opens it.
func (s *Service) OpenCheckout(ctx context.Context, key string) error {
	return s.PerformCall(ctx, key, func(*gorm.DB) error { return nil })
}

// ReadPayment reads a payment's present state at the provider and applies it through the
// same door as an event. It notes the newest wish before it reads: a wish that comes while
// it is reading may be about something this read did not see, and is answered by another.
func (s *Service) ReadPayment(ctx context.Context, paymentID uuid.UUID, complete Complete) error {
	if s.Stripe == nil {
		return provider.ErrNotConfigured
	}
	var noted orders.Payment
	if err := s.DB.WithContext(ctx).First(&noted, "id = ?", paymentID).Error; err != nil {
		return fmt.Errorf("reading payment %s: %w", paymentID, err)
	}
	if noted.ResourceID == nil {
		return fmt.Errorf("payment %s: %w", paymentID, errNoResource)
	}
	if noted.Livemode != s.Stripe.Livemode() || noted.Account != s.Stripe.Account() {
		return fmt.Errorf("payment %s: %w", paymentID, provider.ErrOtherWorld)
	}
	state, err := s.Stripe.ReadPayment(ctx, *noted.ResourceID)
	if err != nil {
		return err
	}

	err = s.DB.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		if _, err := s.Orders.Apply(ctx, tx, factOfRead(noted, state)); err != nil {
			return err
		}
		var wanted int64
		if err := tx.Raw(`SELECT read_wanted FROM payments WHERE id = ?`, paymentID).Row().Scan(&wanted); err != nil {
			return fmt.Errorf("reading the wishes of payment %s: %w", paymentID, err)
		}
		if wanted > noted.ReadWanted {
			if err := s.Queue.WantRead(ctx, tx, paymentID); err != nil {
				return err
			}
		}
		return complete(tx)
	})
	if err != nil {
		return fmt.Errorf("storing the read of payment %s: %w", paymentID, err)
	}
	return nil
}

// errNoResource means that the provider has not answered yet with the checkout's id.
var errNoResource = errors.New("its checkout is not open yet")

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
	case state.Expired: // also where its intent was canceled for it
		f.Status = orders.StatusExpired
	case state.Canceled:
		f.Status = orders.StatusCanceled
	case state.Processing:
		f.Status = orders.StatusProcessing
	}
	return f
}
