package migrations_test

import (
	"database/sql"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"paidonce/internal/devpg/devpgtest"
)

// seed is one order with a line, a payment, a delivery, a license, a receipt, a call, a refund, a dispute and a decision, all
// valid.
const seed = `
INSERT INTO orders (id, email, locale, currency, total_minor, state, created_at, updated_at)
	VALUES ('00000000-0000-0000-0000-000000000001', 'a@example.com', 'en', 'usd', 1999, 'pending', now(), now());
INSERT INTO order_lines VALUES ('00000000-0000-0000-0000-000000000002', '00000000-0000-0000-0000-000000000001', 1, 'KEY-1', 'Key', 2, 1999);
INSERT INTO payments (id, order_id, provider, resource_id, livemode, account, currency, expected_minor, created_at, updated_at)
	VALUES ('00000000-0000-0000-0000-000000000003', '00000000-0000-0000-0000-000000000001', 'stripe', 'cs_1', false, '', 'usd', 1999, now(), now());
INSERT INTO payment_resources VALUES ('stripe', 'cs_1', '00000000-0000-0000-0000-000000000003', now());
INSERT INTO order_transitions (order_id, event, from_state, to_state, cause_provider, cause_event_id, at)
	VALUES ('00000000-0000-0000-0000-000000000001', 'pay', 'pending', 'paid', 'stripe', 'evt_1', now());
INSERT INTO licenses VALUES ('00000000-0000-0000-0000-000000000004', '00000000-0000-0000-0000-000000000001', '00000000-0000-0000-0000-000000000002',
	1, 'KEY-1', 'key/a.b', 'k1', 'active', now(), now());
INSERT INTO sent_receipts (order_id, kind, subject_id, idempotency_key, state, created_at, updated_at)
	VALUES ('00000000-0000-0000-0000-000000000001', 'receipt', 'o', 'receipt:o', 'intended', now(), now());
INSERT INTO provider_calls (idempotency_key, provider, livemode, account, operation, subject_id, path, params, created_at)
	VALUES ('checkout:1', 'stripe', false, '', 'checkout', '00000000-0000-0000-0000-000000000003', '/v1/x', '', now());
INSERT INTO webhook_deliveries (provider, event_id, event_type, resource_id, livemode, account, api_version, received_at, source, body, opened_at, next_attempt_at)
	VALUES ('stripe', 'evt_1', 'x', '', false, '', '', now(), 'webhook', '', now(), now());
INSERT INTO refunds VALUES ('stripe', 're_1', '00000000-0000-0000-0000-000000000003', 500, 'usd', 'succeeded', now(), now());
INSERT INTO disputes VALUES ('stripe', 'dp_1', '00000000-0000-0000-0000-000000000003', 1999, 'usd', 'lost', 'fraudulent', NULL, now(), now());
INSERT INTO order_decisions VALUES ('00000000-0000-0000-0000-000000000005', '00000000-0000-0000-0000-000000000001', 'refund',
	'00000000-0000-0000-0000-000000000003', 500, 'usd', false, 'clerk@example.com', 'asked for', now());`

// Each invariant that the database holds is a constraint with a name, and holds against any SQL.
func TestConstraints_RefuseByName(t *testing.T) {
	t.Parallel()
	db := open(t, devpgtest.New(t))
	_, err := db.ExecContext(t.Context(), seed)
	must(t, err)
	for _, c := range []struct{ sql, want string }{
		// I2: one row per event of a provider; an open row is one that has not ended.
		{`INSERT INTO webhook_deliveries SELECT * FROM webhook_deliveries`, "webhook_deliveries_pkey"},
		{`UPDATE webhook_deliveries SET event_id = ''`, "webhook_deliveries_event_id_present"},
		{`UPDATE webhook_deliveries SET source = 'mail'`, "webhook_deliveries_source"},
		{`UPDATE webhook_deliveries SET outcome = 'lost', processed_at = now()`, "webhook_deliveries_outcome"},
		{`UPDATE webhook_deliveries SET outcome = 'applied'`, "webhook_deliveries_open_or_ended"},
		{`UPDATE webhook_deliveries SET outcome = 'parked', processed_at = now()`, "webhook_deliveries_open_or_ended"},
		{`UPDATE webhook_deliveries SET processed_at = now()`, "webhook_deliveries_open_or_ended"},
		{`UPDATE webhook_deliveries SET claim = gen_random_uuid()`, "webhook_deliveries_claim_has_lease"},
		{`UPDATE webhook_deliveries SET attempts = -1`, "webhook_deliveries_attempts_not_negative"},
		{`INSERT INTO delivery_resources VALUES ('stripe', 'pi_1', 'evt_unheard_of')`, "delivery_resources_delivery"},

		// I3: an order is paid once, for ever, and its history is only added to.
		{`INSERT INTO order_transitions (order_id, event, from_state, to_state, cause_provider, cause_event_id, at)
			SELECT order_id, event, from_state, to_state, cause_provider, 'evt_2', at FROM order_transitions`, "order_transitions_paid_once"},
		{`UPDATE order_transitions SET event = 'hold'`, "append-only"},
		{`DELETE FROM order_transitions`, "append-only"},
		{`TRUNCATE order_transitions`, "append-only"},
		{`UPDATE orders SET state = 'happy'`, "orders_state"},
		{`UPDATE orders SET state = 'review'`, "orders_review_has_reason"},
		{`UPDATE orders SET review_reason = 'amount'`, "orders_review_has_reason"},

		// I4, I10: a success has its money, and money is never below nothing.
		{`UPDATE payments SET status = 'succeeded'`, "payments_success_has_amount"},
		{`UPDATE payments SET received_minor = 1, received_currency = 'usd'`, "payments_success_has_amount"},
		{`UPDATE payments SET expected_minor = -1`, "payments_amounts_not_negative"},
		{`UPDATE orders SET total_minor = -1`, "orders_total_not_negative"},
		{`UPDATE orders SET currency = 'USD'`, "orders_currency_lower"},
		{`INSERT INTO payments (id, order_id, provider, resource_id, livemode, account, currency, expected_minor, created_at, updated_at)
			SELECT gen_random_uuid(), order_id, provider, resource_id, livemode, account, currency, expected_minor, now(), now() FROM payments`, "payments_resource_key"},
		{`INSERT INTO payment_resources SELECT provider, resource_id, payment_id, now() FROM payment_resources`, "payment_resources_pkey"},

		// I6: one license per line and ordinal, of a line of its own order.
		{
			`INSERT INTO licenses SELECT gen_random_uuid(), order_id, order_line_id, ordinal, sku, 'key/c.d', key_id, status, issued_at, updated_at FROM licenses`,
			"licenses_line_ordinal_key",
		},
		{`INSERT INTO licenses SELECT gen_random_uuid(), order_id, order_line_id, 2, sku, key, key_id, status, issued_at, updated_at FROM licenses`, "licenses_key_key"},
		{`UPDATE licenses SET order_line_id = gen_random_uuid()`, "licenses_line_of_order"},
		{`UPDATE licenses SET ordinal = 0`, "licenses_ordinal_positive"},

		// I7: one mail per subject, one call per key, and a state says what it needs.
		{`INSERT INTO sent_receipts SELECT * FROM sent_receipts`, "sent_receipts_pkey"},
		{`UPDATE sent_receipts SET state = 'sending'`, "sent_receipts_sending_has_lease"},
		{`UPDATE sent_receipts SET state = 'sent'`, "sent_receipts_sent_has_time"},
		{`UPDATE sent_receipts SET state = 'unknown'`, "sent_receipts_unknown_is_counted"},
		{`UPDATE sent_receipts SET resend_at = now()`, "sent_receipts_resend_is_unknown"},
		{`UPDATE sent_receipts SET key_service = 'x'`, "sent_receipts_key_has_time"},
		{`INSERT INTO provider_calls SELECT * FROM provider_calls`, "provider_calls_pkey"},
		{`UPDATE provider_calls SET state = 'sending'`, "provider_calls_sending_has_lease"},
		{`UPDATE provider_calls SET state = 'sent'`, "provider_calls_sent_has_result"},

		// What went back, once and of a payment that we know; and one decision for each refund.
		{`INSERT INTO refunds SELECT * FROM refunds`, "refunds_pkey"},
		{`UPDATE refunds SET amount_minor = -1`, "refunds_amount_not_negative"},
		{`UPDATE refunds SET payment_id = gen_random_uuid()`, "refunds_payment_id_fkey"},
		{`INSERT INTO disputes SELECT * FROM disputes`, "disputes_pkey"},
		{`UPDATE disputes SET amount_minor = -1`, "disputes_amount_not_negative"},
		{`UPDATE disputes SET payment_id = gen_random_uuid()`, "disputes_payment_id_fkey"},
		{`INSERT INTO order_decisions SELECT * FROM order_decisions`, "order_decisions_pkey"},
		{`UPDATE order_decisions SET order_id = gen_random_uuid()`, "order_decisions_order_id_fkey"},
		{`UPDATE order_decisions SET payment_id = gen_random_uuid()`, "order_decisions_payment_id_fkey"},
		{`UPDATE order_decisions SET action = 'forget'`, "order_decisions_action"},
		{`UPDATE order_decisions SET decided_by = ''`, "order_decisions_has_who_and_why"},
		{`UPDATE order_decisions SET reason = ''`, "order_decisions_has_who_and_why"},
		{`UPDATE order_decisions SET currency = NULL`, "order_decisions_amount_whole"},
		{`UPDATE order_decisions SET action = 'cancel', amount_minor = NULL`, "order_decisions_amount_whole"},
		{`UPDATE order_decisions SET payment_id = NULL`, "order_decisions_refund_has_payment"},
		{`UPDATE order_decisions SET amount_minor = 0`, "order_decisions_refund_has_payment"},
		{`UPDATE order_decisions SET amount_minor = NULL, currency = NULL`, "order_decisions_refund_has_payment"},
	} {
		if got := refusal(t, db, c.sql); got != c.want {
			t.Errorf("%s\ngot %q, want %q", c.sql, got, c.want)
		}
	}
}

// refusal is the name of the constraint that refuses a statement, or what a trigger says.
func refusal(t *testing.T, db *sql.DB, stmt string) string {
	t.Helper()
	tx, err := db.BeginTx(t.Context(), nil)
	must(t, err)
	defer func() { _ = tx.Rollback() }()
	_, err = tx.ExecContext(t.Context(), stmt)
	var pg *pgconn.PgError
	switch {
	case err == nil:
		return ""
	case !errors.As(err, &pg):
		return err.Error()
	case pg.ConstraintName != "":
		return pg.ConstraintName
	case pg.Message == "order_transitions is append-only":
		return "append-only"
	}
	return pg.Message
}

// An alias of a payment has no limit of length, and ids of two providers do not meet.
func TestConstraints_AllowWhatIsHonest(t *testing.T) {
	t.Parallel()
	db := open(t, devpgtest.New(t))
	_, err := db.ExecContext(t.Context(), seed)
	must(t, err)
	for _, sql := range []string{
		`INSERT INTO payment_resources SELECT 'paymos', resource_id, payment_id, now() FROM payment_resources`,
		`INSERT INTO payments (id, order_id, provider, livemode, account, currency, expected_minor, created_at, updated_at)
			SELECT gen_random_uuid(), order_id, provider, livemode, account, currency, expected_minor, now(), now() FROM payments, generate_series(1, 2)`, // two without an id yet
		`UPDATE payments SET status = 'succeeded', received_minor = 0, received_currency = 'usd'`, // a free order
		`UPDATE webhook_deliveries SET outcome = 'parked'`,
		`UPDATE order_decisions SET action = 'cancel', payment_id = NULL, amount_minor = NULL, currency = NULL`,
		`UPDATE order_decisions SET action = 'accept', amount_minor = 0`, // a free order that was canceled
		`INSERT INTO refunds SELECT 'paymos', refund_id, payment_id, amount_minor, currency, 'in a word of its own', created_at, updated_at FROM refunds`,
		`INSERT INTO disputes (provider, dispute_id, payment_id, amount_minor, currency, status, reason, created_at, updated_at) SELECT provider, 'dp_2', payment_id, amount_minor, currency, status, reason, created_at, updated_at FROM disputes`,
		`UPDATE webhook_deliveries SET outcome = 'dead', processed_at = now()`,
		`UPDATE webhook_deliveries SET api_version = repeat('x', 10000), event_type = repeat('y', 10000)`,
	} {
		if got := refusal(t, db, sql); got != "" {
			t.Errorf("%s\nrefused: %s", sql, got)
		}
	}
}
