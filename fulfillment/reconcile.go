package fulfillment

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/riverqueue/river"
)

// ReconcileBudget is how long one attempt of the reconcile job may go on before it stops
// between two pages and comes back: less than the job's timeout by what a page may take.
const ReconcileBudget = 30 * time.Second

// errMoreToDo means that an attempt has done its part, and that there is more.
var errMoreToDo = errors.New("there is more to do")

// reconcile does a part of a run. That it could not is no dead letter: the run stands where it
// is, the next one goes on there, and the age of the last clean one tells who watches.
func (s *Service) reconcile(ctx context.Context) error {
	if s.Reconcile == nil {
		return nil
	}
	more, err := s.Reconcile(ctx)
	switch {
	case err != nil:
		s.Log.Error("reconcile could not tell", "error", err.Error())
	case more:
		return errMoreToDo
	}
	return nil
}

// ReconcileEvery has the reconcile job enqueued once in every period, whoever leads the
// queue, also across restarts. It is called before the client is started.
func ReconcileEvery(client *river.Client[*sql.Tx], every time.Duration) error {
	l := limitsOf(kindReconcile)
	job := func() (river.JobArgs, *river.InsertOpts) {
		return ReconcileArgs{}, &river.InsertOpts{
			Queue: l.queue, MaxAttempts: l.attempts, UniqueOpts: river.UniqueOpts{ByPeriod: every},
		}
	}
	_, err := client.PeriodicJobs().AddSafely(river.NewPeriodicJob(
		river.PeriodicInterval(every), job, &river.PeriodicJobOpts{ID: kindReconcile, RunOnStart: true}))
	if err != nil {
		return fmt.Errorf("scheduling reconcile: %w", err)
	}
	return nil
}
