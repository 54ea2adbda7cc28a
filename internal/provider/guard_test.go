package provider_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"gorm.io/gorm"

	"paidonce/internal/money"
	"paidonce/internal/provider"
	"paidonce/internal/stripesim"
)

// guarded sets a guard that says no from the n-th question on, and counts the questions.
func (d desk) guarded(n int) (asked *int) {
	asked = new(int)
	d.Guard = func(_ context.Context, tx *gorm.DB, call provider.Call) error {
		*asked++
		if err := tx.Exec(`INSERT INTO enqueued VALUES (?)`, "asked:"+call.IdempotencyKey).Error; err != nil {
			return err
		}
		if *asked < n {
			return nil
		}
		return fmt.Errorf("%w: the buyer keeps it", provider.ErrNotWanted)
	}
	return asked
}

// A call that is not wanted any more is never sent: not at first, and not by a retry.
func TestGuard_NotWanted(t *testing.T) {
	t.Parallel()
	d := openDesk(t, 0)
	p := d.sold(money.Amount{Minor: 1999, Currency: "usd"})
	key := d.refunding(refundOf(p, 0))
	asked := d.guarded(1)
	if err := d.perform(key); !errors.Is(err, provider.ErrNotWanted) || !errors.Is(err, provider.ErrRefused) {
		t.Errorf("got %v, want it not wanted, and so refused", err)
	}
	row := d.row(key)
	if row.State != provider.CallFailed || row.FinishedAt == nil || row.FirstSentAt != nil || row.SendingUntil != nil {
		t.Errorf("row %+v, want it failed and never sent", row)
	}
	if row.LastError == nil || !strings.Contains(*row.LastError, "the buyer keeps it") {
		t.Errorf("last error %v, want why", row.LastError)
	}
	d.Guard = nil // whoever asks later gets the same answer
	if err := d.perform(key); !errors.Is(err, provider.ErrRefused) {
		t.Errorf("again: got %v, want it refused", err)
	}
	if n := len(d.callsUnder(key)); n != 0 || *asked != 1 || len(d.sim.Refunds()) != 0 {
		t.Errorf("%d requests and %d refunds after %d questions, want none after one", n, len(d.sim.Refunds()), *asked)
	}
}

// A guard that does not know leaves the call as it was.
func TestGuard_DoesNotKnow(t *testing.T) {
	t.Parallel()
	d := openDesk(t, 0)
	key := d.refunding(refundOf(d.sold(money.Amount{Minor: 1999, Currency: "usd"}), 0))
	errGuard := errors.New("no order, for the moment")
	d.Guard = func(context.Context, *gorm.DB, provider.Call) error { return errGuard }
	if err := d.perform(key); !errors.Is(err, errGuard) || errors.Is(err, provider.ErrRefused) {
		t.Errorf("got %v, want the guard's error", err)
	}
	if row := d.row(key); row.State != provider.CallIntended || row.Attempts != 0 || len(d.callsUnder(key)) != 0 {
		t.Errorf("row %+v after %d requests, want it untouched", row, len(d.callsUnder(key)))
	}
	d.Guard = nil
	must(t, d.perform(key))
	if n := len(d.sim.Refunds()); n != 1 {
		t.Errorf("%d refunds, want one", n)
	}
}

// The guard is asked before every sending. What is not wanted any more and may have been sent is
// looked for, and not sent again: else nobody would know what it did.
func TestGuard_IsAskedBeforeEverySending(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		fault stripesim.Fault
		later func(d desk, key string) // between the first attempt and the second
		asked int
		state provider.CallState
	}{
		"the answer was lost":  {stripesim.Fault{Kind: stripesim.LoseAnswer}, nil, 2, provider.CallSent},
		"the request was lost": {stripesim.Fault{Kind: stripesim.LoseRequest}, nil, 2, provider.CallFailed},
		"the request was lost, and nobody can look": {stripesim.Fault{Kind: stripesim.LoseRequest}, func(d desk, _ string) {
			d.sim.Inject(stripesim.Fault{Method: http.MethodGet, Path: "/v1/refunds", Status: http.StatusBadRequest})
		}, 2, provider.CallUnknown},
		"the process died": {stripesim.Fault{Kind: stripesim.LoseAnswer}, func(d desk, key string) {
			d.exec(`UPDATE provider_calls SET state = 'sending', sending_until = now() WHERE idempotency_key = ?`, key)
		}, 2, provider.CallSent},
		"the key is too old": {stripesim.Fault{Kind: stripesim.LoseAnswer}, func(d desk, key string) { d.age(key, aDay) }, 1, provider.CallSent},
		"it was turned away": {stripesim.Fault{Status: http.StatusTooManyRequests}, nil, 2, provider.CallFailed},
	} {
		d := openDesk(t, 0)
		p := d.sold(money.Amount{Minor: 1999, Currency: "usd"})
		key := d.refunding(refundOf(p, 0))
		asked := d.guarded(2)
		test.fault.Method = http.MethodPost
		d.sim.Inject(test.fault)
		if err := d.perform(key); err == nil {
			t.Fatalf("%s: no error", name)
		}
		if test.later != nil {
			test.later(d, key)
		}
		err := d.perform(key)
		if (err == nil) != (test.state == provider.CallSent) || *asked != test.asked {
			t.Errorf("%s: %v after %d questions, want the call %s after %d", name, err, *asked, test.state, test.asked)
		}
		d.wantState(name, key, test.state)
	}
}
