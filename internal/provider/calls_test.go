package provider_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"gorm.io/gorm"

	"paidonce/internal/provider"
	"paidonce/internal/stripesim"
)

// TestIntend_TheFirstBytesStand (I7, B42): a call that is written down already stays as it
// is, gets no second job, and the transaction goes on.
func TestIntend_TheFirstBytesStand(t *testing.T) {
	t.Parallel()
	d := openDesk(t, 0)
	request := checkout()
	first := request.Call()
	request.Email = "changed@example.com"
	second := request.Call()
	must(t, d.DB.Transaction(func(tx *gorm.DB) error {
		for _, call := range []provider.Call{first, second, first} {
			if err := d.Intend(t.Context(), tx, call); err != nil {
				return err
			}
		}
		return tx.Exec(`SELECT 1`).Error // would be 25P02 in a poisoned transaction
	}))
	d.intend(second) // and from another transaction
	row := d.row(first.IdempotencyKey)
	if string(row.Params) != string(first.Params) || row.State != provider.CallIntended || row.FirstSentAt != nil || row.Attempts != 0 {
		t.Errorf("row %+v", row)
	}
	if n := d.count(`SELECT count(*) FROM enqueued`); n != 1 {
		t.Errorf("%d jobs, want 1", n)
	}
	if len(d.sim.Calls()) != 0 {
		t.Error("something was sent")
	}
}

// TestB59_IntendRollsBackWithItsTransaction: no row, and no job for a row that is not there.
func TestB59_IntendRollsBackWithItsTransaction(t *testing.T) {
	t.Parallel()
	d := openDesk(t, 0)
	errLater := errors.New("something after it failed")
	err := d.DB.Transaction(func(tx *gorm.DB) error {
		must(t, d.Intend(t.Context(), tx, checkout().Call()))
		return errLater
	})
	if n := d.count(`SELECT (SELECT count(*) FROM provider_calls) + (SELECT count(*) FROM enqueued)`); n != 0 || !errors.Is(err, errLater) {
		t.Errorf("%v, and %d rows left", err, n)
	}
}

func TestPerform_OnceAndNeverAgain(t *testing.T) {
	t.Parallel()
	d := openDesk(t, 0)
	key := d.intended()
	for range 3 {
		must(t, d.perform(key))
	}
	d.wantOneEffect("three times", key)
	if n := len(d.sim.Calls()); n != 1 {
		t.Errorf("%d requests, want 1", n)
	}
	if err := d.perform("checkout:nobody"); !errors.Is(err, gorm.ErrRecordNotFound) {
		t.Errorf("a call that was never written down: got %v", err)
	}

	unconfigured := *d.Calls
	unconfigured.Stripe = nil
	key = d.intended()
	if err := unconfigured.Perform(t.Context(), key, settle); !errors.Is(err, provider.ErrNotConfigured) || d.row(key).Attempts != 0 {
		t.Errorf("without a key: got %v", err)
	}
}

// TestPerform_TheSameBytesUnderTheSameKey (I7): whatever goes wrong on the way, the retry is
// the same request, and Stripe does it once.
func TestPerform_TheSameBytesUnderTheSameKey(t *testing.T) {
	t.Parallel()
	d := openDesk(t, 0)
	status := func(code, times int) stripesim.Fault { return stripesim.Fault{Status: code, Times: times} }
	for name, test := range map[string]struct {
		fault stripesim.Fault
		after []time.Duration    // what each failed attempt is told to wait
		state provider.CallState // after the first failed attempt
		again bool               // the last answer is one that Stripe kept
	}{
		// The answer, or the request, is lost: nobody knows what happened.
		"a lost answer":      {stripesim.Fault{Kind: stripesim.LoseAnswer}, []time.Duration{0}, provider.CallUnknown, true},
		"three lost answers": {stripesim.Fault{Kind: stripesim.LoseAnswer, Times: 3}, []time.Duration{0, 0, 0}, provider.CallUnknown, true},
		"a lost request":     {stripesim.Fault{Kind: stripesim.LoseRequest}, []time.Duration{0}, provider.CallUnknown, false},

		// Turned away at the door: nothing happened (B28).
		"409":                   {status(409, 2), []time.Duration{0, 0}, provider.CallIntended, false},
		"429":                   {status(429, 5), []time.Duration{0, 0, 0, 0, 0}, provider.CallIntended, false},
		"429 lock_timeout":      {stripesim.Fault{Status: 429, Code: "lock_timeout"}, []time.Duration{0}, provider.CallIntended, false},
		"429 with a wait":       {stripesim.Fault{Status: 429, RetryAfter: "30"}, []time.Duration{30 * time.Second}, provider.CallIntended, false},
		"429 with a day's wait": {stripesim.Fault{Status: 429, RetryAfter: "86400"}, []time.Duration{10 * time.Minute}, provider.CallIntended, false},
		"429 with a date":       {stripesim.Fault{Status: 429, RetryAfter: "Wed, 21 Oct 2026 07:28:00 GMT"}, []time.Duration{0}, provider.CallIntended, false},
		"429 with nonsense":     {stripesim.Fault{Status: 429, RetryAfter: "-5"}, []time.Duration{0}, provider.CallIntended, false},

		// A key that configuration will mend.
		"401": {status(401, 1), []time.Duration{time.Minute}, provider.CallIntended, false},
		"403": {status(403, 1), []time.Duration{time.Minute}, provider.CallIntended, false},
	} {
		key := d.intended()
		test.fault.Path = "/v1/checkout/sessions"
		d.sim.Inject(test.fault)
		var firstSent *time.Time // what a key's age is counted from; nil while nothing can have happened
		for i, after := range test.after {
			var retry *provider.RetryError
			err := d.perform(key)
			if !errors.As(err, &retry) || retry.After != after || strings.Contains(err.Error(), secretKey[8:]) {
				t.Errorf("%s, attempt %d: got %v, want a retry after %s", name, i+1, err, after)
			}
			if i == 0 {
				d.wantState(name, key, test.state)
				if firstSent = d.row(key).FirstSentAt; (firstSent == nil) != (test.state == provider.CallIntended) {
					t.Errorf("%s: first sent at %v on record after an attempt that ended %s", name, firstSent, test.state)
				}
			}
		}
		must(t, d.perform(key))
		d.wantOneEffect(name, key)
		calls := d.callsUnder(key)
		if len(calls) != len(test.after)+1 || calls[len(calls)-1].Replayed != test.again {
			t.Errorf("%s: %d requests, the last replayed: %v", name, len(calls), calls[len(calls)-1].Replayed)
		}
		if row := d.row(key); row.Attempts != len(calls) || firstSent != nil && !row.FirstSentAt.Equal(*firstSent) {
			t.Errorf("%s: %d attempts since %s on record, want %d since %s", name, row.Attempts, row.FirstSentAt, len(calls), firstSent)
		}
	}
}

// Stripe keeps a 500 under its key and answers it again, whether the work was done or not.
// If there is no trace of it, the call is tried for as long as its key lives, and then a
// person is asked; it is never settled on a guess, and never sent under another key.
func TestPerform_A500SaysNothing(t *testing.T) {
	t.Parallel()
	d := openDesk(t, 0)
	key := d.intended()
	d.sim.Inject(stripesim.Fault{Status: 500})
	for i := range 3 {
		var retry *provider.RetryError
		if err := d.perform(key); !errors.As(err, &retry) {
			t.Errorf("attempt %d: got %v, want a retry", i+1, err)
		}
		d.wantState(fmt.Sprint("attempt ", i+1), key, provider.CallUnknown)
	}
	if n := d.lists(); n != 2 {
		t.Errorf("looked %d times, want at each answer that was brought back: twice", n)
	}
	d.age(key, 24*time.Hour)
	if err := d.perform(key); !errors.Is(err, provider.ErrKeyTooOld) {
		t.Errorf("a day later: got %v, want ErrKeyTooOld", err)
	}
	if n := d.count(`SELECT count(*) FROM settled`); n != 0 || len(d.callsUnder(key)) != 3 {
		t.Errorf("settled %d times after %d requests, want never and 3", n, len(d.callsUnder(key)))
	}
}

// age lets a call's first attempt be so long ago.
func (d desk) age(key string, by time.Duration) {
	d.t.Helper()
	d.exec(`UPDATE provider_calls SET first_sent_at = now() - make_interval(secs => ?),
		last_sent_at = now() - make_interval(secs => ?) WHERE idempotency_key = ?`, by.Seconds(), by.Seconds(), key)
}

// TestPerform_AKeyIsNotUsedForever: Stripe may have forgotten it after a day, and would act
// again. Nothing is sent; a call that was written down long ago but never sent has no age.
func TestPerform_AKeyIsNotUsedForever(t *testing.T) {
	t.Parallel()
	d := openDesk(t, 0)
	for name, test := range map[string]struct {
		age  time.Duration
		sent bool
	}{"one minute young": {23*time.Hour - time.Minute, true}, "one second old": {23*time.Hour + time.Second, false}} {
		for _, state := range []provider.CallState{provider.CallIntended, provider.CallUnknown, provider.CallSending} {
			key := d.intended()
			d.exec(`UPDATE provider_calls SET state = ?, sending_until = CASE WHEN ? = 'sending' THEN now() END WHERE idempotency_key = ?`, state, state, key)
			d.age(key, test.age)
			err := d.perform(key)
			if test.sent {
				must(t, err)
				d.wantOneEffect(name, key)
			} else if !errors.Is(err, provider.ErrKeyTooOld) || len(d.callsUnder(key)) != 0 || d.row(key).State != provider.CallUnknown {
				t.Errorf("%s, %s: got %v after %d requests, want ErrKeyTooOld and none", name, state, err, len(d.callsUnder(key)))
			}
		}
	}
	key := d.intended()
	d.exec(`UPDATE provider_calls SET created_at = now() - interval '3 days' WHERE idempotency_key = ?`, key)
	must(t, d.perform(key))
	d.wantOneEffect("never sent", key)
}

// TestIntend_WaitsForNobody (B40): whoever settles a call holds its row and waits for the
// order; whoever cancels the order holds that, and writes the same call down again. The
// second must not wait for the first, or they wait for each other.
func TestIntend_WaitsForNobody(t *testing.T) {
	t.Parallel()
	d := openDesk(t, 0)
	call := checkout().Call()
	key := d.intend(call)
	must(t, d.Perform(t.Context(), key, func(context.Context, *gorm.DB, provider.Call, provider.Answer) error {
		return d.DB.Transaction(func(other *gorm.DB) error { // while the settling transaction holds the row
			must(t, other.Exec(`SET LOCAL lock_timeout = '500ms'`).Error)
			return d.Intend(t.Context(), other, call)
		})
	}))
	d.wantState("settled", key, provider.CallSent)
	if n := d.count(`SELECT count(*) FROM enqueued`); n != 1 {
		t.Errorf("%d jobs, want 1", n)
	}
}
