package fulfillment

import (
	"context"
	"encoding/json"
	"fmt"

	"gorm.io/gorm"
)

// announcedMark is what a dead job's metadata carries once its end has been told.
const announcedMark = "paidonce_announced"

// deadJob is a job whose end has to be told.
type deadJob struct {
	ID          int64
	Kind        string
	State       string
	Attempt     int
	MaxAttempts int
	Args        []byte
	LastError   string
}

// announceDead marks the dead jobs whose end nobody has told yet, and returns them. A worker
// that sees its job end says so at once, but not every end has one who sees it: a job that
// kills its process is ended by the queue's rescuer, one of an unknown kind or with arguments
// that cannot be read never reaches a worker, and a panic passes it by. So every end is told
// here, once, within half a minute, whichever way it came. The sweep itself is no dead letter.
func announceDead(ctx context.Context, tx *gorm.DB) ([]deadJob, error) {
	const announce = `
UPDATE river_job SET metadata = metadata || jsonb_build_object(CAST(@mark AS text), true)
WHERE id IN (
    SELECT id FROM river_job
    WHERE state IN ('discarded', 'cancelled') AND finalized_at > now() - interval '1 day'
      AND metadata->CAST(@mark AS text) IS NULL AND kind <> @sweep
    ORDER BY id LIMIT 100
    FOR UPDATE SKIP LOCKED)
RETURNING id, kind, CAST(state AS text) AS state, attempt, max_attempts, args, coalesce(errors[array_upper(errors, 1)]->>'error', '') AS last_error`
	var dead []deadJob
	err := tx.WithContext(ctx).Raw(announce, map[string]any{"mark": announcedMark, "sweep": kindSweepParked}).Scan(&dead).Error
	if err != nil {
		return nil, fmt.Errorf("looking for dead jobs: %w", err)
	}
	return dead, nil
}

// announce logs what a person has to look at. docs/operations.md says what to do.
func (s *Service) announce(ctx context.Context, dead []deadJob) {
	for _, job := range dead {
		s.Log.ErrorContext(ctx, "job needs a person", "alert", true, "job_id", job.ID, "kind", job.Kind, "state", job.State,
			"attempts", job.Attempt, "args", json.RawMessage(job.Args), "last_error", job.LastError)
	}
}
