package reconcile

import (
	"context"
	"fmt"
	"slices"

	"github.com/tidwall/gjson"

	"paidonce/internal/money"
	"paidonce/internal/provider"
)

// refunds compares every refund of the window with what was last read of it.
func (r *run) refunds(ctx context.Context) error {
	return r.walk(ctx, r.window(provider.ListRefunds), func(ctx context.Context, page provider.Page) error {
		return r.settle(ctx, page.Objects, r.compareRefunds, r.compareRefunds)
	})
}

// disputes compares every dispute of the window with what was last read of it.
func (r *run) disputes(ctx context.Context) error {
	return r.walk(ctx, r.window(provider.ListDisputes), func(ctx context.Context, page provider.Page) error {
		return r.settle(ctx, page.Objects, r.compareDisputes, r.compareDisputes)
	})
}

func (r *run) compareRefunds(ctx context.Context, refunds []provider.Object) ([]drift, error) {
	const stored = `
SELECT refund_id AS id, status, amount_minor, currency FROM refunds WHERE provider = ? AND refund_id IN ?`
	return r.compareReturns(ctx, RefundMissed, refunds, stored)
}

func (r *run) compareDisputes(ctx context.Context, disputes []provider.Object) ([]drift, error) {
	const stored = `
SELECT dispute_id AS id, status, amount_minor, currency FROM disputes WHERE provider = ? AND dispute_id IN ?`
	return r.compareReturns(ctx, DisputeMissed, disputes, stored)
}

// returned is a refund or a dispute, there or here.
type returned struct {
	ID          string
	Status      string
	AmountMinor int64
	Currency    string
}

func (v returned) String() string { return v.Status + " " + amount(v.AmountMinor, v.Currency) }

// compareReturns are the drifts among objects by which money goes back. They are found by the
// intent or the charge that they name: their own ids are nobody's.
func (r *run) compareReturns(ctx context.Context, kind Kind, objects []provider.Object, stored string) ([]drift, error) {
	if len(objects) == 0 {
		return nil, nil
	}
	var names []string
	for _, o := range objects {
		names = append(names, namedBy(o)...)
	}
	payments, err := r.byResource(ctx, names)
	if err != nil {
		return nil, err
	}
	var rows []returned
	if err := r.DB.WithContext(ctx).Raw(stored, stripeName, idsOf(objects)).Scan(&rows).Error; err != nil {
		return nil, fmt.Errorf("reading what went back: %w", err)
	}
	here := map[string]returned{}
	for _, row := range rows {
		here[row.ID] = row
	}
	var drifts []drift
	for _, o := range objects {
		k, ok := firstOf(payments, namedBy(o))
		if !ok {
			r.counts[countForeign]++
			continue
		}
		there, err := returnedOf(o)
		if err != nil {
			r.counts[countUnreadable]++
			continue
		}
		ours, known := here[o.ID]
		if there == ours {
			continue
		}
		if !known && k.mayBeReleased(there) {
			released, err := r.released(ctx, k, o.ID)
			if err != nil {
				return nil, err
			}
			if released {
				continue
			}
		}
		words := "not known"
		if known {
			words = ours.String()
		}
		f := k.about(kind, o.ID, o, there.String(), words)
		drifts = append(drifts, drift{Finding: f, remedy: byRead, object: o, payment: k.ID})
	}
	return drifts, nil
}

// mayBeReleased reports whether a refund may be no money that goes back: Stripe shows what a
// capture for less left of the authorization, which was never received, as a refund.
func (k known) mayBeReleased(v returned) bool {
	return k.IntendedMinor != nil && k.ReceivedMinor != nil && *k.IntendedMinor > *k.ReceivedMinor &&
		v.AmountMinor == *k.IntendedMinor-*k.ReceivedMinor
}

// released reports whether it is that: a refund of the same amount may have been made besides,
// and only the whole list tells the two apart, as a read does.
func (r *run) released(ctx context.Context, k known, refundID string) (bool, error) {
	state, err := r.Stripe.ReadPayment(ctx, *k.ResourceID)
	if err != nil {
		return false, fmt.Errorf("telling a refund from what was released: %w", err)
	}
	return !slices.ContainsFunc(state.Returns.Refunds, func(v provider.Refund) bool { return v.ID == refundID }), nil
}

func namedBy(o provider.Object) []string {
	var ids []string
	for _, v := range gjson.GetManyBytes(o.Raw, "payment_intent", "charge") {
		if v.Type == gjson.String && v.Str != "" {
			ids = append(ids, v.Str)
		}
	}
	return ids
}

func firstOf(payments map[string]known, ids []string) (known, bool) {
	for _, id := range ids {
		if k, ok := payments[id]; ok {
			return k, true
		}
	}
	return known{}, false
}

func returnedOf(o provider.Object) (returned, error) {
	fields := gjson.GetManyBytes(o.Raw, "status", "amount", "currency")
	a, err := money.FromStripe(fields[1].Int(), fields[2].Str)
	return returned{ID: o.ID, Status: fields[0].Str, AmountMinor: a.Minor, Currency: string(a.Currency)}, err
}
