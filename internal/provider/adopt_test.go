package provider_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"paidonce/internal/provider"
	"paidonce/internal/stripesim"
)

// aDay is longer than any key is remembered.
const aDay = 25 * time.Hour

// lists counts how often sessions were listed: how often it was looked, page by page.
func (d desk) lists() (n int) {
	for _, call := range d.sim.Calls() {
		if call.Method == http.MethodGet && call.Path == "/v1/checkout/sessions" {
			n++
		}
	}
	return n
}

func (d desk) alerts() int { return strings.Count(d.log.String(), `"alert":true`) }

// posted sends a body under a key of the test's own, as somebody else would, and returns
// the id of the session that it made.
func (d desk) posted(body []byte) string {
	d.t.Helper()
	request, err := http.NewRequestWithContext(d.t.Context(), http.MethodPost, d.url+"/v1/checkout/sessions", strings.NewReader(string(body)))
	must(d.t, err)
	request.Header.Set("Authorization", "Bearer "+secretKey)
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	response, err := http.DefaultClient.Do(request)
	must(d.t, err)
	defer func() { _ = response.Body.Close() }()
	var made struct{ ID string }
	if err := json.NewDecoder(response.Body).Decode(&made); err != nil || response.StatusCode != http.StatusOK {
		d.t.Fatalf("%s for %s: %v", response.Status, body, err)
	}
	return made.ID
}

// newest is the id of the session that Stripe made last.
func (d desk) newest() string {
	ids := d.sim.Sessions()
	return ids[len(ids)-1]
}

// yesterday lets do happen a day ago: by Stripe's clock, which forgets its keys on the way
// back, and by the call's row.
func (d desk) yesterday(key string, do func()) {
	d.t.Helper()
	d.sim.Advance(-aDay)
	do()
	d.sim.Advance(aDay)
	d.age(key, aDay)
}

// wantAdopted checks that a call was settled, once, with what was found, and says so; and
// that Stripe did it once.
func (d desk) wantAdopted(name, key, id string) {
	d.t.Helper()
	row := d.row(key)
	if row.State != provider.CallSent || row.ResultID == nil || *row.ResultID != id || row.FinishedAt == nil || row.SendingUntil != nil {
		d.t.Errorf("%s: call is %s with %v, want %s settled", name, row.State, row.ResultID, id)
	}
	if row.LastError == nil || !strings.HasPrefix(*row.LastError, "adopted "+id) {
		d.t.Errorf("%s: last_error %v, want that it was adopted", name, row.LastError)
	}
	if n := d.count(`SELECT count(*) FROM settled WHERE idempotency_key = ? AND result_id = ?`, key, id); n != 1 {
		d.t.Errorf("%s: settled %d times, want once", name, n)
	}
	requests := len(d.sim.Calls())
	must(d.t, d.perform(key))
	if len(d.sim.Calls()) != requests {
		d.t.Errorf("%s: something was asked after it was settled", name)
	}
}

// TestAdopt_AKeyThatStripeHasForgotten: the answer was lost, or its receiver died, and nobody
// came back for a day. The key would act again; so it is not sent, and what it did is found.
func TestAdopt_AKeyThatStripeHasForgotten(t *testing.T) {
	t.Parallel()
	for name, left := range map[string]provider.CallState{"a lost answer": provider.CallUnknown, "a dead process": provider.CallSending} {
		d := openDesk(t, 0)
		key := d.intended()
		d.yesterday(key, func() {
			d.sim.Inject(stripesim.Fault{Kind: stripesim.LoseAnswer})
			var retry *provider.RetryError
			if err := d.perform(key); !errors.As(err, &retry) {
				t.Errorf("%s: got %v, want a retry", name, err)
			}
			d.posted(checkout().Call().Params) // and other people's, before and after
		})
		made := d.sim.Sessions()
		if left == provider.CallSending {
			d.exec(`UPDATE provider_calls SET state = 'sending', sending_until = now()`)
		}
		must(t, d.perform(key))
		d.wantAdopted(name, key, made[0])
		if n := len(d.callsUnder(key)); n != 1 || len(d.sim.Sessions()) != len(made) || d.alerts() != 0 {
			t.Errorf("%s: %d requests under the key, %d sessions, %d alerts; want 1, %d and none", name, n, len(d.sim.Sessions()), d.alerts(), len(made))
		}
	}
}

// Without a trace of it, nothing is sent and a person is asked. What was made for another
// payment of the same order, or outside of the window, is no trace.
func TestAdopt_NothingThere(t *testing.T) {
	t.Parallel()
	d := openDesk(t, 0)
	request := checkout()
	key := d.intend(request.Call())
	other := request
	other.PaymentID = uuid.Must(uuid.NewV7())
	d.sim.Advance(-6 * time.Minute)
	d.yesterday(key, func() {
		d.posted(request.Call().Params) // six minutes too early
		d.sim.Advance(6 * time.Minute)
		d.sim.Inject(stripesim.Fault{Kind: stripesim.LoseRequest})
		if err := d.perform(key); err == nil {
			t.Error("a lost request is no error")
		}
		d.posted(other.Call().Params)
	})
	sent := *d.row(key).LastSentAt
	for range 2 { // and again, when a person has it tried again
		if err := d.perform(key); !errors.Is(err, provider.ErrKeyTooOld) {
			t.Errorf("got %v, want ErrKeyTooOld", err)
		}
		d.wantState("nothing there", key, provider.CallUnknown)
		if last := *d.row(key).LastSentAt; !last.Equal(sent) {
			t.Errorf("last sent at %s after looking, it was %s", last, sent)
		}
	}
	if n := len(d.callsUnder(key)); n != 1 || d.count(`SELECT count(*) FROM settled`) != 0 || d.alerts() != 2 {
		t.Errorf("%d requests, %d settled, %d alerts; want 1, none and one each time", n, d.count(`SELECT count(*) FROM settled`), d.alerts())
	}
}

// All pages are read: what is looked for is the oldest of 251, and there are two of it. The
// oldest is adopted, and a person is told of the other.
func TestAdopt_TheOldestOfSeveralPages(t *testing.T) {
	t.Parallel()
	d := openDesk(t, 0)
	request := checkout().Call()
	key := d.intend(request)
	var first string
	d.yesterday(key, func() {
		d.sim.Inject(stripesim.Fault{Kind: stripesim.LoseAnswer})
		if err := d.perform(key); err == nil {
			t.Error("a lost answer is no error")
		}
		first = d.newest()
		for i := range 250 {
			if i == 120 {
				d.posted(request.Params)
			}
			d.posted(checkout().Call().Params)
		}
	})
	before := d.lists()
	must(t, d.perform(key))
	if n := d.lists() - before; n != 3 {
		t.Errorf("%d pages read, want 3", n)
	}
	d.wantAdopted("the oldest", key, first)
	if d.alerts() != 1 {
		t.Errorf("%d alerts, want one: %s", d.alerts(), d.log)
	}
}

// TestB27_AKeyThatWasUsedOtherwise: somebody sent other bytes under our key. What they made
// for this payment is this payment's; if they made something else, nobody acts again, under
// this key or another, and a person looks.
func TestB27_AKeyThatWasUsedOtherwise(t *testing.T) {
	t.Parallel()
	d := openDesk(t, 0)
	request := checkout()
	for name, test := range map[string]struct {
		used  provider.CheckoutRequest
		found bool
	}{
		"another mail address": {func() provider.CheckoutRequest { r := request; r.Email = "changed@example.com"; return r }(), true},
		"another order": {func() provider.CheckoutRequest {
			r := request
			r.OrderID = uuid.Must(uuid.NewV7())
			return r
		}(), false},
	} {
		request.PaymentID = uuid.Must(uuid.NewV7())
		test.used.PaymentID = request.PaymentID
		key := d.intend(test.used.Call())
		must(t, d.perform(key))
		used := *d.row(key).ResultID
		d.exec(`DELETE FROM provider_calls`)
		d.exec(`DELETE FROM settled`)

		alerts := d.alerts()
		d.intend(request.Call())
		err := d.perform(key)
		if test.found {
			must(t, err)
			d.wantAdopted(name, key, used)
			continue
		}
		var retry *provider.RetryError
		if !errors.Is(err, provider.ErrRefused) || errors.As(err, &retry) || !strings.Contains(err.Error(), "idempotency_error") {
			t.Errorf("%s: got %v, want it refused as an idempotency_error", name, err)
		}
		d.wantState(name, key, provider.CallUnknown)
		if d.count(`SELECT count(*) FROM settled`) != 0 || len(d.callsUnder(key)) != 2 || d.alerts() != alerts+1 {
			t.Errorf("%s: %d settled, %d requests, %d alerts", name, d.count(`SELECT count(*) FROM settled`), len(d.callsUnder(key)), d.alerts()-alerts)
		}
	}
}

// Stripe answered 500 after it had done the work, and keeps that answer under the key. The
// second time it brings it, what it did is found.
func TestAdopt_A500ThatIsKept(t *testing.T) {
	t.Parallel()
	d := openDesk(t, 0)
	key := d.intended()
	d.sim.Inject(stripesim.Fault{Status: 500, AfterWork: true})
	var retry *provider.RetryError
	if err := d.perform(key); !errors.As(err, &retry) || d.lists() != 0 {
		t.Errorf("the first time: got %v after %d looks, want a retry and none: it may pass", err, d.lists())
	}
	must(t, d.perform(key))
	d.wantAdopted("kept", key, d.newest())
	if row := d.row(key); !row.LastSentAt.After(*row.FirstSentAt) {
		t.Errorf("last sent at %s, first at %s, after two requests", row.LastSentAt, row.FirstSentAt)
	}
	if n := len(d.callsUnder(key)); n != 2 {
		t.Errorf("%d requests, want 2", n)
	}
}

// The age of a key is judged by the database's clock alone: a process whose own is wrong by
// days neither gives a young key up nor sends an old one.
func TestAdopt_TheDatabaseTellsTheTime(t *testing.T) {
	t.Parallel()
	d := openDesk(t, 0)
	for name, wrong := range map[string]time.Duration{"fast": 48 * time.Hour, "slow": -48 * time.Hour} {
		d.Now = func() time.Time { return time.Now().Add(wrong).UTC().Truncate(time.Microsecond) }
		young, old := d.intended(), d.intended()
		d.age(young, time.Hour)
		d.age(old, aDay)
		must(t, d.perform(young))
		d.wantOneEffect(name+", young", young)
		if err := d.perform(old); !errors.Is(err, provider.ErrKeyTooOld) || len(d.callsUnder(old)) != 0 {
			t.Errorf("%s, old: got %v after %d requests, want ErrKeyTooOld and none", name, err, len(d.callsUnder(old)))
		}

		// While another is at it, it is in flight, however old.
		d.exec(`UPDATE provider_calls SET state = 'sending', sending_until = now() + interval '1 min' WHERE idempotency_key = ?`, old)
		if err := d.perform(old); !errors.Is(err, provider.ErrInFlight) {
			t.Errorf("%s, under way: got %v, want ErrInFlight", name, err)
		}
	}
}
