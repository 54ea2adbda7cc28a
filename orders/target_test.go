package orders_test

// Everything here is the real, pure function; nothing is doubled. The table in Target's doc
// comment is an input: each of its rows is run, with every decision and every state of the
// licenses that its columns allow.

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"paidonce/orders"
)

// Payments of the table, by what is known of them. Later ones were created later.
func open() orders.PaymentFacts { return orders.PaymentFacts{Status: orders.StatusOpen} }

func processing() orders.PaymentFacts { return orders.PaymentFacts{Status: orders.StatusProcessing} }
func failed() orders.PaymentFacts     { return orders.PaymentFacts{Status: orders.StatusFailed} }
func expired() orders.PaymentFacts    { return orders.PaymentFacts{Status: orders.StatusExpired} }
func canceled() orders.PaymentFacts   { return orders.PaymentFacts{Status: orders.StatusCanceled} }

func agreed() orders.PaymentFacts {
	return orders.PaymentFacts{Status: orders.StatusSucceeded, Agreed: true}
}

func wrong(why orders.Reason) orders.PaymentFacts {
	return orders.PaymentFacts{Status: orders.StatusSucceeded, Disagree: why}
}

func returned(p orders.PaymentFacts) orders.PaymentFacts { p.Returned = true; return p }
func disputed(p orders.PaymentFacts) orders.PaymentFacts { p.DisputeOpen = true; return p }
func lost(p orders.PaymentFacts) orders.PaymentFacts     { p.DisputeLost = true; return p }
func accepted(p orders.PaymentFacts) orders.PaymentFacts {
	p.Accepted, p.Agreed, p.Disagree = true, true, orders.NoReason
	return p
}

type payments = []orders.PaymentFacts

// targetRow is what a row of the table claims, with sets of payments that it covers.
type targetRow struct {
	state  orders.State
	reason orders.Reason // of all sets; "" if the sets name their own, or there is none
	sets   map[string]payments
}

func targetRows() map[int]targetRow {
	amount, currency, capture := orders.ReasonAmount, orders.ReasonCurrency, orders.ReasonCapture
	return map[int]targetRow{
		// Agreed money was here, and none is left.
		1: {state: orders.ChargedBack, sets: map[string]payments{
			"lost":                             {lost(agreed())},
			"lost, and returned too":           {lost(returned(agreed()))},
			"one returned, one lost":           {returned(agreed()), lost(agreed())},
			"lost, another checkout is open":   {lost(agreed()), open()},
			"lost, wrong money is still there": {lost(agreed()), wrong(amount)},
			"an accepted one, lost":            {lost(accepted(wrong(amount)))},
		}},
		2: {state: orders.Refunded, sets: map[string]payments{
			"returned":                             {returned(agreed())},
			"both returned":                        {returned(agreed()), returned(agreed())},
			"returned during a dispute":            {disputed(returned(agreed()))},
			"returned, another one is processing":  {returned(agreed()), processing()},
			"returned, wrong money is still there": {wrong(currency), returned(agreed())},
		}},

		// Agreed money is here.
		3: {state: orders.Review, reason: orders.ReasonPaidAfterCancel, sets: map[string]payments{
			"paid":                    {agreed()},
			"paid, and disputed":      {disputed(agreed())},
			"one returned, one there": {returned(agreed()), agreed()},
			"the other one expired":   {expired(), agreed()},
		}},
		4: {state: orders.Disputed, sets: map[string]payments{
			"disputed":                               {disputed(agreed())},
			"the first of two is disputed":           {disputed(agreed()), agreed()},
			"the first is gone, the second disputed": {returned(agreed()), disputed(agreed())},
			"a later one is accepted and disputed":   {agreed(), disputed(accepted(wrong(amount)))},
		}},
		5: {state: orders.Fulfilled, sets: map[string]payments{
			"paid":                            {agreed()},
			"the second of two is disputed":   {agreed(), disputed(agreed())},
			"the second of two is lost":       {agreed(), lost(agreed())},
			"the first of two is returned":    {returned(agreed()), agreed()},
			"another checkout expired":        {expired(), agreed()},
			"wrong money came too":            {wrong(amount), agreed()},
			"wrong money, accepted":           {accepted(wrong(currency))},
			"accepted goes before a disputed": {disputed(agreed()), accepted(wrong(amount))},
		}},
		6: {state: orders.Paid, sets: map[string]payments{
			"paid":                          {agreed()},
			"another checkout is open":      {open(), agreed()},
			"another checkout expired":      {agreed(), expired()},
			"another checkout failed":       {failed(), agreed()},
			"another checkout was canceled": {canceled(), agreed()},
			"another one is processing":     {processing(), agreed()},
			"the first of two is lost":      {lost(agreed()), agreed()},
		}},

		// Money is here, and none of it is agreed. Sets of other reasons are in
		// TestTarget_NamesTheReasonOfTheFirstMoneyLeft.
		7: {state: orders.Review, reason: amount, sets: map[string]payments{
			"a wrong amount":                  {wrong(amount)},
			"two, the first was sent back":    {returned(wrong(currency)), wrong(amount)},
			"two, the first was charged back": {lost(wrong(capture)), wrong(amount)},
			"another checkout is open":        {open(), wrong(amount)},
			"disputed, and not yet lost":      {disputed(wrong(amount))},
		}},
		8: {state: orders.ChargedBack, sets: map[string]payments{
			"lost":                   {lost(wrong(amount))},
			"one returned, one lost": {returned(wrong(amount)), lost(wrong(currency))},
		}},
		9: {state: orders.Refunded, sets: map[string]payments{
			"returned":                           {returned(wrong(amount))},
			"both returned":                      {returned(wrong(capture)), returned(wrong(currency))},
			"returned, another checkout is open": {returned(wrong(amount)), open()},
		}},

		// No money.
		10: {state: orders.Canceled, sets: map[string]payments{
			"none": {}, "open": {open()}, "processing": {processing()}, "failed": {failed()},
			"expired": {expired()}, "canceled": {canceled()}, "all of them": {open(), processing(), failed(), expired(), canceled()},
		}},
		11: {state: orders.Confirming, sets: map[string]payments{
			"alone": {processing()}, "beside an open one": {open(), processing()},
			"beside all others": {canceled(), expired(), failed(), open(), processing()},
		}},
		12: {state: orders.Pending, sets: map[string]payments{
			"alone": {open()}, "beside a failed one": {failed(), open()}, "beside all lower ones": {canceled(), expired(), failed(), open()},
		}},
		13: {state: orders.Failed, sets: map[string]payments{
			"alone": {failed()}, "beside expired": {expired(), failed()}, "beside canceled": {failed(), canceled()},
		}},
		14: {state: orders.Expired, sets: map[string]payments{"alone": {expired()}, "beside canceled": {canceled(), expired()}}},
		15: {state: orders.Canceled, sets: map[string]payments{"one": {canceled()}, "two": {canceled(), canceled()}}},
		16: {state: orders.Pending, sets: map[string]payments{"none": {}}},
	}
}

func TestTarget(t *testing.T) {
	t.Parallel()
	rows := targetRows()
	table := orders.TruthTable(t)
	if len(table) != len(rows) {
		t.Errorf("the doc comment has %d rows, the test %d", len(table), len(rows))
	}
	for i, said := range table {
		if said.Number != i+1 {
			t.Errorf("row %d of the doc comment is numbered %d", i+1, said.Number)
		}
		t.Run(fmt.Sprintf("row-%02d", said.Number), func(t *testing.T) {
			t.Parallel()
			row, ok := rows[said.Number]
			if !ok {
				t.Fatal("the test has no such row")
			}
			state, reasons, _ := strings.Cut(said.Target, ": ")
			if state != string(row.state) || !slices.Contains(strings.Split(reasons, " | "), string(row.reason)) {
				t.Errorf("the doc comment says %q, the test %s %q", said.Target, row.state, row.reason)
			}
			for name, set := range row.sets {
				for _, facts := range allowed(t, said, set) {
					got, reason := orders.Target(facts)
					if got != row.state || reason != row.reason {
						t.Errorf("%s, decision %s, fulfilled %v: got %s %q, want %s %q",
							name, facts.Decision, facts.Fulfilled, got, reason, row.state, row.reason)
					}
				}
			}
		})
	}
}

// allowed is the payments with every decision and license state that a row's columns name.
func allowed(t *testing.T, row orders.TruthRow, set payments) []orders.Facts {
	t.Helper()
	decisions, ok := map[string][]orders.Decision{
		"any":       {orders.NoDecision, orders.DecisionCanceled, orders.DecisionAccepted},
		"canceled":  {orders.DecisionCanceled},
		"not canc.": {orders.NoDecision, orders.DecisionAccepted},
	}[row.Decision]
	licenses, ok2 := map[string][]bool{"any": {false, true}, "issued": {true}, "none": {false}}[row.Licenses]
	if !ok || !ok2 {
		t.Fatalf("columns %q and %q: no meaning known", row.Decision, row.Licenses)
	}
	var all []orders.Facts
	for _, decision := range decisions {
		for _, fulfilled := range licenses {
			all = append(all, orders.Facts{Payments: inTurn(set), Decision: decision, Fulfilled: fulfilled})
		}
	}
	return all
}

// inTurn numbers payments: each was created an hour after the one before.
func inTurn(set payments) payments {
	numbered := slices.Clone(set)
	for i := range numbered {
		numbered[i].ResourceID = fmt.Sprintf("cs_%d", i+1)
		numbered[i].CreatedAt = openedAt().Add(time.Duration(i) * time.Hour)
	}
	return numbered
}

func TestTarget_NamesTheReasonOfTheFirstMoneyLeft(t *testing.T) {
	t.Parallel()
	for _, why := range []orders.Reason{orders.ReasonAmount, orders.ReasonCurrency, orders.ReasonCapture} {
		for name, set := range map[string]payments{
			"alone":         {wrong(why)},
			"first":         {wrong(why), wrong(orders.ReasonAmount)},
			"the only left": {returned(wrong(orders.ReasonAmount)), lost(wrong(orders.ReasonCapture)), wrong(why)},
		} {
			state, got := orders.Target(orders.Facts{Payments: inTurn(set)})
			if state != orders.Review || got != why {
				t.Errorf("%s %s: got %s %q", name, why, state, got)
			}
		}
	}
}

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
