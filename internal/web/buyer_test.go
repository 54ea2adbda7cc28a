package web_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"paidonce/internal/stripesim"
	"paidonce/webhooks"
)

// What a buyer does, what Stripe sends, and what is to be seen of an order afterwards.

// again asks for another checkout of an order.
func (s shop) again(t *testing.T, order created, headers ...string) answer {
	t.Helper()
	headers = append([]string{"Authorization", "Bearer " + order.Token}, headers...)
	return do(t, http.MethodPost, s.url+"/orders/"+order.ID.String()+"/checkout", "", headers...)
}

// bring records events as the webhook would, and drains them.
func (s shop) bring(t *testing.T, bodies ...[]byte) {
	t.Helper()
	stripe := &webhooks.Stripe{Secrets: []string{"whsec_test"}}
	for _, body := range bodies {
		now := time.Now()
		envelope, err := stripe.Verify(http.Header{"Stripe-Signature": {stripesim.Sign(body, now, "whsec_test")}}, body, now)
		must(t, err)
		_, err = s.inbox.Record(t.Context(), envelope, webhooks.SourceWebhook, body)
		must(t, err)
	}
	_, err := s.drainer.Drain(t.Context())
	must(t, err)
}

func (s shop) bringEvents(t *testing.T, events []stripesim.Event) {
	t.Helper()
	for _, e := range events {
		s.bring(t, e.Body)
	}
}

// session is the id of an order's n-th checkout, from 0.
func (s shop) session(t *testing.T, order created, n int) string {
	t.Helper()
	return query[string](t, s, `SELECT resource_id FROM payments WHERE order_id = $1 ORDER BY created_at, id OFFSET $2 LIMIT 1`, order.ID, n)
}

// payments are the statuses of an order's payments, oldest first.
func (s shop) payments(t *testing.T, order created) string {
	t.Helper()
	return query[string](t, s, `SELECT string_agg(status, ' ' ORDER BY created_at, id) FROM payments WHERE order_id = $1`, order.ID)
}

func (s shop) state(t *testing.T, order created) string {
	t.Helper()
	return query[string](t, s, `SELECT state FROM orders WHERE id = $1`, order.ID)
}

func (s shop) history(t *testing.T, order created) string {
	t.Helper()
	return query[string](t, s, `SELECT coalesce(string_agg(event, ' ' ORDER BY id), '') FROM order_transitions WHERE order_id = $1`, order.ID)
}

// completed is the event that a session was paid, whenever it comes.
func completed(session string, minor int64) []byte {
	return fmt.Appendf(nil, `{"id":"evt_late_%[1]s","object":"event","type":"checkout.session.completed","created":1740830400,"livemode":false,
"data":{"object":{"id":%[1]q,"object":"checkout.session","status":"complete","payment_status":"paid","payment_intent":"pi_of_%[1]s",
"amount_total":%[2]d,"currency":"usd","created":1740830400}}}`, session, minor)
}
