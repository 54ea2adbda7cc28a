package stripesim

import (
	"maps"
	"strings"
)

// Refunds (https://docs.stripe.com/api/refunds) and disputes (https://docs.stripe.com/api/disputes).

func refundParams() spec {
	members := map[string]spec{
		"charge": {}, "payment_intent": {}, "amount": {kind: integer, min: 1}, "metadata": {kind: metadata},
		"reason": {among: []string{"duplicate", "fraudulent", "requested_by_customer"}}, "expand": expandParam(),
	}
	for _, name := range strings.Fields(`currency customer instructions_email origin refund_application_fee
		reverse_transfer`) {
		members[name] = spec{kind: unsupported}
	}
	return fields(members)
}

func (s *Sim) createRefund(req *request) (any, *apiError) {
	p := req.params
	ch, err := s.chargeToRefund(p)
	if err != nil {
		return nil, err
	}
	amount := refundable(ch)
	if v := p.whole("amount"); v != nil {
		amount = *v
	}
	switch {
	case !ch.Captured || ch.Status != "succeeded":
		return nil, refused("charge_not_refundable", "", "This charge cannot be refunded: its status is %s.", ch.Status)
	case s.chargedBack(ch):
		return nil, refused("charge_disputed", "", "Charge %s has been charged back; cannot issue a refund.", ch.ID)
	case refundable(ch) == 0:
		return nil, refused("charge_already_refunded", "", "Charge %s has already been refunded.", ch.ID)
	case amount > refundable(ch):
		return nil, refused("amount_too_large", "amount",
			"Refund amount (%s) is greater than unrefunded amount on charge (%s)",
			amountText(amount, ch.Currency), amountText(refundable(ch), ch.Currency))
	}
	data, err := newMetadata(p)
	if err != nil {
		return nil, err
	}
	return s.act(req.cause(), nil).refundBy(ch, amount, "", p.str("reason"), data), nil
}

func (s *Sim) chargeToRefund(p *node) (*charge, *apiError) {
	switch {
	case p.get("charge") == nil && p.get("payment_intent") == nil:
		return nil, invalid("parameter_missing", "payment_intent", "Give one of charge and payment_intent.")
	case p.get("charge") != nil:
		ch := s.charges.get(p.str("charge"))
		if ch == nil {
			return nil, refused("resource_missing", "charge", "No such charge: '%s'", p.str("charge"))
		}
		return ch, nil
	}
	pi := s.intents.get(p.str("payment_intent"))
	if pi == nil {
		return nil, refused("resource_missing", "payment_intent", "No such payment_intent: '%s'", p.str("payment_intent"))
	}
	ch := s.charges.get(pi.LatestCharge.id)
	if ch == nil {
		return nil, refused("", "payment_intent", "This PaymentIntent (%s) does not have a successful charge to refund.", pi.ID)
	}
	return ch, nil
}

// chargedBack reports whether a dispute holds the money: open and no inquiry, or lost.
func (s *Sim) chargedBack(ch *charge) bool {
	for _, d := range s.disputes.oldest() {
		if d.Charge.id == ch.ID && !d.IsChargeRefundable && d.Status != "won" && d.Status != "warning_closed" {
			return true
		}
	}
	return false
}

// updateRefund changes the metadata: charge.refund.updated, and refund.updated since 2024-10-28.
func (s *Sim) updateRefund(req *request) (any, *apiError) {
	r, err := find(&s.refunds, req.target, "refund", "id")
	if err != nil {
		return nil, err
	}
	merged, ok := req.params.get("metadata").mergeInto(r.Metadata)
	if !ok {
		return nil, invalid("", "metadata", "Metadata can have at most 50 keys.")
	}
	r.Metadata = merged
	a := s.act(req.cause(), nil)
	a.emit("charge.refund.updated", r)
	a.emitSince(refundsSince, "refund.updated", r)
	return r, nil
}

// cancelRefund takes back one that has not begun (https://docs.stripe.com/api/refunds/cancel).
func (s *Sim) cancelRefund(req *request) (any, *apiError) {
	r, err := find(&s.refunds, req.target, "refund", "id")
	if err != nil {
		return nil, err
	}
	if r.Status != "requires_action" && r.Status != "pending" {
		return nil, refused("", "", "You cannot cancel a refund with status %s.", r.Status)
	}
	s.act(req.cause(), nil).changeRefund(r, "canceled")
	return r, nil
}

func disputeParams() spec {
	evidence := map[string]spec{}
	for _, name := range evidenceFields() {
		evidence[name] = spec{clear: true, length: 20_000}
	}
	return fields(map[string]spec{
		"evidence": fields(evidence), "metadata": {kind: metadata}, "submit": {kind: boolean}, "expand": expandParam(),
	})
}

// updateDispute stages evidence, and hands it in unless submit is false (https://docs.stripe.com/api/disputes/update).
func (s *Sim) updateDispute(req *request) (any, *apiError) {
	d, err := find(&s.disputes, req.target, "dispute", "id")
	if err != nil {
		return nil, err
	}
	p := req.params
	merged, ok := p.get("metadata").mergeInto(d.Metadata)
	if !ok {
		return nil, invalid("", "metadata", "Metadata can have at most 50 keys.")
	}
	if p.get("evidence") != nil && !d.open() {
		return nil, refused("", "evidence", "This dispute is already closed.")
	}
	d.Metadata = merged
	a := s.act(req.cause(), nil)
	given := p.get("evidence")
	if given == nil {
		a.emit("charge.dispute.updated", d)
		return d, nil
	}
	d.Evidence, d.EvidenceDetails.HasEvidence = maps.Clone(d.Evidence), true
	for _, name := range given.names {
		d.Evidence[name] = optional(given.str(name))
	}
	if p.str("submit") == "false" {
		a.emit("charge.dispute.updated", d)
	} else {
		a.submitEvidence(d)
	}
	return d, nil
}

// closeDisputeByAPI gives in: the dispute is lost (https://docs.stripe.com/api/disputes/close).
func (s *Sim) closeDisputeByAPI(req *request) (any, *apiError) {
	d, err := find(&s.disputes, req.target, "dispute", "id")
	if err != nil {
		return nil, err
	}
	if !d.open() {
		return nil, refused("", "", "This dispute is already closed.")
	}
	s.act(req.cause(), nil).closeDispute(d, false)
	return d, nil
}
