package stripesim

import "strings"

// Coupons (https://docs.stripe.com/api/coupons) and the promotion codes that buyers type for them
// (https://docs.stripe.com/api/promotion_codes).

func couponParams() spec {
	return fields(map[string]spec{
		"id": {}, "amount_off": {kind: integer, min: 1, max: maxAmount}, "percent_off": {}, "currency": {}, "name": {length: 40},
		"duration":        {among: []string{"forever", "once", "repeating"}},
		"max_redemptions": {kind: integer, min: 1}, "redeem_by": {kind: integer}, "metadata": {kind: metadata},
		"expand": expandParam(), "applies_to": {kind: unsupported}, "currency_options": {kind: unsupported},
		"duration_in_months": {kind: unsupported},
	})
}

func (s *Sim) createCoupon(req *request) (any, *apiError) {
	p := req.params
	v := &coupon{
		ID: p.str("id"), Object: "coupon", Created: req.now.Unix(), Duration: p.str("duration"), Livemode: s.cfg.Livemode,
		Name: optional(p.str("name")), Valid: true, MaxRedemptions: p.whole("max_redemptions"), RedeemBy: p.whole("redeem_by"),
		AmountOff: p.whole("amount_off"),
	}
	if v.ID == "" {
		v.ID = s.shortID()
	}
	if v.Duration == "" {
		v.Duration = "once"
	}
	off, isPercent := parsePercent(p.str("percent_off"))
	switch {
	case (v.AmountOff == nil) == (p.get("percent_off") == nil):
		return nil, invalid("", "percent_off", "Give exactly one of amount_off and percent_off.")
	case p.get("percent_off") != nil && !isPercent:
		return nil, invalid("", "percent_off", "Invalid percentage: %s", p.str("percent_off"))
	case v.AmountOff != nil && !isCurrency(p.str("currency")):
		return nil, missingParam("currency")
	case s.coupons.get(v.ID) != nil:
		return nil, refused("resource_already_exists", "id", "Coupon already exists.")
	}
	v.PercentOff = off
	if v.AmountOff != nil {
		v.Currency = optional(p.str("currency"))
	}
	var err *apiError
	if v.Metadata, err = newMetadata(p); err != nil {
		return nil, err
	}
	s.coupons.add(v.ID, v)
	s.act(req.cause(), nil).emit("coupon.created", v)
	return v, nil
}

// shortID is as short as the ids and codes that Stripe makes for coupons.
func (s *Sim) shortID() string {
	id := s.cfg.NewID("")
	return id[:min(8, len(id))]
}

// whole is an integer parameter, or nil if it was not given.
func (n *node) whole(name string) *int64 {
	if n.get(name) == nil {
		return nil
	}
	v := n.num(name)
	return &v
}

func (s *Sim) listCoupons(req *request) (any, *apiError) {
	all := s.coupons.newest(func(v *coupon) bool { return inSpan(req.params.get("created"), v.Created) })
	return page(req.params, "/v1/coupons", all, func(v *coupon) string { return v.ID }, "coupon")
}

func promoParams() spec {
	return fields(map[string]spec{
		"coupon": {required: true}, "code": {}, "active": {kind: boolean}, "expires_at": {kind: integer},
		"max_redemptions": {kind: integer, min: 1}, "metadata": {kind: metadata}, "expand": expandParam(),
		"customer": {kind: unsupported}, "restrictions": {kind: unsupported},
	})
}

func (s *Sim) createPromo(req *request) (any, *apiError) {
	p := req.params
	c := s.coupons.get(p.str("coupon"))
	if c == nil {
		return nil, refused("resource_missing", "coupon", "No such coupon: '%s'", p.str("coupon"))
	}
	v := &promotionCode{
		ID: s.cfg.NewID("promo_"), Object: "promotion_code", Active: p.str("active") != "false", Code: p.str("code"), Coupon: c,
		Created: req.now.Unix(), ExpiresAt: p.whole("expires_at"), Livemode: s.cfg.Livemode,
		MaxRedemptions: p.whole("max_redemptions"),
	}
	if v.Code == "" {
		v.Code = strings.ToUpper(s.shortID())
	}
	for _, other := range s.promos.oldest() {
		if strings.EqualFold(other.Code, v.Code) && other.Active {
			return nil, refused("", "code", "An active promotion code with `code: %s` already exists.", v.Code)
		}
	}
	var err *apiError
	if v.Metadata, err = newMetadata(p); err != nil {
		return nil, err
	}
	s.promos.add(v.ID, v)
	s.act(req.cause(), nil).emit("promotion_code.created", v)
	return v, nil
}

func promoFilters() map[string]spec {
	f := filters("code", "coupon")
	f["active"], f["customer"] = spec{kind: boolean}, spec{kind: unsupported}
	return f
}

func (s *Sim) listPromos(req *request) (any, *apiError) {
	p := req.params
	all := s.promos.newest(func(v *promotionCode) bool {
		return inSpan(p.get("created"), v.Created) && p.same("code", v.Code) && p.same("coupon", v.Coupon.ID) &&
			p.same("active", boolText(v.Active))
	})
	return page(p, "/v1/promotion_codes", all, func(v *promotionCode) string { return v.ID }, "promotion_code")
}
