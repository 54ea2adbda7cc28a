package webhooks_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"paidonce/webhooks"
)

// entry is a delivery as a test wants it.
type entry struct {
	id, kind, provider, outcome string // outcome "": open
	age                         time.Duration
}

// enter stores deliveries, the defaults being those of an applied charge of Stripe's.
func (l ledger) enter(tb testing.TB, entries ...entry) {
	tb.Helper()
	for _, e := range entries {
		if e.kind == "" {
			e.kind = "charge.succeeded"
		}
		if e.provider == "" {
			e.provider = "stripe"
		}
		l.exec(tb, `
INSERT INTO webhook_deliveries (provider, event_id, event_type, resource_id, livemode, account, api_version, received_at, source, body,
    opened_at, next_attempt_at, attempts, last_error, outcome, processed_at)
VALUES ($1, $2, $3, 'ch_1', false, '', '', now() - make_interval(secs => $4), 'webhook', '{}', now(), now(), 3, 'broken', nullif($5, ''),
    CASE WHEN $5 IN ('', 'parked') THEN NULL ELSE now() END)`, e.provider, e.id, e.kind, e.age.Seconds(), e.outcome)
	}
}

// listed are the ids that a filter chooses, in the order of the list.
func (l ledger) listed(tb testing.TB, f webhooks.Filter) []string {
	tb.Helper()
	entries, _, err := l.inbox.List(tb.Context(), f)
	must(tb, err)
	ids := []string{}
	for _, e := range entries {
		ids = append(ids, e.EventID)
	}
	return ids
}

func TestList_Filters(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	l.enter(t,
		entry{id: "evt_new", age: time.Second},
		entry{id: "evt_parked", outcome: "parked", age: time.Minute},
		entry{id: "evt_dead", outcome: "dead", age: 2 * time.Minute, kind: "charge.refunded"},
		entry{id: "evt_foreign", outcome: "foreign", age: 3 * time.Minute, kind: "100%_sure"},
		entry{id: "evt_other", outcome: "dead", age: 4 * time.Minute, provider: "paymos", kind: "100 percent, sure"},
		entry{id: "evt_old", outcome: "applied", age: 48 * time.Hour, kind: "payment_intent.succeeded"},
	)
	now := time.Now()
	for name, test := range map[string]struct {
		filter webhooks.Filter
		want   string
	}{
		"all, the newest first":  {webhooks.Filter{}, "new parked dead foreign other old"},
		"one outcome":            {webhooks.Filter{Outcomes: []webhooks.Outcome{"dead"}}, "dead other"},
		"two outcomes":           {webhooks.Filter{Outcomes: []webhooks.Outcome{"dead", "foreign"}}, "dead foreign other"},
		"open, parked included":  {webhooks.Filter{Open: true}, "new parked"},
		"open, or of an outcome": {webhooks.Filter{Open: true, Outcomes: []webhooks.Outcome{"applied"}}, "new parked old"},
		"a type":                 {webhooks.Filter{Type: "charge.refunded"}, "dead"},
		"a glob":                 {webhooks.Filter{Type: "charge.*"}, "new parked dead"},
		"a glob in the middle":   {webhooks.Filter{Type: "p*.succ?eded"}, "old"},
		"signs of LIKE are text": {webhooks.Filter{Type: "100%_*"}, "foreign"},
		"a provider":             {webhooks.Filter{Provider: "paymos"}, "other"},
		"since":                  {webhooks.Filter{Since: now.Add(-150 * time.Second)}, "new parked dead"},
		"until":                  {webhooks.Filter{Until: now.Add(-150 * time.Second)}, "foreign other old"},
		"keys":                   {webhooks.Filter{Keys: []webhooks.Key{{Provider: "stripe", EventID: "evt_old"}, {Provider: "stripe", EventID: "evt_other"}}}, "old"},
		"several at once":        {webhooks.Filter{Outcomes: []webhooks.Outcome{"dead"}, Provider: "stripe", Type: "*"}, "dead"},
		"nothing":                {webhooks.Filter{Type: "none"}, ""},
	} {
		got := strings.ReplaceAll(strings.Join(l.listed(t, test.filter), " "), "evt_", "")
		if got != test.want {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
}

// Pages hold every delivery once, also where many came in one moment, and each page tells how
// many there are in all.
func TestList_Pages(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	for n := range 25 {
		l.enter(t, entry{id: fmt.Sprintf("evt_%02d", n)})
	}
	l.exec(t, `UPDATE webhook_deliveries SET received_at = date_trunc('hour', now())`)
	var seen []string
	f := webhooks.Filter{Limit: 7}
	for range 5 {
		entries, total, err := l.inbox.List(t.Context(), f)
		must(t, err)
		if total != 25 {
			t.Errorf("after %d: total %d, want 25", len(seen), total)
		}
		for _, e := range entries {
			seen = append(seen, e.EventID)
		}
		if len(entries) == 0 {
			break
		}
		last := entries[len(entries)-1].Key()
		f.Before = &last
	}
	want := []string{}
	for n := 24; n >= 0; n-- {
		want = append(want, fmt.Sprintf("evt_%02d", n))
	}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Errorf("pages differ (-want +got)\n%s", diff)
	}
}

func TestFind(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	l.enter(t, entry{id: "evt_1"}, entry{id: "both"}, entry{id: "both", provider: "standard:shop"}, entry{id: "a/b", provider: "standard:shop"})
	for name, want := range map[string]string{
		"evt_1":              "stripe/evt_1",
		"stripe/evt_1":       "stripe/evt_1",
		"standard:shop/both": "standard:shop/both",
		"a/b":                "standard:shop/a/b",
		"paymos/evt_1":       "",
		"b":                  "",
		"":                   "",
	} {
		keys, err := l.inbox.Find(t.Context(), name)
		got := ""
		if len(keys) == 1 {
			got = keys[0].String()
		}
		if got != want || (want == "") != errors.Is(err, webhooks.ErrNoDelivery) {
			t.Errorf("%q: got %q, %v; want %q", name, got, err, want)
		}
	}
	if _, err := l.inbox.Find(t.Context(), "both"); err == nil || !strings.Contains(err.Error(), "stripe/both") || errors.Is(err, webhooks.ErrNoDelivery) {
		t.Errorf("an id of two providers: %v, want both named", err)
	}
	if _, err := l.inbox.Find(t.Context(), "no_1", "evt_1", "no_2"); err == nil || !strings.Contains(err.Error(), "no_1") || !strings.Contains(err.Error(), "no_2") {
		t.Errorf("two unknown ones: %v, want both named", err)
	}
}

// One delivery of every outcome, and one that is open: those that were given up or had no use
// are opened, once, and nothing else is touched.
func TestReopen_OnlyWhatHadNoEffect(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	l.enter(t, entry{id: "open"})
	for _, o := range webhooks.Outcomes() {
		l.enter(t, entry{id: string(o), outcome: string(o)})
	}
	untouched := func() string {
		return query[string](t, l, `SELECT coalesce(string_agg(d::text, E'\n' ORDER BY event_id), '') FROM webhook_deliveries d
			WHERE event_id NOT IN ('dead', 'foreign', 'unsupported', 'ignored')`)
	}
	before := untouched()
	want := []string{"dead", "foreign", "ignored", "unsupported"}
	for _, dryRun := range []bool{true, false} {
		reopened, err := l.inbox.Reopen(t.Context(), webhooks.Filter{}, 0, dryRun)
		must(t, err)
		var got []string
		for _, r := range reopened {
			got = append(got, r.EventID)
			if string(r.Was) != r.EventID {
				t.Errorf("%s was %s", r.EventID, r.Was)
			}
		}
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("dry run %v: differs (-want +got)\n%s", dryRun, diff)
		}
		open := query[int](t, l, `SELECT count(*) FROM webhook_deliveries
			WHERE processed_at IS NULL AND outcome IS NULL AND attempts = 0 AND next_attempt_at <= now() AND last_error = 'broken'`)
		if wantOpen := map[bool]int{true: 0, false: 4}[dryRun]; open != wantOpen {
			t.Errorf("dry run %v: %d are open with all their attempts, want %d", dryRun, open, wantOpen)
		}
	}
	again, err := l.inbox.Reopen(t.Context(), webhooks.Filter{}, 0, false)
	must(t, err)
	if len(again) != 0 {
		t.Errorf("the second time opens %+v, want nothing", again)
	}
	if diff := cmp.Diff(before, untouched()); diff != "" {
		t.Errorf("others were touched (-before +after)\n%s", diff)
	}
}

// A thousand that come back do not come at once: each is due after the one before, the oldest
// first, and drainers are told.
func TestReopen_StaggersAndTells(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	for n := range 1000 {
		l.enter(t, entry{id: fmt.Sprintf("evt_%03d", n), outcome: "dead", age: time.Hour - time.Duration(n)*time.Second})
	}
	conn := l.connect(t)
	_, err := conn.Exec(t.Context(), "LISTEN "+webhooks.Channel)
	must(t, err)

	reopened, err := l.inbox.Reopen(t.Context(), webhooks.Filter{Outcomes: []webhooks.Outcome{"dead"}}, 2*time.Second, false)
	must(t, err)
	if len(reopened) != 1000 {
		t.Fatalf("opened %d, want 1000", len(reopened))
	}
	for n, r := range reopened {
		if after := r.DueAt.Sub(reopened[0].DueAt); r.EventID != fmt.Sprintf("evt_%03d", n) || after != time.Duration(n)*2*time.Second {
			t.Fatalf("number %d: %s is due after %s", n, r.EventID, after)
		}
	}
	claimed, _, err := l.inbox.Claim(t.Context(), webhooks.NewClaim(), 1000, 10, time.Minute)
	must(t, err)
	if len(claimed) == 0 || len(claimed) > 30 {
		t.Errorf("%d are due at once, want the first few", len(claimed))
	}
	note, err := conn.WaitForNotification(t.Context())
	must(t, err)
	if note.Channel != webhooks.Channel {
		t.Errorf("got %+v", note)
	}
}

func TestReopen_Limit(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	for n := range 5 {
		l.enter(t, entry{id: fmt.Sprint(n), outcome: "dead", age: time.Duration(5-n) * time.Minute})
	}
	reopened, err := l.inbox.Reopen(t.Context(), webhooks.Filter{Limit: 2}, 0, false)
	must(t, err)
	if len(reopened) != 2 || reopened[0].EventID != "0" || reopened[1].EventID != "1" {
		t.Errorf("got %+v, want the two oldest", reopened)
	}
}

// B04: what is in our own store was verified when it came. Opening it again asks for no
// signature, however old it is.
func TestB04AReopenedDeliveryIsNotVerifiedAgain(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	l.enter(t, entry{id: "evt_1", outcome: "dead", age: 400 * 24 * time.Hour})
	reopened, err := l.inbox.Reopen(t.Context(), webhooks.Filter{Keys: []webhooks.Key{{Provider: "stripe", EventID: "evt_1"}}}, 0, false)
	must(t, err)
	claimed, _, err := l.inbox.Claim(t.Context(), webhooks.NewClaim(), 10, 10, time.Minute)
	must(t, err)
	if len(reopened) != 1 || len(claimed) != 1 || claimed[0].Attempts != 1 {
		t.Errorf("opened %+v, claimed %+v; want the one, on its first attempt", reopened, claimed)
	}
}

// Two people retry the same at one moment: each delivery is opened by one of them.
func TestReopen_AtOneMoment(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	other := openLedger(t, l.dsn, 4)
	for n := range 50 {
		l.enter(t, entry{id: fmt.Sprint(n), outcome: "dead"})
	}
	start, done := make(chan struct{}), make(chan int, 4)
	for n := range 4 {
		inbox := []*webhooks.Inbox{l.inbox, other.inbox}[n%2]
		go func() {
			<-start
			reopened, err := inbox.Reopen(t.Context(), webhooks.Filter{}, 0, false)
			if err != nil {
				t.Error(err)
			}
			done <- len(reopened)
		}()
	}
	close(start)
	sum := 0
	for range 4 {
		sum += <-done
	}
	if sum != 50 {
		t.Errorf("opened %d in all, want each of the 50 once", sum)
	}
}

func TestShow(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	l.enter(t, entry{id: "evt_1", outcome: "dead"})
	l.exec(t, `INSERT INTO delivery_resources VALUES ('stripe', 'pi_1', 'evt_1'), ('stripe', 'ch_1', 'evt_1')`)
	l.exec(t, `UPDATE webhook_deliveries SET body = '\x7b7dff'`)
	shown, err := l.inbox.Show(t.Context(), webhooks.Key{Provider: "stripe", EventID: "evt_1"}, func(body []byte) []string { return []string{"cs_1", "pi_1"} })
	must(t, err)
	if diff := cmp.Diff([]string{"ch_1", "cs_1", "pi_1"}, shown.Resources); diff != "" || string(shown.Body) != "{}\xff" || shown.EventType != "charge.succeeded" {
		t.Errorf("got %+v\n%s", shown, diff)
	}
	_, err = l.inbox.Show(t.Context(), webhooks.Key{Provider: "stripe", EventID: "evt_2"}, func([]byte) []string { return nil })
	if !errors.Is(err, webhooks.ErrNoDelivery) {
		t.Errorf("an unknown one: %v", err)
	}
}
