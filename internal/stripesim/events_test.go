package stripesim

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stripe/stripe-go/v79"
)

// listing makes 25 expired sessions, one event a second.
func listing(t *testing.T) (bundle, []Event) {
	t.Helper()
	var clock atomic.Int64
	clock.Store(1_700_000_000)
	b := setup(t, Config{Now: func() time.Time { return time.Unix(clock.Load(), 0) }})
	for range 25 {
		s := b.create(t)
		clock.Add(1)
		if _, err := b.sim.Expire(s.ID); err != nil {
			t.Fatal(err)
		}
	}
	return b, b.sim.Events()
}

func idsOf(t *testing.T, body []byte) (out []string, more bool) {
	t.Helper()
	for _, v := range dig(t, body, "data").([]any) {
		out = append(out, v.(map[string]any)["id"].(string))
	}
	return out, dig(t, body, "has_more").(bool)
}

// TestListEvents: newest first; the cursors take what is next to them; has_more tells the truth.
func TestListEvents(t *testing.T) {
	t.Parallel()
	b, events := listing(t)
	at := func(from, to int) []string { // positions in list order: 0 is the newest
		var out []string
		for i := from; i < to; i++ {
			out = append(out, events[len(events)-1-i].ID)
		}
		return out
	}
	n := func(i int) string { return at(i, i+1)[0] }
	for _, c := range []struct {
		query string
		want  []string
		more  bool
	}{
		{"", at(0, 10), true},
		{"limit=25", at(0, 25), false},
		{"limit=24", at(0, 24), true},
		{"limit=3&starting_after=" + n(20), at(21, 24), true},
		{"limit=4&starting_after=" + n(20), at(21, 25), false},
		{"starting_after=" + n(24), nil, false},
		{"limit=3&ending_before=" + n(5), at(2, 5), true},
		{"limit=5&ending_before=" + n(5), at(0, 5), false},
		{"ending_before=" + n(0), nil, false},
		{"created=1700000025", at(0, 1), false},
		{"created[gte]=1700000024", at(0, 2), false},
		{"created[gt]=1700000024", at(0, 1), false},
		{"created[lt]=1700000002", at(24, 25), false},
		{"created[gte]=1700000003&created[lte]=1700000004", at(21, 23), false},
		{"type=checkout.session.completed", nil, false},
		{"type=checkout.session.*&limit=1", at(0, 1), true},
		{"types[]=charge.succeeded&types[]=checkout.session.expired&limit=1", at(0, 1), true},
		{"delivery_success=false", nil, false},
		{"delivery_success=true&limit=2", at(0, 2), true},
	} {
		r := b.do(t, "GET", "/v1/events?"+c.query, "")
		if r.status != 200 {
			t.Errorf("%s: %d %s", c.query, r.status, r.body)
			continue
		}
		got, more := idsOf(t, r.body)
		if diff := cmp.Diff(c.want, got); diff != "" || more != c.more {
			t.Errorf("%s: more %v, want %v (-want +got):\n%s", c.query, more, c.more, diff)
		}
	}
	for _, bad := range []string{
		"limit=0", "limit=101", "limit=x", "starting_after=evt_none", "ending_before=evt_none", "created=x",
		"created[after]=1", "type=a&types[]=b", "types[]=" + strings.Repeat("a&types[]=", 20) + "b", "colour=red",
		"starting_after=" + n(1) + "&ending_before=" + n(2),
	} {
		if r := b.do(t, "GET", "/v1/events?"+bad, ""); r.status != 400 || r.err.Param == "" {
			t.Errorf("%s: %d %s", bad, r.status, r.body)
		}
	}
}

// TestStripeGoPages: its iterator walks all pages, newest first, or oldest first with ending_before.
func TestStripeGoPages(t *testing.T) {
	t.Parallel()
	b, events := listing(t)
	walk := func(p *stripe.EventListParams) (out []string) {
		it := b.api.Events.List(p)
		for it.Next() {
			out = append(out, it.Event().ID)
		}
		if it.Err() != nil {
			t.Error(it.Err())
		}
		return out
	}
	var oldest []string
	for _, e := range events {
		oldest = append(oldest, e.ID)
	}
	after := &stripe.EventListParams{}
	after.Limit = stripe.Int64(7)
	got := walk(after)
	if len(got) != 25 || got[0] != oldest[24] || got[24] != oldest[0] {
		t.Errorf("newest first: %v", got)
	}
	before := &stripe.EventListParams{}
	before.Limit, before.EndingBefore = stripe.Int64(7), stripe.String(oldest[0])
	if diff := cmp.Diff(oldest[1:], walk(before)); diff != "" {
		t.Errorf("oldest first (-want +got):\n%s", diff)
	}
	e, err := b.api.Events.Get(oldest[3], nil)
	if err != nil || e.ID != oldest[3] || e.Type != "checkout.session.expired" {
		t.Errorf("%v %v", e, err)
	}
}

// TestSnapshot: an event shows its object as it was, in the API as in the delivery.
func TestSnapshot(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{NewID: counter()})
	p := b.pay(t, b.create(t).ID, PayOptions{})
	if r := b.do(t, "POST", "/v1/payment_intents/"+p.PaymentIntentID, "metadata[order_id]=other"); r.status != 200 {
		t.Fatalf("%d %s", r.status, r.body)
	}
	for _, e := range p.Events[:3] {
		r := b.do(t, "GET", "/v1/events/"+e.ID, "")
		if string(r.body) != string(e.Body) {
			t.Errorf("%s differs from what was delivered", e.Type)
		}
		if got := fmt.Sprint(dig(t, e.Body, "data", "object", "metadata")); got != "map[order_id:order-1]" {
			t.Errorf("%s: metadata %s", e.Type, got)
		}
	}
}
