package fulfillment_test

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"paidonce/internal/devpg/devpgtest"
	"paidonce/licenses"
	"paidonce/orders"
)

//nolint:gochecknoglobals // a flag of the test binary
var full = flag.Bool("full", false, "run every permutation with a duplicate at every position of the fulfill job, and every spread: some ten minutes; and of money that goes back every story, which takes longer")

// fiveEvents are what Stripe may say of one order: three tell of its payment, two of a
// checkout that came to nothing.
func fiveEvents() []string {
	return []string{completed, intentPaid, chargePaid, expired, intentFailed}
}

// spread says which of an order's checkouts each of the five events is about.
type spread [5]int

func (s spread) of(event string) int { return s[slices.Index(fiveEvents(), event)] }

func (s spread) checkouts() int { return slices.Max(s[:]) + 1 }

// sequence is one way in which the events of one order arrive.
type sequence struct {
	spread spread
	events []string
	job    int // the fulfill job runs before this event; len(events): after the last
}

func (s sequence) String() string {
	var steps []string
	for i, e := range s.events {
		if i == s.job {
			steps = append(steps, "FULFILL")
		}
		steps = append(steps, fmt.Sprintf("%s of checkout %d", e, s.spread.of(e)))
	}
	if s.job == len(s.events) {
		steps = append(steps, "FULFILL")
	}
	return strings.Join(steps, ", ")
}

// arrangements are all different orders of a list in which something may stand twice.
func arrangements(list []string) [][]string {
	seen := map[string]bool{}
	return slices.DeleteFunc(permutations(list), func(p []string) bool {
		key := strings.Join(p, ",")
		before := seen[key]
		seen[key] = true
		return before
	})
}

// I5: whatever the order in which the events of one order arrive, one of them twice under
// another id, with the fulfill job anywhere between them, it ends the same: the state, the
// totals, the active licenses, one pay, one receipt.
//
// Plain permutations are always complete, and for one checkout and for two at every position
// of the job. Of those with a duplicate there is a part, unless -full is given.
func TestI5EveryOrderOfArrivalEndsTheSame(t *testing.T) {
	t.Parallel()
	// One checkout; two, one abandoned and the other paid, as buyers do; two that are both
	// paid, where one is surplus.
	spreads := []spread{{0, 0, 0, 0, 0}, {1, 1, 1, 0, 0}, {0, 1, 1, 1, 0}}
	if *full {
		for bits := range 16 { // an event of its session for each checkout, or its intent would stay unknown
			paid, other := bits&1, 1-bits&1
			s := spread{paid, bits >> 1 & 1, bits >> 2 & 1, other, bits >> 3 & 1}
			if !slices.Contains(spreads, s) {
				spreads = append(spreads, s)
			}
		}
	}
	for nth, s := range spreads {
		t.Run(fmt.Sprint("spread ", s), func(t *testing.T) {
			t.Parallel()
			var all []sequence
			for i, events := range permutations(fiveEvents()) {
				for job := range len(events) + 1 {
					if *full || nth < 2 && !testing.Short() || i%(len(events)+1) == job {
						all = append(all, sequence{s, events, job})
					}
				}
			}
			runSequences(t, s, all)
		})
		if nth > 2 {
			continue
		}
		t.Run(fmt.Sprint("spread ", s, " with a duplicate"), func(t *testing.T) {
			t.Parallel()
			var all []sequence
			for n, twice := range fiveEvents() {
				for i, events := range arrangements(append(fiveEvents(), twice)) {
					for job := range len(events) + 1 {
						if *full || (i+n)%(len(events)+1) == job && i%[]int{6, 12, 12}[nth] == 0 {
							all = append(all, sequence{s, events, job})
						}
					}
				}
			}
			runSequences(t, s, all)
		})
	}
}

// ending is what all sequences have to end in.
type ending struct {
	State      orders.State
	Pays       int
	Licenses   int // active
	Issued     int // all
	Receipts   int // rows
	Payments   string
	Deliveries int // open or dead
}

// runSequences runs them side by side, one order each: the n-th events of all of them are
// recorded and drained before the next. A batch thus holds many orders, as in a rush.
func runSequences(t *testing.T, s spread, all []sequence) {
	t.Helper()
	// What is not durable is only faster: nothing here crashes.
	b := setupAt(t, devpgtest.New(t)+"&synchronous_commit=off&plan_cache_mode=force_generic_plan")
	b.importProducts(t)
	b.drainer.Batch = 200
	const quantity, together = 2, 400
	for chunk := range slices.Chunk(all, together) {
		placed := b.placed(t, len(chunk), quantity, s.checkouts())
		steps := 0
		for n := range chunk {
			steps = max(steps, len(chunk[n].events)+1)
		}
		for step := range steps {
			for n, seq := range chunk {
				if seq.job == step {
					if err := b.service.FulfillOrder(t.Context(), placed[n].ID, noJob); err != nil {
						t.Fatal(err)
					}
				}
				if step < len(seq.events) {
					c := placed[n].checkouts[seq.spread.of(seq.events[step])]
					c.unmarked = true // no reads: the events alone have to do
					b.record(t, c.event(fmt.Sprintf("evt_%d_%s", step, placed[n].ID), seq.events[step]))
				}
			}
			b.drain(t)
			// Their own retries are left out: who waits is found by who learns its id.
			b.exec(t, `UPDATE webhook_deliveries SET next_attempt_at = now() + interval '1 hour' WHERE outcome = 'parked' AND next_attempt_at > now()`)
		}
		b.drain(t)
		b.fulfillAll(t)
		b.wantEndings(t, chunk, placed, quantity)
	}
}

// fulfillAll does the fulfill jobs, and leaves those that reach outside.
func (b *testBundle) fulfillAll(t *testing.T) {
	t.Helper()
	b.exec(t, `DELETE FROM river_job WHERE kind <> 'fulfill_order'`)
	b.doJobs(t)
}

func (b *testBundle) wantEndings(t *testing.T, all []sequence, placed []order, quantity int) {
	t.Helper()
	var rows []struct {
		ID     string
		Ending ending `gorm:"embedded"`
	}
	err := b.db.Gorm.WithContext(t.Context()).Raw(`
SELECT o.id, o.state,
    (SELECT count(*) FROM order_transitions x WHERE x.order_id = o.id AND x.event = 'pay') AS pays,
    (SELECT count(*) FROM licenses x WHERE x.order_id = o.id AND x.status = ?) AS licenses,
    (SELECT count(*) FROM licenses x WHERE x.order_id = o.id) AS issued,
    (SELECT count(*) FROM sent_receipts x WHERE x.order_id = o.id) AS receipts,
    (SELECT string_agg(x.status || ' ' || coalesce(x.received_minor, 0) || ' ' || x.refunded_minor, ', ' ORDER BY x.object_created_at)
        FROM payments x WHERE x.order_id = o.id) AS payments,
    (SELECT count(*) FROM webhook_deliveries x WHERE right(x.event_id, 36) = CAST(o.id AS text)
        AND (x.processed_at IS NULL OR x.outcome IN ('dead', 'foreign'))) AS deliveries
FROM orders o WHERE o.id IN ?`, licenses.StatusActive, idsOf(placed)).Scan(&rows).Error
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]ending{}
	for _, row := range rows {
		got[row.ID] = row.Ending
	}
	faults := 0
	for n, seq := range all {
		want := ending{
			State: orders.Fulfilled, Pays: 1, Licenses: quantity, Issued: quantity, Receipts: 1, Payments: seq.spread.payments(placed[n]),
		}
		if diff := cmp.Diff(want, got[placed[n].ID.String()]); diff != "" {
			if faults++; faults < 5 {
				t.Errorf("order %s, after %s (-want +got):\n%s", placed[n].ID, seq, diff)
			}
		}
	}
	if faults > 0 {
		t.Fatalf("%d of %d sequences ended otherwise", faults, len(all))
	}
}

// payments is how the order's payments end: the highest that was said of each.
func (s spread) payments(o order) string {
	ends := make([]string, s.checkouts())
	for n := range ends {
		switch {
		case s[0] == n || s[1] == n || s[2] == n:
			ends[n] = fmt.Sprintf("succeeded %d 0", o.Total)
		case s[3] == n:
			ends[n] = "expired 0 0"
		default:
			ends[n] = "open 0 0"
		}
	}
	return strings.Join(ends, ", ")
}

func idsOf(placed []order) []string {
	ids := make([]string, len(placed))
	for i, o := range placed {
		ids[i] = o.ID.String()
	}
	return ids
}
