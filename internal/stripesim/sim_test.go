package stripesim

// Real here: HTTP both ways, stripe-go as the client and as the verifier of signatures. Nothing is doubled; the receiver is
// a small server that answers what a test wants. Tests are inside the package to reach the form parser and the shapes.

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stripe/stripe-go/v79"
	"github.com/stripe/stripe-go/v79/client"
)

const testKey = "sk_test_123"

type bundle struct {
	sim *Sim
	url string
	api *client.API
}

// setup serves a Sim and a stripe-go client for it. The client never retries by itself.
func setup(t *testing.T, c Config) bundle {
	t.Helper()
	return serve(t, New(c))
}

func serve(t *testing.T, sim *Sim) bundle {
	t.Helper()
	srv := httptest.NewServer(sim.Handler())
	t.Cleanup(srv.Close)
	t.Cleanup(sim.Close)
	backend := stripe.GetBackendWithConfig(stripe.APIBackend, &stripe.BackendConfig{
		URL:               stripe.String(srv.URL),
		MaxNetworkRetries: stripe.Int64(0),
		EnableTelemetry:   stripe.Bool(false),
		LeveledLogger:     &stripe.LeveledLogger{Level: stripe.LevelNull},
	})
	return bundle{sim, srv.URL, client.New(testKey, &stripe.Backends{API: backend})}
}

// newParams is a checkout of two lines: 2 × 19.99 and 1 × 5.00.
func newParams() *stripe.CheckoutSessionParams {
	line := func(name string, unit, quantity int64) *stripe.CheckoutSessionLineItemParams {
		return &stripe.CheckoutSessionLineItemParams{
			Quantity: stripe.Int64(quantity),
			PriceData: &stripe.CheckoutSessionLineItemPriceDataParams{
				Currency: stripe.String("EUR"), UnitAmount: stripe.Int64(unit),
				ProductData: &stripe.CheckoutSessionLineItemPriceDataProductDataParams{Name: stripe.String(name)},
			},
		}
	}
	return &stripe.CheckoutSessionParams{
		Mode:              stripe.String("payment"),
		LineItems:         []*stripe.CheckoutSessionLineItemParams{line("Key & <Lock>", 1999, 2), line("Manual", 500, 1)},
		SuccessURL:        stripe.String("https://shop.example/return?session_id={CHECKOUT_SESSION_ID}"),
		CancelURL:         stripe.String("https://shop.example/cart"),
		ClientReferenceID: stripe.String("order-1"),
		CustomerEmail:     stripe.String("ada@example.com"),
		Metadata:          map[string]string{"on": "session"},
		PaymentIntentData: &stripe.CheckoutSessionPaymentIntentDataParams{Metadata: map[string]string{"order_id": "order-1"}},
	}
}

const newTotal = 2*1999 + 500

func (b bundle) create(t *testing.T) *stripe.CheckoutSession {
	t.Helper()
	s, err := b.api.CheckoutSessions.New(newParams())
	if err != nil {
		t.Fatalf("create session: %v", err)
	}
	return s
}

func (b bundle) pay(t *testing.T, id string, o PayOptions) Payment {
	t.Helper()
	p, err := b.sim.Pay(id, o)
	if err != nil {
		t.Fatalf("pay %s: %v", id, err)
	}
	return p
}

func (b bundle) idle(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := b.sim.Idle(ctx); err != nil {
		t.Fatalf("idle: %v", err)
	}
}

// reply is what a raw request got.
type reply struct {
	status int
	header http.Header
	body   []byte
	err    errorObject
}

// do sends a request as curl would. headers are pairs.
func (b bundle) do(t *testing.T, method, path, form string, headers ...string) reply {
	t.Helper()
	r, err := b.send(t, method, path, form, headers...)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	return r
}

func (b bundle) send(t *testing.T, method, path, form string, headers ...string) (reply, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, b.url+path, strings.NewReader(form))
	if err != nil {
		t.Fatalf("request: %v", err)
	}
	req.Header.Set("Authorization", "Bearer "+testKey)
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	c := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := c.Do(req)
	if err != nil {
		return reply{}, err
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	r := reply{status: res.StatusCode, header: res.Header, body: body}
	var e errorBody
	if json.Unmarshal(body, &e) == nil {
		r.err = e.Error
	}
	return r, err
}

// form is newParams in curl's manner, with more appended.
func form(more ...string) string {
	return strings.Join(append([]string{
		"mode=payment", "success_url=https://shop.example/ok",
		"line_items[][price_data][currency]=usd", "line_items[][price_data][unit_amount]=700",
		"line_items[][price_data][product_data][name]=Key", "line_items[][quantity]=3",
	}, more...), "&")
}

// delivery is one webhook post as received.
type delivery struct {
	id, kind string
	body     []byte
	header   http.Header
}

// receiver keeps what it was sent and answers as it is told.
type receiver struct {
	url    string
	mu     sync.Mutex
	got    []delivery
	answer func(n int) int // n is the number of posts so far, from 1
}

func newReceiver(t *testing.T, answer func(n int) int) *receiver {
	t.Helper()
	rec := &receiver{answer: answer}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var e struct{ ID, Type string }
		_ = json.Unmarshal(body, &e)
		rec.mu.Lock()
		rec.got = append(rec.got, delivery{e.ID, e.Type, body, r.Header.Clone()})
		n := len(rec.got)
		rec.mu.Unlock()
		status := http.StatusOK
		if rec.answer != nil {
			status = rec.answer(n)
		}
		if status/100 == 3 {
			w.Header().Set("Location", "/elsewhere")
		}
		w.WriteHeader(status)
	}))
	t.Cleanup(srv.Close)
	rec.url = srv.URL
	return rec
}

func (r *receiver) deliveries() []delivery {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]delivery(nil), r.got...)
}

func kinds(events []Event) string {
	var out []string
	for _, e := range events {
		out = append(out, e.Type)
	}
	return strings.Join(out, " ")
}

// dig reads a value of a JSON document by path, numbers as json.Number.
func dig(t *testing.T, doc []byte, path ...string) any {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(doc))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("not JSON: %v\n%s", err, doc)
	}
	for _, name := range path {
		m, ok := v.(map[string]any)
		if !ok {
			t.Fatalf("no object above %q in %v", name, path)
		}
		v = m[name]
	}
	return v
}

// counter makes predictable ids.
func counter() func(string) string {
	var mu sync.Mutex
	n := 0
	return func(prefix string) string {
		mu.Lock()
		defer mu.Unlock()
		n++
		return prefix + string(rune('a'+n/26%26)) + string(rune('a'+n%26))
	}
}

// eventually polls until ok, or fails after a deadline far beyond any machine's slowness.
func eventually(t *testing.T, ok func() bool) {
	t.Helper()
	deadline := time.NewTimer(20 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatal("waited in vain")
		}
	}
}
