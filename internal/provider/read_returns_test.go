package provider_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"paidonce/internal/money"
	"paidonce/internal/provider"
	"paidonce/internal/stripesim"
)

// sold pays a new session of one line.
func (d desk) sold(unit money.Amount) stripesim.Payment {
	d.t.Helper()
	request := checkout()
	request.Items = []provider.CheckoutItem{{Name: "Key", Quantity: 1, Unit: unit}}
	key := d.intend(request.Call())
	must(d.t, d.perform(key))
	payment, err := d.sim.Pay(*d.row(key).ResultID, stripesim.PayOptions{})
	must(d.t, err)
	return payment
}

// captured pays a session of 19.99 that reserves first, and captures that much of it.
func (d desk) captured(minor int64) stripesim.Payment {
	d.t.Helper()
	request := checkout()
	request.Items = []provider.CheckoutItem{{Name: "Key", Quantity: 1, Unit: money.Amount{Minor: 1999, Currency: "usd"}}}
	session := d.posted(append(request.Call().Params, "&payment_intent_data[capture_method]=manual"...))
	payment, err := d.sim.Pay(session, stripesim.PayOptions{})
	must(d.t, err)
	state, err := d.Stripe.ReadPayment(d.t.Context(), session)
	must(d.t, err)
	if state.Succeeded || state.Returns.ChargedCurrency != "" {
		d.t.Errorf("reserved and not captured: %+v, want nothing received", state)
	}
	if minor > 0 {
		_, err = d.sim.Capture(payment.PaymentIntentID, minor)
		must(d.t, err)
	}
	return payment
}

// refunded and the next three are what a merchant or a bank does to a payment.
func (d desk) refunded(p stripesim.Payment, minor int64, status string) string {
	d.t.Helper()
	id, _, err := d.sim.Refund(p.ChargeID, minor, status)
	must(d.t, err)
	return id
}

func (d desk) became(refund, status string) {
	d.t.Helper()
	_, err := d.sim.SettleRefund(refund, status)
	must(d.t, err)
}

func (d desk) disputed(p stripesim.Payment, minor int64, reason string) string {
	d.t.Helper()
	id, _, err := d.sim.OpenDispute(p.ChargeID, minor, reason)
	must(d.t, err)
	return id
}

func (d desk) decided(dispute, result string) {
	d.t.Helper()
	_, err := d.sim.CloseDispute(dispute, result)
	must(d.t, err)
}

// answered hands evidence in, which the bank then looks at.
func (d desk) answered(dispute string) {
	d.t.Helper()
	form := url.Values{"evidence[uncategorized_text]": {"they downloaded it"}}
	request, err := http.NewRequestWithContext(d.t.Context(), http.MethodPost, d.url+"/v1/disputes/"+dispute, strings.NewReader(form.Encode()))
	must(d.t, err)
	request.Header.Set("Authorization", "Bearer "+secretKey)
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	response, err := http.DefaultClient.Do(request)
	must(d.t, err)
	must(d.t, response.Body.Close())
	if response.StatusCode != http.StatusOK {
		d.t.Fatalf("evidence for %s: %s", dispute, response.Status)
	}
}

// inWords is what went back, one line each, the oldest first.
func inWords(r provider.Returns) []string {
	var lines []string
	for _, v := range r.Refunds {
		lines = append(lines, fmt.Sprintf("refund %d %s %s", v.AmountMinor, v.Currency, v.Status))
	}
	for _, v := range r.Disputes {
		lines = append(lines, fmt.Sprintf("dispute %d %s %s %s", v.AmountMinor, v.Currency, v.Status, v.Reason))
	}
	return lines
}

// TestReadPayment_Returns: whatever a merchant, a buyer and two banks can do to the money of a
// payment of 19.99.
func TestReadPayment_Returns(t *testing.T) {
	t.Parallel()
	d := openDesk(t, 0)
	usd := func(minor int64) money.Amount { return money.Amount{Minor: minor, Currency: "usd"} }
	for name, test := range map[string]struct {
		do       func(p stripesim.Payment)
		refunded int64
		want     []string
	}{
		"nothing": {func(stripesim.Payment) {}, 0, nil},

		// A refund counts from the moment it is made, until it comes to nothing.
		"a part":           {func(p stripesim.Payment) { d.refunded(p, 500, "") }, 500, []string{"refund 500 usd succeeded"}},
		"all":              {func(p stripesim.Payment) { d.refunded(p, 0, "") }, 1999, []string{"refund 1999 usd succeeded"}},
		"pending":          {func(p stripesim.Payment) { d.refunded(p, 500, "pending") }, 500, []string{"refund 500 usd pending"}},
		"waiting":          {func(p stripesim.Payment) { d.refunded(p, 500, "requires_action") }, 500, []string{"refund 500 usd requires_action"}},
		"failed at once":   {func(p stripesim.Payment) { d.refunded(p, 500, "failed") }, 0, []string{"refund 500 usd failed"}},
		"failed later":     {func(p stripesim.Payment) { d.became(d.refunded(p, 0, ""), "failed") }, 0, []string{"refund 1999 usd failed"}},
		"canceled":         {func(p stripesim.Payment) { d.became(d.refunded(p, 500, "pending"), "canceled") }, 0, []string{"refund 500 usd canceled"}},
		"pending, arrived": {func(p stripesim.Payment) { d.became(d.refunded(p, 500, "pending"), "succeeded") }, 500, []string{"refund 500 usd succeeded"}},
		"several": {
			func(p stripesim.Payment) { d.refunded(p, 500, ""); d.refunded(p, 300, "pending"); d.refunded(p, 0, "") },
			1999,
			[]string{"refund 500 usd succeeded", "refund 300 usd pending", "refund 1199 usd succeeded"},
		},
		"one of two failed": {
			func(p stripesim.Payment) {
				first := d.refunded(p, 500, "")
				d.refunded(p, 300, "")
				d.became(first, "failed")
			},
			300,
			[]string{"refund 500 usd failed", "refund 300 usd succeeded"},
		},

		// What is disputed is not refunded.
		"an inquiry": {
			func(p stripesim.Payment) { d.disputed(p, 0, "inquiry") }, 0, []string{"dispute 1999 usd warning_needs_response fraudulent"},
		},
		"an inquiry that was answered": {
			func(p stripesim.Payment) { d.answered(d.disputed(p, 0, "inquiry")) }, 0, []string{"dispute 1999 usd warning_under_review fraudulent"},
		},
		"an inquiry that is over": {
			func(p stripesim.Payment) { d.decided(d.disputed(p, 0, "inquiry"), "won") }, 0, []string{"dispute 1999 usd warning_closed fraudulent"},
		},
		"disputed": {
			func(p stripesim.Payment) { d.disputed(p, 700, "duplicate") }, 0, []string{"dispute 700 usd needs_response duplicate"},
		},
		"disputed and answered": {
			func(p stripesim.Payment) { d.answered(d.disputed(p, 0, "")) }, 0, []string{"dispute 1999 usd under_review fraudulent"},
		},
		"won":  {func(p stripesim.Payment) { d.decided(d.disputed(p, 0, ""), "won") }, 0, []string{"dispute 1999 usd won fraudulent"}},
		"lost": {func(p stripesim.Payment) { d.decided(d.disputed(p, 0, ""), "lost") }, 0, []string{"dispute 1999 usd lost fraudulent"}},
		"two on one charge": {
			func(p stripesim.Payment) { d.decided(d.disputed(p, 500, ""), "won"); d.disputed(p, 700, "duplicate") },
			0,
			[]string{"dispute 500 usd won fraudulent", "dispute 700 usd needs_response duplicate"},
		},
		"refunded in part, and disputed": {
			func(p stripesim.Payment) { d.refunded(p, 500, ""); d.disputed(p, 1499, "") },
			500,
			[]string{"refund 500 usd succeeded", "dispute 1499 usd needs_response fraudulent"},
		},
	} {
		p := d.sold(usd(1999))
		test.do(p)
		got, err := d.Stripe.ReadPayment(t.Context(), p.SessionID)
		must(t, err)
		if got.Returns.RefundedMinor != test.refunded || got.Returns.ChargedCurrency != "usd" || got.ReceivedMinor != 1999 {
			t.Errorf("%s: %d of %d went back, charged in %q; want %d of 1999 in usd",
				name, got.Returns.RefundedMinor, got.ReceivedMinor, got.Returns.ChargedCurrency, test.refunded)
		}
		if diff := cmp.Diff(test.want, inWords(got.Returns)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		for _, v := range got.Returns.Refunds {
			if _, ok := d.sim.RefundObject(v.ID); !ok || time.Since(v.CreatedAt) > time.Hour || v.CreatedAt.Location() != time.UTC {
				t.Errorf("%s: %+v is no refund of now", name, v)
			}
		}
		for _, v := range got.Returns.Disputes {
			if _, ok := d.sim.Dispute(v.ID); !ok || time.Since(v.CreatedAt) > time.Hour || v.CreatedAt.Location() != time.UTC {
				t.Errorf("%s: %+v is no dispute of now", name, v)
			}
		}
	}
}

// TestB49_TheRestOfACaptureIsNoRefund: capturing for less gives the rest of what was reserved
// back, which Stripe shows as a refund. It was never received, so nothing of it went back.
func TestB49_TheRestOfACaptureIsNoRefund(t *testing.T) {
	t.Parallel()
	d := openDesk(t, 0)
	for name, test := range map[string]struct {
		capture  int64
		do       func(p stripesim.Payment)
		refunded int64
		want     []string
	}{
		"captured in full":             {1999, func(stripesim.Payment) {}, 0, nil},
		"captured in full, a part":     {1999, func(p stripesim.Payment) { d.refunded(p, 500, "") }, 500, []string{"refund 500 usd succeeded"}},
		"captured for less":            {1499, func(stripesim.Payment) {}, 0, nil},
		"captured for less, a part":    {1499, func(p stripesim.Payment) { d.refunded(p, 200, "") }, 200, []string{"refund 200 usd succeeded"}},
		"captured for less, all":       {1499, func(p stripesim.Payment) { d.refunded(p, 0, "") }, 1499, []string{"refund 1499 usd succeeded"}},
		"a part as large as the rest":  {1499, func(p stripesim.Payment) { d.refunded(p, 500, "") }, 500, []string{"refund 500 usd succeeded"}},
		"the like, and it failed":      {1499, func(p stripesim.Payment) { d.became(d.refunded(p, 500, ""), "failed") }, 0, []string{"refund 500 usd failed"}},
		"captured for less, disputed":  {1499, func(p stripesim.Payment) { d.disputed(p, 1499, "") }, 0, []string{"dispute 1499 usd needs_response fraudulent"}},
		"captured for one, which left": {1, func(p stripesim.Payment) { d.refunded(p, 1, "") }, 1, []string{"refund 1 usd succeeded"}},
	} {
		p := d.captured(test.capture)
		test.do(p)
		got, err := d.Stripe.ReadPayment(t.Context(), p.SessionID)
		must(t, err)
		if !got.Succeeded || got.ReceivedMinor != test.capture || got.IntendedMinor != 1999 || got.Returns.RefundedMinor != test.refunded {
			t.Errorf("%s: %d of %d received, %d went back; want %d of 1999 and %d",
				name, got.ReceivedMinor, got.IntendedMinor, got.Returns.RefundedMinor, test.capture, test.refunded)
		}
		if diff := cmp.Diff(test.want, inWords(got.Returns)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	d.captured(0) // and what is only reserved is not received: checked on the way
}

// What went back is counted in the units of the payment, whatever its currency's are at Stripe.
func TestReadPayment_ReturnsInTheUnitsOfTheCurrency(t *testing.T) {
	t.Parallel()
	d := openDesk(t, 0)
	for currency, atStripe := range map[money.Currency]int64{"jpy": 400, "isk": 40000, "kwd": 400, "eur": 400} {
		p := d.sold(money.Amount{Minor: 19990, Currency: currency})
		d.refunded(p, atStripe, "")
		d.disputed(p, 2*atStripe, "")
		got, err := d.Stripe.ReadPayment(t.Context(), p.SessionID)
		must(t, err)
		want := []string{fmt.Sprintf("refund 400 %s succeeded", currency), fmt.Sprintf("dispute 800 %s needs_response fraudulent", currency)}
		if diff := cmp.Diff(want, inWords(got.Returns)); diff != "" || got.Returns.RefundedMinor != 400 || got.ReceivedMinor != 19990 {
			t.Errorf("%s: %d of %d went back; want 400 of 19990 (-want +got):\n%s", currency, got.Returns.RefundedMinor, got.ReceivedMinor, diff)
		}
		d.refunded(p, 0, "")
		got, err = d.Stripe.ReadPayment(t.Context(), p.SessionID)
		must(t, err)
		if got.Returns.RefundedMinor != 19990 {
			t.Errorf("%s: %d went back, want all", currency, got.Returns.RefundedMinor)
		}
	}
}

// Lists are read to their last page; and of a list that breaks off, nothing is believed.
func TestReadPayment_ReturnsOfManyPages(t *testing.T) {
	t.Parallel()
	d := openDesk(t, 0)
	p := d.sold(money.Amount{Minor: 1999, Currency: "usd"})
	var made []string
	for range 205 {
		made = append(made, d.refunded(p, 1, ""))
	}
	lists := func() (n int) {
		for _, call := range d.sim.Calls() {
			if call.Path == "/v1/refunds" {
				n++
			}
		}
		return n
	}
	got, err := d.Stripe.ReadPayment(t.Context(), p.SessionID)
	must(t, err)
	var ids []string
	for _, v := range got.Returns.Refunds {
		ids = append(ids, v.ID)
	}
	if !slices.Equal(ids, made) || got.Returns.RefundedMinor != 205 || lists() != 3 {
		t.Errorf("%d refunds of %d on %d pages, want all 205 on 3, the oldest first", len(ids), got.Returns.RefundedMinor, lists())
	}

	// The first page answers, the next one does not.
	for _, fault := range []stripesim.Fault{
		{Path: "/v1/refunds", Status: 500}, {Path: "/v1/refunds", Status: 429, RetryAfter: "3"}, {Path: "/v1/refunds", Kind: stripesim.LoseAnswer},
	} {
		d.sim.Inject(stripesim.Fault{Path: "/v1/refunds"})
		d.sim.Inject(fault)
		var retry *provider.RetryError
		got, err := d.Stripe.ReadPayment(t.Context(), p.SessionID)
		if !errors.As(err, &retry) || !cmp.Equal(got, provider.PaymentState{}) {
			t.Errorf("%+v: got %+v and %v, want nothing and a retry", fault, got, err)
		} else if want := map[bool]time.Duration{true: 3 * time.Second}[fault.RetryAfter != ""]; retry.After != want {
			t.Errorf("%+v: again after %s, want %s", fault, retry.After, want)
		}
	}
	d.sim.Inject(stripesim.Fault{Path: "/v1/disputes", Status: 500})
	if got, err := d.Stripe.ReadPayment(t.Context(), p.SessionID); err == nil || !cmp.Equal(got, provider.PaymentState{}) {
		t.Errorf("without the disputes: got %+v and %v, want nothing", got, err)
	}
}

// Of what has no money, nothing is listed.
func TestReadPayment_NothingToReturn(t *testing.T) {
	t.Parallel()
	d := openDesk(t, 0)
	open, free := d.session(false), d.session(true)
	_, err := d.sim.Pay(free, stripesim.PayOptions{})
	must(t, err)
	for _, session := range []string{open, free} {
		got, err := d.Stripe.ReadPayment(t.Context(), session)
		must(t, err)
		if !cmp.Equal(got.Returns, provider.Returns{}) {
			t.Errorf("%+v, want nothing", got.Returns)
		}
	}
	for _, call := range d.sim.Calls() {
		if call.Path == "/v1/refunds" || call.Path == "/v1/disputes" {
			t.Errorf("asked for %s of a payment without a charge", call.Path)
		}
	}
}
