package stripesim

import (
	"net/http"
	"path"
	"slices"
	"strings"
	"time"
)

// FaultKind is what happens to the connection.
type FaultKind int

// The kinds, by number or in JSON by name: answered, lose_answer, lose_request.
const (
	// Answered is a request that gets its answer: the fault is only a Status, a Delay or a Gate.
	Answered FaultKind = iota
	// LoseAnswer does the work and then cuts the connection.
	LoseAnswer
	// LoseRequest cuts the connection before anything is done.
	LoseRequest
)

// Fault is what goes wrong with the next Times API requests that match Method and Path.
type Fault struct {
	Method string // "" is any
	Path   string // a path.Match pattern or a prefix; "" is any
	Times  int    // default 1
	Kind   FaultKind

	Status     int    // answer this status with a Stripe error body, instead of doing the work
	AfterWork  bool   // with Status: do the work first, so that the 500 tells nothing about it
	Code       string // with Status: the error's code instead of the usual one, as lock_timeout for a 429
	RetryAfter string // with Status: the Retry-After header

	Delay time.Duration   // wait before the work, with the Idempotency-Key in flight and the object of the path locked
	Gate  <-chan struct{} // likewise, until this is closed
}

// Inject adds a fault. Faults are asked in the order of their injection; a request takes at most one.
func (s *Sim) Inject(f Fault) {
	if f.Times < 1 {
		f.Times = 1
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, &f)
}

// takeFault returns the fault of this request, used up by one; the zero Fault if there is none.
func (s *Sim) takeFault(r *http.Request) Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, f := range s.faults {
		if f.Method != "" && f.Method != r.Method || !matches(f.Path, r.URL.Path) {
			continue
		}
		f.Times--
		if f.Times == 0 {
			s.faults = slices.Delete(s.faults, i, i+1)
		}
		return *f
	}
	return Fault{}
}

func matches(pattern, p string) bool {
	if strings.HasPrefix(p, pattern) {
		return true
	}
	ok, err := path.Match(pattern, p)
	return ok && err == nil
}

// linger is the wait a fault asks for. It does not end when the client gives up: Stripe goes on working too.
func (s *Sim) linger(f Fault) {
	s.wait(f.Delay)
	if f.Gate != nil {
		select {
		case <-f.Gate:
		case <-s.ctx.Done():
		}
	}
}

// lockObject is the wait of a fault with the object of the path locked, as Stripe locks what a request works on: whoever
// wants to change it meanwhile is answered 429 lock_timeout (https://docs.stripe.com/rate-limits#object-lock-timeouts).
func (s *Sim) lockObject(req *request, f Fault) *apiError {
	if req.method != http.MethodPost || req.target == "" {
		s.linger(f)
		return nil
	}
	s.mu.Lock()
	locked := s.locked[req.target]
	mine := !locked && (f.Delay > 0 || f.Gate != nil)
	if mine {
		s.locked[req.target] = true
	}
	s.mu.Unlock()
	if locked {
		return &apiError{
			status: http.StatusTooManyRequests, kind: "invalid_request_error", code: "lock_timeout", unsaved: true,
			message: "This object cannot be accessed right now because another API request is accessing it. Try again.",
		}
	}
	s.linger(f)
	if mine {
		s.mu.Lock()
		delete(s.locked, req.target)
		s.mu.Unlock()
	}
	return nil
}

// failure is the answer of a fault with a Status.
func (s *Sim) failure(f Fault, req *request) answer {
	e := &apiError{status: f.Status, kind: "invalid_request_error", message: "Injected by the simulated Stripe."}
	switch {
	case f.Status == http.StatusTooManyRequests:
		e.code = "rate_limit"
	case f.Status == http.StatusConflict:
		e.code = "lock_timeout"
		if req.key != "" {
			e.code = "idempotency_key_in_use"
		}
	case f.Status == http.StatusPaymentRequired:
		e.kind, e.code = "card_error", "card_declined"
	case f.Status >= http.StatusInternalServerError:
		e.kind = "api_error"
	}
	if f.Code != "" {
		e.code = f.Code
	}
	a := s.refuse(req, e)
	a.retryAfter, a.saved = f.RetryAfter, savable(f.Status)
	return a
}

// cut ends the connection without an answer. The first bytes of a status line are sent before it: on a connection that was
// used before, Go's transport repeats by itself a request that has an Idempotency-Key and got no byte back, and the loss
// would never be seen by the client under test.
func cut(w http.ResponseWriter) {
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler) // the server's own way to cut, where a connection cannot be taken over
	}
	_, _ = buffered.WriteString("HTTP/1.1 ")
	_ = buffered.Flush()
	_ = conn.Close()
}
