package stripesim

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// APIVersion is the version in which the API answers, and events too unless Config or an Endpoint says otherwise.
// stripe-go v79 is pinned to it.
const APIVersion = "2024-06-20"

// Config says how a Sim behaves. The zero value is a test-mode account that delivers nothing.
type Config struct {
	Webhooks []Endpoint // where events go
	Account  string     // the account's id, default acct_1SimulatedStripe
	Livemode bool       // default false: ids are cs_test_…, livemode is false and live keys are refused

	Now   func() time.Time           // default time.Now
	NewID func(prefix string) string // prefix includes the underscore, as in "pi_"; default random like Stripe's

	RetrySchedule  []time.Duration // waits between the attempts of one delivery, default 1s 2s 4s 8s 16s 32s
	AttemptTimeout time.Duration   // how long one attempt may take, default 10s
	Delay          time.Duration   // wait before the first attempt of each delivery
	Duplicates     int             // each event is delivered 1+Duplicates times to each endpoint

	EventAPIVersion string        // the account's default for events, one of EventAPIVersions; default APIVersion
	RateLimit       int           // API requests per second by the clock, more are answered 429; 0 is no limit
	RetryAfter      string        // the Retry-After header of those 429, if any: Stripe promises none
	Lag             time.Duration // how long delayed debits, failing refunds and disputes of test cards take; default: none
	TaxBasisPoints  int64         // what automatic_tax adds, default 1900 (19 %)

	HTTPClient *http.Client // for deliveries; redirects are never followed
	Log        *slog.Logger // default: discarded
	BaseURL    string       // where the pay page is reached, see SetBaseURL
	State      string       // Open reads and keeps everything in this file; "" is memory alone

	observe func(at time.Time, line string) // Serve's printer
}

// Endpoint is one webhook endpoint. Several secrets give several v1 signatures in one header, in the order given, as
// Stripe does while a secret is being rolled.
type Endpoint struct {
	URL        string
	Secrets    []string
	APIVersion string   // what its events are rendered in, default Config.EventAPIVersion
	Types      []string // event types it wants; none is all
	Thin       bool     // it gets thin events: a reference to the object, not the object
}

// Sim is one simulated Stripe account. Its methods may be used by several goroutines at once.
type Sim struct {
	cfg    Config
	client *http.Client

	ctx   context.Context // ends with Close; deliveries and injected waits live under it
	stop  context.CancelFunc
	tasks sync.WaitGroup

	offset atomic.Int64 // of the clock, in nanoseconds

	persistent bool       // Open made it, with a state file
	saving     sync.Mutex // one writer of the state file at a time; taken before mu
	saved      int64      // the version in the file

	// mu guards everything below. It is never held across a network call or a wait.
	mu       sync.Mutex
	closed   bool
	baseURL  string
	version  int64 // grows with every change
	hooks    table[webhookEndpoint]
	products table[product]
	prices   table[price]
	coupons  table[coupon]
	promos   table[promotionCode]
	methods  table[paymentMethod]
	sessions table[session]
	intents  table[paymentIntent]
	charges  table[charge]
	refunds  table[refund]
	disputes table[dispute]
	events   table[event]
	keys     map[string]*keyed
	calls    []Call
	attempts []Attempt
	faults   []*Fault
	due      []due
	locked   map[string]bool // ids of objects that a delayed request works on

	nextExpiry  int64           // when the first open session expires, 0 if none does
	second      int64           // what asked counts
	asked       int             // API requests in that second
	outstanding int             // deliveries not yet ended
	idle        []chan struct{} // closed when outstanding reaches zero
}

// New returns a Sim with the defaults of c filled in. Serve its Handler, and Close it in the end.
func New(c Config) *Sim {
	if c.Account == "" {
		c.Account = "acct_1SimulatedStripe"
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.NewID == nil {
		c.NewID = randomID
	}
	if c.RetrySchedule == nil {
		c.RetrySchedule = []time.Duration{
			time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second, 32 * time.Second,
		}
	}
	if c.AttemptTimeout <= 0 {
		c.AttemptTimeout = 10 * time.Second
	}
	if c.EventAPIVersion == "" {
		c.EventAPIVersion = APIVersion
	}
	if c.TaxBasisPoints <= 0 {
		c.TaxBasisPoints = 1900
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	ctx, stop := context.WithCancel(context.Background())
	s := &Sim{
		cfg:     c,
		client:  deliveryClient(c.HTTPClient),
		ctx:     ctx,
		stop:    stop,
		baseURL: strings.TrimSuffix(c.BaseURL, "/"),
		keys:    map[string]*keyed{},
		locked:  map[string]bool{},
	}
	s.setWebhooks(c.Webhooks)
	return s
}

// Close stops every delivery, also one in flight, and waits until they have ended. The API goes on answering, so that a
// server can be shut down after it or before it; nothing is delivered any more.
func (s *Sim) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.stop()
	s.tasks.Wait()
}

// SetBaseURL says where Handler is reached; session.url of sessions created from now on points there.
func (s *Sim) SetBaseURL(url string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.baseURL = strings.TrimSuffix(url, "/")
}

// finish ends a change begun by locking mu: it gives the lock back and keeps what has changed.
func (s *Sim) finish() {
	s.version++
	s.mu.Unlock()
	s.save()
}

// wait pauses for d and reports whether the Sim is still open.
func (s *Sim) wait(d time.Duration) bool {
	if d <= 0 {
		return s.ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-s.ctx.Done():
		return false
	}
}

// say tells Serve's printer one line; elsewhere nobody listens.
func (s *Sim) say(line string) {
	if s.cfg.observe != nil {
		s.cfg.observe(s.now(), line)
	}
}
