package stripesim

import (
	"encoding/json"
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
	object   eventObject // as created and as the API shows it, pending_webhooks included
	body     []byte
	snapshot json.RawMessage            // the object in APIVersion
	older    map[string]json.RawMessage // members that versions before 2022-11-15 have beside it
	since    string                     // API version from which endpoints get this type
	created  time.Time
	pending  map[string]bool // ids of endpoints that have not yet answered 2xx
	running  map[string]int  // ids of endpoints with deliveries that have not ended
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
	out := make([]Event, 0, s.events.len())
	for _, e := range s.events.oldest() {
		out = append(out, e.public())
	}
	return out
}

// Deliver delivers an event again, now, to every endpoint, with the retry schedule and in the background. Stripe calls it
// a resend: the event keeps its id and its bytes.
func (s *Sim) Deliver(eventID string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.events.get(eventID)
	if e == nil {
		return fmt.Errorf("deliver %s: %w", eventID, ErrNoEvent)
	}
	s.redeliver(e, "")
	return nil
}

// redeliver sends e to one endpoint, or to all if none is named. s.mu is held.
func (s *Sim) redeliver(e *event, only string) {
	for _, h := range s.hooks.oldest() {
		if h.Status == "enabled" && (only == "" || only == h.ID) {
			s.startDelivery(e, h.ID, 0)
		}
	}
}

// cause is what an action and its events share.
type cause struct {
	at      time.Time
	request eventRequest // goes into the events of intents and charges
	session eventRequest // goes into the events of sessions
	hold    bool         // create, deliver nothing
}

// byBuyer is the cause of what happens on the pay page. Stripe's page confirms the intent by a request of its own, which
// the events of intent and charge name; the session's event names none.
func (s *Sim) byBuyer() cause {
	return cause{at: s.now(), request: eventRequest{
		ID: optional(s.cfg.NewID("req_")), IdempotencyKey: optional(s.cfg.NewID("")),
	}}
}

// byStripe is the cause of what happens with nobody asking, as a bank's late answer.
func (s *Sim) byStripe() cause { return cause{at: s.now()} }

// emitSince creates an event that holds object as it is at this moment, and starts its deliveries. A type that came with a
// later API version exists only where the account or an endpoint has that version, and goes to no other endpoint.
func (a *act) emitSince(since, typ string, object any) {
	var to []*webhookEndpoint
	known := a.cfg.EventAPIVersion >= since
	for _, h := range a.hooks.oldest() {
		if a.versionOf(h) < since {
			continue
		}
		known = true
		if h.wants(typ) {
			to = append(to, h)
		}
	}
	if !known {
		return
	}
	req := a.request
	if _, ok := object.(*session); ok {
		req = a.session
	}
	e := &event{
		created: time.Unix(a.at.Unix(), 0).UTC(), snapshot: encode(object), older: a.olderMembers(object), since: since,
		pending: map[string]bool{}, running: map[string]int{},
	}
	e.object = eventObject{
		ID: a.cfg.NewID("evt_"), Object: "event", APIVersion: a.cfg.EventAPIVersion, Created: a.at.Unix(),
		Data: eventData{Object: e.render(a.cfg.EventAPIVersion)}, Livemode: a.cfg.Livemode,
		PendingWebhooks: int64(len(to)), Request: req, Type: typ,
	}
	e.body = encode(e.object)
	a.Sim.events.add(e.object.ID, e)
	for _, h := range to {
		e.pending[h.ID] = true
		if !a.hold {
			for range 1 + a.cfg.Duplicates {
				a.startDelivery(e, h.ID, a.cfg.Delay)
			}
		}
	}
	a.events = append(a.events, e.public())
}
