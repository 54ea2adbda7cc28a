package orders

// Breakdown is what a total is made of, in minor units of its currency.
type Breakdown struct {
	SubtotalMinor int64 // the prices that were asked for
	DiscountMinor int64
	TaxMinor      int64 // added to the prices
	ShippingMinor int64
}

// TotalMinor is the sum that the breakdown calls for.
func (b Breakdown) TotalMinor() int64 {
	return b.SubtotalMinor - b.DiscountMinor + b.TaxMinor + b.ShippingMinor
}

// addsUp is agreement for a payment whose total may differ from what was asked for (I4): the
// subtotal is what was asked for, and the total is its sum with the rest. That a discount is
// one that the merchant gives is the provider's word, under its signature.
func (p Payment) addsUp() (agreed bool, why Reason) {
	b := p.breakdown()
	switch {
	case b == nil || b.SubtotalMinor != p.ExpectedMinor:
		return false, ReasonAmount
	case b.TotalMinor() == *p.ReceivedMinor:
		return true, NoReason
	case p.IntendedMinor != nil && b.TotalMinor() == *p.IntendedMinor && *p.ReceivedMinor < *p.IntendedMinor:
		return false, ReasonCapture
	}
	return false, ReasonAmount
}

// breakdown is what is known of how the total is made up; nil if nothing is.
func (p Payment) breakdown() *Breakdown {
	if p.SubtotalMinor == nil {
		return nil
	}
	return &Breakdown{SubtotalMinor: *p.SubtotalMinor, DiscountMinor: *p.DiscountMinor, TaxMinor: *p.TaxMinor, ShippingMinor: *p.ShippingMinor}
}

// setBreakdown notes how the total of an adjustable payment is made up. For any other it
// would be noted or not by which of two events came first.
func (p *Payment) setBreakdown(b *Breakdown) {
	p.SubtotalMinor, p.DiscountMinor, p.TaxMinor, p.ShippingMinor = nil, nil, nil, nil
	if b != nil && p.Adjustable {
		p.SubtotalMinor, p.DiscountMinor, p.TaxMinor, p.ShippingMinor = &b.SubtotalMinor, &b.DiscountMinor, &b.TaxMinor, &b.ShippingMinor
	}
}
