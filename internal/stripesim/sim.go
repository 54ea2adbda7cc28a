package stripesim

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"
)

// APIVersion is the only version the simulation renders. stripe-go v79 is pinned to it.
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

	HTTPClient *http.Client // for deliveries; redirects are never followed
	Log        *slog.Logger // default: discarded
	BaseURL    string       // where the pay page is reached, see SetBaseURL
}

// Endpoint is one webhook endpoint. Several secrets give several v1 signatures in one header, in the order given, as
// Stripe does while a secret is being rolled.
type Endpoint struct {
	URL     string
	Secrets []string
}

// Sim is one simulated Stripe account. Its methods may be used by several goroutines at once.
type Sim struct {
	cfg     Config
	client  *http.Client
	observe func(line string) // Serve's printer; nil elsewhere

	ctx   context.Context // ends with Close; deliveries and injected waits live under it
	stop  context.CancelFunc
	tasks sync.WaitGroup

	// mu guards everything below. It is never held across a network call or a wait.
	mu          sync.Mutex
	closed      bool
	baseURL     string
	endpoints   []Endpoint
	sessions    map[string]*session
	intents     map[string]*paymentIntent
	charges     map[string]*charge
	events      []*event
	keys        map[string]*keyed
	calls       []Call
	attempts    []Attempt
	faults      []*Fault
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
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	ctx, stop := context.WithCancel(context.Background())
	return &Sim{
		cfg:       c,
		client:    deliveryClient(c.HTTPClient),
		ctx:       ctx,
		stop:      stop,
		baseURL:   strings.TrimSuffix(c.BaseURL, "/"),
		endpoints: cloneEndpoints(c.Webhooks),
		sessions:  map[string]*session{},
		intents:   map[string]*paymentIntent{},
		charges:   map[string]*charge{},
		keys:      map[string]*keyed{},
	}
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

// SetWebhooks replaces the endpoints. A delivery belongs to a position in this list: one that is waiting for its next
// attempt goes to whatever stands there then, with its secrets, and ends if nothing does, as Stripe stops for a deleted
// endpoint. So a receiver may come back on another port, and a secret may be rolled between two attempts.
func (s *Sim) SetWebhooks(endpoints []Endpoint) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endpoints = cloneEndpoints(endpoints)
}

// SetBaseURL says where Handler is reached; session.url of sessions created from now on points there.
func (s *Sim) SetBaseURL(url string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.baseURL = strings.TrimSuffix(url, "/")
}

// Session returns the session as the API would, in Stripe's JSON.
func (s *Sim) Session(id string) (json []byte, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if v, ok := s.sessions[id]; ok {
		return encode(v), true
	}
	return nil, false
}

// PaymentIntent returns the intent as the API would, in Stripe's JSON.
func (s *Sim) PaymentIntent(id string) (json []byte, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if v, ok := s.intents[id]; ok {
		return encode(v), true
	}
	return nil, false
}

// Charge returns the charge as the API would, in Stripe's JSON.
func (s *Sim) Charge(id string) (json []byte, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if v, ok := s.charges[id]; ok {
		return encode(v), true
	}
	return nil, false
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
	if s.observe != nil {
		s.observe(line)
	}
}

func cloneEndpoints(list []Endpoint) []Endpoint {
	out := make([]Endpoint, len(list))
	for i, e := range list {
		out[i] = Endpoint{URL: e.URL, Secrets: append([]string(nil), e.Secrets...)}
	}
	return out
}
