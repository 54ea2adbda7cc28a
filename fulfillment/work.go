package fulfillment

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverdatabasesql"
	"github.com/tidwall/gjson"
	"gorm.io/gorm"

	"paidonce/internal/database"
	"paidonce/internal/provider"
)

// fetchCooldown bounds how often a queue is asked for work. River's own 100 ms would be most
// of the time between a webhook and its license.
const fetchCooldown = 20 * time.Millisecond

// Queues are the names of all queues, in the order in which an order passes them.
func Queues() []string {
	var names []string
	for _, kind := range kinds() {
		names = append(names, limitsOf(kind).queue)
	}
	return names
}

// NewClient returns the client that puts jobs into transactions, and, if workers is not nil,
// works the named queues once it is started: perQueue jobs at a time in each.
func NewClient(db *database.DB, workers *river.Workers, queues []string, perQueue int, log *slog.Logger) (*river.Client[*sql.Tx], error) {
	config := &river.Config{Logger: log}
	if workers != nil {
		config.Workers = workers
		config.Queues = map[string]river.QueueConfig{}
		for _, queue := range queues {
			config.Queues[queue] = river.QueueConfig{MaxWorkers: perQueue, FetchCooldown: fetchCooldown}
		}
		config.RescueStuckJobsAfter = rescueAfter
		config.SoftStopTimeout = softStop

		// The dead letters are kept: a merchant looks at them, not a clock.
		config.DiscardedJobRetentionPeriod = -1
		config.CancelledJobRetentionPeriod = -1
		config.PeriodicJobs = []*river.PeriodicJob{river.NewPeriodicJob(
			river.PeriodicInterval(sweepEvery),
			func() (river.JobArgs, *river.InsertOpts) {
				l := limitsOf(kindSweepParked)
				return SweepParkedArgs{}, &river.InsertOpts{
					Queue: l.queue, MaxAttempts: l.attempts, UniqueOpts: river.UniqueOpts{ByPeriod: sweepEvery},
				}
			},
			&river.PeriodicJobOpts{ID: kindSweepParked, RunOnStart: true},
		)}
	}
	client, err := river.NewClient(riverdatabasesql.NewWithPgxListener(db.SQL, db.Pool), config)
	if err != nil {
		return nil, fmt.Errorf("job queue: %w", err)
	}
	return client, nil
}

// softStop is how long jobs may finish after a stop was asked for. Then their contexts end,
// and they hand themselves back.
const softStop = 10 * time.Second

// Workers are all workers of s.
func Workers(s *Service) *river.Workers {
	workers := river.NewWorkers()
	add(workers, s, func(ctx context.Context, a FulfillOrderArgs, done Complete) error {
		return s.FulfillOrder(ctx, a.OrderID, done)
	})
	add(workers, s, func(ctx context.Context, a CreateCheckoutArgs, done Complete) error {
		return s.PerformCall(ctx, a.Key, done)
	})
	add(workers, s, func(ctx context.Context, a ExpireCheckoutArgs, done Complete) error {
		return s.ExpireCheckout(ctx, a.Key, a.PaymentID, done)
	})
	add(workers, s, func(ctx context.Context, a NotifyProviderArgs, done Complete) error {
		return s.PerformCall(ctx, a.Key, done)
	})
	add(workers, s, func(ctx context.Context, a SendRefundArgs, done Complete) error {
		return s.PerformCall(ctx, a.Key, done)
	})
	add(workers, s, s.SendReceipt)
	add(workers, s, func(ctx context.Context, a ReadPaymentArgs, done Complete) error {
		return s.ReadPayment(ctx, a.PaymentID, done)
	})
	add(workers, s, func(ctx context.Context, _ ReconcileArgs, _ Complete) error { return s.reconcile(ctx) })
	add(workers, s, func(ctx context.Context, _ SweepParkedArgs, done Complete) error {
		if err := s.SweepParked(ctx, done); err != nil {
			// Not a dead letter: the next sweep is half a minute away, and sees the same.
			s.Log.Warn("sweeping failed", "error", err.Error())
		}
		return nil
	})
	return workers
}

// worker adapts one step to River: it gives the step its completion, and turns its error
// into what the queue should do.
type worker[A river.JobArgs] struct {
	river.WorkerDefaults[A]

	limits limits
	log    *slog.Logger
	random func() float64 // from 0 to 1; spreads the waits
	do     func(ctx context.Context, args A, done Complete) error
}

func add[A river.JobArgs](to *river.Workers, s *Service, do func(context.Context, A, Complete) error) {
	var args A
	river.AddWorker(to, &worker[A]{limits: limitsOf(args.Kind()), log: s.Log, random: rand.Float64, do: do})
}

// Timeout implements river.Worker.
func (w *worker[A]) Timeout(*river.Job[A]) time.Duration { return w.limits.timeout }

// NextRetry implements river.Worker.
func (w *worker[A]) NextRetry(job *river.Job[A]) time.Time {
	wait := spread(w.limits.wait(len(job.Errors)+1), w.random())
	return time.Now().UTC().Add(wait) //nolint:forbidigo // River compares it with its own clock
}

// Work implements river.Worker. It logs one line an attempt.
func (w *worker[A]) Work(ctx context.Context, job *river.Job[A]) error {
	started := time.Now() //nolint:forbidigo // only measures
	err := w.do(ctx, job.Args, func(tx *gorm.DB) error {
		sqlTx, err := database.Tx(tx)
		if err != nil {
			return err
		}
		// Under the transaction's own context: a step that writes down what it did after
		// its job was told to stop ends the job with it.
		_, err = river.JobCompleteTx[*riverdatabasesql.Driver](tx.Statement.Context, sqlTx, job)
		return err
	})
	log := w.log.With("job_id", job.ID, "kind", job.Kind, "attempt", job.Attempt, "took_ms", time.Since(started).Milliseconds()).
		With(idsOf(job.EncodedArgs)...)

	next := instruct(err, w.again(job))
	snoozed := errors.As(next, new(*river.JobSnoozeError))
	switch {
	case err == nil && job.Kind == kindSweepParked:
		log.Debug("job done") // every half minute, and mostly about nothing
	case errors.Is(err, ErrBeingRead):
		log.Debug("job waits for another reader")
	case err == nil:
		log.Info("job done")
	case errors.As(next, new(*river.JobCancelError)), job.Attempt >= job.MaxAttempts && !snoozed:
		log.Error("job is dead", "error", err.Error())
	default:
		log.Warn("job not done", "error", err.Error())
	}
	return next
}

// idsOf makes log attributes of a job's arguments, which are ids.
func idsOf(args []byte) []any {
	var named map[string]any
	if err := json.Unmarshal(args, &named); err != nil {
		return []any{"args", string(args)}
	}
	var attrs []any
	for _, name := range slices.Sorted(maps.Keys(named)) {
		attrs = append(attrs, name, named[name])
	}
	return attrs
}

// mailPause is how often a receipt looks whether a transport is configured by now.
const mailPause = time.Minute

// again says when a job that was turned away may come back.
type again struct {
	pause time.Duration // its own next wait, spread
	tired bool          // it has been put off for as long as a key lives
}

func (w *worker[A]) again(job *river.Job[A]) again {
	turns := len(job.Errors) + int(gjson.GetBytes(job.Metadata, "snoozes").Int()) + 1
	return again{
		pause: spread(w.limits.wait(turns), w.random()),
		tired: time.Since(job.CreatedAt) > provider.KeyLife,
	}
}

// instruct turns a step's error into the queue's: later without an attempt (snooze), never
// (cancel), or again by the kind's own schedule.
//
// Being put off by the provider costs no attempt, but has its end: a job that is as old as a
// key can get pays with attempts from then on, and so ends as a dead letter. What waits for
// configuration asks nobody, and waits.
func instruct(err error, next again) error {
	var retry *provider.RetryError
	var later errMailLater
	switch {
	case err == nil:
		return nil
	case errors.As(err, &retry):
		if retry.After == 0 || next.tired {
			return err
		}
		// Not sooner than asked, not when all the others come that were told the same, and not
		// so much later that a fault which is mended is noticed an hour after.
		return river.JobSnooze(retry.After + min(next.pause, max(4*retry.After, time.Minute)))
	case errors.Is(err, ErrNotSent), errors.Is(err, errUnsettled):
		return err // the mail server's fault, however much it looks like a lost connection
	case errors.As(err, &later):
		return river.JobSnooze(max(time.Until(later.until), time.Second))
	case errors.Is(err, provider.ErrInFlight):
		return river.JobSnooze(takeOverAfter)
	case errors.Is(err, ErrBeingRead), errors.Is(err, errMoreToDo):
		return river.JobSnooze(time.Second)
	case errors.Is(err, errMailNotConfigured), errors.Is(err, provider.ErrNotConfigured), errors.Is(err, provider.ErrOtherWorld):
		return river.JobSnooze(mailPause)
	case errors.Is(err, provider.ErrRefused), errors.Is(err, provider.ErrKeyTooOld):
		return river.JobCancel(err)
	case database.NoFault(err):
		return river.JobSnooze(time.Second)
	}
	return err
}
