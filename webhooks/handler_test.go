package webhooks_test

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"paidonce/internal/web"
	"paidonce/webhooks"
)

// Every answer of the door, its code and its shape. None of these requests leaves a row.
func TestHandler_Refusals(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	door := newDoor(t, l.inbox)
	good := event("evt_1", "charge.succeeded", `{"id":"ch_1"}`)
	signed := func(body string) *http.Request {
		return newRequest(t, door.URL, strings.NewReader(body), sign([]byte(body), secret, signedAt()))
	}
	with := func(change func(*http.Request)) *http.Request {
		r := signed(string(good))
		change(r)
		return r
	}
	for _, c := range []struct {
		name    string
		request *http.Request
		status  int
		code    string
	}{
		// Not signed, or not by us, or not now.
		{"no signature header", with(func(r *http.Request) { r.Header.Del("Stripe-Signature") }), 403, "BAD_SIGNATURE"},
		{"empty signature header", with(func(r *http.Request) { r.Header.Set("Stripe-Signature", "") }), 403, "BAD_SIGNATURE"},
		{"another secret", with(func(r *http.Request) { r.Header.Set("Stripe-Signature", sign(good, "whsec_other", signedAt())) }), 403, "BAD_SIGNATURE"},
		{"v0 alone", with(func(r *http.Request) {
			r.Header.Set("Stripe-Signature", strings.Replace(sign(good, secret, signedAt()), "v1", "v0", 1))
		}), 403, "BAD_SIGNATURE"},
		{"too old", with(func(r *http.Request) { r.Header.Set("Stripe-Signature", sign(good, secret, signedAt().Add(-301e9))) }), 403, "BAD_SIGNATURE"},
		{"from the future", with(func(r *http.Request) { r.Header.Set("Stripe-Signature", sign(good, secret, signedAt().Add(301e9))) }), 403, "BAD_SIGNATURE"},

		// Signed, and not an event.
		{"null", signed(`null`), 400, "NOT_AN_EVENT"},
		{"empty", signed(``), 400, "NOT_AN_EVENT"},
		{"no id", signed(`{"ID":"evt_1","type":"x"}`), 400, "NOT_AN_EVENT"},

		// Encoded, and the wrong method.
		{"gzip", with(func(r *http.Request) { r.Header.Set("Content-Encoding", "gzip") }), 415, "ENCODED_BODY"},
		{"GET", with(func(r *http.Request) { r.Method, r.Body, r.ContentLength = "GET", nil, 0 }), 405, "METHOD_NOT_ALLOWED"},
		{"PUT", with(func(r *http.Request) { r.Method = "PUT" }), 405, "METHOD_NOT_ALLOWED"},
		{"DELETE", with(func(r *http.Request) { r.Method, r.Body, r.ContentLength = "DELETE", nil, 0 }), 405, "METHOD_NOT_ALLOWED"},
		{"PROPFIND", with(func(r *http.Request) { r.Method = "PROPFIND" }), 405, "METHOD_NOT_ALLOWED"},

		// Another address.
		{"unknown provider", with(func(r *http.Request) { r.URL.Path = "/webhooks/striped" }), 404, "NOT_FOUND"},
		{"no provider", with(func(r *http.Request) { r.URL.Path = "/webhooks/" }), 404, "NOT_FOUND"},
		{"other case", with(func(r *http.Request) { r.URL.Path = "/Webhooks/Stripe" }), 404, "NOT_FOUND"},
	} {
		got := send(t, c.request)
		wantProblem(t, c.name, got, c.status, c.code)
		if allow := got.Header.Get("Allow"); c.status == 405 && !strings.Contains(allow, "POST") {
			t.Errorf("%s: Allow is %q", c.name, allow)
		}
	}
	if got := query[int](t, l, `SELECT count(*) FROM webhook_deliveries`); got != 0 {
		t.Errorf("%d rows, want none", got)
	}
}

// wantProblem holds an answer to RFC 9457 and to its code; it tells the sender nothing else.
func wantProblem(tb testing.TB, name string, got answer, status int, code string) {
	tb.Helper()
	if got.Status != status || got.Header.Get("Content-Type") != "application/problem+json" {
		tb.Errorf("%s: got %d %s %s, want %d", name, got.Status, got.Header.Get("Content-Type"), got.Body, status)
		return
	}
	fields := []string{got.field(tb, "code"), got.field(tb, "status"), got.field(tb, "title")}
	if diff := cmp.Diff([]string{code, strconv.Itoa(status), http.StatusText(status)}, fields); diff != "" {
		tb.Errorf("%s: %s (-want +got)\n%s", name, got.Body, diff)
	}
	if detail := got.field(tb, "detail"); detail == "" || strings.Contains(detail, secret) || strings.Contains(detail, "SQLSTATE") {
		tb.Errorf("%s: detail %q", name, detail)
	}
}

func TestHandler_AcceptedThenDuplicate(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	door := newDoor(t, l.inbox)
	body := event("evt_1", "charge.succeeded", `{"id":"ch_1"}`)
	for _, want := range []string{`{"status":"accepted"}`, `{"status":"duplicate"}`, `{"status":"duplicate"}`} {
		got := post(t, door.URL, body)
		if got.Status != 200 || string(got.Body) != want || !strings.HasPrefix(got.Header.Get("Content-Type"), "application/json") {
			t.Errorf("got %d %s %s, want %s", got.Status, got.Header.Get("Content-Type"), got.Body, want)
		}
	}
}

// I11: a provider without a secret answers 503 and accepts nothing, whatever it is sent.
func TestHandler_NotConfigured(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	router := web.NewRouter(slog.New(slog.DiscardHandler))
	newHandler(l.inbox, map[string]webhooks.Provider{"stripe": nil}).Register(router)
	door := httptest.NewServer(router)
	t.Cleanup(door.Close)
	body := event("evt_1", "charge.succeeded", `{"id":"ch_1"}`)
	for _, header := range []string{sign(body, secret, signedAt()), sign(body, "", signedAt()), ""} {
		got := send(t, newRequest(t, door.URL, bytes.NewReader(body), header))
		wantProblem(t, header, got, 503, "NOT_CONFIGURED")
	}
	if got := query[int](t, l, `SELECT count(*) FROM webhook_deliveries`); got != 0 {
		t.Errorf("%d rows, want none", got)
	}
}

// B56: both spellings of the address answer by themselves; a redirect would be a failed delivery.
func TestB56_Handler_TrailingSlashAnswersDirectly(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	door := newDoor(t, l.inbox)
	for i, path := range []string{"/webhooks/stripe", "/webhooks/stripe/"} {
		body := event("evt_1", "charge.succeeded", `{"id":"ch_1"}`)
		request := newRequest(t, door.URL, bytes.NewReader(body), sign(body, secret, signedAt()))
		request.URL.Path = path
		got := send(t, request)
		if want := []string{"accepted", "duplicate"}[i]; got.Status != 200 || got.field(t, "status") != want {
			t.Errorf("%s: got %d %s, want %s", path, got.Status, got.Body, want)
		}
		request = newRequest(t, door.URL, nil)
		request.URL.Path = path
		wantProblem(t, path, send(t, request), 403, "BAD_SIGNATURE")
	}
	for _, path := range []string{"/webhooks//stripe", "//webhooks/stripe", "/webhooks/stripe//"} { // and nothing else redirects
		request := newRequest(t, door.URL, nil, "t=1,v1=x")
		request.URL.Path = path
		wantProblem(t, path, send(t, request), 404, "NOT_FOUND")
	}
}

// counting is a body that tells how much of it was asked for.
type counting struct {
	io.Reader
	reads int
}

func (c *counting) Read(p []byte) (int, error) { c.reads++; return c.Reader.Read(p) }
func (c *counting) Close() error               { return nil }

// What can be refused by its headers is refused without a look at its body (B38).
func TestHandler_RefusesWithoutReading(t *testing.T) {
	t.Parallel()
	router := web.NewRouter(slog.New(slog.DiscardHandler))
	handler := newHandler(nil, map[string]webhooks.Provider{"stripe": &webhooks.Stripe{Secrets: []string{secret}}})
	handler.MaxBody = 1000
	handler.Register(router)
	for _, c := range []struct {
		name   string
		change func(*http.Request)
		status int
	}{
		{"no signature", func(r *http.Request) { r.Header.Del("Stripe-Signature") }, 403},
		{"first of two lines empty", func(r *http.Request) { r.Header["Stripe-Signature"] = []string{"", "t=1,v1=ab"} }, 403},
		{"too large, and says so", func(r *http.Request) { r.ContentLength = 1001 }, 413},
		{"encoded", func(r *http.Request) { r.Header.Set("Content-Encoding", "br") }, 415},
		{"wrong method", func(r *http.Request) { r.Method = http.MethodPatch }, 405},
	} {
		body := &counting{Reader: strings.NewReader(`{}`)}
		request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/webhooks/stripe", body)
		request.Header.Set("Stripe-Signature", "t=1700000000,v1=ab")
		request.ContentLength = 2
		c.change(request)
		recorder := httptest.NewRecorder()
		router.ServeHTTP(recorder, request)
		if recorder.Code != c.status || body.reads != 0 {
			t.Errorf("%s: got %d after %d reads, want %d after none", c.name, recorder.Code, body.reads, c.status)
		}
	}
}

// A body of the limit is read, one byte more is not, with a length or without one.
func TestHandler_BodyLimit(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	router := web.NewRouter(slog.New(slog.DiscardHandler))
	handler := newHandler(l.inbox, map[string]webhooks.Provider{"stripe": &webhooks.Stripe{Secrets: []string{secret}}})
	handler.MaxBody = 2000
	handler.Register(router)
	door := httptest.NewServer(router)
	t.Cleanup(door.Close)
	for _, c := range []struct {
		size, status int
		chunked      bool
	}{{2000, 200, false}, {2000, 200, true}, {2001, 413, false}, {2001, 413, true}, {200_000, 413, true}} {
		body := append(event("evt_1", "charge.succeeded", `{"id":"ch_1"}`), bytes.Repeat([]byte{'\n'}, c.size)...)[:c.size]
		request := newRequest(t, door.URL, bytes.NewReader(body), sign(body, secret, signedAt()))
		if c.chunked {
			request.Body, request.ContentLength = io.NopCloser(bytes.NewReader(body)), -1
		}
		got := send(t, request)
		if got.Status != c.status {
			t.Errorf("%d bytes, chunked %v: got %d %s, want %d", c.size, c.chunked, got.Status, got.Body, c.status)
		}
		if c.status == 413 {
			wantProblem(t, "too large", got, 413, "BODY_TOO_LARGE")
		}
	}
}

// B45: real events have been 300 KB large; the default limit lets them in, whole.
func TestB45_Handler_LargeEventIsAccepted(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	door := newDoor(t, l.inbox)
	for name, size := range map[string]int{"evt_300k": 300 << 10, "evt_1m": webhooks.DefaultMaxBody - 500} {
		body := event(name, "checkout.session.completed", `{"id":"cs_1","metadata":{"x":"`+strings.Repeat("x", size)+`"}}`)
		if got := post(t, door.URL, body); got.Status != 200 || got.field(t, "status") != "accepted" {
			t.Errorf("%d bytes: got %d %s", len(body), got.Status, got.Body)
		}
		if got := query[int](t, l, `SELECT length(body) FROM webhook_deliveries WHERE event_id = $1`, name); got != len(body) {
			t.Errorf("kept %d of %d bytes", got, len(body))
		}
	}
}

// A sender that promises more than it sends has sent nothing.
func TestHandler_CutBody(t *testing.T) {
	t.Parallel()
	router := web.NewRouter(slog.New(slog.DiscardHandler))
	newHandler(nil, map[string]webhooks.Provider{"stripe": &webhooks.Stripe{Secrets: []string{secret}}}).Register(router)
	cut := io.MultiReader(strings.NewReader(`{"id":`), errorReader{io.ErrUnexpectedEOF})
	request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/webhooks/stripe", cut)
	request.Header.Set("Stripe-Signature", "t=1700000000,v1=ab")
	recorder := httptest.NewRecorder()
	router.ServeHTTP(recorder, request)
	wantProblem(t, "cut", answer{recorder.Code, recorder.Header(), recorder.Body.Bytes()}, 400, "BODY_UNREADABLE")
}

type errorReader struct{ err error }

func (r errorReader) Read([]byte) (int, error) { return 0, r.err }
