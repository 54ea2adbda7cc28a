package reconcile

// check is a question about our own rows. Each row that it finds is wrong: the resource, its
// order, and what is so. What may just be under way is left out: fifteen minutes for what
// follows a payment, an hour for what is tried again.
type check struct {
	kind  Kind
	query string
}

// checks are all of them.
func checks() []check {
	return []check{
		{LicensesMissing, `
    SELECT o.id::text AS resource, o.id AS order_id,
        o.state || ', ' || issued.count || ' of ' || bought.count || ' licenses' AS ours
    FROM orders o
    CROSS JOIN LATERAL (SELECT coalesce(sum(quantity), 0) AS count FROM order_lines WHERE order_id = o.id) bought
    CROSS JOIN LATERAL (SELECT count(*) AS count FROM licenses WHERE order_id = o.id) issued
    WHERE o.state IN ('paid', 'fulfilled') AND o.updated_at < now() - interval '15 minutes' AND issued.count < bought.count`},

		{LicensesUnpaid, `
    SELECT o.id::text AS resource, o.id AS order_id, o.state || ', ' || count(*) || ' licenses, ' ||
        count(*) FILTER (WHERE l.status = 'active') || ' active' AS ours
    FROM licenses l JOIN orders o ON o.id = l.order_id
    WHERE o.paid_at IS NULL OR (l.status = 'active' AND o.state NOT IN ('paid', 'fulfilled'))
    GROUP BY o.id, o.state`},

		{LicensesExtra, `
    SELECT n.id::text AS resource, n.order_id, l.count || ' licenses for a quantity of ' || n.quantity AS ours
    FROM order_lines n
    JOIN (SELECT order_line_id, count(*), max(ordinal) FROM licenses GROUP BY order_line_id) l ON l.order_line_id = n.id
    WHERE l.count > n.quantity OR l.max > n.quantity`},

		// A receipt that waits for a mail server which is not configured is no fault.
		{ReceiptMissing, `
    SELECT o.id::text AS resource, o.id AS order_id, coalesce('its receipt is ' || s.state, 'no receipt was written down') AS ours
    FROM orders o
    LEFT JOIN sent_receipts s ON s.order_id = o.id AND s.kind = 'receipt'
    WHERE o.state = 'fulfilled' AND o.updated_at < now() - interval '15 minutes'
      AND (s.order_id IS NULL
           OR (s.state = 'intended' AND @mail AND s.updated_at < now() - interval '1 hour')
           OR s.state = 'parked')`},

		{ReceiptsDoubled, `
    SELECT order_id::text AS resource, order_id, count(*) || ' receipts' AS ours
    FROM sent_receipts WHERE kind = 'receipt' GROUP BY order_id HAVING count(*) > 1`},

		{HistoryDiffers, `
    SELECT o.id::text AS resource, o.id AS order_id, CASE
            WHEN t.last IS NULL THEN 'it is ' || o.state || ', and has no transitions'
            WHEN t.last <> o.state THEN 'it is ' || o.state || ', its last transition led to ' || t.last
            WHEN t.broken THEN 'a transition does not begin where the one before it ended'
            ELSE 'paid_at and its pay transition disagree' END AS ours
    FROM orders o
    LEFT JOIN (
        SELECT order_id, (array_agg(to_state ORDER BY id DESC))[1] AS last,
            bool_or(from_state <> coalesce(before, 'pending')) AS broken, bool_or(event = 'pay') AS paid
        FROM (SELECT *, lag(to_state) OVER (PARTITION BY order_id ORDER BY id) AS before FROM order_transitions) chain
        GROUP BY order_id
    ) t ON t.order_id = o.id
    WHERE coalesce(t.last, 'pending') <> o.state OR t.broken OR coalesce(t.paid, false) <> (o.paid_at IS NOT NULL)`},

		{DeliveryDead, `
    SELECT d.event_id AS resource, r.order_id, d.event_type || ': ' || left(coalesce(d.last_error, d.detail, 'given up'), 200) AS ours
    FROM webhook_deliveries d` + orderOfDelivery + `
    WHERE d.outcome = 'dead'`},

		{DeliveryStuck, `
    SELECT d.event_id AS resource, r.order_id, d.event_type || ': ' || coalesce(d.outcome, 'open') || ' since ' ||
        to_char(d.opened_at, 'YYYY-MM-DD HH24:MI:SS') || coalesce(', ' || left(d.last_error, 200), '') AS ours
    FROM webhook_deliveries d` + orderOfDelivery + `
    WHERE d.processed_at IS NULL AND d.opened_at < now() - interval '1 hour'`},

		{JobDead, `
    SELECT j.id::text AS resource, o.id AS order_id, j.kind || ': ' || j.state || ' after ' || j.attempt || ' attempts: ' ||
        left(coalesce(j.errors[array_upper(j.errors, 1)] ->> 'error', 'no error'), 200) AS ours
    FROM river_job j
    CROSS JOIN LATERAL (SELECT coalesce(j.args ->> 'payment_id', j.args ->> 'order_id', split_part(j.args ->> 'idempotency_key', ':', 2)) AS id) about
    LEFT JOIN payments p ON p.id::text = about.id
    LEFT JOIN order_decisions d ON d.id::text = about.id
    LEFT JOIN orders o ON o.id::text = coalesce(p.order_id::text, d.order_id::text, about.id)
    WHERE j.state IN ('discarded', 'cancelled')`},

		{EffectUnknown, `
    SELECT s.idempotency_key AS resource, s.order_id, 'mail ' || s.kind || ': ' || s.state AS ours
    FROM sent_receipts s
    WHERE (s.state = 'unknown' AND (s.resend_at IS NULL OR s.resend_at < now() - interval '1 hour'))
       OR (s.state = 'sending' AND s.sending_until < now() - interval '1 hour')
    UNION ALL
    SELECT c.idempotency_key, coalesce(p.order_id, o.id, d.order_id), 'call: ' || c.state || coalesce(', ' || left(c.last_error, 200), '')
    FROM provider_calls c
    LEFT JOIN payments p ON p.id = c.subject_id
    LEFT JOIN orders o ON o.id = c.subject_id
    LEFT JOIN order_decisions d ON d.id = c.subject_id
    WHERE c.state IN ('unknown', 'sending') AND coalesce(c.last_sent_at, c.created_at) < now() - interval '1 hour'`},
	}
}

// orderOfDelivery finds the order that a delivery's object leads to.
const orderOfDelivery = `
    LEFT JOIN LATERAL (
        SELECT p.order_id FROM payment_resources k JOIN payments p ON p.id = k.payment_id
        WHERE k.provider = d.provider AND k.resource_id = d.resource_id
    ) r ON true`
