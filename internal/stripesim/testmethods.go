package stripesim

import (
	"strings"
	"time"
)

// testMethod is a payment method that behaves in a given way, as Stripe's test cards and accounts do
// (https://docs.stripe.com/testing, https://docs.stripe.com/payments/sepa-debit/accept-a-payment#test-integration).
type testMethod struct {
	name   string // pm_card_<name> and tok_<name>; for bank debits a name of ours
	number string // what a person types: a card number or an IBAN
	label  string // what the pay page calls it
	kind   string // card, sepa_debit or us_bank_account; "" is card
	brand  string // "" is visa

	decline   *decline
	challenge bool          // asks for authentication first
	then      string        // what falls due after a payment, one of the due names
	refund    string        // what falls due after a refund
	wait      time.Duration // before then, beyond Config.Lag
	manual    bool          // stays in processing until SettleDelayed or the page settles it
}

const (
	sepaDebit = "sepa_debit"

	// bankDebit is the delayed method of PayOptions.Delayed.
	//
	// Simplified: one for all currencies; Stripe's takes US dollars only.
	bankDebit = "us_bank_account"
)

func testMethods() []testMethod {
	return []testMethod{
		{name: "visa", number: "4242424242424242", label: "Visa, succeeds"},
		{name: "mastercard", number: "5555555555554444", label: "Mastercard, succeeds", brand: "mastercard"},
		{name: "amex", number: "378282246310005", label: "American Express, succeeds", brand: "amex"},
		{name: "bypassPending", number: "4000000000000077", label: "Visa, balance at once"},
		{name: "chargeDeclined", number: "4000000000000002", label: "Declined", decline: genericDecline()},
		{name: "visa_chargeDeclined", number: "4000000000000002", decline: genericDecline()},
		{
			name: "chargeDeclinedInsufficientFunds", number: "4000000000009995", label: "Declined: insufficient funds",
			decline: declined("insufficient_funds", "Your card has insufficient funds."),
		},
		{
			name: "visa_chargeDeclinedInsufficientFunds", number: "4000000000009995",
			decline: declined("insufficient_funds", "Your card has insufficient funds."),
		},
		{
			name: "visa_chargeDeclinedLostCard", number: "4000000000009987", label: "Declined: lost card",
			decline: declined("lost_card", "Your card has been declined."),
		},
		{
			name: "visa_chargeDeclinedStolenCard", number: "4000000000009979",
			decline: declined("stolen_card", "Your card has been declined."),
		},
		{
			name: "chargeDeclinedExpiredCard", number: "4000000000000069", label: "Declined: expired card",
			decline: cardError("expired_card", "Your card has expired."),
		},
		{
			name: "chargeDeclinedIncorrectCvc", number: "4000000000000127",
			decline: cardError("incorrect_cvc", "Your card's security code is incorrect."),
		},
		{
			name: "chargeDeclinedProcessingError", number: "4000000000000119",
			decline: cardError("processing_error", "An error occurred while processing your card. Try again in a little bit."),
		},
		{name: "authenticationRequired", number: "4000002760003184", label: "Visa, asks for authentication", challenge: true},
		{name: "createDispute", number: "4000000000000259", label: "Visa, disputed afterwards", then: dueDispute},
		{name: "createDisputeInquiry", number: "4000000000001976", label: "Visa, inquiry afterwards", then: dueInquiry},
		{name: "pendingRefund", number: "4000000000007726", label: "Visa, refunds are pending first", refund: dueRefundPasses},
		{name: "refundFail", number: "4000000000005126", label: "Visa, refunds fail afterwards", refund: dueRefundFails},

		{name: "bank", number: "000123456789", label: "Bank debit, settles when told to", kind: bankDebit, manual: true},
		{name: "sepa_succeeds", number: "AT611904300234573201", label: "SEPA debit, succeeds", kind: sepaDebit, then: dueSettles},
		{
			name: "sepa_succeeds_later", number: "AT321904300235473204", label: "SEPA debit, succeeds after 3 minutes",
			kind: sepaDebit, then: dueSettles, wait: 3 * time.Minute,
		},
		{name: "sepa_fails", number: "AT861904300235473202", label: "SEPA debit, fails", kind: sepaDebit, then: dueBounces},
		{name: "sepa_fails_it", number: "IT60X0542811101000000123456", kind: sepaDebit, then: dueBounces},
		{
			name: "sepa_fails_later", number: "AT051904300235473205", label: "SEPA debit, fails after 3 minutes",
			kind: sepaDebit, then: dueBounces, wait: 3 * time.Minute,
		},
	}
}

func (m testMethod) delayed() bool { return m.kind != "" && m.kind != "card" }

// findMethod takes what names one: its name, pm_card_<name>, tok_<name>, or its number with or without spaces.
func findMethod(text string) (testMethod, bool) {
	plain := strings.ReplaceAll(text, " ", "")
	for _, prefix := range []string{"pm_card_", "tok_"} {
		plain = strings.TrimPrefix(plain, prefix)
	}
	for _, m := range testMethods() {
		if plain != "" && (plain == m.name || plain == m.number) {
			return m, true
		}
	}
	return testMethod{}, false
}

// newMethod makes a payment method of m. s.mu is held.
func (s *Sim) newMethod(now time.Time, m testMethod, buyer billingDetails) *paymentMethod {
	v := &paymentMethod{
		ID: s.cfg.NewID("pm_"), Object: "payment_method", AllowRedisplay: "unspecified", BillingDetails: buyer,
		Created: now.Unix(), Livemode: s.cfg.Livemode, Metadata: map[string]string{}, Type: "card", test: m.name,
	}
	switch m.kind {
	case sepaDebit:
		v.Type, v.SepaDebit = sepaDebit, &methodSepa{
			BankCode: "19043", Country: m.number[:2], Fingerprint: "vifs0Ho7vwRn1Miu", Last4: last4(m.number),
		}
	case bankDebit:
		v.Type, v.USBankAccount = bankDebit, &methodBank{
			AccountHolderType: "individual", AccountType: "checking", BankName: "STRIPE TEST BANK",
			Fingerprint: "FFDMA0xfhBjWSZLu", Last4: last4(m.number),
			Networks: bankNetworks{Preferred: "ach", Supported: []string{"ach"}}, RoutingNumber: "110000000",
		}
	default:
		brand := m.brand
		if brand == "" {
			brand = "visa"
		}
		v.Card = &methodCard{
			Brand: brand, Checks: cardChecks{CVCCheck: "pass"}, Country: "US", DisplayBrand: brand, ExpMonth: 12, ExpYear: 2034,
			Fingerprint: "Xt5EWLLDS7FJjR1c", Funding: "credit", Last4: last4(m.number),
			Networks: cardNetworks{Available: []string{brand}}, ThreeDSecureUsage: cardSecure{Supported: true},
		}
	}
	s.methods.add(v.ID, v)
	return v
}

func last4(number string) string { return number[len(number)-4:] }

func (v *paymentMethod) behavior() testMethod {
	m, _ := findMethod(v.test)
	return m
}

// charged is the method as a charge of amount shows it.
func (v *paymentMethod) charged(amount int64, mandate string) methodDetails {
	switch {
	case v.SepaDebit != nil:
		d := v.SepaDebit
		return methodDetails{Type: v.Type, SepaDebit: &sepaDetails{
			BankCode: d.BankCode, BranchCode: d.BranchCode, Country: d.Country, Fingerprint: d.Fingerprint, Last4: d.Last4,
			Mandate: mandate,
		}}
	case v.USBankAccount != nil:
		d := v.USBankAccount
		return methodDetails{Type: v.Type, USBankAccount: &bankDetails{
			AccountHolderType: d.AccountHolderType, AccountType: d.AccountType, BankName: d.BankName, Fingerprint: d.Fingerprint,
			Last4: d.Last4, RoutingNumber: d.RoutingNumber,
		}}
	default:
		c := v.Card
		return methodDetails{Type: v.Type, Card: &cardDetails{
			AmountAuthorized: amount, Brand: c.Brand, Checks: c.Checks, Country: c.Country, ExpMonth: c.ExpMonth,
			ExpYear: c.ExpYear, ExtendedAuthorization: cardStatus{"disabled"}, Fingerprint: c.Fingerprint, Funding: c.Funding,
			IncrementalAuthorization: cardStatus{"unavailable"}, Last4: c.Last4, Multicapture: cardStatus{"unavailable"},
			Network: c.Brand, Overcapture: overcapture{MaximumAmountCapturable: amount, Status: "unavailable"},
		}}
	}
}

// decline is why a try failed.
type decline struct {
	code, declineCode, message, kind, seller, risk string
}

func genericDecline() *decline { return declined("generic_decline", "Your card was declined.") }

func declined(reason, message string) *decline {
	d := cardError("card_declined", message)
	d.declineCode = reason
	return d
}

func cardError(code, message string) *decline {
	return &decline{
		code: code, message: message, kind: "card_error",
		seller: "The bank did not return any further details with this decline.", risk: "normal",
	}
}

func bounced() decline {
	return decline{
		code: "insufficient_funds", message: "The customer's account has insufficient funds to cover this payment.",
		kind: "invalid_request_error", seller: "The customer's bank did not pay.", risk: "not_assessed",
	}
}
