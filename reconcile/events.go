package reconcile

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"paidonce/internal/provider"
	"paidonce/webhooks"
)

// events has every event that is listed at the provider and missing here recorded, oldest
// first. Only the last 30 days are listed: what is earlier is left to the objects (B46).
//
// More types than one listing takes are walked through one group after the other; the cursor
// begins with the group's number.
func (r *run) events(ctx context.Context) error {
	groups := slices.Collect(slices.Chunk(webhooks.StripeEventTypes(), provider.MaxTypes))
	from, rest, _ := strings.Cut(string(r.cursor), "/")
	first, err := strconv.Atoi(from)
	if err != nil {
		first = 0 // at the beginning
	}
	r.cursor = provider.Cursor(rest)
	for group := first; group < len(groups); group++ {
		w := r.window(provider.ListEvents)
		w.Types = groups[group]
		if earliest := r.earliestEvent(); w.Since.Before(earliest) {
			w.Since = earliest
		}
		if err := r.eventsOf(ctx, group, w); err != nil {
			return err
		}
		r.cursor = ""
	}
	return nil
}

func (r *run) eventsOf(ctx context.Context, group int, w provider.Walk) error {
	for {
		page, err := r.Lists.Next(ctx, w, r.cursor)
		if err != nil {
			return err
		}
		if err := r.settle(ctx, page.Objects, r.missedEvents, r.openEvents); err != nil {
			return err
		}
		r.counts[string(StageEvents)] += int64(len(page.Objects))
		r.crash("CW20")
		r.cursor = provider.Cursor(strconv.Itoa(group) + "/" + string(page.Cursor))
		if !page.More {
			r.cursor = provider.Cursor(strconv.Itoa(group+1) + "/")
		}
		err = r.pageDone(ctx, page.Cursor.Created(), page.More)
		r.cursor = page.Cursor
		if err != nil || !page.More {
			return err
		}
	}
}

// missedEvents are the events that are not in the ledger and are about a payment of ours. One
// that is about somebody else's is counted: to record it would only have it wait and be given
// up.
func (r *run) missedEvents(ctx context.Context, events []provider.Object) ([]drift, error) {
	missing, err := r.notInLedger(ctx, events)
	if err != nil || len(missing) == 0 {
		return nil, err
	}
	read := make([]webhooks.Event, len(missing))
	var ids, hints []string
	for i, e := range missing {
		if read[i], err = r.Events.Parse(e.Raw); err != nil {
			continue // names nothing
		}
		ids = append(ids, read[i].Resources...)
		if hint, err := uuid.Parse(read[i].OrderHint); err == nil {
			hints = append(hints, hint.String())
		}
	}
	payments, err := r.byResource(ctx, ids)
	if err != nil {
		return nil, err
	}
	hinted, err := r.ordersOf(ctx, hints)
	if err != nil {
		return nil, err
	}
	var drifts []drift
	for i, e := range missing {
		f := Finding{
			Kind: EventMissed, ResourceID: e.ID, ObjectAt: &e.Created,
			Theirs: typeOf(e) + " of " + e.Created.Format(time.DateTime), Ours: "never arrived",
		}
		if !leadsToUs(&f, read[i], payments, hinted) {
			r.counts[countForeign]++
			continue
		}
		drifts = append(drifts, drift{Finding: f, remedy: byEvent, object: e})
	}
	return drifts, nil
}

// leadsToUs names the order that the event is about. An id of it that is known makes its
// others known too: the events of one payment lie close together, and the first may be the
// only one that names what we recorded.
func leadsToUs(f *Finding, e webhooks.Event, payments map[string]known, hinted map[string]int64) bool {
	for _, id := range e.Resources {
		if k, ok := payments[id]; ok {
			f.OrderID, f.OrderNumber = &k.OrderID, &k.OrderNumber
			for _, also := range e.Resources {
				if _, there := payments[also]; !there {
					payments[also] = k
				}
			}
			return true
		}
	}
	order, err := uuid.Parse(e.OrderHint)
	if err != nil {
		return false
	}
	number, ok := hinted[order.String()]
	f.OrderID, f.OrderNumber = &order, &number
	return ok
}

// notInLedger are those of the events that were never recorded.
func (r *run) notInLedger(ctx context.Context, events []provider.Object) ([]provider.Object, error) {
	if len(events) == 0 {
		return nil, nil
	}
	var there []string
	const ledger = `SELECT event_id FROM webhook_deliveries WHERE provider = ? AND event_id IN ?`
	if err := r.DB.WithContext(ctx).Raw(ledger, stripeName, idsOf(events)).Scan(&there).Error; err != nil {
		return nil, fmt.Errorf("looking for events in the ledger: %w", err)
	}
	var missing []provider.Object
	for _, e := range events {
		if !slices.Contains(there, e.ID) {
			missing = append(missing, e)
		}
	}
	return missing, nil
}

// openEvents are those that were recorded and are not finished: not healed.
func (r *run) openEvents(ctx context.Context, events []provider.Object) ([]drift, error) {
	if len(events) == 0 {
		return nil, nil
	}
	var done []string
	const finished = `
SELECT event_id FROM webhook_deliveries
WHERE provider = ? AND event_id IN ? AND processed_at IS NOT NULL AND outcome <> 'dead'`
	if err := r.DB.WithContext(ctx).Raw(finished, stripeName, idsOf(events)).Scan(&done).Error; err != nil {
		return nil, fmt.Errorf("looking what became of events: %w", err)
	}
	var open []drift
	for _, e := range events {
		if !slices.Contains(done, e.ID) {
			open = append(open, drift{Finding: Finding{Kind: EventMissed, ResourceID: e.ID}})
		}
	}
	return open, nil
}

// ordersOf are the numbers of those of the orders that are ours.
func (r *run) ordersOf(ctx context.Context, ids []string) (map[string]int64, error) {
	numbers := map[string]int64{}
	if len(ids) == 0 {
		return numbers, nil
	}
	var rows []struct {
		ID     string
		Number int64
	}
	// The order has to be of this world: another mode's events are never about it.
	const ours = `
SELECT o.id::text AS id, o.number FROM orders o
WHERE o.id IN @ids AND EXISTS (
    SELECT FROM payments p WHERE p.order_id = o.id AND p.livemode = @livemode AND p.account = @account)`
	err := r.DB.WithContext(ctx).Raw(ours, map[string]any{
		"ids": ids, "livemode": r.Stripe.Livemode(), "account": r.Stripe.Account(),
	}).Scan(&rows).Error
	if err != nil {
		return nil, fmt.Errorf("looking for orders: %w", err)
	}
	for _, row := range rows {
		numbers[row.ID] = row.Number
	}
	return numbers, nil
}
