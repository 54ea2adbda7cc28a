package stripesim

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stripe/stripe-go/v79"
)

// TestPageAfterwards: what a person does to a payment on its page: settle, refund, let it fail, dispute, capture.
func TestPageAfterwards(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{})
	manual := newParams()
	manual.PaymentIntentData.CaptureMethod = stripe.String("manual")
	s, err := b.api.CheckoutSessions.New(manual)
	if err != nil {
		t.Fatal(err)
	}
	card, late, lost, gone := b.create(t).ID, b.create(t).ID, b.create(t).ID, b.create(t).ID
	last := map[string]string{} // refund and dispute ids
	for _, c := range []struct {
		session, form, outcome string
		status                 int
	}{
		{card, "action=refund", "refused", 404},
		{card, "action=pay&method=chargeDeclinedExpiredCard", "declined", 402},
		{card, "action=pay&method=nothing", "refused", 400},
		{card, "action=pay&method=visa&email=ada@example.com", "paid", 200},
		{card, "action=refund&amount=100", "refunded", 200},
		{card, "action=refund_fails&refund={refund}", "refund_failed", 200},
		{card, "action=refund_fails&refund={refund}", "refused", 409},
		{card, "action=refund_pending&amount=200", "refunded", 200},
		{card, "action=refund_passes&refund={refund}", "refund_succeeded", 200},
		{card, "action=refund&amount=999999", "refused", 400},
		{card, "action=dispute&reason=fraudulent", "disputed", 200},
		{card, "action=dispute_won&dispute={dispute}", "dispute_won", 200},
		{card, "action=dispute&reason=inquiry", "disputed", 200},
		{card, "action=dispute_lost&dispute={dispute}", "dispute_lost", 200},
		{late, "action=pay&method=bank", "paid", 200},
		{late, "action=settle", "settled", 200},
		{late, "action=settle", "refused", 409},
		{lost, "action=pay&method=000123456789", "paid", 200},
		{lost, "action=bounce", "bounced", 200},
		{s.ID, "action=pay", "paid", 200},
		{s.ID, "action=capture&amount=1000", "captured", 200},
		{gone, "action=pay&amount=5&currency=usd&expected=", "paid", 200},
		{"cs_none", "action=settle", "refused", 404},
	} {
		form := strings.NewReplacer("{refund}", last["refund"], "{dispute}", last["dispute"]).Replace(c.form)
		r := b.do(t, "POST", "/pay/"+c.session, form, "Accept", "application/json")
		if r.status != c.status || dig(t, r.body, "outcome") != c.outcome {
			t.Errorf("%s: %d %s", c.form, r.status, r.body)
		}
		for _, kind := range []string{"refund", "dispute"} {
			if id, ok := dig(t, r.body, kind).(string); ok {
				last[kind] = id
			}
		}
		if p := b.do(t, "GET", "/pay/"+c.session, ""); c.session != "cs_none" && p.status != 200 {
			t.Errorf("%s: the page afterwards: %d %s", c.form, p.status, p.body)
		}
	}
	for id, want := range map[string][]string{
		card: {"warning closed", "won", "failed", "succeeded", "42.98 EUR"}, late: {"Complete: paid", `value="refund"`},
		lost: {"the payment failed"}, s.ID: {"Complete: paid", "10.00 EUR"}, gone: {"0.05 USD"},
	} {
		page := string(b.do(t, "GET", "/pay/"+id, "").body)
		for _, text := range want {
			if !strings.Contains(page, text) {
				t.Errorf("the page of %s lacks %q", id, text)
			}
		}
	}
}

// TestPageIsPlain: a label for every field, no script, a heading, and nothing of the query shown.
func TestPageIsPlain(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{})
	p := newParams()
	p.AllowPromotionCodes = stripe.Bool(true)
	open, err := b.api.CheckoutSessions.New(p)
	if err != nil {
		t.Fatal(err)
	}
	paid := b.paid(t, "createDispute").SessionID
	for _, path := range []string{open.ID, paid, paid + "?done=refunded", open.ID + "?declined=1&done=<b>"} {
		page := string(b.do(t, "GET", "/pay/"+path, "").body)
		for _, bad := range []string{"<script", "&lt;b&gt;", "<b>", "ZgotmplZ"} {
			if strings.Contains(page, bad) {
				t.Errorf("%s has %s", path, bad)
			}
		}
		fields := strings.Count(page, "<input ") + strings.Count(page, "<select ") - strings.Count(page, `type="hidden"`)
		if labels := strings.Count(page, "<label for="); labels != fields {
			t.Errorf("%s: %d labels of %d fields", path, labels, fields)
		}
		if !strings.Contains(page, `<html lang="en">`) || strings.Count(page, "<h1") != 1 || !strings.Contains(page, `name="viewport"`) {
			t.Errorf("%s: %s", path, page)
		}
	}
	if got := fmt.Sprint(len(methodGroups())); got != "3" {
		t.Errorf("%s groups", got)
	}
}
