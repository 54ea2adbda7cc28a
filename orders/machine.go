package orders

import (
	"context"
	"errors"
	"fmt"

	"github.com/looplab/fsm"
)

// edge is one row of the machine: an event, the states it may leave, and the state it
// ends in.
type edge struct {
	event Event
	from  []State
	to    State
}

// edges is the whole machine. No event has two ends, so a transition row's event always
// tells where it led.
//
// Some edges look odd until one thinks of facts in another order: `pay` leaves refunded,
// because a second checkout can pay an order whose first, wrong payment was sent back; and
// `hold` leaves refunded, because that refund can fail and the wrong money be back.
func edges() []edge {
	return []edge{
		{Confirm, []State{Pending}, Confirming},
		{Pay, []State{Pending, Confirming, Expired, Failed, Canceled, Review, Refunded, ChargedBack}, Paid},
		{Fulfill, []State{Paid}, Fulfilled},
		{Hold, []State{Pending, Confirming, Expired, Failed, Canceled, Paid, Fulfilled, Refunded, Disputed, ChargedBack}, Review},
		{Expire, []State{Pending, Confirming, Failed}, Expired},
		{Fail, []State{Pending, Confirming}, Failed},
		{Cancel, []State{Pending, Confirming, Failed, Expired}, Canceled},
		{Reopen, []State{Confirming, Failed, Expired, Canceled}, Pending},
		{Refund, []State{Paid, Fulfilled, Disputed, Review, ChargedBack}, Refunded},
		{Dispute, []State{Paid, Fulfilled}, Disputed},
		{Win, []State{Disputed}, Paid},
		{Lose, []State{Paid, Fulfilled, Disputed, Review, Refunded}, ChargedBack},
		{Restore, []State{Review, Refunded, ChargedBack}, Paid},
	}
}

// errNoPath is returned when no step leads on from a state towards a target. Facts only
// grow, so it means a bug or a row changed by hand; the delivery fails and stays visible.
var errNoPath = errors.New("the machine has no step")

// walk is what a step may depend on beside the present state and the target.
type walk struct {
	target   State
	everPaid bool // the order's one `pay` is behind it

	// mayPay: an agreed payment exists and no unaccepted cancelation stands. Only then,
	// and only if the order was never paid, is a step into paid the `pay`.
	mayPay bool
}

// step names the next event from a state towards the target.
//
//	target                      steps to it
//	pending                     reopen
//	confirming, failed          confirm, fail; from failed, expired or canceled after a reopen
//	expired, canceled           expire, from canceled after a reopen; cancel
//	review                      hold
//	paid                        pay if never paid; win from disputed; otherwise restore
//	fulfilled, disputed         like paid, then fulfill or dispute
//	refunded, charged_back      refund, lose; from a state without money first pay, or hold if that may not be
func (w walk) step(from State) (Event, error) {
	switch w.target {
	case Pending:
		return Reopen, nil
	case Confirming:
		return fromOpen(from, Confirm), nil
	case Failed:
		return fromOpen(from, Fail), nil
	case Expired:
		if from == Canceled {
			return Reopen, nil
		}
		return Expire, nil
	case Canceled:
		return Cancel, nil
	case Review:
		return Hold, nil
	case Paid:
		return w.intoPaid(from), nil
	case Fulfilled:
		if from == Paid {
			return Fulfill, nil
		}
		return w.intoPaid(from), nil
	case Disputed:
		if from == Paid || from == Fulfilled {
			return Dispute, nil
		}
		return w.intoPaid(from), nil
	case Refunded:
		return w.afterMoney(from, Refund), nil
	case ChargedBack:
		return w.afterMoney(from, Lose), nil
	}
	return "", fmt.Errorf("%w: unknown target %q", errNoPath, w.target)
}

// fromOpen puts a reopen before a step that only leaves an order that is open.
func fromOpen(from State, then Event) Event {
	if from == Failed || from == Expired || from == Canceled {
		return Reopen
	}
	return then
}

// intoPaid chooses among the three ways into paid. `pay` is the first one, for ever (I3).
func (w walk) intoPaid(from State) Event {
	switch {
	case !w.everPaid:
		return Pay
	case from == Disputed:
		return Win
	default:
		return Restore
	}
}

// afterMoney takes the step that returns money; an order that never had any first gets the
// step by which it came, so that the history tells the whole story.
func (w walk) afterMoney(from State, then Event) Event {
	switch from {
	case Pending, Confirming, Failed, Expired, Canceled:
		if w.mayPay && !w.everPaid {
			return Pay
		}
		return Hold
	default:
		return then
	}
}

// transition is one step taken.
type transition struct {
	Event    Event
	From, To State
}

// longestWalk is how many steps the longest walk of the table has. A longer one would be a
// circle.
const longestWalk = 2

// path lists the transitions from a state to the target. An FSM is built here, for this
// one walk, and thrown away: it decides what is legal, Postgres remembers where we are.
// A shared one would pass two requests through the same transition.
func (w walk) path(ctx context.Context, from State) ([]transition, error) {
	machine := fsm.NewFSM(string(from), fsmEvents(), fsm.Callbacks{})
	var steps []transition
	for at := from; at != w.target; at = State(machine.Current()) {
		if len(steps) == longestWalk {
			return nil, fmt.Errorf("%w: no end from %s to %s", errNoPath, from, w.target)
		}
		event, err := w.step(at)
		if err != nil {
			return nil, err
		}
		if err := machine.Event(ctx, string(event)); err != nil {
			return nil, fmt.Errorf("%w from %s to %s: %w", errNoPath, at, w.target, err)
		}
		steps = append(steps, transition{Event: event, From: at, To: State(machine.Current())})
	}
	return steps, nil
}

// fsmEvents is the table in the library's form.
func fsmEvents() fsm.Events {
	var events fsm.Events
	for _, e := range edges() {
		from := make([]string, len(e.from))
		for i, s := range e.from {
			from[i] = string(s)
		}
		events = append(events, fsm.EventDesc{Name: string(e.event), Src: from, Dst: string(e.to)})
	}
	return events
}

// Diagram is the machine as a Mermaid state diagram, drawn from the table. docs/states.md
// holds a copy, and a test holds the copy to this.
func Diagram() (string, error) {
	diagram, err := fsm.VisualizeWithType(fsm.NewFSM(string(Pending), fsmEvents(), fsm.Callbacks{}), fsm.MermaidStateDiagram)
	if err != nil {
		return "", fmt.Errorf("drawing the machine: %w", err)
	}
	return diagram, nil
}
