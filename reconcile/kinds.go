package reconcile

// Kind is a way in which we and the provider, or we and ourselves, disagree.
type Kind string

// The kinds, in the order of their urgency to a person. Healed means: by the run that finds
// it, which counts as drift all the same.
//
//	kind                    what it means                                            healed by
//	webhooks_silent         the provider has events, and none came by webhook        -
//	paid_there              paid at the provider, not here                           recording the session, or a read
//	paid_unrecorded         paid at the provider, by an object that we never         a read that learns it, or not at all
//	                        recorded and that carries our marker
//	paid_here               paid here, not at the provider                           -
//	amount_differs          both paid, another amount                                a read, if that settles it
//	currency_differs        both paid, another currency                              a read, if that settles it
//	refund_missed           a refund is not here as it is there                      a read
//	dispute_missed          a dispute is not here as it is there                     a read
//	status_differs          the checkout is further there than here                  a read
//	checkout_unrecorded     a checkout was opened, and its opening never recorded    performing its call under its key
//	event_missed            an event of ours never arrived                           recording it
//	licenses_missing        paid, and fewer licenses than bought                     -
//	licenses_unpaid         licenses of an order that is not paid (any more)         -
//	licenses_extra          more licenses than bought                                -
//	receipt_missing         fulfilled, and no receipt sent                           -
//	receipts_doubled        two receipts of one order                                -
//	state_drifted           an order is not in the state that its facts call for     -
//	history_differs         an order's transitions do not lead to its state          -
//	delivery_dead           a delivery was given up                                  -
//	delivery_stuck          a delivery has been open, or parked, for too long        -
//	job_dead                a job was given up                                       -
//	effect_unknown          a mail or a call of which nobody knows whether it        -
//	                        happened, or whose sender died
const (
	WebhooksSilent     Kind = "webhooks_silent"
	PaidThere          Kind = "paid_there"
	PaidUnrecorded     Kind = "paid_unrecorded"
	PaidHere           Kind = "paid_here"
	AmountDiffers      Kind = "amount_differs"
	CurrencyDiffers    Kind = "currency_differs"
	RefundMissed       Kind = "refund_missed"
	DisputeMissed      Kind = "dispute_missed"
	StatusDiffers      Kind = "status_differs"
	CheckoutUnrecorded Kind = "checkout_unrecorded"
	EventMissed        Kind = "event_missed"
	LicensesMissing    Kind = "licenses_missing"
	LicensesUnpaid     Kind = "licenses_unpaid"
	LicensesExtra      Kind = "licenses_extra"
	ReceiptMissing     Kind = "receipt_missing"
	ReceiptsDoubled    Kind = "receipts_doubled"
	StateDrifted       Kind = "state_drifted"
	HistoryDiffers     Kind = "history_differs"
	DeliveryDead       Kind = "delivery_dead"
	DeliveryStuck      Kind = "delivery_stuck"
	JobDead            Kind = "job_dead"
	EffectUnknown      Kind = "effect_unknown"
)

// Kinds are all kinds.
func Kinds() []Kind {
	return append(append([]Kind{WebhooksSilent}, thereKinds()...), hereKinds()...)
}

// thereKinds are those that compare us with the provider's objects, in one world.
func thereKinds() []Kind {
	return []Kind{
		PaidThere, PaidUnrecorded, PaidHere, AmountDiffers, CurrencyDiffers, RefundMissed, DisputeMissed, StatusDiffers,
		CheckoutUnrecorded, EventMissed,
	}
}

// hereKinds are those that compare us with ourselves: every run looks at all of it.
func hereKinds() []Kind {
	return []Kind{
		LicensesMissing, LicensesUnpaid, LicensesExtra, ReceiptMissing, ReceiptsDoubled, StateDrifted, HistoryDiffers,
		DeliveryDead, DeliveryStuck, JobDead, EffectUnknown,
	}
}

// ToDo is what a person does about a finding that is still open, in a few words;
// docs/reconcile.md says it at length.
func (k Kind) ToDo() string {
	switch k {
	case WebhooksSilent:
		return "check endpoint URL, secret, whether it is disabled, firewall"
	case PaidThere, RefundMissed, DisputeMissed, StatusDiffers, EventMissed:
		return "see why the read or the delivery failed; run again"
	case PaidUnrecorded:
		return "look at it in Stripe's dashboard: refund it, or fulfill by hand"
	case PaidHere:
		return "compare with Stripe's dashboard: which account, which database?"
	case AmountDiffers, CurrencyDiffers:
		return "compare with Stripe's dashboard: refund or accept"
	case CheckoutUnrecorded:
		return "see last_error of its call in provider_calls"
	case LicensesMissing:
		return "are workers running? paidonce jobs list"
	case LicensesUnpaid:
		return "find out who issued them; revoke"
	case LicensesExtra:
		return "find out who issued them; revoke the extra ones"
	case ReceiptMissing:
		return "is mail configured? paidonce jobs list"
	case ReceiptsDoubled:
		return "tell the buyer; find out who wrote the second row"
	case StateDrifted, HistoryDiffers:
		return "was a row changed by hand? put it right, or restore"
	case DeliveryDead:
		return "mend the cause; paidonce deliveries retry"
	case DeliveryStuck:
		return "are workers running? read last_error"
	case JobDead:
		return "mend the cause; paidonce jobs retry"
	case EffectUnknown:
		return "find out whether it happened; then settle it by hand"
	}
	return "see docs/reconcile.md"
}
