package reconcile

import (
	"errors"
	"fmt"
	"time"
)

var (
	// ErrUnfinished is returned when a run's time was used up: the next one goes on where it is.
	ErrUnfinished = errors.New("the run is not finished; the next one goes on where it is")

	// ErrLost is returned when a run was taken over by another process, which took this one
	// for dead.
	ErrLost = errors.New("the run was taken over by another process")

	// ErrNotConfigured is returned when there is no provider to compare with.
	ErrNotConfigured = errors.New("no provider is configured: set STRIPE_SECRET_KEY")

	// ErrNoFinding is returned by Ack when there is no such open finding.
	ErrNoFinding = errors.New("no such open finding")
)

// RunningError is returned while another process is at a run of the same world.
type RunningError struct {
	StartedAt time.Time
	BeatAt    time.Time
	Stage     Stage
}

func (e *RunningError) Error() string {
	return fmt.Sprintf("another run is at work: begun %s, now at %s, last heard of %s",
		e.StartedAt.UTC().Format(time.RFC3339), e.Stage, e.BeatAt.UTC().Format(time.RFC3339))
}
