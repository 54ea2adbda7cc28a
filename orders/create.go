package orders

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"gorm.io/gorm"

	"paidonce/internal/provider"
)

// InputError is a fault of what a client asked for. It names the field.
type InputError struct {
	Field  string // as the client wrote it: "items[0].sku"
	Detail string
}

func (e *InputError) Error() string { return e.Field + ": " + e.Detail }

// NewOrder is what a buyer asks for. Prices are not among it: they come from products.
type NewOrder struct {
	Email    string
	Locale   string // BCP 47, like "en" or "de-AT"; "" for the default
	Provider string // "stripe"; "" for the default
	Items    []Item
}

// Item is one position of a NewOrder.
type Item struct {
	SKU      string
	Quantity int
}

// Merchant is the part of an order that is the same for all: who sells, where the buyer
// comes back to, and what a checkout may do to the total.
type Merchant struct {
	Livemode  bool
	Account   string                                                 // the provider's account we act for; "" for our own
	ReturnURL func(orderID uuid.UUID) (successURL, cancelURL string) // {CHECKOUT_SESSION_ID} is left for Stripe to replace

	// PromotionCodes lets the buyer enter one, and AutomaticTax has the provider add tax to
	// the prices. With either, what is agreed is the subtotal, and the total is its sum with
	// what the provider states (I4).
	PromotionCodes bool
	AutomaticTax   bool
}

// Created is an order with the checkout that was just asked for. CallKey is the call that
// opens it: it is written down and has a job, and may be performed at once.
type Created struct {
	Order     Order
	PaymentID uuid.UUID
	CallKey   string

	// Answered is the answer that the request was given before; nil if it has none yet.
	Answered *Answered
}

// Create writes an order, its lines, its first payment, and the call that will open its
// checkout at the provider, in one transaction. Nothing has been sent when it returns.
// A fault of the input is an [InputError], and nothing is written.
func (s *Store) Create(ctx context.Context, m Merchant, n NewOrder) (Created, error) {
	return s.CreateOnce(ctx, m, n, nil)
}

// CreateOnce is Create for a request that may come again: the same transaction writes its
// key. If the key was used before, it returns what that made, and writes nothing;
// [ErrKeyReused] if it was used for something else, [ErrInFlight] if its owner is still at
// work. A nil request has no key, and is always new.
func (s *Store) CreateOnce(ctx context.Context, m Merchant, n NewOrder, r *Request) (Created, error) {
	if err := n.check(); err != nil {
		return Created{}, err
	}
	var created Created
	err := s.DB.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		orderID, paymentID := s.NewID(), s.NewID()
		if earlier, err := s.claim(tx, r, n.fingerprint(), orderID, provider.CheckoutKey(paymentID)); err != nil || earlier != nil {
			if err == nil {
				created, err = s.madeBy(tx, *earlier)
			}
			return err
		}
		lines, total, err := s.price(tx, n.Items)
		if err != nil {
			return err
		}
		now := s.Now()
		order := Order{
			ID: orderID, Email: n.Email, Locale: n.Locale, Currency: total.Currency, TotalMinor: total.Minor,
			State: Pending, Decision: NoDecision, CreatedAt: now, UpdatedAt: now,
		}
		if err := tx.Create(&order).Error; err != nil {
			return fmt.Errorf("writing the order: %w", err)
		}
		for i := range lines {
			lines[i].ID, lines[i].OrderID = s.NewID(), order.ID
		}
		if err := tx.Create(&lines).Error; err != nil {
			return fmt.Errorf("writing the lines of order %s: %w", order.ID, err)
		}
		if err := tx.Select("number").Take(&order).Error; err != nil {
			return fmt.Errorf("reading the number of order %s: %w", order.ID, err)
		}
		created = Created{Order: order, PaymentID: paymentID, CallKey: provider.CheckoutKey(paymentID)}
		return s.intendCheckout(ctx, tx, m, order, lines, paymentID, now)
	})
	return created, err
}
