package webhooks

import (
	"net/http"
	"time"
)

// Provider knows one sender of webhooks: how it signs, and how its bodies are read.
type Provider interface {
	// Name is the provider's name in the ledger and in the path: "stripe".
	Name() string

	// SignatureHeader is the header without which a request is refused before its body
	// is read.
	SignatureHeader() string

	// Verify checks the signature over the raw body and reads the envelope: what the
	// ledger needs, and no more. It returns [ErrNoSignature], [ErrBadSignature],
	// [SkewError] or [ErrNotEvent].
	Verify(header http.Header, body []byte, now time.Time) (Envelope, error)

	// Parse reads a stored body into a normalized event. It is called by the drainer,
	// long after the answer. It returns [ErrUnsupported] for what it cannot read.
	Parse(body []byte) (Event, error)
}

// Envelope is what the ledger stores about an event beside its body. All of it comes from
// the verified body, never from an unsigned header.
type Envelope struct {
	Provider   string
	EventID    string
	EventType  string
	ResourceID string // the id of the object the event is about; "" if it names none
	Livemode   bool
	Account    string // "" for an event of the endpoint's own account
	APIVersion string
	OccurredAt time.Time // UTC, seconds; zero if the event does not say
}

// Status is what an event says about a payment. The words are those of the orders package.
type Status string

// Statuses, from the least to the most an event can say.
const (
	StatusNone       Status = "" // nothing: the event only names the payment
	StatusProcessing Status = "processing"
	StatusFailed     Status = "failed"
	StatusExpired    Status = "expired"
	StatusCanceled   Status = "canceled"
	StatusSucceeded  Status = "succeeded"
)

// Event is a delivery's body, normalized: which payment it names and what it says of it.
type Event struct {
	// Resources are all ids under which the event names the payment, the object's own
	// first. Any one of them that we recorded finds the payment (I2).
	Resources []string

	// Handled is false for an event type that says nothing about payments.
	Handled bool

	Status Status

	// ReceivedMinor and Currency are what a success states to have been received;
	// IntendedMinor what was asked for. All in minor units. Meaningful only with
	// StatusSucceeded.
	ReceivedMinor int64
	IntendedMinor int64
	Currency      string

	// Breakdown is what the received total is made of; nil if the event does not say.
	Breakdown *Breakdown

	// Hint is set when the event says that something happened but lacks what is needed
	// to believe it: the payment's present state has to be read from the provider.
	Hint bool

	// CheckoutCreatedAt is the creation time of the checkout object, if this event
	// carries it; zero otherwise.
	CheckoutCreatedAt time.Time

	// OrderHint is the order that our own marker in the object's metadata names, as text;
	// "" if there is none. It helps to look for a missing resource. It is never proof
	// that the payment belongs to that order.
	OrderHint string
}

// Breakdown is what a total is made of, in minor units of its currency.
type Breakdown struct {
	SubtotalMinor int64
	DiscountMinor int64
	TaxMinor      int64
	ShippingMinor int64
}

// usableID reports whether s can be a key of the ledger: printable ASCII of a sane
// length. Stripe promises at most 255 characters for its ids.
func usableID(s string) bool {
	if s == "" || len(s) > 255 {
		return false
	}
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}
