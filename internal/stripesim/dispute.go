package stripesim

import (
	"strings"
	"time"
)

// disputeFee is what Stripe takes for a dispute in its own test mode, in cents.
const disputeFee = 1500

// openDispute begins a dispute: charge.dispute.created, and charge.dispute.funds_withdrawn unless it is an inquiry, which
// moves no money (https://docs.stripe.com/disputes/how-disputes-work).
func (a *act) openDispute(ch *charge, amount int64, reason string, inquiry bool) *dispute {
	due := a.at.Add(9 * 24 * time.Hour).Unix()
	d := &dispute{
		ID: a.cfg.NewID("dp_"), Object: "dispute", Amount: amount, BalanceTransactions: []balanceTransaction{},
		Charge: ref{id: ch.ID}, Created: a.at.Unix(), Currency: ch.Currency, Evidence: noEvidence(),
		EvidenceDetails: evidenceDetails{DueBy: &due}, IsChargeRefundable: inquiry, Livemode: a.cfg.Livemode,
		Metadata: map[string]string{}, PaymentIntent: ch.PaymentIntent, Reason: reason, Status: "needs_response",
		PaymentMethodDetails: disputeMethod{Type: ch.PaymentMethodDetails.Type},
	}
	if c := ch.PaymentMethodDetails.Card; c != nil {
		d.PaymentMethodDetails.Card = &disputeCard{Brand: c.Brand, CaseType: "chargeback", NetworkReasonCode: "10.4"}
	}
	if inquiry {
		d.Status = "warning_needs_response"
		if d.PaymentMethodDetails.Card != nil {
			d.PaymentMethodDetails.Card.CaseType = "inquiry"
		}
	}
	a.disputes.add(d.ID, d)
	ch.Disputed, ch.Dispute.id = true, d.ID
	if inquiry {
		a.emit("charge.dispute.created", d)
		return d
	}
	d.BalanceTransaction.id = a.moveFunds(d, -amount, disputeFee, "Chargeback withdrawal for "+ch.ID)
	a.emit("charge.dispute.created", d)
	a.emit("charge.dispute.funds_withdrawn", d)
	return d
}

// moveFunds adds a balance transaction to the dispute: negative amounts are taken from the account.
func (a *act) moveFunds(d *dispute, amount, fee int64, description string) string {
	t := balanceTransaction{
		ID: a.cfg.NewID("txn_"), Object: "balance_transaction", Amount: amount, AvailableOn: a.at.Unix(),
		Created: a.at.Unix(), Currency: d.Currency, Description: description, Fee: fee,
		FeeDetails: []feeDetail{{Amount: fee, Currency: d.Currency, Description: "Dispute fee", Type: "stripe_fee"}},
		Net:        amount - fee, ReportingCategory: "dispute", Source: d.ID, Status: "available", Type: "adjustment",
	}
	if amount > 0 {
		t.ReportingCategory = "dispute_reversal"
	}
	d.BalanceTransactions = append(d.BalanceTransactions, t)
	return t.ID
}

// escalate turns an inquiry into a dispute: the money goes now.
func (a *act) escalate(d *dispute) {
	d.Status, d.IsChargeRefundable = "needs_response", false
	d.BalanceTransaction.id = a.moveFunds(d, -d.Amount, disputeFee, "Chargeback withdrawal for "+d.Charge.id)
	a.emit("charge.dispute.updated", d)
	a.emit("charge.dispute.funds_withdrawn", d)
}

// submitEvidence hands the merchant's answer in. In test mode the text decides: winning_evidence, losing_evidence
// (https://docs.stripe.com/testing#evidence).
func (a *act) submitEvidence(d *dispute) {
	d.EvidenceDetails.SubmissionCount++
	if strings.HasPrefix(d.Status, "warning_") {
		d.Status = "warning_under_review"
	} else {
		d.Status = "under_review"
	}
	a.emit("charge.dispute.updated", d)
	switch d.Evidence["uncategorized_text"] {
	case "winning_evidence":
		a.closeDispute(d, true)
	case "losing_evidence":
		a.closeDispute(d, false)
	}
}

// closeDispute ends it: charge.dispute.closed, and charge.dispute.funds_reinstated if money comes back. An inquiry ends as
// warning_closed either way.
func (a *act) closeDispute(d *dispute, won bool) {
	switch {
	case strings.HasPrefix(d.Status, "warning_"):
		d.Status = "warning_closed"
	case won:
		d.Status = "won"
		a.moveFunds(d, d.Amount, -disputeFee, "Chargeback reversal for "+d.Charge.id)
	default:
		d.Status = "lost"
	}
	a.emit("charge.dispute.closed", d)
	if d.Status == "won" {
		a.emit("charge.dispute.funds_reinstated", d)
	}
}

func (d *dispute) open() bool {
	return strings.HasSuffix(d.Status, "needs_response") || strings.HasSuffix(d.Status, "under_review")
}

// evidenceFields are the texts and files a merchant can answer a dispute with.
func evidenceFields() []string {
	return strings.Fields(`access_activity_log billing_address cancellation_policy cancellation_policy_disclosure
		cancellation_rebuttal customer_communication customer_email_address customer_name customer_purchase_ip
		customer_signature duplicate_charge_documentation duplicate_charge_explanation duplicate_charge_id
		product_description receipt refund_policy refund_policy_disclosure refund_refusal_explanation service_date
		service_documentation shipping_address shipping_carrier shipping_date shipping_documentation
		shipping_tracking_number uncategorized_file uncategorized_text`)
}

func noEvidence() map[string]optional {
	out := map[string]optional{}
	for _, name := range evidenceFields() {
		out[name] = ""
	}
	return out
}
