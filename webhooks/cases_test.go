package webhooks_test

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

// The cases of public reports, at the door: what the sender hears, and what is in the ledger.

// B02: during a rotation any signature of any active secret will do, whatever the order.
func TestB02_RotationNeverDropsADelivery(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	const older, newer = "whsec_old", "whsec_new"
	n := 0
	for held, secrets := range map[string][]string{"old": {older}, "new": {newer}, "both": {older, newer}, "both, reversed": {newer, older}, "neither": {"whsec_x"}} {
		door := newDoor(t, l.inbox, secrets...)
		for _, form := range []string{"T,v1=OLD,v1=NEW", "T,v1=NEW,v1=OLD", "T,v1=OLD,v1=NEW,v0=OLD", "T,v1=abc,v1=NEW,v1=zz,v1=OLD", "T,v0=OLD,v0=NEW", "T,v0=OLD"} {
			n++
			body := event(fmt.Sprintf("evt_%d", n), "charge.succeeded", `{"id":"ch_1"}`)
			stamp, old, _ := strings.Cut(sign(body, older, signedAt()), ",v1=")
			_, young, _ := strings.Cut(sign(body, newer, signedAt()), ",v1=")
			header := strings.NewReplacer("T", stamp, "OLD", old, "NEW", young).Replace(form)
			got := send(t, newRequest(t, door.URL, bytes.NewReader(body), header))
			want := 200
			if held == "neither" || !strings.Contains(form, "v1") {
				want = 403
			}
			if got.Status != want {
				t.Errorf("holds %s, header %s: got %d, want %d", held, form, got.Status, want)
			}
			if rows := query[int](t, l, `SELECT count(*) FROM webhook_deliveries WHERE event_id = $1`, fmt.Sprintf("evt_%d", n)); (rows == 1) != (want == 200) {
				t.Errorf("holds %s, header %s: %d rows", held, form, rows)
			}
		}
	}
}

// B04: the time counts on both sides.
func TestB04_TheToleranceIsTwoSided(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	door := newDoor(t, l.inbox)
	for skew, want := range map[time.Duration]int{
		-301 * time.Second: 403, -300 * time.Second: 200, -299 * time.Second: 200, 299 * time.Second: 200, 300 * time.Second: 200, 301 * time.Second: 403,
		365 * 24 * time.Hour: 403, -365 * 24 * time.Hour: 403,
	} {
		id := fmt.Sprintf("evt_%d", skew)
		body := event(id, "charge.succeeded", `{"id":"ch_1"}`)
		got := send(t, newRequest(t, door.URL, bytes.NewReader(body), sign(body, secret, signedAt().Add(skew))))
		if got.Status != want {
			t.Errorf("signed %s from now: got %d %s, want %d", skew, got.Status, got.Body, want)
		}
		if rows := query[int](t, l, `SELECT count(*) FROM webhook_deliveries WHERE event_id = $1`, id); (rows == 1) != (want == 200) {
			t.Errorf("signed %s from now: %d rows", skew, rows)
		}
	}
	for _, stamp := range []string{"", "t=-1700000000,", "t=12345678901234567890,", "t=+1700000000,", "t=x,"} {
		body := event("evt_1", "charge.succeeded", `{"id":"ch_1"}`)
		_, v1, _ := strings.Cut(sign(body, secret, signedAt()), ",")
		if got := send(t, newRequest(t, door.URL, bytes.NewReader(body), stamp+v1)); got.Status != 403 {
			t.Errorf("time %q: got %d", stamp, got.Status)
		}
	}
}

// B05: a genuine event of whatever version is stored, and its version with it.
func TestB05_AnyVersionIsStored(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	door := newDoor(t, l.inbox)
	for i, c := range []struct{ version, more, want string }{
		{`"2024-06-20"`, ``, "2024-06-20"},
		{`"2023-10-16"`, ``, "2023-10-16"},
		{`"2024-09-30.acacia"`, ``, "2024-09-30.acacia"},
		{`"2018-08-23; orders_beta=v3"`, ``, "2018-08-23; orders_beta=v3"},
		{`null`, ``, ""},
		{`"2015-10-16"`, `,"request":"req_1"`, "2015-10-16"},
	} {
		id := fmt.Sprintf("evt_%d", i)
		body := fmt.Appendf(nil, `{"id":%q,"object":"event","type":"checkout.session.completed","api_version":%s%s,"data":{"object":{"id":"cs_1"}}}`, id, c.version, c.more)
		if got := post(t, door.URL, body); got.Status != 200 || got.field(t, "status") != "accepted" {
			t.Errorf("version %s: got %d %s", c.version, got.Status, got.Body)
		}
		if got := query[string](t, l, `SELECT api_version FROM webhook_deliveries WHERE event_id = $1 AND outcome IS NULL`, id); got != c.want {
			t.Errorf("version %s: stored as %q", c.version, got)
		}
	}
}

// B06 at the door: a thin event is stored and answered, not refused for days.
func TestB06_ThinEventIsStored(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	door := newDoor(t, l.inbox)
	for i, rest := range []string{
		`"object":"v2.core.event","created":"2025-01-01T00:00:00.000Z","related_object":{"id":"acct_1"}`, `"object":"event"`, `"data":{}`, `"data":{"object":null}`,
	} {
		body := fmt.Appendf(nil, `{"id":"evt_%d","type":"v2.core.account.updated",%s}`, i, rest)
		if got := post(t, door.URL, body); got.Status != 200 || got.field(t, "status") != "accepted" {
			t.Errorf("%s: got %d %s", body, got.Status, got.Body)
		}
	}
	if got := post(t, door.URL, []byte(`null`)); got.Status != 400 {
		t.Errorf("null: got %d", got.Status)
	}
}

// B50: no header, however odd, is a fault of ours, and none leaves a row.
func TestB50_OddHeadersAreRefusedQuietly(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	door := newDoor(t, l.inbox)
	body := event("evt_1", "charge.succeeded", `{"id":"ch_1"}`)
	good := sign(body, secret, signedAt())
	for _, lines := range [][]string{
		nil,
		{""},
		{" "},
		{"v1=abc"},
		{"t=x"},
		{"t=1700000000"},
		{"no equals sign"},
		{"="},
		{","},
		{"t=,v1="},
		{strings.Repeat("x", 64<<10)},
		{strings.Repeat("v1=ab,", 11000)},
		{good, good},
		{good, "t=1,v1=x"},
		{"", good},
		{good + "," + good},
		{"t=é,v1=é"},
		{"t=1700000000,v1=日本語"},
		{"\xff\xfe"},
		{"t=1700000000;v1=" + good},
		{"T=1700000000,V1=abc"},
	} {
		got := send(t, newRequest(t, door.URL, bytes.NewReader(body), lines...))
		wantProblem(t, fmt.Sprintf("%.60q", lines), got, 403, "BAD_SIGNATURE")
		if strings.Contains(string(got.Body), "goroutine") {
			t.Errorf("%.60q: a stack trace: %s", lines, got.Body)
		}
	}
	if got := query[int](t, l, `SELECT count(*) FROM webhook_deliveries`); got != 0 {
		t.Errorf("%d rows, want none", got)
	}
}

// B36: five hundred events of things that are not ours, then a real one: all are taken, none is slow.
func TestB36_EventsThatAreNotOursAreTaken(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	door := newDoor(t, l.inbox)
	var wg sync.WaitGroup
	for worker := range 8 {
		wg.Go(func() {
			for n := worker; n < 500; n += 8 {
				kind := []string{"checkout.session.completed", "customer.created", "charge.succeeded", "a.kind.of.the.future"}[n%4]
				object := []string{`{"id":"cs_x"}`, `{"id":"cus_x","metadata":{}}`, `{"id":"ch_x","metadata":{"order":"shop-7"}}`, `{}`}[n/4%4]
				body := event(fmt.Sprintf("evt_%d", n), kind, object)
				got, err := try(newRequest(t, door.URL, bytes.NewReader(body), sign(body, secret, signedAt())))
				if err != nil || got.Status != 200 {
					t.Errorf("event %d: got %d %s, %v", n, got.Status, got.Body, err)
				}
			}
		})
	}
	wg.Wait()
	if got := post(t, door.URL, event("evt_real", "charge.succeeded", `{"id":"ch_1"}`)); got.Status != 200 {
		t.Errorf("the real one: got %d %s", got.Status, got.Body)
	}
	if got := query[int](t, l, `SELECT count(*) FROM webhook_deliveries`); got != 501 {
		t.Errorf("%d rows, want 501", got)
	}
}

// B07 in the ledger: one event posted twenty times at once to two servers is one row, and every
// answer is a success.
func TestB07_TwentyPostsToTwoServers(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	other := openLedger(t, l.dsn, 4)
	doors := []string{newDoor(t, l.inbox).URL, newDoor(t, other.inbox).URL}
	for round := range 10 {
		body := event(fmt.Sprintf("evt_%d", round), "charge.succeeded", `{"id":"ch_1"}`)
		start := make(chan struct{})
		said := make(chan string, 20)
		for i := range 20 {
			go func() {
				<-start
				got, err := try(newRequest(t, doors[i%2], bytes.NewReader(body), sign(body, secret, signedAt())))
				said <- fmt.Sprint(got.Status, " ", string(got.Body), " ", err)
			}()
		}
		close(start)
		count := map[string]int{}
		for range 20 {
			count[<-said]++
		}
		if accepted, duplicate := count[`200 {"status":"accepted"} <nil>`], count[`200 {"status":"duplicate"} <nil>`]; accepted != 1 || duplicate != 19 {
			t.Errorf("round %d: got %v, want one accepted and nineteen duplicates", round, count)
		}
	}
	if got := query[int](t, l, `SELECT count(*) FROM webhook_deliveries`); got != 10 {
		t.Errorf("%d rows, want 10", got)
	}
}
