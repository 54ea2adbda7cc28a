package reconcile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"gorm.io/gorm"

	"paidonce/internal/database"
	"paidonce/internal/provider"
)

const stripeName = "stripe"

// lease is how long a run may be silent before it is taken for that of a dead process;
// beatEvery is how often it is heard of.
const (
	lease     = 90 * time.Second
	beatEvery = 15 * time.Second
)

// run is one run, as far as it has come.
type run struct {
	*Runner

	options  Options
	asked    Options   // what was asked for; options are an older run's, where that is resumed
	deadline time.Time // zero: none

	id      uuid.UUID
	owner   uuid.UUID
	resumed bool
	stage   Stage
	cursor  provider.Cursor // in stage
	counts  map[string]int64
	aside   bool // a stage done out of its turn: where the run stands is not stored

	dry *dryFindings // of a dry run
}

func (r *Runner) newRun(o Options, deadline time.Time) *run {
	return &run{
		Runner: r, options: o, asked: o, deadline: deadline, stage: stages()[0].name, counts: map[string]int64{},
		dry: &dryFindings{kinds: map[Kind]*KindCount{}, seen: map[string]bool{}},
	}
}

// runRow is a row of reconcile_runs.
type runRow struct {
	ID           uuid.UUID
	Since, Until time.Time
	Stage        Stage
	Cursor       string
	Counts       []byte
	StartedAt    time.Time
	BeatAt       time.Time
}

// begin takes over the world's unfinished run, if its process is gone, or begins a new one.
//
// The database alone tells the time of leases, and one statement decides: of two that find a
// dead run, one gets it; of two that find none, one makes it (reconcile_runs_one_open).
func (r *run) begin(ctx context.Context) error {
	r.owner = uuid.New()
	world := map[string]any{
		"provider": stripeName, "livemode": r.Stripe.Livemode(), "account": r.Stripe.Account(), "owner": r.owner,
		"lease": lease.Seconds(), "id": uuid.Must(uuid.NewV7()), "since": r.options.Since, "until": r.options.Until,
		"stage": r.stage, "now": r.Now(),
	}
	const takeOver = `
UPDATE reconcile_runs SET owner = @owner, beat_at = now(), error = NULL
WHERE provider = @provider AND livemode = @livemode AND account = @account AND finished_at IS NULL
  AND (owner IS NULL OR beat_at < now() - make_interval(secs => @lease))
RETURNING *`
	const open = `
INSERT INTO reconcile_runs (id, provider, livemode, account, since, until, stage, started_at, owner, beat_at)
VALUES (@id, @provider, @livemode, @account, @since, @until, @stage, @now, @owner, now())
ON CONFLICT (provider, livemode, account) WHERE finished_at IS NULL DO NOTHING
RETURNING *`
	for i, statement := range []string{takeOver, open} {
		var rows []runRow
		if err := r.DB.WithContext(ctx).Raw(statement, world).Scan(&rows).Error; err != nil {
			return fmt.Errorf("beginning a run: %w", err)
		}
		if len(rows) == 1 {
			r.resumed = i == 0
			return r.takeUp(rows[0])
		}
	}
	var running runRow
	const find = `
SELECT * FROM reconcile_runs
WHERE provider = @provider AND livemode = @livemode AND account = @account AND finished_at IS NULL`
	if err := r.DB.WithContext(ctx).Raw(find, world).Scan(&running).Error; err != nil {
		return fmt.Errorf("looking who is at a run: %w", err)
	}
	return &RunningError{StartedAt: running.StartedAt, BeatAt: running.BeatAt, Stage: running.Stage}
}

func (r *run) takeUp(row runRow) error {
	r.id, r.stage, r.cursor = row.ID, row.Stage, provider.Cursor(row.Cursor)
	r.options.Since, r.options.Until = row.Since.UTC(), row.Until.UTC()
	if err := json.Unmarshal(row.Counts, &r.counts); err != nil {
		return fmt.Errorf("reading the counts of run %s: %w", row.ID, err)
	}
	return nil
}

// save stores how far the run has come. It is called after a page was worked through, never
// before: a page that failed, or was being worked through when the process died, comes again.
func (r *run) save(ctx context.Context) error {
	if r.options.DryRun || r.aside {
		return nil
	}
	const save = `
UPDATE reconcile_runs SET stage = ?, cursor = ?, counts = ?, beat_at = now() WHERE id = ? AND owner = ?`
	return r.DB.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		// Not waited for on disk: a cursor that a power cut takes back is only an older one.
		if err := tx.Exec(`SET LOCAL synchronous_commit = off`).Error; err != nil {
			return err
		}
		return r.own(tx.Exec(save, r.stage, string(r.cursor), r.countsJSON(), r.id, r.owner))
	})
}

// own is ErrLost if a statement that is the owner's alone changed nothing: a process that was
// frozen for longer than its lease finds that another has gone on.
func (r *run) own(done *gorm.DB) error {
	if done.Error != nil {
		return fmt.Errorf("storing how far run %s is: %w", r.id, done.Error)
	}
	if done.RowsAffected == 0 {
		return fmt.Errorf("run %s: %w", r.id, ErrLost)
	}
	return nil
}

func (r *run) countsJSON() []byte {
	encoded, err := json.Marshal(r.counts)
	if err != nil {
		panic("bug: a map of numbers always encodes: " + err.Error())
	}
	return encoded
}

// beat says that the run is alive until stop is called. A run that was taken over is ended.
func (r *run) beat(ctx context.Context, end context.CancelCauseFunc) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		ticker := time.NewTicker(beatEvery)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			const beat = `UPDATE reconcile_runs SET beat_at = now() WHERE id = ? AND owner = ?`
			err := r.own(r.DB.WithContext(ctx).Exec(beat, r.id, r.owner))
			if errors.Is(err, ErrLost) {
				end(err)
				return
			}
			if err != nil && ctx.Err() == nil {
				r.Log.Warn("a reconcile run could not say that it is alive", "run_id", r.id, "error", err.Error())
			}
		}
	}()
	return func() { cancel(); <-ended }
}

// settleTimeout bounds what is written when a run ends, also one that was told to stop.
const settleTimeout = 5 * time.Second

// leave gives the run up for the next one to go on with.
func (r *run) leave(ctx context.Context, why error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
	defer cancel()
	text := database.Text(why.Error())
	const leave = `UPDATE reconcile_runs SET owner = NULL, error = ?, beat_at = now() WHERE id = ? AND owner = ?`
	err := r.own(r.DB.WithContext(ctx).Exec(leave, text, r.id, r.owner))
	if errors.Is(err, ErrLost) {
		return nil // it is somebody else's already
	}
	return err
}

// finish ends the run.
func (r *run) finish(ctx context.Context, outcome Outcome) error {
	const finish = `
UPDATE reconcile_runs SET finished_at = ?, outcome = ?, counts = ?, owner = NULL, error = NULL, cursor = ''
WHERE id = ? AND owner = ?`
	return r.own(r.DB.WithContext(ctx).Exec(finish, r.Now(), outcome, r.countsJSON(), r.id, r.owner))
}

func (r *run) crash(window string) {
	if r.Crash != nil {
		r.Crash(window)
	}
}
