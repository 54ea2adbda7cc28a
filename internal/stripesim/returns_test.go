package stripesim

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/stripe/stripe-go/v79"
)

// paid is a session of newTotal paid by a card.
func (b bundle) paid(t *testing.T, card string) Payment {
	t.Helper()
	return b.pay(t, b.create(t).ID, PayOptions{Method: card})
}

func field(t *testing.T, look func(string) ([]byte, bool), id string, path ...string) string {
	t.Helper()
	doc, ok := look(id)
	if !ok {
		t.Fatalf("no %s", id)
	}
	return fmt.Sprint(dig(t, doc, path...))
}

// TestRefunds: several partial ones add up, the last completes it, one more is refused; the charge's event names no refund.
func TestRefunds(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{})
	p := b.paid(t, "")
	for i, amount := range []int64{1000, 500, 0} {
		id, events, err := b.sim.Refund(p.PaymentIntentID, amount, "")
		if err != nil || kinds(events) != "charge.refunded" {
			t.Fatalf("refund %d: %s, %v", i, kinds(events), err)
		}
		if got := field(t, b.sim.RefundObject, id, "status"); got != "succeeded" {
			t.Errorf("refund %d: %s", i, got)
		}
		want := []string{"1000 false", "1500 false", fmt.Sprint(newTotal, " true")}[i]
		got := fmt.Sprint(dig(t, events[0].Body, "data", "object", "amount_refunded"), " ",
			dig(t, events[0].Body, "data", "object", "refunded"))
		if got != want {
			t.Errorf("after refund %d: %s, want %s", i, got, want)
		}
	}
	if _, _, err := b.sim.Refund(p.ChargeID, 1, ""); !errors.Is(err, ErrBadAmount) {
		t.Errorf("refunded too much: %v", err)
	}
	if _, _, err := b.sim.Refund("ch_none", 1, ""); !errors.Is(err, ErrNoPayment) {
		t.Errorf("refunded nothing: %v", err)
	}
	it := b.api.Refunds.List(&stripe.RefundListParams{PaymentIntent: stripe.String(p.PaymentIntentID)})
	var amounts []int64
	for it.Next() {
		amounts = append(amounts, it.Refund().Amount)
	}
	if got := fmt.Sprint(amounts); got != fmt.Sprint([]int64{newTotal - 1500, 500, 1000}) {
		t.Errorf("listed %s", got)
	}
}

// TestRefundFails: the money is back at the merchant, and charge and refund say so.
func TestRefundFails(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{})
	p := b.paid(t, "")
	id, _, err := b.sim.Refund(p.ChargeID, 700, "", Held)
	if err != nil {
		t.Fatal(err)
	}
	events, err := b.sim.FailRefund(id)
	if err != nil || kinds(events) != "charge.refund.updated" {
		t.Fatalf("%s, %v", kinds(events), err)
	}
	if got := dig(t, events[0].Body, "data", "object", "failure_reason"); got != "lost_or_stolen_card" {
		t.Errorf("failure_reason %v", got)
	}
	if got := field(t, b.sim.Charge, p.ChargeID, "amount_refunded"); got != "0" {
		t.Errorf("amount_refunded %s", got)
	}
	if _, err := b.sim.FailRefund(id); !errors.Is(err, ErrNotPossible) {
		t.Errorf("failed twice: %v", err)
	}
}

// TestRefundCards: what Stripe's test cards do with a refund, at once or after Lag by the clock.
func TestRefundCards(t *testing.T) {
	t.Parallel()
	for card, want := range map[string]string{"4000000000005126": "failed", "pendingRefund": "succeeded"} {
		b := setup(t, Config{Lag: 1 << 40}) // 18 minutes
		p := b.paid(t, card)
		r, err := b.api.Refunds.New(&stripe.RefundParams{Charge: stripe.String(p.ChargeID)})
		if err != nil {
			t.Fatal(err)
		}
		if first := map[string]string{"failed": "succeeded", "succeeded": "pending"}[want]; string(r.Status) != first {
			t.Errorf("%s: at first %s", card, r.Status)
		}
		if events := b.sim.Tick(); len(events) != 0 {
			t.Errorf("%s: too soon %s", card, kinds(events))
		}
		if got := kinds(b.sim.Advance(1 << 41)); got != "charge.refund.updated" {
			t.Errorf("%s: %s", card, got)
		}
		if got := field(t, b.sim.RefundObject, r.ID, "status"); got != want {
			t.Errorf("%s: %s, want %s", card, got, want)
		}
	}
}

func TestRefundByAPI(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{})
	p := b.paid(t, "")
	r := b.do(t, "POST", "/v1/refunds", "payment_intent="+p.PaymentIntentID+"&amount=5&reason=duplicate&metadata[a]=1&expand[]=charge")
	if r.status != 200 || dig(t, r.body, "charge", "amount_refunded") != json.Number("5") || dig(t, r.body, "reason") != "duplicate" {
		t.Fatalf("%d %s", r.status, r.body)
	}
	id, _ := dig(t, r.body, "id").(string)
	if r := b.do(t, "POST", "/v1/refunds/"+id, "metadata[b]=2"); fmt.Sprint(dig(t, r.body, "metadata")) != "map[a:1 b:2]" {
		t.Errorf("%s", r.body)
	}
	if r := b.do(t, "POST", "/v1/refunds/"+id+"/cancel", ""); r.status != 400 {
		t.Errorf("canceled one that succeeded: %d", r.status)
	}
	pending, _, err := b.sim.Refund(p.ChargeID, 10, "pending")
	if err != nil {
		t.Fatal(err)
	}
	if r := b.do(t, "POST", "/v1/refunds/"+pending+"/cancel", ""); dig(t, r.body, "status") != "canceled" {
		t.Errorf("%s", r.body)
	}
	if got := field(t, b.sim.Charge, p.ChargeID, "amount_refunded"); got != "5" {
		t.Errorf("amount_refunded %s", got)
	}
	late := b.pay(t, b.create(t).ID, PayOptions{Delayed: true})
	for form, code := range map[string]string{
		"": "parameter_missing", "charge=ch_x": "resource_missing", "payment_intent=pi_x": "resource_missing",
		"charge=" + p.ChargeID + "&amount=0": "parameter_invalid_integer", "charge=" + p.ChargeID + "&amount=99999": "amount_too_large",
		"charge=" + late.ChargeID: "charge_not_refundable",
	} {
		if r := b.do(t, "POST", "/v1/refunds", form); r.status != 400 || r.err.Code != code {
			t.Errorf("%q: %d %s", form, r.status, r.body)
		}
	}
	b.do(t, "POST", "/v1/refunds", "charge="+p.ChargeID)
	if r := b.do(t, "POST", "/v1/refunds", "charge="+p.ChargeID); r.err.Code != "charge_already_refunded" {
		t.Errorf("%d %s", r.status, r.body)
	}
}

// TestDisputes through their life, each with its events and what the money did.
func TestDisputes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		reason, result, opened, closed, status string
		moved                                  int // balance transactions in the end
	}{
		{"fraudulent", "won", "charge.dispute.created charge.dispute.funds_withdrawn", "charge.dispute.closed charge.dispute.funds_reinstated", "won", 2},
		{"product_not_received", "lost", "charge.dispute.created charge.dispute.funds_withdrawn", "charge.dispute.closed", "lost", 1},
		{"inquiry", "won", "charge.dispute.created", "charge.dispute.closed", "warning_closed", 0},
	} {
		b := setup(t, Config{})
		p := b.paid(t, "")
		id, events, err := b.sim.OpenDispute(p.PaymentIntentID, 0, c.reason)
		if err != nil || kinds(events) != c.opened {
			t.Fatalf("%s: %s, %v", c.reason, kinds(events), err)
		}
		if got := field(t, b.sim.Charge, p.ChargeID, "disputed"); got != "true" {
			t.Errorf("%s: disputed %s", c.reason, got)
		}
		r := b.do(t, "POST", "/v1/refunds", "charge="+p.ChargeID+"&amount=1")
		if want := map[bool]int{true: 200, false: 400}[c.reason == "inquiry"]; r.status != want {
			t.Errorf("%s: a refund meanwhile: %d", c.reason, r.status)
		}
		events, err = b.sim.CloseDispute(id, c.result)
		if err != nil || kinds(events) != c.closed || field(t, b.sim.Dispute, id, "status") != c.status {
			t.Errorf("%s %s: %s, %v", c.reason, c.result, kinds(events), err)
		}
		doc, _ := b.sim.Dispute(id)
		if got := len(dig(t, doc, "balance_transactions").([]any)); got != c.moved {
			t.Errorf("%s %s: money moved %d times", c.reason, c.result, got)
		}
		if _, err := b.sim.CloseDispute(id, "lost"); !errors.Is(err, ErrNotPossible) {
			t.Errorf("closed twice: %v", err)
		}
		// The same charge again.
		if _, _, err := b.sim.OpenDispute(p.ChargeID, 100, ""); err != nil || len(b.sim.Disputes()) != 2 {
			t.Errorf("second dispute: %v", err)
		}
	}
}

// TestDisputeByCard: paid by 4000 0000 0000 0259, answered by the API, decided by the words of Stripe's tests.
func TestDisputeByCard(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"winning_evidence": "won", "losing_evidence": "lost", "a long story": "under_review"} {
		b := setup(t, Config{})
		p := b.paid(t, "4000 0000 0000 0259")
		if got := kinds(p.Events[4:]); got != "charge.dispute.created charge.dispute.funds_withdrawn" {
			t.Fatalf("events %s", kinds(p.Events))
		}
		it := b.api.Disputes.List(&stripe.DisputeListParams{PaymentIntent: stripe.String(p.PaymentIntentID)})
		if !it.Next() {
			t.Fatal(it.Err())
		}
		d := it.Dispute()
		staged := &stripe.DisputeParams{
			Submit: stripe.Bool(false), Evidence: &stripe.DisputeEvidenceParams{CustomerName: stripe.String("Ada")},
		}
		if d, err := b.api.Disputes.Update(d.ID, staged); err != nil || d.Status != "needs_response" || !d.EvidenceDetails.HasEvidence {
			t.Errorf("staged: %+v, %v", d, err)
		}
		answer := &stripe.DisputeParams{Evidence: &stripe.DisputeEvidenceParams{UncategorizedText: stripe.String(text)}}
		d, err := b.api.Disputes.Update(d.ID, answer)
		if err != nil || string(d.Status) != want || d.EvidenceDetails.SubmissionCount != 1 || d.Evidence.CustomerName != "Ada" {
			t.Errorf("%s: %+v, %v", text, d, err)
		}
		if want == "under_review" {
			if d, err = b.api.Disputes.Close(d.ID, nil); err != nil || d.Status != "lost" {
				t.Errorf("closed: %v", err)
			}
		}
	}
}

func TestEscalate(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{})
	p := b.paid(t, "createDisputeInquiry")
	id := b.sim.Disputes()[0]
	if got := field(t, b.sim.Dispute, id, "status"); got != "warning_needs_response" {
		t.Errorf("status %s", got)
	}
	events, err := b.sim.EscalateDispute(id)
	if err != nil || kinds(events) != "charge.dispute.updated charge.dispute.funds_withdrawn" {
		t.Errorf("%s, %v", kinds(events), err)
	}
	if _, err := b.sim.EscalateDispute(id); !errors.Is(err, ErrNotPossible) {
		t.Errorf("twice: %v", err)
	}
	if _, _, err := b.sim.OpenDispute(p.ChargeID, newTotal+1, ""); !errors.Is(err, ErrBadAmount) {
		t.Errorf("too much: %v", err)
	}
}

// TestHeld: every action can keep its events back.
func TestHeld(t *testing.T) {
	t.Parallel()
	rec := newReceiver(t, nil)
	b := setup(t, Config{Webhooks: []Endpoint{{URL: rec.url, Secrets: []string{secret}}}})
	p := b.pay(t, b.create(t).ID, PayOptions{Hold: true})
	late := b.pay(t, b.create(t).ID, PayOptions{Hold: true, Delayed: true})
	refundID, _, err1 := b.sim.Refund(p.ChargeID, 5, "", Held)
	_, err2 := b.sim.FailRefund(refundID, Held)
	disputeID, _, err3 := b.sim.OpenDispute(p.ChargeID, 0, "", Held)
	_, err4 := b.sim.CloseDispute(disputeID, "won", Held)
	_, err5 := b.sim.SettleDelayed(late.SessionID, false, Held)
	_, err6 := b.sim.Decline(b.create(t).ID, Held)
	_, err7 := b.sim.Expire(b.create(t).ID, Held)
	if err := errors.Join(err1, err2, err3, err4, err5, err6, err7); err != nil {
		t.Fatal(err)
	}
	b.idle(t)
	if n := len(rec.deliveries()); n != 0 {
		t.Errorf("%d deliveries", n)
	}
}
