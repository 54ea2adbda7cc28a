package provider_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"

	"paidonce/internal/provider"
)

// listed serves a session that is paid, with what went back of it.
func listed(t *testing.T, session, intent map[string]any, refunds, disputes []any) *provider.Stripe {
	t.Helper()
	intent["id"], intent["object"], intent["status"] = "pi_1", "payment_intent", "succeeded"
	session["id"], session["object"], session["status"], session["payment_status"] = "cs_1", "checkout.session", "complete", "paid"
	session["payment_intent"] = intent
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		list := func(data []any) map[string]any {
			return map[string]any{"object": "list", "data": data, "has_more": false}
		}
		var body map[string]any
		switch r.URL.Path {
		case "/v1/checkout/sessions/cs_1":
			body = session
		case "/v1/refunds":
			body = list(refunds)
		case "/v1/disputes":
			body = list(disputes)
		}
		if r.URL.Path != "/v1/checkout/sessions/cs_1" && r.URL.Query().Get("payment_intent") != "pi_1" {
			t.Errorf("listed %s, want what belongs to the intent", r.URL)
		}
		_ = json.NewEncoder(w).Encode(body)
	}))
	t.Cleanup(server.Close)
	return provider.NewStripe(provider.StripeConfig{Key: secretKey, Base: server.URL})
}

// TestB24_RefundsOfAConvertedPayment: the buyer was charged 19.99 euro for 21.50 dollars. What
// goes back is stated in euro, and is the same part of the dollars. Only all of it is all.
func TestB24_RefundsOfAConvertedPayment(t *testing.T) {
	t.Parallel()
	refund := func(id string, minor int64, status string) any {
		return map[string]any{"id": id, "object": "refund", "amount": minor, "currency": "EUR", "status": status, "created": 1740830400}
	}
	dispute := map[string]any{
		"id": "dp_1", "object": "dispute", "amount": 1999, "currency": "eur", "status": "needs_response", "reason": "fraudulent", "created": 1740830400,
	}
	for name, test := range map[string]struct {
		refunds, disputes []any // the newest first
		refunded          int64
		want              []string
	}{
		"nothing":     {nil, nil, 0, nil},
		"a cent":      {[]any{refund("re_1", 1, "succeeded")}, nil, 1, []string{"refund 1 eur succeeded"}}, // 1.07
		"a part":      {[]any{refund("re_1", 500, "succeeded")}, nil, 537, []string{"refund 500 eur succeeded"}},
		"all but one": {[]any{refund("re_1", 1998, "succeeded")}, nil, 2148, []string{"refund 1998 eur succeeded"}},
		"all":         {[]any{refund("re_1", 1999, "pending")}, nil, 2150, []string{"refund 1999 eur pending"}},
		"all in two": {
			[]any{refund("re_2", 999, "succeeded"), refund("re_1", 1000, "succeeded")},
			nil, 2150,
			[]string{"refund 1000 eur succeeded", "refund 999 eur succeeded"},
		},
		"more than all":      {[]any{refund("re_1", 2005, "succeeded")}, nil, 2150, []string{"refund 2005 eur succeeded"}},
		"all, and it failed": {[]any{refund("re_1", 1999, "failed")}, nil, 0, []string{"refund 1999 eur failed"}},
		"disputed":           {nil, []any{dispute}, 0, []string{"dispute 1999 eur needs_response fraudulent"}},
	} {
		stripe := listed(t, map[string]any{
			"currency": "eur", "amount_total": 1999, "amount_subtotal": 1999,
			"currency_conversion": map[string]any{"amount_subtotal": 2150, "amount_total": 2150, "fx_rate": "0.9298", "source_currency": "usd"},
		}, map[string]any{"amount": 1999, "amount_received": 1999, "currency": "eur"}, test.refunds, test.disputes)
		got, err := stripe.ReadPayment(t.Context(), "cs_1")
		must(t, err)
		if got.ReceivedMinor != 2150 || got.Currency != "usd" || got.Returns.ChargedCurrency != "eur" || got.Returns.RefundedMinor != test.refunded {
			t.Errorf("%s: %d of %d %s went back, charged in %s; want %d of 2150 usd, charged in eur",
				name, got.Returns.RefundedMinor, got.ReceivedMinor, got.Currency, got.Returns.ChargedCurrency, test.refunded)
		}
		if diff := cmp.Diff(test.want, inWords(got.Returns)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// Where the rest of a capture is not among the refunds, none of them is taken for it.
func TestB49_TheRestOfACaptureIsNotListed(t *testing.T) {
	t.Parallel()
	stripe := listed(t, map[string]any{"currency": "usd", "amount_total": 1999}, map[string]any{
		"amount": 1999, "amount_received": 1499, "currency": "usd",
		"latest_charge": map[string]any{"id": "ch_1", "object": "charge", "amount": 1999, "amount_captured": 1499, "captured": true},
	}, []any{map[string]any{"id": "re_1", "object": "refund", "amount": 200, "currency": "usd", "status": "succeeded"}}, nil)
	got, err := stripe.ReadPayment(t.Context(), "cs_1")
	must(t, err)
	if got.ReceivedMinor != 1499 || got.Returns.RefundedMinor != 200 {
		t.Errorf("%d of %d went back, want 200 of 1499", got.Returns.RefundedMinor, got.ReceivedMinor)
	}
}

// The largest sums do not overflow on the way to their part.
func TestReadPayment_RefundOfALargeConvertedSum(t *testing.T) {
	t.Parallel()
	const large = 9_000_000_000_000_000_000
	stripe := listed(t, map[string]any{
		"currency": "eur", "amount_total": large,
		"currency_conversion": map[string]any{"amount_subtotal": large, "amount_total": large, "fx_rate": "1", "source_currency": "usd"},
	}, map[string]any{"amount": int64(large), "amount_received": int64(large), "currency": "eur"},
		[]any{map[string]any{"id": "re_1", "object": "refund", "amount": int64(large / 2), "currency": "eur", "status": "succeeded"}}, nil)
	got, err := stripe.ReadPayment(t.Context(), "cs_1")
	must(t, err)
	if got.Returns.RefundedMinor != large/2 {
		t.Errorf("%d went back, want half of %d", got.Returns.RefundedMinor, int64(large))
	}
}

// A refund or a dispute whose amount is none of ours stops the read: no later one knows better.
func TestReadPayment_ReturnsThatCannotBeTold(t *testing.T) {
	t.Parallel()
	strange := map[string]any{"id": "x_1", "amount": 50, "currency": "isk", "status": "succeeded"} // half a krona
	for name, lists := range map[string][2][]any{"refund": {{strange}, nil}, "dispute": {nil, {strange}}} {
		stripe := listed(t, map[string]any{"currency": "isk", "amount_total": 50000},
			map[string]any{"amount": 50000, "amount_received": 50000, "currency": "isk"}, lists[0], lists[1])
		got, err := stripe.ReadPayment(t.Context(), "cs_1")
		if !errors.Is(err, provider.ErrRefused) || !cmp.Equal(got, provider.PaymentState{}) {
			t.Errorf("%s: got %+v and %v, want it refused", name, got, err)
		}
	}
}
