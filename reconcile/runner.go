package reconcile

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"gorm.io/gorm"

	"paidonce/fulfillment"
	"paidonce/internal/provider"
	"paidonce/orders"
	"paidonce/webhooks"
)

// Runner compares one world, that of its provider's key, with the database.
type Runner struct {
	DB      *gorm.DB
	Stripe  *provider.Stripe // nil: not configured
	Lists   *provider.Lister
	Events  *webhooks.Stripe // reads events that are listed
	Inbox   *webhooks.Inbox
	Orders  *orders.Store
	Service *fulfillment.Service
	Drainer *fulfillment.Drainer

	// Mail tells whether receipts can be sent: without, one that waits is no finding.
	Mail bool

	// Silence is for how long the provider may have events without one coming by webhook;
	// zero means DefaultSilence.
	Silence time.Duration

	Now func() time.Time
	Log *slog.Logger

	// Crash, if set, is called at every crash window with its id. Nil in production.
	Crash func(window string)
}

// The defaults. Three days is how long Stripe redelivers: what has not come by then does not
// come. What is younger than five minutes may be on its way still, and is left to its webhook.
const (
	DefaultSince   = 72 * time.Hour
	DefaultSettle  = 5 * time.Minute
	DefaultSilence = time.Hour
)

// Options of a run.
type Options struct {
	// The window, Since <= created < Until, in whole seconds. Zero: until DefaultSettle ago,
	// and DefaultSince before that.
	Since, Until time.Time

	// DryRun changes nothing at all, and says what would be done.
	DryRun bool

	// Budget is after how long the run stops between two pages, to be gone on with. Zero is
	// no limit.
	Budget time.Duration

	// Progress, if set, is called after every page.
	Progress func(Progress)
}

// Progress is where a run is.
type Progress struct {
	Stage    Stage
	At       time.Time // the creation of the last object looked at; zero inside
	Objects  int64     // looked at so far, in all stages
	Findings int64     // so far
}

// Outcome is what a run found.
type Outcome string

// The outcomes; the exit status of paidonce reconcile is 0, 1, 2.
const (
	Clean  Outcome = "clean"
	Drift  Outcome = "drift"  // something was found, be it healed at once
	Unsure Outcome = "unsure" // some of it could not be looked at
)

// Report is what a run did and found.
type Report struct {
	RunID    string           `json:"run_id,omitempty"` // "" of a dry run
	Provider string           `json:"provider"`
	Livemode bool             `json:"livemode"`
	Account  string           `json:"account,omitempty"`
	Since    time.Time        `json:"since"`
	Until    time.Time        `json:"until"`
	DryRun   bool             `json:"dry_run"`
	Resumed  bool             `json:"resumed"` // begun by a process that did not finish it
	Outcome  Outcome          `json:"outcome"`
	Error    string           `json:"error,omitempty"` // why some of it could not be looked at
	Counts   map[string]int64 `json:"counts"`
	Kinds    []KindCount      `json:"kinds"`
	Findings []Finding        `json:"findings"` // the first MaxListed
	Notes    []string         `json:"notes"`    // what the reader should know of the window
}

// KindCount is how many findings of a kind a run saw.
type KindCount struct {
	Kind   Kind  `json:"kind"`
	Open   int64 `json:"open"`
	Healed int64 `json:"healed"`
	Acked  int64 `json:"acked"` // open, and a person knows: no drift
}

// MaxListed is how many findings a report holds. All of them are in reconcile_findings.
const MaxListed = 1000

// Run compares the window. A run that another process did not finish is finished first, and
// what was asked for follows, unless that covered it.
//
// The report is also good with an error: it says how far the run came. Errors: ErrUnfinished
// when the budget is used up, a *RunningError while another process is at it, ErrNotConfigured,
// and whatever the provider or the database said; after all of them the next run goes on.
func (r *Runner) Run(ctx context.Context, o Options) (Report, error) {
	if r.Stripe == nil {
		return Report{Outcome: Unsure, Error: ErrNotConfigured.Error()}, ErrNotConfigured
	}
	o = o.filled(r.Now())
	if !o.Since.Before(o.Until) {
		err := fmt.Errorf("since (%s) must be before until (%s)", o.Since.Format(time.RFC3339), o.Until.Format(time.RFC3339))
		return Report{Provider: stripeName, Outcome: Unsure, Error: err.Error()}, err
	}
	deadline := time.Time{}
	if o.Budget > 0 {
		deadline = r.Now().Add(o.Budget)
	}
	if o.DryRun {
		return r.newRun(o, deadline).all(ctx)
	}
	for {
		run := r.newRun(o, deadline)
		if err := run.begin(ctx); err != nil {
			return Report{Provider: stripeName, Outcome: Unsure, Error: err.Error()}, err
		}
		report, err := run.alive(ctx)
		if err != nil || !run.resumed || covers(report, o) {
			return report, err
		}
	}
}

// filled is the options with their defaults, in whole seconds: as created is told.
func (o Options) filled(now time.Time) Options {
	if o.Until.IsZero() {
		o.Until = now.Add(-DefaultSettle)
	}
	if o.Since.IsZero() {
		o.Since = o.Until.Add(-DefaultSince)
	}
	o.Since, o.Until = o.Since.UTC().Truncate(time.Second), o.Until.UTC().Truncate(time.Second)
	return o
}

// covers reports whether a run that was resumed looked at what was asked for, but for what has
// happened since a moment ago: the next run overlaps.
func covers(r Report, o Options) bool {
	return !r.Since.After(o.Since) && !r.Until.Before(o.Until.Add(-DefaultSettle))
}

// alive goes through all stages while it says that it lives.
func (r *run) alive(ctx context.Context) (Report, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := r.beat(ctx, cancel)
	report, err := r.all(ctx)
	stop()
	if cause := context.Cause(ctx); errors.Is(cause, ErrLost) {
		err = cause
	}
	return report, err
}
