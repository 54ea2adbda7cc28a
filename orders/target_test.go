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
