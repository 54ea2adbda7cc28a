package reconcile

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"gorm.io/gorm"

	"paidonce/internal/provider"
)

// insideBatch is how many rows of a check, and driftBatch how many orders, are looked at
// between two stores of the cursor.
const (
	insideBatch = 500
	driftBatch  = 1000
)

// checkTimeout is how long one of the set-based questions may take: they look at whole tables,
// which on a large installation is more than a session's ordinary patience.
const checkTimeout = "60s"

// inside compares us with ourselves: each check is one question to the database, and finds the
// rows that are wrong. The cursor is the check's number and the last row found.
func (r *run) inside(ctx context.Context) error {
	from, after, _ := strings.Cut(string(r.cursor), "/")
	first, err := strconv.Atoi(from)
	if err != nil {
		first, after = 0, ""
	}
	if r.cursor == "" {
		if err := r.forget(ctx); err != nil {
			return err
		}
	}
	all := checks()
	for n := first; n < len(all); n++ {
		if err := r.ask(ctx, n, all[n], after); err != nil {
			return fmt.Errorf("%s: %w", all[n].kind, err)
		}
		after = ""
	}
	if first <= len(all) {
		if err := r.orders(ctx, len(all), after); err != nil {
			return err
		}
	}
	return r.close(ctx, hereKinds(), everywhere)
}

// forget closes what this run found among our rows before it was left: it looks again at all of
// them, and what is still so is opened again.
func (r *run) forget(ctx context.Context) error {
	if r.options.DryRun {
		return nil
	}
	const forget = `UPDATE reconcile_findings SET healed_at = ? WHERE run_id = ? AND kind IN ? AND healed_at IS NULL`
	if err := r.DB.WithContext(ctx).Exec(forget, r.Now(), r.id, hereKinds()).Error; err != nil {
		return fmt.Errorf("looking anew: %w", err)
	}
	return nil
}

// row is what a check finds.
type row struct {
	Resource string
	OrderID  *uuid.UUID
	Ours     string
}

// ask asks one check's question, page by page.
func (r *run) ask(ctx context.Context, number int, c check, after string) error {
	query := `
SELECT found.resource, found.order_id, found.ours FROM (` + c.query + `) found
WHERE found.resource > @after ORDER BY found.resource LIMIT @limit`
	for {
		var rows []row
		err := r.DB.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
			if err := tx.Exec(`SET TRANSACTION READ ONLY`).Error; err != nil {
				return err
			}
			if err := tx.Exec(`SET LOCAL statement_timeout = '` + checkTimeout + `'`).Error; err != nil {
				return err
			}
			return tx.Raw(query, map[string]any{"after": after, "limit": insideBatch, "mail": r.Mail}).Scan(&rows).Error
		})
		if err != nil {
			return err
		}
		for _, found := range rows {
			after = found.Resource
			f := Finding{
				Kind: c.kind, ResourceID: found.Resource, OrderID: found.OrderID, Theirs: "-", Ours: found.Ours, Action: "nothing",
			}
			if err := r.number(ctx, &f); err != nil {
				return err
			}
			if err := r.note(ctx, f); err != nil {
				return err
			}
		}
		r.cursor = provider.Cursor(strconv.Itoa(number) + "/" + after)
		more := len(rows) == insideBatch
		if err := r.pageDone(ctx, time.Time{}, more); err != nil || !more {
			return err
		}
	}
}

// number names the order as a person does; only a dry run, which stores nothing, has to ask.
func (r *run) number(ctx context.Context, f *Finding) error {
	if f.OrderID == nil || !r.options.DryRun {
		return nil
	}
	var numbers []int64
	if err := r.DB.WithContext(ctx).Raw(`SELECT number FROM orders WHERE id = ?`, *f.OrderID).Scan(&numbers).Error; err != nil {
		return fmt.Errorf("reading the number of order %s: %w", *f.OrderID, err)
	}
	if len(numbers) == 1 {
		f.OrderNumber = &numbers[0]
	}
	return nil
}

// orders compares every order's state with the one that its facts call for.
func (r *run) orders(ctx context.Context, number int, after string) error {
	id := uuid.Nil
	if after != "" {
		id = uuid.MustParse(after)
	}
	for {
		drifted, next, err := r.Orders.Drifted(ctx, id, driftBatch)
		if err != nil {
			return err
		}
		for _, d := range drifted {
			target := string(d.Target)
			if d.Reason != "" {
				target += " (" + string(d.Reason) + ")"
			}
			f := Finding{
				Kind: StateDrifted, ResourceID: d.OrderID.String(), OrderID: &d.OrderID, OrderNumber: &d.Number,
				Theirs: "its facts say " + target, Ours: string(d.State), Action: "nothing",
			}
			if err := r.note(ctx, f); err != nil {
				return err
			}
		}
		r.cursor = provider.Cursor(strconv.Itoa(number) + "/" + next.String())
		if next == uuid.Nil {
			r.cursor = provider.Cursor(strconv.Itoa(number+1) + "/")
		}
		more := next != uuid.Nil
		if err := r.pageDone(ctx, time.Time{}, more); err != nil || !more {
			return err
		}
		id = next
	}
}
