package stripesim

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"
)

const (
	maxBody = 1 << 20 // bytes of a request; Stripe publishes no number, and no form of its API comes near
	maxKey  = 255     // characters of an Idempotency-Key (https://docs.stripe.com/api/idempotent_requests)
)

// Call is one API request as it arrived, and what became of it.
type Call struct {
	RequestID      string
	Method, Path   string
	Query          string
	IdempotencyKey string
	Body           []byte
	Replayed       bool // answered from what was kept under its key
	Status         int  // 0 while in flight, and for a request lost before any work
	Lost           bool // the connection was cut instead of answering
	At             time.Time
}

// Calls returns every API request seen, in order of arrival.
func (s *Sim) Calls() []Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := slices.Clone(s.calls)
	for i := range out {
		out[i].Body = slices.Clone(out[i].Body)
	}
	return out
}

// request is what an endpoint needs of the HTTP request.
type request struct {
	id       string // req_…
	method   string
	key      string // Idempotency-Key of a POST
	endpoint string // method and path, what a key belongs to
	now      time.Time
	params   *node
	target   string // {id} of the path
	host     string // as the client named us
	call     int    // index into calls
}

func (r *request) cause() cause {
	by := eventRequest{ID: optional(r.id), IdempotencyKey: optional(r.key)}
	return cause{at: r.now, request: by, session: by}
}

// answer is what goes out.
type answer struct {
	status     int
	body       []byte
	saved      bool // kept under the key
	replayed   bool
	original   string // request that made a replayed answer
	retryAfter string
}

// Handler serves the API under /v1/, the page where a buyer pays under /pay/, and under /_sim/ what Stripe does not have:
// the clock, faults and secret rolling for those who drive the Sim from another process.
func (s *Sim) Handler() http.Handler {
	mux := http.NewServeMux()
	for _, rt := range append(routes(), route{pattern: "/v1/"}) { // the last is whatever else is asked for
		//nolint:contextcheck // deliveries outlive the request that caused them
		mux.HandleFunc(rt.pattern, func(w http.ResponseWriter, r *http.Request) { s.serve(w, r, rt) })
	}
	mux.HandleFunc("GET /pay/{session}", s.showPayPage)
	mux.HandleFunc("POST /pay/{session}", s.postPayPage)
	s.handleControl(mux)
	return mux
}

// serve takes one API request through its fault, its key and its endpoint.
func (s *Sim) serve(w http.ResponseWriter, r *http.Request, rt route) {
	body, readErr := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	req := s.arrive(r, body)
	f := s.takeFault(r)
	if f.Kind == LoseRequest {
		s.linger(f)
		s.depart(req, answer{}, true)
		cut(w)
		return
	}
	a := s.answer(r, req, rt, f, body, readErr)
	s.depart(req, a, f.Kind == LoseAnswer)
	if f.Kind == LoseAnswer {
		cut(w)
		return
	}
	a.write(w, req)
}

func (s *Sim) arrive(r *http.Request, body []byte) *request {
	req := &request{
		id: s.cfg.NewID("req_"), method: r.Method, endpoint: r.Method + " " + r.URL.Path, now: s.now(), target: r.PathValue("id"),
		host: r.Host,
	}
	if r.Method == http.MethodPost {
		req.key = r.Header.Get("Idempotency-Key") // others ignore it
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	req.call = len(s.calls)
	s.calls = append(s.calls, Call{
		RequestID: req.id, Method: r.Method, Path: r.URL.Path, Query: r.URL.RawQuery,
		IdempotencyKey: r.Header.Get("Idempotency-Key"), Body: body, At: req.now,
	})
	return req
}

func (s *Sim) depart(req *request, a answer, lost bool) {
	s.mu.Lock()
	c := &s.calls[req.call]
	c.Status, c.Replayed, c.Lost = a.status, a.replayed, lost
	s.mu.Unlock()

	line := fmt.Sprintf("request  %s → %d", req.endpoint, a.status)
	if req.key != "" {
		line += ", key " + req.key
	}
	if a.replayed {
		line += ", answered before"
	}
	if lost {
		line += ", connection cut"
	}
	s.say(line)
	s.cfg.Log.Debug("api request", "request_id", req.id, "endpoint", req.endpoint, "status", a.status, "key", req.key,
		"replayed", a.replayed, "lost", lost)
}

func (s *Sim) answer(r *http.Request, req *request, rt route, f Fault, body []byte, readErr error) answer {
	var tooLarge *http.MaxBytesError
	if errors.As(readErr, &tooLarge) {
		return s.refuse(req, &apiError{
			status: http.StatusRequestEntityTooLarge, kind: "invalid_request_error", message: "The request body is too large.",
		})
	} else if readErr != nil {
		return s.refuse(req, invalid("", "", "The request body could not be read."))
	}
	if err := s.authorize(r); err != nil {
		return s.refuse(req, err)
	}
	if rt.run == nil {
		return s.refuse(req, unrecognized(r))
	}
	if s.tooMany(req.now) {
		a := s.refuse(req, &apiError{
			status: http.StatusTooManyRequests, kind: "invalid_request_error", code: "rate_limit", unsaved: true,
			message: "Request rate limit exceeded.",
		})
		a.retryAfter = s.cfg.RetryAfter
		return a
	}
	form := string(body)
	if r.Method != http.MethodPost {
		form = r.URL.RawQuery
	}
	var err *apiError
	if req.params, err = parseForm(form); err != nil {
		return s.refuse(req, err)
	}
	if len(req.key) > maxKey {
		return s.refuse(req, invalid("", "", "An Idempotency-Key may have at most %d characters.", maxKey))
	}
	work := func() answer { return s.execute(req, rt, f) }
	if req.key != "" {
		return s.underKey(req, work)
	}
	return work()
}

// execute does the work of a request, or what a fault puts in its place.
func (s *Sim) execute(req *request, rt route, f Fault) answer {
	if err := s.lockObject(req, f); err != nil {
		return s.refuse(req, err)
	}
	if f.Status != 0 && !f.AfterWork {
		return s.failure(f, req)
	}
	if err := rt.params.check("", req.params); err != nil {
		return s.refuse(req, err)
	}
	if err := checkExpand(rt.of, req.params.strs("expand")); err != nil {
		return s.refuse(req, err)
	}
	a := s.run(req, rt)
	s.save()
	if f.Status != 0 {
		return s.failure(f, req)
	}
	return a
}

// run is the endpoint's work as one step for everybody else: what has fallen due before it, the work, its answer, and what
// falls due at once because of it.
func (s *Sim) run(req *request, rt route) answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.act(cause{at: req.now}, nil)
	before.sweep()
	var a answer
	if v, err := rt.run(s, req); err == nil {
		a = answer{status: http.StatusOK, body: encode(s.expand(v, req.params.strs("expand"))), saved: true}
	} else {
		a = s.refuse(req, err)
	}
	after := s.act(cause{at: req.now}, nil)
	after.sweep()
	if req.method != http.MethodGet || len(before.events)+len(after.events) > 0 {
		s.version++
	}
	return a
}

// tooMany counts requests per second of the clock.
func (s *Sim) tooMany(now time.Time) bool {
	if s.cfg.RateLimit <= 0 {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.Unix() != s.second {
		s.second, s.asked = now.Unix(), 0
	}
	s.asked++
	return s.asked > s.cfg.RateLimit
}

func (s *Sim) refuse(req *request, e *apiError) answer {
	return answer{status: e.status, body: e.body(s.cfg.Account, req.id), saved: !e.unsaved}
}

func (a answer) write(w http.ResponseWriter, req *request) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Request-Id", req.id)
	h.Set("Stripe-Version", APIVersion)
	if req.key != "" {
		h.Set("Idempotency-Key", req.key)
		h.Set("Original-Request", req.id)
	}
	if a.replayed {
		h.Set("Idempotent-Replayed", "true")
		h.Set("Original-Request", a.original)
	}
	if a.retryAfter != "" {
		h.Set("Retry-After", a.retryAfter)
	}
	if a.status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", `Basic realm="Stripe"`)
	}
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body) // the client may have gone; nothing is left to do for it
}
