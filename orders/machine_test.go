package orders

// Inside the package: the table and the walk are not its public face. The library is real;
// there is no database here, except where the tables of words are compared with its CHECKs.

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/looplab/fsm"
)

// legal is the machine, once more, by hand: a row per event with its one end, a column per
// state, x where the event may leave that state. It is the reference for transitions.
func legal() []struct {
	event Event
	from  string
	to    State
} {
	return []struct {
		event Event
		from  string
		to    State
	}{
		//        pending  confirming  paid  fulfilled  review  failed  expired  canceled  refunded  disputed  charged_back
		{Confirm, "x       .           .     .          .       .       .        .         .         .         .", Confirming},
		{Pay, "    x       x           .     .          x       x       x        x         x         .         x", Paid},
		{Fulfill, ".       .           x     .          .       .       .        .         .         .         .", Fulfilled},
		{Hold, "   x       x           x     x          .       x       x        x         x         x         x", Review},
		{Expire, " x       x           .     .          .       x       .        .         .         .         .", Expired},
		{Fail, "   x       x           .     .          .       .       .        .         .         .         .", Failed},
		{Cancel, " x       x           .     .          .       x       x        .         .         .         .", Canceled},
		{Reopen, " .       x           .     .          .       x       x        x         .         .         .", Pending},
		{Refund, " .       .           x     x          x       .       .        .         .         x         x", Refunded},
		{Dispute, ".       .           x     x          .       .       .        .         .         .         .", Disputed},
		{Win, "    .       .           .     .          .       .       .        .         .         x         .", Paid},
		{Lose, "   .       .           x     x          x       .       .        .         x         x         .", ChargedBack},
		{Restore, ".       .           .     .          x       .       .        .         x         .         x", Paid},
	}
}

func TestMachine_EveryEventInEveryState(t *testing.T) {
	t.Parallel()
	for _, row := range legal() {
		marks := strings.Fields(row.from)
		if len(marks) != len(States()) {
			t.Fatalf("%s: %d columns, want one for each of %d states", row.event, len(marks), len(States()))
		}
		for i, state := range States() {
			machine := fsm.NewFSM(string(state), fsmEvents(), fsm.Callbacks{})
			err := machine.Event(t.Context(), string(row.event))
			got := State(machine.Current())
			switch marks[i] {
			case "x":
				if err != nil || got != row.to {
					t.Errorf("%s from %s: got %s, %v; want %s", row.event, state, got, err, row.to)
				}
			case ".":
				var invalid fsm.InvalidEventError
				if !errors.As(err, &invalid) || got != state {
					t.Errorf("%s from %s: got %s, %v; want it refused", row.event, state, got, err)
				}
			}
		}
	}
}

// The library does not complain of any of this: the last of two doubled pairs wins, and a
// misspelt state is a state.
func TestMachine_TableIsWellFormed(t *testing.T) {
	t.Parallel()
	seen := map[Event]bool{}
	for _, e := range edges() {
		if seen[e.event] {
			t.Errorf("event %s has two rows: it could have two ends", e.event)
		}
		seen[e.event] = true
		for i, from := range e.from {
			if slices.Contains(e.from[:i], from) {
				t.Errorf("(%s, %s) is in the table twice", e.event, from)
			}
			if !slices.Contains(States(), from) || from == e.to {
				t.Errorf("(%s, %s) → %s: no state of the machine, or no step", e.event, from, e.to)
			}
		}
		if !slices.Contains(States(), e.to) {
			t.Errorf("%s ends in %q, which is no state", e.event, e.to)
		}
	}
	for _, row := range legal() {
		if !seen[row.event] {
			t.Errorf("event %s has no row", row.event)
		}
	}
	if len(seen) != len(legal()) {
		t.Errorf("%d events, want %d", len(seen), len(legal()))
	}
}

func TestMachine_RefusesWhatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	for _, w := range []walk{{target: "shipped"}, {target: ""}} {
		if _, err := w.path(t.Context(), Pending); !errors.Is(err, errNoPath) {
			t.Errorf("target %q: got %v, want errNoPath", w.target, err)
		}
	}
	if _, err := (walk{target: Paid, mayPay: true}).path(t.Context(), "shipped"); !errors.Is(err, errNoPath) {
		t.Errorf("from an unknown state: got %v, want errNoPath", err)
	}
}
