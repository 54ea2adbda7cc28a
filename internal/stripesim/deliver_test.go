package stripesim

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stripe/stripe-go/v79"
	"github.com/stripe/stripe-go/v79/webhook"
)

const secret = "whsec_current"

// soon is a retry schedule that costs a test nothing.
func soon(n int) []time.Duration {
	out := make([]time.Duration, n)
	for i := range out {
		out[i] = time.Millisecond
	}
	return out
}

// TestEventsVerify: every event of every story passes stripe-go's ConstructEvent, strict API version included, under each
// of two secrets, and its object decodes into stripe-go's type.
func TestEventsVerify(t *testing.T) {
	t.Parallel()
	rec := newReceiver(t, nil)
	b := setup(t, Config{Webhooks: []Endpoint{{URL: rec.url, Secrets: []string{secret, "whsec_previous"}}}})
	paid, late, lost, gone := b.create(t), b.create(t), b.create(t), b.create(t)
	b.pay(t, paid.ID, PayOptions{})
	b.pay(t, late.ID, PayOptions{Delayed: true})
	b.pay(t, lost.ID, PayOptions{Delayed: true})
	for _, err := range []error{
		second(b.sim.SettleDelayed(late.ID, true)), second(b.sim.SettleDelayed(lost.ID, false)),
		second(b.sim.Decline(gone.ID)), second(b.sim.Expire(gone.ID)),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	b.idle(t)

	events := b.sim.Events()
	got := rec.deliveries()
	if len(got) != len(events) {
		t.Fatalf("%d deliveries of %d events", len(got), len(events))
	}
	for _, d := range got {
		header := d.header.Get("Stripe-Signature")
		for _, key := range []string{secret, "whsec_previous"} {
			e, err := webhook.ConstructEvent(d.body, header, key)
			if err != nil {
				t.Fatalf("%s with %s: %v", d.kind, key, err)
			}
			decode(t, e)
		}
		if _, err := webhook.ConstructEvent(d.body, header, "whsec_other"); !errors.Is(err, webhook.ErrNoValidSignature) {
			t.Errorf("%s with a foreign secret: %v", d.kind, err)
		}
		if _, err := webhook.ConstructEvent(append(d.body, ' '), header, secret); err == nil {
			t.Errorf("%s: a changed body passed", d.kind)
		}
		if got := fmt.Sprint(d.header["Content-Type"], d.header["User-Agent"]); got !=
			"[application/json; charset=utf-8] [Stripe/1.0 (+https://stripe.com/docs/webhooks)]" {
			t.Errorf("headers: %s", got)
		}
		if !bytes.HasPrefix(d.body, []byte("{\n  \"id\": \"evt_")) || bytes.Contains(d.body, []byte(`\u0026`)) {
			t.Errorf("not in Stripe's layout: %.60s", d.body)
		}
	}
	for _, e := range events {
		if dig(t, e.Body, "api_version") != APIVersion || dig(t, e.Body, "livemode") != false {
			t.Errorf("%s", e.Body)
		}
	}
}

func second[T any](_ T, err error) error { return err }

func decode(t *testing.T, e stripe.Event) {
	t.Helper()
	var id string
	var err error
	switch kind, _, _ := strings.Cut(string(e.Type), "."); kind {
	case "checkout":
		var v stripe.CheckoutSession
		err = json.Unmarshal(e.Data.Raw, &v)
		id = v.ID
	case "payment_intent":
		var v stripe.PaymentIntent
		err = json.Unmarshal(e.Data.Raw, &v)
		id = v.ID
	case "charge":
		var v stripe.Charge
		err = json.Unmarshal(e.Data.Raw, &v)
		id = v.ID
	}
	if err != nil || id == "" {
		t.Errorf("%s: id %q, %v", e.Type, id, err)
	}
}

// TestSign against stripe-go's own signer.
func TestSign(t *testing.T) {
	t.Parallel()
	at := time.Unix(1_700_000_000, 0)
	body := []byte(`{"id":"evt_1"}`)
	theirs := webhook.GenerateTestSignedPayload(&webhook.UnsignedPayload{Payload: body, Secret: secret, Timestamp: at})
	if got := Sign(body, at, secret); got != theirs.Header {
		t.Errorf("got  %s\nwant %s", got, theirs.Header)
	}
	two := Sign(body, at, "whsec_a", secret)
	if strings.Count(two, ",v1=") != 2 || !strings.HasSuffix(two, theirs.Header[strings.Index(theirs.Header, "v1="):]) {
		t.Errorf("two secrets: %s", two)
	}
}

// TestRetries: whatever is not 2xx is tried again by the schedule, a redirect too, with the same bytes and another
// signature; then it is over.
func TestRetries(t *testing.T) {
	t.Parallel()
	answers := []int{500, 302, 404, 204}
	rec := newReceiver(t, func(n int) int { return answers[n-1] })
	var clock atomic.Int64
	clock.Store(1_700_000_000)
	b := setup(t, Config{
		Webhooks: []Endpoint{{URL: rec.url, Secrets: []string{secret}}}, RetrySchedule: soon(5),
		Now: func() time.Time { return time.Unix(clock.Add(1), 0) },
	})
	if _, err := b.sim.Expire(b.create(t).ID); err != nil {
		t.Fatal(err)
	}
	event := b.sim.Events()[0]
	b.idle(t)

	seen := map[string]bool{}
	for i, d := range rec.deliveries() {
		header := d.header.Get("Stripe-Signature")
		if d.id != event.ID || !bytes.Equal(d.body, event.Body) || seen[header] {
			t.Errorf("attempt %d: id %s, header %s", i+1, d.id, header)
		}
		seen[header] = true
		if err := webhook.ValidatePayloadIgnoringTolerance(d.body, header, secret); err != nil {
			t.Errorf("attempt %d: %v", i+1, err)
		}
	}
	type try struct{ Number, Status int }
	var got []try
	for _, a := range b.sim.Attempts() {
		if a.EventID != event.ID || a.EventType != event.Type || a.URL != rec.url || a.Err != "" {
			t.Errorf("%+v", a)
		}
		got = append(got, try{a.Number, a.Status})
	}
	if diff := cmp.Diff([]try{{1, 500}, {2, 302}, {3, 404}, {4, 204}}, got); diff != "" {
		t.Errorf("attempts (-want +got):\n%s", diff)
	}
}

// TestRetriesEnd: a receiver that never answers well is left after the schedule, and one that is not there is an error.
func TestRetriesEnd(t *testing.T) {
	t.Parallel()
	rec := newReceiver(t, func(int) int { return 500 })
	b := setup(t, Config{
		Webhooks:      []Endpoint{{URL: rec.url, Secrets: []string{secret}}, {URL: "http://127.0.0.1:1/", Secrets: []string{secret}}},
		RetrySchedule: soon(2), AttemptTimeout: 5 * time.Second,
	})
	if _, err := b.sim.Expire(b.create(t).ID); err != nil {
		t.Fatal(err)
	}
	b.idle(t)
	here, nowhere := 0, 0
	for _, a := range b.sim.Attempts() {
		if a.URL == rec.url {
			here++
		} else if nowhere++; a.Status != 0 || a.Err == "" {
			t.Errorf("%+v", a)
		}
	}
	if here != 3 || nowhere != 3 {
		t.Errorf("%d and %d attempts, want 3 of each", here, nowhere)
	}
	e := b.sim.Events()[0]
	if got := dig(t, b.do(t, "GET", "/v1/events/"+e.ID, "").body, "pending_webhooks"); fmt.Sprint(got) != "2" {
		t.Errorf("pending_webhooks %v", got)
	}
}

// TestDuplicatesAndRedelivery: one id, one body, several posts.
func TestDuplicatesAndRedelivery(t *testing.T) {
	t.Parallel()
	rec := newReceiver(t, nil)
	b := setup(t, Config{
		Webhooks: []Endpoint{{URL: rec.url, Secrets: []string{secret}}}, Duplicates: 2, Delay: time.Millisecond,
	})
	if _, err := b.sim.Expire(b.create(t).ID); err != nil {
		t.Fatal(err)
	}
	b.idle(t)
	event := b.sim.Events()[0]
	if got := len(rec.deliveries()); got != 3 {
		t.Errorf("%d deliveries, want 3", got)
	}
	if err := b.sim.Deliver(event.ID); err != nil {
		t.Fatal(err)
	}
	b.idle(t)
	got := rec.deliveries()
	if len(got) != 4 || got[3].id != event.ID || !bytes.Equal(got[3].body, event.Body) {
		t.Errorf("%d deliveries, want 4", len(got))
	}
	if err := b.sim.Deliver("evt_none"); !errors.Is(err, ErrNoEvent) {
		t.Errorf("%v", err)
	}
	if got := dig(t, b.do(t, "GET", "/v1/events/"+event.ID, "").body, "pending_webhooks"); fmt.Sprint(got) != "0" {
		t.Errorf("pending_webhooks %v", got)
	}
}

// TestHold: events exist, nothing is sent, until somebody asks.
func TestHold(t *testing.T) {
	t.Parallel()
	rec := newReceiver(t, nil)
	b := setup(t, Config{Webhooks: []Endpoint{{URL: rec.url, Secrets: []string{secret}}}})
	p := b.pay(t, b.create(t).ID, PayOptions{Hold: true})
	b.idle(t)
	if n := len(rec.deliveries()); n != 0 || len(p.Events) != 4 {
		t.Errorf("%d deliveries of %d events", n, len(p.Events))
	}
	if err := b.sim.Deliver(p.Events[3].ID); err != nil {
		t.Fatal(err)
	}
	b.idle(t)
	if got := rec.deliveries(); len(got) != 1 || got[0].kind != "checkout.session.completed" {
		t.Errorf("%+v", got)
	}
}

// TestMovedEndpoint: a delivery that waits for its next attempt follows its endpoint to another address and secret, and
// ends when the endpoint is gone.
func TestMovedEndpoint(t *testing.T) {
	t.Parallel()
	moved := newReceiver(t, nil)
	hit := make(chan struct{}, 1)
	old := newReceiver(t, func(int) int { hit <- struct{}{}; return 503 })
	b := setup(t, Config{
		Webhooks:      []Endpoint{{URL: old.url, Secrets: []string{secret}}},
		RetrySchedule: []time.Duration{50 * time.Millisecond},
	})
	if _, err := b.sim.Expire(b.create(t).ID); err != nil {
		t.Fatal(err)
	}
	<-hit
	b.sim.SetWebhooks([]Endpoint{{URL: moved.url, Secrets: []string{"whsec_new"}}})
	b.idle(t)
	got := moved.deliveries()
	if len(got) != 1 {
		t.Fatalf("%d deliveries at the new address", len(got))
	}
	if _, err := webhook.ConstructEvent(got[0].body, got[0].header.Get("Stripe-Signature"), "whsec_new"); err != nil {
		t.Error(err)
	}

	b.sim.SetWebhooks([]Endpoint{{URL: old.url}})
	if _, err := b.sim.Expire(b.create(t).ID); err != nil {
		t.Fatal(err)
	}
	<-hit
	b.sim.SetWebhooks(nil)
	b.idle(t)
	if n := len(b.sim.Attempts()); n != 3 {
		t.Errorf("%d attempts, want 3", n)
	}
}

// TestAttemptTimeout: a receiver that keeps the connection open and says nothing is one failed attempt.
func TestAttemptTimeout(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	rec := newReceiver(t, func(int) int { <-release; return http.StatusOK })
	b := setup(t, Config{
		Webhooks: []Endpoint{{URL: rec.url, Secrets: []string{secret}}}, AttemptTimeout: 50 * time.Millisecond,
		RetrySchedule: []time.Duration{},
	})
	t.Cleanup(func() { close(release) })
	if _, err := b.sim.Expire(b.create(t).ID); err != nil {
		t.Fatal(err)
	}
	b.idle(t)
	if got := b.sim.Attempts(); len(got) != 1 || got[0].Status != 0 || got[0].Err == "" {
		t.Errorf("%+v", got)
	}
}

// TestClose ends a delivery in flight and one that waits, and starts none afterwards.
func TestClose(t *testing.T) {
	t.Parallel()
	hit := make(chan struct{}, 8)
	release := make(chan struct{})
	slow := newReceiver(t, func(int) int { hit <- struct{}{}; <-release; return http.StatusOK })
	t.Cleanup(func() { close(release) })
	b := setup(t, Config{
		Webhooks:      []Endpoint{{URL: slow.url}, {URL: "http://127.0.0.1:1/"}},
		RetrySchedule: []time.Duration{time.Hour}, AttemptTimeout: time.Hour,
	})
	if _, err := b.sim.Expire(b.create(t).ID); err != nil {
		t.Fatal(err)
	}
	<-hit
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if err := b.sim.Idle(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("idle while busy: %v", err)
	}
	b.sim.Close()
	b.sim.Close()
	if b.sim.outstanding != 0 {
		t.Errorf("%d deliveries outlive Close", b.sim.outstanding)
	}
	n := len(b.sim.Attempts())
	if _, err := b.sim.Expire(b.create(t).ID); err != nil {
		t.Fatal(err)
	}
	b.idle(t)
	if got := len(b.sim.Attempts()); got != n {
		t.Errorf("delivered after Close")
	}
}
