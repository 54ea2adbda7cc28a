package stripesim

import "strings"

// What becomes of an intent that has reserved money, or never gets any: capture and cancel.

func captureParams() spec {
	members := map[string]spec{
		"amount_to_capture": {kind: integer, min: 1}, "metadata": {kind: metadata}, "expand": expandParam(),
	}
	for _, name := range strings.Fields(`application_fee_amount final_capture statement_descriptor
		statement_descriptor_suffix transfer_data`) {
		members[name] = spec{kind: unsupported}
	}
	return fields(members)
}

func (s *Sim) captureIntent(req *request) (any, *apiError) {
	pi, err := find(&s.intents, req.target, "payment_intent", "intent")
	if err != nil {
		return nil, err
	}
	if pi.Status != "requires_capture" {
		return nil, unexpectedState(pi, "capture")
	}
	amount := pi.AmountCapturable
	if v := req.params.whole("amount_to_capture"); v != nil {
		amount = *v
	}
	if amount > pi.AmountCapturable {
		return nil, refused("amount_too_large", "amount_to_capture",
			"The remaining amount you can capture for this PaymentIntent is %d.", pi.AmountCapturable)
	}
	merged, ok := req.params.get("metadata").mergeInto(pi.Metadata)
	if !ok {
		return nil, invalid("", "metadata", "Metadata can have at most 50 keys.")
	}
	pi.Metadata = merged
	s.act(req.cause(), nil).capture(pi, amount)
	return pi, nil
}

func cancelParams() spec {
	reasons := []string{"abandoned", "duplicate", "fraudulent", "requested_by_customer"}
	return fields(map[string]spec{"cancellation_reason": {among: reasons}, "expand": expandParam()})
}

// cancelIntent releases what was reserved: charge.refunded for that, then payment_intent.canceled.
//
// Simplified: the reserved charge is not given a refund of its own.
func (s *Sim) cancelIntent(req *request) (any, *apiError) {
	pi, err := find(&s.intents, req.target, "payment_intent", "intent")
	if err != nil {
		return nil, err
	}
	switch pi.Status {
	case "succeeded", "canceled", "processing":
		return nil, unexpectedState(pi, "cancel")
	}
	if v := s.sessionOf(pi); v != nil && v.Status == "open" {
		return nil, refused("payment_intent_unexpected_state", "",
			"You cannot cancel this PaymentIntent because it belongs to an open Checkout Session. Expire that instead.")
	}
	at := req.now.Unix()
	a := s.act(req.cause(), nil)
	if ch := s.charges.get(pi.LatestCharge.id); ch != nil && pi.Status == "requires_capture" {
		ch.AmountRefunded, ch.Refunded = ch.Amount, true
		a.emit("charge.refunded", ch)
	}
	pi.Status, pi.CanceledAt, pi.AmountCapturable = "canceled", &at, 0
	pi.CancellationReason = optional(req.params.str("cancellation_reason"))
	a.emit("payment_intent.canceled", pi)
	return pi, nil
}
