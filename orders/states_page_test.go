package orders

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A flag has to be known before the tests are parsed, which leaves a package variable.
var update = flag.Bool("update", false, "write docs/states.md anew from the code") //nolint:gochecknoglobals // see above

// TestStatesPage holds docs/states.md to the code it is drawn from.
func TestStatesPage(t *testing.T) {
	t.Parallel()
	want := statesPage(t)
	page := filepath.Join("..", "docs", "states.md")
	if *update {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("docs/states.md is not what the code says; run go test ./orders -run TestStatesPage -update (-code +page):\n%s", diff)
	}
}

// TestDiagram_IsMermaid: one start, then every edge of the table and nothing else, in words
// that Mermaid's state diagrams take as they are.
func TestDiagram_IsMermaid(t *testing.T) {
	t.Parallel()
	diagram, err := Diagram()
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(diagram), "\n")
	if lines[0] != "stateDiagram-v2" || strings.TrimSpace(lines[1]) != "[*] --> pending" {
		t.Fatalf("it begins with %q", lines[:2])
	}
	form := regexp.MustCompile(`^    ([a-z_]+) --> ([a-z_]+): ([a-z]+)$`)
	got := map[transition]bool{}
	for _, line := range lines[2:] {
		m := form.FindStringSubmatch(line)
		if m == nil {
			t.Errorf("%q is no edge", line)
			continue
		}
		got[transition{Event(m[3]), State(m[1]), State(m[2])}] = true
	}
	want := map[transition]bool{}
	for _, e := range edges() {
		for _, from := range e.from {
			want[transition{e.event, from, e.to}] = true
		}
	}
	if diff := cmp.Diff(want, got); diff != "" || len(lines)-2 != len(want) {
		t.Errorf("%d lines of edges (-table +diagram):\n%s", len(lines)-2, diff)
	}

	// The library walks a map: it must not show.
	for range 20 {
		if again, _ := Diagram(); again != diagram {
			t.Fatal("two drawings of one machine differ")
		}
	}
}

// statesPage writes the page. Its prose stands here, beside the test that shows it is true.
func statesPage(t *testing.T) string {
	t.Helper()
	diagram, err := Diagram()
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	b.WriteString(`# The states of an order

<!-- Generated: go test ./orders -run TestStatesPage -update. The same test fails if this page and the code differ. -->

An order's state is never set by an event. What providers and people said is merged into facts (` + "`payments`" + `, the
decision, the licenses), and one pure function, ` + "`orders.Target`" + `, says where those facts point. So the same facts
end in the same state, whatever the order in which they arrived and however often.

| state | what it means |
|---|---|
`)
	for _, s := range States() {
		fmt.Fprintf(&b, "| `%s` | %s |\n", s, meaning(t, s))
	}
	b.WriteString(`
## Where the facts point

A payment is one checkout. It is *live* if it succeeded, is agreed (what was received is what was asked for, or what a
person accepted), was not returned in full, and lost no dispute. The *counted* one is the live payment that is first by
(accepted, creation of its checkout, id). Rows are tried from the top; the first that fits decides.

| # | payments | decision | licenses | target |
|---|---|---|---|---|
`)
	for _, row := range TruthTable(t) {
		fmt.Fprintf(&b, "| %d | %s | %s | %s | %s |\n", row.Number, row.Payments,
			strings.Replace(row.Decision, "not canc.", "not canceled", 1), row.Licenses, strings.ReplaceAll(row.Target, "|", `\|`))
	}
	b.WriteString(`
## How an order gets there

The machine names the steps from the present state to the target. A walk has one step or two; every step is a guarded
` + "`UPDATE`" + ` and a row of ` + "`order_transitions`" + ` with its cause, and what follows from a move is done once, for the
last state. Every event has one end. ` + "`pay`" + ` happens once per order for ever; whatever brings a paid order back to
` + "`paid`" + ` later is ` + "`win`" + ` or ` + "`restore`" + `.

| event | leaves | ends in |
|---|---|---|
`)
	for _, e := range edges() {
		from := make([]string, len(e.from))
		for i, s := range e.from {
			from[i] = string(s)
		}
		fmt.Fprintf(&b, "| `%s` | %s | `%s` |\n", e.event, strings.Join(from, ", "), e.to)
	}
	b.WriteString("\nThe same as a picture. Most orders only ever see `pending`, `paid` and `fulfilled`.\n\n```mermaid\n" + diagram + "```\n")
	return b.String()
}

func meaning(t *testing.T, s State) string {
	t.Helper()
	switch s {
	case Pending:
		return "Waiting for the buyer."
	case Confirming:
		return "The buyer is done, and the money is on its way, as with a bank debit. Nothing is fulfilled yet."
	case Paid:
		return "Agreed money is here; the licenses are about to be issued."
	case Fulfilled:
		return "Paid, and the licenses are issued and active."
	case Review:
		return "Money is here and a person has to decide. The reason says why: `amount`, `currency`, `capture` or `paid_after_cancel`."
	case Failed:
		return "The money did not come. Another checkout may still pay."
	case Expired:
		return "The buyer did not come. Another checkout may still pay, and so may late money."
	case Canceled:
		return "Called off before any money: by a person, whose word sends late money to review, or because every checkout was canceled."
	case Refunded:
		return "The money went back, all of it."
	case Disputed:
		return "The buyer's bank asks for the money back; the licenses are suspended."
	case ChargedBack:
		return "The bank took the money back."
	}
	t.Fatalf("state %s has no meaning on the page", s)
	return ""
}
