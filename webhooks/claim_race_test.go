package webhooks_test

import (
	"context"
	"fmt"
	"slices"
	"sort"
	"strings"
	"sync"
	"testing"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"paidonce/webhooks"
)

// No row is handed out twice, and none is forgotten, to however many at once.
func TestClaim_TwentyAtOnce(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	const claimers, rows = 20, 200
	l.exec(t, `INSERT INTO webhook_deliveries (provider, event_id, event_type, resource_id, livemode, account, api_version, received_at, source, body, opened_at, next_attempt_at)
		SELECT 'stripe', 'evt_' || n, 'x', '', false, '', '', now(), 'webhook', '', now(), now() FROM generate_series(1, $1) n`, rows)
	start := make(chan struct{})
	got := make([][]string, claimers)
	var wg sync.WaitGroup
	for i := range claimers {
		wg.Go(func() {
			<-start
			for {
				batch, _, err := l.inbox.Claim(t.Context(), webhooks.NewClaim(), 7, maxAttempts, lease)
				if err != nil {
					t.Error(err)
					return
				}
				if len(batch) == 0 {
					return
				}
				got[i] = append(got[i], idsOf(batch)...)
			}
		})
	}
	close(start)
	wg.Wait()
	rest, _ := l.claim(t, webhooks.NewClaim()) // a claimer skips what another is looking at
	all := append(slices.Concat(got...), rest...)
	sort.Strings(all)
	if distinct := slices.Compact(slices.Clone(all)); len(all) != rows || len(distinct) != rows {
		t.Errorf("%d handed out, %d of them different; want %d", len(all), len(distinct), rows)
	}
	if got := query[int](t, l, `SELECT count(*) FROM webhook_deliveries WHERE attempts = 1`); got != rows {
		t.Errorf("%d rows with one attempt, want %d", got, rows)
	}
}

// A row that somebody has locked is passed over, not waited for.
func TestClaim_SkipsLockedRows(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	l.record(t, "evt_1")
	l.record(t, "evt_2")
	tx, err := l.connect(t).Begin(t.Context())
	must(t, err)
	_, err = tx.Exec(t.Context(), `SELECT 1 FROM webhook_deliveries WHERE event_id = 'evt_1' FOR UPDATE`)
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	rows, _, err := l.inbox.Claim(ctx, webhooks.NewClaim(), batch, maxAttempts, lease)
	must(t, err)
	want(t, "claimed", idsOf(rows), "evt_2")
	must(t, tx.Rollback(t.Context()))
	claimed, _ := l.claim(t, webhooks.NewClaim())
	want(t, "claimed when it is free", claimed, "evt_1")
}

// The statements that run all the time read the small index of open rows, however long the history.
func TestClaim_ReadsOnlyTheOpenRows(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	l.exec(t, `INSERT INTO webhook_deliveries (provider, event_id, event_type, resource_id, livemode, account, api_version, received_at, source, body, opened_at, next_attempt_at, processed_at, outcome)
		SELECT 'stripe', 'evt_closed_' || n, 'x', '', false, '', '', now(), 'webhook', '', now(), now() - n * interval '1 s', now(), 'applied' FROM generate_series(1, 50000) n`)
	for n := range 20 {
		l.record(t, fmt.Sprintf("evt_%d", n))
	}
	l.exec(t, `ANALYZE webhook_deliveries`)

	seen := &statements{Interface: logger.Discard}
	inbox := webhooks.NewInbox(l.db.Gorm.Session(&gorm.Session{Logger: seen}))
	_, _, err := inbox.Claim(t.Context(), webhooks.NewClaim(), batch, maxAttempts, lease)
	must(t, err)
	_, _, err = inbox.NextDue(t.Context())
	must(t, err)
	if len(seen.sql) != 2 {
		t.Fatalf("%d statements, want two", len(seen.sql))
	}
	for _, sql := range seen.sql {
		rows, err := l.db.Pool.Query(t.Context(), `EXPLAIN `+sql)
		must(t, err)
		var plan strings.Builder
		for rows.Next() {
			var line string
			must(t, rows.Scan(&line))
			plan.WriteString(line + "\n")
		}
		must(t, rows.Err())
		if !strings.Contains(plan.String(), "webhook_deliveries_open") || strings.Contains(plan.String(), "Seq Scan on webhook_deliveries") {
			t.Errorf("the open rows' index is not what is read:\n%s", plan.String())
		}
	}
}
