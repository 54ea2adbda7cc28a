package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"gorm.io/gorm"

	"paidonce/internal/database"
	"paidonce/internal/provider"
)

// Finding is one thing that is wrong, or was when the run began.
type Finding struct {
	ID          uuid.UUID  `json:"id"` // zero in a dry run
	Kind        Kind       `json:"kind"`
	Provider    string     `json:"provider"`
	ResourceID  string     `json:"resource_id"`
	OrderID     *uuid.UUID `json:"order_id,omitempty"`
	OrderNumber *int64     `json:"order_number,omitempty"`
	ObjectAt    *time.Time `json:"object_at,omitempty"`
	Theirs      string     `json:"theirs"`
	Ours        string     `json:"ours"`
	Action      string     `json:"action"`
	FirstSeenAt time.Time  `json:"first_seen_at"`
	LastSeenAt  time.Time  `json:"last_seen_at"`
	HealedAt    *time.Time `json:"healed_at,omitempty"`
	AckedAt     *time.Time `json:"acked_at,omitempty"`
	AckedBy     *string    `json:"acked_by,omitempty"`
	AckReason   *string    `json:"ack_reason,omitempty"`
}

func (f Finding) key() string { return string(f.Kind) + "/" + f.ResourceID }

// note stores a finding. One that is open already is the same one, seen again; and so is one
// that this run has seen before it was killed.
func (r *run) note(ctx context.Context, f Finding) error {
	f.Theirs, f.Ours, f.Action = database.Text(f.Theirs), database.Text(f.Ours), database.Text(f.Action)
	r.counts[countFindings]++
	if r.options.DryRun {
		return r.noteDry(ctx, f)
	}
	args := map[string]any{
		"run": r.id, "kind": f.Kind, "provider": stripeName, "resource": f.ResourceID, "order": f.OrderID, "object_at": f.ObjectAt,
		"theirs": f.Theirs, "ours": f.Ours, "action": f.Action, "now": r.Now(), "id": uuid.Must(uuid.NewV7()),
	}
	const again = `
UPDATE reconcile_findings
SET run_id = @run, order_id = coalesce(@order, order_id), object_at = coalesce(@object_at, object_at),
    theirs = @theirs, ours = @ours, action = @action, last_seen_at = @now, healed_at = NULL
WHERE provider = @provider AND kind = @kind AND resource_id = @resource AND (healed_at IS NULL OR run_id = @run)`
	const first = `
INSERT INTO reconcile_findings
    (id, run_id, kind, provider, resource_id, order_id, object_at, theirs, ours, action, first_seen_at, last_seen_at)
VALUES (@id, @run, @kind, @provider, @resource, @order, @object_at, @theirs, @ours, @action, @now, @now)
ON CONFLICT DO NOTHING`
	err := r.DB.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		updated := tx.Exec(again, args)
		if updated.Error != nil || updated.RowsAffected > 0 {
			return updated.Error
		}
		return tx.Exec(first, args).Error
	})
	if err != nil {
		return fmt.Errorf("noting %s: %w", f.key(), err)
	}
	return nil
}

// healed closes a finding of this run that is not so any more.
func (r *run) healed(ctx context.Context, f Finding) error {
	const healed = `
UPDATE reconcile_findings SET healed_at = ? WHERE provider = ? AND kind = ? AND resource_id = ? AND healed_at IS NULL`
	if err := r.DB.WithContext(ctx).Exec(healed, r.Now(), stripeName, f.Kind, f.ResourceID).Error; err != nil {
		return fmt.Errorf("closing %s: %w", f.key(), err)
	}
	return nil
}

// scope is of which findings a run can say that they are no more.
type scope int

const (
	everywhere scope = iota // of our own rows
	inWorld                 // of its mode and account
)

// close ends the findings of earlier runs that this one has not seen, although it looked: at
// the objects of its window page by page, and at those that earlier findings are about.
func (r *run) close(ctx context.Context, kinds []Kind, looked scope) error {
	if r.options.DryRun {
		return nil
	}
	const closing = `
UPDATE reconcile_findings f SET healed_at = @now
FROM reconcile_runs last
WHERE last.id = f.run_id AND f.healed_at IS NULL AND f.run_id <> @run AND f.provider = @provider AND f.kind IN @kinds
  AND (@everywhere OR (last.livemode = @livemode AND last.account = @account))`
	err := r.DB.WithContext(ctx).Exec(closing, map[string]any{
		"now": r.Now(), "run": r.id, "provider": stripeName, "kinds": kinds, "everywhere": looked == everywhere,
		"livemode": r.Stripe.Livemode(), "account": r.Stripe.Account(),
	}).Error
	if err != nil {
		return fmt.Errorf("closing findings that are no more: %w", err)
	}
	return nil
}

// report is what the run has found so far; with no error it ends the run.
func (r *run) report(ctx context.Context, failed error) (Report, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
	defer cancel()
	report := Report{
		Provider: stripeName, Livemode: r.Stripe.Livemode(), Account: r.Stripe.Account(),
		Since: r.options.Since, Until: r.options.Until, DryRun: r.options.DryRun, Resumed: r.resumed,
		Outcome: Clean, Counts: r.counts, Kinds: []KindCount{}, Findings: []Finding{}, Notes: r.notes(),
	}
	if r.options.DryRun {
		report.Kinds = r.dry.counted()
		report.Findings = append(report.Findings, r.dry.listed...)
	} else {
		report.RunID = r.id.String()
		if err := r.found(ctx, &report); err != nil {
			failed = errors.Join(failed, err)
		}
	}
	if slices.ContainsFunc(report.Kinds, func(k KindCount) bool { return k.Open+k.Healed > 0 }) {
		report.Outcome = Drift
	}
	if failed != nil {
		report.Outcome, report.Error = Unsure, failed.Error()
	}
	switch {
	case r.options.DryRun:
		return report, failed
	case failed != nil:
		return report, errors.Join(failed, r.leave(ctx, failed))
	}
	return report, r.finish(ctx, report.Outcome)
}

// found reads back what the run has seen, also before it was killed and resumed.
func (r *run) found(ctx context.Context, report *Report) error {
	const counts = `
SELECT kind, count(*) FILTER (WHERE healed_at IS NULL AND acked_at IS NULL) AS open,
    count(*) FILTER (WHERE healed_at IS NOT NULL) AS healed,
    count(*) FILTER (WHERE healed_at IS NULL AND acked_at IS NOT NULL) AS acked
FROM reconcile_findings WHERE run_id = ? GROUP BY kind`
	if err := r.DB.WithContext(ctx).Raw(counts, r.id).Scan(&report.Kinds).Error; err != nil {
		return fmt.Errorf("counting findings: %w", err)
	}
	sortKinds(report.Kinds)
	const listed = `
SELECT f.*, o.number AS order_number
FROM reconcile_findings f LEFT JOIN orders o ON o.id = f.order_id
WHERE f.run_id = ? ORDER BY f.healed_at IS NOT NULL, f.kind, o.number, f.id LIMIT ?`
	if err := r.DB.WithContext(ctx).Raw(listed, r.id, MaxListed).Scan(&report.Findings).Error; err != nil {
		return fmt.Errorf("listing findings: %w", err)
	}
	return nil
}

// notes is what the reader should know about the window.
func (r *run) notes() []string {
	notes := []string{}
	if earliest := r.earliestEvent(); r.options.Since.Before(earliest) {
		notes = append(notes, fmt.Sprintf(
			"events before %s cannot be listed any more (30 days): from %s to then, the objects themselves were compared",
			earliest.Format(time.RFC3339), r.options.Since.Format(time.RFC3339)))
	}
	if n := r.counts[countUnreadable]; n > 0 {
		notes = append(notes, fmt.Sprintf("%d objects are in amounts or currencies that cannot be read", n))
	}
	return notes
}

// earliestEvent is the first second of which events are still listed, by our clock; an hour is
// left for the difference to the provider's and for the time that a run takes.
func (r *run) earliestEvent() time.Time {
	return r.Now().Add(-provider.EventWindow + time.Hour).UTC().Truncate(time.Second)
}

// dryFindings are those of a dry run, which stores nothing.
type dryFindings struct {
	kinds  map[Kind]*KindCount
	listed []Finding
	seen   map[string]bool // of those listed
}

func (r *run) noteDry(ctx context.Context, f Finding) error {
	if r.dry.seen[f.key()] {
		return nil
	}
	var known []Finding
	const open = `SELECT * FROM reconcile_findings WHERE provider = ? AND kind = ? AND resource_id = ? AND healed_at IS NULL`
	if err := r.DB.WithContext(ctx).Raw(open, stripeName, f.Kind, f.ResourceID).Scan(&known).Error; err != nil {
		return fmt.Errorf("looking for %s: %w", f.key(), err)
	}
	count := r.dry.kinds[f.Kind]
	if count == nil {
		count = &KindCount{Kind: f.Kind}
		r.dry.kinds[f.Kind] = count
	}
	f.Provider, f.FirstSeenAt, f.LastSeenAt = stripeName, r.Now(), r.Now()
	if len(known) == 1 {
		f.ID, f.FirstSeenAt, f.AckedAt, f.AckedBy, f.AckReason = known[0].ID, known[0].FirstSeenAt, known[0].AckedAt, known[0].AckedBy, known[0].AckReason
	}
	if f.AckedAt != nil {
		count.Acked++
	} else {
		count.Open++
	}
	if len(r.dry.listed) < MaxListed {
		r.dry.listed = append(r.dry.listed, f)
		r.dry.seen[f.key()] = true
	}
	return nil
}

func (d *dryFindings) counted() []KindCount {
	counts := []KindCount{}
	for _, c := range d.kinds {
		counts = append(counts, *c)
	}
	sortKinds(counts)
	return counts
}

// sortKinds sorts by urgency.
func sortKinds(counts []KindCount) {
	order := Kinds()
	slices.SortFunc(counts, func(a, b KindCount) int {
		return cmp.Compare(slices.Index(order, a.Kind), slices.Index(order, b.Kind))
	})
}
