package orders

import (
	"context"
	"errors"
	"fmt"
	"net/mail"
	"strings"

	"github.com/google/uuid"
	"gorm.io/gorm"
)

// checkEmail accepts one plain address, as it can be mailed to.
func checkEmail(email string) error {
	address, err := mail.ParseAddress(email)
	if err != nil || address.Address != email || len(email) > 254 || !isPrintable(email) {
		return &InputError{Field: "email", Detail: "must be one plain address, like a@example.com"}
	}
	return nil
}

// CorrectEmail gives an order the address that its mails go to from now on, under the order's
// lock in the caller's transaction, which readdresses what is written down. The address of
// before is kept with the reason. An order that has the address already keeps it, and nothing
// is written down.
func (s *Store) CorrectEmail(ctx context.Context, tx *gorm.DB, orderID uuid.UUID, email string, p Person) (Decided, error) {
	email = strings.TrimSpace(email)
	if err := errors.Join(checkEmail(email), p.valid()); err != nil {
		return Decided{}, err
	}
	tx = tx.WithContext(ctx)
	order, err := s.lock(tx, orderID)
	if errors.Is(err, gorm.ErrRecordNotFound) {
		return Decided{}, fmt.Errorf("order %s: %w", orderID, ErrNotFound)
	}
	if err != nil {
		return Decided{}, err
	}
	if order.Email == email {
		repeat, err := s.repeatOf(tx, order, ActionEmail, nil)
		repeat.Order = *order
		return repeat, err
	}

	before := order.Email
	if before == "" {
		before = "none"
	}
	ruling, err := s.note(tx, order, ActionEmail, p, fmt.Sprintf("%s (before: %s)", p.Why, before))
	if err != nil {
		return Decided{}, err
	}
	set := map[string]any{"email": email, "updated_at": ruling.DecidedAt}
	if err := tx.Model(&Order{}).Where("id = ?", order.ID).Updates(set).Error; err != nil {
		return Decided{}, fmt.Errorf("correcting the address of order %s: %w", order.ID, err)
	}
	order.Email = email
	return Decided{Ruling: ruling, Order: *order}, nil
}

// DecideMail writes down what a person decided about one of the order's mails, under the
// order's lock in the caller's transaction, which carries it out.
func (s *Store) DecideMail(ctx context.Context, tx *gorm.DB, orderID uuid.UUID, p Person, what string) (Decided, error) {
	if err := p.valid(); err != nil {
		return Decided{}, err
	}
	tx = tx.WithContext(ctx)
	order, err := s.lock(tx, orderID)
	if errors.Is(err, gorm.ErrRecordNotFound) {
		return Decided{}, fmt.Errorf("order %s: %w", orderID, ErrNotFound)
	}
	if err != nil {
		return Decided{}, err
	}
	ruling, err := s.note(tx, order, ActionMail, p, fmt.Sprintf("%s (%s)", p.Why, what))
	return Decided{Ruling: ruling, Order: *order}, err
}

// note writes down a decision that does not move the order.
func (s *Store) note(tx *gorm.DB, order *Order, action Action, p Person, reason string) (Ruling, error) {
	ruling := Ruling{ID: s.NewID(), OrderID: order.ID, Action: action, DecidedBy: p.Name, Reason: reason, DecidedAt: s.Now()}
	if err := tx.Create(&ruling).Error; err != nil {
		return Ruling{}, fmt.Errorf("writing down a decision about order %s: %w", order.ID, err)
	}
	return ruling, nil
}
