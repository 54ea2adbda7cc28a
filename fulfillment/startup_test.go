package fulfillment

// Inside the package, for its limits. Pure.

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/riverqueue/river"

	"paidonce/internal/provider"
)

// What the code says fits; and each thing that would not is a fault that is told by name,
// before any job is worked.
func TestCheckTimes(t *testing.T) {
	t.Parallel()
	type world struct {
		calls  provider.Times
		byKind map[string]limits
		rescue time.Duration
	}
	change := func(kind string, do func(*limits)) func(*world) {
		return func(w *world) { l := w.byKind[kind]; do(&l); w.byKind[kind] = l }
	}
	for name, test := range map[string]struct {
		change func(*world)
		faults []string
	}{
		"as it is": {func(*world) {}, nil},
		"a request as long as the lease": {func(w *world) { w.calls.Request = w.calls.Lease }, []string{
			"create_checkout: the time of a request (30s)", "expire_checkout: the time of a request", "notify_provider: the time of a request",
			"send_refund: the time of a request",
		}},
		"a lease as long as the job": {
			func(w *world) { w.calls.Lease = limitsOf(kindCreateCheckout).timeout }, []string{
				"create_checkout: the lease of a call (40s)", "expire_checkout: the lease", "notify_provider: the lease", "send_refund: the lease",
			},
		},
		"a rescue while the job may still run": {func(w *world) { w.rescue = 50 * time.Second }, []string{
			"create_checkout: its timeout and the soft stop (50s)", "expire_checkout: its timeout", "notify_provider: its timeout", "send_refund: its timeout",
			"send_receipt: its timeout", "read_payment: its timeout", "reconcile: its timeout",
		}},
		"a horizon beyond the key's life": {
			change(kindNotifyProvider, func(l *limits) { l.attempts = 40 }), []string{"notify_provider: the time it is tried for (28h"},
		},
		"a key that lives shorter": {func(w *world) { w.calls.KeyLife = time.Hour }, []string{
			"create_checkout: the time it is tried for", "expire_checkout: the time", "notify_provider: the time", "send_refund: the time",
		}},
		"a horizon beyond it of a job without a call": {change(kindReadPayment, func(l *limits) { l.attempts = 400 }), nil},
		"two at once": {func(w *world) {
			change(kindCreateCheckout, func(l *limits) { l.timeout = 20 * time.Second; l.attempts = 60 })(w)
		}, []string{"create_checkout: the lease of a call (30s) must be less than its timeout (20s)", "create_checkout: the time it is tried for"}},
	} {
		w := world{calls: (&provider.Calls{}).Times(), byKind: map[string]limits{}, rescue: rescueAfter}
		for _, kind := range kinds() {
			w.byKind[kind] = limitsOf(kind)
		}
		test.change(&w)
		err := checkTimes(w.calls, w.byKind, w.rescue)
		if (err == nil) != (len(test.faults) == 0) {
			t.Errorf("%s: got %v", name, err)
			continue
		}
		if err == nil {
			continue
		}
		if got := strings.Count(err.Error(), " must be less than "); got != len(test.faults) {
			t.Errorf("%s: %d faults, want %d: %v", name, got, len(test.faults), err)
		}
		for _, fault := range test.faults {
			if !strings.Contains(err.Error(), fault) {
				t.Errorf("%s: %q is missing in: %v", name, fault, err)
			}
		}
	}

	// A service is checked with the times of its own calls.
	stripe := provider.NewStripe(provider.StripeConfig{Timeout: 35 * time.Second})
	if err := (&Service{Calls: &provider.Calls{Stripe: stripe}}).CheckTimes(); err == nil || !strings.Contains(err.Error(), "the time of a request (35s)") {
		t.Errorf("a client that waits longer than the lease: got %v", err)
	}
	if err := (&Service{Calls: &provider.Calls{Lease: time.Hour}}).CheckTimes(); err == nil || !strings.Contains(err.Error(), "the lease of a call (1h0m0s)") {
		t.Errorf("a lease of an hour: got %v", err)
	}
	if err := (&Service{Calls: &provider.Calls{}}).CheckTimes(); err != nil {
		t.Errorf("not configured: got %v", err)
	}
}

// The kinds that perform calls are those that EnqueueCall enqueues: one that is forgotten
// would not be held against the key's life.
func TestPerformsCalls(t *testing.T) {
	t.Parallel()
	enqueued := map[string]bool{
		CreateCheckoutArgs{}.Kind(): true, ExpireCheckoutArgs{}.Kind(): true, NotifyProviderArgs{}.Kind(): true, SendRefundArgs{}.Kind(): true,
	}
	for _, kind := range kinds() {
		if performsCalls(kind) != enqueued[kind] {
			t.Errorf("%s: performs calls %v, want %v", kind, performsCalls(kind), enqueued[kind])
		}
	}
}

// TestB28_WhatAJobDoesNext: turned away with a wait, it comes back not sooner, not with all
// the others, and not for ever; a fault of the network goes by the schedule, and costs an
// attempt.
func TestB28_WhatAJobDoesNext(t *testing.T) {
	t.Parallel()
	asked := &provider.RetryError{After: 30 * time.Second, Cause: errors.New("429")}
	reset := &provider.RetryError{Cause: &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}}
	pause := 700 * time.Millisecond
	for name, test := range map[string]struct {
		err    error
		next   again
		snooze time.Duration // 0: none
		cancel bool
	}{
		"asked to wait":                       {asked, again{pause: pause}, 30*time.Second + pause, false},
		"asked, wrapped":                      {fmt.Errorf("call: %w", asked), again{pause: pause}, 30*time.Second + pause, false},
		"asked for longer than a key lives":   {asked, again{pause: pause, tired: true}, 0, false},
		"a connection to the provider cut":    {reset, again{pause: pause}, 0, false},
		"asked, after a long row of waits":    {asked, again{pause: time.Hour}, 30*time.Second + 2*time.Minute, false},
		"a connection to the mail server cut": {fmt.Errorf("%w: %w", ErrNotSent, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}), again{}, 0, false},
		"meant for another mode or account":   {fmt.Errorf("call: %w", provider.ErrOtherWorld), again{}, mailPause, false},
		"under way elsewhere":                 {provider.ErrInFlight, again{}, takeOverAfter, false},
		"refused":                             {fmt.Errorf("call: %w", provider.ErrRefused), again{}, 0, true},
		"too old":                             {fmt.Errorf("call: %w", provider.ErrKeyTooOld), again{}, 0, true},
		"not configured":                      {provider.ErrNotConfigured, again{tired: true}, mailPause, false},
		"a deadlock":                          {&pgconn.PgError{Code: "40P01"}, again{}, time.Second, false},
		"anything else":                       {errors.New("no such order"), again{}, 0, false},
		"a connection to the database is cut": {&net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}, again{}, time.Second, false},
	} {
		got := instruct(test.err, test.next)
		var snooze *river.JobSnoozeError
		var cancel *river.JobCancelError
		switch {
		case test.snooze > 0:
			if !errors.As(got, &snooze) || snooze.Duration != test.snooze {
				t.Errorf("%s: got %v, want a snooze of %s", name, got, test.snooze)
			}
		case test.cancel:
			if !errors.As(got, &cancel) {
				t.Errorf("%s: got %v, want it canceled", name, got)
			}
		case !errors.Is(got, test.err) || errors.As(got, &snooze) || errors.As(got, &cancel):
			t.Errorf("%s: got %v, want the error itself", name, got)
		}
	}
}

// Waits are spread from half of them to all of them, and grow with every turn, also with
// those that cost no attempt.
func TestB28_WaitsAreSpread(t *testing.T) {
	t.Parallel()
	for random, want := range map[float64]time.Duration{0: 64 * time.Second, 0.5: 48 * time.Second, 1: 32 * time.Second} {
		if got := spread(64*time.Second, random); got != want {
			t.Errorf("spread by %v: got %s, want %s", random, got, want)
		}
	}

	// Two hundred that were turned away in one instant, seven times: no tenth of the wait
	// brings more than a fifth of them.
	w := &worker[ReadPaymentArgs]{limits: limitsOf(kindReadPayment), random: rand.Float64}
	tenths := map[int]int{}
	for range 200 {
		at := w.again(job(0, 6, time.Minute)).pause
		tenths[int((at-32*time.Second)/(3200*time.Millisecond))]++
	}
	if most := slices.Max(slices.Collect(maps.Values(tenths))); most > 40 || len(tenths) < 9 {
		t.Errorf("%d of 200 come back within a tenth of the wait: %v", most, tenths)
	}

	w.random = func() float64 { return 0 }
	for _, test := range []struct {
		errors, snoozes int
		age             time.Duration
		want            again
	}{
		{0, 0, 0, again{time.Second, false}},
		{0, 3, time.Hour, again{8 * time.Second, false}},
		{2, 3, 22 * time.Hour, again{32 * time.Second, false}},
		{0, 100, 24 * time.Hour, again{time.Hour, true}},
	} {
		if got := w.again(job(test.errors, test.snoozes, test.age)); got != test.want {
			t.Errorf("%d errors, %d snoozes, %s old: got %+v, want %+v", test.errors, test.snoozes, test.age, got, test.want)
		}
	}
	j := job(1, 50, time.Hour)
	if left := time.Until(w.NextRetry(j)); left > 2*time.Second || left < time.Second {
		t.Errorf("the schedule counts turns that cost no attempt: next in %s", left)
	}
}

// job is a row with so many errors and snoozes, made so long ago.
func job(errs, snoozes int, age time.Duration) *river.Job[ReadPaymentArgs] {
	j := &river.Job[ReadPaymentArgs]{}
	j.JobRow = newLike(j.JobRow)
	j.Errors = sliceLike(j.Errors, errs)
	j.Metadata, j.CreatedAt = fmt.Appendf(nil, `{"snoozes":%d}`, snoozes), time.Now().Add(-age)
	return j
}

// River's types, without an import for them alone.
func newLike[T any](*T) *T              { return new(T) }
func sliceLike[T any](_ []T, n int) []T { return make([]T, n) }
