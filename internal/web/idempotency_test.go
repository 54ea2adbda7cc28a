package web_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"paidonce/internal/stripesim"
)

// post makes an order under a key.
func (s shop) post(t *testing.T, key, body string) answer {
	t.Helper()
	got := do(t, http.MethodPost, s.url+"/orders", body, "Idempotency-Key", key)
	got.Header.Del("Date")
	return got
}

func (s shop) counts(t *testing.T) map[string]int {
	t.Helper()
	all := map[string]int{}
	for _, table := range []string{"orders", "order_lines", "payments", "provider_calls", "river_job", "api_requests"} {
		all[table] = query[int](t, s, `SELECT count(*) FROM `+table)
	}
	return all
}

// oneOrder is all that one order of two lines leaves.
func oneOrder() map[string]int {
	return map[string]int{"orders": 1, "order_lines": 2, "payments": 1, "provider_calls": 1, "river_job": 1, "api_requests": 1}
}

// The same request again is the same answer, with its token; in quotes or not.
func TestIdempotency_TheStoredAnswerAgain(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	first := s.post(t, "key-1", twoKeys)
	order := decode[created](t, first.Body)
	if first.Status != http.StatusCreated || first.Header.Get("Idempotent-Replayed") != "" || order.Token == "" || order.CheckoutURL == "" {
		t.Fatalf("got %d %v %s", first.Status, first.Header, first.Body)
	}
	s.pay(t, order, stripesim.PayOptions{}) // a stored answer is the one given then
	for _, key := range []string{"key-1", `"key-1"`} {
		again := s.post(t, key, twoKeys)
		if again.Header.Get("Idempotent-Replayed") != "true" {
			t.Errorf("%s: headers %v", key, again.Header)
		}
		if again.Status != first.Status || again.Body != first.Body {
			t.Errorf("%s: got %d %s\nwant %s", key, again.Status, again.Body, first.Body)
		}
	}
	// Another way to write the same order, and fields that do not count.
	if again := s.post(t, "key-1", strings.Replace(twoKeys, `{`, `{ "price":1, `, 1)); again.Body != first.Body {
		t.Errorf("written otherwise: got %d %s", again.Status, again.Body)
	}
	if diff := cmp.Diff(1, s.counts(t)["orders"]); diff != "" {
		t.Error(diff)
	}
	stored := query[string](t, s, `SELECT answer::text FROM api_requests`)
	if strings.Contains(stored, "token") || strings.Contains(stored, order.Token) {
		t.Errorf("the token is stored: %s", stored)
	}
}

// A key is one request's. Another body under it is refused; a fault leaves the key free.
func TestIdempotency_AnotherBody(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	if got := s.post(t, "key-1", strings.Replace(twoKeys, "KEY-1", "KEY-9", 1)); got.Status != http.StatusUnprocessableEntity || got.problem(t).Code != "INVALID_FIELD" {
		t.Errorf("an unknown sku: got %d %s", got.Status, got.Body)
	}
	if got := s.post(t, "key-1", `{"email":`); got.Status != http.StatusBadRequest {
		t.Errorf("no JSON: got %d %s", got.Status, got.Body)
	}
	if got := s.post(t, "key-1", twoKeys); got.Status != http.StatusCreated {
		t.Errorf("after the faults: got %d %s", got.Status, got.Body)
	}
	got := s.post(t, "key-1", strings.Replace(twoKeys, `"quantity":2`, `"quantity":3`, 1))
	if p := got.problem(t); got.Status != http.StatusUnprocessableEntity || p.Code != "KEY_REUSED" || p.Field != "Idempotency-Key" {
		t.Errorf("another body: got %d %s", got.Status, got.Body)
	}
	if diff := cmp.Diff(oneOrder(), s.counts(t)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	// Another key is another order; and no key is always another one.
	if a, b := decode[created](t, s.post(t, "key-2", twoKeys).Body), s.order(t); a.ID == b.ID || s.counts(t)["orders"] != 3 {
		t.Errorf("orders %v", s.counts(t))
	}
}

// A header that is no key is named; nothing is guessed.
func TestIdempotency_BadKeys(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	for _, key := range []string{"", `""`, `"open`, `"a"b`, `"a";p=1`, `"a\b"`, strings.Repeat("x", 256), "schlüssel", "tab\tin", `"`} {
		got := s.post(t, key, twoKeys)
		if p := got.problem(t); got.Status != http.StatusBadRequest || p.Code != "INVALID_HEADER" || p.Field != "Idempotency-Key" || !strings.Contains(p.Detail, "Idempotency-Key") {
			t.Errorf("%q: got %d %s", key, got.Status, got.Body)
		}
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+"/orders", strings.NewReader(twoKeys))
	must(t, err)
	request.Header["Idempotency-Key"] = []string{"a", "a"}
	response, err := http.DefaultTransport.RoundTrip(request)
	must(t, err)
	must(t, response.Body.Close())
	if response.StatusCode != http.StatusBadRequest {
		t.Errorf("two headers: got %d", response.StatusCode)
	}
	if got := s.counts(t)["orders"]; got != 0 {
		t.Errorf("%d orders", got)
	}
	for _, key := range []string{strings.Repeat("x", 255), "a b", `"q\"\\"`, "k", "8e03978e-40d5-43e8-bc93-6894a57f9324"} {
		if got := s.post(t, key, twoKeys); got.Status != http.StatusCreated {
			t.Errorf("%q: got %d %s", key, got.Status, got.Body)
		}
	}
}

// Twenty posts of one key at the same moment are one order. Each is told of it, or to ask
// again.
func TestIdempotency_TwentyAtOnce(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	var (
		barrier = make(chan struct{})
		posting sync.WaitGroup
		answers [20]answer
	)
	for i := range answers {
		posting.Go(func() {
			<-barrier
			answers[i] = s.post(t, "key-1", twoKeys)
		})
	}
	close(barrier)
	posting.Wait()
	ids := map[uuid.UUID]int{}
	for _, got := range answers {
		switch got.Status {
		case http.StatusCreated:
			ids[decode[created](t, got.Body).ID]++
		case http.StatusConflict:
			if got.problem(t).Code != "IN_FLIGHT" || got.Header.Get("Retry-After") == "" {
				t.Errorf("got %s, Retry-After %q", got.Body, got.Header.Get("Retry-After"))
			}
		default:
			t.Errorf("got %d %s", got.Status, got.Body)
		}
	}
	if len(ids) != 1 {
		t.Errorf("orders %v, want one", ids)
	}
	if diff := cmp.Diff(oneOrder(), s.counts(t)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if sessions := s.sessions(); sessions != 1 {
		t.Errorf("%d sessions at Stripe, want one", sessions)
	}
}

// sessions counts the sessions that were made at Stripe.
func (s shop) sessions() int {
	n := 0
	for _, call := range s.sim.Calls() {
		if strings.HasPrefix(call.IdempotencyKey, "checkout:") && call.Status == http.StatusOK && !call.Replayed {
			n++
		}
	}
	return n
}

// While its owner is at work a request is in flight; when the owner is gone, its lease ends,
// and whoever asks again goes on with the same rows.
func TestIdempotency_ADeadOwnerIsTakenOver(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	first := decode[created](t, s.post(t, "key-1", twoKeys).Body)
	execute(t, s.dsn, `UPDATE api_requests SET status = NULL, answer = NULL`) // as a dead owner leaves it
	if got := s.post(t, "key-1", twoKeys); got.Status != http.StatusConflict || got.problem(t).Code != "IN_FLIGHT" {
		t.Errorf("while the lease is live: got %d %s", got.Status, got.Body)
	}
	execute(t, s.dsn, `UPDATE api_requests SET locked_until = now()`)
	if got := s.post(t, "key-1", strings.Replace(twoKeys, "a@", "b@", 1)); got.problem(t).Code != "KEY_REUSED" {
		t.Errorf("another body: got %d %s", got.Status, got.Body)
	}
	got := s.post(t, "key-1", twoKeys)
	if order := decode[created](t, got.Body); got.Status != http.StatusCreated || order != first {
		t.Errorf("after the lease: got %d %s, want %+v", got.Status, got.Body, first)
	}
	if got := s.post(t, "key-1", twoKeys); got.Header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("and again: got %d %v", got.Status, got.Header)
	}
	if diff := cmp.Diff(oneOrder(), s.counts(t)); diff != "" || s.sessions() != 1 {
		t.Errorf("%d sessions (-want +got)\n%s", s.sessions(), diff)
	}
}

// An answer without a checkout is not the last word: asked again, when the provider is back,
// it is the same order with an address.
func TestIdempotency_ProviderAway(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.sim.Inject(stripesim.Fault{Kind: stripesim.LoseRequest})
	away := decode[created](t, s.post(t, "key-1", twoKeys).Body)
	if away.CheckoutURL != "" || away.Token == "" {
		t.Errorf("got %+v", away)
	}
	got := s.post(t, "key-1", twoKeys)
	if order := decode[created](t, got.Body); got.Status != http.StatusCreated || order.ID != away.ID || order.CheckoutURL == "" {
		t.Errorf("got %d %s", got.Status, got.Body)
	}
	if diff := cmp.Diff(oneOrder(), s.counts(t)); diff != "" || s.sessions() != 1 {
		t.Errorf("%d sessions (-want +got)\n%s", s.sessions(), diff)
	}
}

// A slow owner, who was taken for dead, gives the answer of whoever took over.
func TestIdempotency_OneAnswerStands(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	// The first owner's request to Stripe takes long; its lease runs out meanwhile.
	s.sim.Inject(stripesim.Fault{Delay: 2 * time.Second})
	slow := make(chan answer, 1)
	go func() { slow <- s.post(t, "key-1", twoKeys) }()
	waitFor(t, func() bool {
		return query[int](t, s, `SELECT count(*) FROM provider_calls WHERE state = 'sending'`) == 1
	})
	execute(t, s.dsn, `UPDATE api_requests SET locked_until = now()`)
	early := decode[created](t, s.post(t, "key-1", twoKeys).Body) // its call is under way: no address yet
	late := <-slow
	if order := decode[created](t, late.Body); late.Status != http.StatusCreated || order.ID != early.ID || order.CheckoutURL == "" {
		t.Errorf("got %d %s", late.Status, late.Body)
	}
	if diff := cmp.Diff(oneOrder(), s.counts(t)); diff != "" || s.sessions() != 1 {
		t.Errorf("%d sessions (-want +got)\n%s", s.sessions(), diff)
	}
}

// waitFor polls until ok, or fails.
func waitFor(t *testing.T, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("waited in vain")
		}
	}
}
