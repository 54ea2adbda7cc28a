package main

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"paidonce/webhooks"
)

// retryFlags are what the commands have in common that try things again.
type retryFlags struct {
	all     bool
	dryRun  bool
	asJSON  bool
	stagger time.Duration
}

func (f *retryFlags) add(cmd *cobra.Command, what string) {
	cmd.Flags().BoolVar(&f.all, "all", false, "every "+what+" that the other flags choose")
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "show what would be tried again, and change nothing")
	cmd.Flags().DurationVar(&f.stagger, "stagger", 0, "from one to the next, so that they do not come all at once: 2s")
	cmd.Flags().BoolVar(&f.asJSON, "json", false, "print JSON")
}

// check refuses what would be either everything or nothing.
func (f *retryFlags) check(names []string) error {
	switch {
	case f.stagger < 0:
		return errors.New("--stagger: must not be negative")
	case f.all && len(names) > 0:
		return errors.New("--all: give either names or --all, not both")
	case !f.all && len(names) == 0:
		return errors.New("name what to try again, or give --all")
	}
	return nil
}

func newDeliveriesRetry(e *surroundings) *cobra.Command {
	var flags deliveryFlags
	var retry retryFlags
	cmd := &cobra.Command{
		Use:   "retry EVENT… | --all",
		Short: "Open deliveries again that were given up",
		Long: `retry opens deliveries again, with all their attempts. By name it takes those that are dead, foreign,
unsupported or ignored; --all takes the dead ones, or those of --outcome. Any other delivery has had
its effect, or is still open, and is left alone: giving the command twice does nothing the second time.

Each is applied as if it had just come, and only if it says something new. No signature is looked at
again: a delivery in our own store was verified when it came, and may be older than any tolerance.`,
		Example: `  paidonce deliveries retry evt_1PxYz
  paidonce deliveries retry --all --since 24h --dry-run
  paidonce deliveries retry --all --outcome unsupported --type 'charge.*' --stagger 100ms`,
		RunE: func(cmd *cobra.Command, names []string) error {
			if err := retry.check(names); err != nil {
				return err
			}
			a, err := deskApp(cmd.Context(), e)
			if err != nil {
				return err
			}
			defer a.db.Close()
			filter, err := flags.filter(cmd, a)
			if err != nil {
				return err
			}
			if err := a.chooseDeliveries(cmd, &filter, names); err != nil {
				return err
			}
			reopened, err := a.inbox.Reopen(cmd.Context(), filter, retry.stagger, retry.dryRun)
			if err != nil {
				return err
			}
			if retry.asJSON {
				return printJSON(cmd, reopened)
			}
			printReopened(cmd, reopened, retry)
			return a.explainLeft(cmd, filter.Keys, reopened)
		},
	}
	flags.add(cmd, 0)
	retry.add(cmd, "delivery")
	return cmd
}

// chooseDeliveries narrows the filter to what may be retried: the named ones, whatever their
// outcome, or all that are dead or of the outcomes that were asked for.
func (a *app) chooseDeliveries(cmd *cobra.Command, f *webhooks.Filter, names []string) (err error) {
	if len(names) > 0 {
		f.Keys, err = a.inbox.Find(cmd.Context(), names...)
		return err
	}
	for _, o := range f.Outcomes {
		if !slices.Contains(webhooks.Reopenable(), o) {
			return fmt.Errorf("--outcome: %s needs no retry; %v do", o, webhooks.Reopenable())
		}
	}
	if f.Open {
		return fmt.Errorf("--outcome: what is open is tried by itself; %v are not", webhooks.Reopenable())
	}
	if len(f.Outcomes) == 0 {
		f.Outcomes = []webhooks.Outcome{webhooks.OutcomeDead}
	}
	return nil
}

func printReopened(cmd *cobra.Command, reopened []webhooks.Reopening, retry retryFlags) {
	const shown = 20
	if len(reopened) > 0 {
		t := newTable(cmd.OutOrStdout(), "EVENT", "TYPE", "WAS", "DUE (UTC)")
		for _, r := range reopened[:min(len(reopened), shown)] {
			t.row(nameOf(r.Provider, r.EventID), r.EventType, string(r.Was), at(r.DueAt))
		}
		t.end()
	}
	if more := len(reopened) - shown; more > 0 {
		cmd.Printf("… and %d more\n", more)
	}
	switch n := counted(len(reopened), "delivery", "deliveries"); {
	case len(reopened) == 0:
		cmd.Println("Nothing to retry.")
	case retry.dryRun:
		cmd.Printf("Would open %s again. Nothing was changed.\n", n)
	default:
		cmd.Printf("Opened %s again. How they end: paidonce deliveries list --outcome dead,open\n", n)
	}
}

// explainLeft says of every delivery that was named why it was not opened.
func (a *app) explainLeft(cmd *cobra.Command, named []webhooks.Key, reopened []webhooks.Reopening) error {
	var left []webhooks.Key
	for _, key := range named {
		if !slices.ContainsFunc(reopened, func(r webhooks.Reopening) bool { return r.Key() == key }) {
			left = append(left, key)
		}
	}
	if len(left) == 0 {
		return nil
	}
	entries, _, err := a.inbox.List(cmd.Context(), webhooks.Filter{Keys: left})
	if err != nil {
		return err
	}
	for _, e := range entries {
		state := "is open, and is tried by itself"
		if e.ProcessedAt != nil {
			state = "is " + outcomeOf(e) + ": there is nothing to retry"
		}
		cmd.Printf("%s %s.\n", plain(nameOf(e.Provider, e.EventID)), state)
	}
	return nil
}
