package provider_test

import (
	"errors"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"paidonce/internal/money"
	"paidonce/internal/provider"
	"paidonce/internal/stripesim"
)

// expiry writes down the call that ends a session.
func (d desk) expiry(session string) string {
	d.t.Helper()
	return d.intend(provider.ExpireRequest{PaymentID: uuid.Must(uuid.NewV7()), SessionID: session}.Call())
}

// An open session is ended once, whatever becomes of the answers.
func TestExpire_Once(t *testing.T) {
	t.Parallel()
	d := openDesk(t, 0)
	for name, fault := range map[string]stripesim.Fault{
		"answered":       {},
		"answer lost":    {Method: http.MethodPost, Kind: stripesim.LoseAnswer},
		"request lost":   {Method: http.MethodPost, Kind: stripesim.LoseRequest},
		"a 500 is kept":  {Method: http.MethodPost, Status: http.StatusInternalServerError, AfterWork: true},
		"a 429 at first": {Method: http.MethodPost, Status: http.StatusTooManyRequests},
	} {
		session := d.session(false)
		key := d.expiry(session)
		if fault.Method != "" {
			d.sim.Inject(fault)
			if err := d.perform(key); err == nil {
				t.Fatalf("%s: no error", name)
			}
		}
		must(t, d.perform(key))
		must(t, d.perform(key))
		if row := d.row(key); row.State != provider.CallSent || *row.ResultID != session {
			t.Errorf("%s: %+v", name, row)
		}
		if n := d.count(`SELECT count(*) FROM settled WHERE idempotency_key = ?`, key); n != 1 {
			t.Errorf("%s: settled %d times", name, n)
		}
		state, err := d.Stripe.ReadPayment(t.Context(), session)
		must(t, err)
		if !state.Expired {
			t.Errorf("%s: the session is not expired", name)
		}
	}
}

// A session that is complete cannot be ended; the caller has to see what became of it.
func TestExpire_ACompleteSessionIsRefused(t *testing.T) {
	t.Parallel()
	d := openDesk(t, 0)
	session := d.session(false)
	_, err := d.sim.Pay(session, stripesim.PayOptions{})
	must(t, err)
	key := d.expiry(session)
	for range 2 {
		if err := d.perform(key); !errors.Is(err, provider.ErrRefused) {
			t.Errorf("got %v, want it refused", err)
		}
	}
	d.wantState("complete", key, provider.CallFailed)
	if n := d.count(`SELECT count(*) FROM settled WHERE idempotency_key = ?`, key); n != 0 {
		t.Errorf("settled %d times", n)
	}
}

// A key that is forgotten: whether the session was ended is looked at, and not asked again.
func TestExpire_KeyTooOld(t *testing.T) {
	t.Parallel()
	d := openDesk(t, 0)
	for name, test := range map[string]struct {
		ended bool
		want  provider.CallState
	}{"ended": {true, provider.CallSent}, "still open": {false, provider.CallUnknown}} {
		session := d.session(false)
		key := d.expiry(session)
		d.sim.Inject(stripesim.Fault{Method: http.MethodPost, Kind: stripesim.LoseRequest})
		if err := d.perform(key); err == nil {
			t.Fatal("no error")
		}
		if test.ended {
			_, err := d.sim.Expire(session)
			must(t, err)
		}
		d.exec(`UPDATE provider_calls SET first_sent_at = now() - interval '25 h' WHERE idempotency_key = ?`, key)
		before := len(d.callsUnder(key))
		if err := d.perform(key); (err == nil) != test.ended {
			t.Errorf("%s: got %v", name, err)
		}
		d.wantState(name, key, test.want)
		if n := len(d.callsUnder(key)); n != before {
			t.Errorf("%s: it was sent again", name)
		}
	}
}

// I4: a read says what the total is made of, in our minor units.
func TestReadPayment_Breakdown(t *testing.T) {
	t.Parallel()
	d := openDesk(t, 0)
	for name, test := range map[string]struct {
		unit money.Amount
		tax  bool
		want provider.Breakdown
	}{
		"plain":     {money.Amount{Minor: 1999, Currency: "usd"}, false, provider.Breakdown{SubtotalMinor: 1999}},
		"taxed":     {money.Amount{Minor: 2000, Currency: "usd"}, true, provider.Breakdown{SubtotalMinor: 2000, TaxMinor: 380}},
		"taxed isk": {money.Amount{Minor: 2000, Currency: "isk"}, true, provider.Breakdown{SubtotalMinor: 2000, TaxMinor: 380}},
	} {
		request := checkout()
		request.AutomaticTax = test.tax
		request.Items = []provider.CheckoutItem{{Name: "Thing", Quantity: 1, Unit: test.unit}}
		key := d.intend(request.Call())
		must(t, d.perform(key))
		session := *d.row(key).ResultID
		_, err := d.sim.Pay(session, stripesim.PayOptions{})
		must(t, err)
		got, err := d.Stripe.ReadPayment(t.Context(), session)
		must(t, err)
		if diff := cmp.Diff(&test.want, got.Breakdown); diff != "" || got.ReceivedMinor != test.want.SubtotalMinor+test.want.TaxMinor {
			t.Errorf("%s: received %d (-want +got)\n%s", name, got.ReceivedMinor, diff)
		}
	}
}

// A success in a currency that Stripe counts in no stated way is for a person, not for a retry.
func TestReadPayment_UncountableMoney(t *testing.T) {
	t.Parallel()
	d := openDesk(t, 0)
	session := d.session(false)
	_, err := d.sim.Pay(session, stripesim.PayOptions{Currency: "UGX"})
	must(t, err)
	if _, err := d.Stripe.ReadPayment(t.Context(), session); !errors.Is(err, provider.ErrRefused) || !errors.Is(err, money.ErrNotAtStripe) {
		t.Errorf("got %v", err)
	}
}
