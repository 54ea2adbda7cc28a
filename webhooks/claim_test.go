package webhooks_test

import (
	"fmt"
	"sort"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"paidonce/webhooks"
)

// The drainer's numbers in these tests.
const (
	batch       = 50
	maxAttempts = 3
	lease       = time.Minute
)

// claim takes what is due and returns the event ids, and those that died of it.
func (l ledger) claim(tb testing.TB, token webhooks.Claim) (claimed, died []string) {
	tb.Helper()
	rows, dead, err := l.inbox.Claim(tb.Context(), token, batch, maxAttempts, lease)
	must(tb, err)
	return idsOf(rows), idsOf(dead)
}

func idsOf(rows []webhooks.Delivery) []string {
	ids := []string{}
	for _, row := range rows {
		ids = append(ids, row.EventID)
	}
	sort.Strings(ids)
	return ids
}

// suspect makes rows look claimed by a process that is gone.
func (l ledger) suspect(tb testing.TB, attempts int, ids ...string) {
	tb.Helper()
	l.exec(tb, `UPDATE webhook_deliveries SET claim = gen_random_uuid(), claim_until = now() - interval '1 s', attempts = $1 WHERE event_id = ANY($2)`, attempts, ids)
}

// older makes rows due before all others, in the order given.
func (l ledger) older(tb testing.TB, ids ...string) {
	tb.Helper()
	for i, id := range ids {
		l.exec(tb, `UPDATE webhook_deliveries SET next_attempt_at = now() - interval '1 day' + make_interval(secs => $1) WHERE event_id = $2`, i, id)
	}
}

func want(tb testing.TB, what string, got []string, want ...string) {
	tb.Helper()
	if diff := cmp.Diff(append([]string{}, want...), got); diff != "" {
		tb.Errorf("%s (-want +got)\n%s", what, diff)
	}
}

func TestClaim_HandsOutWhatIsDueAndCountsTheAttempt(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	for _, id := range []string{"evt_due", "evt_parked", "evt_later", "evt_held", "evt_done"} {
		l.record(t, id)
	}
	l.exec(t, `UPDATE webhook_deliveries SET outcome = 'parked', attempts = 1, opened_at = now() - interval '90 s' WHERE event_id = 'evt_parked'`)
	l.exec(t, `UPDATE webhook_deliveries SET next_attempt_at = now() + interval '1 hour' WHERE event_id = 'evt_later'`)
	l.exec(t, `UPDATE webhook_deliveries SET claim = gen_random_uuid(), claim_until = now() + interval '1 hour' WHERE event_id = 'evt_held'`)
	l.exec(t, `UPDATE webhook_deliveries SET processed_at = now(), outcome = 'applied' WHERE event_id = 'evt_done'`)

	token := webhooks.NewClaim()
	rows, died, err := l.inbox.Claim(t.Context(), token, batch, maxAttempts, lease)
	must(t, err)
	want(t, "claimed", idsOf(rows), "evt_due", "evt_parked")
	want(t, "died", idsOf(died))
	for _, row := range rows {
		parked := row.EventID == "evt_parked"
		if isParked := row.Outcome != nil && *row.Outcome == webhooks.OutcomeParked; isParked != parked {
			t.Errorf("%s: outcome %v", row.EventID, row.Outcome)
		}
		if wantAttempts := map[bool]int{false: 1, true: 2}[parked]; row.Attempts != wantAttempts {
			t.Errorf("%s: attempt %d, want %d", row.EventID, row.Attempts, wantAttempts)
		}
		if long := row.Waited >= 90*time.Second; long != parked || row.Waited < 0 || row.Waited > 10*time.Minute {
			t.Errorf("%s: waited %s", row.EventID, row.Waited)
		}
		if row.Provider != "stripe" || row.EventType != "charge.succeeded" || row.ResourceID != "ch_1" || string(row.Body) != `{}` || row.Source != webhooks.SourceWebhook {
			t.Errorf("got %+v", row)
		}
	}
	const held = `SELECT count(*) FROM webhook_deliveries WHERE claim = $1 AND claim_until > now() + interval '50 s' AND claim_until <= now() + interval '60 s'`
	if got := query[int](t, l, held, token); got != 2 {
		t.Errorf("%d rows under the lease, want 2", got)
	}
	if claimed, _ := l.claim(t, webhooks.NewClaim()); len(claimed) != 0 {
		t.Errorf("claimed again: %v", claimed)
	}
}

func TestClaim_TakesTheOldestUpToTheLimit(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	for _, id := range []string{"evt_1", "evt_2", "evt_3", "evt_4"} {
		l.record(t, id)
	}
	l.older(t, "evt_3", "evt_2")
	rows, _, err := l.inbox.Claim(t.Context(), webhooks.NewClaim(), 2, maxAttempts, lease)
	must(t, err)
	want(t, "claimed", idsOf(rows), "evt_2", "evt_3")
}

// A row whose claimer never finished may be what ended it: it takes no other row with it.
func TestClaim_Suspects(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		suspects int // evt_s1 … evt_sN, attempts below the limit
		spent    int // evt_x1 … evt_xN, out of attempts
		first    []string
		claims   [][]string // what claim after claim hands out
		died     []string   // by the first claim
	}{
		// Clean rows go together; a suspect goes alone, first or after them.
		{"None", 0, 0, nil, [][]string{{"evt_1", "evt_2", "evt_3"}, {}}, nil},
		{"First", 1, 0, []string{"evt_s1"}, [][]string{{"evt_s1"}, {"evt_1", "evt_2", "evt_3"}, {}}, nil},
		{"Last", 1, 0, []string{"evt_1", "evt_2", "evt_3", "evt_s1"}, [][]string{{"evt_1", "evt_2", "evt_3"}, {"evt_s1"}, {}}, nil},
		{"Two", 2, 0, []string{"evt_s1", "evt_s2"}, [][]string{{"evt_s1"}, {"evt_s2"}, {"evt_1", "evt_2", "evt_3"}}, nil},

		// One that is out of attempts is ended by the claim itself, and blocks nobody.
		{"Spent first", 0, 1, []string{"evt_x1"}, [][]string{{"evt_1", "evt_2", "evt_3"}, {}}, []string{"evt_x1"}},
		{"Spent last", 0, 1, []string{"evt_1", "evt_2", "evt_3", "evt_x1"}, [][]string{{"evt_1", "evt_2", "evt_3"}, {}}, []string{"evt_x1"}},
		{"Spent and suspect", 1, 2, []string{"evt_x1", "evt_s1", "evt_x2"}, [][]string{{"evt_s1"}, {"evt_1", "evt_2", "evt_3"}}, []string{"evt_x1", "evt_x2"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := newLedger(t)
			for _, id := range []string{"evt_1", "evt_2", "evt_3"} {
				l.record(t, id)
			}
			for i := range c.suspects {
				l.record(t, fmt.Sprintf("evt_s%d", i+1))
				l.suspect(t, maxAttempts-1, fmt.Sprintf("evt_s%d", i+1))
			}
			for i := range c.spent {
				l.record(t, fmt.Sprintf("evt_x%d", i+1))
				l.suspect(t, maxAttempts, fmt.Sprintf("evt_x%d", i+1))
			}
			l.older(t, c.first...)
			for i, ids := range c.claims {
				claimed, died := l.claim(t, webhooks.NewClaim())
				want(t, fmt.Sprintf("claim %d", i+1), claimed, ids...)
				if i == 0 {
					want(t, "died", died, c.died...)
				}
			}
			const dead = `SELECT count(*) FROM webhook_deliveries WHERE outcome = 'dead' AND processed_at IS NOT NULL AND claim IS NULL
				AND last_error <> '' AND attempts = $1`
			if got := query[int](t, l, dead, maxAttempts); got != c.spent {
				t.Errorf("%d rows are dead, want %d", got, c.spent)
			}
		})
	}
}

// A row that kills every process that takes it ends, after its attempts, with nobody's help (B26).
func TestB26_Claim_APoisonRowEndsItself(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	l.record(t, "evt_poison")
	for attempt := range maxAttempts {
		claimed, died := l.claim(t, webhooks.NewClaim())
		want(t, fmt.Sprintf("attempt %d", attempt+1), claimed, "evt_poison")
		want(t, "died", died)
		l.exec(t, `UPDATE webhook_deliveries SET claim_until = now()`) // its process ends; the lease lapses
	}
	claimed, died := l.claim(t, webhooks.NewClaim())
	want(t, "claimed at last", claimed)
	want(t, "died", died, "evt_poison")
}
