package stripesim

// refundsSince is the API version from which refunds have events of their own. Before it an ordinary card refund yields
// charge.refunded, and charge.refund.updated when it changes
// (https://docs.stripe.com/changelog/acacia/2024-10-28/refund-webhook-update).
const refundsSince = "2024-10-28.acacia"

// refundable is what may still be refunded of a charge: what was captured and has not gone back. What was reserved and not
// captured is a refund too, made by the capture.
func refundable(ch *charge) int64 {
	if !ch.Captured {
		return 0
	}
	return ch.Amount - ch.AmountRefunded
}

// newRefund gives money back: charge.refunded, and refund.created since 2024-10-28.
func (a *act) newRefund(ch *charge, amount int64, status, reason string, metadata map[string]string) *refund {
	r := &refund{
		ID: a.cfg.NewID("re_"), Object: "refund", Amount: amount, Charge: ref{id: ch.ID}, Created: a.at.Unix(),
		Currency: ch.Currency, Metadata: metadata, PaymentIntent: ch.PaymentIntent, Reason: optional(reason), Status: status,
		BalanceTransaction: ref{id: a.cfg.NewID("txn_")}, DestinationDetails: destination(ch, status),
	}
	if r.Metadata == nil {
		r.Metadata = map[string]string{}
	}
	a.refunds.add(r.ID, r)
	if status == "failed" { // at once: nothing has left, and the charge tells of no refund
		r.FailureReason = "unknown"
		a.emit("charge.refund.updated", r)
	} else {
		a.giveBack(ch, amount)
		a.emit("charge.refunded", ch)
	}
	a.emitSince(refundsSince, "refund.created", r)
	return r
}

// giveBack moves the charge's refunded total by amount, which is negative when a refund came to nothing.
func (a *act) giveBack(ch *charge, amount int64) {
	ch.AmountRefunded += amount
	ch.Refunded = ch.AmountRefunded > 0 && ch.AmountRefunded >= ch.Amount
}

// changeRefund is what becomes of a refund later: charge.refund.updated, and refund.updated or refund.failed since
// 2024-10-28. One that fails or is canceled leaves the money with the merchant
// (https://docs.stripe.com/refunds#failed-refunds).
func (a *act) changeRefund(r *refund, status string) {
	ch := a.charges.get(r.Charge.id)
	held := r.Status != "failed" && r.Status != "canceled"
	r.Status = status
	family := "refund.updated"
	switch status {
	case "failed":
		r.FailureReason, r.FailureBalanceTransaction = "lost_or_stolen_card", &ref{id: a.cfg.NewID("txn_")}
		family = "refund.failed"
	case "succeeded":
		r.DestinationDetails = destination(ch, status)
	}
	if held && (status == "failed" || status == "canceled") {
		a.giveBack(ch, -r.Amount)
	}
	a.emit("charge.refund.updated", r)
	a.emitSince(refundsSince, family, r)
}

func destination(ch *charge, status string) destinationDetails {
	switch ch.PaymentMethodDetails.Type {
	case sepaDebit:
		return destinationDetails{Type: "sepa_bank_transfer", SepaDebit: &struct{}{}}
	case bankDebit:
		return destinationDetails{Type: "us_bank_transfer", USBankAccount: &struct{}{}}
	}
	d := &cardDestination{ReferenceStatus: "pending", ReferenceType: "acquirer_reference_number", Type: "refund"}
	if status == "pending" {
		d.Type = "pending"
	}
	return destinationDetails{Type: "card", Card: d}
}
