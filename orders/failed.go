package orders

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"gorm.io/gorm"
)

// CheckoutFailed closes a payment whose checkout will not be opened: the provider refused it
// as it was asked for, or nobody can tell any more whether it did it. Without this the order
// would wait for a buyer who has nowhere to pay; as failed it takes another checkout, and
// should money turn up after all, a success outranks it. It does nothing to a payment that
// has a checkout, and nothing the second time.
func (s *Store) CheckoutFailed(ctx context.Context, tx *gorm.DB, paymentID uuid.UUID, cause Cause) error {
	tx = tx.WithContext(ctx)
	payment, err := s.payment(tx, paymentID)
	if err != nil {
		return err
	}
	order, err := s.lock(tx, payment.OrderID)
	if err != nil {
		return err
	}
	now := s.Now()
	closed := tx.Model(&Payment{}).Where("id = ? AND resource_id IS NULL AND status = ?", paymentID, StatusOpen).
		Updates(map[string]any{"status": StatusFailed, "updated_at": now})
	if closed.Error != nil {
		return fmt.Errorf("closing payment %s: %w", paymentID, closed.Error)
	}
	if closed.RowsAffected == 0 {
		return nil
	}
	return s.settle(ctx, tx, order, cause, now)
}
