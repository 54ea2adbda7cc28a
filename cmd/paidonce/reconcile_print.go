package main

import (
	"fmt"
	"io"
	"sort"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"paidonce/reconcile"
)

// maxLines is how many lines a table has: what a person still reads.
const maxLines = 50

// line is a row of the table: one finding, or the missed events of one order together.
type line struct {
	reconcile.Finding
	count int
}

// printReport prints what a person has to know: what is wrong, what was done, what to do, and
// last one line for an alert.
func printReport(w io.Writer, r reconcile.Report) {
	lines := together(r.Findings)
	if len(lines) > 0 {
		table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		_, _ = fmt.Fprintln(table, "KIND\tORDER\tAT STRIPE\tHERE\tDONE\tTO DO")
		for _, l := range lines[:min(len(lines), maxLines)] {
			_, _ = fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\n",
				l.Kind, orderNumber(l.Finding), short(plain(l.theirs()), cellWidth), short(plain(l.Ours), cellWidth), l.done(r.DryRun), l.toDo(r.DryRun))
		}
		_ = table.Flush()
		if more := len(lines) - maxLines; more > 0 {
			_, _ = fmt.Fprintf(w, "… and %d more lines; --json has up to %d findings, paidonce reconcile findings those that are open.\n", more, reconcile.MaxListed)
		}
		_, _ = fmt.Fprintln(w)
	}
	for _, note := range r.Notes {
		_, _ = fmt.Fprintf(w, "Note: %s.\n", note)
	}
	if r.Resumed {
		_, _ = fmt.Fprintln(w, "Note: this went on with a run that another process had left.")
	}
	if r.Error != "" {
		_, _ = fmt.Fprintf(w, "Could not tell: %s\n", strings.ReplaceAll(r.Error, "\n", "; "))
	}
	_, _ = fmt.Fprintln(w, summary(r))
}

// together joins the missed events of an order into one line: it is one payment that was
// missed, not three.
func together(findings []reconcile.Finding) []line {
	var lines []line
	at := map[string]int{}
	for _, f := range findings {
		key := fmt.Sprint(orderNumber(f), f.HealedAt != nil, f.AckedAt != nil)
		if i, ok := at[key]; ok && f.Kind == reconcile.EventMissed {
			lines[i].count++
			continue
		}
		if f.Kind == reconcile.EventMissed {
			at[key] = len(lines)
		}
		lines = append(lines, line{Finding: f, count: 1})
	}
	return lines
}

func (l line) theirs() string {
	if l.count > 1 {
		return fmt.Sprintf("%d events, as %s", l.count, l.Theirs)
	}
	return l.Theirs
}

func (l line) done(dry bool) string {
	if l.HealedAt != nil && !dry {
		return l.Action + ": healed"
	}
	return l.Action
}

func (l line) toDo(dry bool) string {
	switch {
	case l.AckedAt != nil:
		return "acknowledged by " + *l.AckedBy
	case l.HealedAt != nil, dry && l.Action != "nothing":
		return "-"
	}
	return l.Kind.ToDo()
}

// cellWidth is what of a cell fits on a screen.
const cellWidth = 60

func orderNumber(f reconcile.Finding) string {
	if f.OrderNumber == nil {
		return "-"
	}
	return strconv.FormatInt(*f.OrderNumber, 10)
}

// summary is a run in one line, for an alert: its outcome first, then what a person asks next.
func summary(r reconcile.Report) string {
	var open, healed, acked int64
	var names []string
	for _, k := range r.Kinds {
		open, healed, acked = open+k.Open, healed+k.Healed, acked+k.Acked
		if n := k.Open + k.Healed; n > 0 {
			names = append(names, fmt.Sprintf("%s:%d", k.Kind, n))
		}
	}
	mode := "test"
	if r.Livemode {
		mode = "live"
	}
	text := fmt.Sprintf("reconcile %s: open=%d healed=%d acknowledged=%d", strings.ToUpper(string(r.Outcome)), open, healed, acked)
	if len(names) > 0 {
		text += " kinds=" + strings.Join(names, ",")
	}
	text += fmt.Sprintf(" objects=%d foreign=%d mode=%s", objectsIn(r.Counts), r.Counts["foreign"], mode)
	if r.Account != "" {
		text += " account=" + r.Account
	}
	if !r.Since.IsZero() {
		text += " window=" + r.Since.UTC().Format(time.RFC3339) + "/" + r.Until.UTC().Format(time.RFC3339)
	}
	if r.DryRun {
		text += " dry_run=true"
	}
	return text
}

// objectsIn is how many of the provider's objects were looked at.
func objectsIn(counts map[string]int64) (n int64) {
	for _, stage := range []reconcile.Stage{
		reconcile.StageEvents, reconcile.StageSessions, reconcile.StageIntents, reconcile.StageRefunds, reconcile.StageDisputes,
	} {
		n += counts[string(stage)]
	}
	return n
}

// printFindings prints stored findings, each with the name by which it is acknowledged.
func printFindings(w io.Writer, findings []reconcile.Finding) {
	if len(findings) == 0 {
		_, _ = fmt.Fprintln(w, "Nothing is open.")
		return
	}
	sort.SliceStable(findings, func(a, b int) bool { return findings[a].HealedAt == nil && findings[b].HealedAt != nil })
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "FINDING\tORDER\tSINCE\tAT STRIPE\tHERE\tTO DO")
	for _, f := range findings {
		todo := line{Finding: f, count: 1}.toDo(false)
		if f.HealedAt != nil {
			todo = "healed " + f.HealedAt.UTC().Format(time.DateTime)
		}
		_, _ = fmt.Fprintf(table, "%s/%s\t%s\t%s\t%s\t%s\t%s\n",
			f.Kind, f.ResourceID, orderNumber(f), f.FirstSeenAt.UTC().Format(time.DateTime), short(plain(f.Theirs), cellWidth), short(plain(f.Ours), cellWidth), todo)
	}
	_ = table.Flush()
}

// meterEvery is how often a long run tells how far it is.
const meterEvery = 2 * time.Second

// meter tells how far a run is: nothing at all, if it is over before anybody wonders.
type meter struct {
	w       io.Writer
	now     func() time.Time
	last    time.Time
	objects int64 // at last
}

func newMeter(w io.Writer, now func() time.Time) *meter { return &meter{w: w, now: now, last: now()} }

func (m *meter) tell(p reconcile.Progress) {
	now := m.now()
	since := now.Sub(m.last)
	if since < meterEvery {
		return
	}
	rate := float64(p.Objects-m.objects) / since.Seconds()
	m.last, m.objects = now, p.Objects
	at := ""
	if !p.At.IsZero() {
		at = ", at " + p.At.UTC().Format(time.DateTime)
	}
	_, _ = fmt.Fprintf(m.w, "%-8s  %d looked at, %.0f/s, %d found%s\n", p.Stage, p.Objects, rate, p.Findings, at)
}
