package orders

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"gorm.io/gorm"

	"paidonce/internal/money"
	"paidonce/internal/provider"
)

// intendCheckout writes a payment without a resource id yet, and the call that will get one.
func (s *Store) intendCheckout(ctx context.Context, tx *gorm.DB, m Merchant, order Order, lines []Line, paymentID uuid.UUID, now time.Time) error {
	payment := Payment{
		ID: paymentID, OrderID: order.ID, Provider: "stripe", Livemode: m.Livemode, Account: m.Account,
		Currency: order.Currency, ExpectedMinor: order.TotalMinor, Adjustable: m.PromotionCodes || m.AutomaticTax,
		Status: StatusOpen, CreatedAt: now, UpdatedAt: now,
	}
	if err := tx.Create(&payment).Error; err != nil {
		return fmt.Errorf("writing the payment of order %s: %w", order.ID, err)
	}
	success, cancel := m.ReturnURL(order.ID)
	request := provider.CheckoutRequest{
		PaymentID: payment.ID, OrderID: order.ID, Email: order.Email, SuccessURL: success, CancelURL: cancel,
		PromotionCodes: m.PromotionCodes, AutomaticTax: m.AutomaticTax,
	}
	for i, line := range lines {
		unit := money.Amount{Minor: line.UnitMinor, Currency: order.Currency}
		if err := payable(i, unit); err != nil {
			return err
		}
		request.Items = append(request.Items, provider.CheckoutItem{Name: line.Name, Quantity: line.Quantity, Unit: unit})
	}
	call := request.Call()
	call.Livemode, call.Account = payment.Livemode, payment.Account
	return s.Calls.Intend(ctx, tx, call)
}

// SettleCheckout applies the provider's answer to a checkout call: the payment gets its
// resource id, which is what binds later events to it, and deliveries that came before this
// answer are released (TX4).
func (s *Store) SettleCheckout(ctx context.Context, tx *gorm.DB, call provider.Call, a provider.Answer) error {
	session, err := a.Session()
	if err != nil {
		return err
	}
	tx = tx.WithContext(ctx)
	payment, err := s.payment(tx, call.SubjectID)
	if err != nil {
		return err
	}
	order, err := s.lock(tx, payment.OrderID)
	if err != nil {
		return err
	}
	bound := tx.Model(&Payment{}).Where("id = ? AND resource_id IS NULL", payment.ID).Updates(map[string]any{
		"resource_id": session.ID, "checkout_url": session.URL, "object_created_at": session.CreatedAt, "updated_at": s.Now(),
	})
	if bound.Error != nil {
		return fmt.Errorf("binding %s to payment %s: %w", session.ID, payment.ID, bound.Error)
	}
	if _, err := s.learn(ctx, tx, payment, session.Resources); err != nil {
		return err
	}
	if order.Decision == DecisionCanceled && bound.RowsAffected == 1 {
		// Called off while its checkout was on the way: nobody ended it, since it had no id.
		payment.ResourceID = &session.ID
		return s.intendExpiry(ctx, tx, *payment)
	}
	return nil
}

// SettleExpiry applies the provider's answer to the call that ends an open checkout (TX4):
// what the event about it will say too. Whatever else the payment has become, stands.
func (s *Store) SettleExpiry(ctx context.Context, tx *gorm.DB, call provider.Call) error {
	payment, err := s.payment(tx.WithContext(ctx), call.SubjectID)
	if err != nil {
		return err
	}
	_, err = s.Apply(ctx, tx, Fact{
		Provider: payment.Provider, Resources: []string{*payment.ResourceID}, Livemode: payment.Livemode, Account: payment.Account,
		Status: StatusExpired, Cause: Cause{Provider: "job", EventID: call.IdempotencyKey},
	})
	return err
}

func (s *Store) payment(tx *gorm.DB, id uuid.UUID) (*Payment, error) {
	var payment Payment
	if err := tx.First(&payment, "id = ?", id).Error; err != nil {
		return nil, fmt.Errorf("reading payment %s: %w", id, err)
	}
	return &payment, nil
}
