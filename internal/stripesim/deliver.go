package stripesim

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"
)

// Attempt is one try to deliver an event to an endpoint.
type Attempt struct {
	EventID, EventType string
	URL                string
	Number             int // 1 is the first try of its delivery
	Status             int // 0 when no answer came
	Err                string
	At                 time.Time
}

// Attempts returns every attempt that has ended, in the order in which they ended.
func (s *Sim) Attempts() []Attempt {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.attempts)
}

// Idle waits until no delivery is outstanding: each was answered 2xx, ran out of attempts or lost its endpoint.
func (s *Sim) Idle(ctx context.Context) error {
	s.mu.Lock()
	if s.outstanding == 0 {
		s.mu.Unlock()
		return nil
	}
	done := make(chan struct{})
	s.idle = append(s.idle, done)
	s.mu.Unlock()

	select {
	case <-done:
		if s.ctx.Err() != nil {
			return ErrClosed
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting for deliveries to end: %w", ctx.Err())
	}
}

// startDelivery sends e to an endpoint, after a wait, in a goroutine of the Sim's. s.mu is held.
func (s *Sim) startDelivery(e *event, endpoint string, wait time.Duration) {
	if s.closed {
		return
	}
	s.outstanding++
	e.running[endpoint]++
	s.tasks.Go(func() {
		defer s.endDelivery(e, endpoint)
		if s.wait(wait) {
			s.deliver(e, endpoint)
		}
	})
}

func (s *Sim) endDelivery(e *event, endpoint string) {
	s.mu.Lock()
	defer s.finish()
	s.outstanding--
	if s.ctx.Err() == nil { // what Close cut off goes on where the state is opened again
		e.running[endpoint]--
	}
	if s.outstanding == 0 {
		for _, done := range s.idle {
			close(done)
		}
		s.idle = nil
	}
}

// deliver tries until the endpoint answers 2xx or the schedule ends. The endpoint is looked up before each attempt, so
// that one that moved or rolled its secret meanwhile is reached as it is now.
func (s *Sim) deliver(e *event, endpoint string) {
	for number := 1; ; number++ {
		to, ok := s.reach(endpoint)
		if !ok {
			return
		}
		if s.attempt(e, to, number) {
			s.mu.Lock()
			delete(e.pending, endpoint)
			s.mu.Unlock()
			return
		}
		if number > len(s.cfg.RetrySchedule) || !s.wait(s.cfg.RetrySchedule[number-1]) {
			return
		}
	}
}

// attempt posts the event once, signed anew, and reports whether it was accepted. Whatever is not 2xx is a failure, a
// redirect too (https://docs.stripe.com/webhooks#http-status-code-3xx).
func (s *Sim) attempt(e *event, to Endpoint, number int) bool {
	a := Attempt{EventID: e.object.ID, EventType: e.object.Type, URL: to.URL, Number: number, At: s.now()}
	status, err := s.post(e, to)
	a.Status = status
	if err != nil {
		a.Err = err.Error()
	}
	s.mu.Lock()
	s.attempts = append(s.attempts, a)
	s.mu.Unlock()

	s.cfg.Log.Debug("webhook attempt", "event_id", a.EventID, "type", a.EventType, "url", a.URL, "number", number,
		"status", status, "error", a.Err)
	result := fmt.Sprint(status)
	if err != nil {
		result = "no answer (" + a.Err + ")"
	}
	s.say(fmt.Sprintf("event    %s %s → %s %s, attempt %d", a.EventType, a.EventID, a.URL, result, number))
	return err == nil && status >= 200 && status < 300
}

func (s *Sim) post(e *event, to Endpoint) (int, error) {
	body := e.bodyFor(to)
	ctx, cancel := context.WithTimeout(s.ctx, s.cfg.AttemptTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to.URL, bytes.NewReader(body))
	if err != nil {
		return 0, fmt.Errorf("addressing %q: %w", to.URL, err)
	}
	at := s.cfg.Now() // not the moved clock: the receiver's was not moved with it
	signature := Sign(body, at, to.Secrets...)
	if !s.cfg.Livemode {
		signature += decoy(body, at)
	}
	req.Header.Set("Accept", "*/*; q=0.5, application/xml")
	req.Header.Set("Content-Type", "application/json; charset=utf-8")
	req.Header.Set("Stripe-Signature", signature)
	req.Header.Set("User-Agent", "Stripe/1.0 (+https://stripe.com/docs/webhooks)")
	res, err := s.client.Do(req) //nolint:gosec // to post where it is told is what an endpoint is
	if err != nil {
		return 0, err
	}
	defer func() { _ = res.Body.Close() }()
	// Read so that the connection can be used again; bounded, since a receiver may send anything.
	_, err = io.Copy(io.Discard, io.LimitReader(res.Body, 64<<10))
	return res.StatusCode, err
}

// deliveryClient is the given client, or one of our own, that hands a redirect back instead of following it.
func deliveryClient(given *http.Client) *http.Client {
	c := &http.Client{}
	if given != nil {
		*c = *given
	} else if t, ok := http.DefaultTransport.(*http.Transport); ok {
		own := t.Clone()
		own.MaxIdleConnsPerHost = 32
		c.Transport = own
	}
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return c
}
