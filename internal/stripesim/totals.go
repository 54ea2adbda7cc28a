package stripesim

import (
	"fmt"
	"math/bits"
	"strings"
	"time"
)

// discountAtCreation applies discounts[0], a coupon or a promotion code; Stripe takes one, and none beside
// allow_promotion_codes (https://docs.stripe.com/payments/checkout/discounts).
func (s *Sim) discountAtCreation(v *session, p *node, now time.Time) *apiError {
	list := p.elems("discounts")
	switch {
	case len(list) == 0:
		return nil
	case len(list) > 1:
		return invalid("", "discounts", "At most one discount can be given.")
	case v.AllowPromotionCodes != nil:
		return invalid("", "allow_promotion_codes", "Give only one of allow_promotion_codes and discounts.")
	}
	id, param := list[0].str("coupon"), "discounts[0][coupon]"
	if code := list[0].str("promotion_code"); code != "" {
		param = "discounts[0][promotion_code]"
		pc := s.promos.get(code)
		if pc == nil {
			return refused("resource_missing", param, "No such promotion code: '%s'", code)
		}
		if !pc.usable(v.Currency, now) {
			return refused("promotion_code_expired", param, "The promotion code '%s' cannot be used.", code)
		}
		id, v.promo = pc.Coupon.ID, pc.ID
	}
	c := s.coupons.get(id)
	if c == nil {
		return refused("resource_missing", param, "No such coupon: '%s'", id)
	}
	if !c.usable(v.Currency, now) {
		return refused("coupon_expired", param, "The coupon '%s' cannot be used.", id)
	}
	v.discount = c.ID
	s.total(v)
	return nil
}

// redeem is the buyer typing a promotion code.
func (a *act) redeem(v *session, code string) error {
	if v.AllowPromotionCodes == nil || !*v.AllowPromotionCodes {
		return fmt.Errorf("%w: %s takes no promotion codes", ErrBadPayment, v.ID)
	}
	for _, pc := range a.promos.oldest() {
		if strings.EqualFold(pc.Code, code) && pc.usable(v.Currency, a.at) {
			v.discount, v.promo = pc.Coupon.ID, pc.ID
			a.total(v)
			return nil
		}
	}
	return fmt.Errorf("%w: the promotion code %q cannot be used", ErrBadPayment, code)
}

// tax is what automatic tax makes of the buyer's address, known only now.
//
// Simplified: one rate for every place, Config.TaxBasisPoints, rounded half up per line.
func (a *act) tax(v *session) {
	if v.AutomaticTax.Enabled {
		v.AutomaticTax.Status = "complete"
		a.total(v)
	}
}

// total computes the session's amounts from its lines: subtotal − discount + tax. A tax that prices include is told, and
// not added (https://docs.stripe.com/tax/products-prices-tax-codes-tax-behavior).
func (s *Sim) total(v *session) {
	v.AmountSubtotal, v.AmountTotal, v.TotalDetails = 0, 0, totalDetails{}
	for i := range v.items {
		v.AmountSubtotal += v.items[i].AmountSubtotal
	}
	discount, spread := s.coupons.get(v.discount).off(v.AmountSubtotal), int64(0)
	for i := range v.items {
		l := &v.items[i]
		l.AmountDiscount = discount - spread // the last line takes what rounding left
		if i < len(v.items)-1 && v.AmountSubtotal > 0 {
			l.AmountDiscount = min(discount-spread, share(discount, l.AmountSubtotal, v.AmountSubtotal))
		}
		spread += l.AmountDiscount
		net := l.AmountSubtotal - l.AmountDiscount
		l.AmountTax, l.AmountTotal = 0, net
		if v.AutomaticTax.Status == "complete" {
			if l.Price.TaxBehavior == "inclusive" {
				l.AmountTax = net - share(net, 100_00, 100_00+s.cfg.TaxBasisPoints)
			} else {
				l.AmountTax = share(net, s.cfg.TaxBasisPoints, 100_00)
				l.AmountTotal += l.AmountTax
			}
		}
		v.TotalDetails.AmountTax += l.AmountTax
		v.AmountTotal += l.AmountTotal
	}
	v.TotalDetails.AmountDiscount = discount
}

// share is amount × part / whole, rounded half up, exact through 128 bits. None of them is negative, and part is not above
// whole.
func share(amount, part, whole int64) int64 {
	hi, lo := bits.Mul64(uint64(amount), uint64(part))
	lo, carry := bits.Add64(lo, uint64(whole)/2, 0)
	q, _ := bits.Div64(hi+carry, lo, uint64(whole))
	return int64(q)
}

func (c *coupon) off(subtotal int64) int64 {
	switch {
	case c == nil:
		return 0
	case c.AmountOff != nil:
		return min(*c.AmountOff, subtotal)
	default:
		return share(subtotal, int64(c.PercentOff), 100_00)
	}
}

func (c *coupon) usable(currency string, now time.Time) bool {
	return c.Valid && (c.RedeemBy == nil || now.Unix() <= *c.RedeemBy) && (c.AmountOff == nil || string(c.Currency) == currency)
}

func (pc *promotionCode) usable(currency string, now time.Time) bool {
	return pc.Active && (pc.ExpiresAt == nil || now.Unix() < *pc.ExpiresAt) && pc.Coupon.usable(currency, now)
}

// countRedemption uses up the coupon and the code that a completed session was paid with.
func (a *act) countRedemption(v *session) {
	if c := a.coupons.get(v.discount); c != nil {
		c.TimesRedeemed++
		c.Valid = c.MaxRedemptions == nil || c.TimesRedeemed < *c.MaxRedemptions
	}
	if pc := a.promos.get(v.promo); pc != nil {
		pc.TimesRedeemed++
		pc.Active = pc.Active && (pc.MaxRedemptions == nil || pc.TimesRedeemed < *pc.MaxRedemptions)
	}
}
