package reconcile

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"gorm.io/gorm"

	"paidonce/fulfillment"
	"paidonce/internal/provider"
	"paidonce/orders"
	"paidonce/webhooks"
)

// remedy is how a drift may be healed. There is no other way: each of them is a door that
// everything else goes through, so that whoever comes later, or at the same moment, finds it
// done.
type remedy int

const (
	byNothing remedy = iota // a person decides
	byEvent                 // record the event, and drain
	bySession               // record the session as it was read, and drain
	byRead                  // want a read of the payment, and carry it out
	byCall                  // perform the call that was written down
)

// drift is a finding with what may heal it.
type drift struct {
	Finding

	remedy  remedy
	object  provider.Object
	payment uuid.UUID // of byRead and byCall
}

// what is the remedy in words.
func (d drift) what() string {
	switch d.remedy {
	case byEvent:
		return "record the event"
	case bySession:
		return "record the session as it is"
	case byRead:
		return "read the payment"
	case byCall:
		return "perform its call again, under its key"
	case byNothing:
	}
	return ""
}

// compare finds the drifts among objects.
type compare func(ctx context.Context, objects []provider.Object) ([]drift, error)

// settle compares a page, stores what is wrong, heals what can be healed, and compares again
// what was wrong: what is right now is healed.
func (r *run) settle(ctx context.Context, objects []provider.Object, before, after compare) error {
	drifts, err := before(ctx, objects)
	if err != nil || len(drifts) == 0 {
		return err
	}
	for i := range drifts {
		drifts[i].Action = "nothing"
		switch what := drifts[i].what(); {
		case what != "" && r.options.DryRun:
			drifts[i].Action = "would " + what
		case what != "":
			drifts[i].Action = what
		}
		if err := r.note(ctx, drifts[i].Finding); err != nil {
			return err
		}
	}
	if r.options.DryRun {
		return nil
	}
	if err := r.heal(ctx, drifts); err != nil {
		return err
	}
	var again []provider.Object
	for _, d := range drifts {
		if d.object.ID != "" {
			again = append(again, d.object)
		}
	}
	left, err := after(ctx, again)
	if err != nil {
		return err
	}
	still := map[string]bool{}
	for _, d := range left {
		still[d.key()] = true
	}
	for _, d := range drifts {
		if d.remedy != byNothing && !still[d.key()] {
			if err := r.healed(ctx, d.Finding); err != nil {
				return err
			}
		}
	}
	return nil
}

// heal carries the remedies out. What cannot be recorded is an error, since the page has to
// come again; a read or a call that fails has a job behind it.
func (r *run) heal(ctx context.Context, drifts []drift) error {
	var keys []string
	read := map[uuid.UUID]bool{}
	for _, d := range drifts {
		switch d.remedy {
		case byEvent, bySession:
			key, err := r.record(ctx, d)
			if err != nil {
				return err
			}
			keys = append(keys, key)
		case byCall:
			r.counts[countAdopted]++
			if err := r.Service.OpenCheckout(ctx, provider.CheckoutKey(d.payment)); err != nil {
				r.Log.Warn("reconcile could not perform a call", "payment_id", d.payment, "error", err.Error())
			}
		case byRead, byNothing:
		}
	}
	if err := r.drain(ctx, keys); err != nil {
		return err
	}
	for _, d := range drifts {
		if d.remedy == byRead && !read[d.payment] {
			read[d.payment] = true
			if err := r.read(ctx, d.payment); err != nil {
				return err
			}
		}
	}
	return nil
}

// record stores a delivery by TX1, and returns its key. A session that was recorded before and
// is not drained yet is left to that.
func (r *run) record(ctx context.Context, d drift) (string, error) {
	var e webhooks.Envelope
	body := []byte(d.object.Raw)
	if d.remedy == byEvent {
		var err error
		if e, err = r.Events.Listed(body, r.Stripe.Account()); err != nil {
			return "", fmt.Errorf("reading event %s: %w", d.object.ID, err)
		}
	} else {
		const waiting = `
SELECT event_id FROM webhook_deliveries
WHERE processed_at IS NULL AND provider = ? AND resource_id = ? AND source = ? LIMIT 1`
		var open []string
		if err := r.DB.WithContext(ctx).Raw(waiting, stripeName, d.object.ID, webhooks.SourceReconcile).Scan(&open).Error; err != nil {
			return "", fmt.Errorf("looking for deliveries of %s: %w", d.object.ID, err)
		}
		if len(open) > 0 {
			return open[0], nil
		}
		e, body = r.Events.SessionRead(webhooks.SourceReconcile, r.Stripe.Account(), body, r.Now())
	}
	if _, err := r.Inbox.Record(ctx, e, webhooks.SourceReconcile, body); err != nil {
		return "", err
	}
	r.counts[countRecorded]++
	return e.EventID, nil
}

// drainFor bounds the wait for what was recorded: another drainer may have it, or it may be
// one that fails.
const (
	drainFor  = 20 * time.Second
	drainWait = 20 * time.Millisecond
)

// drain applies what was recorded (TX2), as the drainers of any process do, so that the report
// can tell what is healed. What is not drained in time is somebody else's, later.
func (r *run) drain(ctx context.Context, keys []string) error {
	if len(keys) == 0 {
		return nil
	}
	const open = `
SELECT count(*) FROM webhook_deliveries WHERE provider = ? AND event_id IN ? AND processed_at IS NULL AND outcome IS NULL AND last_error IS NULL`
	timer := time.NewTimer(drainFor)
	defer timer.Stop()
	for {
		taken, err := r.Drainer.Drain(ctx)
		if err != nil {
			return fmt.Errorf("draining: %w", err)
		}
		if taken > 0 {
			continue
		}
		var left int64
		if err := r.DB.WithContext(ctx).Raw(open, stripeName, keys).Row().Scan(&left); err != nil {
			return fmt.Errorf("looking what is drained: %w", err)
		}
		if left == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
			return nil
		case <-time.After(drainWait):
		}
	}
}

// readFor bounds the wait for a read that somebody else is at.
const (
	readFor  = 5 * time.Second
	readWait = 50 * time.Millisecond
)

// read wants a read of a payment, which enqueues its job, and carries it out at once. If that
// fails, the job goes on.
func (r *run) read(ctx context.Context, payment uuid.UUID) error {
	r.counts[countReads]++
	var wish int64
	err := r.DB.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		if err := r.Orders.WantRead(ctx, tx, payment); err != nil {
			return err
		}
		return tx.Raw(`SELECT read_wanted FROM payments WHERE id = ?`, payment).Row().Scan(&wish)
	})
	if err != nil {
		return err
	}
	timer := time.NewTimer(readFor)
	defer timer.Stop()
	for {
		failed := r.Service.ReadPayment(ctx, payment, func(*gorm.DB) error { return nil })
		var p orders.Payment
		if err := r.DB.WithContext(ctx).First(&p, "id = ?", payment).Error; err != nil {
			return fmt.Errorf("reading payment %s back: %w", payment, err)
		}
		if p.ReadSeq >= wish {
			return nil
		}
		if failed != nil && !errors.Is(failed, fulfillment.ErrBeingRead) { // only another reader is waited for
			r.Log.Warn("reconcile could not read a payment; its job goes on", "payment_id", payment, "error", failed.Error())
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
			return nil
		case <-time.After(readWait):
		}
	}
}
