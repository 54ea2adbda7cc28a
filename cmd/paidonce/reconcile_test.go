package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"paidonce/reconcile"
)

// The command as an operator has it: an outage is found and healed, with exit status 1; then
// there is nothing, with 0; and where Stripe does not answer, nobody can tell, with 2.
func TestReconcile_ExitStatusAndOutput(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.web()
	s.start("work")
	order := s.order()
	s.payUntold(order)
	number := string(s.one(`SELECT number FROM orders WHERE id = ?`, order))

	status, out := s.reconcile("--dry-run")
	if status != 1 || !strings.Contains(out, "would record the event") || !strings.Contains(out, "open=4 healed=0") || !strings.Contains(out, "dry_run=true") {
		t.Errorf("dry run = %d\n%s", status, out)
	}
	if n := s.one(`SELECT (SELECT count(*) FROM reconcile_runs) + (SELECT count(*) FROM webhook_deliveries)`); n != "0" {
		t.Errorf("a dry run wrote %s rows", n)
	}

	status, out = s.reconcile()
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if status != 1 || len(lines) < 3 || !strings.HasPrefix(lines[0], "KIND") {
		t.Fatalf("reconcile = %d\n%s", status, out)
	}
	if fields := strings.Fields(lines[1]); fields[0] != "event_missed" || fields[1] != number || !strings.Contains(lines[1], "healed") || !strings.Contains(lines[1], "3 events") {
		t.Errorf("line %q, want the missed events of order %s in one line, healed", lines[1], number)
	}
	if last := lines[len(lines)-1]; !strings.HasPrefix(last, "reconcile DRIFT: open=0 healed=3 ") || !strings.Contains(last, "mode=test") {
		t.Errorf("last line %q", last)
	}
	s.settled(order)
	if diff := cmp.Diff(fulfilledOnce(), s.outcome(order)); diff != "" {
		t.Errorf("order %s after the run (-want +got):\n%s", order, diff)
	}

	status, out = s.reconcile("--json")
	var report reconcile.Report
	if err := json.Unmarshal([]byte(out), &report); err != nil || status != 0 || report.Outcome != reconcile.Clean || report.Findings == nil {
		t.Errorf("the next run = %d %v\n%s", status, err, out)
	}

	// A finding that stays is listed, acknowledged, and no drift any more.
	s.exec(`UPDATE webhook_deliveries SET outcome = 'dead', last_error = 'why' WHERE event_type = 'charge.succeeded'`)
	if status, out = s.reconcile(); status != 1 || !strings.Contains(out, "delivery_dead") || !strings.Contains(out, "paidonce deliveries retry") {
		t.Errorf("with a dead delivery = %d\n%s", status, out)
	}
	env := s.environment()
	env["DATABASE_URL"] = s.dsn
	code, out, _ := command(t, env, "", "reconcile", "findings")
	name := strings.Fields(strings.Split(out, "\n")[1])[0]
	if code != 0 || !strings.HasPrefix(name, "delivery_dead/evt_") {
		t.Errorf("findings = %d\n%s", code, out)
	}
	if code, _, errs := command(t, env, "", "reconcile", "ack", name, "--by", "kim"); code == 0 || !strings.Contains(errs, "why") {
		t.Errorf("ack without a reason = %d %s", code, errs)
	}
	if code, out, errs := command(t, env, "", "reconcile", "ack", name, "--by", "kim", "--why", "known"); code != 0 || !strings.Contains(out, "order "+number) {
		t.Errorf("ack = %d %s%s", code, out, errs)
	}
	if status, out = s.reconcile(); status != 0 || !strings.Contains(out, "acknowledged by kim") {
		t.Errorf("with an acknowledged finding = %d\n%s", status, out)
	}
	if code, out, _ := command(t, env, "", "reconcile", "findings"); code != 0 || out != "Nothing is open.\n" {
		t.Errorf("findings = %d\n%s", code, out)
	}
}

// Whatever keeps it from telling is 2: a configuration, a flag, a Stripe or a schema.
func TestReconcile_CouldNotTell(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	for name, c := range map[string]struct {
		change map[string]string
		flags  []string
		says   string
	}{
		"no key":         {map[string]string{"STRIPE_SECRET_KEY": ""}, nil, "STRIPE_SECRET_KEY"},
		"no database":    {map[string]string{"DATABASE_URL": ""}, nil, "DATABASE_URL"},
		"a wrong flag":   {nil, []string{"--from", "1h"}, "--from"},
		"a wrong time":   {nil, []string{"--since", "yesterday"}, "--since"},
		"an odd time":    {nil, []string{"--until", "-5h"}, "--until"},
		"a wrong window": {nil, []string{"--since", "1h", "--until", "2h"}, "since"},
		"a wrong rate":   {map[string]string{"RECONCILE_RATE": "0"}, nil, "RECONCILE_RATE"},
	} {
		env := s.environment()
		env["DATABASE_URL"] = s.dsn
		for k, v := range c.change {
			env[k] = v
		}
		code, out, errs := command(t, env, "", append([]string{"reconcile"}, c.flags...)...)
		if code != 2 || !strings.Contains(out+errs, c.says) {
			t.Errorf("%s: exit status %d, want 2, and %q\n%s%s", name, code, c.says, out, errs)
		}
	}
}

func TestParseMoment(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for value, want := range map[string]time.Time{
		"72h":                       now.Add(-72 * time.Hour),
		"30d":                       now.AddDate(0, 0, -30),
		"0s":                        now,
		"2026-10-25":                time.Date(2026, 10, 25, 0, 0, 0, 0, time.UTC),
		"2026-10-25T02:30:00+01:00": time.Date(2026, 10, 25, 1, 30, 0, 0, time.UTC),
	} {
		if got, err := parseMoment(value, now); err != nil || !got.Equal(want) {
			t.Errorf("%s = %s, %v, want %s", value, got, err, want)
		}
	}
	for _, value := range []string{"", "d", "-1d", "-1h", "1", "tomorrow", "2026-13-01"} {
		if got, err := parseMoment(value, now); err == nil || !got.IsZero() {
			t.Errorf("%q = %s, %v, want an error", value, got, err)
		}
	}
}

// The periodic job: a worker process runs by itself, and its run is what the command's would be.
func TestWork_ReconcilesByItself(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.env = append(s.env, "RECONCILE_EVERY=1h")
	s.web()
	s.start("work")
	s.eventually("a run of the worker's own to end", func() bool {
		return s.one(`SELECT count(*) FROM reconcile_runs WHERE finished_at IS NOT NULL`) == "1"
	})
	if n := s.one(`SELECT count(*) FROM river_job WHERE kind = 'reconcile' AND queue = 'reconcile'`); n != "1" {
		t.Errorf("%s reconcile jobs, want one in its period", n)
	}
}
