package stripesim

import (
	"bytes"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stripe/stripe-go/v79"
)

const sessionsPath = "/v1/checkout/sessions"

func TestKeyReplays(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{})
	first := b.do(t, "POST", sessionsPath, form(), "Idempotency-Key", "k1")
	// The same parameters in another order are the same parameters.
	again := b.do(t, "POST", sessionsPath, strings.Replace(form(), "mode=payment&", "", 1)+"&mode=payment", "Idempotency-Key", "k1")
	if first.status != 200 || again.status != 200 || !bytes.Equal(first.body, again.body) {
		t.Errorf("%d %d: %s", first.status, again.status, again.body)
	}
	type headers struct{ Replayed, Key, Original string }
	view := func(r reply) headers {
		return headers{r.header.Get("Idempotent-Replayed"), r.header.Get("Idempotency-Key"), r.header.Get("Original-Request")}
	}
	id := first.header.Get("Request-Id")
	if diff := cmp.Diff([]headers{{"", "k1", id}, {"true", "k1", id}}, []headers{view(first), view(again)}); diff != "" {
		t.Errorf("headers (-want +got):\n%s", diff)
	}
	if again.header.Get("Request-Id") == id {
		t.Error("the second request has the first one's id")
	}
	calls := b.sim.Calls()
	if len(calls) != 2 || calls[0].Replayed || !calls[1].Replayed || calls[1].Status != 200 || calls[1].IdempotencyKey != "k1" ||
		string(calls[0].Body) != form() || calls[0].Method != "POST" || calls[0].Path != sessionsPath {
		t.Errorf("calls: %+v", calls)
	}
}

// TestKeyReplaysTheFirstState: the answer is the one of then, though the object has changed.
func TestKeyReplaysTheFirstState(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{})
	params := newParams()
	params.SetIdempotencyKey("k")
	first, err := b.api.CheckoutSessions.New(params)
	if err != nil {
		t.Fatal(err)
	}
	b.pay(t, first.ID, PayOptions{})
	again, err := b.api.CheckoutSessions.New(params)
	if err != nil || again.ID != first.ID || again.Status != stripe.CheckoutSessionStatusOpen {
		t.Errorf("%s %s, %v", again.ID, again.Status, err)
	}
	if got := again.LastResponse.Header.Get("Idempotent-Replayed"); got != "true" {
		t.Errorf("Idempotent-Replayed %q", got)
	}
}

func TestKeyConflicts(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{})
	key := []string{"Idempotency-Key", "k"}
	b.do(t, "POST", sessionsPath, form(), key...)
	for path, f := range map[string]string{sessionsPath: form("locale=de"), "/v1/payment_intents/pi_1": form()} {
		r := b.do(t, "POST", path, f, key...)
		if r.status != 400 || r.err.Type != "idempotency_error" || r.header.Get("Idempotent-Replayed") != "" {
			t.Errorf("%s: %d %s", path, r.status, r.body)
		}
	}
	if r := b.do(t, "POST", sessionsPath, form(), key...); r.header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("the conflicts spoiled the key: %d", r.status)
	}
	if r := b.do(t, "POST", sessionsPath, form(), "Idempotency-Key", strings.Repeat("k", 256)); r.status != 400 {
		t.Errorf("256 characters: %d", r.status)
	}
	if r := b.do(t, "POST", sessionsPath, form(), "Idempotency-Key", strings.Repeat("k", 255)); r.status != 200 {
		t.Errorf("255 characters: %d", r.status)
	}
}

// TestKeyInFlight: while the first is at work the second is told so, and nothing is stored of that.
func TestKeyInFlight(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{})
	gate := make(chan struct{})
	b.sim.Inject(Fault{Method: "POST", Gate: gate})
	var first reply
	var wg sync.WaitGroup
	wg.Go(func() { first, _ = b.send(t, "POST", sessionsPath, form(), "Idempotency-Key", "k") })
	eventually(t, func() bool {
		b.sim.mu.Lock()
		defer b.sim.mu.Unlock()
		return len(b.sim.keys) == 1
	})
	second := b.do(t, "POST", sessionsPath, form(), "Idempotency-Key", "k")
	if second.status != 409 || second.err.Code != "idempotency_key_in_use" {
		t.Errorf("second: %d %s", second.status, second.body)
	}
	close(gate)
	wg.Wait()
	third := b.do(t, "POST", sessionsPath, form(), "Idempotency-Key", "k")
	if first.status != 200 || third.status != 200 || !bytes.Equal(first.body, third.body) {
		t.Errorf("first %d, third %d", first.status, third.status)
	}
}

// TestKeyKeeps: what began to execute is kept, a 400 too; what failed validation is not, and its key may be used again.
func TestKeyKeeps(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{})
	if r := b.do(t, "POST", sessionsPath, form("colour=red"), "Idempotency-Key", "a"); r.status != 400 {
		t.Fatalf("%d", r.status)
	}
	if r := b.do(t, "POST", sessionsPath, form(), "Idempotency-Key", "a"); r.status != 200 {
		t.Errorf("a key of a refused request: %d %s", r.status, r.body)
	}
	s := b.create(t)
	b.pay(t, s.ID, PayOptions{})
	for _, want := range []string{"", "true"} {
		r := b.do(t, "POST", sessionsPath+"/"+s.ID+"/expire", "", "Idempotency-Key", "b")
		if r.status != 400 || r.header.Get("Idempotent-Replayed") != want {
			t.Errorf("expire a paid session: %d, replayed %q", r.status, r.header.Get("Idempotent-Replayed"))
		}
	}
	// Only a POST has a key.
	for range 2 {
		if r := b.do(t, "GET", "/v1/events", "", "Idempotency-Key", "c"); r.header.Get("Idempotent-Replayed") != "" {
			t.Error("a GET was replayed")
		}
	}
	if r := b.do(t, "POST", sessionsPath, form(), "Idempotency-Key", "d", "Authorization", "Bearer sk_live_1"); r.status != 401 {
		t.Errorf("%d", r.status)
	}
	if r := b.do(t, "POST", sessionsPath, form(), "Idempotency-Key", "d"); r.status != 200 {
		t.Errorf("a 401 was kept: %d", r.status)
	}
}

// TestKeyRace: twenty at once with one key make one session.
func TestKeyRace(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{})
	start := make(chan struct{})
	var wg sync.WaitGroup
	status := make([]int, 20)
	for i := range status {
		wg.Go(func() {
			<-start
			r, err := b.send(t, "POST", sessionsPath, form(), "Idempotency-Key", "k")
			if err == nil {
				status[i] = r.status
			}
		})
	}
	close(start)
	wg.Wait()
	for i, got := range status {
		if got != 200 && got != 409 {
			t.Errorf("request %d: %d", i, got)
		}
	}
	b.sim.mu.Lock()
	defer b.sim.mu.Unlock()
	if b.sim.sessions.len() != 1 {
		t.Errorf("%d sessions", b.sim.sessions.len())
	}
}
