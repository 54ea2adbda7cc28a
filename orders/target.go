package orders

import (
	"cmp"
	"slices"
	"time"
)

// PaymentFacts is what a payment contributes to the state of its order.
type PaymentFacts struct {
	ResourceID string    // the checkout object's id; breaks ties
	CreatedAt  time.Time // when the provider created that object

	Status   Status
	Agreed   bool   // received is what was expected, or what a person accepted
	Disagree Reason // why not; set if Status is succeeded and Agreed is false
	Accepted bool   // a person accepted what was received

	Returned    bool // all of the money went back
	DisputeOpen bool
	DisputeLost bool
}

// Facts is all that the state of an order depends on.
type Facts struct {
	Payments  []PaymentFacts
	Fulfilled bool // its licenses were issued, at whatever time
	Decision  Decision
}

// Target is the state that the facts call for, and the reason if that is Review. It is a
// pure function: the order in which the facts became known is not among its inputs (I5).
//
// In this table a payment is live if it succeeded, is agreed, was not returned in full and
// lost no dispute. Rows are tried from the top; the first that fits decides.
//
//	    payments                                        decision    licenses  target
//	 1  an agreed success, none live, a dispute lost    any         any       charged_back
//	 2  an agreed success, none live                    any         any       refunded
//	 3  a live one                                      canceled    any       review: paid_after_cancel
//	 4  a live one; the counted one is disputed         not canc.   any       disputed
//	 5  a live one                                      not canc.   issued    fulfilled
//	 6  a live one                                      not canc.   none      paid
//	 7  only successes not agreed, money left           any         any       review: amount | currency | capture
//	 8  only successes not agreed, a dispute lost       any         any       charged_back
//	 9  only successes not agreed, all returned         any         any       refunded
//	10  no success                                      canceled    any       canceled
//	11  no success, one processing                      not canc.   any       confirming
//	12  no success, none processing, one open           not canc.   any       pending
//	13  none of those, one failed                       not canc.   any       failed
//	14  none of those, one expired                      not canc.   any       expired
//	15  all canceled                                    not canc.   any       canceled
//	16  no payment at all                               not canc.   any       pending
//
// So the expiry, failure or cancelation of one checkout never moves an order that another
// one pays (rows 1–6 come first), and money that comes after an expiry fulfills.
func Target(f Facts) (State, Reason) {
	var agreed, disagreed []PaymentFacts
	for _, p := range sorted(f.Payments) {
		switch {
		case p.Status != StatusSucceeded:
		case p.Agreed:
			agreed = append(agreed, p)
		default:
			disagreed = append(disagreed, p)
		}
	}
	switch {
	case len(agreed) > 0:
		return targetOfAgreed(agreed, f.Fulfilled, f.Decision)
	case len(disagreed) > 0:
		return targetOfDisagreed(disagreed)
	default:
		return targetOfUnpaid(f.Payments, f.Decision), NoReason
	}
}

// targetOfAgreed is rows 1 to 6.
func targetOfAgreed(agreed []PaymentFacts, fulfilled bool, decision Decision) (State, Reason) {
	counted, ok := first(agreed, PaymentFacts.live)
	switch {
	case !ok:
		return gone(agreed), NoReason
	case decision == DecisionCanceled:
		return Review, ReasonPaidAfterCancel
	case counted.DisputeOpen:
		return Disputed, NoReason
	case fulfilled:
		return Fulfilled, NoReason
	}
	return Paid, NoReason
}

// targetOfDisagreed is rows 7 to 9.
func targetOfDisagreed(disagreed []PaymentFacts) (State, Reason) {
	if left, ok := first(disagreed, PaymentFacts.moneyLeft); ok {
		return Review, left.Disagree
	}
	return gone(disagreed), NoReason
}

// targetOfUnpaid is rows 10 to 16.
func targetOfUnpaid(payments []PaymentFacts, decision Decision) State {
	has := func(s Status) bool {
		return slices.ContainsFunc(payments, func(p PaymentFacts) bool { return p.Status == s })
	}
	switch {
	case decision == DecisionCanceled:
		return Canceled
	case has(StatusProcessing):
		return Confirming
	case has(StatusOpen):
		return Pending
	case has(StatusFailed):
		return Failed
	case has(StatusExpired):
		return Expired
	case has(StatusCanceled):
		return Canceled
	}
	return Pending
}

// gone tells how the money of successes went, none of which has any left.
func gone(successes []PaymentFacts) State {
	if slices.ContainsFunc(successes, func(p PaymentFacts) bool { return p.DisputeLost }) {
		return ChargedBack
	}
	return Refunded
}

// Counted is the payment that pays the order: the live one that is first by (accepted,
// creation of its checkout, id), never by arrival. Every other success that still has money
// is surplus. ok is false if nothing is live.
func Counted(payments []PaymentFacts) (counted PaymentFacts, ok bool) {
	return first(sorted(payments), func(p PaymentFacts) bool { return p.Status == StatusSucceeded && p.Agreed && p.live() })
}

func (p PaymentFacts) moneyLeft() bool { return !p.Returned && !p.DisputeLost }

// live is asked of agreed successes only.
func (p PaymentFacts) live() bool { return p.moneyLeft() }

// sorted orders payments the way they count, whatever the order in which they were read.
func sorted(payments []PaymentFacts) []PaymentFacts {
	return slices.SortedFunc(slices.Values(payments), func(a, b PaymentFacts) int {
		if a.Accepted != b.Accepted {
			if a.Accepted {
				return -1
			}
			return 1
		}
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ResourceID, b.ResourceID))
	})
}

func first(payments []PaymentFacts, fits func(PaymentFacts) bool) (PaymentFacts, bool) {
	if i := slices.IndexFunc(payments, fits); i >= 0 {
		return payments[i], true
	}
	return PaymentFacts{}, false
}
