package provider_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gorm.io/gorm"

	"paidonce/internal/provider"
)

func TestPerform_RefusedForGood(t *testing.T) {
	t.Parallel()
	d := openDesk(t, 0)
	badMail := checkout()
	badMail.Email = "nobody"
	gone := provider.FulfillRequest{OrderID: badMail.OrderID, PaymentIntentID: "pi_gone"}
	for name, test := range map[string]struct {
		call     provider.Call
		notFound bool
	}{"400": {badMail.Call(), false}, "404": {gone.Call(), true}} {
		key := d.intend(test.call)
		for i := range 2 {
			err := d.perform(key)
			if !errors.Is(err, provider.ErrRefused) || (i == 0 && errors.Is(err, provider.ErrNotFound) != test.notFound) {
				t.Errorf("%s, time %d: got %v, want ErrRefused", name, i+1, err)
			}
		}
		row := d.row(key)
		if row.State != provider.CallFailed || row.LastError == nil || row.FinishedAt == nil || len(d.callsUnder(key)) != 1 {
			t.Errorf("%s: row %+v after %d requests, want it failed after one", name, row, len(d.callsUnder(key)))
		}
	}
	if n := d.count(`SELECT count(*) FROM settled`); n != 0 {
		t.Errorf("%d refused calls were settled", n)
	}
}

// A settling that fails takes the record of the answer with it; the next attempt gets the
// same answer from Stripe, and settles.
func TestPerform_ASettlingThatFailsIsDoneAgain(t *testing.T) {
	t.Parallel()
	d := openDesk(t, 0)
	key := d.intended()
	errSettle := errors.New("no order, for the moment")
	err := d.Perform(t.Context(), key, func(ctx context.Context, tx *gorm.DB, c provider.Call, a provider.Answer) error {
		must(t, settle(ctx, tx, c, a))
		return errSettle
	})
	if !errors.Is(err, errSettle) {
		t.Errorf("got %v, want the settling's error", err)
	}
	row := d.row(key)
	if row.State != provider.CallUnknown || row.ResultID != nil || d.count(`SELECT count(*) FROM settled`) != 0 {
		t.Errorf("row %+v, %d settled; want it unknown and none", row, d.count(`SELECT count(*) FROM settled`))
	}
	must(t, d.perform(key))
	d.wantOneEffect("again", key)
	if calls := d.callsUnder(key); len(calls) != 2 || !calls[1].Replayed {
		t.Errorf("%d requests, want the second to be answered from the first", len(calls))
	}
}

// TestPerform_TellsNoSecret: the other end of the line may be a proxy that answers with
// whatever it was sent. None of it gets into an error, a log, or the row.
func TestPerform_TellsNoSecret(t *testing.T) {
	t.Parallel()
	d := openDesk(t, 0)
	quote := func(r *http.Request) string { return "you sent " + r.Header.Get("Authorization") + "\x00\xff" }
	for name, answer := range map[string]func(w http.ResponseWriter, r *http.Request){
		"a page":          func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(502); fmt.Fprint(w, "<html>", quote(r)) },
		"a page with 200": func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "<html>", quote(r)) },
		"JSON, no error": func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(500)
			fmt.Fprintf(w, `{"said":%q}`, r.Header.Get("Authorization"))
		},
		"a quoted key": func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(401)
			fmt.Fprintf(w, `{"error":{"type":"invalid_request_error","message":"Invalid API Key: %s"}}`, r.Header.Get("Authorization"))
		},
		"a message in 400": func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(400)
			fmt.Fprintf(w, `{"error":{"type":"invalid_request_error","message":%q}}`, r.Header.Get("Authorization"))
		},
		"half an answer": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			fmt.Fprint(w, `{"id":`)
		},
	} {
		server := httptest.NewServer(http.HandlerFunc(answer))
		t.Cleanup(server.Close)
		d.Stripe = provider.NewStripe(provider.StripeConfig{Key: secretKey, Base: server.URL})
		key := d.intended()
		err := d.perform(key)
		if err == nil || strings.Contains(err.Error(), secretKey[8:]) {
			t.Errorf("%s: got %v", name, err)
		}
		d.wantState(name, key, d.row(key).State)
		if row := d.row(key); row.LastError == nil || row.State == provider.CallSending {
			t.Errorf("%s: the failure is not on record: %+v", name, row)
		}
		if _, err := d.Stripe.ReadPayment(t.Context(), "cs_1"); err == nil || strings.Contains(err.Error(), secretKey[8:]) {
			t.Errorf("%s, reading: got %v", name, err)
		}
		server.Close()
		if err := d.perform(d.intended()); err == nil || strings.Contains(err.Error(), secretKey[8:]) {
			t.Errorf("nobody listens: got %v", err)
		}
	}
}

// A call acts for the account that the client acts for.
func TestPerform_NamesTheAccount(t *testing.T) {
	t.Parallel()
	d := openDesk(t, 0)
	for _, want := range []string{"", "acct_1"} {
		got := make(chan http.Header, 2)
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			got <- r.Header
			fmt.Fprint(w, `{"id":"cs_1","object":"checkout.session"}`)
		}))
		t.Cleanup(server.Close)
		d.Stripe = provider.NewStripe(provider.StripeConfig{Key: secretKey, Base: server.URL + "/", Account: want})
		written := checkout().Call()
		written.Account = want
		key := d.intend(written)
		must(t, d.perform(key))
		_, err := d.Stripe.ReadPayment(t.Context(), "cs_1")
		must(t, err)
		call, read := <-got, <-got
		if call.Get("Stripe-Account") != want || read.Get("Stripe-Account") != want || d.Stripe.Account() != want {
			t.Errorf("account %q and %q, want %q", call.Get("Stripe-Account"), read.Get("Stripe-Account"), want)
		}
		sent := http.Header{"Idempotency-Key": {key}, "Stripe-Version": {"2024-06-20"}, "Content-Type": {"application/x-www-form-urlencoded"}}
		for name := range sent {
			if diff := cmp.Diff(sent[name], call[name]); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
		}
	}
}

// A call that was written down for one mode or account is not made with the key of another:
// its object would be one that the payment's events never name. It waits for the process that
// has the right key.
func TestPerform_WaitsForItsOwnWorld(t *testing.T) {
	t.Parallel()
	d := openDesk(t, 0)
	for name, call := range map[string]provider.Call{
		"of the other mode":  {Livemode: true},
		"of another account": {Account: "acct_other"},
	} {
		written := checkout().Call()
		written.Livemode, written.Account = call.Livemode, call.Account
		key := d.intend(written)
		if err := d.perform(key); !errors.Is(err, provider.ErrOtherWorld) {
			t.Errorf("%s: got %v, want ErrOtherWorld", name, err)
		}
		if row := d.row(key); row.State != provider.CallIntended || row.Attempts != 0 || len(d.callsUnder(key)) != 0 {
			t.Errorf("%s: %s after %d attempts and %d requests, want it untouched", name, row.State, row.Attempts, len(d.callsUnder(key)))
		}
	}
}
