package web_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// B51: words that nobody had heard of when this was written, ids as long as Stripe allows,
// and a name that fits no line. All of it is stored whole; what is unknown is no success.
func TestB51_UnknownWordsAndLongNames(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	name := strings.Repeat("Lorem ipsum dolor ", 100)
	execute(t, s.dsn, `UPDATE products SET name = '`+name+`' WHERE sku = 'KEY-1'`)
	order := s.order(t)
	session := s.session(t, order, 0)
	long := func(prefix string) string { return prefix + strings.Repeat("x", 255-len(prefix)) }
	event := func(id, kind, more string) []byte {
		return fmt.Appendf(nil, `{"id":%q,"object":"event","type":%q,"created":1740830400,"livemode":false,"api_version":%q,
"data":{"object":{"id":%q,"object":"checkout.session","created":1740830400,"amount_total":4498,"currency":"usd","capture_method":"automatic_async",%s}}}`,
			id, kind, strings.Repeat("v", 300), session, more)
	}
	for _, c := range []struct{ id, kind, more, outcome string }{
		{"evt_status", "checkout.session.completed", `"status":"complete","payment_status":"promised"`, "read"},
		{"evt_type", "checkout.session.teleported", `"status":"complete","payment_status":"paid"`, "ignored"},
		{"evt_kind", long("type_"), `"status":"complete","payment_status":"paid"`, "ignored"},
		{long("evt_"), "checkout.session.completed", `"status":"open","payment_status":"paid","payment_intent":"` + long("pi_") + `"`, "applied"},
	} {
		s.bring(t, event(c.id, c.kind, c.more))
		if got := query[string](t, s, `SELECT outcome FROM webhook_deliveries WHERE event_id = $1`, c.id); got != c.outcome {
			t.Errorf("%.30s %.40s: %s, want %s", c.id, c.kind, got, c.outcome)
		}
	}
	if got := query[int](t, s, `SELECT max(length(resource_id)) FROM payment_resources`); got != 255 {
		t.Errorf("the longest id has %d characters", got)
	}
	if receipt := s.fulfill(t, order); s.state(t, order) != "fulfilled" || !strings.Contains(receipt, strings.TrimSpace(name)) {
		t.Errorf("the order is %s, its receipt %s", s.state(t, order), receipt)
	}
	if line := query[string](t, s, `SELECT name FROM order_lines WHERE order_id = $1 AND position = 1`, order.ID); line != name {
		t.Errorf("the line's name has %d characters, want %d", len(line), len(name))
	}
}

// FuzzCreateOrder: whatever is posted, the answer is an order or a problem of the client's,
// and a refusal leaves nothing.
func FuzzCreateOrder(f *testing.F) {
	for _, seed := range []string{
		twoKeys, ``, `{}`, `[]`, `null`, `0`, `"x"`, `{"email":null,"items":null}`, `{"email":"a@example.com","items":[null]}`,
		`{"email":"a@example.com","items":[{"sku":"KEY-1","quantity":1e2}]}`, `{"email":"a@example.com","items":[{"sku":"KEY-1","quantity":-0}]}`,
		`{"email":"a@b","items":[{"sku":"KEY-1","quantity":1}]}`, `{"EMAIL":"a@example.com","Items":[{"SKU":"KEY-1","Quantity":1}]}`,
		"{\"email\":\"\xff@example.com\",\"items\":[{\"sku\":\"KEY-1\\u0000\",\"quantity\":1}]}", `{"email":"a@[127.0.0.1]","items":[{"sku":"KEY-1","quantity":1}]}`,
		`{"email":"\"a b\"@example.com","items":[{"sku":"KEY-1","quantity":1}]}`, strings.Repeat(`[`, 20000), `{"items":` + strings.Repeat(`{"a":`, 20000),
		`{"email":"a@example.com","items":[` + strings.Repeat(`{"sku":"KEY-1","quantity":1000},`, 99) + `{"sku":"KEY-1","quantity":1000}]}`,
	} {
		f.Add(seed)
	}
	s := newShop(f)
	f.Fuzz(func(t *testing.T, body string) {
		before := s.counts(t)
		got := do(t, http.MethodPost, s.url+"/orders", body)
		switch {
		case got.Status == http.StatusCreated:
			decode[created](t, got.Body)
			return
		case got.Status < 400 || got.Status >= 500:
			t.Errorf("%q: got %d %s", body, got.Status, got.Body)
		}
		got.problem(t)
		if diff := cmp.Diff(before, s.counts(t)); diff != "" {
			t.Errorf("%q was refused, and left (-before +after)\n%s", body, diff)
		}
	})
}
