// Package mailapitest is an HTTP mail service for tests: it takes mails under idempotency keys,
// in the shape of Resend's API, and can fail at any point of a request.
//
// It owns nothing but its listener. It promises what such a service promises: one key is one
// mail, a key that comes again is answered as it was the first time, and one that comes with
// other bytes is refused. So a test can tell what a recipient would have got from what the
// sender believes. It shares no code with what it judges.
package mailapitest

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// Mail is a mail that the service has taken.
type Mail struct {
	Key     string
	From    string            `json:"from"`
	To      []string          `json:"to"`
	Subject string            `json:"subject"`
	HTML    string            `json:"html"`
	Text    string            `json:"text"`
	Headers map[string]string `json:"headers"`
}

// Fault is something that goes wrong with one request.
type Fault struct {
	AfterWork  bool // the mail is taken all the same
	Status     int  // the answer; 0: none, the connection is cut
	Name       string
	RetryAfter string
	Silent     bool // no answer, until the client gives up or the test ends
	Body       string
}

// Server is a mail service.
type Server struct {
	URL string

	apiKey string
	closed chan struct{}

	mu     sync.Mutex
	faults []Fault
	mails  []Mail
	known  map[string]first // by key
	asked  int
}

// first is the first use of a key.
type first struct {
	payload [32]byte
	id      string
}

// New starts a service that takes apiKey; it is closed when the test ends.
func New(tb testing.TB, apiKey string) *Server {
	tb.Helper()
	s := &Server{apiKey: apiKey, closed: make(chan struct{}), known: map[string]first{}}
	server := httptest.NewServer(http.HandlerFunc(s.serve))
	s.URL = server.URL
	tb.Cleanup(func() { close(s.closed); server.Close() })
	return s
}

// Fail has the next requests fail, one each.
func (s *Server) Fail(faults ...Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, faults...)
}

// Mails are the mails that have been taken, in the order in which they were.
func (s *Server) Mails() []Mail {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Mail(nil), s.mails...)
}

// Requests is how often the service was asked to send.
func (s *Server) Requests() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

// Forget forgets all keys, as a day does.
func (s *Server) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.known)
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, 10<<20))
	if err != nil {
		return
	}
	s.mu.Lock()
	s.asked++
	var fault *Fault
	if len(s.faults) > 0 {
		fault, s.faults = &s.faults[0], s.faults[1:]
	}
	var status int
	var answer map[string]any
	if fault == nil || fault.AfterWork {
		status, answer = s.take(r, body)
	}
	s.mu.Unlock()

	switch {
	case fault == nil:
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(answer)
	case fault.Silent:
		select {
		case <-r.Context().Done():
		case <-s.closed:
		}
	case fault.Status == 0:
		panic(http.ErrAbortHandler)
	default:
		if fault.RetryAfter != "" {
			w.Header().Set("Retry-After", fault.RetryAfter)
		}
		w.WriteHeader(fault.Status)
		if fault.Body != "" {
			_, _ = io.WriteString(w, fault.Body)
			return
		}
		_ = json.NewEncoder(w).Encode(refusal(fault.Status, fault.Name, "as the test asked"))
	}
}

// take is the service itself.
func (s *Server) take(r *http.Request, body []byte) (int, map[string]any) {
	refuse := func(status int, name, message string) (int, map[string]any) {
		return status, refusal(status, name, message)
	}
	switch {
	case r.URL.Path != "/emails":
		return refuse(http.StatusNotFound, "not_found", "The requested endpoint does not exist")
	case r.Method != http.MethodPost:
		return refuse(http.StatusMethodNotAllowed, "method_not_allowed", "Method is not allowed")
	case r.Header.Get("Authorization") != "Bearer "+s.apiKey:
		return refuse(http.StatusForbidden, "invalid_api_key", "API key is invalid: "+strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))
	}
	key := r.Header.Get("Idempotency-Key")
	if key == "" || len(key) > 256 {
		return refuse(http.StatusBadRequest, "invalid_idempotency_key", "The key must be between 1-256 chars")
	}
	payload := sha256.Sum256(body)
	if before, ok := s.known[key]; ok {
		if before.payload != payload {
			return refuse(http.StatusConflict, "invalid_idempotent_request", "Same idempotency key used with a different request payload")
		}
		return http.StatusOK, map[string]any{"id": before.id}
	}
	var m Mail
	if err := json.Unmarshal(body, &m); err != nil {
		return refuse(http.StatusBadRequest, "validation_error", err.Error())
	}
	if m.From == "" || len(m.To) == 0 || m.Subject == "" || m.Text == "" && m.HTML == "" {
		return refuse(http.StatusUnprocessableEntity, "missing_required_field", "Missing a required field")
	}
	for _, to := range m.To {
		if local, domain, ok := strings.Cut(to, "@"); !ok || local == "" || domain == "" || strings.ContainsAny(to, ", \r\n") {
			return refuse(http.StatusUnprocessableEntity, "validation_error", "Invalid `to` field")
		}
	}
	m.Key = key
	s.mails = append(s.mails, m)
	id := fmt.Sprintf("mail-%d-%d", len(s.mails), time.Now().UnixNano())
	s.known[key] = first{payload: payload, id: id}
	return http.StatusOK, map[string]any{"id": id}
}

func refusal(status int, name, message string) map[string]any {
	return map[string]any{"statusCode": status, "name": name, "message": message}
}
