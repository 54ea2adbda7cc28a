package stripesim

import (
	"fmt"
	"slices"
	"time"
)

// Event is one event as delivered.
type Event struct {
	ID, Type string
	Body     []byte // exactly the bytes of every delivery
	Created  time.Time
}

// event is an Event with what changes after its creation: where it still has to arrive.
type event struct {
	object  eventObject // as created, pending_webhooks included
	body    []byte
	created time.Time
	pending map[int]bool // positions of endpoints that have not yet answered 2xx
}

func (e *event) public() Event {
	return Event{ID: e.object.ID, Type: e.object.Type, Body: slices.Clone(e.body), Created: e.created}
}

// current is the event as the API shows it: as created, save for the count of endpoints still waiting for it.
func (e *event) current() eventObject {
	o := e.object
	o.PendingWebhooks = int64(len(e.pending))
	return o
}

// Events returns every event so far in the order of creation.
func (s *Sim) Events() []Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]Event, len(s.events))
	for i, e := range s.events {
		out[i] = e.public()
	}
	return out
}

// Deliver delivers an event again, now, to every endpoint, with the retry schedule and in the background. Stripe calls it
// a resend: the event keeps its id and its bytes.
func (s *Sim) Deliver(eventID string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.findEvent(eventID)
	if e == nil {
		return fmt.Errorf("deliver %s: %w", eventID, ErrNoEvent)
	}
	for i := range s.endpoints {
		s.startDelivery(e, i, 0)
	}
	return nil
}

// cause is what an action and its events share.
type cause struct {
	now     time.Time
	request eventRequest // goes into the events of intents and charges
	session eventRequest // goes into the events of sessions
	hold    bool         // create, deliver nothing
}

// byBuyer is the cause of what happens on the pay page. Stripe's page confirms the intent by a request of its own, which
// the events of intent and charge name; the session's event names none.
func (s *Sim) byBuyer() cause {
	return cause{now: s.cfg.Now(), request: eventRequest{
		ID: optional(s.cfg.NewID("req_")), IdempotencyKey: optional(s.cfg.NewID("")),
	}}
}

// byStripe is the cause of what happens with nobody asking, as a bank's late answer.
func (s *Sim) byStripe() cause { return cause{now: s.cfg.Now()} }

// emit creates an event that holds object as it is at this moment, and starts its deliveries. s.mu is held.
func (s *Sim) emit(c cause, typ string, object any) Event {
	req := c.request
	if _, ok := object.(*session); ok {
		req = c.session
	}
	e := &event{created: time.Unix(c.now.Unix(), 0).UTC(), pending: map[int]bool{}}
	e.object = eventObject{
		ID: s.cfg.NewID("evt_"), Object: "event", APIVersion: APIVersion, Created: c.now.Unix(),
		Data: eventData{Object: encode(object)}, Livemode: s.cfg.Livemode,
		PendingWebhooks: int64(len(s.endpoints)), Request: req, Type: typ,
	}
	e.body = encode(e.object)
	for i := range s.endpoints {
		e.pending[i] = true
	}
	s.events = append(s.events, e)
	if !c.hold {
		for i := range s.endpoints {
			for range 1 + s.cfg.Duplicates {
				s.startDelivery(e, i, s.cfg.Delay)
			}
		}
	}
	return e.public()
}

func (s *Sim) findEvent(id string) *event {
	for _, e := range s.events {
		if e.object.ID == id {
			return e
		}
	}
	return nil
}
