package main

import (
	"encoding/json"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/uuid"

	"paidonce/fulfillment"
	"paidonce/internal/stripesim"
	"paidonce/orders"
)

// says gives a command, and expects it to end well and to say each of these.
func (s *shop) says(args []string, want ...string) string {
	s.t.Helper()
	code, out, errs := s.desk(args...)
	if code != 0 {
		s.t.Errorf("%v = %d %s", args, code, errs)
	}
	for _, text := range want {
		if !strings.Contains(out, text) {
			s.t.Errorf("%v does not say %q:\n%s", args, text, out)
		}
	}
	return out
}

// refuses gives a command that is wrong, and expects it to end with 1 and to name each of these.
func (s *shop) refuses(args []string, want ...string) {
	s.t.Helper()
	code, out, errs := s.desk(args...)
	for _, text := range want {
		if code != 1 || !strings.Contains(errs, text) {
			s.t.Errorf("%v = %d %s%s, want 1 and %q", args, code, out, errs, text)
		}
	}
}

// asked gives a command with --json and reads what it printed.
func asked[T any](s *shop, args ...string) (answer T) {
	s.t.Helper()
	code, out, errs := s.desk(append(args, "--json")...)
	if err := json.Unmarshal([]byte(out), &answer); err != nil || code != 0 {
		s.t.Fatalf("%v = %d %s%s: %v", args, code, out, errs, err)
	}
	return answer
}

// The events of a paid order were given up. A person finds them, looks at one, has them tried
// again, and the order is fulfilled.
func TestDeliveries_ListShowRetry(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	web := s.web()
	order := s.order()
	s.pay(order)
	s.eventually("the events to be stored", func() bool {
		return s.one(`SELECT count(*) FROM webhook_deliveries WHERE event_type = 'checkout.session.completed'`) == "1"
	})
	web.stop()
	s.exec(`UPDATE webhook_deliveries SET processed_at = now(), outcome = 'dead', attempts = 10, last_error = E'boom\x1b[31m\nand more'`)
	all := string(s.one(`SELECT count(*) FROM webhook_deliveries`))
	event := string(s.one(`SELECT event_id FROM webhook_deliveries WHERE event_type = 'checkout.session.completed'`))
	number := string(s.one(`SELECT number FROM orders`))
	dead := []string{"deliveries", "list", "--outcome", "dead"}

	out := s.says(dead, event, "checkout.session.completed", "dead", "boom", all+" deliveries in all", "deliveries retry")
	if strings.Contains(out, "\x1b") {
		t.Errorf("a stranger's text reaches the terminal: %q", out)
	}
	s.says(append(dead, "--type", "checkout.*", "--order", number, "--since", "1h", "--provider", "stripe"), event, "1 delivery in all")
	s.says(append(dead, "--limit", "1"), "The next page: --before evt_")
	s.says([]string{"deliveries", "list", "--outcome", "open"}, "No delivery matches.")
	s.says([]string{"deliveries", "list", "--until", "1d"}, "No delivery matches.")
	type entry struct {
		EventID string `json:"event_id"`
		Outcome string
	}
	if got := asked[[]entry](s, "deliveries", "list", "--order", order.String(), "--type", "checkout.session.completed"); len(got) != 1 || got[0].EventID != event {
		t.Errorf("got %+v, want the one event", got)
	}
	if got := asked[[]entry](s, "deliveries", "list", "--outcome", "foreign"); got == nil || len(got) != 0 {
		t.Errorf("got %+v, want an empty list", got)
	}

	s.says([]string{"deliveries", "show", event}, "boom", "cs_test_", "pi_", order.String(), "10", "paidonce deliveries retry "+event)
	s.says([]string{"deliveries", "show", event, "--body"}, `"type": "checkout.session.completed"`)
	raw := s.says([]string{"deliveries", "show", event, "--raw"})
	if same := s.one(`SELECT body = convert_to(?, 'UTF8') FROM webhook_deliveries WHERE event_id = ?`, raw, event); same != "true" {
		t.Errorf("--raw is not the body byte for byte: %q", raw)
	}
	shown := asked[struct {
		Resources []string
		Orders    []uuid.UUID
		Body      struct{ ID string }
	}](s, "deliveries", "show", "stripe/"+event)
	if !slices.Equal(shown.Orders, []uuid.UUID{order}) || shown.Body.ID != event || len(shown.Resources) < 2 {
		t.Errorf("got %+v", shown)
	}

	s.refuses([]string{"deliveries", "show", "evt_none"}, "evt_none", "no such delivery")
	s.refuses([]string{"deliveries", "retry", event, "evt_none"}, "evt_none")
	s.refuses([]string{"deliveries", "retry"}, "--all")
	s.refuses([]string{"deliveries", "retry", event, "--all"}, "--all")
	s.refuses([]string{"deliveries", "retry", "--all", "--outcome", "applied"}, "--outcome", "applied")
	s.refuses([]string{"deliveries", "retry", "--all", "--outcome", "open"}, "--outcome", "open")
	s.refuses([]string{"deliveries", "retry", "--all", "--stagger", "-1s"}, "--stagger")
	s.refuses([]string{"deliveries", "list", "--outcome", "nope"}, "--outcome", "nope", "foreign")
	s.refuses([]string{"deliveries", "list", "--since", "yesterday"}, "--since", "yesterday")
	s.refuses([]string{"deliveries", "list", "--order", "999"}, "--order", "no such order")
	s.refuses([]string{"deliveries", "list", "--limit", "-1"}, "--limit")
	s.refuses([]string{"deliveries", "list", "--before", "evt_none"}, "--before", "evt_none")

	s.says([]string{"deliveries", "retry", "--all", "--dry-run"}, event, "Would open "+all+" deliveries", "Nothing was changed")
	if open := s.one(`SELECT count(*) FROM webhook_deliveries WHERE outcome IS NULL`); open != "0" {
		t.Errorf("a dry run opened %s", open)
	}
	s.says([]string{"deliveries", "retry", event}, "Opened 1 delivery")
	s.says([]string{"deliveries", "retry", event}, "Nothing to retry.", event+" is open")
	s.says([]string{"deliveries", "retry", "--all", "--outcome", "foreign"}, "Nothing to retry.")
	if got := asked[[]entry](s, "deliveries", "retry", "--all", "--stagger", "10ms"); strconv.Itoa(len(got)+1) != all {
		t.Errorf("opened %d more, want all that were left of %s", len(got), all)
	}

	s.start("work")
	s.settled(order)
	s.says([]string{"deliveries", "retry", event}, "Nothing to retry.", event+" is applied")
	s.says(dead, "No delivery matches.")
	if got := s.outcome(order); got.Licenses != 2 || got.Mails != 1 || got.Paid != 1 {
		t.Errorf("got %+v, want everything once", got)
	}
}

// The provider refuses to be told what was bought. The order is fulfilled and needs a person,
// who is told by which command it is settled; giving exactly that command settles it.
func TestOrders_NeedAttention(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.web()
	s.sim.Inject(stripesim.Fault{Method: http.MethodPost, Path: "/v1/payment_intents", Status: http.StatusBadRequest})
	s.start("work")
	order, calm := s.order(), s.order()
	s.pay(order)
	s.eventually("the refused job to be given up", func() bool {
		return s.one(`SELECT count(*) FROM river_job WHERE kind = 'notify_provider' AND state = 'cancelled'`) == "1"
	})
	s.eventually("the mail to be sent", func() bool { return s.one(`SELECT count(*) FROM sent_receipts WHERE state = 'sent'`) == "1" })
	number := string(s.one(`SELECT number FROM orders WHERE id = ?`, order))
	job := string(s.one(`SELECT id FROM river_job WHERE kind = 'notify_provider'`))

	s.says([]string{"jobs", "list"}, job, "notify_provider", "cancelled", number, "stripe answered 400", "1 job in all", "jobs retry")
	s.says([]string{"jobs", "list", "--kind", "fulfill_order"}, "No job matches.")
	s.says([]string{"jobs", "list", "--state", "completed,available,scheduled", "--order", number, "--since", "1h"}, "fulfill_order")
	s.says([]string{"jobs", "show", job}, "fulfill:"+order.String(), "attempt 1: ", "stripe answered 400", "jobs retry "+job)
	if got := asked[struct {
		Errors []struct{ Error string }
		Kind   string
	}](s, "jobs", "show", job); got.Kind != "notify_provider" || len(got.Errors) != 1 {
		t.Errorf("got %+v", got)
	}
	s.refuses([]string{"jobs", "show", "999999"}, "999999", "no such job")
	s.refuses([]string{"jobs", "show", "x"}, `"x"`)
	s.refuses([]string{"jobs", "retry", job, "999999"}, "999999")
	s.refuses([]string{"jobs", "retry"}, "--all")
	s.refuses([]string{"jobs", "retry", job, "--attempts", "0"}, "--attempts")
	s.refuses([]string{"jobs", "list", "--state", "nope"}, "--state", "nope", "discarded")

	out := s.says([]string{"orders", "list", "--attention"}, number, "fulfilled", "call_failed", "1 order in all")
	if strings.Contains(out, "\n"+string(s.one(`SELECT number FROM orders WHERE id = ?`, calm))+" ") {
		t.Errorf("an order to which nothing happened is listed:\n%s", out)
	}
	s.says([]string{"orders", "list"}, "2 orders in all", "call_failed", "pending")
	s.says([]string{"orders", "list", "--state", "pending", "--email", "BUYER@example.com"}, "1 order in all")
	s.says([]string{"orders", "list", "--attention", "--state", "review"}, "No order needs a person.")
	s.says([]string{"orders", "list", "--limit", "1"}, "The next page: --before ")
	s.refuses([]string{"orders", "list", "--state", "nope"}, "--state", "nope", "review")
	s.refuses([]string{"orders", "show", "nope"}, "order", "nope")
	s.refuses([]string{"orders", "show", "999999"}, "no such order")
	s.says([]string{"orders", "show", number}, order.String(), "pending → paid", "received 39.98 USD", "cs_test_", "2 active", "receipt sent",
		"call      fulfill:"+order.String()+" failed", "checkout.session.completed", "NEEDS ATTENTION", "paidonce jobs retry --all --order "+number)
	s.says([]string{"orders", "show", calm.String()}, "Nothing about it needs a person.")

	type dossier struct {
		Attention []struct {
			Kind     string
			Commands []string
		}
		Licenses, Payments, Timeline []map[string]any
	}
	got := asked[dossier](s, "orders", "show", number)
	if len(got.Attention) != 1 || len(got.Licenses) != 2 || got.Licenses[0]["key"] != nil || len(got.Payments) != 1 || len(got.Timeline) != 2 {
		t.Fatalf("got %+v", got)
	}
	s.says([]string{"jobs", "retry", job, "--dry-run"}, "Would try 1 job again", "with its refused call fulfill:")
	s.says(strings.Fields(got.Attention[0].Commands[0])[1:], "Trying 1 job again")
	s.settled(order)
	s.says([]string{"jobs", "retry", job}, "Nothing to retry.", "it is completed")
	s.says([]string{"orders", "list", "--attention"}, "No order needs a person.")
	if told := s.outcome(order).Told; told != 1 {
		t.Errorf("Stripe was told %d times, want once", told)
	}
}

func TestProducts_Active(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.web()
	s.says([]string{"products", "list"}, "KEY-1", "19.99 USD", "yes")
	s.says([]string{"products", "deactivate", "KEY-1"}, "KEY-1 is not for sale any more")
	s.says([]string{"products", "list"}, "KEY-1", "no")
	const body = `{"email":"buyer@example.com","items":[{"sku":"KEY-1","quantity":2}]}`
	answer, err := http.Post("http://"+s.addr+"/orders", "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusUnprocessableEntity {
		t.Errorf("an order of what is not for sale: %d", answer.StatusCode)
	}
	s.refuses([]string{"products", "activate", "KEY-1", "KEY-9"}, "KEY-9", "no such product")
	if got := asked[[]struct{ Active bool }](s, "products", "list"); len(got) != 1 || got[0].Active {
		t.Errorf("got %+v, want nothing changed by a command that was refused", got)
	}
	s.says([]string{"products", "activate", "KEY-1"}, "KEY-1 is for sale.")
	s.order()
}

// TestCommandsOfOperations: every command that a page, or an order that needs attention, tells
// a person to give is there, with its flags and with all that it requires.
func TestCommandsOfOperations(t *testing.T) {
	t.Parallel()
	lines := append(commandsOfPages(t), commandsOfAttention(t)...)
	for _, line := range lines {
		if fault := commandFault(line); fault != "" {
			t.Errorf("%q: %s", line, fault)
		}
	}
	for line, want := range map[string]string{
		"paidonce orders forget ORDER":                 "no such command",
		"paidonce orders cancel ORDER --now":           "--now",
		"paidonce orders cancel ORDER --why TEXT":      `"by"`,
		"paidonce mails resend ORDER KIND --by WHO":    `"why"`,
		"paidonce orders refund ORDER --surplus # all": `"by"`,
	} {
		if fault := commandFault(line); !strings.Contains(fault, want) {
			t.Errorf("%q: %q, want %q", line, fault, want)
		}
	}
}

// commandsOfPages are the command lines of the README and of docs, in a sentence or in a block.
func commandsOfPages(t *testing.T) []string {
	t.Helper()
	pages, err := filepath.Glob(repo + "/docs/*.md")
	if err != nil || len(pages) < 10 {
		t.Fatalf("the pages are %q: %v", pages, err)
	}
	var lines []string
	for _, page := range append(pages, repo+"/README.md") {
		block := false
		for line := range strings.Lines(strings.ReplaceAll(read(t, page), "\\\n", "")) {
			if strings.HasPrefix(line, "```") {
				block = !block
			}
			pattern := "`(paidonce [^`]+)`"
			if block || strings.HasPrefix(line, "    ") {
				pattern = `(?:^|[ /])(paidonce [a-z][^)]*)`
			}
			for _, match := range regexp.MustCompile(pattern).FindAllStringSubmatch(line, -1) {
				lines = append(lines, match[1])
			}
		}
	}
	if len(lines) < 60 {
		t.Errorf("found %d commands; are the patterns still right?", len(lines))
	}
	return lines
}

// commandsOfAttention are those that "orders show" prints.
func commandsOfAttention(t *testing.T) []string {
	t.Helper()
	var lines []string
	for _, kind := range []fulfillment.AttentionKind{
		fulfillment.AttentionReview, fulfillment.AttentionSurplus, fulfillment.AttentionRefundFailed, fulfillment.AttentionDispute, fulfillment.AttentionDelivery,
		fulfillment.AttentionJob, fulfillment.AttentionCall, fulfillment.AttentionCallUnknown, fulfillment.AttentionCallStuck,
		fulfillment.AttentionMailUnknown, fulfillment.AttentionMailParked,
	} {
		for _, subject := range []string{"checkout:1", "refund:1", "fulfill:1"} {
			commands := settling(fulfillment.Attention{Kind: kind, Subject: subject}, fulfillment.Dossier{View: orders.View{Order: orders.Order{Number: 1}}})
			if len(commands) == 0 {
				t.Errorf("nothing settles %s of %s", kind, subject)
			}
			for _, line := range commands {
				if strings.HasPrefix(line, "paidonce ") {
					lines = append(lines, line)
				} else if !strings.HasPrefix(line, "none: ") {
					t.Errorf("%s: %q is neither a command nor says that there is none", kind, line)
				}
			}
		}
	}
	return lines
}

// commandFault says what is wrong with a command line. One that is named alone, without
// arguments, is spoken of and not given: it need not have what it requires.
func commandFault(line string) string {
	line = regexp.MustCompile(` [#|] .*|\|\S+`).ReplaceAllString(line, "")
	root := newRoot(&surroundings{})
	root.InitDefaultCompletionCmd()
	cmd, rest, err := root.Find(strings.Fields(line)[1:])
	if err != nil || cmd.HasSubCommands() && len(rest) > 0 && !strings.HasPrefix(rest[0], "-") {
		return "there is no such command"
	}
	cmd.InitDefaultHelpFlag()
	for _, match := range regexp.MustCompile(`--([a-z-]+)`).FindAllStringSubmatch(line, -1) {
		flag := cmd.Flag(match[1])
		if flag == nil {
			return "it has no flag --" + match[1]
		}
		flag.Changed = true
	}
	if err := cmd.ValidateRequiredFlags(); err != nil && len(rest) > 0 {
		return err.Error()
	}
	return ""
}

// A dispute has a date by which it has to be answered: the order says so, and shows the events
// that told of it, whose own id is the dispute's.
func TestOrders_ADisputeNeedsAPerson(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.web()
	s.start("work")
	order := s.order()
	paid := s.pay(order)
	s.inState(order, "fulfilled")
	id, _, err := s.sim.OpenDispute(paid.ChargeID, 0, "")
	if err != nil {
		t.Fatal(err)
	}
	s.inState(order, "disputed")
	number := string(s.one(`SELECT number FROM orders WHERE id = ?`, order))
	due := string(s.one(`SELECT to_char(due_at AT TIME ZONE 'UTC', 'YYYY-MM-DD') FROM disputes WHERE dispute_id = ?`, id))
	s.says([]string{"orders", "list", "--attention"}, number, "disputed", "dispute", "1 order in all")
	s.says([]string{"orders", "show", number}, "NEEDS ATTENTION", "wants evidence by "+due, "charge.dispute.created")
	s.says([]string{"deliveries", "list", "--order", number}, "charge.dispute.created", "checkout.session.completed")
	if _, err := s.sim.CloseDispute(id, "won"); err != nil {
		t.Fatal(err)
	}
	s.inState(order, "fulfilled")
	s.says([]string{"orders", "show", number}, "Nothing about it needs a person.")
}
