package orders

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"gorm.io/gorm"
)

// Drift is an order whose stored state is not the one that its facts call for.
type Drift struct {
	OrderID uuid.UUID
	Number  int64
	State   State
	Target  State
	Reason  Reason // of the target, if it is review
}

// Drifted compares the next orders after an id, in the order of their ids, with what
// [Target] makes of their facts. It returns those that disagree, and the id to go on after:
// uuid.Nil, if there are no more. It changes nothing, and holds one batch.
func (s *Store) Drifted(ctx context.Context, after uuid.UUID, limit int) (drifted []Drift, next uuid.UUID, err error) {
	var batch []Order
	payments := map[uuid.UUID][]Payment{}
	err = s.DB.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		// One snapshot: between two statements an order and its payments may both move on.
		if err := tx.Exec(`SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY`).Error; err != nil {
			return err
		}
		if err := tx.Where("id > ?", after).Order("id").Limit(limit).Find(&batch).Error; err != nil {
			return err
		}
		ids := make([]uuid.UUID, len(batch))
		for i, o := range batch {
			ids[i] = o.ID
		}
		var rows []Payment
		if err := tx.Where("order_id IN ?", ids).Find(&rows).Error; err != nil {
			return err
		}
		for _, p := range rows {
			payments[p.OrderID] = append(payments[p.OrderID], p)
		}
		return nil
	})
	if err != nil {
		return nil, uuid.Nil, fmt.Errorf("comparing orders with their facts: %w", err)
	}
	for _, o := range batch {
		facts := Facts{Fulfilled: o.FulfilledAt != nil, Decision: o.Decision}
		for _, p := range payments[o.ID] {
			facts.Payments = append(facts.Payments, p.facts())
		}
		target, reason := Target(facts)
		if target != o.State || reason != o.reason() {
			drifted = append(drifted, Drift{OrderID: o.ID, Number: o.Number, State: o.State, Target: target, Reason: reason})
		}
	}
	if len(batch) == limit {
		next = batch[limit-1].ID
	}
	return drifted, next, nil
}
