package reconcile

import (
	"context"
	"errors"
	"fmt"
	"time"

	"paidonce/internal/provider"
)

// Stage is a part of a run.
type Stage string

// The stages.
const (
	StageEvents   Stage = "events"
	StageSessions Stage = "sessions"
	StageIntents  Stage = "intents"
	StageRefunds  Stage = "refunds"
	StageDisputes Stage = "disputes"
	StageEarlier  Stage = "earlier"
	StageSilence  Stage = "silence"
	StageInside   Stage = "inside"
)

// stage is a stage with its work.
type stage struct {
	name Stage
	do   func(*run, context.Context) error
}

// stages are all stages in their order. Events come first, since they say most and cost least;
// an intent is found by a session, and what went back by an intent; and our own rows are looked
// at when all that was missed has come in.
func stages() []stage {
	return []stage{
		{StageEvents, (*run).events},
		{StageSessions, (*run).sessions},
		{StageIntents, (*run).intents},
		{StageRefunds, (*run).refunds},
		{StageDisputes, (*run).disputes},
		{StageEarlier, (*run).earlier},
		{StageSilence, (*run).silence},
		{StageInside, (*run).inside},
	}
}

// all goes through the stages from where the run is, and reports. If one cannot be finished,
// the run is left there, and what does not depend on it is done all the same.
func (r *run) all(ctx context.Context) (Report, error) {
	err := r.through(ctx)
	if err != nil && !errors.Is(err, ErrUnfinished) && !errors.Is(err, ErrLost) && ctx.Err() == nil {
		err = errors.Join(err, r.besides(ctx))
	}
	return r.report(ctx, err)
}

// besides does what does not depend on the stage that cannot be finished: the other stages, and
// of a run that was resumed all of them, over the window that was asked for. Without it one
// listing that is refused for good keeps every later payment from being looked at.
func (r *run) besides(ctx context.Context) error {
	aside := *r
	aside.aside, aside.options = true, r.asked
	var errs []error
	reached := r.resumed
	for _, s := range stages() {
		if s.name == r.stage {
			reached = true
			continue // it has just failed
		}
		if !reached || s.name == StageEarlier || s.name == StageSilence { // these end what the others have looked at
			continue
		}
		aside.stage, aside.cursor = s.name, ""
		if err := s.do(&aside, ctx); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", s.name, err))
		}
	}
	return errors.Join(errs...)
}

func (r *run) through(ctx context.Context) error {
	begun := false
	for _, s := range stages() {
		begun = begun || s.name == r.stage
		if !begun {
			continue
		}
		if s.name != r.stage {
			r.stage, r.cursor = s.name, ""
			if err := r.save(ctx); err != nil {
				return err
			}
		}
		if err := s.do(r, ctx); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return nil
}

// walk goes through a listing, page by page, from the run's cursor. A page counts as done when
// everything that follows from it is committed; then the cursor is stored.
func (r *run) walk(ctx context.Context, w provider.Walk, each func(context.Context, provider.Page) error) error {
	for {
		page, err := r.Lists.Next(ctx, w, r.cursor)
		if err != nil {
			return err
		}
		if err := each(ctx, page); err != nil {
			return err
		}
		r.counts[string(r.stage)] += int64(len(page.Objects))

		// A process that dies here leaves the cursor before this page, which comes again: what
		// was recorded of it is there then, and nothing is done twice.
		r.crash("CW20")
		r.cursor = page.Cursor
		if err := r.pageDone(ctx, page.Cursor.Created(), page.More); err != nil || !page.More {
			return err
		}
	}
}

// pageDone stores how far the run is, tells it, and stops it when its time is used up and there
// is more: a stage whose last page is done is not stopped at, or it would never be left.
func (r *run) pageDone(ctx context.Context, at time.Time, more bool) error {
	if err := r.save(ctx); err != nil {
		return err
	}
	if r.options.Progress != nil {
		r.options.Progress(Progress{Stage: r.stage, At: at, Objects: r.objects(), Findings: r.counts[countFindings]})
	}
	if more && !r.deadline.IsZero() && !r.Now().Before(r.deadline) {
		return ErrUnfinished
	}
	return ctx.Err()
}

// The names in counts, beside those of the stages, which count objects looked at.
const (
	countFindings   = "findings"
	countForeign    = "foreign"    // objects that are none of ours
	countUnreadable = "unreadable" // objects that cannot be read in any currency we know
	countRecorded   = "recorded"   // deliveries
	countReads      = "reads"      // of payments
	countAdopted    = "adopted"    // checkouts
)

// objects is how many were looked at.
func (r *run) objects() (n int64) {
	for _, s := range stages() {
		n += r.counts[string(s.name)]
	}
	return n
}

// window is a walk through the run's window.
func (r *run) window(l provider.Listing) provider.Walk {
	return provider.Walk{Listing: l, Since: r.options.Since, Until: r.options.Until}
}
