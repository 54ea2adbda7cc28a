package orders

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"gorm.io/gorm"
)

// ErrNotFound is returned when there is no such order.
var ErrNotFound = errors.New("no such order")

// View is an order with all that belongs to it, for showing.
type View struct {
	Order       Order
	Lines       []Line
	Payments    []Payment
	Transitions []Transition
	Refunds     []PaymentRefund
	Disputes    []PaymentDispute
	Rulings     []Ruling
}

// Get reads an order as it stands. Its parts are of one moment.
func (s *Store) Get(ctx context.Context, id uuid.UUID) (View, error) {
	var v View
	err := s.DB.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		// One snapshot for all of them.
		if err := tx.Exec(`SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY`).Error; err != nil {
			return err
		}
		if err := tx.First(&v.Order, "id = ?", id).Error; err != nil {
			return err
		}
		if err := tx.Order("position").Find(&v.Lines, "order_id = ?", id).Error; err != nil {
			return err
		}
		if err := tx.Order("created_at, id").Find(&v.Payments, "order_id = ?", id).Error; err != nil {
			return err
		}
		if err := tx.Order("id").Find(&v.Transitions, "order_id = ?", id).Error; err != nil {
			return err
		}
		return v.getReturns(tx, id)
	})
	if errors.Is(err, gorm.ErrRecordNotFound) {
		return View{}, fmt.Errorf("order %s: %w", id, ErrNotFound)
	}
	if err != nil {
		return View{}, fmt.Errorf("reading order %s: %w", id, err)
	}
	return v, nil
}

// getReturns reads what went back, and what people decided.
func (v *View) getReturns(tx *gorm.DB, id uuid.UUID) error {
	const ofOrder = `payment_id IN (SELECT id FROM payments WHERE order_id = ?)`
	if err := tx.Order("created_at, refund_id").Find(&v.Refunds, ofOrder, id).Error; err != nil {
		return err
	}
	if err := tx.Order("created_at, dispute_id").Find(&v.Disputes, ofOrder, id).Error; err != nil {
		return err
	}
	return tx.Order("decided_at, id").Find(&v.Rulings, "order_id = ?", id).Error
}

// Surplus are the payments that have money and pay for nothing, since another one pays the
// order: that money is the buyer's.
func (v View) Surplus() []Payment {
	var found []Payment
	for _, p := range v.Payments {
		if surplus(v.Payments, p) {
			found = append(found, p)
		}
	}
	return found
}

// ReceivedMinor adds up what successful payments received in the order's own currency.
func (v View) ReceivedMinor() int64 {
	var sum int64
	for _, p := range v.Payments {
		if p.ReceivedMinor != nil && *p.ReceivedCurrency == string(v.Order.Currency) {
			sum += *p.ReceivedMinor
		}
	}
	return sum
}

// RefundedMinor adds up how much of that was sent back.
func (v View) RefundedMinor() int64 {
	var sum int64
	for _, p := range v.Payments {
		if p.ReceivedCurrency != nil && *p.ReceivedCurrency == string(v.Order.Currency) {
			sum += p.RefundedMinor
		}
	}
	return sum
}

// CheckoutURL is where the buyer pays: the newest open checkout; "" if there is none.
func (v View) CheckoutURL() string {
	url := ""
	for _, p := range v.Payments {
		if p.Status == StatusOpen && p.CheckoutURL != nil {
			url = *p.CheckoutURL
		}
	}
	return url
}

// PaidBy is the payment that counts, with its resource ids as far as they are known, newest
// last; nil for an order that nothing live pays.
func (s *Store) PaidBy(ctx context.Context, tx *gorm.DB, orderID uuid.UUID) (*Payment, []string, error) {
	var payments []Payment
	if err := tx.WithContext(ctx).Find(&payments, "order_id = ?", orderID).Error; err != nil {
		return nil, nil, fmt.Errorf("reading the payments of order %s: %w", orderID, err)
	}
	facts := make([]PaymentFacts, len(payments))
	for i, p := range payments {
		facts[i] = p.facts()
	}
	counted, ok := Counted(facts)
	if !ok {
		return nil, nil, nil
	}
	paidBy := &payments[slices.IndexFunc(facts, func(f PaymentFacts) bool { return f.ResourceID == counted.ResourceID })]
	var ids []string
	err := tx.WithContext(ctx).Raw(`
SELECT resource_id FROM payment_resources WHERE payment_id = ? ORDER BY learned_at, resource_id`, paidBy.ID).Scan(&ids).Error
	if err != nil {
		return nil, nil, fmt.Errorf("reading the resources of order %s: %w", orderID, err)
	}
	return paidBy, ids, nil
}
