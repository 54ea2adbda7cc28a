package stripesim

import (
	"errors"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stripe/stripe-go/v79"
)

// TestLoseAnswer: the work is done, the client never hears of it, and the same key tells it afterwards. The connection is
// one that was used before: there Go's transport would repeat the request by itself, were no byte to come back.
func TestLoseAnswer(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{})
	b.create(t)
	b.sim.Inject(Fault{Method: "POST", Path: sessionsPath, Kind: LoseAnswer})
	params := newParams()
	params.SetIdempotencyKey("k")
	if _, err := b.api.CheckoutSessions.New(params); err == nil {
		t.Fatal("the answer came")
	} else if e := (*stripe.Error)(nil); errors.As(err, &e) {
		t.Fatalf("Stripe answered: %v", e)
	}
	calls := b.sim.Calls()
	if len(calls) != 2 || !calls[1].Lost || calls[1].Status != 200 {
		t.Fatalf("calls: %+v", calls)
	}
	s, err := b.api.CheckoutSessions.New(params)
	if err != nil || s.LastResponse.Header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("the same key afterwards: %v", err)
	}
	b.sim.mu.Lock()
	defer b.sim.mu.Unlock()
	if b.sim.sessions.len() != 2 {
		t.Errorf("%d sessions, want the one before and the lost one", b.sim.sessions.len())
	}
}

func TestLoseRequest(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{})
	b.create(t)
	b.sim.Inject(Fault{Path: "/v1/checkout/*", Kind: LoseRequest, Times: 2})
	params := newParams()
	params.SetIdempotencyKey("k")
	for range 2 {
		if _, err := b.api.CheckoutSessions.New(params); err == nil {
			t.Fatal("the answer came")
		}
	}
	s, err := b.api.CheckoutSessions.New(params)
	if err != nil || s.LastResponse.Header.Get("Idempotent-Replayed") != "" {
		t.Errorf("third: %v", err)
	}
	calls := b.sim.Calls()
	if len(calls) != 4 || calls[1].Status != 0 || !calls[1].Lost || calls[3].Lost {
		t.Errorf("calls: %+v", calls)
	}
}

// TestStatus: a 500 is kept under the key, with or without the work; 429 and 409 are not.
func TestStatus(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		fault    Fault
		kept     bool
		sessions int // after the request and one repeat
		kind     stripe.ErrorType
		code     stripe.ErrorCode
	}{
		{"Error", Fault{Status: 500}, true, 0, stripe.ErrorTypeAPI, ""},
		{"ErrorAfterWork", Fault{Status: 500, AfterWork: true}, true, 1, stripe.ErrorTypeAPI, ""},
		{"RateLimit", Fault{Status: 429, RetryAfter: "3"}, false, 1, stripe.ErrorTypeInvalidRequest, stripe.ErrorCodeRateLimit},
		{"LockTimeout", Fault{Status: 429, Code: "lock_timeout"}, false, 1, stripe.ErrorTypeInvalidRequest, stripe.ErrorCodeLockTimeout},
		{"InUse", Fault{Status: 409}, false, 1, stripe.ErrorTypeInvalidRequest, stripe.ErrorCodeIdempotencyKeyInUse},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, Config{})
			b.sim.Inject(c.fault)
			params := newParams()
			params.SetIdempotencyKey("k")
			_, err := b.api.CheckoutSessions.New(params)
			var e *stripe.Error
			if !errors.As(err, &e) || e.HTTPStatusCode != c.fault.Status || e.Type != c.kind || e.Code != c.code {
				t.Errorf("first: %v", err)
			} else if got := e.LastResponse.Header.Get("Retry-After"); got != c.fault.RetryAfter {
				t.Errorf("Retry-After %q", got)
			}
			_, err = b.api.CheckoutSessions.New(params)
			if kept := err != nil; kept != c.kept {
				t.Errorf("repeat: %v", err)
			}
			b.sim.mu.Lock()
			defer b.sim.mu.Unlock()
			if b.sim.sessions.len() != c.sessions {
				t.Errorf("%d sessions, want %d", b.sim.sessions.len(), c.sessions)
			}
		})
	}
}

// TestFaultMatching: other requests pass, the named ones are hit as often as said, and a Delay ends with Close.
func TestFaultMatching(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{})
	b.sim.Inject(Fault{Method: "POST", Path: "/v1/payment_intents/*", Status: http.StatusServiceUnavailable, Times: 2})
	p := b.pay(t, b.create(t).ID, PayOptions{})
	path := "/v1/payment_intents/" + p.PaymentIntentID
	for i, want := range []int{503, 503, 200} {
		if r := b.do(t, "GET", path, ""); r.status != 200 {
			t.Errorf("GET: %d", r.status)
		}
		if r := b.do(t, "POST", path, "description=x"); r.status != want {
			t.Errorf("POST %d: %d, want %d", i, r.status, want)
		}
	}
	b.sim.Inject(Fault{Delay: time.Millisecond})
	if r := b.do(t, "GET", path, ""); r.status != 200 {
		t.Errorf("delayed: %d", r.status)
	}
	b.sim.Inject(Fault{Delay: time.Hour})
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = b.send(t, "GET", path, "")
	}()
	eventually(t, func() bool { b.sim.mu.Lock(); defer b.sim.mu.Unlock(); return len(b.sim.faults) == 0 })
	b.sim.Close()
	<-done
}

// TestLockTimeout: while a request works on an object, another that would change it is refused and nothing is kept of that;
// reading it, and changing another, goes on.
func TestLockTimeout(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{})
	path := "/v1/payment_intents/" + b.paid(t, "").PaymentIntentID
	other := "/v1/payment_intents/" + b.paid(t, "").PaymentIntentID
	gate := make(chan struct{})
	b.sim.Inject(Fault{Method: "POST", Path: path, Gate: gate})
	var first reply
	var wg sync.WaitGroup
	wg.Go(func() { first, _ = b.send(t, "POST", path, "metadata[a]=1") })
	eventually(t, func() bool {
		b.sim.mu.Lock()
		defer b.sim.mu.Unlock()
		return len(b.sim.locked) == 1
	})
	key := []string{"Idempotency-Key", "k"}
	if r := b.do(t, "POST", path, "metadata[b]=2", key...); r.status != 429 || r.err.Code != "lock_timeout" {
		t.Errorf("%d %s", r.status, r.body)
	}
	if r := b.do(t, "GET", path, ""); r.status != 200 {
		t.Errorf("reading: %d", r.status)
	}
	if r := b.do(t, "POST", other, "metadata[b]=2"); r.status != 200 {
		t.Errorf("another: %d", r.status)
	}
	close(gate)
	wg.Wait()
	r := b.do(t, "POST", path, "metadata[b]=2", key...)
	if first.status != 200 || r.status != 200 || r.header.Get("Idempotent-Replayed") != "" || dig(t, r.body, "metadata", "a") != "1" {
		t.Errorf("first %d, then %d %s", first.status, r.status, r.body)
	}
}
