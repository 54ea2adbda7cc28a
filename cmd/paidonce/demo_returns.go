package main

import (
	"context"
	"fmt"
	"net/http"

	"paidonce/internal/stripesim"
	"paidonce/orders"
)

// refundFirst pays an order and refunds it at the provider, and has the refund's event arrive
// before the payment's.
func (w *demoWorld) refundFirst(ctx context.Context, say *narrator) (demoOrder, error) {
	order, err := w.order(ctx)
	if err != nil {
		return order, err
	}
	paid, err := w.sim.Pay(order.session, stripesim.PayOptions{Hold: true})
	if err != nil {
		return order, fmt.Errorf("paying: %w", err)
	}
	_, refunded, err := w.sim.Refund(paid.ChargeID, 0, "", stripesim.Held)
	if err != nil {
		return order, fmt.Errorf("refunding: %w", err)
	}
	first := eventOf(refunded, "charge.refunded")
	answer, err := w.post(ctx, first)
	if err != nil {
		return order, err
	}
	err = eventually(ctx, "the refund's event to be looked at", func(ctx context.Context) (bool, error) {
		n, err := w.count(ctx, `SELECT count(*) FROM webhook_deliveries WHERE event_id = ? AND outcome IS NOT NULL`, first.ID)
		return n == 1, err
	})
	if err != nil {
		return order, err
	}
	say.fact("I9", answer == "200 accepted", "charge.refunded, of a payment nobody knows: answered %q, and parked", answer)
	if err := w.settled(ctx, order.ID, orders.Refunded); err != nil {
		return order, err
	}
	early, err := w.effects(ctx, order)
	if err != nil {
		return order, err
	}
	say.fact("I5", early.paid == 1 && early.issued == 0 && early.news == 1,
		"it carries our marker, so Stripe is asked: paid and %s in one step, %d licenses issued, %d mail about the refund", early.state, early.issued, early.news)

	for _, event := range paid.Events {
		if _, err := w.post(ctx, event); err != nil {
			return order, err
		}
	}
	if err := w.settled(ctx, order.ID, orders.Refunded); err != nil {
		return order, err
	}
	after, err := w.effects(ctx, order)
	say.fact("I3", after == early, "the payment's events arrive at last: still %s, nothing more happened", after.state)
	return order, err
}

// lateMoney lets a checkout expire and pays another by bank debit, whose money comes days
// later.
func (w *demoWorld) lateMoney(ctx context.Context, say *narrator) (demoOrder, error) {
	order, err := w.order(ctx)
	if err != nil {
		return order, err
	}
	expired, err := w.sim.Expire(order.session, stripesim.Held)
	if err != nil {
		return order, fmt.Errorf("expiring: %w", err)
	}
	if _, err := w.post(ctx, expired[0]); err != nil {
		return order, err
	}
	if err := w.settled(ctx, order.ID, orders.Expired); err != nil {
		return order, err
	}
	token := http.Header{"Authorization": {"Bearer " + order.Token}}
	if err := w.checkout(ctx, &order, "/orders/"+order.ID.String()+"/checkout", nil, token); err != nil {
		return order, err
	}
	paid, err := w.sim.Pay(order.session, stripesim.PayOptions{Hold: true, Delayed: true})
	if err != nil {
		return order, fmt.Errorf("paying: %w", err)
	}
	if _, err := w.post(ctx, eventOf(paid.Events, "checkout.session.completed")); err != nil {
		return order, err
	}
	if err := w.settled(ctx, order.ID, orders.Confirming); err != nil {
		return order, err
	}
	before, err := w.effects(ctx, order)
	if err != nil {
		return order, err
	}
	say.fact("I4", before.paid == 0 && before.issued == 0, "expired, then another checkout, completed by bank debit: %s, nothing issued; completed is not paid", before.state)

	arrived, err := w.sim.SettleDelayed(order.session, true, stripesim.Held)
	if err != nil {
		return order, fmt.Errorf("settling: %w", err)
	}
	for _, event := range append(arrived, expired...) { // and the first checkout's end once more, now that it is old news
		if _, err := w.post(ctx, event); err != nil {
			return order, err
		}
	}
	if err := w.settled(ctx, order.ID, orders.Fulfilled); err != nil {
		return order, err
	}
	after, err := w.effects(ctx, order)
	say.fact("I5", after.paid == 1 && after.active == 2 && after.receipts == 1,
		"the bank's money comes: %s, %d licenses, %d receipt; the old checkout's expiry changes nothing", after.state, after.active, after.receipts)
	return order, err
}

// disputeWon has the buyer's bank ask for the money of an order, and decide for the merchant.
func (w *demoWorld) disputeWon(ctx context.Context, say *narrator, order demoOrder, paid stripesim.Payment) error {
	id, opened, err := w.sim.OpenDispute(paid.ChargeID, 0, "", stripesim.Held)
	if err != nil {
		return fmt.Errorf("disputing: %w", err)
	}
	for _, event := range append(opened, opened...) {
		if _, err := w.post(ctx, event); err != nil {
			return err
		}
	}
	if err := w.settled(ctx, order.ID, orders.Disputed); err != nil {
		return err
	}
	during, err := w.effects(ctx, order)
	if err != nil {
		return err
	}
	say.fact("I5", during.active == 0 && during.issued == 2 && during.news == 1,
		"a dispute is opened, each event delivered twice: %s, both licenses suspended, %d mail", during.state, during.news)

	closed, err := w.sim.CloseDispute(id, "won", stripesim.Held)
	if err != nil {
		return fmt.Errorf("closing the dispute: %w", err)
	}
	for _, event := range closed {
		if _, err := w.post(ctx, event); err != nil {
			return err
		}
	}
	if err := w.settled(ctx, order.ID, orders.Fulfilled); err != nil {
		return err
	}
	after, err := w.effects(ctx, order)
	say.fact("I6", after.active == 2 && after.issued == 2 && after.paid == 1 && after.receipts == 1 && after.told == 1,
		"it is won: %s, the same %d licenses are active again, still %d receipt, no second paid", after.state, after.active, after.receipts)
	return err
}
