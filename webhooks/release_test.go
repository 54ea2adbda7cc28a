package webhooks_test

import (
	"testing"
	"time"

	"gorm.io/gorm"

	"paidonce/webhooks"
)

// waiting lays out one row of every kind that a release may meet; all of them name pi_1.
func waiting(tb testing.TB, l ledger) {
	tb.Helper()
	for _, c := range []struct{ id, set string }{
		{"evt_parked", `outcome = 'parked', attempts = 2, next_attempt_at = now() + interval '1 hour'`},
		{"evt_lapsed", `outcome = 'parked', next_attempt_at = now() + interval '1 hour', claim = gen_random_uuid(), claim_until = now() - interval '1 s'`},
		{"evt_leased", `outcome = 'parked', next_attempt_at = now() + interval '1 hour', claim = gen_random_uuid(), claim_until = now() + interval '1 hour'`},
		{"evt_foreign", `outcome = 'foreign', attempts = 2, processed_at = now()`},
		{"evt_unmatched", `outcome = 'dead', detail = 'unmatched', attempts = 2, processed_at = now()`},
		{"evt_poison", `outcome = 'dead', last_error = 'panic', attempts = 10, processed_at = now()`},
		{"evt_applied", `outcome = 'applied', processed_at = now()`},
		{"evt_new", `next_attempt_at = now() + interval '1 hour'`},
		{"evt_other", `outcome = 'foreign', processed_at = now()`}, // names pi_2
	} {
		l.record(tb, c.id)
		l.exec(tb, `UPDATE webhook_deliveries SET opened_at = now() - interval '1 day', `+c.set+` WHERE event_id = $1`, c.id)
		resource := "pi_1"
		if c.id == "evt_other" {
			resource = "pi_2"
		}
		l.exec(tb, `INSERT INTO delivery_resources VALUES ('stripe', $1, $2)`, resource, c.id)
	}
}

// released asserts on what the layout of waiting became: exactly what waited came forward.
func released(tb testing.TB, l ledger) {
	tb.Helper()
	const due = `SELECT coalesce(array_agg(event_id ORDER BY event_id), '{}') FROM webhook_deliveries
		WHERE processed_at IS NULL AND outcome = 'parked' AND next_attempt_at <= now()`
	want(tb, "released", query[[]string](tb, l, due), "evt_foreign", "evt_lapsed", "evt_parked", "evt_unmatched")

	// What was still open keeps its wait and its attempts; what was opened again starts anew.
	const anew = `SELECT coalesce(array_agg(event_id ORDER BY event_id), '{}') FROM webhook_deliveries WHERE opened_at > now() - interval '1 hour' AND attempts = 0 AND detail IS NULL`
	want(tb, "opened anew", query[[]string](tb, l, anew), "evt_foreign", "evt_unmatched")
	for id, wantRow := range map[string]string{
		"evt_parked":  "parked open 2 free",
		"evt_leased":  "parked open 0 claimed",
		"evt_poison":  "dead ended 10 free panic",
		"evt_applied": "applied ended 0 free",
		"evt_new":     "new open 0 free",
		"evt_other":   "foreign ended 0 free",
	} {
		l.wantRow(tb, webhooks.Key{Provider: "stripe", EventID: id}, wantRow)
	}
	const untouched = `SELECT count(*) FROM webhook_deliveries WHERE event_id IN ('evt_leased', 'evt_new') AND next_attempt_at > now() + interval '50 minutes'`
	if got := query[int](tb, l, untouched); got != 2 {
		tb.Errorf("%d of two rows kept their time", got)
	}
}

func (l ledger) release(tb testing.TB, provider string, ids ...string) {
	tb.Helper()
	must(tb, l.db.Gorm.Transaction(func(tx *gorm.DB) error { return l.inbox.Release(tb.Context(), tx, provider, ids) }))
}

func (l ledger) sweep(tb testing.TB) {
	tb.Helper()
	must(tb, l.db.Gorm.Transaction(func(tx *gorm.DB) error { return l.inbox.Sweep(tb.Context(), tx) }))
}

// learn records a resource id of a payment, as orders does.
func learn(tb testing.TB, run func(sql string, args ...any), provider, resource string) {
	tb.Helper()
	run(`WITH o AS (INSERT INTO orders (id, email, locale, currency, total_minor, state, created_at, updated_at)
			VALUES (gen_random_uuid(), 'a@example.com', '', 'usd', 1999, 'pending', now(), now()) RETURNING id),
		p AS (INSERT INTO payments (id, order_id, provider, resource_id, livemode, account, currency, expected_minor, created_at, updated_at)
			SELECT gen_random_uuid(), id, $1, $2, false, '', 'usd', 1999, now(), now() FROM o RETURNING id)
		INSERT INTO payment_resources SELECT $1, $2, id, now() FROM p`, provider, resource)
}

func TestRelease_BringsForwardWhatWaits(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	waiting(t, l)
	ears := listen(t, l)
	l.release(t, "paymos", "pi_1")            // another provider's id of the same name
	l.release(t, "stripe", "pi_3", "evt_new") // ids that nobody waits for
	l.release(t, "stripe")                    // none
	if got := announcements(t, l, ears); got != 0 {
		t.Errorf("%d announcements of nothing", got)
	}
	l.release(t, "stripe", "cs_9", "pi_1")
	released(t, l)
	if got := announcements(t, l, ears); got != 1 {
		t.Errorf("%d announcements, want one", got)
	}
}

func TestSweep_BringsForwardWhatIsKnownByNow(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	waiting(t, l)
	ears := listen(t, l)
	before := query[string](t, l, `SELECT string_agg(d::text, ',' ORDER BY event_id) FROM webhook_deliveries d`)
	l.sweep(t)
	run := func(sql string, args ...any) { l.exec(t, sql, args...) }
	learn(t, run, "paymos", "pi_1")
	l.sweep(t)
	if after := query[string](t, l, `SELECT string_agg(d::text, ',' ORDER BY event_id) FROM webhook_deliveries d`); after != before {
		t.Errorf("changed, though nothing is known\nfrom %s\nto   %s", before, after)
	}
	if got := announcements(t, l, ears); got != 0 {
		t.Errorf("%d announcements of nothing", got)
	}

	learn(t, run, "stripe", "pi_1")
	l.sweep(t)
	released(t, l)
	if got := announcements(t, l, ears); got != 1 {
		t.Errorf("%d announcements, want one", got)
	}
	l.sweep(t) // and again: nothing is left that is not due
	released(t, l)
	if got := announcements(t, l, ears); got != 0 {
		t.Errorf("%d announcements of a second sweep", got)
	}
}

// A row that a drainer has locked at this moment is skipped by both: nobody waits for it.
func TestRelease_SkipsLockedRows(t *testing.T) {
	t.Parallel()
	for name, release := range map[string]func(ledger){
		"Release": func(l ledger) { l.release(t, "stripe", "pi_1") },
		"Sweep":   func(l ledger) { l.sweep(t) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLedger(t)
			key := l.record(t, "evt_1")
			l.finish(t, webhooks.Verdict{Key: key, Outcome: webhooks.OutcomeParked, Resources: []string{"pi_1"}, RetryIn: time.Hour})
			learn(t, func(sql string, args ...any) { l.exec(t, sql, args...) }, "stripe", "pi_1")
			drainer := l.begin(t)
			must(t, drainer.Exec(`SELECT 1 FROM webhook_deliveries FOR UPDATE`).Error)
			release(l)
			must(t, drainer.Rollback().Error)
			if query[bool](t, l, `SELECT next_attempt_at <= now() FROM webhook_deliveries`) {
				t.Error("a row that was locked was released")
			}
		})
	}
}

// The two sides of a wait: one transaction parks a delivery because nobody knows its resource, the
// other learns that resource and releases what waits for it. In whichever order they look and
// commit, the delivery comes forward, at the latest with the next sweep.
func TestRelease_RaceWithParking(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		order string // p: park, l: learn and release, P and L: the commits
		now   bool   // the release itself finds it
	}{
		{"One after the other", "pPlL", true},
		{"Learned before", "lLpP", false}, // a lookup made before, a park written after
		{"Parked in between, learner first", "plLP", false},
		{"Parked in between, parker first", "plPL", false},
		{"Learned in between, learner first", "lpLP", false},
		{"Learned in between, parker first", "lpPL", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := newLedger(t)
			key := l.record(t, "evt_1")
			token := webhooks.NewClaim()
			l.claim(t, token)

			parker, learner := l.begin(t), l.begin(t)
			steps := map[rune]func(){
				'p': func() {
					held, err := l.inbox.Lock(t.Context(), parker, token, []webhooks.Key{key})
					must(t, err)
					if !held[key] {
						t.Fatal("the parker does not hold its row")
					}
					must(t, l.inbox.Finish(t.Context(), parker, webhooks.Verdict{
						Key: key, Outcome: webhooks.OutcomeParked, Resources: []string{"pi_1"}, RetryIn: time.Hour,
					}))
				},
				'l': func() {
					learn(t, func(sql string, args ...any) {
						_, err := learner.Statement.ConnPool.ExecContext(t.Context(), sql, args...)
						must(t, err)
					}, "stripe", "pi_1")
					must(t, l.inbox.Release(t.Context(), learner, "stripe", []string{"pi_1"}))
				},
				'P': func() { must(t, parker.Commit().Error) },
				'L': func() { must(t, learner.Commit().Error) },
			}
			for _, step := range c.order {
				steps[step]()
			}

			const due = `SELECT next_attempt_at <= now() FROM webhook_deliveries WHERE outcome = 'parked'`
			if got := query[bool](t, l, due); got != c.now {
				t.Errorf("due before the sweep: %v, want %v", got, c.now)
			}
			l.sweep(t)
			if !query[bool](t, l, due) {
				t.Error("lost: the sweep did not bring it forward")
			}
			claimed, _ := l.claim(t, webhooks.NewClaim())
			want(t, "claimed", claimed, "evt_1")
		})
	}
}

// A sweep of a delivery whose wait is over but which is still claimed by its drainer changes nothing
// for that drainer.
func TestSweep_LeavesALiveClaimItsRow(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	key := l.record(t, "evt_1")
	l.finish(t, webhooks.Verdict{Key: key, Outcome: webhooks.OutcomeParked, Resources: []string{"pi_1"}})
	token := webhooks.NewClaim()
	l.claim(t, token)
	learn(t, func(sql string, args ...any) { l.exec(t, sql, args...) }, "stripe", "pi_1")
	l.sweep(t)
	if held := l.lock(t, token, key); !held[key] {
		t.Error("the drainer lost its row to the sweep")
	}
}
