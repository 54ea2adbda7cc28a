package stripesim

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stripe/stripe-go/v79"
)

const (
	paidEvents = "payment_intent.created charge.succeeded payment_intent.succeeded checkout.session.completed"
	lateEvents = "payment_intent.created payment_intent.processing charge.pending checkout.session.completed"
)

func TestPay(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{})
	s := b.create(t)
	p := b.pay(t, s.ID, PayOptions{Email: "grace@example.com", Name: "Grace"})
	if got := kinds(p.Events); got != paidEvents {
		t.Errorf("events: %s", got)
	}
	done := p.Events[3].Body
	for path, want := range map[string]any{
		"id": s.ID, "payment_status": "paid", "status": "complete", "payment_intent": p.PaymentIntentID,
		"amount_total": json.Number(fmt.Sprint(newTotal)), "currency": "eur",
	} {
		if got := dig(t, done, "data", "object", path); got != want {
			t.Errorf("completed: %s = %v, want %v", path, got, want)
		}
	}
	if got := dig(t, done, "data", "object", "customer_details", "email"); got != "grace@example.com" {
		t.Errorf("email = %v", got)
	}
	// The events of intent and charge name the page's request; the session's names none.
	if dig(t, done, "request", "id") != nil || dig(t, p.Events[1].Body, "request", "id") == nil {
		t.Error("request objects of the events are not as Stripe's")
	}
	// Snapshots: the intent of payment_intent.created had not been paid.
	if got := dig(t, p.Events[0].Body, "data", "object", "status"); got != "requires_payment_method" {
		t.Errorf("created with status %v", got)
	}
	if _, err := b.sim.Pay(s.ID, PayOptions{}); !errors.Is(err, ErrNotOpen) {
		t.Errorf("paid twice: %v", err)
	}
	if _, err := b.sim.Pay("cs_test_none", PayOptions{}); !errors.Is(err, ErrNoSession) {
		t.Errorf("paid nothing: %v", err)
	}
}

// TestPayAnother amount or currency: session, intent and charge all state what was paid, not what was asked.
func TestPayAnother(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{})
	s := b.create(t)
	p := b.pay(t, s.ID, PayOptions{Amount: stripe.Int64(1), Currency: "USD"})
	intent, _ := b.sim.PaymentIntent(p.PaymentIntentID)
	ch, _ := b.sim.Charge(p.ChargeID)
	session, _ := b.sim.Session(s.ID)
	for _, c := range []struct {
		doc   []byte
		field string
	}{
		{session, "amount_total"},
		{session, "amount_subtotal"},
		{intent, "amount"},
		{intent, "amount_received"},
		{ch, "amount"},
		{ch, "amount_captured"},
	} {
		if got := dig(t, c.doc, c.field); got != json.Number("1") {
			t.Errorf("%s = %v", c.field, got)
		}
		if got := dig(t, c.doc, "currency"); got != "usd" {
			t.Errorf("currency = %v", got)
		}
	}
	for _, o := range []PayOptions{{Amount: stripe.Int64(-1)}, {Currency: "dollars"}} {
		if _, err := b.sim.Pay(b.create(t).ID, o); !errors.Is(err, ErrBadPayment) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

func TestPayNothing(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{})
	s := b.create(t)
	p := b.pay(t, s.ID, PayOptions{Amount: stripe.Int64(0)})
	if got := kinds(p.Events); got != "checkout.session.completed" || p.PaymentIntentID != "" || p.ChargeID != "" {
		t.Errorf("%s %+v", got, p)
	}
	if got := dig(t, p.Events[0].Body, "data", "object", "payment_status"); got != "no_payment_required" {
		t.Errorf("payment_status %v", got)
	}
}

func TestDelayed(t *testing.T) {
	t.Parallel()
	for _, ok := range []bool{true, false} {
		b := setup(t, Config{})
		s := b.create(t)
		if _, err := b.sim.SettleDelayed(s.ID, ok); !errors.Is(err, ErrNotProcessing) {
			t.Errorf("settled before it was paid: %v", err)
		}
		p := b.pay(t, s.ID, PayOptions{Delayed: true})
		if got := kinds(p.Events); got != lateEvents {
			t.Errorf("events: %s", got)
		}
		if got := dig(t, p.Events[3].Body, "data", "object", "payment_status"); got != "unpaid" {
			t.Errorf("completed with %v", got)
		}
		intent, _ := b.sim.PaymentIntent(p.PaymentIntentID)
		if dig(t, intent, "status") != "processing" || dig(t, intent, "amount_received") != json.Number("0") {
			t.Errorf("intent: %s", intent)
		}

		events, err := b.sim.SettleDelayed(s.ID, ok)
		if err != nil {
			t.Fatal(err)
		}
		want, status, intentStatus := "charge.succeeded payment_intent.succeeded checkout.session.async_payment_succeeded",
			"paid", "succeeded"
		if !ok {
			want = "charge.failed payment_intent.payment_failed checkout.session.async_payment_failed"
			status, intentStatus = "unpaid", "requires_payment_method"
		}
		if got := kinds(events); got != want {
			t.Errorf("settled %v: %s", ok, got)
		}
		if got := dig(t, events[2].Body, "data", "object", "payment_status"); got != status {
			t.Errorf("settled %v: %v", ok, got)
		}
		if got := dig(t, events[1].Body, "data", "object", "status"); got != intentStatus {
			t.Errorf("settled %v: intent %v", ok, got)
		}
		if _, err := b.sim.SettleDelayed(s.ID, ok); !errors.Is(err, ErrNotProcessing) {
			t.Errorf("settled twice: %v", err)
		}
	}
}

// TestDeclineThenPay: the session stays open, the intent stays the same one, the charge is another.
func TestDeclineThenPay(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{})
	s := b.create(t)
	first, err := b.sim.Decline(s.ID)
	if err != nil {
		t.Fatal(err)
	}
	if got := kinds(first); got != "payment_intent.created charge.failed payment_intent.payment_failed" {
		t.Errorf("declined: %s", got)
	}
	if got := dig(t, first[2].Body, "data", "object", "last_payment_error", "code"); got != "card_declined" {
		t.Errorf("last_payment_error.code %v", got)
	}
	second, err := b.sim.Decline(s.ID)
	if err != nil || kinds(second) != "charge.failed payment_intent.payment_failed" {
		t.Errorf("declined again: %s, %v", kinds(second), err)
	}
	p := b.pay(t, s.ID, PayOptions{})
	if got := kinds(p.Events); got != "charge.succeeded payment_intent.succeeded checkout.session.completed" {
		t.Errorf("paid: %s", got)
	}
	if got := dig(t, first[2].Body, "data", "object", "id"); got != p.PaymentIntentID {
		t.Errorf("intent %v, then %s", got, p.PaymentIntentID)
	}
	intent, _ := b.sim.PaymentIntent(p.PaymentIntentID)
	if dig(t, intent, "last_payment_error") != nil || dig(t, intent, "latest_charge") != p.ChargeID {
		t.Errorf("intent after payment: %s", intent)
	}
}

func TestExpire(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{})
	events, err := b.sim.Expire(b.create(t).ID)
	if err != nil || kinds(events) != "checkout.session.expired" {
		t.Fatalf("%s, %v", kinds(events), err)
	}
	if got := dig(t, events[0].Body, "data", "object", "status"); got != "expired" {
		t.Errorf("status %v", got)
	}

	// By the API: the event names the request that did it.
	params := &stripe.CheckoutSessionExpireParams{}
	params.SetIdempotencyKey("expire:1")
	s, err := b.api.CheckoutSessions.Expire(b.create(t).ID, params)
	if err != nil || s.Status != "expired" || s.URL != "" {
		t.Fatalf("%+v, %v", s, err)
	}
	all := b.sim.Events()
	if got := dig(t, all[len(all)-1].Body, "request", "idempotency_key"); got != "expire:1" {
		t.Errorf("request.idempotency_key %v", got)
	}
	if _, err := b.sim.Pay(s.ID, PayOptions{}); !errors.Is(err, ErrNotOpen) {
		t.Errorf("paid an expired session: %v", err)
	}
	if _, err := b.api.CheckoutSessions.Expire(s.ID, nil); err == nil {
		t.Error("expired twice")
	}
}

// TestLate: a buyer cannot pay past expires_at, even before anybody expires the session.
func TestLate(t *testing.T) {
	t.Parallel()
	var now atomic.Int64
	now.Store(1_700_000_000)
	b := setup(t, Config{Now: func() time.Time { return time.Unix(now.Load(), 0) }})
	s := b.create(t)
	now.Add(24 * 60 * 60)
	if _, err := b.sim.Pay(s.ID, PayOptions{}); !errors.Is(err, ErrNotOpen) {
		t.Errorf("paid late: %v", err)
	}
}

func TestLivemode(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{Livemode: true})
	if r := b.do(t, "POST", "/v1/checkout/sessions", form()); r.status != 401 {
		t.Errorf("a test key in live mode: %d", r.status)
	}
	r := b.do(t, "POST", "/v1/checkout/sessions", form(), "Authorization", "Bearer rk_live_1")
	id, _ := dig(t, r.body, "id").(string)
	if len(id) != len("cs_live_")+58 || id[:8] != "cs_live_" || dig(t, r.body, "livemode") != true {
		t.Errorf("%s", r.body)
	}
	if p := b.pay(t, id, PayOptions{}); dig(t, p.Events[0].Body, "livemode") != true {
		t.Error("event is not live")
	}
}

// TestActionsTellOfTheirOwn: what else has fallen due meanwhile is no part of an action's events.
func TestActionsTellOfTheirOwn(t *testing.T) {
	t.Parallel()
	var now atomic.Int64
	now.Store(1_700_000_000)
	b := setup(t, Config{Now: func() time.Time { return time.Unix(now.Load(), 0) }, Lag: time.Hour})
	b.create(t)
	first := b.pay(t, b.create(t).ID, PayOptions{Method: "createDispute"})
	now.Add(2 * 24 * 60 * 60)
	if _, events, err := b.sim.Refund(first.ChargeID, 1, ""); err != nil || kinds(events) != "charge.refunded" {
		t.Errorf("%s, %v", kinds(events), err)
	}
	want := "charge.dispute.created charge.dispute.funds_withdrawn checkout.session.expired"
	if got := kinds(b.sim.Tick()); got != want {
		t.Errorf("then %s", got)
	}
}
