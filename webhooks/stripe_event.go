package webhooks

import (
	"fmt"
	"strings"

	"github.com/tidwall/gjson"

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
//	payment_intent.succeeded                   amount_received received, amount intended
//	payment_intent.processing                  processing
//	payment_intent.payment_failed              nothing: the buyer may try another card
//	payment_intent.canceled                    canceled
//	charge.succeeded                           captured: amount_captured received, amount intended
//	                                           not captured: nothing; authorized is not received
//
// Facts: https://docs.stripe.com/api/events/types, https://docs.stripe.com/checkout/fulfillment.
func (s *Stripe) Parse(body []byte) (Event, error) {
	root := gjson.ParseBytes(body)
	if kind := root.Get("object").Str; kind != "" && kind != "event" {
		return Event{}, fmt.Errorf("%w: object %q", ErrUnsupported, clean(kind))
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
	case kind == "charge.succeeded":
		readCharge(&event, object)
	default:
		event.Handled = false
	}
	return event, nil
}

// readSession reads a Checkout Session, the object that a payment is bound to.
func readSession(event *Event, kind string, session gjson.Result) {
	event.Resources = ids(session, "id", "payment_intent", "invoice")
	event.CheckoutCreatedAt = unixSeconds(session.Get("created"))

	switch kind {
	case "checkout.session.completed", "checkout.session.async_payment_succeeded":
		switch session.Get("payment_status").Str {
		case "paid", "no_payment_required":
			succeed(event, session, "amount_total", "amount_total")
		case "unpaid":
			event.Status = StatusProcessing
		default:
			event.Hint = true
		}
	case "checkout.session.async_payment_failed":
		event.Status = StatusFailed
	case "checkout.session.expired":
		event.Status = StatusExpired
	default:
		event.Handled = false
	}
}

// readIntent reads a PaymentIntent. A declined attempt says nothing about the checkout,
// which stays open for the next card.
func readIntent(event *Event, kind string, intent gjson.Result) {
	event.Resources = ids(intent, "id", "latest_charge", "invoice")

	switch kind {
	case "payment_intent.succeeded":
		succeed(event, intent, "amount_received", "amount")
	case "payment_intent.processing":
		event.Status = StatusProcessing
	case "payment_intent.canceled":
		event.Status = StatusCanceled
	case "payment_intent.payment_failed":
	default:
		event.Handled = false
	}
}

// readCharge reads a Charge. A charge that is only authorized has captured false.
func readCharge(event *Event, charge gjson.Result) {
	event.Resources = ids(charge, "id", "payment_intent", "invoice")
	if charge.Get("captured").Type == gjson.True {
		succeed(event, charge, "amount_captured", "amount")
	}
}

// succeed records a success with the money it states. An event that does not state it in
// whole minor units is a hint to read the payment, and never a payment of zero.
func succeed(event *Event, object gjson.Result, received, intended string) {
	got, ok := minorUnits(object.Get(received))
	asked, ok2 := minorUnits(object.Get(intended))
	currency := strings.ToLower(text(object.Get("currency")))
	if !ok || !ok2 || currency == "" {
		event.Hint = true
		return
	}
	event.Status = StatusSucceeded
	event.ReceivedMinor, event.IntendedMinor, event.Currency = got, asked, currency
}

// minorUnits reads an amount from its digits: no float on the way, so that nothing above
// 2^53 loses digits and 19.99 is not an amount.
func minorUnits(v gjson.Result) (int64, bool) {
	if v.Type != gjson.Number || v.Raw == "" || len(v.Raw) > 18 {
		return 0, false
	}
	var n int64
	for _, c := range []byte(v.Raw) {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	return n, true
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
