package reconcile

import (
	"context"
	"errors"
	"fmt"
	"time"

	"paidonce/internal/provider"
	"paidonce/orders"
)

// sessions compares every checkout session of the window with its payment, and then, page by
// page, looks for payments of ours that are paid and whose session was not among them.
func (r *run) sessions(ctx context.Context) error {
	seen := newSeen(r.options.Since, r.cursor)
	return r.walk(ctx, r.window(provider.ListSessions), func(ctx context.Context, page provider.Page) error {
		if err := r.settle(ctx, page.Objects, r.compareSessions, r.compareSessions); err != nil {
			return err
		}
		seen.add(page.Objects)
		upTo := page.Cursor.Created()
		if !page.More {
			upTo = r.options.Until
		}
		if err := r.notThere(ctx, seen, upTo); err != nil {
			return err
		}
		seen.forget(upTo)
		return nil
	})
}

// compareSessions are the drifts among sessions.
func (r *run) compareSessions(ctx context.Context, sessions []provider.Object) ([]drift, error) {
	payments, err := r.byResource(ctx, idsOf(sessions))
	if err != nil {
		return nil, err
	}
	marked, err := r.byMarker(ctx, markers(sessions, payments))
	if err != nil {
		return nil, err
	}
	var drifts []drift
	for _, o := range sessions {
		state, err := provider.SessionState(o.Raw)
		if err != nil {
			r.counts[countUnreadable]++
			if k, ok := payments[o.ID]; ok { // of ours, it is for a person to read
				drifts = append(drifts, drift{object: o, Finding: k.about(CurrencyDiffers, o.ID, o, "unreadable: "+err.Error(), k.ours())})
			}
			continue
		}
		if k, ok := payments[o.ID]; ok {
			drifts = append(drifts, k.compareSession(o, state)...)
			continue
		}
		id, _ := marker(o)
		k, ok := marked[id]
		if !ok {
			r.counts[countForeign]++
			continue
		}
		drifts = append(drifts, r.unrecorded(k, o, state)...)
	}
	return drifts, nil
}

// compareSession compares a session with the payment that recorded it.
func (k known) compareSession(o provider.Object, state provider.PaymentState) []drift {
	d := drift{object: o, payment: k.ID, remedy: byRead}
	switch {
	case state.Succeeded:
		kind := k.differs(state.ReceivedMinor, state.Currency)
		if kind == "" {
			return nil
		}
		if kind == PaidThere {
			d.remedy = bySession
		}
		d.Finding = k.about(kind, o.ID, o, "paid "+amount(state.ReceivedMinor, state.Currency), k.ours())
	case k.Status == orders.StatusSucceeded:
		d.Finding, d.remedy = k.about(PaidHere, o.ID, o, string(statusOf(state)), k.ours()), byNothing
	case rank(statusOf(state)) > rank(k.Status):
		d.Finding = k.about(StatusDiffers, o.ID, o, string(statusOf(state)), k.ours())
	default:
		return nil
	}
	return []drift{d}
}

// statusOf is a state that is no success, in the words of orders.
func statusOf(s provider.PaymentState) orders.Status {
	switch {
	case s.Expired:
		return orders.StatusExpired
	case s.Canceled:
		return orders.StatusCanceled
	case s.Processing:
		return orders.StatusProcessing
	}
	return orders.StatusOpen
}

// rank is how far a payment is: its status only rises.
func rank(s orders.Status) int {
	switch s {
	case orders.StatusOpen:
		return 0
	case orders.StatusProcessing:
		return 1
	case orders.StatusFailed:
		return 2
	case orders.StatusExpired:
		return 3
	case orders.StatusCanceled:
		return 4
	case orders.StatusSucceeded:
		return 5
	}
	return -1
}

// unrecorded is a session that we did not record, and that names a payment of ours. If that
// payment waits for its session, the call that makes it is performed again, under its key: it
// brings the session back, or finds and adopts it. The marker alone binds nothing.
func (r *run) unrecorded(k known, o provider.Object, state provider.PaymentState) []drift {
	theirs := string(statusOf(state))
	if state.Succeeded {
		theirs = "paid " + amount(state.ReceivedMinor, state.Currency)
	}
	switch {
	case k.ResourceID == nil && k.CreatedAt.Before(r.Now().Add(-DefaultSettle)):
		f := k.about(CheckoutUnrecorded, k.ID.String(), o, o.ID+": "+theirs, "opening it was never recorded")
		return []drift{{Finding: f, remedy: byCall, object: o, payment: k.ID}}
	case k.ResourceID == nil: // it is being opened
		return nil
	case state.Succeeded:
		f := k.about(PaidUnrecorded, o.ID, o, theirs, "its payment has another session: "+*k.ResourceID)
		return []drift{{Finding: f, remedy: byNothing, object: o}}
	}
	r.counts[countForeign]++
	return nil
}

// notThere finds payments of ours that are paid and whose sessions were made in a part of the
// window and not listed there. Each is asked for by itself before it counts.
func (r *run) notThere(ctx context.Context, seen *seen, upTo time.Time) error {
	const paid = `
SELECT p.resource_id AS alias, o.number AS order_number, p.*
FROM payments p JOIN orders o ON o.id = p.order_id
WHERE p.provider = @provider AND p.livemode = @livemode AND p.account = @account AND p.status = 'succeeded'
  AND p.object_created_at >= @from AND p.object_created_at < @to AND p.resource_id NOT IN @seen`
	var rows []known
	err := r.DB.WithContext(ctx).Raw(paid, map[string]any{
		"provider": stripeName, "livemode": r.Stripe.Livemode(), "account": r.Stripe.Account(),
		"from": seen.from, "to": upTo, "seen": seen.list(),
	}).Scan(&rows).Error
	if err != nil {
		return fmt.Errorf("looking for payments that are not there: %w", err)
	}
	for _, k := range rows {
		o, err := r.Lists.Get(ctx, provider.ListSessions, k.Alias)
		if errors.Is(err, provider.ErrNotFound) {
			f := k.about(PaidHere, k.Alias, provider.Object{Created: k.ObjectCreatedAt.UTC()}, "no such session", k.ours())
			f.Action = "nothing"
			if err := r.note(ctx, f); err != nil {
				return err
			}
			continue
		}
		if err != nil {
			return err
		}
		if err := r.settle(ctx, []provider.Object{o}, r.compareSessions, r.compareSessions); err != nil {
			return err
		}
	}
	return nil
}

// seen is which objects of a part of the window were listed: that from the last second which
// may not be whole yet. It holds the ids of a page and of one second.
type seen struct {
	from time.Time
	ids  map[string]time.Time
}

// newSeen begins at the cursor's second. Of a run that is resumed, the earlier ids of that
// second are not known any more; those payments are asked for one by one.
func newSeen(since time.Time, cursor provider.Cursor) *seen {
	s := &seen{from: since, ids: map[string]time.Time{}}
	if at := cursor.Created(); at.After(since) {
		s.from = at
	}
	return s
}

func (s *seen) add(objects []provider.Object) {
	for _, o := range objects {
		s.ids[o.ID] = o.Created
	}
}

// forget drops what was looked at: all before a second.
func (s *seen) forget(upTo time.Time) {
	s.from = upTo
	for id, at := range s.ids {
		if at.Before(upTo) {
			delete(s.ids, id)
		}
	}
}

// list is never empty: SQL has no empty list.
func (s *seen) list() []string {
	ids := []string{""}
	for id := range s.ids {
		ids = append(ids, id)
	}
	return ids
}
