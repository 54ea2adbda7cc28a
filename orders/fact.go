package orders

import (
	"time"

	"github.com/google/uuid"
)

// Cause is what led to a change: an event of a provider, a job, or a person. It is written
// beside every transition.
type Cause struct {
	Provider string // "stripe", or "job", or "person"
	EventID  string // the event's id; the job's kind; the person's name
}

// Fact is one statement about a payment, in the words of no provider.
type Fact struct {
	Provider  string
	Resources []string // every id by which the statement names the payment, its own object's first
	Livemode  bool
	Account   string

	// Status is what is claimed; "" claims nothing and only teaches the ids.
	Status Status

	// What a success states, in minor units; unused otherwise.
	ReceivedMinor    int64
	ReceivedCurrency string
	IntendedMinor    int64

	// Breakdown is what the received total is made of; nil if the statement does not say.
	// Only an adjustable payment cannot do without.
	Breakdown *Breakdown

	// ObjectCreatedAt is when the provider created the checkout object; zero if the
	// statement does not say.
	ObjectCreatedAt time.Time

	// Hint says that something happened which has to be read from the provider.
	Hint bool

	// Read marks a statement that was read from the provider as the payment's present
	// state, and ReadSeq the newest wish it answers. Unlike an event it may correct an
	// amount.
	Read    bool
	ReadSeq int64

	// Returns is what went back of the money; nil if the statement does not say. Only a read
	// says it: what an event tells of refunds and disputes may be over when it is applied.
	Returns *Returns

	Cause Cause
}

// Outcome is what became of a fact. Every one of them is a result; none is an error.
type Outcome string

// The outcomes.
const (
	Applied Outcome = "applied" // it changed what we know
	Held    Outcome = "held"    // it did, and the order is in review
	Already Outcome = "already" // all of it was known
	Stale   Outcome = "stale"   // more is known already
	Wanted  Outcome = "wanted"  // it cannot be believed as it stands: a read was asked for
	Unknown Outcome = "unknown" // no recorded payment goes by any of its ids
	Mode    Outcome = "mode"    // the payment is of another mode or account: nothing was touched
)

// Result is what Apply did.
type Result struct {
	Outcome   Outcome
	OrderID   uuid.UUID // zero if Unknown
	PaymentID uuid.UUID
	From, To  State // equal if the order did not move
	Reason    Reason
	News      []ReturnNews // what was not known before of refunds and disputes
}

// merge is what a fact does to a payment: pure, and monotone in its status.
type merge struct {
	changed bool // the row differs now
	stale   bool // the fact says less than what is known
	read    bool // the fact contradicts what is known, or is a hint
	returns bool // what it says went back is the newest that is known
}

// merge applies the fact to the payment in memory.
//
// Two facts of the same success may state different amounts: a session its total, an
// intent what was captured of it. Neither is believed over the other by its arrival: the
// contradiction asks for a read, and the read decides.
func (p *Payment) merge(f Fact) merge {
	var m merge
	if p.ObjectCreatedAt == nil && !f.ObjectCreatedAt.IsZero() {
		p.ObjectCreatedAt, m.changed = &f.ObjectCreatedAt, true
	}
	if f.Hint {
		m.read = true
	}
	switch {
	case f.Status == "":
	case f.Status.rank() < p.Status.rank():
		m.stale = true
	case f.Status != StatusSucceeded:
		m.changed = m.changed || f.Status != p.Status
		p.Status = f.Status
	case p.Status == StatusSucceeded && p.received(f):
		// A statement of the same success may be the one that says what it is made of.
		if p.Adjustable && p.breakdown() == nil && f.Breakdown != nil {
			p.setBreakdown(f.Breakdown)
			m.changed = true
		}
	case p.Adjustable && f.Breakdown == nil && !f.Read: // what was agreed cannot be told from this
		m.read = true
	case p.Status == StatusSucceeded && !f.Read:
		m.read = true
	case p.Status == StatusSucceeded && f.ReadSeq < p.ReadSeq: // answered before, by a later read
		m.stale = true
	default:
		p.Status, m.changed = StatusSucceeded, true
		p.ReceivedMinor, p.ReceivedCurrency, p.IntendedMinor = &f.ReceivedMinor, &f.ReceivedCurrency, &f.IntendedMinor
		p.setBreakdown(f.Breakdown)
	}
	if f.Read && f.Returns != nil && p.Status == StatusSucceeded && f.ReadSeq >= p.ReadSeq {
		m.changed = p.setReturns(*f.Returns) || m.changed
		m.returns = true
	}
	if f.Read && f.ReadSeq > p.ReadSeq {
		p.ReadSeq, m.changed = f.ReadSeq, true
	}
	return m
}

// received reports whether the payment's success is known with the fact's amounts.
func (p *Payment) received(f Fact) bool {
	return *p.ReceivedMinor == f.ReceivedMinor && *p.ReceivedCurrency == f.ReceivedCurrency && *p.IntendedMinor == f.IntendedMinor
}
