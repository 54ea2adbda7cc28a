package orders_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"paidonce/orders"
)

func TestCounted(t *testing.T) {
	t.Parallel()
	early, late := openedAt(), openedAt().Add(time.Second)
	at := func(id string, created time.Time, p orders.PaymentFacts) orders.PaymentFacts {
		p.ResourceID, p.CreatedAt = id, created
		return p
	}
	for name, test := range map[string]struct {
		payments payments
		want     string // "" if nothing counts
	}{
		// The order: accepted, then created, then id. Never the place in the list.
		"the older counts":                {payments{at("cs_a", late, agreed()), at("cs_b", early, agreed())}, "cs_b"},
		"of one second, the smaller id":   {payments{at("cs_b", early, agreed()), at("cs_a", early, agreed())}, "cs_a"},
		"an accepted one before an older": {payments{at("cs_a", early, agreed()), at("cs_b", late, accepted(wrong("amount")))}, "cs_b"},
		"of two accepted, the older":      {payments{at("cs_a", late, accepted(agreed())), at("cs_b", early, accepted(agreed()))}, "cs_b"},

		// A surplus payment is promoted when the counted one is gone.
		"the counted one refunded":        {payments{at("cs_a", early, returned(agreed())), at("cs_b", late, agreed())}, "cs_b"},
		"the counted one charged back":    {payments{at("cs_a", early, lost(agreed())), at("cs_b", late, agreed())}, "cs_b"},
		"the accepted one refunded":       {payments{at("cs_a", late, returned(accepted(wrong("amount")))), at("cs_b", early, agreed())}, "cs_b"},
		"a disputed one goes on counting": {payments{at("cs_a", early, disputed(agreed())), at("cs_b", late, agreed())}, "cs_a"},

		// Nothing live.
		"nothing":               {nil, ""},
		"only wrong money":      {payments{at("cs_a", early, wrong("amount"))}, ""},
		"only an open checkout": {payments{at("cs_a", early, open())}, ""},
		"only gone money":       {payments{at("cs_a", early, lost(agreed())), at("cs_b", early, returned(agreed()))}, ""},
	} {
		counted, ok := orders.Counted(test.payments)
		if counted.ResourceID != test.want || ok != (test.want != "") {
			t.Errorf("%s: got %q, %v; want %q", name, counted.ResourceID, ok, test.want)
		}
	}
}

// TestTarget_FollowsAStory tells what one order goes through, fact by fact.
func TestTarget_FollowsAStory(t *testing.T) {
	t.Parallel()
	type step struct {
		payments payments
		want     orders.State
	}
	for name, story := range map[string][]step{
		"a dispute is lost, then won": {
			{payments{agreed()}, orders.Fulfilled},
			{payments{disputed(agreed())}, orders.Disputed},
			{payments{lost(agreed())}, orders.ChargedBack},
			{payments{agreed()}, orders.Fulfilled},
		},
		"paid twice, the counted one refunded, then the other": {
			{payments{agreed(), open()}, orders.Fulfilled},
			{payments{agreed(), agreed()}, orders.Fulfilled},
			{payments{returned(agreed()), agreed()}, orders.Fulfilled},
			{payments{returned(agreed()), returned(agreed())}, orders.Refunded},
		},
		"the surplus one refunded: nothing moves": {
			{payments{agreed(), agreed()}, orders.Fulfilled}, {payments{agreed(), returned(agreed())}, orders.Fulfilled},
		},
		"a refund fails later": {
			{payments{returned(agreed())}, orders.Refunded}, {payments{agreed()}, orders.Fulfilled},
		},
	} {
		for i, s := range story {
			if got, _ := orders.Target(orders.Facts{Payments: inTurn(s.payments), Fulfilled: true}); got != s.want {
				t.Errorf("%s, step %d: got %s, want %s", name, i+1, got, s.want)
			}
		}
	}

	// Money after an expiry fulfills; an expiry after money does nothing.
	for _, set := range []payments{{expired(), agreed()}, {agreed(), expired()}, {agreed(), failed(), canceled()}} {
		if got, _ := orders.Target(orders.Facts{Payments: inTurn(set)}); got != orders.Paid {
			t.Errorf("%+v: got %s, want paid", set, got)
		}
	}
}

// TestTarget_DoesNotAskForTheOrder (I5): any permutation of the payments has the same target.
func TestTarget_DoesNotAskForTheOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		facts := orders.Facts{
			Payments:  rapid.SliceOfN(rapid.Custom(drawPayment), 0, 6).Draw(t, "payments"),
			Fulfilled: rapid.Bool().Draw(t, "fulfilled"),
			Decision:  rapid.SampledFrom([]orders.Decision{orders.NoDecision, orders.DecisionCanceled, orders.DecisionAccepted}).Draw(t, "decision"),
		}
		for i := range facts.Payments {
			facts.Payments[i].ResourceID = fmt.Sprintf("cs_%d", i) // unique, as the table's key has it
		}
		state, reason := orders.Target(facts)
		counted, _ := orders.Counted(facts.Payments)

		before := slices.Clone(facts.Payments)
		facts.Payments = rapid.Permutation(facts.Payments).Draw(t, "permuted")
		permuted := slices.Clone(facts.Payments)
		if got, why := orders.Target(facts); got != state || why != reason {
			t.Fatalf("got %s %q, before the permutation %s %q: %+v", got, why, state, reason, before)
		}
		if got, _ := orders.Counted(facts.Payments); got != counted {
			t.Fatalf("%s counts, before the permutation %s", got.ResourceID, counted.ResourceID)
		}
		if diff := cmp.Diff(permuted, facts.Payments); diff != "" {
			t.Fatalf("the caller's slice was changed (-want +got):\n%s", diff)
		}
	})
}

func drawPayment(t *rapid.T) orders.PaymentFacts {
	p := orders.PaymentFacts{
		CreatedAt: openedAt().Add(time.Duration(rapid.IntRange(0, 2).Draw(t, "hour")) * time.Hour),
		Status:    rapid.SampledFrom(orders.Statuses()).Draw(t, "status"),
	}
	if p.Status != orders.StatusSucceeded {
		return p
	}
	p.Returned, p.DisputeOpen, p.DisputeLost = rapid.Bool().Draw(t, "returned"), rapid.Bool().Draw(t, "disputed"), rapid.Bool().Draw(t, "lost")
	p.Agreed = rapid.Bool().Draw(t, "agreed")
	if p.Agreed {
		p.Accepted = rapid.Bool().Draw(t, "accepted")
		return p
	}
	p.Disagree = rapid.SampledFrom([]orders.Reason{orders.ReasonAmount, orders.ReasonCurrency, orders.ReasonCapture}).Draw(t, "why")
	return p
}
