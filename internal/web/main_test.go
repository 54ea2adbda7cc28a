package web_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"paidonce/fulfillment"
	"paidonce/internal/database"
	"paidonce/internal/devpg/devpgtest"
	"paidonce/internal/money"
	"paidonce/internal/provider"
	"paidonce/internal/stripesim"
	"paidonce/internal/web"
	"paidonce/licenses"
	"paidonce/orders"
	"paidonce/webhooks"
)

// Real: Postgres, the router and its middleware, the stores and the service behind it, wired as
// cmd/paidonce wires them. Made up: Stripe, which is the simulated one, and the workers: a test
// drains and fulfills by hand. A test may assert on answers, on the log, and on rows.
func TestMain(m *testing.M) { os.Exit(devpgtest.Run(m)) }

const appSecret = "app-secret-1f2e3d"

// shop is one server with all that it needs.
type shop struct {
	url     string
	dsn     string
	db      *database.DB
	sim     *stripesim.Sim
	stripe  *httptest.Server
	inbox   *webhooks.Inbox
	store   *orders.Store
	service *fulfillment.Service
	drainer *fulfillment.Drainer
	log     *logText
}

func newShop(tb testing.TB, change ...func(*web.Orders)) shop {
	tb.Helper()
	s := shop{dsn: devpgtest.New(tb), sim: stripesim.New(stripesim.Config{}), log: &logText{}}
	s.stripe = httptest.NewServer(s.sim.Handler())
	tb.Cleanup(s.stripe.Close)
	tb.Cleanup(s.sim.Close) // first: it ends injected waits
	db, err := database.Open(tb.Context(), s.dsn, database.Options{MaxConns: 4})
	must(tb, err)
	tb.Cleanup(db.Close)
	s.db = db
	log := slog.New(slog.NewTextHandler(s.log, nil))

	// The wiring of cmd/paidonce, without workers.
	key, err := licenses.Generate(strings.NewReader(strings.Repeat("seed", 8)))
	must(tb, err)
	ring, err := licenses.NewKeyring(key)
	must(tb, err)
	issuer := &licenses.Store{Keys: ring}
	queue := &fulfillment.Queue{Licenses: issuer}
	s.inbox = webhooks.NewInbox(db.Gorm)
	api := provider.NewStripe(provider.StripeConfig{Key: "sk_test_123", Base: s.stripe.URL})
	calls := &provider.Calls{DB: db.Gorm, Stripe: api, Jobs: queue, Now: database.Now}
	store := orders.New(db.Gorm)
	s.store = store
	store.Calls, store.Follower, store.Reader, store.Releaser = calls, queue, queue, s.inbox
	s.service = &fulfillment.Service{
		DB: db.Gorm, Orders: store, Licenses: issuer, Inbox: s.inbox, Calls: calls, Stripe: api, Queue: queue,
		MailFrom: "shop@example.com", SendLease: time.Minute, Now: database.Now, Log: log,
	}
	queue.Client, err = fulfillment.NewClient(db, nil, nil, 0, log)
	must(tb, err)
	s.drainer = &fulfillment.Drainer{
		DB: db.Gorm, Inbox: s.inbox, Orders: store, Queue: queue, Providers: map[string]webhooks.Provider{"stripe": &webhooks.Stripe{}},
		Batch: 10, Lease: time.Minute, MaxAttempts: 3, ParkFor: time.Minute, Log: log,
	}
	must(tb, store.ImportProducts(tb.Context(), []orders.Product{
		{SKU: "KEY-1", Name: "A <key> & more", UnitMinor: 1999, Currency: money.Currency("usd")},
		{SKU: "KEY-2", Name: "Manual", UnitMinor: 500, Currency: money.Currency("usd")},
	}))

	router := web.NewRouter(log)
	(&web.Health{SQL: db.SQL, Log: log}).Register(router)
	served := &web.Orders{
		DB: db.Gorm, Store: store, Licenses: issuer, Service: s.service, Tokens: web.NewTokens(appSecret), Ready: true, Log: log,
		Merchant: orders.Merchant{ReturnURL: func(id uuid.UUID) (string, string) {
			return "https://shop.example/orders/" + id.String() + "/return", "https://shop.example/orders/" + id.String()
		}},
	}
	for _, c := range change {
		c(served)
	}
	served.Register(router)
	server := httptest.NewServer(router)
	tb.Cleanup(server.Close)
	s.url = server.URL
	return s
}

// logText collects the log of a server.
type logText struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// answer is what a client sees.
type answer struct {
	Status int
	Header http.Header
	Body   string
}

// problem is the wire form of an error answer.
type problem struct {
	Title  string
	Status int
	Code   string
	Detail string
	Field  string
}

func (a answer) problem(t *testing.T) problem {
	t.Helper()
	if got := a.Header.Get("Content-Type"); got != "application/problem+json" {
		t.Errorf("an error of type %s: %d %s", got, a.Status, a.Body)
	}
	p := decode[problem](t, a.Body)
	if p.Status != a.Status || p.Title != http.StatusText(a.Status) || p.Code == "" || p.Detail == "" {
		t.Errorf("answer %d is the problem %s", a.Status, a.Body)
	}
	return p
}

func decode[T any](t *testing.T, body string) T {
	t.Helper()
	var v T
	if err := json.Unmarshal([]byte(body), &v); err != nil {
		t.Fatalf("%q: %v", body, err)
	}
	return v
}

// do sends one request and follows no redirect.
func do(t *testing.T, method, url, body string, headers ...string) answer {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	must(t, err)
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	response, err := http.DefaultTransport.RoundTrip(request)
	must(t, err)
	defer func() { _ = response.Body.Close() }()
	var read bytes.Buffer
	_, err = read.ReadFrom(response.Body)
	must(t, err)
	return answer{response.StatusCode, response.Header, read.String()}
}

// created is the answer to POST /orders.
type created struct {
	ID          uuid.UUID
	Number      int64
	State       string
	Currency    string
	TotalMinor  int64  `json:"total_minor"`
	CheckoutURL string `json:"checkout_url"`
	Token       string
}

const twoKeys = `{"email":"a@example.com","locale":"en","provider":"stripe","items":[{"sku":"KEY-1","quantity":2},{"sku":"KEY-2","quantity":1}]}`

func (s shop) order(t *testing.T) created {
	t.Helper()
	got := do(t, http.MethodPost, s.url+"/orders", twoKeys)
	if got.Status != http.StatusCreated {
		t.Fatalf("got %d %s", got.Status, got.Body)
	}
	return decode[created](t, got.Body)
}

func query[T any](t *testing.T, s shop, sql string, args ...any) T {
	t.Helper()
	var v T
	must(t, s.db.Pool.QueryRow(t.Context(), sql, args...).Scan(&v))
	return v
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
