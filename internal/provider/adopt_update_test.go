package provider_test

import (
	"errors"
	"net/http"
	"testing"

	"github.com/google/uuid"

	"paidonce/internal/provider"
	"paidonce/internal/stripesim"
)

// Whether an update was made is read off the object that it is made to.
func TestAdopt_AnUpdate(t *testing.T) {
	t.Parallel()
	d := openDesk(t, 0)
	for name, test := range map[string]struct {
		fault stripesim.Fault
		old   bool
		found bool
	}{
		"a kept 500, done":         {stripesim.Fault{Status: 500, AfterWork: true}, false, true},
		"a kept 500, not done":     {stripesim.Fault{Status: 500}, false, false},
		"a day old, done":          {stripesim.Fault{Kind: stripesim.LoseAnswer}, true, true},
		"a day old, not done":      {stripesim.Fault{Kind: stripesim.LoseRequest}, true, false},
		"a day old, turned away":   {stripesim.Fault{Status: 429}, true, false},
		"a day old, nothing there": {stripesim.Fault{Kind: stripesim.LoseRequest, Path: "/v1/payment_intents/pi_gone"}, true, false},
	} {
		alerts := d.alerts()
		payment, err := d.sim.Pay(d.session(false), stripesim.PayOptions{})
		must(t, err)
		d.exec(`DELETE FROM settled`)
		request := provider.FulfillRequest{OrderID: uuid.Must(uuid.NewV7()), PaymentIntentID: payment.PaymentIntentID, LicenseIDs: []uuid.UUID{uuid.Must(uuid.NewV7())}}
		if test.fault.Path != "" {
			request.PaymentIntentID = "pi_gone"
		}
		key := d.intend(request.Call())
		test.fault.Method = http.MethodPost
		d.sim.Inject(test.fault)
		if err := d.perform(key); err == nil {
			t.Errorf("%s: the first time is no error", name)
		}
		if test.old {
			d.age(key, aDay)
		}
		err = d.perform(key)
		if n, want := len(d.callsUnder(key)), map[bool]int{true: 1, false: 2}[test.old]; n != want {
			t.Errorf("%s: %d requests under the key, want %d", name, n, want)
		}
		var retry *provider.RetryError
		switch {
		case test.found:
			must(t, err)
			d.wantAdopted(name, key, request.PaymentIntentID)
		case test.old:
			if !errors.Is(err, provider.ErrKeyTooOld) || errors.Is(err, provider.ErrNotFound) != (test.fault.Path != "") || d.alerts()-alerts != 1 {
				t.Errorf("%s: got %v and %d alerts, want ErrKeyTooOld and one", name, err, d.alerts()-alerts)
			}
			d.wantState(name, key, provider.CallUnknown)
		case !errors.As(err, &retry) || d.alerts()-alerts != 0:
			t.Errorf("%s: got %v and %d alerts, want a retry under the same key", name, err, d.alerts()-alerts)
		}
	}
}

// Whether an expiry was made is read off the session, whoever made it.
func TestAdopt_AnExpiry(t *testing.T) {
	t.Parallel()
	d := openDesk(t, 0)
	for name, test := range map[string]struct {
		expired bool
		fault   stripesim.Fault
	}{
		"done":          {true, stripesim.Fault{Kind: stripesim.LoseAnswer}},
		"not done":      {false, stripesim.Fault{Kind: stripesim.LoseRequest}},
		"done, by time": {true, stripesim.Fault{Kind: stripesim.LoseRequest}},
	} {
		alerts := d.alerts()
		session := d.session(false)
		d.exec(`DELETE FROM settled`)
		key := d.intend(provider.ExpireRequest{PaymentID: uuid.Must(uuid.NewV7()), SessionID: session}.Call())
		d.sim.Inject(test.fault)
		if err := d.perform(key); err == nil {
			t.Errorf("%s: the first time is no error", name)
		}
		if test.expired && test.fault.Kind == stripesim.LoseRequest {
			d.sim.Advance(aDay)
		}
		d.age(key, aDay)
		err := d.perform(key)
		if test.expired {
			must(t, err)
			d.wantAdopted(name, key, session)
		} else if !errors.Is(err, provider.ErrKeyTooOld) || d.alerts()-alerts != 1 {
			t.Errorf("%s: got %v and %d alerts, want ErrKeyTooOld and one", name, err, d.alerts()-alerts)
		}
		if n := len(d.callsUnder(key)); n != 1 {
			t.Errorf("%s: %d requests under the key, want 1", name, n)
		}
	}
}
