package stripesim

import (
	"bufio"
	"context"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stripe/stripe-go/v79"
)

// TestPayPage is a buyer with a browser: looks, is declined, pays, is sent back, looks again.
func TestPayPage(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{})
	s := b.create(t)
	if s.URL != b.url+"/pay/"+s.ID {
		t.Fatalf("url %s", s.URL)
	}
	path := "/pay/" + s.ID
	page := b.do(t, "GET", path, "")
	for _, want := range []string{"44.98 EUR", "2 × Key &amp; &lt;Lock&gt;", "39.98 EUR", `value="pay"`, `value="decline"`} {
		if !strings.Contains(string(page.body), want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	if page.status != 200 || !strings.Contains(page.header.Get("Content-Security-Policy"), "default-src 'none'") {
		t.Errorf("%d %v", page.status, page.header)
	}

	r := b.do(t, "POST", path, "action=decline")
	if r.status != 303 || !strings.HasPrefix(r.header.Get("Location"), path) {
		t.Errorf("declined: %d %s", r.status, r.header.Get("Location"))
	}
	if again := b.do(t, "GET", r.header.Get("Location"), ""); !strings.Contains(string(again.body), "was declined") {
		t.Error("the page does not say that the card was declined")
	}
	r = b.do(t, "POST", path, "action=pay&amount=")
	if r.status != 303 || r.header.Get("Location") != "https://shop.example/return?session_id="+s.ID {
		t.Errorf("paid: %d %s", r.status, r.header.Get("Location"))
	}
	if r = b.do(t, "POST", path, "action=pay"); r.status != 409 || !strings.Contains(string(r.body), "complete") {
		t.Errorf("paid again: %d", r.status)
	}
	if r = b.do(t, "GET", path, ""); strings.Contains(string(r.body), `value="pay"`) {
		t.Error("a paid session can still be paid")
	}
	if r = b.do(t, "GET", "/pay/cs_none", ""); r.status != 404 {
		t.Errorf("no session: %d", r.status)
	}
	if got := kinds(b.sim.Events()); !strings.HasSuffix(got, "checkout.session.completed") || strings.Count(got, "completed") != 1 {
		t.Errorf("events %s", got)
	}
}

// TestPayPageForPrograms: the same by curl, with another amount.
func TestPayPageForPrograms(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{})
	s := b.create(t)
	post := func(id, form string) reply { return b.do(t, "POST", "/pay/"+id, form, "Accept", "application/json") }
	if r := post(s.ID, "action=decline"); r.status != 402 || dig(t, r.body, "outcome") != "declined" {
		t.Errorf("%d %s", r.status, r.body)
	}
	for _, bad := range []string{"action=steal", "amount=1.5", "amount=-1", "amount=%zz"} {
		if r := post(s.ID, bad); r.status != 400 || dig(t, r.body, "outcome") != "refused" {
			t.Errorf("%s: %d %s", bad, r.status, r.body)
		}
	}
	if r := post(s.ID, "action=steal"); dig(t, r.body, "error") != `no such action: "steal"` {
		t.Errorf("%s", r.body)
	}
	r := post(s.ID, "action=pay&amount=5")
	if r.status != 200 || dig(t, r.body, "outcome") != "paid" || dig(t, r.body, "payment_intent") == nil {
		t.Errorf("%d %s", r.status, r.body)
	}
	got, err := b.api.CheckoutSessions.Get(s.ID, nil)
	if err != nil || got.AmountTotal != 5 || got.PaymentStatus != stripe.CheckoutSessionPaymentStatusPaid {
		t.Errorf("%+v %v", got, err)
	}
	if r := post(s.ID, "action=pay"); r.status != 409 {
		t.Errorf("again: %d", r.status)
	}
	if r := post("cs_none", "action=pay"); r.status != 404 {
		t.Errorf("none: %d", r.status)
	}
}

func TestAmountText(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		minor    int64
		currency string
		want     string
	}{{4498, "eur", "44.98 EUR"}, {5, "usd", "0.05 USD"}, {500, "jpy", "500 JPY"}, {1005, "kwd", "1.005 KWD"}} {
		if got := amountText(c.minor, c.currency); got != c.want {
			t.Errorf("%d %s: %s", c.minor, c.currency, got)
		}
	}
}

// TestServe runs it as the command does: a line with the URL, a line for each thing that happens, a graceful end.
func TestServe(t *testing.T) {
	t.Parallel()
	rec := newReceiver(t, nil)
	r, w := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		err := Serve(ctx, "127.0.0.1:0", Config{Webhooks: []Endpoint{{URL: rec.url, Secrets: []string{secret}}}}, w)
		_ = w.Close()
		ended <- err
	}()
	lines := make(chan string, 100)
	go func() {
		defer close(lines)
		for sc := bufio.NewScanner(r); sc.Scan(); {
			lines <- sc.Text()
		}
	}()
	url := regexp.MustCompile(`http://127\.0\.0\.1:\d+`).FindString(<-lines)
	if url == "" {
		t.Fatal("the first line has no URL")
	}
	b := bundle{url: url}
	created := b.do(t, "POST", sessionsPath, form(), "Idempotency-Key", "k")
	page, _ := dig(t, created.body, "url").(string)
	if !strings.HasPrefix(page, url+"/pay/cs_test_") {
		t.Fatalf("session.url %s", page)
	}
	b.do(t, "POST", strings.TrimPrefix(page, url), "action=pay")
	var seen []string
	for len(seen) < 6 {
		select {
		case line := <-lines:
			seen = append(seen, line)
		case <-time.After(10 * time.Second):
			t.Fatalf("only these lines: %q", seen)
		}
	}
	all := strings.Join(seen, "\n")
	for _, want := range []string{
		"POST /v1/checkout/sessions → 200, key k", "21.00 USD for cs_test_", "checkout.session.completed evt_", "→ " + rec.url + " 200",
	} {
		if !strings.Contains(all, want) {
			t.Errorf("no line says %q:\n%s", want, all)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("end: %v", err)
	}
	if r, err := b.send(t, "GET", "/v1/events", ""); err == nil {
		t.Errorf("still answering: %d", r.status)
	}
	if err := Serve(t.Context(), "256.0.0.1:x", Config{}, io.Discard); err == nil {
		t.Error("served at no address")
	}
}
