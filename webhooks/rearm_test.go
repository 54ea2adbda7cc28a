package webhooks_test

import (
	"context"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"paidonce/webhooks"
)

// trickle is a body that comes in pieces of a few bytes.
type trickle struct{ rest []byte }

func (b *trickle) Read(p []byte) (int, error) {
	if len(b.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), 7)], b.rest)
	b.rest = b.rest[n:]
	return n, nil
}

func (b *trickle) Close() error { return nil }

// I2: fifty at once, from two processes: one is accepted, and there is one row.
func TestRecord_FiftyAtOnce(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	other := openLedger(t, l.dsn, 8)
	const n = 50
	start := make(chan struct{})
	got, errs := make([]webhooks.Recorded, n), make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		inbox := l.inbox
		if i%2 == 1 {
			inbox = other.inbox
		}
		wg.Go(func() {
			<-start
			got[i], errs[i] = inbox.Record(t.Context(), envelope("evt_1"), webhooks.SourceWebhook, []byte(`{}`))
		})
	}
	close(start)
	wg.Wait()
	accepted := 0
	for i := range n {
		must(t, errs[i])
		if got[i] == webhooks.Accepted {
			accepted++
		}
	}
	if rows := query[int](t, l, `SELECT count(*) FROM webhook_deliveries`); accepted != 1 || rows != 1 {
		t.Errorf("%d accepted and %d rows, want one of each", accepted, rows)
	}
}

// A redelivery of a row that a drainer holds, open or about to end, waits for nobody.
func TestRecord_WaitsForNobody(t *testing.T) {
	t.Parallel()
	for name, hold := range map[string]string{
		"Open":           `SELECT 1 FROM webhook_deliveries FOR UPDATE`,
		"Ending":         `UPDATE webhook_deliveries SET processed_at = now(), outcome = 'applied'`,
		"Dying":          `UPDATE webhook_deliveries SET processed_at = now(), outcome = 'dead'`,
		"Being released": `UPDATE webhook_deliveries SET next_attempt_at = now()`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLedger(t)
			l.record(t, "evt_1")
			tx, err := l.connect(t).Begin(t.Context())
			must(t, err)
			_, err = tx.Exec(t.Context(), hold)
			must(t, err)

			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second) // below lock_timeout: waiting would fail here
			defer cancel()
			got, err := l.inbox.Record(ctx, envelope("evt_1"), webhooks.SourceWebhook, []byte(`{}`))
			if err != nil || got != webhooks.Duplicate {
				t.Errorf("got %s, %v; want duplicate at once", got, err)
			}
			must(t, tx.Rollback(t.Context()))
		})
	}
}

// A redelivery opens what had been given up, and nothing else. It is announced like a new event;
// a plain duplicate is not.
func TestRecord_ReopensWhatWasGivenUp(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		outcome string
		opens   bool
	}{
		{"dead", true},
		{"foreign", true},
		{"applied", false},
		{"already", false},
		{"stale", false},
		{"read", false},
		{"ignored", false},
		{"unsupported", false},
		{"held", false},
	} {
		t.Run(c.outcome, func(t *testing.T) {
			t.Parallel()
			l := newLedger(t)
			l.record(t, "evt_1")
			l.record(t, "evt_bystander")
			l.exec(t, `UPDATE webhook_deliveries SET processed_at = now(), outcome = $1, detail = 'unmatched', attempts = 10,
				opened_at = now() - interval '1 day', next_attempt_at = now() - interval '1 day'`, c.outcome)
			ears := listen(t, l)
			before := query[string](t, l, `SELECT string_agg(d::text, ',' ORDER BY event_id) FROM webhook_deliveries d`)

			got, err := l.inbox.Record(t.Context(), envelope("evt_1"), webhooks.SourceWebhook, []byte(`{"not":"kept"}`))
			if err != nil || got != webhooks.Duplicate {
				t.Errorf("got %s, %v; want duplicate", got, err)
			}
			const open = `SELECT count(*) FILTER (WHERE processed_at IS NULL AND outcome IS NULL AND detail IS NULL AND attempts = 0
				AND opened_at > now() - interval '1 hour' AND next_attempt_at BETWEEN now() - interval '1 hour' AND now() AND body = '{}') FROM webhook_deliveries`
			want := 0
			if c.opens {
				want = 1
			}
			if got := query[int](t, l, open); got != want {
				t.Errorf("%d rows open and due, want %d", got, want)
			}
			if after := query[string](t, l, `SELECT string_agg(d::text, ',' ORDER BY event_id) FROM webhook_deliveries d`); !c.opens && after != before {
				t.Errorf("changed\nfrom %s\nto   %s", before, after)
			}
			if got := announcements(t, l, ears); got != want {
				t.Errorf("%d announcements, want %d", got, want)
			}
		})
	}
}

// A parked row is open: a redelivery neither resets its wait nor announces it.
func TestRecord_LeavesAParkedRowAlone(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	l.record(t, "evt_1")
	l.exec(t, `UPDATE webhook_deliveries SET outcome = 'parked', attempts = 3, next_attempt_at = now() + interval '1 hour'`)
	before := query[string](t, l, `SELECT d::text FROM webhook_deliveries d`)
	if got, err := l.inbox.Record(t.Context(), envelope("evt_1"), webhooks.SourceWebhook, []byte(`{}`)); err != nil || got != webhooks.Duplicate {
		t.Errorf("got %s, %v; want duplicate", got, err)
	}
	if after := query[string](t, l, `SELECT d::text FROM webhook_deliveries d`); after != before {
		t.Errorf("changed\nfrom %s\nto   %s", before, after)
	}
}

// Many redeliveries of a dead row at once open it once.
func TestRecord_ReopensOnce(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	l.record(t, "evt_1")
	l.exec(t, `UPDATE webhook_deliveries SET processed_at = now(), outcome = 'dead', attempts = 10`)
	ears := listen(t, l)
	start := make(chan struct{})
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			<-start
			if got, err := l.inbox.Record(t.Context(), envelope("evt_1"), webhooks.SourceWebhook, []byte(`{}`)); err != nil || got != webhooks.Duplicate {
				t.Errorf("got %s, %v; want duplicate", got, err)
			}
		})
	}
	close(start)
	wg.Wait()
	if got := announcements(t, l, ears); got != 1 {
		t.Errorf("%d announcements, want one", got)
	}
}

// A new event is announced, once it can be seen, to whoever listens.
func TestRecord_AnnouncesANewEvent(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	ears := listen(t, l)
	l.record(t, "evt_1")
	if got := announcements(t, l, ears); got != 1 {
		t.Errorf("%d announcements, want one", got)
	}
}

// announcements counts what a listener heard so far. Notifications come in the order of commits,
// so a marker that is sent now comes after all of them.
func announcements(tb testing.TB, l ledger, ears *pgx.Conn) int {
	tb.Helper()
	l.exec(tb, `SELECT pg_notify($1, 'end')`, webhooks.Channel)
	ctx, cancel := context.WithTimeout(tb.Context(), 20*time.Second)
	defer cancel()
	for heard := 0; ; heard++ {
		n, err := ears.WaitForNotification(ctx)
		must(tb, err)
		if n.Payload == "end" {
			return heard
		}
	}
}
