package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"paidonce/internal/database"
	"paidonce/internal/provider"
	"paidonce/internal/stripesim"
)

// benchWindow is over how long the orders are spread: inside the window that reconcile looks at
// by default.
const benchWindow = 60 * time.Hour

// benchBatch is how many orders are copied into the database at a time.
const benchBatch = 1000

// benchRows are the rows of some orders, table by table.
type benchRows struct {
	orders, lines, payments, resources, transitions, licenses, receipts, deliveries [][]any
}

// fill makes paid orders at the simulated Stripe, and the rows that the shop would have: of one
// in a hundred, those of an order of which nothing has arrived.
func (w *benchWorld) fill(ctx context.Context, orders int) error {
	start := database.Now().Add(-benchWindow)
	api := w.sim.Handler()
	var rows benchRows
	for n := range orders {
		w.clock.Store(start.Add(benchWindow / time.Duration(orders) * time.Duration(n)).Unix())
		order, payment := uuid.Must(uuid.NewV7()), uuid.Must(uuid.NewV7())
		session, err := benchSession(ctx, api, order, payment)
		if err != nil {
			return err
		}
		paid, err := w.sim.Pay(session, stripesim.PayOptions{Hold: true})
		if err != nil {
			return err
		}
		rows.add(order, payment, paid, w.now().UTC(), n%benchMissedOneIn == 0)
		if len(rows.orders) == benchBatch || n == orders-1 {
			if err := rows.copyInto(ctx, w.db); err != nil {
				return err
			}
			rows = benchRows{}
		}
	}
	w.clock.Store(0)
	return w.db.Gorm.WithContext(ctx).Exec(`ANALYZE`).Error
}

// benchSession asks the simulated Stripe for a session, without a network in between.
func benchSession(ctx context.Context, api http.Handler, order, payment uuid.UUID) (string, error) {
	form := url.Values{
		"mode": {"payment"}, "success_url": {"https://shop.example.com/"}, "client_reference_id": {order.String()},
		"line_items[0][quantity]": {"1"}, "line_items[0][price_data][currency]": {"usd"},
		"line_items[0][price_data][unit_amount]": {"1999"}, "line_items[0][price_data][product_data][name]": {"Key"},
	}
	for _, prefix := range []string{"metadata", "payment_intent_data[metadata]"} {
		form.Set(prefix+"["+provider.OrderMarker+"]", order.String())
		form.Set(prefix+"["+provider.PaymentMarker+"]", payment.String())
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "/v1/checkout/sessions", bytes.NewBufferString(form.Encode()))
	if err != nil {
		return "", err
	}
	request.Header.Set("Authorization", "Bearer sk_test_bench")
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	answer := &benchAnswer{header: http.Header{}}
	api.ServeHTTP(answer, request)
	var made struct{ ID string }
	if err := json.Unmarshal(answer.body.Bytes(), &made); err != nil || made.ID == "" {
		return "", fmt.Errorf("the simulated Stripe made no session: %s", answer.body.Bytes())
	}
	return made.ID, nil
}

// benchAnswer is an http.ResponseWriter that keeps the body.
type benchAnswer struct {
	header http.Header
	body   bytes.Buffer
}

func (a *benchAnswer) Header() http.Header         { return a.header }
func (a *benchAnswer) Write(b []byte) (int, error) { return a.body.Write(b) }
func (a *benchAnswer) WriteHeader(int)             {}

func (r *benchRows) add(order, payment uuid.UUID, paid stripesim.Payment, at time.Time, missed bool) {
	line := uuid.Must(uuid.NewV7())
	r.lines = append(r.lines, []any{line, order, 1, "KEY-1", "Key", 1, 1999})
	r.resources = append(r.resources, []any{"stripe", paid.SessionID, payment, at})
	if missed {
		r.orders = append(r.orders, []any{order, "a@example.com", "en", "usd", 1999, "pending", at, at, nil, nil})
		r.payments = append(r.payments, []any{payment, order, "stripe", paid.SessionID, false, "", "usd", 1999, "open", nil, nil, nil, at, at, at})
		return
	}
	r.orders = append(r.orders, []any{order, "a@example.com", "en", "usd", 1999, "fulfilled", at, at, at, at})
	r.payments = append(r.payments, []any{payment, order, "stripe", paid.SessionID, false, "", "usd", 1999, "succeeded", 1999, "usd", 1999, at, at, at})
	for _, id := range []string{paid.PaymentIntentID, paid.ChargeID} {
		r.resources = append(r.resources, []any{"stripe", id, payment, at})
	}
	r.transitions = append(r.transitions,
		[]any{order, "pay", "pending", "paid", "stripe", "evt", at}, []any{order, "fulfill", "paid", "fulfilled", "job", "fulfill_order", at})
	r.licenses = append(r.licenses, []any{uuid.Must(uuid.NewV7()), order, line, 1, "KEY-1", "key/" + line.String(), "bench", "active", at, at})
	r.receipts = append(r.receipts, []any{order, "receipt", order.String(), "receipt:" + order.String(), "sent", at, at, at})
	for _, e := range paid.Events {
		if e.Type == "payment_intent.created" {
			continue // which no endpoint of ours asks for
		}
		r.deliveries = append(r.deliveries, []any{
			"stripe", e.ID, e.Type, paid.SessionID, false, "", stripesim.APIVersion, e.Created, at, "webhook", e.Body, at, at, at, "applied",
		})
	}
}

func (r *benchRows) copyInto(ctx context.Context, db *database.DB) error {
	for _, t := range []struct {
		name    string
		columns []string
		rows    [][]any
	}{
		{"orders", []string{"id", "email", "locale", "currency", "total_minor", "state", "created_at", "updated_at", "paid_at", "fulfilled_at"}, r.orders},
		{"order_lines", []string{"id", "order_id", "position", "sku", "name", "quantity", "unit_minor"}, r.lines},
		{"payments", []string{
			"id", "order_id", "provider", "resource_id", "livemode", "account", "currency", "expected_minor", "status",
			"received_minor", "received_currency", "intended_minor", "object_created_at", "created_at", "updated_at",
		}, r.payments},
		{"payment_resources", []string{"provider", "resource_id", "payment_id", "learned_at"}, r.resources},
		{"order_transitions", []string{"order_id", "event", "from_state", "to_state", "cause_provider", "cause_event_id", "at"}, r.transitions},
		{"licenses", []string{"id", "order_id", "order_line_id", "ordinal", "sku", "key", "key_id", "status", "issued_at", "updated_at"}, r.licenses},
		{"sent_receipts", []string{"order_id", "kind", "subject_id", "idempotency_key", "state", "created_at", "updated_at", "sent_at"}, r.receipts},
		{"webhook_deliveries", []string{
			"provider", "event_id", "event_type", "resource_id", "livemode", "account", "api_version", "occurred_at", "received_at",
			"source", "body", "opened_at", "next_attempt_at", "processed_at", "outcome",
		}, r.deliveries},
	} {
		if _, err := db.Pool.CopyFrom(ctx, pgx.Identifier{t.name}, t.columns, pgx.CopyFromRows(t.rows)); err != nil {
			return fmt.Errorf("copying into %s: %w", t.name, err)
		}
	}
	return nil
}
