package reconcile

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"gorm.io/gorm"
)

// List reads the stored findings, the open ones or all of them, the newest first.
func List(ctx context.Context, db *gorm.DB, all bool, limit int) ([]Finding, error) {
	const list = `
SELECT f.*, o.number AS order_number
FROM reconcile_findings f LEFT JOIN orders o ON o.id = f.order_id
WHERE @all OR (f.healed_at IS NULL AND f.acked_at IS NULL)
ORDER BY f.healed_at IS NOT NULL, f.acked_at IS NOT NULL, f.last_seen_at DESC, f.id DESC
LIMIT @limit`
	findings := []Finding{}
	if err := db.WithContext(ctx).Raw(list, map[string]any{"all": all, "limit": limit}).Scan(&findings).Error; err != nil {
		return nil, fmt.Errorf("listing findings: %w", err)
	}
	return findings, nil
}

// Ack notes that a person knows of an open finding, and why it may stay: it is no drift any
// more, until it heals and comes back. It is named by its id, or as KIND/RESOURCE.
func Ack(ctx context.Context, db *gorm.DB, finding, by, why string, now time.Time) (Finding, error) {
	by, why = strings.TrimSpace(by), strings.TrimSpace(why)
	switch {
	case by == "":
		return Finding{}, errors.New("by: who acknowledges it is required")
	case why == "":
		return Finding{}, errors.New("why: a reason is required")
	}
	where, args := "kind = @kind AND resource_id = @resource", map[string]any{"now": now, "by": by, "why": why}
	if id, err := uuid.Parse(finding); err == nil {
		where, args["id"] = "id = @id", id
	} else {
		args["kind"], args["resource"], _ = strings.Cut(finding, "/")
	}
	var acked []Finding
	ack := `
UPDATE reconcile_findings SET acked_at = @now, acked_by = @by, ack_reason = @why
WHERE healed_at IS NULL AND ` + where + `
RETURNING *, (SELECT number FROM orders WHERE id = order_id) AS order_number`
	if err := db.WithContext(ctx).Raw(ack, args).Scan(&acked).Error; err != nil {
		return Finding{}, fmt.Errorf("acknowledging %s: %w", finding, err)
	}
	if len(acked) == 0 {
		return Finding{}, fmt.Errorf("%w: %q", ErrNoFinding, finding)
	}
	return acked[0], nil
}

// Standing is how things stand by the stored runs, for whoever watches.
type Standing struct {
	Open      map[Kind]int64 // findings that are open and not acknowledged; every kind is there
	LastClean *time.Time     // when the last run that found nothing ended; nil: none has
}

// ReadStanding reads it. The last clean run is asked for of one world: a test-mode run says
// nothing about live payments.
func ReadStanding(ctx context.Context, db *gorm.DB, livemode bool, account string) (Standing, error) {
	s := Standing{Open: map[Kind]int64{}}
	for _, k := range Kinds() {
		s.Open[k] = 0
	}
	var counts []KindCount
	const open = `
SELECT kind, count(*) AS open FROM reconcile_findings WHERE healed_at IS NULL AND acked_at IS NULL GROUP BY kind`
	if err := db.WithContext(ctx).Raw(open).Scan(&counts).Error; err != nil {
		return Standing{}, fmt.Errorf("counting open findings: %w", err)
	}
	for _, c := range counts {
		s.Open[c.Kind] = c.Open
	}
	const clean = `
SELECT max(finished_at) FROM reconcile_runs
WHERE provider = ? AND livemode = ? AND account = ? AND outcome = 'clean'`
	if err := db.WithContext(ctx).Raw(clean, stripeName, livemode, account).Row().Scan(&s.LastClean); err != nil {
		return Standing{}, fmt.Errorf("looking for the last clean run: %w", err)
	}
	return s, nil
}
