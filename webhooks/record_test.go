package webhooks_test

import (
	"bytes"
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"paidonce/webhooks"
)

func TestRecord_KeepsTheEnvelopeAndTheBytes(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	received := time.Date(2025, 3, 1, 12, 0, 0, 123456000, time.UTC)
	l.inbox.Now = func() time.Time { return received }
	e := webhooks.Envelope{
		Provider: "stripe", EventID: "evt_1", EventType: "charge.succeeded", ResourceID: "ch_1", Livemode: true, Account: "acct_1",
		APIVersion: "2018-08-23; " + strings.Repeat("beta=v1; ", 100), OccurredAt: signedAt(),
	}
	body := []byte("{\"x\":\"\xff\\u0000\\/\",\r\n\t\"y\":1}\x00\n\n")
	got, err := l.inbox.Record(t.Context(), e, webhooks.SourceReconcile, body)
	must(t, err)
	if got != webhooks.Accepted {
		t.Errorf("got %s, want accepted", got)
	}

	var stored webhooks.Envelope
	var source webhooks.Source
	var at time.Time
	var bytes []byte
	const read = `SELECT provider, event_id, event_type, resource_id, livemode, account, api_version, occurred_at, source, received_at, body FROM webhook_deliveries`
	must(t, l.db.Pool.QueryRow(t.Context(), read).Scan(&stored.Provider, &stored.EventID, &stored.EventType, &stored.ResourceID, &stored.Livemode,
		&stored.Account, &stored.APIVersion, &stored.OccurredAt, &source, &at, &bytes))
	stored.OccurredAt = stored.OccurredAt.UTC()
	if diff := cmp.Diff(e, stored); diff != "" {
		t.Errorf("envelope (-want +got)\n%s", diff)
	}
	if source != webhooks.SourceReconcile || !at.Equal(received) || string(bytes) != string(body) {
		t.Errorf("source %s, received %s, body %q", source, at, bytes)
	}
	if !query[bool](t, l, `SELECT processed_at IS NULL AND outcome IS NULL AND claim IS NULL AND attempts = 0 AND next_attempt_at <= now() FROM webhook_deliveries`) {
		t.Error("the row is not open and due")
	}
}

// An event that does not say when it happened has no time, rather than a wrong one.
func TestRecord_NoTimeIsNull(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	l.record(t, "evt_1")
	if !query[bool](t, l, `SELECT occurred_at IS NULL FROM webhook_deliveries`) {
		t.Error("occurred_at is set")
	}
}

// I2: a repeat changes nothing, whatever its body is; bodies are never compared. The same id of
// another provider is another event.
func TestRecord_ARepeatIsADuplicate(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	l.record(t, "evt_1")
	before := query[string](t, l, `SELECT d::text FROM webhook_deliveries d`)
	other := envelope("evt_1")
	other.EventType, other.ResourceID = "charge.updated", "ch_2"
	for _, e := range []webhooks.Envelope{envelope("evt_1"), other} {
		got, err := l.inbox.Record(t.Context(), e, webhooks.SourceReturn, []byte(`{"another":"body"}`))
		if err != nil || got != webhooks.Duplicate {
			t.Errorf("got %s, %v; want duplicate", got, err)
		}
	}
	if after := query[string](t, l, `SELECT d::text FROM webhook_deliveries d`); after != before {
		t.Errorf("a repeat changed the row\nfrom %s\nto   %s", before, after)
	}
	other.Provider = "paymos"
	if got, err := l.inbox.Record(t.Context(), other, webhooks.SourceWebhook, []byte(`{}`)); err != nil || got != webhooks.Accepted {
		t.Errorf("another provider's event: got %s, %v; want accepted", got, err)
	}
}

// Record is one statement and begins no transaction: there is no moment at which half of it is done.
func TestRecord_IsOneStatement(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	seen := &statements{Interface: logger.Discard}
	l.inbox.DB = l.inbox.DB.Session(&gorm.Session{Logger: seen})
	l.record(t, "evt_1")
	if len(seen.sql) != 1 {
		t.Errorf("%d statements, want one: %q", len(seen.sql), seen.sql)
	}
}

// statements collects what gorm sends to the database.
type statements struct {
	logger.Interface
	mu  sync.Mutex
	sql []string
}

func (s *statements) Trace(_ context.Context, _ time.Time, say func() (string, int64), _ error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sql, _ := say()
	s.sql = append(s.sql, sql)
}

// A sender that hangs up while the statement runs has stored nothing.
func TestRecord_CanceledBeforeTheCommitStoresNothing(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	holder := l.connect(t)
	tx, err := holder.Begin(t.Context())
	must(t, err)
	_, err = tx.Exec(t.Context(), `LOCK TABLE webhook_deliveries IN SHARE MODE`) // no writer gets in
	must(t, err)

	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := l.inbox.Record(ctx, envelope("evt_1"), webhooks.SourceWebhook, []byte(`{}`))
		done <- err
	}()
	waitForBlocked(t, l, 1)
	cancel()
	if err := <-done; err == nil {
		t.Error("recorded, though its sender had gone")
	}
	waitForBlocked(t, l, 0) // the statement itself was ended, before the lock was free
	must(t, tx.Rollback(t.Context()))
	if got := query[int](t, l, `SELECT count(*) FROM webhook_deliveries`); got != 0 {
		t.Errorf("%d rows, want none", got)
	}
	l.record(t, "evt_1") // and the redelivery is a new event
}

// waitForBlocked waits until so many of the database's sessions wait for a lock.
func waitForBlocked(tb testing.TB, l ledger, want int) {
	tb.Helper()
	until(tb, "sessions waiting for a lock", func() bool {
		const blocked = `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' AND state = 'active'`
		return query[int](tb, l, blocked) == want
	})
}

// B01: what was signed is what is verified and what is kept, through the product's own server and
// middleware, and whichever way the body travels.
func TestB01_RawBodyIsVerifiedAndKept(t *testing.T) {
	t.Parallel()
	pretty := "{\n  \"id\": \"evt_%\",\n  \"object\": \"event\",\n  \"type\": \"charge.succeeded\",\n" +
		"  \"data\": {\n    \"object\": {\n      \"id\": \"ch_1\",\n      \"description\": \"\\u001B \\u001b \\/ 🎁 \\u00e9 é \\u0000\"\n    }\n  }\n}\n\n"
	for name, text := range map[string]string{
		"pretty": pretty,
		"crlf":   strings.ReplaceAll(pretty, "\n", "\r\n"),
		"nul":    `{"id":"evt_%","type":"x","a":"\u0000"}`,
		"utf8":   "{\"id\":\"evt_%\",\"type\":\"x\",\"a\":\"\xc3\x28\xff\xfe\"}",
		"dense":  `{"id":"evt_%","type":"x","n":9007199254740993,"f":1.0,"e":1E2,"dup":1,"dup":2}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLedger(t)
			door := newDoor(t, l.inbox)
			body := []byte(strings.Replace(text, "%", name, 1))

			// (b) One byte changed after signing: refused, nothing stored.
			signature := sign(body, secret, signedAt())
			for _, changed := range [][]byte{
				body[:len(body)-1], append(bytes.Clone(body), '\n'), append([]byte("\xef\xbb\xbf"), body...),
				bytes.ReplaceAll(body, []byte(":"), []byte(": ")), bytes.Replace(body, []byte("evt_"), []byte("eVt_"), 1),
			} {
				got := send(t, newRequest(t, door.URL, bytes.NewReader(changed), signature))
				if got.Status != 403 || got.field(t, "code") != "BAD_SIGNATURE" {
					t.Errorf("changed body: got %d %s", got.Status, got.Body)
				}
			}
			if got := query[int](t, l, `SELECT count(*) FROM webhook_deliveries`); got != 0 {
				t.Errorf("%d rows of refused bodies", got)
			}

			// (c) chunked, without a length; then (a) with one.
			chunked := newRequest(t, door.URL, bytes.NewReader(body), signature)
			chunked.Body, chunked.ContentLength = &trickle{rest: body}, -1
			if got := send(t, chunked); got.Status != 200 || got.field(t, "status") != "accepted" {
				t.Errorf("chunked: got %d %s", got.Status, got.Body)
			}
			if got := query[[]byte](t, l, `SELECT body FROM webhook_deliveries`); !bytes.Equal(got, body) {
				t.Errorf("kept %q, want %q", got, body)
			}
			if got := post(t, door.URL, body); got.Status != 200 || got.field(t, "status") != "duplicate" {
				t.Errorf("with a length: got %d %s", got.Status, got.Body)
			}
		})
	}
}

// listen opens a session that hears of new work.
func listen(tb testing.TB, l ledger) *pgx.Conn {
	tb.Helper()
	conn := l.connect(tb)
	_, err := conn.Exec(tb.Context(), `LISTEN `+webhooks.Channel)
	must(tb, err)
	return conn
}
