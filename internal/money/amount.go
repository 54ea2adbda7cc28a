package money

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	iso "github.com/bojanz/currency"
)

// Amount is a whole number of minor units of one currency. Amounts are plain values and
// comparable with ==.
type Amount struct {
	Minor    int64
	Currency Currency
}

// Parse reads a plain decimal exactly: "19.99" usd is 1999, "100" jpy is 100. Fewer decimals
// than the currency has are fine ("19.9" is 19.90); more are [ErrTooManyDigits]. Everything
// that is not digits and one point between digits is [ErrNotDecimal], the sign included:
// the sums paidonce reads from outside say by their name which way they go.
func Parse(decimal string, c Currency) (Amount, error) {
	c, err := ParseCurrency(string(c))
	if err != nil {
		return Amount{}, fmt.Errorf("parsing amount %.40q: %w", decimal, err)
	}

	whole, fraction, hasPoint := strings.Cut(decimal, ".")
	if !isDigits(whole) || hasPoint && !isDigits(fraction) {
		return Amount{}, fmt.Errorf("parsing amount %.40q: %w", decimal, ErrNotDecimal)
	}
	if len(fraction) > c.Digits() {
		return Amount{}, fmt.Errorf("parsing amount %.40q: %w (%s has %d)", decimal, ErrTooManyDigits, c.Code(), c.Digits())
	}

	// Moving the point is string work: pad the fraction to the currency's digits and read
	// all of it as one integer. Nothing is multiplied, so nothing can be rounded.
	minor, err := strconv.ParseInt(whole+fraction+strings.Repeat("0", c.Digits()-len(fraction)), 10, 64)
	if err != nil {
		// Only digits are left, so the range is all that can be wrong.
		return Amount{}, fmt.Errorf("parsing amount %.40q: %w", decimal, ErrOverflow)
	}
	return Amount{Minor: minor, Currency: c}, nil
}

// String is the plain form, the same in every locale: "19.99 USD", "100 JPY", "-0.05 EUR".
// Its number reads back through [Parse] unless it is negative.
func (a Amount) String() string {
	digits := a.Currency.Digits()

	// Unsigned, because the smallest int64 has no positive counterpart.
	sign, abs := "", uint64(a.Minor)
	if a.Minor < 0 {
		sign, abs = "-", -abs
	}

	// Zeros in front, so that there is always a digit before the point: 5 is 0.05.
	number := fmt.Sprintf("%0*d", digits+1, abs)
	if digits > 0 {
		point := len(number) - digits
		number = number[:point] + "." + number[point:]
	}
	return strings.TrimRight(sign+number+" "+a.Currency.Code(), " ")
}

// Format is the amount as a person of that locale expects it: "$19.99" in en, "19,99 €" with
// a no-break space in de. A locale nobody has heard of is shown as en.
func (a Amount) Format(locale string) string {
	amount, err := iso.NewAmountFromInt64(a.Minor, a.Currency.Code())
	if err != nil {
		return a.String()
	}
	l := iso.NewLocale(locale)
	if l.Language == "" {
		// "_DE": a territory alone has no parent that leads to en, and formats as nothing.
		l = iso.NewLocale("en")
	}
	return iso.NewFormatter(l).Format(amount)
}

// Add is the exact sum. Amounts of two currencies have none ([ErrMixedCurrencies]), not even
// if one of them is zero: a sum starts from zero of its own currency.
func (a Amount) Add(b Amount) (Amount, error) {
	if a.Currency != b.Currency {
		return Amount{}, fmt.Errorf("adding %s and %s: %w", a, b, ErrMixedCurrencies)
	}
	if b.Minor > 0 && a.Minor > math.MaxInt64-b.Minor || b.Minor < 0 && a.Minor < math.MinInt64-b.Minor {
		return Amount{}, fmt.Errorf("adding %s and %s: %w", a, b, ErrOverflow)
	}
	return Amount{Minor: a.Minor + b.Minor, Currency: a.Currency}, nil
}

// Mul is the exact price of a quantity. A quantity below zero is [ErrNegativeQuantity].
func (a Amount) Mul(quantity int) (Amount, error) {
	if quantity < 0 {
		return Amount{}, fmt.Errorf("multiplying %s by %d: %w", a, quantity, ErrNegativeQuantity)
	}
	n := int64(quantity)
	product := a.Minor * n
	// A product that wrapped around does not divide back.
	if n != 0 && product/n != a.Minor {
		return Amount{}, fmt.Errorf("multiplying %s by %d: %w", a, quantity, ErrOverflow)
	}
	return Amount{Minor: product, Currency: a.Currency}, nil
}

// Equal tells whether both are the same number of the same currency. Zero usd and zero eur
// differ (I4 compares the currency too).
func (a Amount) Equal(b Amount) bool {
	return a == b
}

// isDigits tells whether s is one or more ASCII digits. strconv alone would let signs and
// underscores through.
func isDigits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}
