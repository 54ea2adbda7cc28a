package reconcile

import (
	"context"

	"github.com/tidwall/gjson"

	"paidonce/internal/money"
	"paidonce/internal/provider"
	"paidonce/orders"
)

// intents compares every payment intent of the window with its payment: a session may be days
// older than what was paid in it, and what was captured is the intent's to say.
func (r *run) intents(ctx context.Context) error {
	return r.walk(ctx, r.window(provider.ListIntents), func(ctx context.Context, page provider.Page) error {
		return r.settle(ctx, page.Objects, r.compareIntents, r.compareIntents)
	})
}

// compareIntents are the drifts among intents.
func (r *run) compareIntents(ctx context.Context, intents []provider.Object) ([]drift, error) {
	payments, err := r.byResource(ctx, idsOf(intents))
	if err != nil {
		return nil, err
	}
	marked, err := r.byMarker(ctx, markers(intents, payments))
	if err != nil {
		return nil, err
	}
	var drifts []drift
	for _, o := range intents {
		state, err := intentOf(o)
		if err != nil {
			r.counts[countUnreadable]++
			continue
		}
		if k, ok := payments[o.ID]; ok {
			drifts = append(drifts, k.compareIntent(o, state)...)
			continue
		}
		id, _ := marker(o)
		if k, ok := marked[id]; ok {
			drifts = append(drifts, r.unrecordedIntent(k, o, state)...)
			continue
		}
		r.counts[countForeign]++
	}
	return drifts, nil
}

// intentState is what an intent says.
type intentState struct {
	status   orders.Status
	received money.Amount // of a success
}

func intentOf(o provider.Object) (intentState, error) {
	fields := gjson.GetManyBytes(o.Raw, "status", "amount_received", "currency")
	switch fields[0].Str {
	case "succeeded":
		received, err := money.FromStripe(fields[1].Int(), fields[2].Str)
		return intentState{status: orders.StatusSucceeded, received: received}, err
	case "processing":
		return intentState{status: orders.StatusProcessing}, nil
	case "canceled":
		return intentState{status: orders.StatusCanceled}, nil
	}
	return intentState{status: orders.StatusOpen}, nil
}

func (s intentState) theirs() string {
	if s.status == orders.StatusSucceeded {
		return "paid " + s.received.String()
	}
	return string(s.status)
}

// compareIntent compares an intent with the payment that knows it. Another currency is no
// difference here: a buyer may pay in their own, and the session says what that was for.
func (k known) compareIntent(o provider.Object, state intentState) []drift {
	d := drift{object: o, payment: k.ID, remedy: byRead}
	var kind Kind
	switch {
	case state.status == orders.StatusSucceeded:
		kind = k.differs(state.received.Minor, string(state.received.Currency))
		if kind == CurrencyDiffers {
			return nil
		}
	case k.Status == orders.StatusSucceeded:
		kind, d.remedy = PaidHere, byNothing
	case state.status == orders.StatusProcessing && rank(k.Status) < rank(state.status):
		kind = StatusDiffers
	}
	if kind == "" {
		return nil
	}
	d.Finding = k.about(kind, k.checkout(), o, state.theirs(), k.ours())
	return []drift{d}
}

// unrecordedIntent is an intent that nothing recorded, and that names a payment of ours. A read
// of that payment learns it, if it is its session's; else it is money of which nobody knows.
func (r *run) unrecordedIntent(k known, o provider.Object, state intentState) []drift {
	switch {
	case state.status != orders.StatusSucceeded:
		return nil
	case k.ResourceID == nil:
		if !k.CreatedAt.Before(r.Now().Add(-DefaultSettle)) {
			return nil
		}
		f := k.about(CheckoutUnrecorded, k.ID.String(), o, o.ID+": "+state.theirs(), "opening it was never recorded")
		return []drift{{Finding: f, remedy: byCall, object: o, payment: k.ID}}
	}
	f := k.about(PaidUnrecorded, o.ID, o, state.theirs(), "not recorded; its payment is "+k.ours())
	if k.Status != orders.StatusSucceeded {
		f = k.about(PaidThere, k.checkout(), o, state.theirs(), k.ours())
	}
	return []drift{{Finding: f, remedy: byRead, object: o, payment: k.ID}}
}
