package stripesim

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/stripe/stripe-go/v79"
)

// TestIntentByAPI: create, confirm and what every kind of test card makes of it.
func TestIntentByAPI(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		method, capture, status, events string
		declined                        string
	}{
		{"pm_card_visa", "automatic", "succeeded", "payment_intent.created charge.succeeded payment_intent.succeeded", ""},
		{"pm_card_visa", "manual", "requires_capture", "payment_intent.created charge.succeeded payment_intent.amount_capturable_updated", ""},
		{"pm_card_chargeDeclinedInsufficientFunds", "automatic", "requires_payment_method", "payment_intent.created charge.failed payment_intent.payment_failed", "insufficient_funds"},
		{"pm_card_authenticationRequired", "automatic", "requires_action", "payment_intent.created payment_intent.requires_action", ""},
		{"pm_card_createDispute", "automatic", "succeeded", "payment_intent.created charge.succeeded payment_intent.succeeded charge.dispute.created charge.dispute.funds_withdrawn", ""},
	} {
		b := setup(t, Config{})
		pi, err := b.api.PaymentIntents.New(&stripe.PaymentIntentParams{
			Amount: stripe.Int64(2000), Currency: stripe.String("EUR"), PaymentMethod: &c.method, CaptureMethod: &c.capture,
			Confirm: stripe.Bool(true),
		})
		if c.declined != "" {
			var e *stripe.Error
			if !errors.As(err, &e) || e.HTTPStatusCode != 402 || string(e.DeclineCode) != c.declined || e.PaymentIntent == nil {
				t.Errorf("%s: %v", c.method, err)
				continue
			}
			pi = e.PaymentIntent
		} else if err != nil {
			t.Errorf("%s: %v", c.method, err)
			continue
		}
		if string(pi.Status) != c.status || kinds(b.sim.Events()) != c.events {
			t.Errorf("%s %s: %s, %s", c.method, c.capture, pi.Status, kinds(b.sim.Events()))
		}
		switch c.status {
		case "requires_action":
			if pi, err = b.api.PaymentIntents.Confirm(pi.ID, nil); err != nil || pi.Status != "succeeded" {
				t.Errorf("authenticated: %v", err)
			}
		case "requires_payment_method":
			again := &stripe.PaymentIntentConfirmParams{PaymentMethod: stripe.String("pm_card_mastercard")}
			if pi, err = b.api.PaymentIntents.Confirm(pi.ID, again); err != nil || pi.Status != "succeeded" {
				t.Errorf("another card: %v", err)
			}
		case "succeeded":
			if _, err = b.api.PaymentIntents.Cancel(pi.ID, nil); err == nil {
				t.Error("canceled one that succeeded")
			}
		}
	}
}

// TestManualCapture: a session paid so is complete and unpaid until the capture, which may take less.
func TestManualCapture(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{})
	params := newParams()
	params.PaymentIntentData.CaptureMethod = stripe.String("manual")
	s, err := b.api.CheckoutSessions.New(params)
	if err != nil {
		t.Fatal(err)
	}
	p := b.pay(t, s.ID, PayOptions{})
	if got := dig(t, p.Events[len(p.Events)-1].Body, "data", "object", "payment_status"); got != "unpaid" {
		t.Errorf("completed with %v", got)
	}
	if _, err := b.sim.Capture(p.PaymentIntentID, newTotal+1); !errors.Is(err, ErrBadAmount) {
		t.Errorf("captured too much: %v", err)
	}
	events, err := b.sim.Capture(p.PaymentIntentID, 1000)
	if err != nil || kinds(events) != "charge.captured charge.refunded payment_intent.succeeded" {
		t.Fatalf("%s, %v", kinds(events), err)
	}
	intent, _ := b.sim.PaymentIntent(p.PaymentIntentID)
	if dig(t, intent, "amount_received") != json.Number("1000") || dig(t, intent, "amount") != json.Number(fmt.Sprint(newTotal)) {
		t.Errorf("%s", intent)
	}
	if got := field(t, b.sim.Session, s.ID, "payment_status"); got != "paid" {
		t.Errorf("session %s", got)
	}
	if _, err := b.sim.Capture(p.PaymentIntentID, 0); !errors.Is(err, ErrNotPossible) {
		t.Errorf("captured twice: %v", err)
	}
}

func TestCaptureAndCancelByAPI(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{})
	create := func() string {
		r := b.do(t, "POST", "/v1/payment_intents", "amount=900&currency=usd&payment_method=pm_card_visa&confirm=true&capture_method=manual")
		id, _ := dig(t, r.body, "id").(string)
		return id
	}
	id := create()
	if r := b.do(t, "POST", "/v1/payment_intents/"+id+"/capture", "amount_to_capture=901"); r.err.Code != "amount_too_large" {
		t.Errorf("%d %s", r.status, r.body)
	}
	if r := b.do(t, "POST", "/v1/payment_intents/"+id+"/capture", ""); dig(t, r.body, "amount_received") != json.Number("900") {
		t.Errorf("%d %s", r.status, r.body)
	}
	r := b.do(t, "POST", "/v1/payment_intents/"+id+"/capture", "")
	if r.status != 400 || r.err.Code != "payment_intent_unexpected_state" {
		t.Errorf("%d %s", r.status, r.body)
	}
	id = create()
	r = b.do(t, "POST", "/v1/payment_intents/"+id+"/cancel", "cancellation_reason=abandoned")
	if dig(t, r.body, "status") != "canceled" || dig(t, r.body, "canceled_at") == nil {
		t.Errorf("%d %s", r.status, r.body)
	}
	for _, bad := range []string{
		"currency=usd", "amount=0&currency=usd", "amount=5&currency=us", "amount=5&currency=usd&confirm=true",
		"amount=5&currency=usd&payment_method=pm_x", "amount=5&currency=usd&customer=cus_1",
	} {
		if r := b.do(t, "POST", "/v1/payment_intents", bad); r.status != 400 {
			t.Errorf("%s: %d", bad, r.status)
		}
	}
}

// TestSepa: a delayed method by a test account settles by itself, at once or after three minutes by the clock.
func TestSepa(t *testing.T) {
	t.Parallel()
	for iban, want := range map[string]string{
		"AT611904300234573201": "checkout.session.async_payment_succeeded",
		"AT861904300235473202": "checkout.session.async_payment_failed",
		"AT321904300235473204": "",
	} {
		b := setup(t, Config{})
		s := b.create(t)
		r := b.do(t, "POST", "/v1/payment_methods", "type=sepa_debit&sepa_debit[iban]="+iban+"&billing_details[email]=b@example.com")
		pm, _ := dig(t, r.body, "id").(string)
		page := "/v1/payment_pages/" + s.ID
		if r := b.do(t, "POST", page+"/confirm", "payment_method="+pm+"&expected_amount=1"); r.err.Code != "checkout_amount_mismatch" {
			t.Errorf("another amount: %d %s", r.status, r.body)
		}
		r = b.do(t, "POST", page+"/confirm", fmt.Sprint("payment_method=", pm, "&expected_amount=", newTotal))
		if dig(t, r.body, "status") != "complete" || dig(t, r.body, "payment_status") != "unpaid" {
			t.Errorf("%d %s", r.status, r.body)
		}
		events := b.sim.Events()
		if want == "" {
			if last := events[len(events)-1].Type; last != "checkout.session.completed" {
				t.Errorf("%s settled at once: %s", iban, last)
			}
			events, want = b.sim.Advance(1<<38), "checkout.session.async_payment_succeeded" // 4½ minutes
		}
		if last := events[len(events)-1].Type; last != want {
			t.Errorf("%s: %s", iban, last)
		}
	}
}
