// Package money holds amounts as whole minor units of a currency: 1999 usd is 19.99, 100 jpy
// is 100, 18600 kwd is 18.600. There is no float in it and no rounding (invariant I10): an
// operation either is exact or answers an error.
//
// [Parse] and [Amount.String] are the plain form, the same in every locale, and read each
// other back. [Amount.Format] is for people's eyes and is never parsed.
//
// The package knows how many digits ISO 4217 gives a currency, and where Stripe counts one
// differently: [ToStripe] and [FromStripe] are the only two places at which an integer changes
// its meaning. It converts no currency into another and splits nothing.
package money
