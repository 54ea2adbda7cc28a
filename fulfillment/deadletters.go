package fulfillment

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/riverqueue/river/rivertype"
	"gorm.io/gorm"

	"paidonce/internal/provider"
)

// ErrNoJob is returned for the id of a job that is not there. Completed jobs are removed
// after a day; dead ones are kept.
var ErrNoJob = errors.New("no such job")

// DeadStates are the states of a job that nobody will try again unless a person asks for it:
// discarded has used up its attempts, cancelled was given up at once.
func DeadStates() []rivertype.JobState {
	return []rivertype.JobState{rivertype.JobStateDiscarded, rivertype.JobStateCancelled}
}

// JobFilter chooses jobs. Its zero value chooses all.
type JobFilter struct {
	IDs     []int64
	States  []rivertype.JobState // any of these; none: whatever its state
	Kinds   []string             // any of these; none: whatever its kind
	OrderID uuid.UUID            // about this order, one of its payments or one of their calls
	Since   time.Time            // ended, or is due, then or later
	Before  int64                // older than this one, for the next page
	Limit   int                  // zero: no limit
}

// JobEntry is a job as a person looks at it.
type JobEntry struct {
	ID          int64              `json:"id"`
	Kind        string             `json:"kind"`
	Queue       string             `json:"queue"`
	State       rivertype.JobState `json:"state"`
	Args        json.RawMessage    `json:"args"`
	Attempt     int                `json:"attempt"`
	MaxAttempts int                `json:"max_attempts"`
	CreatedAt   time.Time          `json:"created_at"`
	ScheduledAt time.Time          `json:"scheduled_at"`
	AttemptedAt *time.Time         `json:"attempted_at"` // nil: never tried
	FinalizedAt *time.Time         `json:"finalized_at"` // nil: it is not over
	OrderID     *uuid.UUID         `json:"order_id"`     // nil: it is about none that we know
	OrderNumber *int64             `json:"order_number"`
	CallState   *string            `json:"call_state"` // of the call at the provider that it performs; nil: it performs none
	Errors      []JobError         `json:"errors" gorm:"-"`

	CallOperation *provider.Operation `json:"-"`
	CallKey       *string             `json:"-"`
	Single        bool                `json:"-"` // there is one of its kind at a time
	ErrorsJSON    []byte              `json:"-"`
}

// JobError is one attempt of a job that failed.
type JobError struct {
	At      time.Time `json:"at"`
	Attempt int       `json:"attempt"`
	Error   string    `json:"error"`
	Trace   string    `json:"trace,omitempty"` // of a panic
}

// LastError is what went wrong last; "" if nothing did.
func (j JobEntry) LastError() string {
	if len(j.Errors) == 0 {
		return ""
	}
	return strings.TrimPrefix(j.Errors[len(j.Errors)-1].Error, "JobCancelError: ") // the queue's word; the state says it
}

// Dead reports whether nobody will try the job again.
func (j JobEntry) Dead() bool { return slices.Contains(DeadStates(), j.State) }

// jobsFrom joins a job with the call that it performs and with the order that it is about. Its
// arguments are whatever somebody put there: what is no id is about no order.
const jobsFrom = `
FROM river_job j
LEFT JOIN provider_calls c ON c.idempotency_key = j.args->>'idempotency_key'
LEFT JOIN order_decisions d ON d.id = c.subject_id
LEFT JOIN payments p ON p.id = coalesce(d.payment_id, c.subject_id,
    CASE WHEN j.args->>'payment_id' ~* @an_id THEN CAST(j.args->>'payment_id' AS uuid) END)
LEFT JOIN orders o ON o.id = coalesce(p.order_id, d.order_id, c.subject_id,
    CASE WHEN j.args->>'order_id' ~* @an_id THEN CAST(j.args->>'order_id' AS uuid) END)`

const anID = `^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`

const jobColumns = `j.id, j.kind, j.queue, CAST(j.state AS text) AS state, j.args, j.attempt, j.max_attempts,
    j.created_at, j.scheduled_at, j.attempted_at, j.finalized_at, o.id AS order_id, o.number AS order_number,
    c.state AS call_state, c.operation AS call_operation, c.idempotency_key AS call_key, j.unique_key IS NOT NULL AS single,
    coalesce(to_jsonb(j.errors), '[]') AS errors_json`

// jobsAbout are the jobs whose arguments name the order, a payment of it, or a call about
// either. The queue keeps an index of its jobs' arguments.
const jobsAbout = `j.id IN (
    SELECT named.id
    FROM (
        SELECT jsonb_build_object('order_id', CAST(@order_id AS text)) AS args
        UNION ALL
        SELECT jsonb_build_object('payment_id', CAST(id AS text)) FROM payments WHERE order_id = @order_id
        UNION ALL
        SELECT jsonb_build_object('idempotency_key', idempotency_key) FROM provider_calls WHERE ` + callsAbout + `
    ) wanted JOIN river_job named ON named.args @> wanted.args)`

// callsAbout are the calls about an order: about itself, a payment of it, or a decision.
const callsAbout = `subject_id IN (
    SELECT CAST(@order_id AS uuid)
    UNION ALL SELECT id FROM payments WHERE order_id = @order_id
    UNION ALL SELECT id FROM order_decisions WHERE order_id = @order_id)`

// where is the filter as a condition on j, with its arguments.
func (f JobFilter) where() (string, map[string]any) {
	conditions, args := []string{"true"}, map[string]any{}
	add := func(condition, name string, value any) {
		conditions = append(conditions, condition)
		args[name] = value
	}
	if len(f.IDs) > 0 {
		add("j.id IN @ids", "ids", f.IDs)
	}
	if len(f.States) > 0 {
		// Each state as a constant of its type, which the queue's indexes know.
		var states []string
		for _, state := range rivertype.JobStates() {
			if slices.Contains(f.States, state) {
				states = append(states, "'"+string(state)+"'")
			}
		}
		conditions = append(conditions, "j.state IN ("+strings.Join(states, ", ")+")")
	}
	if len(f.Kinds) > 0 {
		add("j.kind IN @kinds", "kinds", f.Kinds)
	}
	if f.OrderID != uuid.Nil {
		add(jobsAbout, "order_id", f.OrderID)
	}
	if !f.Since.IsZero() {
		add("coalesce(j.finalized_at, j.scheduled_at) >= @since", "since", f.Since)
	}
	return strings.Join(conditions, "\n  AND "), args
}

// Jobs lists jobs, the newest first, and tells how many the filter chooses on all its pages.
func (s *Service) Jobs(ctx context.Context, f JobFilter) (jobs []JobEntry, total int, err error) {
	where, args := f.where()
	var named []any // gorm takes no map where the statement names nothing
	if len(args) > 0 {
		named = []any{args}
	}
	if err := s.DB.WithContext(ctx).Raw(`SELECT count(*) FROM river_job j WHERE `+where, named...).Row().Scan(&total); err != nil {
		return nil, 0, fmt.Errorf("counting jobs: %w", err)
	}
	jobs, err = listJobs(s.DB.WithContext(ctx), f, "")
	return jobs, total, err
}

// listJobs reads the jobs of a filter, and locks them if asked to.
func listJobs(tx *gorm.DB, f JobFilter, lock string) ([]JobEntry, error) {
	where, args := f.where()
	args["an_id"] = anID
	list := `SELECT ` + jobColumns + jobsFrom + `
WHERE ` + where
	if f.Before > 0 {
		list += "\n  AND j.id < @before"
		args["before"] = f.Before
	}
	list += "\nORDER BY j.id DESC"
	if f.Limit > 0 {
		list += " LIMIT @limit"
		args["limit"] = f.Limit
	}
	jobs := []JobEntry{}
	if err := tx.Raw(list+lock, args).Scan(&jobs).Error; err != nil {
		return nil, fmt.Errorf("listing jobs: %w", err)
	}
	for i := range jobs {
		jobs[i].Errors = []JobError{}
		if err := json.Unmarshal(jobs[i].ErrorsJSON, &jobs[i].Errors); err != nil {
			return nil, fmt.Errorf("reading the errors of job %d: %w", jobs[i].ID, err)
		}
	}
	return jobs, nil
}
