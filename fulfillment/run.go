package fulfillment

import (
	"context"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"paidonce/webhooks"
)

// pollEvery is the backstop of the wake-up: a notification that was lost, with its
// connection or to a listener that was just starting, costs at most this.
const pollEvery = 5 * time.Second

// errorPause is how long a drainer waits after a failure to claim: the database is away,
// and will not be nearer for being asked more often.
const errorPause = time.Second

// Run drains until ctx is done. It is woken by wake, by the time at which the next delivery
// is due, and by its own poll.
func (d *Drainer) Run(ctx context.Context, wake <-chan struct{}) {
	for ctx.Err() == nil {
		taken, err := d.Drain(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			d.Log.Error("draining failed", "error", err.Error())
			sleep(ctx, nil, errorPause)
		case taken == 0:
			sleep(ctx, wake, d.untilDue(ctx))
		}
	}
}

// untilDue is how long nothing will be due, at most one poll. A row that is due but was
// locked by another drainer would make it zero: then it is worth a short breath, not a spin.
func (d *Drainer) untilDue(ctx context.Context) time.Duration {
	ctx, cancel := context.WithTimeout(ctx, pollEvery)
	defer cancel()
	wait, open, err := d.Inbox.NextDue(ctx)
	if err != nil || !open {
		return pollEvery
	}
	return min(max(wait, 10*time.Millisecond), pollEvery)
}

// sleep waits for a wake-up, the time, or the end.
func sleep(ctx context.Context, wake <-chan struct{}, wait time.Duration) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-wake:
	case <-timer.C:
	}
}

// Listen passes on the announcements of new deliveries to the drainers of this process,
// until ctx is done. It holds one connection beside the pool. An announcement carries nothing:
// whoever is woken looks for itself, so that a lost one loses only time.
func Listen(ctx context.Context, pool *pgxpool.Pool, log *slog.Logger, wake ...chan<- struct{}) {
	for ctx.Err() == nil {
		if err := listen(ctx, pool, wake); err != nil && ctx.Err() == nil {
			log.Warn("listening for deliveries failed; polling meanwhile", "error", err.Error())
			sleep(ctx, nil, errorPause)
		}
	}
}

func listen(ctx context.Context, pool *pgxpool.Pool, wake []chan<- struct{}) error {
	pooled, err := pool.Acquire(ctx)
	if err != nil {
		return err
	}
	// Taken out of the pool for good: a connection that listens must not be lent to others.
	conn := pooled.Hijack()
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(closing)
	}()
	if _, err := conn.Exec(ctx, "LISTEN "+webhooks.Channel); err != nil {
		return err
	}
	for {
		rouse(wake) // also once at the start, for what was announced while nobody listened
		if _, err := conn.WaitForNotification(ctx); err != nil {
			return err
		}
	}
}

// rouse wakes every drainer; one that has a wake-up waiting needs no second.
func rouse(wake []chan<- struct{}) {
	for _, w := range wake {
		select {
		case w <- struct{}{}:
		default:
		}
	}
}
