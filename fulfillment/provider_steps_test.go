package fulfillment_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"paidonce/internal/provider"
	"paidonce/internal/stripesim"
	"paidonce/orders"
)

// sessions counts the requests that created a session, repeats under a key not counted.
func (b *testBundle) sessions() (n int) {
	for _, call := range b.sim.Calls() {
		if call.Method == http.MethodPost && call.Path == "/v1/checkout/sessions" && call.Status == 200 && !call.Replayed {
			n++
		}
	}
	return n
}

func (b *testBundle) callState(t *testing.T, o order) provider.CallState {
	t.Helper()
	return value[provider.CallState](t, b, `SELECT state FROM provider_calls WHERE idempotency_key = ?`, o.callKey)
}

// The request handler died at some point of the call it was making. Its job takes over, under
// the same key, and there is one session in the end.
func TestTheJobTakesACheckoutOver(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		died func(t *testing.T, b *testBundle, o order)
		next provider.CallState // as it left the row
	}{
		{"before it began", func(*testing.T, *testBundle, order) {}, provider.CallIntended},
		{"before it sent", func(t *testing.T, b *testBundle, o order) {
			t.Helper()
			b.exec(t, `UPDATE provider_calls SET state = 'sending', sending_until = now(), first_sent_at = now(), attempts = 1 WHERE idempotency_key = ?`, o.callKey)
		}, provider.CallSending},
		{"after the provider had done it", func(t *testing.T, b *testBundle, o order) {
			t.Helper()
			b.sim.Inject(stripesim.Fault{Method: http.MethodPost, Kind: stripesim.LoseAnswer})
			if err := b.service.OpenCheckout(t.Context(), o.callKey); err == nil {
				t.Fatal("a lost answer is no error")
			}
			b.exec(t, `UPDATE provider_calls SET state = 'sending', sending_until = now()`) // it died before it could say so
		}, provider.CallSending},
		{"after it had written down that the answer was lost", func(t *testing.T, b *testBundle, o order) {
			t.Helper()
			b.sim.Inject(stripesim.Fault{Method: http.MethodPost, Kind: stripesim.LoseAnswer})
			if err := b.service.OpenCheckout(t.Context(), o.callKey); err == nil {
				t.Fatal("a lost answer is no error")
			}
		}, provider.CallUnknown},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			o := b.unopened(t)
			tt.died(t, b, o)
			if got := b.callState(t, o); got != tt.next {
				t.Fatalf("the call is %s, want %s", got, tt.next)
			}
			if early := b.doJobs(t); early != 0 {
				t.Errorf("%d jobs at once, want the handler left a while to do it itself", early)
			}
			b.exec(t, `UPDATE river_job SET state = 'available', scheduled_at = now()`)
			for range 2 { // and once more, after a lost acknowledgement
				b.doJobs(t)
				b.exec(t, `UPDATE river_job SET state = 'available', finalized_at = NULL`)
			}
			o = b.reload(t, o)
			if b.callState(t, o) != provider.CallSent || o.checkouts[0].Session == "" || b.sessions() != 1 {
				t.Errorf("order %s: call %s, session %q, %d sessions made; want it opened, once",
					o.ID, b.callState(t, o), o.checkouts[0].Session, b.sessions())
			}
		})
	}
}

// While the handler is at it, the job leaves it alone and comes back later.
func TestTheJobLeavesALivingHandlerAlone(t *testing.T) {
	t.Parallel()
	b := setup(t)
	o := b.unopened(t)
	gate := make(chan struct{})
	b.sim.Inject(stripesim.Fault{Method: http.MethodPost, Gate: gate})
	handler := make(chan error, 1)
	go func() { handler <- b.service.OpenCheckout(t.Context(), o.callKey) }()
	eventually(t, "the call is under way", func() bool { return len(b.sim.Calls()) == 1 })

	done := 0
	if err := b.another(t).service.PerformCall(t.Context(), o.callKey, counted(&done)); !errors.Is(err, provider.ErrInFlight) || done != 0 {
		t.Errorf("order %s: %v after %d completions, want it in flight", o.ID, err, done)
	}
	close(gate)
	if err := wait(t, "the handler", handler); err != nil {
		t.Fatal(err)
	}
	if b.sessions() != 1 || len(b.sim.Calls()) != 1 {
		t.Errorf("order %s: %d requests made %d sessions, want 1 and 1", o.ID, len(b.sim.Calls()), b.sessions())
	}
}

// A wish that comes while a read is under way may be about something that the read did not
// see: it is answered by another read.
func TestAWishDuringAReadIsAnsweredByAnother(t *testing.T) {
	t.Parallel()
	b := setup(t)
	o := b.order(t)
	events := b.pay(t, o.checkouts[0], stripesim.PayOptions{})
	hint := func(n int) {
		b.record(t, edited(t, again(events[len(events)-1], n), func(_, o map[string]any) { delete(o, "amount_total") }))
		b.drain(t)
	}
	hint(1)
	if reads := b.jobs(t, "read_payment"); reads != 1 {
		t.Fatalf("order %s: %d reads after the first hint, want 1", o.ID, reads)
	}
	gate := make(chan struct{})
	b.sim.Inject(stripesim.Fault{Method: http.MethodGet, Gate: gate})
	read, calls := make(chan error, 1), len(b.sim.Calls())
	go func() { read <- b.service.ReadPayment(t.Context(), o.checkouts[0].PaymentID, noJob) }()
	eventually(t, "the read is under way", func() bool { return len(b.sim.Calls()) > calls })
	hint(2)
	before := b.jobs(t, "read_payment")
	close(gate)
	if err := wait(t, "the read", read); err != nil {
		t.Fatal(err)
	}
	if got := b.jobs(t, "read_payment"); got != before+1 {
		t.Errorf("order %s: %d reads asked for by the read, want 1", o.ID, got-before)
	}
	seq := func() (s [2]int) {
		err := b.db.Gorm.Raw(`SELECT read_wanted, read_seq FROM payments WHERE order_id = ?`, o.ID).Row().Scan(&s[0], &s[1])
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	if got := seq(); got != [2]int{2, 1} {
		t.Errorf("order %s: wished and answered %v, want the first of two", o.ID, got)
	}
	b.settle(t)
	if got := seq(); got != [2]int{2, 2} {
		t.Errorf("order %s: wished and answered %v, want both", o.ID, got)
	}
	b.wantState(t, o, orders.Fulfilled)
	b.wantEffects(t, o, once(o))
}

// A read says what the provider has, and no more: an open checkout claims nothing, and a
// status never falls.
func TestAReadIsAppliedLikeAnEvent(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, tt := range []struct {
		name   string
		before func(t *testing.T, o order) error
		want   orders.State
	}{
		{"open", func(*testing.T, order) error { return nil }, orders.Pending},
		{"declined", func(_ *testing.T, o order) error { _, err := b.sim.Decline(o.checkouts[0].Session); return err }, orders.Pending},
		{"expired", func(_ *testing.T, o order) error { _, err := b.sim.Expire(o.checkouts[0].Session); return err }, orders.Expired},
		{"on its way", func(t *testing.T, o order) error {
			t.Helper()
			b.pay(t, o.checkouts[0], stripesim.PayOptions{Delayed: true})
			return nil
		}, orders.Confirming},
		{"paid", func(t *testing.T, o order) error {
			t.Helper()
			b.pay(t, o.checkouts[0], stripesim.PayOptions{})
			return nil
		}, orders.Fulfilled},
		{"paid with another amount", func(t *testing.T, o order) error {
			t.Helper()
			b.pay(t, o.checkouts[0], stripesim.PayOptions{Amount: new(int64)})
			return nil
		}, orders.Review},
	} {
		inTurn(t, tt.name, func() {
			o := b.order(t)
			if err := tt.before(t, o); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if err := b.service.ReadPayment(t.Context(), o.checkouts[0].PaymentID, noJob); err != nil {
					t.Fatal(err)
				}
				b.settle(t)
				b.wantState(t, o, tt.want)
			}
		})
	}
	o := b.unopened(t)
	err := b.service.ReadPayment(t.Context(), o.checkouts[0].PaymentID, noJob)
	if err == nil || !strings.Contains(err.Error(), "not open yet") {
		t.Errorf("order %s: a payment without a checkout is read: %v", o.ID, err)
	}
}

// The notice at the provider names the order and its licenses, under the order's own key, and
// is made once whatever happens to its answer.
func TestTheNoticeIsMadeOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	o := b.order(t)
	for _, e := range b.pay(t, o.checkouts[0], stripesim.PayOptions{}) {
		b.record(t, e.Body)
	}
	b.drain(t)
	if err := b.service.FulfillOrder(t.Context(), o.ID, noJob); err != nil {
		t.Fatal(err)
	}
	key := "fulfill:" + o.ID.String()
	for _, fault := range []stripesim.Fault{
		{Status: 429, RetryAfter: "7"}, {Status: 409}, // turned away before anything was done
		{Kind: stripesim.LoseRequest}, {Kind: stripesim.LoseAnswer},
	} {
		fault.Method, fault.Path = http.MethodPost, "/v1/payment_intents"
		b.sim.Inject(fault)
		var retry *provider.RetryError
		if err := b.service.PerformCall(t.Context(), key, noJob); !errors.As(err, &retry) {
			t.Errorf("order %s: %v, want to be called again", o.ID, err)
		} else if want := map[bool]time.Duration{true: 7 * time.Second}[fault.RetryAfter != ""]; retry.After != want {
			t.Errorf("order %s: again after %s, want %s", o.ID, retry.After, want)
		}
	}
	b.settle(t)
	b.wantEffects(t, o, once(o))
	var ids string
	for _, call := range b.sim.Calls() {
		if call.IdempotencyKey == key {
			if ids == "" {
				ids = string(call.Body)
			}
			if string(call.Body) != ids {
				t.Errorf("order %s: the attempts differ:\n%s\n%s", o.ID, ids, call.Body)
			}
		}
	}
	for id := range strings.SplitSeq(value[string](t, b, `SELECT string_agg(CAST(id AS text), ' ') FROM licenses WHERE order_id = ?`, o.ID), " ") {
		if !strings.Contains(ids, id) {
			t.Errorf("order %s: the notice does not name license %s: %s", o.ID, id, ids)
		}
	}
}
