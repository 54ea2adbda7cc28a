package webhooks_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"gorm.io/gorm"

	"paidonce/webhooks"
)

// lock asks which of the keys are still the token's, in a transaction of its own.
func (l ledger) lock(tb testing.TB, token webhooks.Claim, keys ...webhooks.Key) map[webhooks.Key]bool {
	tb.Helper()
	var held map[webhooks.Key]bool
	must(tb, l.db.Gorm.Transaction(func(tx *gorm.DB) (err error) {
		held, err = l.inbox.Lock(tb.Context(), tx, token, keys)
		return err
	}))
	return held
}

func (l ledger) finish(tb testing.TB, v webhooks.Verdict) {
	tb.Helper()
	must(tb, l.db.Gorm.Transaction(func(tx *gorm.DB) error { return l.inbox.Finish(tb.Context(), tx, v) }))
}

// row is one delivery in the words of a test: outcome, attempts, whether it is claimed, detail and
// last error.
func (l ledger) row(tb testing.TB, key webhooks.Key) string {
	tb.Helper()
	return query[string](tb, l, `SELECT concat_ws(' ', coalesce(outcome, 'new'), CASE WHEN processed_at IS NULL THEN 'open' ELSE 'ended' END, attempts,
		CASE WHEN claim IS NULL THEN 'free' ELSE 'claimed' END, detail, last_error) FROM webhook_deliveries WHERE provider = $1 AND event_id = $2`, key.Provider, key.EventID)
}

func (l ledger) wantRow(tb testing.TB, key webhooks.Key, want string) {
	tb.Helper()
	if got := l.row(tb, key); got != want {
		tb.Errorf("%s: got %q, want %q", key, got, want)
	}
}

// A drainer that overslept its lease gets nothing: what it had in mind does not happen.
func TestLock_OnlyWhatIsStillOurs(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	ours, taken, done, opened := l.record(t, "evt_ours"), l.record(t, "evt_taken"), l.record(t, "evt_done"), l.record(t, "evt_opened")
	token := webhooks.NewClaim()
	l.claim(t, token)
	l.exec(t, `UPDATE webhook_deliveries SET claim = gen_random_uuid() WHERE event_id = 'evt_taken'`)
	l.finish(t, webhooks.Verdict{Key: done, Outcome: webhooks.OutcomeApplied})
	l.finish(t, webhooks.Verdict{Key: opened, Outcome: webhooks.OutcomeDead})
	_, err := l.inbox.Record(t.Context(), envelope("evt_opened"), webhooks.SourceWebhook, []byte(`{}`)) // and opened again
	must(t, err)

	held := l.lock(t, token, ours, taken, done, opened, webhooks.Key{Provider: "stripe", EventID: "evt_unheard_of"})
	if len(held) != 1 || !held[ours] {
		t.Errorf("held %v, want %s alone", held, ours)
	}
	if held := l.lock(t, webhooks.NewClaim(), ours); len(held) != 0 {
		t.Errorf("another token holds %v", held)
	}
}

// The overslept drainer's row goes to the next claimer, and the first gets nothing from Lock.
func TestLock_ALapsedTokenGetsNothing(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	key := l.record(t, "evt_1")
	first, second := webhooks.NewClaim(), webhooks.NewClaim()
	l.claim(t, first)
	l.exec(t, `UPDATE webhook_deliveries SET claim_until = now() - interval '1 s'`)
	claimed, _ := l.claim(t, second)
	want(t, "claimed by the second", claimed, "evt_1")
	if held := l.lock(t, first, key); len(held) != 0 {
		t.Errorf("the first still holds %v", held)
	}
	if held := l.lock(t, second, key); !held[key] {
		t.Error("the second does not hold it")
	}
	dead, err := l.inbox.Fail(t.Context(), first, key, errors.New("late"), maxAttempts, time.Hour)
	must(t, err)
	must(t, l.inbox.GiveBack(t.Context(), first, []webhooks.Key{key}, 0))
	if dead {
		t.Error("the first ended it")
	}
	l.wantRow(t, key, "new open 2 claimed")
}

func TestFinish_EveryOutcome(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	for _, c := range []struct {
		outcome webhooks.Outcome
		detail  string
		want    string
		waits   int // ids remembered
	}{
		// What ends a row ends its claim and its error, and forgets what it waited for.
		{webhooks.OutcomeApplied, "", "applied ended 1 free", 0},
		{webhooks.OutcomeAlready, "", "already ended 1 free", 0},
		{webhooks.OutcomeStale, "", "stale ended 1 free", 0},
		{webhooks.OutcomeRead, "", "read ended 1 free", 0},
		{webhooks.OutcomeIgnored, "mode", "ignored ended 1 free mode", 0},
		{webhooks.OutcomeUnsupported, "a\x00b\xff", "unsupported ended 1 free a\uFFFDb\uFFFD", 0},
		{webhooks.OutcomeHeld, "amount", "held ended 1 free amount", 0},
		{webhooks.OutcomeDead, "", "dead ended 1 free", 0},

		// What may yet be matched remembers its ids; parked, it also gets its attempt back.
		{webhooks.OutcomeParked, "", "parked open 0 free", 2},
		{webhooks.OutcomeForeign, "", "foreign ended 1 free", 2},
		{webhooks.OutcomeDead, webhooks.Unmatched, "dead ended 1 free unmatched", 2},
	} {
		key := l.record(t, fmt.Sprintf("evt_%s_%d", c.outcome, len(c.detail)))
		l.claim(t, webhooks.NewClaim())
		l.exec(t, `UPDATE webhook_deliveries SET last_error = 'an earlier one' WHERE event_id = $1`, key.EventID)
		l.exec(t, `INSERT INTO delivery_resources VALUES ('stripe', 'pi_1', $1)`, key.EventID) // from an earlier wait
		l.finish(t, webhooks.Verdict{Key: key, Outcome: c.outcome, Detail: c.detail, Resources: []string{"pi_1", "cs_1", "pi_1"}, RetryIn: time.Hour})
		l.wantRow(t, key, c.want)
		if got := query[int](t, l, `SELECT count(*) FROM delivery_resources WHERE event_id = $1`, key.EventID); got != c.waits {
			t.Errorf("%s: remembers %d ids, want %d", key, got, c.waits)
		}
	}
}

func TestFinish_AParkedRowIsDueAfterItsWait(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	key := l.record(t, "evt_1")
	l.claim(t, webhooks.NewClaim())
	l.finish(t, webhooks.Verdict{Key: key, Outcome: webhooks.OutcomeParked, RetryIn: 1500 * time.Millisecond})
	const wait = `SELECT extract(epoch FROM next_attempt_at - now()) > 0.1 AND extract(epoch FROM next_attempt_at - now()) <= 1.5 FROM webhook_deliveries`
	if !query[bool](t, l, wait) {
		t.Error("it is not due after 1.5 s")
	}
	claimed, _ := l.claim(t, webhooks.NewClaim())
	want(t, "claimed before its time", claimed)
}

// A verdict is part of the transaction that made it true.
func TestFinish_RollsBackWithItsTransaction(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	key := l.record(t, "evt_1")
	l.claim(t, webhooks.NewClaim())
	errStop := errors.New("stop")
	err := l.db.Gorm.Transaction(func(tx *gorm.DB) error {
		must(t, l.inbox.Finish(t.Context(), tx, webhooks.Verdict{Key: key, Outcome: webhooks.OutcomeForeign, Resources: []string{"pi_1"}}))
		return errStop
	})
	if !errors.Is(err, errStop) {
		t.Fatal(err)
	}
	l.wantRow(t, key, "new open 1 claimed")
}

// A failed attempt is counted and tried later; the last one ends the row. The others go on.
func TestFail_RetriesThenDead(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	poison, good := l.record(t, "evt_poison"), l.record(t, "evt_good")
	for attempt := 1; attempt <= maxAttempts; attempt++ {
		token := webhooks.NewClaim()
		claimed, _ := l.claim(t, token)
		if attempt == 1 {
			want(t, "claimed", claimed, "evt_good", "evt_poison")
			l.finish(t, webhooks.Verdict{Key: good, Outcome: webhooks.OutcomeApplied})
		} else {
			want(t, fmt.Sprintf("claimed, attempt %d", attempt), claimed, "evt_poison")
		}
		dead, err := l.inbox.Fail(t.Context(), token, poison, errors.New("bad \x00 luck \xff"), maxAttempts, time.Hour)
		must(t, err)
		if wantDead := attempt == maxAttempts; dead != wantDead {
			t.Errorf("attempt %d: dead is %v", attempt, dead)
		}
		if !query[bool](t, l, `SELECT next_attempt_at > now() + interval '59 minutes' FROM webhook_deliveries WHERE event_id = 'evt_poison'`) {
			t.Errorf("attempt %d: due before its time", attempt)
		}
		if attempt < maxAttempts {
			l.wantRow(t, poison, fmt.Sprintf("new open %d free bad \uFFFD luck \uFFFD", attempt))
			l.exec(t, `UPDATE webhook_deliveries SET next_attempt_at = now() WHERE event_id = 'evt_poison'`)
		}
	}
	l.wantRow(t, poison, "dead ended 3 free bad \uFFFD luck \uFFFD")
	l.wantRow(t, good, "applied ended 1 free")
	claimed, died := l.claim(t, webhooks.NewClaim())
	want(t, "claimed when dead", append(claimed, died...))
}

// A graceful stop costs no attempt, and brings nothing forward that was to wait.
func TestGiveBack_ReturnsTheAttempt(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	one, two, other := l.record(t, "evt_1"), l.record(t, "evt_2"), l.record(t, "evt_3")
	token := webhooks.NewClaim()
	l.claim(t, token)
	l.exec(t, `UPDATE webhook_deliveries SET claim = gen_random_uuid() WHERE event_id = 'evt_3'`)
	l.exec(t, `UPDATE webhook_deliveries SET next_attempt_at = now() + interval '1 hour' WHERE event_id = 'evt_2'`)
	must(t, l.inbox.GiveBack(t.Context(), token, []webhooks.Key{one, two, other}, 0))
	l.wantRow(t, one, "new open 0 free")
	l.wantRow(t, two, "new open 0 free")
	l.wantRow(t, other, "new open 1 claimed")
	claimed, _ := l.claim(t, webhooks.NewClaim())
	want(t, "claimed again", claimed, "evt_1")
}

func TestNextDue(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	for _, c := range []struct{ name, change, want string }{
		{"nothing at all", `SELECT 1`, "none"},
		{"due now", `INSERT`, "0s"},
		{"due earlier", `UPDATE webhook_deliveries SET next_attempt_at = now() - interval '1 hour'`, "0s"},
		{"due later", `UPDATE webhook_deliveries SET next_attempt_at = now() + interval '1 hour'`, "1h0m0s"},
		{"under a lease", `UPDATE webhook_deliveries SET next_attempt_at = now(), claim = gen_random_uuid(), claim_until = now() + interval '1 minute'`, "none"},
		{"under a lapsed lease", `UPDATE webhook_deliveries SET claim_until = now() - interval '1 s'`, "none"}, // the poll's to find
		{"ended", `UPDATE webhook_deliveries SET processed_at = now(), outcome = 'applied', claim = NULL, claim_until = NULL`, "none"},
	} {
		if strings.HasPrefix(c.change, "INSERT") {
			l.record(t, "evt_1")
		} else {
			l.exec(t, c.change)
		}
		wait, ok, err := l.inbox.NextDue(t.Context())
		must(t, err)
		got := "none"
		if ok {
			got = (wait + 20*time.Second).Truncate(30 * time.Second).String() // the clock went on since the change
		}
		if got != c.want {
			t.Errorf("%s: got %s (%s), want %s", c.name, got, wait, c.want)
		}
	}
}
