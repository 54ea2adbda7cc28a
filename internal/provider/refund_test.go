package provider_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"

	"paidonce/internal/money"
	"paidonce/internal/provider"
	"paidonce/internal/stripesim"
)

// refundOf is the request that sends money of a payment back; 0 is all that is left.
func refundOf(p stripesim.Payment, minor int64) provider.RefundRequest {
	request := provider.RefundRequest{
		DecisionID: uuid.Must(uuid.NewV7()), OrderID: uuid.Must(uuid.NewV7()), PaymentIntentID: p.PaymentIntentID,
	}
	if minor > 0 {
		request.Amount = &money.Amount{Minor: minor, Currency: "usd"}
	}
	return request
}

// refunding writes a request down and returns its key.
func (d desk) refunding(request provider.RefundRequest) string {
	d.t.Helper()
	call, err := request.Call()
	must(d.t, err)
	return d.intend(call)
}

// back is what went back of a payment, in words.
func (d desk) back(p stripesim.Payment) string {
	d.t.Helper()
	state, err := d.Stripe.ReadPayment(d.t.Context(), p.SessionID)
	must(d.t, err)
	return strings.Join(inWords(state.Returns), ", ")
}

// A refund is made once, whatever becomes of the answers; and it says which decision it is.
func TestRefund_Once(t *testing.T) {
	t.Parallel()
	d := openDesk(t, 0)
	post := func(f stripesim.Fault) stripesim.Fault { f.Method, f.Path = http.MethodPost, "/v1/refunds"; return f }
	for name, fault := range map[string]stripesim.Fault{
		"answered":       {},
		"answer lost":    post(stripesim.Fault{Kind: stripesim.LoseAnswer}),
		"request lost":   post(stripesim.Fault{Kind: stripesim.LoseRequest}),
		"a 500 is kept":  post(stripesim.Fault{Status: http.StatusInternalServerError, AfterWork: true}),
		"a 429 at first": post(stripesim.Fault{Status: http.StatusTooManyRequests}),
	} {
		for minor, want := range map[int64]string{0: "refund 1499 usd succeeded", 700: "refund 700 usd succeeded"} {
			p := d.sold(money.Amount{Minor: 1999, Currency: "usd"})
			d.refunded(p, 500, "") // somebody else's
			request := refundOf(p, minor)
			key := d.refunding(request)
			if fault.Method != "" {
				d.sim.Inject(fault)
				var retry *provider.RetryError
				if err := d.perform(key); !errors.As(err, &retry) {
					t.Fatalf("%s: got %v, want a retry", name, err)
				}
			}
			must(t, d.perform(key))
			must(t, d.perform(key))
			if got := d.back(p); got != "refund 500 usd succeeded, "+want {
				t.Errorf("%s: %s; want one of ours, %s", name, got, want)
			}
			row := d.row(key)
			if n := d.count(`SELECT count(*) FROM settled WHERE idempotency_key = ? AND result_id = ?`, key, row.ResultID); n != 1 || row.State != provider.CallSent {
				t.Fatalf("%s: settled %d times, and is %s", name, n, row.State)
			}
			body, _ := d.sim.RefundObject(*row.ResultID)
			var made struct{ Metadata map[string]string }
			must(t, json.Unmarshal(body, &made))
			if made.Metadata[provider.RefundMarker] != request.DecisionID.String() || made.Metadata[provider.OrderMarker] != request.OrderID.String() {
				t.Errorf("%s: the refund says %v, want decision %s of order %s", name, made.Metadata, request.DecisionID, request.OrderID)
			}
			for _, call := range d.callsUnder(key) {
				if string(call.Body) != string(row.Params) || call.Path != "/v1/refunds" {
					t.Errorf("%s: sent %s %s, the row is %s", name, call.Path, call.Body, row.Params)
				}
			}
		}
	}
}

// TestRefund_AKeyThatStripeHasForgotten: of many refunds of one payment, all alike, the one
// that the call made is found by its marker, and no second one is made.
func TestRefund_AKeyThatStripeHasForgotten(t *testing.T) {
	t.Parallel()
	d := openDesk(t, 0)
	p := d.sold(money.Amount{Minor: 1999, Currency: "usd"})
	key := d.refunding(refundOf(p, 1))
	d.yesterday(key, func() {
		d.refunded(p, 1, "")
		d.sim.Inject(stripesim.Fault{Method: http.MethodPost, Kind: stripesim.LoseAnswer})
		if err := d.perform(key); err == nil {
			t.Error("a lost answer is no error")
		}
		must(t, d.perform(d.refunding(refundOf(p, 1)))) // another decision
		for range 100 {                                 // which fill a page
			d.refunded(p, 1, "")
		}
	})
	made := d.sim.Refunds()
	must(t, d.perform(key))
	d.wantAdopted("among 103", key, made[1])
	if n := len(d.sim.Refunds()); n != len(made) || d.alerts() != 0 {
		t.Errorf("%d refunds and %d alerts, want %d and none", n, d.alerts(), len(made))
	}
}

// Without a trace of it nothing is sent, and a person is asked: the refunds of others, of the
// same payment and amount, are no trace.
func TestRefund_NoTraceOfIt(t *testing.T) {
	t.Parallel()
	d := openDesk(t, 0)
	p := d.sold(money.Amount{Minor: 1999, Currency: "usd"})
	key := d.refunding(refundOf(p, 500))
	d.yesterday(key, func() {
		d.sim.Inject(stripesim.Fault{Method: http.MethodPost, Kind: stripesim.LoseRequest})
		if err := d.perform(key); err == nil {
			t.Error("a lost request is no error")
		}
		d.refunded(p, 500, "")
		must(t, d.perform(d.refunding(refundOf(p, 500))))
	})
	if err := d.perform(key); !errors.Is(err, provider.ErrKeyTooOld) {
		t.Errorf("got %v, want ErrKeyTooOld", err)
	}
	d.wantState("no trace", key, provider.CallUnknown)
	if n := len(d.callsUnder(key)); n != 1 || len(d.sim.Refunds()) != 2 || d.alerts() != 1 {
		t.Errorf("%d requests, %d refunds, %d alerts; want 1, 2 and 1", n, len(d.sim.Refunds()), d.alerts())
	}
}

// What Stripe does not pay back, it refuses for good.
func TestRefund_Refused(t *testing.T) {
	t.Parallel()
	d := openDesk(t, 0)
	for name, test := range map[string]struct {
		before func(p stripesim.Payment)
		minor  int64
		code   string
	}{
		"all is back":    {func(p stripesim.Payment) { d.refunded(p, 0, "") }, 0, "charge_already_refunded"},
		"disputed":       {func(p stripesim.Payment) { d.disputed(p, 0, "") }, 0, "charge_disputed"},
		"lost":           {func(p stripesim.Payment) { d.decided(d.disputed(p, 0, ""), "lost") }, 500, "charge_disputed"},
		"too much":       {func(stripesim.Payment) {}, 2000, "amount_too_large"},
		"more than left": {func(p stripesim.Payment) { d.refunded(p, 1000, "pending") }, 1000, "amount_too_large"},
	} {
		p := d.sold(money.Amount{Minor: 1999, Currency: "usd"})
		test.before(p)
		before, key := d.back(p), d.refunding(refundOf(p, test.minor))
		for range 2 {
			if err := d.perform(key); !errors.Is(err, provider.ErrRefused) {
				t.Errorf("%s: got %v, want it refused", name, err)
			}
		}
		row := d.row(key)
		if row.State != provider.CallFailed || row.LastError == nil || !strings.Contains(*row.LastError, test.code) || len(d.callsUnder(key)) != 1 {
			t.Errorf("%s: row %+v after %d requests, want it failed for %s after one", name, row, len(d.callsUnder(key)), test.code)
		}
		if after := d.back(p); after != before {
			t.Errorf("%s: %s went back, before it was %s", name, after, before)
		}
	}
	gone := d.refunding(refundOf(stripesim.Payment{PaymentIntentID: "pi_gone"}, 0))
	if err := d.perform(gone); !errors.Is(err, provider.ErrRefused) {
		t.Errorf("an unknown payment: got %v, want it refused", err)
	}
	if n := d.count(`SELECT count(*) FROM settled WHERE idempotency_key LIKE 'refund:%'`); n != 0 {
		t.Errorf("%d refused calls were settled", n)
	}
}

// An amount is told in Stripe's units, or not at all.
func TestRefundRequest_Amount(t *testing.T) {
	t.Parallel()
	for amount, want := range map[money.Amount]string{
		{Minor: 500, Currency: "usd"}:  "&amount=500&",
		{Minor: 500, Currency: "jpy"}:  "&amount=500&",
		{Minor: 500, Currency: "isk"}:  "&amount=50000&",
		{Minor: 5000, Currency: "kwd"}: "&amount=5000&",
		{Minor: 5001, Currency: "kwd"}: "",
		{Minor: 500, Currency: "ugx"}:  "",
	} {
		call, err := provider.RefundRequest{PaymentIntentID: "pi_1", Amount: &amount}.Call()
		if want == "" {
			if !errors.Is(err, money.ErrNotAtStripe) || !strings.HasPrefix(err.Error(), "amount: ") {
				t.Errorf("%s: got %v, want the amount refused", amount, err)
			}
			continue
		}
		must(t, err)
		if !strings.Contains("&"+string(call.Params)+"&", want) {
			t.Errorf("%s: %s, want %s", amount, call.Params, want)
		}
	}
}
