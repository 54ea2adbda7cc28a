package orders

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"gorm.io/gorm"

	"paidonce/internal/money"
)

// Limits of one order. They are for catching mistakes, not for selling: Stripe takes up to
// 100 lines in a session and amounts of eight digits in most currencies
// (https://docs.stripe.com/currencies).
const (
	MaxLines    = 100
	MaxQuantity = 1000
	MaxTotal    = 99_999_999

	// MaxUnits is how many licenses one order may come to, in all its lines: they are issued
	// in one transaction, go out in one mail, and are listed on one object at Stripe.
	MaxUnits = 1000
)

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
	var err error
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
		if err := payable(i, product.Unit()); err != nil {
			return nil, total, err
		}
		if total, err = add(total, product.Unit(), item.Quantity); err != nil {
			return nil, total, err
		}
		lines[i] = Line{Position: i + 1, SKU: product.SKU, Name: product.Name, Quantity: item.Quantity, UnitMinor: product.UnitMinor}
	}
	return lines, total, nil
}

// payable refuses a price that the provider cannot be told: asked for a hundredfold or a
// tenth of it, it would agree with itself.
func payable(i int, unit money.Amount) error {
	if _, err := money.ToStripe(unit); err != nil {
		return &InputError{Field: fmt.Sprintf("items[%d].sku", i), Detail: fmt.Sprintf("its price, %s, cannot be paid at Stripe", unit)}
	}
	return nil
}

// sellable reports whether an order of one could be made at this price.
func sellable(price money.Amount) bool {
	_, err := add(money.Amount{Currency: price.Currency}, price, 1)
	return err == nil
}

// add adds a position to the total. The limit holds for our minor units and for Stripe's,
// which has two more digits of a currency like isk.
func add(total, unit money.Amount, quantity int) (money.Amount, error) {
	sum, err := unit.Mul(quantity)
	if err == nil {
		total, err = total.Add(sum)
	}
	var told int64
	if err == nil {
		told, err = money.ToStripe(total)
	}
	if err != nil || total.Minor > MaxTotal || told > MaxTotal {
		return total, &InputError{Field: "items", Detail: "the total is too large for one order"}
	}
	return total, nil
}

// check looks at what can be judged without the database.
func (n *NewOrder) check() error {
	n.Email = strings.TrimSpace(n.Email)
	if err := checkEmail(n.Email); err != nil {
		return err
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
	units := 0
	for i, item := range n.Items {
		units += min(max(item.Quantity, 0), MaxQuantity)
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
	if units > MaxUnits {
		return &InputError{Field: "items", Detail: fmt.Sprintf("at most %d units in one order, in all lines", MaxUnits)}
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

// fingerprint tells one order from another, as they were understood: however a client
// writes the same order, it is the same, and what is not read does not count.
func (n NewOrder) fingerprint() []byte {
	encoded, err := json.Marshal(n)
	if err != nil {
		panic("bug: a struct of strings and numbers always encodes: " + err.Error())
	}
	sum := sha256.Sum256(encoded)
	return sum[:]
}
