package stripesim

import (
	"net/http"
	"time"
)

// keyLife is how long a key is remembered. Stripe may forget one that is older
// (https://docs.stripe.com/api/idempotent_requests); the Sim always does.
const keyLife = 24 * time.Hour

// keyed is what is remembered of the first request with an Idempotency-Key.
type keyed struct {
	requestID string
	endpoint  string // method and path
	params    string // canonical
	at        time.Time
	done      bool // false while the first request is in flight
	answer    answer
}

// underKey runs work once for all requests that carry the same key with the same endpoint and parameters.
func (s *Sim) underKey(req *request, work func() answer) answer {
	s.mu.Lock()
	first, known := s.keys[req.key]
	if known && first.done && req.now.Sub(first.at) >= keyLife {
		known = false
	}
	if known {
		defer s.mu.Unlock()
		return s.replay(first, req)
	}
	first = &keyed{requestID: req.id, endpoint: req.endpoint, params: req.params.canonical(), at: req.now}
	s.keys[req.key] = first
	s.mu.Unlock()

	// Whatever becomes of the work, the key must not stay in flight for ever.
	var a answer
	defer func() {
		s.mu.Lock()
		defer s.finish()
		first.done, first.answer = true, a
		if !a.saved {
			delete(s.keys, req.key)
		}
	}()
	a = work()
	return a
}

// replay answers a request whose key is known. s.mu is held.
func (s *Sim) replay(first *keyed, req *request) answer {
	switch {
	case first.endpoint != req.endpoint:
		return s.refuse(req, keyReused(req.key, "Keys for idempotent requests belong to one endpoint ('%s', not '%s').",
			first.endpoint, req.endpoint))
	case first.params != req.params.canonical():
		return s.refuse(req, keyReused(req.key, "Keys for idempotent requests belong to the parameters first used with them."))
	case !first.done:
		return s.refuse(req, keyInUse(req.key))
	}
	a := first.answer
	a.replayed, a.original = true, first.requestID
	return a
}

// savable reports whether an injected status is one that Stripe would keep under the key: a result of execution (402, or
// 5xx), not a refusal before it.
func savable(status int) bool {
	return status == http.StatusPaymentRequired || status >= http.StatusInternalServerError
}
