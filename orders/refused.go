package orders

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"gorm.io/gorm"
)

// CheckoutRefused closes a payment whose checkout the provider will never open as it was asked
// for: without it, the order would wait for a buyer who has nowhere to pay. It does nothing to
// a payment that has a checkout, and nothing the second time.
func (s *Store) CheckoutRefused(ctx context.Context, tx *gorm.DB, paymentID uuid.UUID, cause Cause) error {
	tx = tx.WithContext(ctx)
	var payment Payment
	if err := tx.First(&payment, "id = ?", paymentID).Error; err != nil {
		return fmt.Errorf("reading payment %s: %w", paymentID, err)
	}
	order, err := s.lock(tx, payment.OrderID)
	if err != nil {
		return err
	}
	now := s.Now()
	closed := tx.Model(&Payment{}).Where("id = ? AND resource_id IS NULL AND status = ?", paymentID, StatusOpen).
		Updates(map[string]any{"status": StatusCanceled, "updated_at": now})
	if closed.Error != nil {
		return fmt.Errorf("closing payment %s: %w", paymentID, closed.Error)
	}
	if closed.RowsAffected == 0 {
		return nil
	}
	return s.settle(ctx, tx, order, cause, now)
}
