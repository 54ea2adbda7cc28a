package fulfillment

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"paidonce/internal/money"
	"paidonce/internal/provider"
	"paidonce/orders"
	"paidonce/webhooks"
)

// AttentionKind is a kind of thing that a person has to look at.
type AttentionKind string

// The kinds. docs/operations.md says of each what it means and what settles it.
const (
	AttentionReview       AttentionKind = "review"        // money is here, and somebody has to decide
	AttentionSurplus      AttentionKind = "surplus"       // a payment that pays for nothing
	AttentionRefundFailed AttentionKind = "refund_failed" // money that was to go back is here again
	AttentionDispute      AttentionKind = "dispute"       // the bank wants evidence, by a date
	AttentionDelivery     AttentionKind = "dead_delivery" // an event that could not be applied
	AttentionJob          AttentionKind = "dead_job"      // a step that nobody will try again
	AttentionCall         AttentionKind = "call_failed"   // the provider refused
	AttentionCallUnknown  AttentionKind = "call_unknown"  // nobody knows whether the provider did it, and nobody asks
	AttentionCallStuck    AttentionKind = "call_stuck"    // written down or begun, and nobody is at it
	AttentionMailUnknown  AttentionKind = "mail_unknown"  // it may or may not have gone out
	AttentionMailParked   AttentionKind = "mail_parked"   // it cannot go out as it is
)

// Attention is one thing about an order that a person has to look at. It is computed from
// what is so now: once that is settled it is gone, and nobody has to tick it off.
type Attention struct {
	Kind    AttentionKind `json:"kind"`
	Subject string        `json:"subject"` // what it is about: an id that a command takes
	Detail  string        `json:"detail"`
	Since   time.Time     `json:"since"`
}

// stuckAfter is how long a call may be without anybody at it before that is worth a look: by
// then its lease has lapsed, its job was rescued (90 s, looked for every 30 s) and has waited
// for its turn.
const stuckAfter = 5 * time.Minute

// Attention is what a person has to look at about an order, the oldest first; empty if all is
// well or will be by itself.
func (s *Service) Attention(ctx context.Context, orderID uuid.UUID) ([]Attention, error) {
	view, err := s.Orders.Get(ctx, orderID)
	if err != nil {
		return nil, err
	}
	return s.AttentionOf(ctx, view)
}

// AttentionOf is Attention for an order that has been read.
func (s *Service) AttentionOf(ctx context.Context, view orders.View) ([]Attention, error) {
	found := attentionToMoney(view)
	dead, _, err := s.Inbox.List(ctx, webhooks.Filter{OrderID: view.Order.ID, Outcomes: []webhooks.Outcome{webhooks.OutcomeDead}})
	if err != nil {
		return nil, err
	}
	for _, d := range dead {
		found = append(found, Attention{
			Kind: AttentionDelivery, Subject: d.Key().String(), Detail: d.EventType + ": " + why(d.Detail, d.LastError), Since: *d.ProcessedAt,
		})
	}
	effects, err := s.attentionToEffects(ctx, view.Order.ID)
	if err != nil {
		return nil, err
	}
	found = append(found, effects...)
	slices.SortStableFunc(found, func(a, b Attention) int { return a.Since.Compare(b.Since) })
	return found, nil
}

// why is the first that says something.
func why(texts ...*string) string {
	for _, text := range texts {
		if text != nil && *text != "" {
			return *text
		}
	}
	return "no reason was recorded"
}

// attentionToMoney is what the order and its payments say themselves.
func attentionToMoney(view orders.View) []Attention {
	found := []Attention{}
	if view.Order.State == orders.Review && view.Order.ReviewReason != nil {
		since := view.Order.UpdatedAt
		for _, t := range view.Transitions {
			if t.ToState == orders.Review {
				since = t.At // the last one
			}
		}
		found = append(found, Attention{
			Kind: AttentionReview, Subject: view.Order.ID.String(), Detail: string(*view.Order.ReviewReason), Since: since,
		})
	}
	for _, p := range view.Surplus() {
		left := money.Amount{Minor: p.LeftMinor(), Currency: money.Currency(*p.ReceivedCurrency)}
		if left.Minor == 0 {
			continue // nothing was charged
		}
		found = append(found, Attention{
			Kind: AttentionSurplus, Subject: *p.ResourceID, Detail: left.String() + " that pay for nothing", Since: p.UpdatedAt,
		})
	}
	for i, r := range view.Refunds {
		if provider.RefundCounts(r.Status) || slices.ContainsFunc(view.Refunds[i+1:], func(later orders.PaymentRefund) bool {
			return later.PaymentID == r.PaymentID && provider.RefundCounts(later.Status)
		}) {
			continue
		}
		amount := money.Amount{Minor: r.AmountMinor, Currency: r.Currency}
		found = append(found, Attention{
			Kind: AttentionRefundFailed, Subject: r.RefundID, Detail: "the refund of " + amount.String() + " is " + r.Status, Since: r.UpdatedAt,
		})
	}
	return append(found, attentionToDisputes(view)...)
}

// attentionToDisputes is what is lost if nobody answers.
func attentionToDisputes(view orders.View) (found []Attention) {
	for _, d := range view.Disputes {
		if !d.WaitsForUs() {
			continue
		}
		amount := money.Amount{Minor: d.AmountMinor, Currency: d.Currency}
		detail := amount.String() + " (" + d.Reason + ") wants evidence"
		if d.DueAt != nil {
			detail += " by " + d.DueAt.UTC().Format(time.DateOnly)
		}
		found = append(found, Attention{Kind: AttentionDispute, Subject: d.DisputeID, Detail: detail, Since: d.CreatedAt})
	}
	return found
}

// attentionToEffects is what was to be done about the order and is not, and will not be by
// itself: its jobs, its calls at the provider, its mails.
//
// A dead job or a failed call stays in its table for ever; what it was to do may have been
// done since, or be of no use any more. So each is asked for by what is missing:
//
//	a checkout's call     while the order is not paid, and nobody opened another
//	the call to end one   while the checkout is open
//	a refund's call       unless it was not wanted any more, or a later refund of that payment is on its way
//	any other call        until it is sent
//	fulfill_order         while the order is paid and has no licenses
//	read_payment          until a later read has answered
//	send_receipt          until the mail has gone out
//	any other job         until it is tried again
func (s *Service) attentionToEffects(ctx context.Context, orderID uuid.UUID) ([]Attention, error) {
	const effects = `
WITH calls AS (
    SELECT c.*, p.status AS payment_status, p.created_at AS payment_made, d.payment_id AS decided_payment, d.decided_at
    FROM provider_calls c
    LEFT JOIN payments p ON p.id = c.subject_id
    LEFT JOIN order_decisions d ON d.id = c.subject_id
    WHERE c.` + callsAbout + ` AND c.state <> 'sent'
), jobs AS (
    SELECT j.* FROM river_job j WHERE ` + jobsAbout + `
), wanting AS (
    SELECT c.*, EXISTS (SELECT FROM jobs j WHERE j.args->>'idempotency_key' = c.idempotency_key AND j.finalized_at IS NULL) AS attended
    FROM calls c, orders o
    WHERE o.id = @order_id AND CASE c.operation
        WHEN 'checkout' THEN o.state IN ('pending', 'failed', 'expired')
            AND NOT EXISTS (SELECT FROM payments later WHERE later.order_id = @order_id AND later.created_at > c.payment_made)
        WHEN 'expire' THEN c.payment_status = 'open'
        WHEN 'refund' THEN NOT (c.state = 'failed' AND coalesce(c.last_error, '') LIKE '%' || @not_wanted || '%')
            AND NOT EXISTS (
                SELECT FROM order_decisions later JOIN provider_calls l ON l.subject_id = later.id
                WHERE later.payment_id = c.decided_payment AND later.decided_at > c.decided_at AND l.state <> 'failed')
        ELSE true END
)
SELECT CASE state WHEN 'failed' THEN 'call_failed' WHEN 'unknown' THEN 'call_unknown' ELSE 'call_stuck' END AS kind,
    idempotency_key AS subject, operation || ': ' || coalesce(last_error, 'nobody is at it') AS detail,
    coalesce(finished_at, last_sent_at, created_at) AS since
FROM wanting
WHERE CASE state WHEN 'failed' THEN NOT attended
                 WHEN 'sending' THEN sending_until < now() - make_interval(secs => @stuck)
                 ELSE NOT attended END
UNION ALL
SELECT 'dead_job', CAST(j.id AS text), j.kind || ': ' || coalesce(j.errors[array_upper(j.errors, 1)]->>'error', CAST(j.state AS text)), j.finalized_at
FROM jobs j
WHERE j.state IN ('discarded', 'cancelled')
  AND NOT EXISTS (SELECT FROM jobs open WHERE open.kind = j.kind AND open.args = j.args AND open.finalized_at IS NULL)
  AND CASE
      WHEN j.args->>'idempotency_key' IS NOT NULL THEN false -- its call says it better
      WHEN j.kind = 'fulfill_order' THEN EXISTS (SELECT FROM orders WHERE id = @order_id AND state = 'paid')
      WHEN j.kind = 'read_payment' THEN EXISTS (
          SELECT FROM payments p WHERE CAST(p.id AS text) = j.args->>'payment_id' AND p.order_id = @order_id AND p.read_seq < p.read_wanted)
      WHEN j.kind = 'send_receipt' THEN EXISTS (
          SELECT FROM sent_receipts r
          WHERE r.order_id = @order_id AND r.kind = j.args->>'about' AND r.subject_id = j.args->>'subject_id'
            AND (r.state IN ('intended', 'sending') OR r.resend_at IS NOT NULL))
      ELSE true END
UNION ALL
SELECT 'mail_' || state, kind || ' ' || subject_id, kind || ': ' || coalesce(last_error, state), updated_at
FROM sent_receipts WHERE order_id = @order_id AND state IN ('unknown', 'parked') AND resend_at IS NULL -- else it is sent once more by itself
ORDER BY since, subject`
	var found []Attention
	err := s.DB.WithContext(ctx).Raw(effects, map[string]any{
		"order_id": orderID, "stuck": stuckAfter.Seconds(), "not_wanted": provider.ErrNotWanted.Error(),
	}).Scan(&found).Error
	if err != nil {
		return nil, fmt.Errorf("looking for what order %s needs: %w", orderID, err)
	}
	return found, nil
}

// NeedingAttention are orders about which a person has to look at something, the newest first
// and at most limit of them, each with what it is.
func (s *Service) NeedingAttention(ctx context.Context, limit int) ([]OrderAttention, error) {
	candidates, err := s.maybeNeedingAttention(ctx)
	if err != nil {
		return nil, err
	}
	found := []OrderAttention{}
	for _, id := range candidates {
		if limit > 0 && len(found) == limit {
			break
		}
		view, err := s.Orders.Get(ctx, id)
		if err != nil {
			return nil, err
		}
		attention, err := s.AttentionOf(ctx, view)
		if err != nil {
			return nil, err
		}
		if len(attention) > 0 {
			found = append(found, OrderAttention{Order: view.Order, Attention: attention})
		}
	}
	return found, nil
}

// OrderAttention is an order with what a person has to look at about it.
type OrderAttention struct {
	Order     orders.Order
	Attention []Attention
}

// maybeNeedingAttention are the orders that could need attention, in a few statements however
// many orders there are: what is really so is asked of each of them. A dead delivery names its
// order by anything in quotes in its body that is an id we know.
func (s *Service) maybeNeedingAttention(ctx context.Context) ([]uuid.UUID, error) {
	const candidates = `
WITH stuck_calls AS (
    SELECT subject_id FROM provider_calls
    WHERE state IN ('failed', 'unknown') OR (state IN ('intended', 'sending') AND created_at < now() - make_interval(secs => @stuck))
), dead_jobs AS (
    SELECT args FROM river_job WHERE state IN ('discarded', 'cancelled') AND jsonb_typeof(args) = 'object'
), names AS (
    SELECT DISTINCT d.provider, (regexp_matches(encode(d.body, 'escape'), '"([A-Za-z0-9_.:-]{3,255})"', 'g'))[1] AS name
    FROM webhook_deliveries d WHERE d.outcome = 'dead'
)
SELECT o.id FROM orders o WHERE o.id IN (
    SELECT id FROM orders WHERE state = 'review'
    UNION SELECT order_id FROM sent_receipts WHERE state IN ('unknown', 'parked')
    UNION SELECT subject_id FROM stuck_calls
    UNION SELECT order_id FROM payments WHERE id IN (SELECT subject_id FROM stuck_calls)
    UNION SELECT order_id FROM order_decisions WHERE id IN (SELECT subject_id FROM stuck_calls)
    UNION SELECT CAST(args->>'order_id' AS uuid) FROM dead_jobs WHERE args->>'order_id' ~* @an_id
    UNION SELECT order_id FROM payments WHERE id IN (SELECT CAST(args->>'payment_id' AS uuid) FROM dead_jobs WHERE args->>'payment_id' ~* @an_id)
    UNION SELECT p.order_id FROM refunds r JOIN payments p ON p.id = r.payment_id WHERE r.status IN ('failed', 'canceled')
    UNION SELECT p.order_id FROM disputes d JOIN payments p ON p.id = d.payment_id WHERE d.status LIKE '%needs_response'
    UNION SELECT order_id FROM payments WHERE status = 'succeeded'
        GROUP BY order_id HAVING count(*) > 1 AND bool_or(refunded_minor < received_minor)
    UNION SELECT p.order_id FROM names n
        JOIN payment_resources r ON r.provider = n.provider AND r.resource_id = n.name JOIN payments p ON p.id = r.payment_id
    UNION SELECT CAST(name AS uuid) FROM names WHERE name ~* @an_id
    UNION SELECT order_id FROM payments WHERE id IN (SELECT CAST(name AS uuid) FROM names WHERE name ~* @an_id)
    UNION SELECT p.order_id FROM webhook_deliveries d
        JOIN payment_resources r ON r.provider = d.provider AND r.resource_id = d.resource_id JOIN payments p ON p.id = r.payment_id
        WHERE d.outcome = 'dead'
)
ORDER BY o.number DESC`
	var ids []uuid.UUID
	err := s.DB.WithContext(ctx).Raw(candidates, map[string]any{"stuck": stuckAfter.Seconds(), "an_id": anID}).Scan(&ids).Error
	if err != nil {
		return nil, fmt.Errorf("looking for orders that need attention: %w", err)
	}
	return ids, nil
}
