package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"paidonce/internal/database"
)

// listed is how many rows a list shows unless it is told otherwise.
const listed = 50

// moment is a flag that is a time: how long ago (36h, 7d), a day (2026-11-30), or a time
// (2026-11-30T18:00:00Z). All of them are UTC.
type moment struct{ time.Time }

func (m *moment) String() string {
	if m.IsZero() {
		return ""
	}
	return m.Format(time.RFC3339)
}

// or is the flag's time, or another if it was not given.
func (m *moment) or(another time.Time) time.Time {
	if m.IsZero() {
		return another
	}
	return m.Time
}

// Set implements pflag.Value.
func (m *moment) Set(text string) (err error) {
	m.Time, err = parseMoment(text, database.Now())
	return err
}

func parseMoment(text string, now time.Time) (time.Time, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.Atoi(days); err == nil && n >= 0 {
			return now.AddDate(0, 0, -n), nil
		}
	}
	if ago, err := time.ParseDuration(text); err == nil && ago >= 0 {
		return now.Add(-ago), nil
	}
	for _, form := range []string{time.RFC3339, time.DateOnly} {
		if t, err := time.Parse(form, text); err == nil {
			return t.UTC(), nil
		}
	}
	return time.Time{}, fmt.Errorf("%q is no time: write how long ago (36h, 7d), a day (2026-11-30) or a time (2026-11-30T18:00:00Z)", text)
}

// Type implements pflag.Value.
func (m *moment) Type() string { return "time" }

// table prints rows of columns for a person. A cell is one line, and holds nothing that a
// terminal would obey: some of it was written by strangers.
type table struct{ out *tabwriter.Writer }

func newTable(out io.Writer, head ...string) table {
	t := table{tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)}
	if len(head) > 0 {
		t.row(head...)
	}
	return t
}

func (t table) row(cells ...string) {
	for i, cell := range cells {
		cells[i] = plain(cell)
	}
	// Every cell, also an empty one: a column ends at a row that does not have it.
	_, _ = fmt.Fprintln(t.out, strings.Join(cells, "\t"))
}

func (t table) end() { _ = t.out.Flush() }

// plain makes text one line without control characters.
func plain(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text)
}

// short cuts text for a table.
func short(text string, length int) string {
	if runes := []rune(text); len(runes) > length {
		return string(runes[:length-1]) + "…"
	}
	return text
}

// at is a time for a person.
func at(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") }

// atOr is a time that may be missing.
func atOr(t *time.Time, missing string) string {
	if t == nil {
		return missing
	}
	return at(*t)
}

// textOr is a text that may be missing.
func textOr[T ~string](text *T, missing string) string {
	if text == nil || *text == "" {
		return missing
	}
	return string(*text)
}

// printJSON prints a value for a program, and for whoever looks at what the program gets.
func printJSON(cmd *cobra.Command, value any) error {
	encoder := json.NewEncoder(cmd.OutOrStdout())
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(value)
}

// counted says how much there is of something.
func counted(n int, one, several string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, several)
}
