package stripesim

// route is an endpoint: the parameters it takes, what it answers and what it does. run is called with s.mu held.
type route struct {
	pattern string
	params  spec
	of      any // an empty object of the kind it answers, as a slice for a list: what expand[] is held against
	run     func(*Sim, *request) (any, *apiError)
}

func routes() []route {
	only := fields(map[string]spec{"expand": expandParam()}) // endpoints that take nothing else
	return []route{
		{"POST /v1/checkout/sessions", sessionParams(), session{}, (*Sim).createSession},
		{"GET /v1/checkout/sessions", pageParams(sessionFilters()), []session{}, (*Sim).listSessions},
		{"GET /v1/checkout/sessions/{id}", only, session{}, (*Sim).getSession},
		{"GET /v1/checkout/sessions/{id}/line_items", pageParams(nil), []lineItem{}, (*Sim).listLineItems},
		{"POST /v1/checkout/sessions/{id}/expire", only, session{}, (*Sim).expireSession},
		{"GET /v1/payment_pages/{id}", only, paymentPage{}, (*Sim).getPaymentPage},
		{"POST /v1/payment_pages/{id}/confirm", pageConfirmParams(), paymentPage{}, (*Sim).confirmPaymentPage},

		{"POST /v1/products", productParams(), product{}, (*Sim).createProduct},
		{"GET /v1/products", pageParams(productFilters()), []product{}, (*Sim).listProducts},
		{"GET /v1/products/{id}", only, product{}, (*Sim).getProduct},
		{"POST /v1/prices", priceParams(), price{}, (*Sim).createPrice},
		{"GET /v1/prices", pageParams(priceFilters()), []price{}, (*Sim).listPrices},
		{"GET /v1/prices/{id}", only, price{}, (*Sim).getPrice},
		{"POST /v1/coupons", couponParams(), coupon{}, (*Sim).createCoupon},
		{"GET /v1/coupons", pageParams(createdFilter()), []coupon{}, (*Sim).listCoupons},
		{"GET /v1/coupons/{id}", only, coupon{}, (*Sim).getCoupon},
		{"POST /v1/promotion_codes", promoParams(), promotionCode{}, (*Sim).createPromo},
		{"GET /v1/promotion_codes", pageParams(promoFilters()), []promotionCode{}, (*Sim).listPromos},
		{"GET /v1/promotion_codes/{id}", only, promotionCode{}, (*Sim).getPromo},

		{"POST /v1/payment_methods", methodParams(), paymentMethod{}, (*Sim).createMethod},
		{"GET /v1/payment_methods/{id}", only, paymentMethod{}, (*Sim).getMethod},
		{"POST /v1/payment_intents", newIntentParams(), paymentIntent{}, (*Sim).createIntent},
		{"GET /v1/payment_intents", pageParams(intentFilters()), []paymentIntent{}, (*Sim).listIntents},
		{"GET /v1/payment_intents/{id}", intentReadParams(), paymentIntent{}, (*Sim).getIntent},
		{"POST /v1/payment_intents/{id}", intentParams(), paymentIntent{}, (*Sim).updateIntent},
		{"POST /v1/payment_intents/{id}/confirm", confirmParams(), paymentIntent{}, (*Sim).confirmIntent},
		{"POST /v1/payment_intents/{id}/capture", captureParams(), paymentIntent{}, (*Sim).captureIntent},
		{"POST /v1/payment_intents/{id}/cancel", cancelParams(), paymentIntent{}, (*Sim).cancelIntent},
		{"GET /v1/charges", pageParams(chargeFilters()), []charge{}, (*Sim).listCharges},
		{"GET /v1/charges/{id}", only, charge{}, (*Sim).getCharge},

		{"POST /v1/refunds", refundParams(), refund{}, (*Sim).createRefund},
		{"GET /v1/refunds", pageParams(returnFilters()), []refund{}, (*Sim).listRefunds},
		{"GET /v1/refunds/{id}", only, refund{}, (*Sim).getRefund},
		{"POST /v1/refunds/{id}", metadataParams(), refund{}, (*Sim).updateRefund},
		{"POST /v1/refunds/{id}/cancel", only, refund{}, (*Sim).cancelRefund},
		{"GET /v1/disputes", pageParams(returnFilters()), []dispute{}, (*Sim).listDisputes},
		{"GET /v1/disputes/{id}", only, dispute{}, (*Sim).getDispute},
		{"POST /v1/disputes/{id}", disputeParams(), dispute{}, (*Sim).updateDispute},
		{"POST /v1/disputes/{id}/close", only, dispute{}, (*Sim).closeDisputeByAPI},

		{"GET /v1/events", pageParams(eventFilters()), []eventObject{}, (*Sim).listEvents},
		{"GET /v1/events/{id}", only, eventObject{}, (*Sim).getEvent},
		{"POST /v1/events/{id}/retry", retryParams(), eventObject{}, (*Sim).retryEvent},
		{"GET /v1/account", only, account{}, (*Sim).getAccount},
		{"POST /v1/webhook_endpoints", hookParams(true), webhookEndpoint{}, (*Sim).createHook},
		{"GET /v1/webhook_endpoints", pageParams(nil), []webhookEndpoint{}, (*Sim).listHooks},
		{"GET /v1/webhook_endpoints/{id}", only, webhookEndpoint{}, (*Sim).getHook},
		{"POST /v1/webhook_endpoints/{id}", hookParams(false), webhookEndpoint{}, (*Sim).updateHook},
		{"DELETE /v1/webhook_endpoints/{id}", only, deleted{}, (*Sim).deleteHook},
	}
}

func metadataParams() spec {
	return fields(map[string]spec{"metadata": {kind: metadata}, "expand": expandParam()})
}

func createdFilter() map[string]spec { return map[string]spec{"created": {kind: span}} }

// filters are created and texts that must be equal.
func filters(names ...string) map[string]spec {
	out := createdFilter()
	for _, name := range names {
		out[name] = spec{}
	}
	return out
}

// find gets the object of the path, or Stripe's 404 that names what is not there.
func find[T any](t *table[T], id, object, param string) (*T, *apiError) {
	if v := t.get(id); v != nil {
		return v, nil
	}
	return nil, noSuch(object, id, param)
}
