package webhooks

import (
	"github.com/tidwall/gjson"

	"paidonce/internal/money"
)

// paid records a session's success, with what its total is made of.
//
// Where the buyer paid in a currency of their own, older API versions state that one, and
// the merchant's beside it, as currency_conversion; newer ones state the merchant's, and the
// buyer's beside it, as presentment_details. What was agreed is in the merchant's.
func (e *Event) paid(session gjson.Result) {
	total, currency := session.Get("amount_total"), session.Get("currency")
	if converted := session.Get("currency_conversion"); converted.IsObject() {
		total, currency = converted.Get("amount_total"), converted.Get("source_currency")
	} else {
		e.Breakdown = breakdownOf(session, currency)
	}
	e.succeed(total, total, currency)
}

// succeed records a success with the money it states. An event that does not state it in
// whole minor units of a currency that can be paid is a hint to read the payment, and never
// a payment of zero.
func (e *Event) succeed(received, intended, currency gjson.Result) {
	got, ok := amount(received, currency)
	asked, ok2 := amount(intended, currency)
	if !ok || !ok2 {
		e.Hint, e.Breakdown = true, nil
		return
	}
	e.Status = StatusSucceeded
	e.ReceivedMinor, e.IntendedMinor, e.Currency = got.Minor, asked.Minor, string(got.Currency)
}

// breakdownOf reads what a session's total is made of; nil if it does not say. There may be
// nothing to ship, and older versions then say null.
func breakdownOf(session, currency gjson.Result) *Breakdown {
	var b Breakdown
	for _, part := range []struct {
		to    *int64
		path  string
		empty bool // may be missing
	}{
		{&b.SubtotalMinor, "amount_subtotal", false},
		{&b.DiscountMinor, "total_details.amount_discount", false},
		{&b.TaxMinor, "total_details.amount_tax", false},
		{&b.ShippingMinor, "total_details.amount_shipping", true},
	} {
		value := session.Get(part.path)
		if part.empty && value.Type == gjson.Null {
			continue
		}
		stated, ok := amount(value, currency)
		if !ok {
			return nil
		}
		*part.to = stated.Minor
	}
	return &b
}

// amount reads what Stripe states into our minor units.
func amount(v, currency gjson.Result) (money.Amount, bool) {
	minor, ok := minorUnits(v)
	if !ok {
		return money.Amount{}, false
	}
	a, err := money.FromStripe(minor, text(currency))
	return a, err == nil
}

// minorUnits reads an amount from its digits: no float on the way, so that nothing above
// 2^53 loses digits and 19.99 is not an amount.
func minorUnits(v gjson.Result) (int64, bool) {
	if v.Type != gjson.Number || v.Raw == "" || len(v.Raw) > 18 {
		return 0, false
	}
	var n int64
	for _, c := range []byte(v.Raw) {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	return n, true
}
