package stripesim

import "strings"

func addressParams() spec {
	return fields(map[string]spec{
		"city": {clear: true}, "country": {clear: true}, "line1": {clear: true}, "line2": {clear: true},
		"postal_code": {clear: true}, "state": {clear: true},
	})
}

func addressOf(n *node) address {
	return address{
		City: optional(n.str("city")), Country: optional(n.str("country")), Line1: optional(n.str("line1")),
		Line2: optional(n.str("line2")), PostalCode: optional(n.str("postal_code")), State: optional(n.str("state")),
	}
}

func shippingParams() spec {
	return fields(map[string]spec{
		"address": addressParams(), "name": {required: true}, "carrier": {}, "phone": {}, "tracking_number": {},
	})
}

func shippingOf(n *node) *shipping {
	if n == nil {
		return nil
	}
	return &shipping{
		Address: addressOf(n.get("address")), Carrier: optional(n.str("carrier")), Name: optional(n.str("name")),
		Phone: optional(n.str("phone")), TrackingNumber: optional(n.str("tracking_number")),
	}
}

// methodParams is what POST /v1/payment_methods takes: test cards by token or number, test accounts by number
// (https://docs.stripe.com/api/payment_methods/create).
func methodParams() spec {
	members := map[string]spec{
		"type": {required: true},
		"card": fields(map[string]spec{
			"token": {}, "number": {}, "exp_month": {kind: integer}, "exp_year": {kind: integer}, "cvc": {},
			"networks": {kind: unsupported},
		}),
		"sepa_debit":      fields(map[string]spec{"iban": {required: true}}),
		"us_bank_account": {kind: anything},
		"billing_details": fields(map[string]spec{
			"address": addressParams(), "email": {clear: true}, "name": {clear: true}, "phone": {clear: true},
		}),
		"metadata": {kind: metadata}, "allow_redisplay": {among: []string{"always", "limited", "unspecified"}},
		"expand": expandParam(),
	}
	for _, name := range strings.Fields(`acss_debit affirm afterpay_clearpay alipay amazon_pay au_becs_debit bacs_debit
		bancontact blik boleto cashapp customer customer_balance eps fpx giropay grabpay ideal interac_present klarna konbini
		link mobilepay multibanco oxxo p24 payment_method paynow paypal pix promptpay radar_options revolut_pay sofort swish
		twint wechat_pay zip`) {
		members[name] = spec{kind: unsupported}
	}
	return fields(members)
}

func (s *Sim) createMethod(req *request) (any, *apiError) {
	p := req.params
	var test testMethod
	var known bool
	switch typ := p.str("type"); typ {
	case "card":
		given := p.str("card", "token")
		if given == "" {
			given = p.str("card", "number")
		}
		test, known = findMethod(given)
		if p.get("card") == nil {
			return nil, missingParam("card")
		}
		if !known || test.delayed() {
			return nil, refused("resource_missing", "card[token]", "No such token or test card: '%s'", given)
		}
	case sepaDebit:
		test, known = findMethod(p.str(sepaDebit, "iban"))
		if !known || test.kind != sepaDebit {
			return nil, invalid("invalid_bank_account_iban", "sepa_debit[iban]",
				"The simulated Stripe knows the IBANs of Stripe's tests alone, not %s.", p.str(sepaDebit, "iban"))
		}
	case bankDebit:
		test, _ = findMethod("bank")
	default:
		return nil, invalid("", "type", "The simulated Stripe knows card, sepa_debit and us_bank_account, not %s.", typ)
	}
	data, err := newMetadata(p)
	if err != nil {
		return nil, err
	}
	who := p.get("billing_details")
	v := s.newMethod(req.now, test, billingDetails{
		Address: addressOf(who.get("address")), Email: optional(who.str("email")), Name: optional(who.str("name")),
		Phone: optional(who.str("phone")),
	})
	v.Metadata = data
	if p.get("allow_redisplay") != nil {
		v.AllowRedisplay = p.str("allow_redisplay")
	}
	return v, nil
}

// methodFor takes a payment method by its id, or one of Stripe's ready-made ones as pm_card_visa.
func (s *Sim) methodFor(req *request, id, param string) (*paymentMethod, *apiError) {
	if v := s.methods.get(id); v != nil {
		return v, nil
	}
	if test, ok := findMethod(id); ok && strings.HasPrefix(id, "pm_card_") && !test.delayed() {
		return s.newMethod(req.now, test, billingDetails{}), nil
	}
	return nil, refused("resource_missing", param, "No such PaymentMethod: '%s'", id)
}
