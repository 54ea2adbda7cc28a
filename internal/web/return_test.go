package web_test

import (
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"gorm.io/gorm"

	"paidonce/internal/stripesim"
)

// back is the buyer coming back from a session.
func (s shop) back(t *testing.T, order created, session string, headers ...string) answer {
	t.Helper()
	return do(t, http.MethodGet, s.url+"/orders/"+order.ID.String()+"/return?session_id="+session, "", headers...)
}

// reads counts how often a session was read at Stripe.
func (s shop) reads(session string) int {
	n := 0
	for _, call := range s.sim.Calls() {
		if call.Method == http.MethodGet && strings.HasSuffix(call.Path, session) {
			n++
		}
	}
	return n
}

// draining runs a drainer until the test ends.
func (s shop) draining(t *testing.T) {
	t.Helper()
	wake := make(chan struct{}, 1)
	var running sync.WaitGroup
	running.Go(func() { s.drainer.Run(t.Context(), wake) })
	running.Go(func() {
		for t.Context().Err() == nil {
			select {
			case wake <- struct{}{}:
			default:
			}
			time.Sleep(5 * time.Millisecond)
		}
	})
	t.Cleanup(running.Wait)
}

// The page is enough to be paid: the session is read, recorded like any delivery, and applied
// by the drainer.
func TestReturn_PaysWithoutTheWebhook(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.draining(t)
	order := s.order(t)
	session := s.session(t, order, 0)

	page := s.back(t, order, session)
	if page.Status != http.StatusOK || !strings.Contains(page.Body, "wait for word") || s.state(t, order) != "pending" {
		t.Errorf("before: got %d %s", page.Status, page.Body)
	}
	_, err := s.sim.Pay(session, stripesim.PayOptions{Hold: true})
	must(t, err)
	execute(t, s.dsn, `UPDATE payments SET return_read_at = now() - interval '3 s'`)
	page = s.back(t, order, session)
	if !strings.Contains(page.Body, "Thank you, your order is paid") || s.state(t, order) != "paid" {
		t.Errorf("after: the order is %s; got %s", s.state(t, order), page.Body)
	}
	got := query[string](t, s, `SELECT source || ' ' || event_type || ' ' || outcome || ' ' || resource_id FROM webhook_deliveries WHERE outcome = 'applied'`)
	if got != "return checkout.session.read applied "+session {
		t.Errorf("recorded %s", got)
	}
	id := query[string](t, s, `SELECT event_id FROM webhook_deliveries WHERE outcome = 'applied'`)
	if !regexp.MustCompile(`^return:` + session + `:[0-9a-f-]{36}$`).MatchString(id) {
		t.Errorf("the event is called %s", id)
	}
	if cause := query[string](t, s, `SELECT cause_event_id FROM order_transitions`); cause != id {
		t.Errorf("paid because of %s, want %s", cause, id)
	}
	// The object is in the body byte for byte, and the body is an event around it.
	body := query[[]byte](t, s, `SELECT body FROM webhook_deliveries WHERE outcome = 'applied'`)
	object := do(t, http.MethodGet, s.stripe.URL+"/v1/checkout/sessions/"+session, "", "Authorization", "Bearer sk_test_123").Body
	around, ok := strings.CutSuffix(string(body), `,"data":{"object":`+object+`}}`)
	if event := decode[struct{ ID, Object, Type string }](t, string(body)); !ok || event.ID != id || event.Object != "event" {
		t.Errorf("recorded %s around %s", around, object)
	}

	// Once more: nothing is left to be learned, and nothing is read.
	before := s.reads(session)
	execute(t, s.dsn, `UPDATE payments SET return_read_at = NULL`)
	if page := s.back(t, order, session); !strings.Contains(page.Body, "order is paid") || s.reads(session) != before {
		t.Errorf("%d reads more", s.reads(session)-before)
	}
}

// Twenty pages and the webhook at the same moment: the order is paid once, and the session
// is read once.
func TestReturn_PagesAndWebhookRacing(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.draining(t)
	order := s.order(t)
	session := s.session(t, order, 0)
	paid, err := s.sim.Pay(session, stripesim.PayOptions{Hold: true})
	must(t, err)

	var racing sync.WaitGroup
	barrier := make(chan struct{})
	for range 20 {
		racing.Go(func() {
			<-barrier
			if page := s.back(t, order, session); page.Status != http.StatusOK {
				t.Errorf("got %d %s", page.Status, page.Body)
			}
		})
	}
	racing.Go(func() {
		<-barrier
		s.bringEvents(t, paid.Events)
	})
	close(barrier)
	racing.Wait()
	waitFor(t, func() bool {
		return query[int](t, s, `SELECT count(*) FROM webhook_deliveries WHERE processed_at IS NULL`) == 0
	})
	must(t, s.service.FulfillOrder(t.Context(), order.ID, func(*gorm.DB) error { return nil }))

	if got := s.history(t, order); got != "pay fulfill" {
		t.Errorf("history %s", got)
	}
	for what, want := range map[string]int{
		`SELECT count(*) FROM licenses`:                                   3,
		`SELECT count(*) FROM sent_receipts`:                              1,
		`SELECT count(*) FROM river_job WHERE kind = 'fulfill_order'`:     1,
		`SELECT count(*) FROM webhook_deliveries WHERE source = 'return'`: s.reads(session),
	} {
		if got := query[int](t, s, what); got != want {
			t.Errorf("%s is %d, want %d", what, got, want)
		}
	}
	if s.reads(session) > 1 {
		t.Errorf("%d reads, want one at most", s.reads(session))
	}
}

// The page tells how the order stands, and nothing that opens anything.
func TestReturn_TellsTheState(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	order := s.order(t)
	session := s.session(t, order, 0)
	s.pay(t, order, stripesim.PayOptions{})
	must(t, s.service.FulfillOrder(t.Context(), order.ID, func(*gorm.DB) error { return nil }))
	key := query[string](t, s, `SELECT key FROM licenses LIMIT 1`)
	for state, text := range map[string]string{
		"pending": "wait for word", "confirming": "being confirmed", "paid": "order is paid", "fulfilled": "order is paid",
		"review": "look at it", "failed": "not paid", "expired": "not paid", "canceled": "not paid",
		"refunded": "was refunded", "disputed": "disputed", "charged_back": "was refunded",
	} {
		execute(t, s.dsn, `UPDATE orders SET state = '`+state+`', review_reason = CASE WHEN '`+state+`' = 'review' THEN 'amount' END`)
		page := s.back(t, order, session, "Accept", "text/html,application/xhtml+xml,*/*;q=0.8")
		if page.Status != http.StatusOK || !strings.Contains(page.Body, text) || !strings.HasPrefix(page.Header.Get("Content-Type"), "text/html") {
			t.Errorf("%s: got %d %s", state, page.Status, page.Body)
		}
		for _, secret := range []string{order.Token, key, "a@example.com", session} {
			if strings.Contains(page.Body, secret) {
				t.Errorf("%s: the page shows %s", state, secret)
			}
		}
		if got := s.back(t, order, session, "Accept", "application/json"); got.Body != `{"state":"`+state+`"}` {
			t.Errorf("%s: as JSON %s", state, got.Body)
		}
		if page.Header.Get("Cache-Control") != "no-store" || page.Header.Get("Referrer-Policy") != "no-referrer" || page.Header.Get("Content-Security-Policy") == "" {
			t.Errorf("%s: headers %v", state, page.Header)
		}
	}
	if s.reads(session) != 0 {
		t.Errorf("%d reads of a payment that has succeeded", s.reads(session))
	}
}

// A session that is not the order's is not read, and nothing is told.
func TestReturn_ForeignSessions(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	order, other := s.order(t), s.order(t)
	_, err := s.sim.Pay(s.session(t, other, 0), stripesim.PayOptions{Hold: true})
	must(t, err)
	execute(t, s.dsn, `UPDATE orders SET state = 'fulfilled'`)
	for _, session := range []string{"", "cs_test_unheard_of", s.session(t, other, 0), "%00", "%ff", "..%2F..%2Fv1%2Frefunds", strings.Repeat("x", 300), "<script>"} {
		page := s.back(t, order, session)
		if page.Status != http.StatusOK || !strings.Contains(page.Body, "wait for word") || strings.Contains(page.Body, "<script") {
			t.Errorf("%q: got %d %s", session, page.Status, page.Body)
		}
		if got := s.back(t, order, session, "Accept", "application/json"); got.Body != `{"state":"pending"}` {
			t.Errorf("%q: as JSON %s", session, got.Body)
		}
	}
	for _, call := range s.sim.Calls() {
		if call.Method == http.MethodGet {
			t.Errorf("read %s", call.Path)
		}
	}
	if got := query[int](t, s, `SELECT count(*) FROM webhook_deliveries`); got != 0 {
		t.Errorf("%d deliveries", got)
	}
	if strings.Contains(s.log.String(), "nothing read") {
		t.Errorf("what can be no id was asked about:\n%s", s.log)
	}
	left := do(t, http.MethodGet, s.url+"/orders/"+order.ID.String()+"/return?canceled=1", "")
	if left.Status != http.StatusOK || !strings.Contains(left.Body, "left the checkout") {
		t.Errorf("turned back: got %d %s", left.Status, left.Body)
	}
}

// A provider that is away or slow costs the buyer some seconds, and no page.
func TestReturn_ProviderAway(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	order := s.order(t)
	session := s.session(t, order, 0)
	for _, fault := range []stripesim.Fault{{Status: http.StatusInternalServerError}, {Kind: stripesim.LoseAnswer}, {Delay: 20 * time.Second}} {
		execute(t, s.dsn, `UPDATE payments SET return_read_at = NULL`)
		s.sim.Inject(fault)
		started := time.Now()
		page := s.back(t, order, session)
		if page.Status != http.StatusOK || !strings.Contains(page.Body, "wait for word") {
			t.Errorf("got %d %s", page.Status, page.Body)
		}
		if took := time.Since(started); took > 8*time.Second {
			t.Errorf("%+v: it took %s", fault, took)
		}
	}
	if got := query[int](t, s, `SELECT count(*) FROM webhook_deliveries`); got != 0 {
		t.Errorf("%d deliveries of nothing", got)
	}
}

// Of a session that is not paid nothing is believed, and nothing recorded: its event says it.
func TestReturn_OnlySuccessIsBelieved(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	order := s.order(t)
	session := s.session(t, order, 0)
	look := func() string {
		t.Helper()
		execute(t, s.dsn, `UPDATE payments SET return_read_at = NULL; DELETE FROM delivery_resources; DELETE FROM webhook_deliveries`)
		s.back(t, order, session)
		_, err := s.drainer.Drain(t.Context())
		must(t, err)
		return query[string](t, s, `SELECT coalesce(max(outcome), 'nothing') FROM webhook_deliveries`)
	}
	if got := look(); got != "nothing" {
		t.Errorf("open: %s", got)
	}
	if got := s.state(t, order); got != "pending" {
		t.Errorf("open: the order is %s", got)
	}
	_, err := s.sim.Expire(session)
	must(t, err)
	if got := look(); got != "nothing" || s.state(t, order) != "pending" {
		t.Errorf("expired: %s, and the order is %s", got, s.state(t, order))
	}
}
