package money

import (
	"fmt"
	"slices"
)

// stripeRule is how Stripe's minor units of a currency differ from ours, which are ISO's.
type stripeRule int

const (
	alike       stripeRule = iota // the same integer
	hundredfold                   // ISO has no decimals, Stripe has two that are always 00
	wholeUnits                    // ISO has two decimals, Stripe has none
	lastDigit0                    // three decimals, of which the last must be 0
	notPayable                    // refused
)

// ruleOf tells the exceptions (https://docs.stripe.com/currencies):
//
//	isk                  hundredfold
//	mga                  whole units
//	bhd jod kwd omr tnd  the last of three decimals is 0
//	ugx                  refused: the page lists it with no decimals, and again with two
//
// huf and twd are charged like any currency of two decimals; only payouts differ. A currency
// whose number of decimals Stripe does not state is refused too: charged a hundredfold, it
// would agree with itself.
func ruleOf(c Currency) stripeRule {
	zeroAtStripe := []Currency{"bif", "clp", "djf", "gnf", "jpy", "kmf", "krw", "pyg", "rwf", "vnd", "vuv", "xaf", "xof", "xpf"}
	switch {
	case c == "isk":
		return hundredfold
	case c == "mga":
		return wholeUnits
	case slices.Contains([]Currency{"bhd", "jod", "kwd", "omr", "tnd"}, c):
		return lastDigit0
	case slices.Contains(zeroAtStripe, c), c.Digits() == 2:
		return alike
	}
	return notPayable
}

// ToStripe is the integer that Stripe is told for an amount, in Stripe's own minor units.
// An amount that it cannot be told exactly is [ErrNotAtStripe].
func ToStripe(a Amount) (int64, error) {
	switch ruleOf(a.Currency) {
	case alike:
		return a.Minor, nil
	case hundredfold:
		told, err := a.Mul(100)
		return told.Minor, err
	case wholeUnits:
		if a.Minor%100 == 0 {
			return a.Minor / 100, nil
		}
	case lastDigit0:
		if a.Minor%10 == 0 {
			return a.Minor, nil
		}
	case notPayable:
	}
	return 0, fmt.Errorf("%s: %w", a, ErrNotAtStripe)
}

// FromStripe is our amount behind an integer and a currency, in any case, that Stripe states.
// What cannot be one of our amounts is [ErrNotAtStripe] or [ErrUnknownCurrency].
func FromStripe(minor int64, currency string) (Amount, error) {
	c, err := ParseCurrency(currency)
	if err != nil {
		return Amount{}, err
	}
	a := Amount{Minor: minor, Currency: c}
	switch ruleOf(c) {
	case alike, lastDigit0:
		return a, nil
	case hundredfold:
		if minor%100 == 0 {
			return Amount{Minor: minor / 100, Currency: c}, nil
		}
	case wholeUnits:
		return a.Mul(100)
	case notPayable:
	}
	return Amount{}, fmt.Errorf("%d %s: %w", minor, c, ErrNotAtStripe)
}
