package orders

// State is where an order stands.
type State string

// The states. The zero value is no state.
const (
	Pending     State = "pending"      // waiting for the buyer
	Confirming  State = "confirming"   // the buyer is done, the money is on its way
	Paid        State = "paid"         // agreed money is here, licenses are not issued yet
	Fulfilled   State = "fulfilled"    // paid, and the licenses are issued
	Review      State = "review"       // money is here and a person has to decide; review_reason says why
	Failed      State = "failed"       // the money did not come
	Expired     State = "expired"      // the buyer did not come
	Canceled    State = "canceled"     // called off before any money
	Refunded    State = "refunded"     // the money went back
	Disputed    State = "disputed"     // the buyer's bank asks for the money back
	ChargedBack State = "charged_back" // and got it
)

// States are all states, in the order in which pages and diagrams show them.
func States() []State {
	return []State{
		Pending, Confirming, Paid, Fulfilled, Review, Failed, Expired, Canceled, Refunded, Disputed, ChargedBack,
	}
}

// Event is a named step of the machine.
type Event string

// The steps. Each ends in exactly one state.
const (
	Confirm Event = "confirm" // → confirming
	Pay     Event = "pay"     // → paid, once per order for ever
	Fulfill Event = "fulfill" // → fulfilled
	Hold    Event = "hold"    // → review
	Expire  Event = "expire"  // → expired
	Fail    Event = "fail"    // → failed
	Cancel  Event = "cancel"  // → canceled
	Reopen  Event = "reopen"  // → pending
	Refund  Event = "refund"  // → refunded
	Dispute Event = "dispute" // → disputed
	Win     Event = "win"     // disputed → paid
	Lose    Event = "lose"    // → charged_back
	Restore Event = "restore" // → paid, for an order that was paid before
)

// Decision is what a person, or the buyer, decided about an order. The last one stands,
// and an acceptance replaces a cancelation.
type Decision string

// The decisions.
const (
	NoDecision       Decision = "none"
	DecisionCanceled Decision = "canceled"
	DecisionAccepted Decision = "accepted"
)

// Reason tells why an order is in review.
type Reason string

// The reasons.
const (
	NoReason              Reason = ""
	ReasonAmount          Reason = "amount"            // received is not what was asked for
	ReasonCurrency        Reason = "currency"          // received in another currency
	ReasonCapture         Reason = "capture"           // the right amount was authorized, less was captured
	ReasonPaidAfterCancel Reason = "paid_after_cancel" // agreed money for an order that was called off
)

// Status is what is known of one payment. It only ever rises.
type Status string

// The statuses, lowest first.
const (
	StatusOpen       Status = "open"
	StatusProcessing Status = "processing"
	StatusFailed     Status = "failed"
	StatusExpired    Status = "expired"
	StatusCanceled   Status = "canceled"
	StatusSucceeded  Status = "succeeded"
)

// Statuses are all statuses, lowest first.
func Statuses() []Status {
	return []Status{StatusOpen, StatusProcessing, StatusFailed, StatusExpired, StatusCanceled, StatusSucceeded}
}

// rank orders the statuses; an unknown one ranks below all.
func (s Status) rank() int {
	for rank, status := range Statuses() {
		if s == status {
			return rank
		}
	}
	return -1
}
