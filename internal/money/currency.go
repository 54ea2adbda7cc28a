package money

import (
	"fmt"
	"strings"

	iso "github.com/bojanz/currency"
)

// Currency is an ISO 4217 code in lower case, as payment providers and our tables write it:
// "usd". The zero value is no currency.
type Currency string

// ParseCurrency reads a code in any case. A code that ISO 4217 does not list is
// [ErrUnknownCurrency].
func ParseCurrency(s string) (Currency, error) {
	// The table below takes "" for valid, so length is asked first. Asking it before the case
	// is folded also keeps out letters that only become ASCII by folding (the long s, ſ).
	if len(s) != 3 || !iso.IsValid(strings.ToUpper(s)) {
		return "", fmt.Errorf("%w: %.40q", ErrUnknownCurrency, s)
	}
	return Currency(strings.ToLower(s)), nil
}

// Digits is how many decimals the currency has: 2 for usd, 0 for jpy, 3 for kwd. For a value
// that did not come from [ParseCurrency] and is no currency it is 0, so that minor units are
// shown as they are and not as something they may not be.
func (c Currency) Digits() int {
	digits, _ := iso.GetDigits(c.Code())
	return int(digits)
}

// Code is the code in upper case, as people write it: "USD".
func (c Currency) Code() string {
	return strings.ToUpper(string(c))
}
