package stripesim

import (
	"maps"
	"slices"
	"time"
)

// bankDebit is the delayed method.
//
// Simplified: one for all currencies; Stripe's takes US dollars only.
const bankDebit = "us_bank_account"

// intentOf is the session's intent, created at the first try with what payment_intent_data asked for, and stating what is
// now to be paid.
func (a *act) intentOf(v *session) *paymentIntent {
	if pi := a.intents[v.PaymentIntent.id]; pi != nil {
		pi.Amount, pi.Currency = v.AmountTotal, v.Currency
		return pi
	}
	id := a.cfg.NewID("pi_")
	pi := &paymentIntent{
		ID: id, Object: "payment_intent", Amount: v.AmountTotal, CaptureMethod: "automatic_async",
		ClientSecret: id + "_secret_" + a.cfg.NewID(""), ConfirmationMethod: "automatic", Created: a.now.Unix(),
		Currency: v.Currency, Description: optional(v.intent.description), Livemode: a.cfg.Livemode,
		Metadata: maps.Clone(v.intent.metadata), PaymentMethodTypes: slices.Clone(v.PaymentMethodTypes),
		ReceiptEmail:              optional(v.intent.receiptEmail),
		StatementDescriptor:       optional(v.intent.statementDescriptor),
		StatementDescriptorSuffix: optional(v.intent.statementDescriptorSuffix),
		Status:                    "requires_payment_method",
	}
	pi.PaymentMethodOptions.Card.RequestThreeDSecure = "automatic"
	a.intents[id] = pi
	v.PaymentIntent.id = id
	a.emit("payment_intent.created", pi)
	return pi
}

// newCharge is one try to collect. Its metadata is copied from the intent now and never follows it
// (https://docs.stripe.com/metadata).
func (s *Sim) newCharge(now time.Time, pi *paymentIntent, buyer billingDetails, delayed bool) *charge {
	ch := &charge{
		ID: s.cfg.NewID("ch_"), Object: "charge", Amount: pi.Amount, BillingDetails: buyer,
		Created: now.Unix(), Currency: pi.Currency, Description: pi.Description, Livemode: s.cfg.Livemode,
		Metadata: maps.Clone(pi.Metadata), PaymentIntent: ref{id: pi.ID}, PaymentMethod: s.cfg.NewID("pm_"),
		PaymentMethodDetails: byCard(pi.Amount), ReceiptEmail: pi.ReceiptEmail,
		StatementDescriptor: pi.StatementDescriptor, StatementDescriptorSuffix: pi.StatementDescriptorSuffix,
	}
	if delayed {
		ch.PaymentMethodDetails = byBank()
		ch.ID = s.cfg.NewID("py_") // Stripe's prefix for charges that are not by card
	} else {
		ch.CalculatedStatementDescriptor = "SIMULATED STRIPE"
	}
	s.charges[ch.ID] = ch
	return ch
}

// succeed collects the money: charge.succeeded, payment_intent.succeeded.
//
// Simplified: the balance transaction is there at once; with automatic_async capture Stripe may add it a moment later, in
// charge.updated (https://docs.stripe.com/payments/payment-intents/asynchronous-capture).
func (a *act) succeed(pi *paymentIntent, ch *charge) {
	ch.Status, ch.Paid, ch.Captured, ch.AmountCaptured = "succeeded", true, true, ch.Amount
	ch.BalanceTransaction.id = a.cfg.NewID("txn_")
	ch.ReceiptURL = optional("https://pay.stripe.com/receipts/payment/" + ch.ID)
	ch.Outcome = approval("normal", 12)
	pi.Status, pi.AmountReceived, pi.LastPaymentError = "succeeded", pi.Amount, nil
	pi.PaymentMethod.id, pi.LatestCharge.id = ch.PaymentMethod, ch.ID
	a.emit("charge.succeeded", ch)
	a.emit("payment_intent.succeeded", pi)
}

// decline is why a try failed.
type decline struct {
	code, declineCode, message, kind, seller, risk string
}

// fail leaves the intent waiting for another payment method: charge.failed, payment_intent.payment_failed.
func (a *act) fail(pi *paymentIntent, ch *charge, d decline) {
	ch.Status, ch.Captured, ch.FailureCode, ch.FailureMessage = "failed", false, optional(d.code), optional(d.message)
	reason := d.declineCode
	if reason == "" {
		reason = d.code
	}
	ch.Outcome = &outcome{
		NetworkStatus: "declined_by_network", Reason: optional(reason), RiskLevel: d.risk, RiskScore: 12,
		SellerMessage: d.seller, Type: "issuer_declined",
	}
	pi.Status, pi.PaymentMethod.id, pi.LatestCharge.id = "requires_payment_method", "", ch.ID
	pi.LastPaymentError = &paymentError{
		Charge: ch.ID, Code: d.code, DeclineCode: d.declineCode, DocURL: docURL(d.code), Message: d.message, Type: d.kind,
	}
	a.emit("charge.failed", ch)
	a.emit("payment_intent.payment_failed", pi)
}

func approval(risk string, score int64) *outcome {
	return &outcome{
		NetworkStatus: "approved_by_network", RiskLevel: risk, RiskScore: score, SellerMessage: "Payment complete.",
		Type: "authorized",
	}
}

// byCard is Stripe's test card 4242 4242 4242 4242.
func byCard(amount int64) methodDetails {
	return methodDetails{Type: "card", Card: &cardDetails{
		AmountAuthorized: amount, Brand: "visa", Checks: cardChecks{CVCCheck: "pass"}, Country: "US", ExpMonth: 12,
		ExpYear: 2034, ExtendedAuthorization: cardStatus{"disabled"}, Fingerprint: "Xt5EWLLDS7FJjR1c", Funding: "credit",
		IncrementalAuthorization: cardStatus{"unavailable"}, Last4: "4242", Multicapture: cardStatus{"unavailable"},
		Network: "visa", Overcapture: overcapture{MaximumAmountCapturable: amount, Status: "unavailable"},
	}}
}

// byBank is Stripe's test bank account.
func byBank() methodDetails {
	return methodDetails{Type: bankDebit, USBankAccount: &bankDetails{
		AccountHolderType: "individual", AccountType: "checking", BankName: "STRIPE TEST BANK",
		Fingerprint: "FFDMA0xfhBjWSZLu", Last4: "6789", RoutingNumber: "110000000",
	}}
}
