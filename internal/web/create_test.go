package web_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"paidonce/internal/web"
)

func TestCreate_Answer(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	got := do(t, http.MethodPost, s.url+"/orders", twoKeys)
	if got.Status != http.StatusCreated || !strings.HasPrefix(got.Header.Get("Content-Type"), "application/json") {
		t.Fatalf("got %d %s %s", got.Status, got.Header.Get("Content-Type"), got.Body)
	}
	order := decode[created](t, got.Body)
	want := fmt.Sprintf(`{"id":%q,"number":%d,"state":"pending","currency":"usd","total_minor":4498,"checkout_url":%q,"token":%q}`,
		order.ID, order.Number, order.CheckoutURL, web.NewTokens(appSecret).Of(order.ID))
	if got.Body != want || !strings.HasPrefix(order.CheckoutURL, "http") || order.Number < 1 {
		t.Errorf("got  %s\nwant %s", got.Body, want)
	}
	if log := s.log.String(); strings.Contains(log, order.Token) || strings.Contains(log, appSecret) || !strings.Contains(log, order.ID.String()) {
		t.Errorf("the log tells too much, or too little:\n%s", log)
	}
}

// Every fault names the field, as the client wrote it, and writes nothing down.
func TestCreate_Faults(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	order := func(change ...string) string { return strings.NewReplacer(change...).Replace(twoKeys) }
	for _, c := range []struct {
		name, body string
		status     int
		code       string
		field      string
	}{
		// Not an order at all.
		{"empty", ``, 400, "NOT_JSON", ""},
		{"not JSON", `email=a@example.com`, 400, "NOT_JSON", ""},
		{"cut short", twoKeys[:40], 400, "NOT_JSON", ""},
		{"two values", twoKeys + twoKeys, 400, "NOT_JSON", ""},
		{"trailing text", twoKeys + "x", 400, "NOT_JSON", ""},
		{"a list", `[` + twoKeys + `]`, 400, "NOT_JSON", ""},
		{"a string", `"order"`, 400, "NOT_JSON", ""},
		{"too large", order("en", strings.Repeat("x", 64<<10)), 413, "BODY_TOO_LARGE", ""},
		{"too large by blanks", twoKeys + strings.Repeat(" ", 64<<10), 413, "BODY_TOO_LARGE", ""},

		// A field of another type.
		{"email a number", order(`"a@example.com"`, `7`), 422, "INVALID_FIELD", "email"},
		{"items a string", `{"email":"a@example.com","items":"KEY-1"}`, 422, "INVALID_FIELD", "items"},
		{"items an object", `{"email":"a@example.com","items":{"sku":"KEY-1"}}`, 422, "INVALID_FIELD", "items"},
		{"quantity a string", order(`:2`, `:"2"`), 422, "INVALID_FIELD", "items.quantity"},
		{"quantity a fraction", order(`:2`, `:1.5`), 422, "INVALID_FIELD", "items.quantity"},
		{"quantity beyond any", order(`:2`, `:99999999999999999999`), 422, "INVALID_FIELD", "items.quantity"},

		// A value that cannot be sold.
		{"null", `null`, 422, "INVALID_FIELD", "email"},
		{"no email", order(`"email":"a@example.com",`, ``), 422, "INVALID_FIELD", "email"},
		{"two addresses", order(`a@example.com`, `a@example.com,b@example.com`), 422, "INVALID_FIELD", "email"},
		{"header injection", order(`a@example.com`, `a@example.com\r\nBcc: b@example.com`), 422, "INVALID_FIELD", "email"},
		{"unknown provider", order(`"stripe"`, `"paypal"`), 422, "INVALID_FIELD", "provider"},
		{"odd locale", order(`"en"`, `"<script>"`), 422, "INVALID_FIELD", "locale"},
		{"no items", `{"email":"a@example.com","items":[]}`, 422, "INVALID_FIELD", "items"},
		{"unknown sku", order(`KEY-2`, `KEY-9`), 422, "INVALID_FIELD", "items[1].sku"},
		{"sku with NUL", order(`KEY-2`, `KEY-2\u0000`), 422, "INVALID_FIELD", "items[1].sku"},
		{"email with NUL", order(`a@example.com`, `a\u0000@example.com`), 422, "INVALID_FIELD", "email"},
		{"no sku", order(`"sku":"KEY-2",`, ``), 422, "INVALID_FIELD", "items[1].sku"},
		{"quantity zero", order(`:2`, `:0`), 422, "INVALID_FIELD", "items[0].quantity"},
		{"quantity negative", order(`:2`, `:-1`), 422, "INVALID_FIELD", "items[0].quantity"},
	} {
		got := do(t, http.MethodPost, s.url+"/orders", c.body)
		p := got.problem(t)
		if got.Status != c.status || p.Code != c.code || p.Field != c.field {
			t.Errorf("%s: got %d %s %q, want %d %s %q (%s)", c.name, got.Status, p.Code, p.Field, c.status, c.code, c.field, p.Detail)
		}
		if c.field != "" && !strings.Contains(p.Detail, c.field) {
			t.Errorf("%s: the detail does not name %s: %s", c.name, c.field, p.Detail)
		}
		for _, inside := range []string{"web.", "newOrder", "json:", "Go ", "SQLSTATE"} { // nothing of how we are made
			if strings.Contains(p.Detail, inside) {
				t.Errorf("%s: the detail tells %q: %s", c.name, inside, p.Detail)
			}
		}
	}
	for _, table := range []string{"orders", "payments", "provider_calls", "river_job"} {
		if got := query[int](t, s, `SELECT count(*) FROM `+table); got != 0 {
			t.Errorf("%d rows in %s, want none", got, table)
		}
	}
}

// A type is named in the client's words.
func TestCreate_WrongTypesInPlainWords(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	for body, want := range map[string]string{
		`{"email":7}`:                     "email: must be a string, not a number",
		`{"email":{}}`:                    "email: must be a string, not an object",
		`{"items":"x"}`:                   "items: must be a list, not a string",
		`{"items":[7]}`:                   "items: must be an object, not a number",
		`{"items":[{"quantity":"2"}]}`:    "items.quantity: must be a whole number, not a string",
		`{"items":[{"quantity":1.5}]}`:    "items.quantity: must be a whole number, not a number 1.5",
		`{"items":[{"quantity":true}]}`:   "items.quantity: must be a whole number, not a bool",
		`{"items":[{"sku":["KEY-1"]}]}`:   "items.sku: must be a string, not a list",
		`{"items":[{"sku":1}],"email":1}`: "items.sku: must be a string, not a number",
	} {
		if got := do(t, http.MethodPost, s.url+"/orders", body).problem(t); got.Detail != want {
			t.Errorf("%s\ngot  %q\nwant %q", body, got.Detail, want)
		}
	}
}

// I11: without a provider no order is taken.
func TestCreate_NotConfigured(t *testing.T) {
	t.Parallel()
	s := newShop(t, func(o *web.Orders) { o.Ready = false })
	got := do(t, http.MethodPost, s.url+"/orders", twoKeys)
	if p := got.problem(t); got.Status != http.StatusServiceUnavailable || p.Code != "NOT_CONFIGURED" {
		t.Errorf("got %d %s", got.Status, got.Body)
	}
	if got := query[int](t, s, `SELECT count(*) FROM orders`); got != 0 {
		t.Errorf("%d orders", got)
	}
}

// A provider that does not answer costs no order: it stands, and its job opens the checkout.
func TestCreate_ProviderAway(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.stripe.Close()
	got := do(t, http.MethodPost, s.url+"/orders", twoKeys)
	order := decode[created](t, got.Body)
	if got.Status != http.StatusCreated || order.CheckoutURL != "" || order.State != "pending" {
		t.Errorf("got %d %s", got.Status, got.Body)
	}
	if got := query[int](t, s, `SELECT count(*) FROM river_job WHERE kind = 'create_checkout' AND finalized_at IS NULL`); got != 1 {
		t.Errorf("%d jobs to open the checkout, want one", got)
	}
}

// The body is read as it comes, and no further than it may be.
func TestCreate_ChunkedAndEndless(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	for name, c := range map[string]struct {
		body io.Reader
		want int
	}{
		"chunked": {io.MultiReader(strings.NewReader(twoKeys[:30]), strings.NewReader(twoKeys[30:])), 201},
		"endless": {io.MultiReader(strings.NewReader(`{"email":"`), endless{}), 413},
	} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+"/orders", c.body)
		must(t, err)
		response, err := http.DefaultTransport.RoundTrip(request)
		must(t, err)
		if response.StatusCode != c.want {
			t.Errorf("%s: got %d, want %d", name, response.StatusCode, c.want)
		}
		must(t, response.Body.Close())
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}
