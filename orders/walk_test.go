package orders

// Inside the package, for the walk. Pure: the machine is real, and the rapid test plays an
// order's life with Target and the walk alone, as settle joins them.

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// refusals are the combinations for which a walk has no path, each with why no facts lead
// there. A success is never unsaid, so what happens after money stays after money.
func refusals() []struct {
	why  string
	fits func(from State, w walk) bool
} {
	withoutMoney := []State{Pending, Confirming, Failed, Expired, Canceled}
	live := []State{Paid, Fulfilled, Disputed}
	return []struct {
		why  string
		fits func(from State, w walk) bool
	}{
		{"a success is known, and statuses only rise", func(from State, w walk) bool {
			return !slices.Contains(withoutMoney, from) && slices.Contains(withoutMoney, w.target)
		}},
		{"licenses that were issued stay issued", func(from State, w walk) bool {
			return from == Fulfilled && w.target == Paid
		}},
		{"an order that was paid is in none of the states before money", func(from State, w walk) bool {
			return w.everPaid && slices.Contains(withoutMoney, from) && slices.Contains(live, w.target)
		}},
		{"only an order that was paid can be disputed", func(from State, w walk) bool {
			return !w.everPaid && from == Disputed && (w.target == Paid || w.target == Fulfilled)
		}},
	}
}

// TestWalk_EveryCombination: from every state to every target, paid before or not, allowed to
// pay or not, a walk ends in its target by a legal path, or is one of the refusals.
func TestWalk_EveryCombination(t *testing.T) {
	t.Parallel()
	longest := 0
	for _, from := range States() {
		for _, target := range States() {
			for bits := range 4 {
				w := walk{target: target, everPaid: bits&1 != 0, mayPay: bits&2 != 0}
				name := fmt.Sprintf("%s to %s, everPaid %v, mayPay %v", from, target, w.everPaid, w.mayPay)
				why := ""
				for _, r := range refusals() {
					if r.fits(from, w) {
						why = r.why
					}
				}
				steps, err := w.path(t.Context(), from)
				switch {
				case err != nil && why == "":
					t.Errorf("%s: %v", name, err)
				case err == nil && why != "":
					t.Errorf("%s: got %v, want it refused: %s", name, steps, why)
				case err == nil:
					checkPath(t, name, from, w, steps)
					longest = max(longest, len(steps))
				}
			}
		}
	}
	if longest != longestWalk {
		t.Errorf("the longest walk has %d steps, the bound is %d", longest, longestWalk)
	}
}

func checkPath(t *testing.T, name string, from State, w walk, steps []transition) {
	t.Helper()
	at := from
	for _, step := range steps {
		if step.From != at || !isLegal(step) {
			t.Errorf("%s: %v is no legal path", name, steps)
		}
		at = step.To
		// A target that says that agreed money is live allows the pay by itself.
		says := w.target == Paid || w.target == Fulfilled || w.target == Disputed
		if step.Event == Pay && (w.everPaid || (!w.mayPay && !says)) {
			t.Errorf("%s: %v pays", name, steps)
		}
	}
	if at != w.target {
		t.Errorf("%s: %v ends in %s", name, steps, at)
	}
}

// isLegal asks the hand-written table.
func isLegal(step transition) bool {
	for _, row := range legal() {
		if row.event == step.Event {
			return row.to == step.To && strings.Fields(row.from)[slices.Index(States(), step.From)] == "x"
		}
	}
	return false
}

// TestWalk_AnOrdersLife lets facts change at random, as they can: statuses rise, refunds
// happen and fail, disputes open and end, reads correct amounts, people cancel and accept,
// licenses are issued. Whatever comes, there is a path to the new target, and the order is
// paid at most once, at its first step into paid.
func TestWalk_AnOrdersLife(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		l := &life{state: Pending, facts: Facts{Decision: NoDecision}}
		l.open()
		t.Repeat(map[string]func(*rapid.T){
			"open":    func(t *rapid.T) { l.another(t) },
			"rise":    func(t *rapid.T) { l.rise(t) },
			"read":    func(t *rapid.T) { l.read(t) },
			"refund":  func(t *rapid.T) { l.money(t, func(p *PaymentFacts) { p.Returned = !p.Returned }) },
			"dispute": func(t *rapid.T) { l.money(t, func(p *PaymentFacts) { p.DisputeOpen = !p.DisputeOpen }) },
			"lose": func(t *rapid.T) {
				l.money(t, func(p *PaymentFacts) { p.DisputeOpen, p.DisputeLost = false, !p.DisputeLost })
			},
			"cancel":  func(t *rapid.T) { l.cancel(t) },
			"accept":  func(t *rapid.T) { l.accept(t) },
			"fulfill": func(t *rapid.T) { l.fulfill(t) },
			"":        func(t *rapid.T) { l.settle(t) },
		})
	})
}

// life is an order without a database.
type life struct {
	state State
	facts Facts
	pays  int
}

// settle is settle: the target, the walk, the steps.
func (l *life) settle(t *rapid.T) {
	target, reason := Target(l.facts)
	if (target == Review) != (reason != NoReason) {
		t.Fatalf("%s for reason %q", target, reason)
	}
	w := walk{
		target: target, everPaid: l.pays > 0,
		mayPay: l.facts.Decision != DecisionCanceled && slices.ContainsFunc(l.facts.Payments, func(p PaymentFacts) bool { return p.Agreed }),
	}
	steps, err := w.path(t.Context(), l.state)
	if err != nil {
		t.Fatalf("from %s with %+v: %v", l.state, l.facts, err)
	}
	for _, step := range steps {
		if !isLegal(step) {
			t.Fatalf("%+v is illegal", step)
		}
		if step.Event == Pay {
			l.pays++
		}
		l.state = step.To
		if l.state == Paid && l.pays != 1 {
			t.Fatalf("in paid after %d pay transitions", l.pays)
		}
	}
	if l.state != target || l.pays > 1 {
		t.Fatalf("ended in %s after %d pays, want %s after at most one", l.state, l.pays, target)
	}
}

func (l *life) open() {
	l.facts.Payments = append(l.facts.Payments, PaymentFacts{ResourceID: fmt.Sprintf("cs_%d", len(l.facts.Payments)), Status: StatusOpen})
}

// another checkout is opened for an order that is neither paid, nor about to be, nor canceled.
func (l *life) another(t *rapid.T) {
	if len(l.facts.Payments) == 3 || !slices.Contains([]State{Pending, Failed, Expired, Review, Refunded, ChargedBack}, l.state) {
		t.Skip("no other checkout in", l.state)
	}
	l.open()
}

func (l *life) rise(t *rapid.T) {
	p := l.pick(t)
	higher := Statuses()[p.Status.rank()+1:]
	if len(higher) == 0 {
		t.Skip("it is as high as can be")
	}
	p.Status = rapid.SampledFrom(higher).Draw(t, "status")
	if p.Status == StatusSucceeded {
		p.Agreed = rapid.Bool().Draw(t, "agreed")
		if !p.Agreed {
			p.Disagree = ReasonAmount
		}
	}
}

// read corrects the amount of a success, to one that is agreed or to one that is not.
func (l *life) read(t *rapid.T) {
	l.money(t, func(p *PaymentFacts) {
		p.Agreed, p.Accepted, p.Disagree = !p.Agreed, false, ReasonAmount
		if p.Agreed {
			p.Disagree = NoReason
		}
	})
}

func (l *life) money(t *rapid.T, change func(*PaymentFacts)) {
	p := l.pick(t)
	if p.Status != StatusSucceeded {
		t.Skip("no money in it")
	}
	change(p)
}

func (l *life) cancel(t *rapid.T) {
	if !slices.Contains([]State{Pending, Confirming, Expired, Failed}, l.state) {
		t.Skip("too late")
	}
	l.facts.Decision = DecisionCanceled
}

// accept takes what was received of every wrong payment, and replaces a cancelation.
func (l *life) accept(t *rapid.T) {
	if l.state != Review {
		t.Skip("nothing to accept")
	}
	l.facts.Decision = DecisionAccepted
	for i := range l.facts.Payments {
		if p := &l.facts.Payments[i]; p.Status == StatusSucceeded && !p.Agreed {
			p.Agreed, p.Accepted, p.Disagree = true, true, NoReason
		}
	}
}

func (l *life) fulfill(t *rapid.T) {
	if l.state != Paid {
		t.Skip("not paid")
	}
	l.facts.Fulfilled = true
}

func (l *life) pick(t *rapid.T) *PaymentFacts {
	return &l.facts.Payments[rapid.IntRange(0, len(l.facts.Payments)-1).Draw(t, "payment")]
}
