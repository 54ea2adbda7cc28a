package orders

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"gorm.io/gorm"
)

// LockPaid locks an order and returns it with its lines, if it is in the state paid; nil if
// it is in another.
func (s *Store) LockPaid(ctx context.Context, tx *gorm.DB, id uuid.UUID) (*Order, []Line, error) {
	tx = tx.WithContext(ctx)
	order, err := s.lock(tx, id)
	if err != nil || order.State != Paid {
		return nil, nil, err
	}
	var lines []Line
	if err := tx.Order("position").Find(&lines, "order_id = ?", id).Error; err != nil {
		return nil, nil, fmt.Errorf("reading the lines of order %s: %w", id, err)
	}
	return order, lines, nil
}

// MarkFulfilled notes that the licenses of an order, locked by LockPaid, were issued, and
// moves it on (TX3).
func (s *Store) MarkFulfilled(ctx context.Context, tx *gorm.DB, order *Order, cause Cause) error {
	tx = tx.WithContext(ctx)
	now := s.Now()
	order.FulfilledAt = &now
	if err := tx.Exec(`UPDATE orders SET fulfilled_at = coalesce(fulfilled_at, ?) WHERE id = ?`, now, order.ID).Error; err != nil {
		return fmt.Errorf("marking order %s fulfilled: %w", order.ID, err)
	}
	return s.settle(ctx, tx, order, cause, now)
}

// settle moves a locked order to its target: each step a guarded UPDATE and a transition
// row, then the follower, once, for the whole walk.
func (s *Store) settle(ctx context.Context, tx *gorm.DB, order *Order, cause Cause, now time.Time) error {
	var payments []Payment
	if err := tx.Where("order_id = ?", order.ID).Find(&payments).Error; err != nil {
		return fmt.Errorf("reading the payments of order %s: %w", order.ID, err)
	}
	facts := Facts{Fulfilled: order.FulfilledAt != nil, Decision: order.Decision}
	for _, p := range payments {
		facts.Payments = append(facts.Payments, p.facts())
	}
	target, reason := Target(facts)

	from := order.State
	w := walk{
		target: target, everPaid: order.PaidAt != nil,
		mayPay: order.Decision != DecisionCanceled && slices.ContainsFunc(facts.Payments, func(p PaymentFacts) bool { return p.Agreed }),
	}
	steps, err := w.path(ctx, from)
	if err != nil {
		return fmt.Errorf("order %s: %w", order.ID, err)
	}
	for _, step := range steps {
		if err := s.take(tx, order, step, reason, cause, now); err != nil {
			return fmt.Errorf("order %s: %s: %w", order.ID, step.Event, err)
		}
	}
	if err := s.renameReason(tx, order, reason, now); err != nil {
		return err
	}
	if order.State == from {
		return nil
	}
	return s.Follower.OrderMoved(ctx, tx, Move{OrderID: order.ID, From: from, To: order.State, At: now})
}

// errMoved means that a guarded UPDATE found another state than the locked row had. It
// cannot happen while everybody takes the lock; if it does, the transaction is undone.
var errMoved = errors.New("the order moved under its lock")

// take is one step.
func (s *Store) take(tx *gorm.DB, order *Order, step transition, reason Reason, cause Cause, now time.Time) error {
	// Invariant I3: an order is paid once. The row lock and the machine decide; the index
	// order_transitions_paid_once is what holds if both are wrong.
	// Without it: a second event of one payment issues a second set of licenses. CW4.
	set := map[string]any{"state": step.To, "updated_at": now, "review_reason": nil}
	if step.To == Review {
		set["review_reason"] = reason.orElse(ReasonAmount)
	}
	if step.Event == Pay {
		set["paid_at"] = now
	}
	moved := tx.Model(&Order{}).Where("id = ? AND state = ?", order.ID, step.From).Updates(set)
	if moved.Error != nil {
		return moved.Error
	}
	if moved.RowsAffected != 1 {
		return errMoved
	}
	row := Transition{
		OrderID: order.ID, Event: step.Event, FromState: step.From, ToState: step.To,
		CauseProvider: cause.Provider, CauseEventID: cause.EventID, At: now,
	}
	if err := tx.Create(&row).Error; err != nil {
		return err
	}
	order.State, order.ReviewReason = step.To, nil
	if step.Event == Pay {
		order.PaidAt = &now
	}
	if step.To == Review {
		r := reason.orElse(ReasonAmount)
		order.ReviewReason = &r
	}
	return nil
}

// renameReason keeps the reason of an order that stays in review true to its facts.
func (s *Store) renameReason(tx *gorm.DB, order *Order, reason Reason, now time.Time) error {
	if order.State != Review || order.reason() == reason {
		return nil
	}
	err := tx.Model(&Order{}).Where("id = ? AND state = ?", order.ID, Review).
		Updates(map[string]any{"review_reason": reason, "updated_at": now}).Error
	if err != nil {
		return fmt.Errorf("renaming the review of order %s: %w", order.ID, err)
	}
	order.ReviewReason = &reason
	return nil
}

func (o Order) reason() Reason {
	if o.ReviewReason == nil {
		return NoReason
	}
	return *o.ReviewReason
}

// orElse is the reason, or another for a walk that only passes through review.
func (r Reason) orElse(other Reason) Reason {
	if r == NoReason {
		return other
	}
	return r
}
