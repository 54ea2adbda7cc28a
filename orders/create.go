package orders

import (
	"context"
	"fmt"
	"net/mail"
	"regexp"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"
	"gorm.io/gorm"

	"paidonce/internal/money"
	"paidonce/internal/provider"
)

// Limits of one order. They are for catching mistakes, not for selling: Stripe takes up to
// 100 lines in a session and amounts of eight digits in most currencies
// (https://docs.stripe.com/currencies).
const (
	MaxLines    = 100
	MaxQuantity = 1000
	MaxTotal    = 99_999_999
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

// Merchant is the part of an order that is the same for all: who sells, and where the
// buyer comes back to.
type Merchant struct {
	Livemode  bool
	Account   string                                                 // the provider's account we act for; "" for our own
	ReturnURL func(orderID uuid.UUID) (successURL, cancelURL string) // {CHECKOUT_SESSION_ID} is left for Stripe to replace
}

// Created is a new order with its first payment. CallKey is the call that opens the
// checkout: it is written down and has a job, and may be performed at once.
type Created struct {
	Order     Order
	PaymentID uuid.UUID
	CallKey   string
}

// Create writes an order, its lines, its first payment, and the call that will open its
// checkout at the provider, in one transaction. Nothing has been sent when it returns.
// A fault of the input is an [InputError], and nothing is written.
func (s *Store) Create(ctx context.Context, m Merchant, n NewOrder) (Created, error) {
	if err := n.check(); err != nil {
		return Created{}, err
	}
	var created Created
	err := s.DB.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		lines, total, err := s.price(tx, n.Items)
		if err != nil {
			return err
		}
		now := s.Now()
		order := Order{
			ID: s.NewID(), Email: n.Email, Locale: n.Locale, Currency: total.Currency, TotalMinor: total.Minor,
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
		created.Order = order
		created.PaymentID, created.CallKey, err = s.intendCheckout(ctx, tx, m, order, lines, now)
		return err
	})
	return created, err
}

// intendCheckout writes a payment without a resource id yet, and the call that will get one.
func (s *Store) intendCheckout(ctx context.Context, tx *gorm.DB, m Merchant, order Order, lines []Line, now time.Time) (uuid.UUID, string, error) {
	payment := Payment{
		ID: s.NewID(), OrderID: order.ID, Provider: "stripe", Livemode: m.Livemode, Account: m.Account,
		Currency: order.Currency, ExpectedMinor: order.TotalMinor, Status: StatusOpen, CreatedAt: now, UpdatedAt: now,
	}
	if err := tx.Create(&payment).Error; err != nil {
		return uuid.Nil, "", fmt.Errorf("writing the payment of order %s: %w", order.ID, err)
	}
	success, cancel := m.ReturnURL(order.ID)
	request := provider.CheckoutRequest{
		PaymentID: payment.ID, OrderID: order.ID, Email: order.Email, SuccessURL: success, CancelURL: cancel,
	}
	for _, line := range lines {
		request.Items = append(request.Items, provider.CheckoutItem{
			Name: line.Name, Quantity: line.Quantity, Unit: money.Amount{Minor: line.UnitMinor, Currency: order.Currency},
		})
	}
	call := request.Call()
	return payment.ID, call.IdempotencyKey, s.Calls.Intend(ctx, tx, call)
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
	var payment Payment
	if err := tx.First(&payment, "id = ?", call.SubjectID).Error; err != nil {
		return fmt.Errorf("reading payment %s: %w", call.SubjectID, err)
	}
	if _, err := s.lock(tx, payment.OrderID); err != nil {
		return err
	}
	bound := tx.Model(&Payment{}).Where("id = ? AND resource_id IS NULL", payment.ID).Updates(map[string]any{
		"resource_id": session.ID, "checkout_url": session.URL, "object_created_at": session.CreatedAt, "updated_at": s.Now(),
	})
	if bound.Error != nil {
		return fmt.Errorf("binding %s to payment %s: %w", session.ID, payment.ID, bound.Error)
	}
	_, err = s.learn(ctx, tx, &payment, session.Resources)
	return err
}

// price turns items into lines at the stored prices, and adds them up.
func (s *Store) price(tx *gorm.DB, items []Item) ([]Line, money.Amount, error) {
	skus := make([]string, len(items))
	for i, item := range items {
		skus[i] = item.SKU
	}
	var products []Product
	if err := tx.Where("sku IN ? AND active", skus).Find(&products).Error; err != nil {
		return nil, money.Amount{}, fmt.Errorf("reading products: %w", err)
	}
	bySKU := make(map[string]Product, len(products))
	for _, p := range products {
		bySKU[p.SKU] = p
	}

	var total money.Amount
	lines := make([]Line, len(items))
	for i, item := range items {
		product, ok := bySKU[item.SKU]
		if !ok {
			return nil, total, &InputError{Field: fmt.Sprintf("items[%d].sku", i), Detail: fmt.Sprintf("no product %q is for sale", item.SKU)}
		}
		if i == 0 {
			total.Currency = product.Currency
		}
		if product.Currency != total.Currency {
			return nil, total, &InputError{
				Field:  fmt.Sprintf("items[%d].sku", i),
				Detail: fmt.Sprintf("is priced in %s, the items before it in %s; one order has one currency", product.Currency, total.Currency),
			}
		}
		sum, err := product.Unit().Mul(item.Quantity)
		if err == nil {
			total, err = total.Add(sum)
		}
		if err != nil || total.Minor > MaxTotal {
			return nil, total, &InputError{Field: "items", Detail: "the total is too large for one order"}
		}
		lines[i] = Line{Position: i + 1, SKU: product.SKU, Name: product.Name, Quantity: item.Quantity, UnitMinor: product.UnitMinor}
	}
	return lines, total, nil
}

// check looks at what can be judged without the database.
func (n *NewOrder) check() error {
	n.Email = strings.TrimSpace(n.Email)
	address, err := mail.ParseAddress(n.Email)
	if err != nil || address.Address != n.Email || len(n.Email) > 254 || !isPrintable(n.Email) {
		return &InputError{Field: "email", Detail: "must be one plain address, like a@example.com"}
	}
	if n.Provider == "" {
		n.Provider = "stripe"
	}
	if n.Provider != "stripe" {
		return &InputError{Field: "provider", Detail: fmt.Sprintf("%q is unknown; use stripe", n.Provider)}
	}
	if n.Locale != "" && !isLocale(n.Locale) {
		return &InputError{Field: "locale", Detail: "must be a language tag, like en or de-AT"}
	}
	switch {
	case len(n.Items) == 0:
		return &InputError{Field: "items", Detail: "at least one is needed"}
	case len(n.Items) > MaxLines:
		return &InputError{Field: "items", Detail: fmt.Sprintf("at most %d in one order", MaxLines)}
	}
	for i, item := range n.Items {
		if item.SKU == "" {
			return &InputError{Field: fmt.Sprintf("items[%d].sku", i), Detail: "is missing"}
		}
		if !isPrintable(item.SKU) {
			return &InputError{Field: fmt.Sprintf("items[%d].sku", i), Detail: "holds characters that no sku has"}
		}
		if item.Quantity < 1 || item.Quantity > MaxQuantity {
			return &InputError{Field: fmt.Sprintf("items[%d].quantity", i), Detail: fmt.Sprintf("must be from 1 to %d", MaxQuantity)}
		}
	}
	return nil
}

// isLocale reports whether s looks like a BCP 47 tag. An unknown language is no fault:
// whoever formats for it falls back.
func isLocale(s string) bool {
	ok, err := regexp.MatchString(`^[A-Za-z]{2,3}([-_][A-Za-z0-9]{2,8}){0,3}$`, s)
	return err == nil && ok
}

// isPrintable reports whether s is text that can be stored, shown and mailed as it is: no
// control characters, no line separators, nothing invisible.
func isPrintable(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })
}
