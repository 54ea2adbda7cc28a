package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"paidonce/webhooks"
)

func newDeliveries(e *surroundings) *cobra.Command {
	cmd := &cobra.Command{Use: "deliveries", Short: "Events that came in, and how they ended", Args: cobra.NoArgs, RunE: showHelp}
	cmd.AddCommand(newDeliveriesList(e), newDeliveriesShow(e), newDeliveriesRetry(e))
	return cmd
}

// deliveryFlags choose deliveries.
type deliveryFlags struct {
	outcomes []string
	kind     string
	provider string
	since    moment
	until    moment
	order    string
	limit    int
}

// outcomeOpen is what --outcome calls deliveries that have not ended.
const outcomeOpen = "open"

func (f *deliveryFlags) add(cmd *cobra.Command, limit int) {
	cmd.Flags().StringSliceVar(&f.outcomes, "outcome", nil, "only these: "+strings.Join(outcomeNames(), ", "))
	cmd.Flags().StringVar(&f.kind, "type", "", "only this type; * stands for any text: 'charge.*'")
	cmd.Flags().StringVar(&f.provider, "provider", "", "only of this provider")
	cmd.Flags().Var(&f.since, "since", "only received then or later: 36h or 7d ago, a day or a time (UTC)")
	cmd.Flags().Var(&f.until, "until", "only received before then")
	cmd.Flags().StringVar(&f.order, "order", "", "only about this order, by its id or number")
	cmd.Flags().IntVar(&f.limit, "limit", limit, "at most so many; 0 for all")
}

func outcomeNames() []string {
	names := []string{outcomeOpen}
	for _, o := range webhooks.Outcomes() {
		names = append(names, string(o))
	}
	return names
}

// filter reads the flags.
func (f *deliveryFlags) filter(cmd *cobra.Command, a *app) (webhooks.Filter, error) {
	filter := webhooks.Filter{Type: f.kind, Provider: f.provider, Since: f.since.Time, Until: f.until.Time, Limit: f.limit}
	for _, name := range f.outcomes {
		switch {
		case name == outcomeOpen:
			filter.Open = true
		case slices.Contains(webhooks.Outcomes(), webhooks.Outcome(name)):
			filter.Outcomes = append(filter.Outcomes, webhooks.Outcome(name))
		default:
			return filter, fmt.Errorf("--outcome: there is no %q; there are %s", name, strings.Join(outcomeNames(), ", "))
		}
	}
	if f.limit < 0 {
		return filter, errors.New("--limit: must not be negative")
	}
	var err error
	filter.OrderID, err = findOrder(cmd, a, f.order)
	return filter, err
}

// findOrder is the order that --order names; none if it is not given.
func findOrder(cmd *cobra.Command, a *app, name string) (uuid.UUID, error) {
	if name == "" {
		return uuid.Nil, nil
	}
	id, err := a.orders.Find(cmd.Context(), name)
	if err != nil {
		return uuid.Nil, fmt.Errorf("--order: %w", err)
	}
	return id, nil
}

func newDeliveriesList(e *surroundings) *cobra.Command {
	var flags deliveryFlags
	var before string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List deliveries, the newest first",
		Long: `list shows what came in and how it ended, the newest first. --outcome dead shows what was given up,
--outcome open what is not done yet. docs/operations.md says what each outcome means.`,
		Example: `  paidonce deliveries list --outcome dead --since 24h
  paidonce deliveries list --order 17
  paidonce deliveries list --outcome foreign --type 'charge.*' --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			a, err := deskApp(cmd.Context(), e)
			if err != nil {
				return err
			}
			defer a.db.Close()
			filter, err := flags.filter(cmd, a)
			if err != nil {
				return err
			}
			if before != "" {
				keys, err := a.inbox.Find(cmd.Context(), before)
				if err != nil {
					return fmt.Errorf("--before: %w", err)
				}
				filter.Before = &keys[0]
			}
			entries, total, err := a.inbox.List(cmd.Context(), filter)
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd, entries)
			}
			printDeliveries(cmd, entries)
			sumUpDeliveries(cmd, filter, entries, total)
			return nil
		},
	}
	flags.add(cmd, listed)
	cmd.Flags().StringVar(&before, "before", "", "the next page: only older than this event")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON array")
	return cmd
}

func printDeliveries(cmd *cobra.Command, entries []webhooks.Entry) {
	if len(entries) == 0 {
		return
	}
	t := newTable(cmd.OutOrStdout(), "RECEIVED (UTC)", "EVENT", "TYPE", "RESOURCE", "OUTCOME", "ATTEMPTS", "WHY")
	for _, e := range entries {
		t.row(at(e.ReceivedAt), shortName(nameOf(e.Provider, e.EventID)), e.EventType, short(e.ResourceID, 30), outcomeOf(e), fmt.Sprint(e.Attempts), short(whyOf(e), 100))
	}
	t.end()
}

// nameOf is a delivery's name as its commands take it: the event's id, with its provider
// where that is not Stripe.
func nameOf(provider, eventID string) string {
	if provider == "stripe" {
		return eventID
	}
	return provider + "/" + eventID
}

// nameLength cuts what is no event id, like the long name of what reconcile recorded.
const nameLength = 40

// shortName is a delivery's name for a table; an event id stays whole, to be copied.
func shortName(name string) string {
	if strings.HasPrefix(name, "evt_") {
		return name
	}
	return short(name, nameLength)
}

func outcomeOf(e webhooks.Entry) string { return textOr(e.Outcome, "waiting") }

// whyOf is why a delivery stands as it does; "" if its outcome says it all. What went wrong
// before it was applied is of no interest any more.
func whyOf(e webhooks.Entry) string {
	if e.Detail != nil {
		return *e.Detail
	}
	return textOr(e.LastError, "")
}

// sumUpDeliveries says how many there are, and what to do next.
func sumUpDeliveries(cmd *cobra.Command, f webhooks.Filter, entries []webhooks.Entry, total int) {
	if total == 0 {
		cmd.Println("No delivery matches.")
		return
	}
	if total > webhooks.CountedUpTo {
		cmd.Printf("\nMore than %d deliveries in all.", webhooks.CountedUpTo)
	} else {
		cmd.Printf("\n%s in all.", counted(total, "delivery", "deliveries"))
	}
	if last := len(entries) - 1; last >= 0 && f.Limit > 0 && len(entries) == f.Limit && total > f.Limit {
		cmd.Printf(" The next page: --before %s.", nameOf(entries[last].Provider, entries[last].EventID))
	}
	if slices.ContainsFunc(entries, func(e webhooks.Entry) bool { return e.Outcome != nil && *e.Outcome == webhooks.OutcomeDead }) {
		cmd.Printf(" Look at one: paidonce deliveries show EVENT. Once its cause is mended: paidonce deliveries retry EVENT, or --all.")
	}
	cmd.Println()
}

func newDeliveriesShow(e *surroundings) *cobra.Command {
	var body, raw, asJSON bool
	cmd := &cobra.Command{
		Use:   "show EVENT",
		Short: "Show all there is about one delivery",
		Long: `show prints what is known of one delivery: how it ended and why, the ids that it names, the orders
that it is about. EVENT is the event's id, or PROVIDER/ID where two providers use one.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			a, err := deskApp(cmd.Context(), e)
			if err != nil {
				return err
			}
			defer a.db.Close()
			keys, err := a.inbox.Find(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			shown, err := a.inbox.Show(cmd.Context(), keys[0], func(body []byte) []string { return a.resourcesOf(keys[0].Provider, body) })
			if err != nil {
				return err
			}
			switch {
			case raw:
				_, err := cmd.OutOrStdout().Write(shown.Body)
				return err
			case asJSON:
				return printJSON(cmd, deliveryJSON(shown))
			}
			a.printDelivery(cmd, shown, body)
			return nil
		},
	}
	cmd.Flags().BoolVar(&body, "body", false, "also print the body, indented if it is JSON")
	cmd.Flags().BoolVar(&raw, "raw", false, "print the body alone, byte for byte as it was signed")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, the body included")
	cmd.MarkFlagsMutuallyExclusive("raw", "json")
	return cmd
}

// resourcesOf are the ids that a body names, as its provider reads it; none if it cannot be
// read.
func (a *app) resourcesOf(provider string, body []byte) (resources []string) {
	p, ok := a.providers[provider]
	if !ok {
		return nil
	}
	defer func() {
		if recover() != nil { // this may be the event that panics: it is to be shown all the same
			resources = nil
		}
	}()
	event, err := p.Parse(body)
	if err != nil {
		return nil
	}
	return event.Resources
}

// deliveryJSON is a delivery for a program.
func deliveryJSON(s webhooks.Shown) any {
	shown := struct {
		webhooks.Entry

		Resources  []string        `json:"resources"`
		Orders     []uuid.UUID     `json:"orders"`
		Body       json.RawMessage `json:"body"`                  // null if it is not JSON
		BodyBase64 []byte          `json:"body_base64,omitempty"` // then it is here
	}{Entry: s.Entry, Resources: s.Resources, Orders: append([]uuid.UUID{}, s.Orders...), Body: s.Body}
	if !json.Valid(s.Body) {
		shown.Body, shown.BodyBase64 = nil, s.Body
	}
	return shown
}

func (a *app) printDelivery(cmd *cobra.Command, s webhooks.Shown, body bool) {
	t := newTable(cmd.OutOrStdout())
	t.row("event", s.Provider+" "+s.EventID)
	t.row("type", s.EventType)
	t.row("resources", strings.Join(s.Resources, " "))
	t.row("world", world(s.Livemode, s.Account)+", API version "+textOr(&s.APIVersion, "unknown"))
	t.row("occurred", atOr(s.OccurredAt, "the event does not say"))
	t.row("received", at(s.ReceivedAt)+", by "+string(s.Source))
	t.row("outcome", outcomeOf(s.Entry))
	if s.Detail != nil {
		t.row("detail", *s.Detail)
	}
	if s.ProcessedAt != nil {
		t.row("ended", at(*s.ProcessedAt))
	} else {
		t.row("due", at(s.NextAttemptAt))
	}
	t.row("attempts", fmt.Sprint(s.Attempts))
	if s.LastError != nil {
		t.row("last error", *s.LastError)
	}
	for _, id := range s.Orders {
		t.row("order", id.String())
	}
	if len(s.Orders) == 0 {
		t.row("order", "none that we know")
	}
	t.end()
	if s.Outcome != nil && slices.Contains(webhooks.Reopenable(), *s.Outcome) {
		cmd.Printf("\nTo try it again: paidonce deliveries retry %s\n", plain(nameOf(s.Provider, s.EventID)))
	}
	if body {
		cmd.Println()
		var pretty bytes.Buffer
		if err := json.Indent(&pretty, s.Body, "", "  "); err != nil {
			pretty.Reset()
			_, _ = fmt.Fprintf(&pretty, "%q", s.Body)
		}
		for line := range strings.Lines(pretty.String()) {
			cmd.Println(plain(strings.TrimSuffix(line, "\n")))
		}
	}
}

// world is where an event or a call belongs.
func world(livemode bool, account string) string {
	mode := "test mode"
	if livemode {
		mode = "live mode"
	}
	if account != "" {
		return mode + " of account " + account
	}
	return mode
}
