package provider_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"paidonce/internal/money"
	"paidonce/internal/provider"
	"paidonce/internal/stripesim"
)

// session opens a checkout at the simulated Stripe; free costs nothing.
func (d desk) session(free bool) string {
	d.t.Helper()
	request := checkout()
	if free {
		request.Items = []provider.CheckoutItem{{Name: "Gift", Quantity: 1, Unit: money.Amount{Minor: 0, Currency: "usd"}}}
	}
	key := d.intend(request.Call())
	must(d.t, d.perform(key))
	return *d.row(key).ResultID
}

// TestReadPayment: every state in which a buyer and a bank can leave a session. Only what
// the intent received is money.
func TestReadPayment(t *testing.T) {
	t.Parallel()
	const total = 2*1999 + 820
	d := openDesk(t, 0)
	pay := func(o stripesim.PayOptions) func(string) (stripesim.Payment, error) {
		return func(id string) (stripesim.Payment, error) { return d.sim.Pay(id, o) }
	}
	settled := func(ok bool) func(string) (stripesim.Payment, error) {
		return func(id string) (stripesim.Payment, error) {
			p, err := d.sim.Pay(id, stripesim.PayOptions{Delayed: true})
			if err == nil {
				_, err = d.sim.SettleDelayed(id, ok)
			}
			return p, err
		}
	}
	success := func(minor int64, currency string) provider.PaymentState {
		return provider.PaymentState{Succeeded: true, ReceivedMinor: minor, IntendedMinor: minor, Currency: currency}
	}
	less := int64(500)
	for name, test := range map[string]struct {
		free bool
		do   func(session string) (stripesim.Payment, error)
		want provider.PaymentState // without ids and times
	}{
		"open":                  {false, nil, provider.PaymentState{Currency: "usd"}},
		"paid":                  {false, pay(stripesim.PayOptions{}), success(total, "usd")},
		"paid less":             {false, pay(stripesim.PayOptions{Amount: &less}), success(500, "usd")},
		"paid in euro":          {false, pay(stripesim.PayOptions{Currency: "EUR"}), success(total, "eur")},
		"free":                  {true, pay(stripesim.PayOptions{}), success(0, "usd")},
		"free, not yet ordered": {true, nil, provider.PaymentState{Currency: "usd"}},
		"by debit":              {false, pay(stripesim.PayOptions{Delayed: true}), provider.PaymentState{Processing: true, Currency: "usd"}},
		"by debit, arrived":     {false, settled(true), success(total, "usd")},
		"by debit, bounced":     {false, settled(false), provider.PaymentState{Currency: "usd"}},
		"declined": {false, func(id string) (stripesim.Payment, error) {
			_, err := d.sim.Decline(id)
			return stripesim.Payment{}, err
		}, provider.PaymentState{Currency: "usd"}},
		"expired": {false, func(id string) (stripesim.Payment, error) {
			_, err := d.sim.Expire(id)
			return stripesim.Payment{}, err
		}, provider.PaymentState{Expired: true, Currency: "usd"}},
	} {
		id := d.session(test.free)
		var payment stripesim.Payment
		if test.do != nil {
			var err error
			payment, err = test.do(id)
			must(t, err)
		}
		got, err := d.Stripe.ReadPayment(t.Context(), id)
		must(t, err)
		ids := got.Resources
		if ids[0] != id || time.Since(got.CreatedAt) > time.Hour || got.CreatedAt.Location() != time.UTC {
			t.Errorf("%s: resources %v, created %s", name, ids, got.CreatedAt)
		}
		if payment.PaymentIntentID != "" && (len(ids) != 3 || ids[1] != payment.PaymentIntentID || ids[2] != payment.ChargeID) {
			t.Errorf("%s: resources %v, want %+v", name, ids, payment)
		}
		got.Resources, got.CreatedAt, got.Breakdown, got.Returns = nil, time.Time{}, nil, provider.Returns{} // tested by themselves
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// What the simulation does not do, in Stripe's words.
func TestReadPayment_OfWords(t *testing.T) {
	t.Parallel()
	intent := func(status string, received int64) map[string]any {
		return map[string]any{
			"id": "pi_1", "object": "payment_intent", "status": status, "amount": 1999, "amount_received": received, "currency": "USD", "latest_charge": "ch_1",
		}
	}
	for name, test := range map[string]struct {
		session map[string]any
		want    provider.PaymentState
	}{
		"authorized is not received (B49)": {
			map[string]any{"status": "complete", "payment_status": "paid", "payment_intent": intent("requires_capture", 0)}, provider.PaymentState{},
		},
		"captured for less (B49)": {
			map[string]any{"status": "complete", "payment_status": "paid", "payment_intent": intent("succeeded", 500)},
			provider.PaymentState{Succeeded: true, ReceivedMinor: 500, IntendedMinor: 1999},
		},
		"canceled": {
			map[string]any{"status": "expired", "payment_status": "unpaid", "payment_intent": intent("canceled", 0)},
			provider.PaymentState{Canceled: true, Expired: true},
		},
		"waiting for the buyer's bank": {
			map[string]any{"status": "open", "payment_status": "unpaid", "payment_intent": intent("requires_action", 0)}, provider.PaymentState{},
		},
		"paid in the buyer's currency (B24)": {
			map[string]any{
				"status": "complete", "payment_status": "paid", "payment_intent": intent("succeeded", 1999),
				"currency_conversion": map[string]any{"amount_subtotal": 2150, "amount_total": 2150, "fx_rate": "0.9298", "source_currency": "usd"},
			},
			provider.PaymentState{Succeeded: true, ReceivedMinor: 2150, IntendedMinor: 2150},
		},
		"captured for less of it (B24, B49)": {
			map[string]any{
				"status": "complete", "payment_status": "paid", "payment_intent": intent("succeeded", 500),
				"currency_conversion": map[string]any{"amount_subtotal": 2150, "amount_total": 2150, "fx_rate": "0.9298", "source_currency": "usd"},
			},
			provider.PaymentState{Succeeded: true, ReceivedMinor: 500, IntendedMinor: 1999},
		},
		"complete and unpaid, no intent": {map[string]any{"status": "complete", "payment_status": "unpaid"}, provider.PaymentState{}},
		"open and nothing to pay":        {map[string]any{"status": "open", "payment_status": "no_payment_required"}, provider.PaymentState{}},
		"complete and nothing to pay": {
			map[string]any{"status": "complete", "payment_status": "no_payment_required"},
			provider.PaymentState{Succeeded: true, ReceivedMinor: 1999, IntendedMinor: 1999},
		},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasPrefix(r.URL.Path, "/v1/refunds") || strings.HasPrefix(r.URL.Path, "/v1/disputes") {
				_ = json.NewEncoder(w).Encode(map[string]any{"object": "list", "data": []any{}, "has_more": false})
				return
			}
			if got := r.URL.Query()["expand[0]"]; r.URL.Path != "/v1/checkout/sessions/cs_1" || len(got) != 1 || got[0] != "payment_intent.latest_charge" {
				t.Errorf("%s: asked for %s", name, r.URL)
			}
			test.session["id"], test.session["object"], test.session["currency"], test.session["amount_total"] = "cs_1", "checkout.session", "USD", 1999
			_ = json.NewEncoder(w).Encode(test.session)
		}))
		t.Cleanup(server.Close)
		got, err := provider.NewStripe(provider.StripeConfig{Key: secretKey, Base: server.URL}).ReadPayment(t.Context(), "cs_1")
		must(t, err)
		wantIDs := []string{"cs_1"}
		if test.session["payment_intent"] != nil {
			wantIDs = append(wantIDs, "pi_1", "ch_1")
		}
		test.want.Resources, test.want.Currency, test.want.CreatedAt = wantIDs, "usd", time.Unix(0, 0).UTC()
		got.Returns.ChargedCurrency = ""
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestReadPayment_Fails(t *testing.T) {
	t.Parallel()
	d := openDesk(t, 0)
	if _, err := d.Stripe.ReadPayment(t.Context(), "cs_gone"); !errors.Is(err, provider.ErrNotFound) || !errors.Is(err, provider.ErrRefused) {
		t.Errorf("an unknown session: got %v, want ErrNotFound", err)
	}
	for _, fault := range []stripesim.Fault{{Status: 500}, {Status: 429, RetryAfter: "3"}, {Kind: stripesim.LoseAnswer}} {
		d.sim.Inject(fault)
		var retry *provider.RetryError
		if _, err := d.Stripe.ReadPayment(t.Context(), "cs_gone"); !errors.As(err, &retry) {
			t.Errorf("%+v: got %v, want a retry", fault, err)
		}
	}
}

// The key's prefix tells the mode, for restricted keys too (B35).
func TestLivemode(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]bool{"sk_live_1": true, "rk_live_1": true, "sk_test_1": false, "rk_test_1": false, "pk_live_1": false, "": false} {
		if got := provider.NewStripe(provider.StripeConfig{Key: key}).Livemode(); got != want || provider.Livemode(key) != want {
			t.Errorf("%q: live %v, want %v", key, got, want)
		}
	}
}

// TestPerform_OneThousandLicenses: Stripe takes the largest notice there is.
func TestPerform_OneThousandLicenses(t *testing.T) {
	t.Parallel()
	d := openDesk(t, 0)
	for _, licenses := range []int{1, 13, 14, 1000} {
		payment, err := d.sim.Pay(d.session(false), stripesim.PayOptions{})
		must(t, err)
		request := provider.FulfillRequest{OrderID: checkout().OrderID, PaymentIntentID: payment.PaymentIntentID}
		for range licenses {
			request.LicenseIDs = append(request.LicenseIDs, checkout().PaymentID)
		}
		key := d.intend(request.Call())
		must(t, d.perform(key))
		d.wantOneEffect(fmt.Sprint(licenses, " licenses"), key)
		var intent struct{ Metadata map[string]string }
		body, _ := d.sim.PaymentIntent(payment.PaymentIntentID)
		must(t, json.Unmarshal(body, &intent))
		if got := intent.Metadata["paidonce_license_count"]; got != fmt.Sprint(licenses) {
			t.Errorf("the intent says %s licenses, want %d", got, licenses)
		}
	}
}
