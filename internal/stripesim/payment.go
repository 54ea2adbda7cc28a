package stripesim

import (
	"maps"
	"slices"
)

// intentOf is the session's intent, created at the first try with what payment_intent_data asked for, and stating what is
// now to be paid.
func (a *act) intentOf(v *session) *paymentIntent {
	if pi := a.intents.get(v.PaymentIntent.id); pi != nil {
		pi.Amount, pi.Currency = v.AmountTotal, v.Currency
		return pi
	}
	pi := a.newIntent(v.AmountTotal, v.Currency, v.intent, v.PaymentMethodTypes)
	v.PaymentIntent.id = pi.ID
	a.emit("payment_intent.created", pi)
	return pi
}

// newIntent waits for a payment method.
func (a *act) newIntent(amount int64, currency string, d intentData, types []string) *paymentIntent {
	if d.CaptureMethod == "" {
		d.CaptureMethod = "automatic_async"
	}
	id := a.cfg.NewID("pi_")
	pi := &paymentIntent{
		ID: id, Object: "payment_intent", Amount: amount, CaptureMethod: d.CaptureMethod,
		ClientSecret: id + "_secret_" + a.cfg.NewID(""), ConfirmationMethod: "automatic", Created: a.at.Unix(),
		Currency: currency, Description: optional(d.Description), Livemode: a.cfg.Livemode,
		Metadata: maps.Clone(d.Metadata), ReceiptEmail: optional(d.ReceiptEmail),
		SetupFutureUsage: optional(d.SetupFutureUsage), Shipping: d.Shipping,
		StatementDescriptor:       optional(d.StatementDescriptor),
		StatementDescriptorSuffix: optional(d.StatementDescriptorSuffix),
		Status:                    "requires_payment_method",
	}
	pi.setTypes(types)
	a.intents.add(id, pi)
	return pi
}

// setTypes sets payment_method_types, and options for each of them.
func (pi *paymentIntent) setTypes(types []string) {
	pi.PaymentMethodTypes, pi.PaymentMethodOptions = slices.Clone(types), intentMethodOptions{}
	for _, t := range types {
		switch t {
		case "card":
			pi.PaymentMethodOptions.Card = &cardOptions{RequestThreeDSecure: "automatic"}
		case sepaDebit:
			pi.PaymentMethodOptions.SepaDebit = &struct{}{}
		case bankDebit:
			pi.PaymentMethodOptions.USBankAccount = &bankOptions{VerificationMethod: "automatic"}
		}
	}
}

// newCharge is one try to collect. Its metadata is copied from the intent now and never follows it
// (https://docs.stripe.com/metadata).
func (a *act) newCharge(pi *paymentIntent, pm *paymentMethod) *charge {
	ch := &charge{
		Object: "charge", Amount: pi.Amount, BillingDetails: pm.BillingDetails, Created: a.at.Unix(),
		Currency: pi.Currency, Description: pi.Description, Livemode: a.cfg.Livemode, Metadata: maps.Clone(pi.Metadata),
		PaymentIntent: ref{id: pi.ID}, PaymentMethod: pm.ID, ReceiptEmail: pi.ReceiptEmail, Shipping: pi.Shipping,
		StatementDescriptor: pi.StatementDescriptor, StatementDescriptorSuffix: pi.StatementDescriptorSuffix,
	}
	if pm.behavior().delayed() {
		ch.ID = a.cfg.NewID("py_") // Stripe's prefix for charges that are not by card
		mandate := ""
		if pm.SepaDebit != nil {
			mandate = a.cfg.NewID("mandate_")
		}
		ch.PaymentMethodDetails = pm.charged(pi.Amount, mandate)
	} else {
		ch.ID = a.cfg.NewID("ch_")
		ch.PaymentMethodDetails = pm.charged(pi.Amount, "")
		ch.CalculatedStatementDescriptor = "SIMULATED STRIPE"
	}
	a.charges.add(ch.ID, ch)
	return ch
}

// collect tries to take the intent's money by pm and does what pm is made to do: succeed, be declined, take its time. It
// returns the decline, if it was one.
func (a *act) collect(pi *paymentIntent, pm *paymentMethod) (*charge, *decline) {
	how := pm.behavior()
	ch := a.newCharge(pi, pm)
	switch {
	case how.decline != nil:
		a.fail(pi, ch, *how.decline)
		return ch, how.decline
	case how.delayed():
		a.process(pi, ch)
	case pi.CaptureMethod == "manual":
		a.authorize(pi, ch)
	default:
		a.succeed(pi, ch)
	}
	if how.then != "" && !how.manual {
		a.later(a.cfg.Lag+how.wait, how.then, map[bool]string{true: pi.ID, false: ch.ID}[how.delayed()])
	}
	return ch, nil
}

// succeed collects the money: charge.succeeded, payment_intent.succeeded.
//
// Simplified: the balance transaction is there at once; with automatic_async capture Stripe may add it a moment later, in
// charge.updated (https://docs.stripe.com/payments/payment-intents/asynchronous-capture).
func (a *act) succeed(pi *paymentIntent, ch *charge) {
	a.approve(pi, ch)
	ch.Captured, ch.AmountCaptured = true, ch.Amount
	ch.BalanceTransaction.id = a.cfg.NewID("txn_")
	pi.Status, pi.AmountReceived = "succeeded", pi.Amount
	a.emit("charge.succeeded", ch)
	a.emit("payment_intent.succeeded", pi)
}

// authorize reserves the money until it is captured: charge.succeeded, payment_intent.amount_capturable_updated
// (https://docs.stripe.com/payments/place-a-hold-on-a-payment-method).
func (a *act) authorize(pi *paymentIntent, ch *charge) {
	a.approve(pi, ch)
	pi.Status, pi.AmountCapturable = "requires_capture", pi.Amount
	a.emit("charge.succeeded", ch)
	a.emit("payment_intent.amount_capturable_updated", pi)
}

func (a *act) approve(pi *paymentIntent, ch *charge) {
	ch.Status, ch.Paid = "succeeded", true
	ch.ReceiptURL = optional("https://pay.stripe.com/receipts/payment/" + ch.ID)
	ch.Outcome = approval("normal", 12)
	pi.LastPaymentError, pi.NextAction = nil, nil
	pi.PaymentMethod.id, pi.LatestCharge.id = ch.PaymentMethod, ch.ID
}

// process leaves the money on its way: payment_intent.processing, charge.pending.
func (a *act) process(pi *paymentIntent, ch *charge) {
	if t := ch.PaymentMethodDetails.Type; !slices.Contains(pi.PaymentMethodTypes, t) {
		pi.setTypes(append(slices.Clone(pi.PaymentMethodTypes), t))
	}
	pi.Status, pi.PaymentMethod.id, pi.LatestCharge.id, pi.LastPaymentError = "processing", ch.PaymentMethod, ch.ID, nil
	ch.Status, ch.Captured, ch.Outcome = "pending", true, approval("not_assessed", 0)
	a.emit("payment_intent.processing", pi)
	a.emit("charge.pending", ch)
}

// settle is the bank's answer to a payment in processing, for its session too if it has one.
func (a *act) settle(pi *paymentIntent, ok bool) {
	ch, v := a.charges.get(pi.LatestCharge.id), a.sessionOf(pi)
	event := "checkout.session.async_payment_succeeded"
	if ok {
		a.succeed(pi, ch)
	} else {
		a.fail(pi, ch, bounced())
		event = "checkout.session.async_payment_failed"
	}
	if v != nil {
		if ok {
			v.PaymentStatus = "paid"
		}
		a.emit(event, v)
	}
}

func (s *Sim) sessionOf(pi *paymentIntent) *session {
	for _, id := range s.sessions.ids {
		if v := s.sessions.get(id); v.PaymentIntent.id == pi.ID {
			return v
		}
	}
	return nil
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

// capture takes amount of what an intent has reserved; the rest goes back to the buyer, as a refund. Events:
// charge.captured, charge.refunded if there is a rest, payment_intent.succeeded; the session's status changes without one
// of its own.
func (a *act) capture(pi *paymentIntent, amount int64) {
	ch := a.charges.get(pi.LatestCharge.id)
	ch.Captured, ch.AmountCaptured, ch.BalanceTransaction.id = true, amount, a.cfg.NewID("txn_")
	pi.Status, pi.AmountReceived, pi.AmountCapturable = "succeeded", amount, 0
	if v := a.sessionOf(pi); v != nil {
		v.PaymentStatus = "paid"
	}
	a.emit("charge.captured", ch)
	if rest := ch.Amount - amount; rest > 0 {
		a.newRefund(ch, rest, "succeeded", "", nil)
	}
	a.emit("payment_intent.succeeded", pi)
}
