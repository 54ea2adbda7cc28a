package stripesim

import (
	"slices"
	"time"
)

// now is the Sim's own clock: Config.Now, moved by Advance.
func (s *Sim) now() time.Time { return s.cfg.Now().Add(time.Duration(s.offset.Load())) }

// Now returns the time by the Sim's clock.
func (s *Sim) Now() time.Time { return s.now() }

// Advance moves the clock by d, which may be negative, and does what falls due: see Tick.
func (s *Sim) Advance(d time.Duration) []Event {
	s.mu.Lock()
	s.offset.Add(int64(d))
	s.version++
	s.mu.Unlock()
	return s.Tick()
}

// Tick does what has fallen due by the clock: sessions past their expires_at expire, delayed payments settle, refunds and
// disputes that a test card asked for come about. Every API request ticks, and Serve does once a second.
func (s *Sim) Tick() []Event {
	s.mu.Lock()
	a := s.act(s.byStripe(), nil)
	a.sweep()
	if len(a.events) > 0 {
		s.version++
	}
	s.mu.Unlock()
	s.save()
	return a.events
}

// due is something that happens by itself at a time.
type due struct {
	At   int64
	What string // one of the names below
	ID   string // of the intent, charge or refund it happens to
}

const (
	dueSettles      = "settles"       // an intent in processing succeeds
	dueBounces      = "bounces"       // … fails
	dueDispute      = "dispute"       // a charge is disputed
	dueInquiry      = "inquiry"       // … inquired about
	dueRefundPasses = "refund passes" // a pending refund succeeds
	dueRefundFails  = "refund fails"  // a refund fails after all
)

// later remembers that what happens to id after the wait. s.mu is held.
func (a *act) later(wait time.Duration, what, id string) {
	a.due = append(a.due, due{At: a.at.Add(wait).Unix(), What: what, ID: id})
}

// sweep does everything that is due. s.mu is held.
func (a *act) sweep() {
	a.fallDue(func(due) bool { return true })
	now := a.at.Unix()
	if a.nextExpiry == 0 || now < a.nextExpiry {
		return
	}
	a.nextExpiry = 0
	for _, v := range a.sessions.oldest() {
		if v.Status == "open" && now >= v.ExpiresAt {
			a.expire(v)
		} else if v.Status == "open" {
			a.expiresAt(v.ExpiresAt)
		}
	}
}

// fallDue does what is due of those that are wanted: an action of the Go API asks for what it has itself brought about, so
// that its events are of nothing else.
func (a *act) fallDue(want func(due) bool) {
	for {
		i := slices.IndexFunc(a.due, func(d due) bool { return d.At <= a.at.Unix() && want(d) })
		if i < 0 {
			return
		}
		d := a.due[i]
		a.due = slices.Delete(a.due, i, i+1)
		a.happen(d)
	}
}

func (a *act) fallDueOf(ids ...string) {
	a.fallDue(func(d due) bool { return slices.Contains(ids, d.ID) })
}

// expiresAt keeps nextExpiry the earliest end of an open session, so that a sweep need not look at all of them.
func (s *Sim) expiresAt(at int64) {
	if s.nextExpiry == 0 || at < s.nextExpiry {
		s.nextExpiry = at
	}
}

// happen does one due thing, unless the object has moved on meanwhile.
func (a *act) happen(d due) {
	switch d.What {
	case dueSettles, dueBounces:
		if pi := a.intents.get(d.ID); pi != nil && pi.Status == "processing" {
			a.settle(pi, d.What == dueSettles)
		}
	case dueDispute, dueInquiry:
		if ch := a.charges.get(d.ID); ch != nil && ch.Captured {
			a.openDispute(ch, ch.Amount, "fraudulent", d.What == dueInquiry)
		}
	case dueRefundPasses:
		if r := a.refunds.get(d.ID); r != nil && r.Status == "pending" {
			a.changeRefund(r, "succeeded")
		}
	case dueRefundFails:
		if r := a.refunds.get(d.ID); r != nil && (r.Status == "pending" || r.Status == "succeeded") {
			a.changeRefund(r, "failed")
		}
	}
}
