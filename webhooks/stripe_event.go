package webhooks

import (
	"fmt"
	"strings"

	"github.com/stripe/stripe-go/v79"
	"github.com/tidwall/gjson"

	"paidonce/internal/database"
	"paidonce/internal/provider"
)

// Parse implements Provider. It reads leniently: a field that another API version has
// renamed or reshaped makes the event a hint, never an error, and money is read from the
// digits as they stand.
//
// Which field of which event is evidence of what:
//
//	checkout.session.completed                 payment_status paid | no_payment_required: amount_total received
//	                                           payment_status unpaid: processing
//	checkout.session.async_payment_succeeded   amount_total received
//	checkout.session.async_payment_failed      failed
//	checkout.session.expired                   expired
//	checkout.session.read                      our own, of a session read: complete and paid as completed;
//	                                           open nothing; anything else a hint
//	payment_intent.succeeded                   amount_received received, amount intended
//	payment_intent.processing                  processing
//	payment_intent.payment_failed              nothing: the buyer may try another card
//	payment_intent.canceled                    canceled
//	payment_intent.amount_capturable_updated   nothing: authorized is not received
//	payment_intent.partially_funded            nothing: a part is not the whole
//	charge.succeeded                           captured: amount_captured received, amount intended
//	                                           not captured: nothing; authorized is not received
//	charge.captured                            likewise
//	charge.refunded                            a hint: what it says may have failed, or be more, by now
//	charge.refund.updated                      a hint: the family until 2024-10-28
//	refund.created                             a hint, with the next two: the family since
//	refund.updated                             a hint
//	refund.failed                              a hint; unknown to the pinned version, and sent by newer ones
//	charge.dispute.created                     a hint: it may be over by now
//	charge.dispute.updated                     a hint
//	charge.dispute.closed                      a hint: a dispute that was lost can still be won
//	charge.dispute.funds_withdrawn             a hint
//	charge.dispute.funds_reinstated            a hint
//
// A hint names the payment, and has it read. docs/events.md says why nothing else of it counts.
//
// Facts: https://docs.stripe.com/api/events/types, https://docs.stripe.com/checkout/fulfillment,
// https://docs.stripe.com/changelog/acacia/2024-10-28/refund-webhook-update.
func (s *Stripe) Parse(body []byte) (Event, error) {
	root := gjson.ParseBytes(body)
	if kind := root.Get("object").Str; kind != "" && kind != "event" {
		return Event{}, fmt.Errorf("%w: object %q", ErrUnsupported, database.Text(kind))
	}
	object := root.Get("data.object")
	if !object.IsObject() {
		return Event{}, fmt.Errorf("%w: the event carries no object", ErrUnsupported)
	}

	event := Event{Handled: true, OrderHint: text(object.Get("metadata." + provider.OrderMarker))}
	switch kind := root.Get("type").Str; {
	case strings.HasPrefix(kind, "checkout.session."):
		readSession(&event, kind, object)
	case strings.HasPrefix(kind, "payment_intent."):
		readIntent(&event, kind, object)
	case kind == "charge.succeeded", kind == "charge.captured":
		readCharge(&event, object)
	case kind == "charge.refunded":
		event.Resources, event.Hint = ids(object, "id", "payment_intent", "invoice"), true
	case kind == "charge.refund.updated", strings.HasPrefix(kind, "refund."), strings.HasPrefix(kind, "charge.dispute."):
		event.Resources, event.Hint = ids(object, "payment_intent", "charge"), true // its own id names no payment
	default:
		event.Handled = false
	}
	return event, nil
}

// StripeEventTypes are the event types that Parse reads, and so those that an endpoint has to
// be sent. Each is a constant of the pinned library: a type that its API version does not know
// would be refused when the endpoint is made.
func StripeEventTypes() []string {
	types := []stripe.EventType{
		stripe.EventTypeCheckoutSessionCompleted,
		stripe.EventTypeCheckoutSessionAsyncPaymentSucceeded,
		stripe.EventTypeCheckoutSessionAsyncPaymentFailed,
		stripe.EventTypeCheckoutSessionExpired,
		stripe.EventTypePaymentIntentSucceeded,
		stripe.EventTypePaymentIntentProcessing,
		stripe.EventTypePaymentIntentPaymentFailed,
		stripe.EventTypePaymentIntentCanceled,
		stripe.EventTypePaymentIntentAmountCapturableUpdated,
		stripe.EventTypePaymentIntentPartiallyFunded,
		stripe.EventTypeChargeSucceeded,
		stripe.EventTypeChargeCaptured,
		stripe.EventTypeChargeRefunded,
		stripe.EventTypeChargeRefundUpdated,
		stripe.EventTypeRefundCreated,
		stripe.EventTypeRefundUpdated,
		stripe.EventTypeChargeDisputeCreated,
		stripe.EventTypeChargeDisputeUpdated,
		stripe.EventTypeChargeDisputeClosed,
		stripe.EventTypeChargeDisputeFundsWithdrawn,
		stripe.EventTypeChargeDisputeFundsReinstated,
	}
	names := make([]string, len(types))
	for i, one := range types {
		names[i] = string(one)
	}
	return names
}

// readSession reads a Checkout Session, the object that a payment is bound to.
func readSession(event *Event, kind string, session gjson.Result) {
	event.Resources = ids(session, "id", "payment_intent", "invoice")
	event.CheckoutCreatedAt = unixSeconds(session.Get("created"))

	switch kind {
	case "checkout.session.completed", "checkout.session.async_payment_succeeded":
		switch session.Get("payment_status").Str {
		case "paid", "no_payment_required":
			event.paid(session)
		case "unpaid":
			event.Status = StatusProcessing
		default:
			event.Hint = true
		}
	case "checkout.session.async_payment_failed":
		event.Status = StatusFailed
	case "checkout.session.expired":
		event.Status = StatusExpired
	case sessionRead:
		readAsItStands(event, session)
	default:
		event.Handled = false
	}
}

// sessionRead is the type of a delivery that Stripe did not send: a session that was read
// for the buyer's return page, or by reconcile.
const sessionRead = "checkout.session.read"

// readAsItStands reads a session that nothing happened to but being read. Only success is
// for ever; whatever else it was at that moment may be over by the time this is applied.
func readAsItStands(event *Event, session gjson.Result) {
	status, payment := session.Get("status").Str, session.Get("payment_status").Str
	switch {
	case status == "complete" && (payment == "paid" || payment == "no_payment_required"):
		event.paid(session)
	case status == "open":
	default:
		event.Hint = true
	}
}

// readIntent reads a PaymentIntent. A declined attempt says nothing about the checkout,
// which stays open for the next card.
func readIntent(event *Event, kind string, intent gjson.Result) {
	event.Resources = ids(intent, "id", "latest_charge", "invoice")

	switch kind {
	case "payment_intent.succeeded":
		event.succeed(intent.Get("amount_received"), intent.Get("amount"), intent.Get("currency"))
	case "payment_intent.processing":
		event.Status = StatusProcessing
	case "payment_intent.canceled":
		event.Status = StatusCanceled
	case "payment_intent.payment_failed", "payment_intent.amount_capturable_updated", "payment_intent.partially_funded":
	default:
		event.Handled = false
	}
}

// readCharge reads a Charge. A charge that is only authorized has captured false.
func readCharge(event *Event, charge gjson.Result) {
	event.Resources = ids(charge, "id", "payment_intent", "invoice")
	if charge.Get("captured").Type == gjson.True {
		event.succeed(charge.Get("amount_captured"), charge.Get("amount"), charge.Get("currency"))
	}
}

// ids collects the object's own id and those of the objects it refers to, each either a
// plain id or, if the sender expanded it, an object with one.
func ids(object gjson.Result, keys ...string) []string {
	var found []string
	for _, key := range keys {
		v := object.Get(key)
		if v.IsObject() {
			v = v.Get("id")
		}
		if v.Type == gjson.String && usableID(v.Str) {
			found = append(found, v.Str)
		}
	}
	return found
}
