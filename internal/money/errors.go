package money

import "errors"

var (
	// ErrUnknownCurrency is returned for a code that ISO 4217 does not list.
	ErrUnknownCurrency = errors.New("unknown currency")

	// ErrNotDecimal is returned for text that is not digits with at most one point between
	// them: signs, spaces, exponents, commas, a point without digits around it.
	ErrNotDecimal = errors.New("not a plain decimal")

	// ErrTooManyDigits is returned for more digits after the point than the currency has.
	// They are not cut off, even if they are zeros: whoever wrote them meant another currency
	// or another unit.
	ErrTooManyDigits = errors.New("more decimals than the currency has")

	// ErrOverflow is returned when a result does not fit 64 bits.
	ErrOverflow = errors.New("amount too large")

	// ErrMixedCurrencies is returned when amounts of two currencies meet.
	ErrMixedCurrencies = errors.New("different currencies")

	// ErrNotAtStripe is returned for a currency, or an amount of one, that Stripe does not
	// take, or counts in a way that it does not state.
	ErrNotAtStripe = errors.New("not payable at Stripe")

	// ErrNegativeQuantity is returned by [Amount.Mul]: nobody orders minus one.
	ErrNegativeQuantity = errors.New("negative quantity")
)
