package web_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

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

		// A field that an order does not have, or of another type.
		{"unknown field", order(`"locale"`, `"lokale"`), 422, "INVALID_FIELD", "lokale"},
		{"unknown field of an item", order(`"quantity":2`, `"quantity":2,"price":1`), 422, "INVALID_FIELD", "price"},
		{"price of our own", order(`"email"`, `"total_minor":1,"email"`), 422, "INVALID_FIELD", "total_minor"},
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

// The order's token opens it; nothing else does, and what else answers is the same for an order
// that exists and one that does not.
func TestShow_Token(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	mine, other := s.order(t), s.order(t)
	const nobody = "01890a5d-ac96-774b-bcce-b302099a8057"
	refusals := map[string]answer{}
	for _, id := range []string{mine.ID.String(), nobody, "not-an-id", "", mine.ID.String() + "x"} {
		for name, headers := range map[string][]string{
			"none": {}, "empty": {"Authorization", "Bearer "}, "wrong": {"Authorization", "Bearer " + strings.Repeat("A", 43)},
			"another's": {"Authorization", "Bearer " + other.Token}, "not base64": {"Authorization", "Bearer ***"},
			"basic": {"Authorization", "Basic " + mine.Token}, "cut": {"Authorization", "Bearer " + mine.Token[:20]},
		} {
			got := do(t, http.MethodGet, s.url+"/orders/"+id, "", headers...)
			got.Header.Del("Date")
			if id == "" {
				if got.Status != http.StatusNotFound {
					t.Errorf("no id: got %d", got.Status)
				}
				continue
			}
			refusals[id+" "+name] = got
		}
	}
	want := refusals[mine.ID.String()+" none"]
	if want.Status != http.StatusUnauthorized || want.problem(t).Code != "BAD_TOKEN" || want.Header.Get("WWW-Authenticate") == "" {
		t.Errorf("got %d %s", want.Status, want.Body)
	}
	for name, got := range refusals {
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s differs (-no token +this)\n%s", name, diff)
		}
	}

	for _, got := range []answer{
		do(t, http.MethodGet, s.url+"/orders/"+mine.ID.String(), "", "Authorization", "Bearer "+mine.Token),
		do(t, http.MethodGet, s.url+"/orders/"+mine.ID.String(), "", "Authorization", "bearer "+mine.Token), // RFC 9110: case does not matter
		do(t, http.MethodGet, s.url+"/orders/"+mine.ID.String()+"?token="+mine.Token, ""),
	} {
		if got.Status != http.StatusOK || got.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("with the token: got %d %s %s", got.Status, got.Header.Get("Cache-Control"), got.Body)
		}
	}
	if strings.Contains(s.log.String(), mine.Token) {
		t.Error("the token is in the log")
	}
}

// A token of an order that was never written is genuine, and there is nothing behind it.
func TestShow_NoSuchOrder(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	id := s.order(t).ID
	id[0]++
	got := do(t, http.MethodGet, s.url+"/orders/"+id.String()+"?token="+web.NewTokens(appSecret).Of(id), "")
	if p := got.problem(t); got.Status != http.StatusNotFound || p.Code != "NOT_FOUND" {
		t.Errorf("got %d %s", got.Status, got.Body)
	}
}

// The page that a provider sends the buyer back to tells nothing and changes nothing.
func TestReturned_TellsNothing(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	order := s.order(t)
	before := query[string](t, s, `SELECT o::text FROM orders o`)
	there := do(t, http.MethodGet, s.url+"/orders/"+order.ID.String()+"/return?session_id=cs_x", "")
	nowhere := do(t, http.MethodGet, s.url+"/orders/nothing/return", "")
	if there.Status != http.StatusOK || there.Body != nowhere.Body || strings.Contains(there.Body, order.ID.String()) || strings.Contains(there.Body, "cs_x") {
		t.Errorf("got %d %s", there.Status, there.Body)
	}
	if after := query[string](t, s, `SELECT o::text FROM orders o`); after != before {
		t.Errorf("changed\nfrom %s\nto   %s", before, after)
	}
}
