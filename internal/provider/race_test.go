package provider_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"paidonce/internal/provider"
	"paidonce/internal/stripesim"
)

// start performs a call beside the test; its error comes when it ends.
func (d desk) start(key string) <-chan error {
	done := make(chan error, 1)
	go func() { done <- d.perform(key) }()
	return done
}

// TestPerform_TwentyAtOnceActOnce: the handler and the job, and eighteen more.
func TestPerform_TwentyAtOnceActOnce(t *testing.T) {
	t.Parallel()
	d := openDesk(t, 20)
	key := d.intended()
	start := make(chan struct{})
	errs := make([]error, 20)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() {
			<-start
			errs[i] = d.perform(key)
		})
	}
	close(start)
	wg.Wait()
	done := 0
	for _, err := range errs {
		switch {
		case err == nil:
			done++
		case !errors.Is(err, provider.ErrInFlight):
			t.Errorf("got %v, want nil or ErrInFlight", err)
		}
	}
	if done == 0 {
		t.Error("nobody performed it")
	}
	d.wantOneEffect("twenty at once", key)
	if n := len(d.callsUnder(key)); n != 1 || d.row(key).Attempts != 1 {
		t.Errorf("%d requests and %d attempts, want 1", n, d.row(key).Attempts)
	}
}

// TestB44_NoConnectionIsHeldAcrossHTTP (I8): with a pool of one, the database answers while
// Stripe is thinking. Whoever asks for the same call meanwhile is told that it is under way.
func TestB44_NoConnectionIsHeldAcrossHTTP(t *testing.T) {
	t.Parallel()
	d := openDesk(t, 1)
	key := d.intended()
	gate := make(chan struct{})
	d.sim.Inject(stripesim.Fault{Gate: gate})
	first := d.start(key)
	d.arrived(key, 1)

	row := d.row(key) // on the only connection
	if row.State != provider.CallSending || row.SendingUntil == nil || row.FirstSentAt == nil || row.Attempts != 1 {
		t.Errorf("row %+v, want it on record as sending", row)
	}
	if lease := row.SendingUntil.Sub(*row.FirstSentAt); lease != provider.DefaultLease || lease <= provider.DefaultTimeout {
		t.Errorf("lease %s, want %s: longer than a request may take", lease, provider.DefaultLease)
	}
	if err := d.perform(key); !errors.Is(err, provider.ErrInFlight) || len(d.callsUnder(key)) != 1 {
		t.Errorf("within the lease: got %v after %d requests, want ErrInFlight and one", err, len(d.callsUnder(key)))
	}
	close(gate)
	must(t, <-first)
	d.wantOneEffect("after the wait", key)
}

// A performer that oversleeps its lease is taken over; both have the same key, so that there
// is one effect, and it is settled once, by whoever gets the answer.
func TestPerform_AnOversleptLeaseIsTakenOver(t *testing.T) {
	t.Parallel()
	d := openDesk(t, 0)
	key := d.intended()
	gate := make(chan struct{})
	d.sim.Inject(stripesim.Fault{Gate: gate})
	first := d.start(key)
	d.arrived(key, 1)
	d.lapse(key)

	// Stripe sees the key in use, and the second performer leaves.
	var retry *provider.RetryError
	if err := d.perform(key); !errors.As(err, &retry) || d.row(key).Attempts != 2 {
		t.Errorf("taking over: got %v after %d attempts", err, d.row(key).Attempts)
	}
	d.wantState("taken over", key, provider.CallUnknown)
	close(gate)
	must(t, <-first)
	must(t, d.perform(key))
	d.wantOneEffect("both", key)
}

// Two performers may both get Stripe's answer: the first has it, is slow to record it, and is
// taken over. The second settles, and the first finds nothing left to do.
func TestPerform_TwoAnswersSettleOnce(t *testing.T) {
	t.Parallel()
	d := openDesk(t, 0)
	key := d.intended()
	answered, goOn := make(chan struct{}), make(chan struct{})
	slow := d
	calls := *d.Calls
	calls.Crash = func(at string) {
		if at == "CW10" {
			close(answered)
			<-goOn
		}
	}
	slow.Calls = &calls
	first := slow.start(key)
	<-answered
	d.lapse(key)
	must(t, d.perform(key))
	d.wantOneEffect("the second", key)
	close(goOn)
	must(t, <-first)
	d.wantOneEffect("both", key)
}

// A performer that fails after it was taken over says nothing about the row, which is about
// the other one's attempt by then: a third is still told that the call is in flight.
func TestPerform_AFailureAfterATakeoverIsNotRecorded(t *testing.T) {
	t.Parallel()
	d := openDesk(t, 0)
	key := d.intended()
	lost, slow := make(chan struct{}), make(chan struct{})
	d.sim.Inject(stripesim.Fault{Kind: stripesim.LoseRequest, Gate: lost})
	d.sim.Inject(stripesim.Fault{Gate: slow})
	first := d.start(key)
	d.arrived(key, 1)
	d.lapse(key)
	second := d.start(key)
	d.arrived(key, 2)

	close(lost)
	var retry *provider.RetryError
	if err := <-first; !errors.As(err, &retry) {
		t.Errorf("the first: got %v, want a retry", err)
	}
	d.wantState("the first failed", key, provider.CallSending)
	if err := d.perform(key); !errors.Is(err, provider.ErrInFlight) {
		t.Errorf("a third: got %v, want ErrInFlight", err)
	}
	close(slow)
	must(t, <-second)
	d.wantOneEffect("the second", key)
}

// A performer that dies leaves the row as sending. After the lease the same bytes go out
// under the same key, and Stripe answers with what the first one did, if it did.
func TestPerform_DeathAtEveryWindow(t *testing.T) {
	t.Parallel()
	for window, want := range map[string]struct {
		left     provider.CallState
		requests int // in the end
	}{
		"CW8":  {provider.CallIntended, 1}, // before it is on record
		"CW9":  {provider.CallSending, 1},  // on record, not sent
		"CW10": {provider.CallSending, 2},  // sent, not recorded
		"CW11": {provider.CallSent, 1},     // recorded, not reported
	} {
		d := openDesk(t, 0)
		key := d.intended()
		d.Crash = func(at string) {
			if at == window {
				runtime.Goexit() // no deferred work of Perform records anything
			}
		}
		var wg sync.WaitGroup
		wg.Go(func() { _ = d.perform(key) })
		wg.Wait()
		d.wantState(window, key, want.left)

		d.Crash = nil
		if want.left == provider.CallSending {
			if err := d.perform(key); !errors.Is(err, provider.ErrInFlight) {
				t.Errorf("%s, within the lease: got %v, want ErrInFlight", window, err)
			}
			d.lapse(key)
		}
		must(t, d.perform(key))
		d.wantOneEffect(window, key)
		if calls := d.callsUnder(key); len(calls) != want.requests {
			t.Errorf("%s: %d requests, want %d", window, len(calls), want.requests)
		}
	}
}

// A caller who is told to stop while the request is under way leaves a record of it.
func TestPerform_AStopIsRecorded(t *testing.T) {
	t.Parallel()
	d := openDesk(t, 0)
	key := d.intended()
	gate := make(chan struct{})
	d.sim.Inject(stripesim.Fault{Gate: gate})
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- d.Perform(ctx, key, settle) }()
	d.arrived(key, 1)
	stop()
	if err := <-done; !errors.Is(err, context.Canceled) || strings.Contains(err.Error(), secretKey[8:]) {
		t.Errorf("got %v, want that it was stopped", err)
	}
	d.wantState("stopped", key, provider.CallUnknown)

	close(gate) // Stripe goes on working, and the next attempt finds what it did
	var retry *provider.RetryError
	for deadline := time.Now().Add(20 * time.Second); errors.As(d.perform(key), &retry) && time.Now().Before(deadline); {
		runtime.Gosched() // 409 until that is done
	}
	d.wantOneEffect("stopped", key)
}
