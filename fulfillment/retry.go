package fulfillment

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/riverqueue/river/rivertype"
	"gorm.io/gorm"

	"paidonce/internal/provider"
)

// DefaultMoreAttempts is how many attempts a job gets that a person tries again. One would do
// if the fault is mended; but of a thousand that come back together some are turned away, and
// must not be dead again for that.
const DefaultMoreAttempts = 5

// Retry says how jobs are tried again.
type Retry struct {
	Stagger  time.Duration // from one to the next; zero: all at once
	Attempts int           // how many more each gets; zero: DefaultMoreAttempts
	DryRun   bool          // only tell
}

// JobRetry is what became of the wish to try a job again.
type JobRetry struct {
	ID    int64              `json:"id"`
	Kind  string             `json:"kind"`
	Was   rivertype.JobState `json:"was"`
	DueAt *time.Time         `json:"due_at"`                  // nil: it is left as it is
	Left  string             `json:"left,omitempty"`          // why
	Call  string             `json:"reopened_call,omitempty"` // its call at the provider, which had been refused
}

// RetryJobs makes jobs due again, the oldest first, in one transaction: dead ones, and those
// that wait for their next attempt. Repeats are safe: a job that is due, running or completed
// is left as it is, and the result says so. So is one that could only fail again, because the
// provider has refused its call for good (see [provider.Operation.Repeats]), and one of which
// there is a single one at a time, since its like is made anew.
//
// The arguments stay, and with them every key (I12): what was done once is not done twice.
// The queue's own way of retrying one job would also take completed ones, and knows neither of
// calls nor of staggering.
func (s *Service) RetryJobs(ctx context.Context, f JobFilter, r Retry) ([]JobRetry, error) {
	var results []JobRetry
	err := s.DB.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		lock := " FOR UPDATE OF j"
		if r.DryRun {
			lock = ""
		}
		jobs, err := listJobs(tx, f, lock)
		if err != nil {
			return err
		}
		slices.Reverse(jobs)
		results = make([]JobRetry, len(jobs))
		var ids []int64
		var calls []string
		for i, job := range jobs {
			results[i] = JobRetry{ID: job.ID, Kind: job.Kind, Was: job.State, Left: job.leftBecause()}
			if results[i].Left != "" {
				continue
			}
			due := s.Now().Add(time.Duration(len(ids)) * r.Stagger)
			results[i].DueAt = &due
			ids = append(ids, job.ID)
			if job.CallState != nil && *job.CallState == string(provider.CallFailed) && job.CallOperation.Repeats() {
				results[i].Call = *job.CallKey
				calls = append(calls, *job.CallKey)
			}
		}
		if r.DryRun || len(ids) == 0 {
			return nil
		}
		if _, err := s.Calls.Reopen(ctx, tx, calls); err != nil {
			return err
		}
		return makeDue(tx, ids, r)
	})
	if err != nil {
		return nil, fmt.Errorf("trying jobs again: %w", err)
	}
	return results, nil
}

// leftBecause says why a job is not tried again; "" if it is.
func (j JobEntry) leftBecause() string {
	switch {
	case j.Single:
		return "the next of its kind comes by itself"
	case j.State == rivertype.JobStateScheduled || j.State == rivertype.JobStateRetryable || j.Dead():
	default:
		return "it is " + string(j.State)
	}
	refused := j.CallState != nil && *j.CallState == string(provider.CallFailed)
	if !refused || j.CallOperation.Repeats() || *j.CallOperation == provider.OpExpire { // then the payment is read instead
		return ""
	}
	return "the provider refused its call for good; decide anew (docs/operations.md)"
}

// makeDue is the statement that brings jobs back. It counts on as before: every attempt that
// was, crashes among them, stays counted.
func makeDue(tx *gorm.DB, ids []int64, r Retry) error {
	const due = `
UPDATE river_job j
SET state = CASE WHEN c.wait > interval '0' THEN 'scheduled' ELSE 'available' END::river_job_state,
    scheduled_at = now() + c.wait, finalized_at = NULL,
    max_attempts = greatest(j.max_attempts, j.attempt + @more),
    metadata = j.metadata - 'cancel_attempted_at' - @announced -- what was said of the last end is not said of the next
FROM (
    SELECT id, make_interval(secs => @stagger) * (row_number() OVER (ORDER BY id) - 1) AS wait FROM river_job WHERE id IN (SELECT CAST(value AS bigint) FROM jsonb_array_elements_text(CAST(@ids AS jsonb)))
) c
WHERE j.id = c.id AND j.state IN ('discarded', 'cancelled', 'retryable', 'scheduled')`
	more := r.Attempts
	if more == 0 {
		more = DefaultMoreAttempts
	}
	list, err := json.Marshal(ids) // one parameter, however many there are: a statement takes 65,535
	if err != nil {
		return fmt.Errorf("naming %d jobs: %w", len(ids), err)
	}
	err = tx.Exec(due, map[string]any{"more": more, "announced": announcedMark, "stagger": r.Stagger.Seconds(), "ids": string(list)}).Error
	if err != nil {
		return fmt.Errorf("making %d jobs due: %w", len(ids), err)
	}
	return nil
}

// FindJobs are the jobs of these ids. Its error names every one that is not there.
func (s *Service) FindJobs(ctx context.Context, ids ...int64) ([]JobEntry, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	jobs, err := listJobs(s.DB.WithContext(ctx), JobFilter{IDs: ids}, "")
	if err != nil {
		return nil, err
	}
	var faults []error
	for _, id := range ids {
		if !slices.ContainsFunc(jobs, func(j JobEntry) bool { return j.ID == id }) {
			faults = append(faults, fmt.Errorf("%d: %w", id, ErrNoJob))
		}
	}
	return jobs, errors.Join(faults...)
}
