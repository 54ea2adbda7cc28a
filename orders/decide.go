package orders

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"gorm.io/gorm"

	"paidonce/internal/provider"
)

// Person is who decides something about an order, and why. Both are kept with the decision.
type Person struct{ Name, Why string }

func (p Person) valid() error {
	switch {
	case p.Name == "":
		return &InputError{Field: "by", Detail: "must name who decides"}
	case p.Why == "":
		return &InputError{Field: "why", Detail: "must say why"}
	}
	return nil
}

func (p Person) cause() Cause { return Cause{Provider: "person", EventID: p.Name} }

// Action is what was decided.
type Action string

// The actions.
const (
	ActionAccept Action = "accept" // take the money that came, though it is not what was asked for
	ActionCancel Action = "cancel" // call the order off
	ActionRefund Action = "refund" // send money back
	ActionEmail  Action = "email"  // mail goes to another address
	ActionMail   Action = "mail"   // a mail whose outcome nobody knows is sent again, or taken for sent
)

// Ruling is a row of order_decisions: what a person decided, with who and why.
type Ruling struct {
	ID          uuid.UUID `gorm:"primaryKey"`
	OrderID     uuid.UUID
	Action      Action
	PaymentID   *uuid.UUID
	AmountMinor *int64
	Currency    *string
	Surplus     bool
	DecidedBy   string
	Reason      string
	DecidedAt   time.Time
}

// TableName tells gorm the table.
func (Ruling) TableName() string { return "order_decisions" }

// Decided is what became of a decision.
type Decided struct {
	Ruling Ruling
	Order  Order
	Repeat bool // it had been decided before; nothing was done
}

// NotInReviewError is returned when there is nothing to accept.
type NotInReviewError struct{ State State }

func (e *NotInReviewError) Error() string {
	return "only an order in review can be accepted; this one is " + string(e.State)
}

// NotCancelableError is returned when an order cannot be called off any more: there is money,
// or there was.
type NotCancelableError struct{ State State }

func (e *NotCancelableError) Error() string {
	text := "an order that is " + string(e.State) + " cannot be canceled"
	if slices.Contains([]State{Paid, Fulfilled, Disputed, Review}, e.State) {
		text += "; refund it instead"
	}
	return text
}

// Accept takes an order out of review: the money that came is taken for what was asked for,
// and a cancelation is forgotten. It is refused unless the order is in review. Of several
// payments that do not agree the one that would count is accepted; the others stay surplus.
// The order is paid by it, as by any payment. A repeat does nothing.
func (s *Store) Accept(ctx context.Context, orderID uuid.UUID, p Person) (Decided, error) {
	if err := p.valid(); err != nil {
		return Decided{}, err
	}
	return s.decide(ctx, orderID, func(tx *gorm.DB, order *Order) (Decided, error) {
		if order.State != Review {
			return s.repeatOf(tx, order, ActionAccept, &NotInReviewError{State: order.State})
		}
		now := s.Now()
		ruling := Ruling{ID: s.NewID(), OrderID: order.ID, Action: ActionAccept, DecidedBy: p.Name, Reason: p.Why, DecidedAt: now}
		if order.reason() != ReasonPaidAfterCancel {
			payment, err := s.toAccept(tx, order.ID)
			if err != nil {
				return Decided{}, err
			}
			ruling.PaymentID, ruling.AmountMinor, ruling.Currency = &payment.ID, payment.ReceivedMinor, payment.ReceivedCurrency
			accepted := tx.Model(&Payment{}).Where("id = ?", payment.ID).Updates(map[string]any{
				"accepted_minor": payment.ReceivedMinor, "accepted_currency": payment.ReceivedCurrency,
				"accepted_by": p.Name, "accepted_at": now, "updated_at": now,
			})
			if accepted.Error != nil {
				return Decided{}, fmt.Errorf("accepting payment %s: %w", payment.ID, accepted.Error)
			}
		}
		if err := s.rule(tx, order, ruling, DecisionAccepted); err != nil {
			return Decided{}, err
		}
		return Decided{Ruling: ruling, Order: *order}, s.settle(ctx, tx, order, p.cause(), now)
	})
}

// toAccept is the payment that an acceptance is about: of those that do not agree and have
// money left the one that counts first.
func (s *Store) toAccept(tx *gorm.DB, orderID uuid.UUID) (*Payment, error) {
	var payments []Payment
	if err := tx.Find(&payments, "order_id = ?", orderID).Error; err != nil {
		return nil, fmt.Errorf("reading the payments of order %s: %w", orderID, err)
	}
	facts := make([]PaymentFacts, len(payments))
	for i, p := range payments {
		facts[i] = p.facts()
	}
	chosen, ok := first(sorted(facts), func(f PaymentFacts) bool {
		return f.Status == StatusSucceeded && !f.Agreed && f.moneyLeft()
	})
	if !ok {
		return nil, fmt.Errorf("bug: order %s is in review and nothing is to be accepted", orderID)
	}
	i := slices.IndexFunc(facts, func(f PaymentFacts) bool { return f.ResourceID == chosen.ResourceID })
	return &payments[i], nil
}

// Cancel calls an order off that has no money, and ends its open checkouts at the provider:
// their calls are written down in the same transaction. Money that comes all the same puts
// the order into review. A repeat does nothing.
func (s *Store) Cancel(ctx context.Context, orderID uuid.UUID, p Person) (Decided, error) {
	if err := p.valid(); err != nil {
		return Decided{}, err
	}
	return s.decide(ctx, orderID, func(tx *gorm.DB, order *Order) (Decided, error) {
		if order.Decision == DecisionCanceled {
			return s.repeatOf(tx, order, ActionCancel, nil)
		}
		switch order.State {
		case Pending, Confirming, Expired, Failed, Canceled:
		case Paid, Fulfilled, Review, Refunded, Disputed, ChargedBack:
			return Decided{}, &NotCancelableError{State: order.State}
		}
		now := s.Now()
		ruling := Ruling{ID: s.NewID(), OrderID: order.ID, Action: ActionCancel, DecidedBy: p.Name, Reason: p.Why, DecidedAt: now}
		if err := s.rule(tx, order, ruling, DecisionCanceled); err != nil {
			return Decided{}, err
		}
		var open []Payment
		if err := tx.Find(&open, "order_id = ? AND status = ? AND resource_id IS NOT NULL", order.ID, StatusOpen).Error; err != nil {
			return Decided{}, fmt.Errorf("looking for open checkouts of order %s: %w", order.ID, err)
		}
		for _, payment := range open {
			if err := s.intendExpiry(ctx, tx, payment); err != nil {
				return Decided{}, err
			}
		}
		return Decided{Ruling: ruling, Order: *order}, s.settle(ctx, tx, order, p.cause(), now)
	})
}

// intendExpiry writes down the call that ends a checkout.
func (s *Store) intendExpiry(ctx context.Context, tx *gorm.DB, p Payment) error {
	call := provider.ExpireRequest{PaymentID: p.ID, SessionID: *p.ResourceID}.Call()
	call.Livemode, call.Account = p.Livemode, p.Account
	return s.Calls.Intend(ctx, tx, call)
}

// decide runs a decision behind the order's lock, and answers the order as it left it.
func (s *Store) decide(ctx context.Context, orderID uuid.UUID, do func(tx *gorm.DB, order *Order) (Decided, error)) (Decided, error) {
	var decided Decided
	err := s.DB.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		order, err := s.lock(tx, orderID)
		if errors.Is(err, gorm.ErrRecordNotFound) {
			return fmt.Errorf("order %s: %w", orderID, ErrNotFound)
		}
		if err != nil {
			return err
		}
		decided, err = do(tx, order)
		decided.Order = *order
		return err
	})
	return decided, err
}

// rule writes a decision down.
func (s *Store) rule(tx *gorm.DB, order *Order, r Ruling, decision Decision) error {
	if err := tx.Create(&r).Error; err != nil {
		return fmt.Errorf("writing down a decision about order %s: %w", order.ID, err)
	}
	set := map[string]any{"decision": decision, "updated_at": r.DecidedAt}
	if err := tx.Model(&Order{}).Where("id = ?", order.ID).Updates(set).Error; err != nil {
		return fmt.Errorf("deciding about order %s: %w", order.ID, err)
	}
	order.Decision = decision
	return nil
}

// repeatOf is the last decision of the kind, for a command that is given again; otherwise if
// there is none.
func (s *Store) repeatOf(tx *gorm.DB, order *Order, action Action, otherwise error) (Decided, error) {
	var rulings []Ruling
	err := tx.Order("decided_at DESC, id DESC").Limit(1).Find(&rulings, "order_id = ? AND action = ?", order.ID, action).Error
	if err != nil {
		return Decided{}, fmt.Errorf("reading the decisions about order %s: %w", order.ID, err)
	}
	if len(rulings) == 0 {
		return Decided{Repeat: otherwise == nil}, otherwise
	}
	return Decided{Ruling: rulings[0], Repeat: true}, nil
}
