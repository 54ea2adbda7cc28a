package orders

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"gorm.io/gorm"

	"paidonce/internal/provider"
)

// NotOpenError is returned when an order takes no further checkout: it is paid, or the money
// is on its way, or it was called off.
type NotOpenError struct{ State State }

func (e *NotOpenError) Error() string {
	return "an order that is " + string(e.State) + " takes no further checkout"
}

// TakesCheckout is nil if another checkout may be opened for the order. One that somebody
// called off takes none; one that is only canceled because the provider canceled its payment,
// as it does with the intent of a checkout that ran out, takes another like any that expired.
func (o Order) TakesCheckout() error {
	switch o.State {
	case Pending, Expired, Failed:
		return nil
	case Canceled:
		if o.Decision != DecisionCanceled {
			return nil
		}
	case Confirming, Paid, Fulfilled, Review, Refunded, Disputed, ChargedBack:
	}
	return &NotOpenError{State: o.State}
}

// Earlier is what a request for another checkout made before; nil if it is new. A request of
// this kind says nothing beyond its route.
func (s *Store) Earlier(ctx context.Context, r Request) (*Created, error) {
	var created *Created
	err := s.DB.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		found, err := s.takeOver(tx, r, r.fingerprint())
		if err != nil || found == nil {
			return err
		}
		made, err := s.madeBy(tx, *found)
		created = &made
		return err
	})
	return created, err
}

func (r Request) fingerprint() []byte {
	sum := sha256.Sum256([]byte(r.Route))
	return sum[:]
}

// CheckoutAgain writes another payment for an order that is not paid, with the call that
// will open its checkout, and reopens the order. The caller has ended the checkouts that
// were open; if one is open again by now, somebody else asked for it at the same moment, and
// the answer is [ErrInFlight]: of two open checkouts a buyer could pay both.
func (s *Store) CheckoutAgain(ctx context.Context, m Merchant, orderID uuid.UUID, r *Request) (Created, error) {
	var created Created
	err := s.DB.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		order, err := s.lock(tx, orderID)
		if errors.Is(err, gorm.ErrRecordNotFound) {
			return fmt.Errorf("order %s: %w", orderID, ErrNotFound)
		}
		if err != nil {
			return err
		}
		paymentID := s.NewID()
		if r != nil {
			if before, err := s.claim(tx, r, r.fingerprint(), orderID, provider.CheckoutKey(paymentID)); err != nil || before != nil {
				if err == nil {
					created, err = s.madeBy(tx, *before)
				}
				return err
			}
		}
		if err := order.TakesCheckout(); err != nil {
			return err
		}
		if err := s.noneOpen(tx, orderID); err != nil {
			return err
		}
		var lines []Line
		if err := tx.Order("position").Find(&lines, "order_id = ?", orderID).Error; err != nil {
			return fmt.Errorf("reading the lines of order %s: %w", orderID, err)
		}
		now := s.Now()
		if err := s.intendCheckout(ctx, tx, m, *order, lines, paymentID, now); err != nil {
			return err
		}
		if err := s.settle(ctx, tx, order, Cause{Provider: "person", EventID: "buyer"}, now); err != nil {
			return err
		}
		created = Created{Order: *order, PaymentID: paymentID, CallKey: provider.CheckoutKey(paymentID)}
		return nil
	})
	return created, err
}

// noneOpen looks for a checkout that is open, or will be.
func (s *Store) noneOpen(tx *gorm.DB, orderID uuid.UUID) error {
	var open bool
	const look = `SELECT EXISTS (SELECT FROM payments WHERE order_id = ? AND status = ?)`
	if err := tx.Raw(look, orderID, StatusOpen).Row().Scan(&open); err != nil {
		return fmt.Errorf("looking for open checkouts of order %s: %w", orderID, err)
	}
	if open {
		return ErrInFlight
	}
	return nil
}
