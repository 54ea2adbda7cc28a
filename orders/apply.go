package orders

import (
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"
)

// Apply merges a fact into the payment it names and moves the order to where its facts now
// point, in the caller's transaction (TX2). A repeat is a result, not an error.
func (s *Store) Apply(ctx context.Context, tx *gorm.DB, f Fact) (Result, error) {
	tx = tx.WithContext(ctx)
	bound, ok, err := s.find(tx, f)
	if err != nil || !ok {
		return Result{Outcome: Unknown}, err
	}
	result := Result{PaymentID: bound.PaymentID, OrderID: bound.OrderID}

	// The order's row lock covers its payments: whoever changes one holds it. So the
	// payment is read only behind the lock.
	order, err := s.lock(tx, bound.OrderID)
	if err != nil {
		return result, err
	}
	result.From, result.To = order.State, order.State
	payment := &Payment{}
	if err := tx.First(payment, "id = ?", bound.PaymentID).Error; err != nil {
		return result, fmt.Errorf("reading payment %s: %w", bound.PaymentID, err)
	}
	if payment.Livemode != f.Livemode || payment.Account != f.Account {
		result.Outcome = Mode
		return result, nil
	}

	learned, err := s.learn(ctx, tx, payment, f.Resources)
	if err != nil {
		return result, err
	}
	merged := payment.merge(f)
	if merged.changed {
		if err := s.save(tx, payment); err != nil {
			return result, err
		}
		if err := s.settle(ctx, tx, order, f.Cause, s.Now()); err != nil {
			return result, err
		}
	}
	if merged.returns {
		if result.News, err = s.keepReturns(ctx, tx, *order, payment, *f.Returns); err != nil {
			return result, err
		}
	}
	if merged.read {
		if err := s.WantRead(ctx, tx, payment.ID); err != nil {
			return result, err
		}
	}
	result.To, result.Reason = order.State, order.reason()
	result.Outcome = outcomeOf(merged, learned, order.State)
	return result, nil
}

func outcomeOf(m merge, learned bool, state State) Outcome {
	switch {
	case m.read:
		return Wanted
	case m.changed && state == Review:
		return Held
	case m.changed || learned:
		return Applied
	case m.stale:
		return Stale
	}
	return Already
}

// binding is where an id led to.
type binding struct {
	ResourceID string
	PaymentID  uuid.UUID
	OrderID    uuid.UUID
}

// find is the binding of events to orders: a payment is found by an id that was recorded,
// and by nothing else (I2). The fact's own object goes before the objects it refers to.
func (s *Store) find(tx *gorm.DB, f Fact) (found binding, ok bool, err error) {
	if len(f.Resources) == 0 {
		return binding{}, false, nil
	}
	const find = `
SELECT r.resource_id, p.id AS payment_id, p.order_id
FROM payment_resources r JOIN payments p ON p.id = r.payment_id
WHERE r.provider = ? AND r.resource_id IN ?`
	var known []binding
	if err := tx.Raw(find, f.Provider, f.Resources).Scan(&known).Error; err != nil {
		return binding{}, false, fmt.Errorf("finding the payment of %v: %w", f.Resources, err)
	}
	for _, id := range f.Resources {
		if i := slices.IndexFunc(known, func(b binding) bool { return b.ResourceID == id }); i >= 0 {
			return known[i], true, nil
		}
	}
	return binding{}, false, nil
}

// lock reads an order for update.
func (s *Store) lock(tx *gorm.DB, id uuid.UUID) (*Order, error) {
	var order Order
	if err := tx.Clauses(clause.Locking{Strength: "UPDATE"}).First(&order, "id = ?", id).Error; err != nil {
		return nil, fmt.Errorf("locking order %s: %w", id, err)
	}
	return &order, nil
}

// learn records the other ids by which the provider speaks of the payment, and releases
// the deliveries that were waiting for one of them.
func (s *Store) learn(ctx context.Context, tx *gorm.DB, p *Payment, ids []string) (bool, error) {
	var fresh []string
	for _, id := range ids {
		const learn = `
INSERT INTO payment_resources (provider, resource_id, payment_id, learned_at) VALUES (?, ?, ?, ?)
ON CONFLICT (provider, resource_id) DO NOTHING`
		inserted := tx.Exec(learn, p.Provider, id, p.ID, s.Now())
		if inserted.Error != nil {
			return false, fmt.Errorf("learning %s of payment %s: %w", id, p.ID, inserted.Error)
		}
		if inserted.RowsAffected == 1 {
			fresh = append(fresh, id)
		}
	}
	if len(fresh) == 0 {
		return false, nil
	}
	if err := s.Releaser.Release(ctx, tx, p.Provider, fresh); err != nil {
		return false, err
	}
	return true, nil
}

// save writes the merged columns of a payment.
func (s *Store) save(tx *gorm.DB, p *Payment) error {
	err := tx.Model(&Payment{}).Where("id = ?", p.ID).Updates(map[string]any{
		"status":            p.Status,
		"received_minor":    p.ReceivedMinor,
		"received_currency": p.ReceivedCurrency,
		"intended_minor":    p.IntendedMinor,
		"subtotal_minor":    p.SubtotalMinor,
		"discount_minor":    p.DiscountMinor,
		"tax_minor":         p.TaxMinor,
		"shipping_minor":    p.ShippingMinor,
		"object_created_at": p.ObjectCreatedAt,
		"refunded_minor":    p.RefundedMinor,
		"charged_currency":  p.ChargedCurrency,
		"dispute_open":      p.DisputeOpen,
		"dispute_lost":      p.DisputeLost,
		"read_seq":          p.ReadSeq,
		"updated_at":        s.Now(),
	}).Error
	if err != nil {
		return fmt.Errorf("saving payment %s: %w", p.ID, err)
	}
	return nil
}

// WantRead counts a wish to read the payment and has it carried out.
func (s *Store) WantRead(ctx context.Context, tx *gorm.DB, id uuid.UUID) error {
	if err := tx.WithContext(ctx).Exec(`UPDATE payments SET read_wanted = read_wanted + 1 WHERE id = ?`, id).Error; err != nil {
		return fmt.Errorf("wanting a read of payment %s: %w", id, err)
	}
	return s.Reader.WantRead(ctx, tx, id)
}
