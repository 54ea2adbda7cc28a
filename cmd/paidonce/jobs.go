package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/riverqueue/river/rivertype"
	"github.com/spf13/cobra"

	"paidonce/fulfillment"
)

func newJobs(e *surroundings) *cobra.Command {
	cmd := &cobra.Command{Use: "jobs", Short: "Steps that are done in the background, and those that were given up", Args: cobra.NoArgs, RunE: showHelp}
	cmd.AddCommand(newJobsList(e), newJobsShow(e), newJobsRetry(e))
	return cmd
}

// jobFlags choose jobs.
type jobFlags struct {
	states []string
	kinds  []string
	order  string
	since  moment
	limit  int
}

// The words of --state beside the queue's own.
const (
	stateDead = "dead" // discarded or cancelled
	stateAll  = "all"
)

func stateNames() []string {
	names := []string{stateDead, stateAll}
	for _, state := range rivertype.JobStates() {
		names = append(names, string(state))
	}
	return names
}

func (f *jobFlags) add(cmd *cobra.Command, limit int) {
	cmd.Flags().StringSliceVar(&f.states, "state", []string{stateDead}, "only these: "+strings.Join(stateNames(), ", "))
	cmd.Flags().StringSliceVar(&f.kinds, "kind", nil, "only these kinds: fulfill_order, send_receipt …")
	cmd.Flags().StringVar(&f.order, "order", "", "only about this order, by its id or number")
	cmd.Flags().Var(&f.since, "since", "only what ended, or is due, then or later: 36h or 7d ago, a day or a time (UTC)")
	cmd.Flags().IntVar(&f.limit, "limit", limit, "at most so many; 0 for all")
}

// filter reads the flags.
func (f *jobFlags) filter(cmd *cobra.Command, a *app) (fulfillment.JobFilter, error) {
	filter := fulfillment.JobFilter{Kinds: f.kinds, Since: f.since.Time, Limit: f.limit}
	for _, name := range f.states {
		switch {
		case name == stateDead:
			filter.States = append(filter.States, fulfillment.DeadStates()...)
		case name == stateAll:
			filter.States = append(filter.States, rivertype.JobStates()...)
		case slices.Contains(rivertype.JobStates(), rivertype.JobState(name)):
			filter.States = append(filter.States, rivertype.JobState(name))
		default:
			return filter, fmt.Errorf("--state: there is no %q; there are %s", name, strings.Join(stateNames(), ", "))
		}
	}
	if f.limit < 0 {
		return filter, errors.New("--limit: must not be negative")
	}
	var err error
	filter.OrderID, err = findOrder(cmd, a, f.order)
	return filter, err
}

func newJobsList(e *surroundings) *cobra.Command {
	var flags jobFlags
	var before int64
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List dead jobs, or those in another state, the newest first",
		Long: `list shows the jobs that nobody will try again unless you ask for it: discarded ones have used up their
attempts, cancelled ones were given up at once. With --state it shows others. docs/operations.md says
what each kind does and what its errors mean.`,
		Example: `  paidonce jobs list
  paidonce jobs list --state retryable --kind notify_provider
  paidonce jobs list --state all --order 17`,
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
			filter.Before = before
			jobs, total, err := a.service.Jobs(cmd.Context(), filter)
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd, jobs)
			}
			printJobs(cmd, jobs)
			sumUpJobs(cmd, filter, jobs, total)
			return nil
		},
	}
	flags.add(cmd, listed)
	cmd.Flags().Int64Var(&before, "before", 0, "the next page: only older than this job")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON array")
	return cmd
}

func printJobs(cmd *cobra.Command, jobs []fulfillment.JobEntry) {
	if len(jobs) == 0 {
		return
	}
	t := newTable(cmd.OutOrStdout(), "JOB", "KIND", "STATE", "ATTEMPTS", "ENDED OR DUE (UTC)", "ORDER", "LAST ERROR")
	for _, j := range jobs {
		when := j.ScheduledAt
		if j.FinalizedAt != nil {
			when = *j.FinalizedAt
		}
		t.row(strconv.FormatInt(j.ID, 10), j.Kind, string(j.State), fmt.Sprintf("%d of %d", j.Attempt, j.MaxAttempts), at(when), numberOf(j), short(j.LastError(), 160))
	}
	t.end()
}

func numberOf(j fulfillment.JobEntry) string {
	if j.OrderNumber == nil {
		return "-"
	}
	return strconv.FormatInt(*j.OrderNumber, 10)
}

// sumUpJobs says how many there are, and what to do next.
func sumUpJobs(cmd *cobra.Command, f fulfillment.JobFilter, jobs []fulfillment.JobEntry, total int) {
	if total == 0 {
		cmd.Println("No job matches.")
		return
	}
	cmd.Printf("\n%s in all.", counted(total, "job", "jobs"))
	if len(jobs) > 0 && f.Limit > 0 && len(jobs) == f.Limit && total > f.Limit {
		cmd.Printf(" The next page: --before %d.", jobs[len(jobs)-1].ID)
	}
	if slices.ContainsFunc(jobs, fulfillment.JobEntry.Dead) {
		cmd.Printf(" Look at one: paidonce jobs show JOB. Once its cause is mended: paidonce jobs retry JOB, or --all.")
	}
	cmd.Println()
}

func newJobsShow(e *surroundings) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show JOB",
		Short: "Show one job, with every error that it met",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ids, err := jobIDs(args)
			if err != nil {
				return err
			}
			a, err := deskApp(cmd.Context(), e)
			if err != nil {
				return err
			}
			defer a.db.Close()
			jobs, err := a.service.FindJobs(cmd.Context(), ids...)
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd, jobs[0])
			}
			printJob(cmd, jobs[0])
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func jobIDs(args []string) ([]int64, error) {
	var ids []int64
	for _, arg := range args {
		id, err := strconv.ParseInt(arg, 10, 64)
		if err != nil || id <= 0 {
			return nil, fmt.Errorf("JOB: %q is not the number of a job", arg)
		}
		ids = append(ids, id)
	}
	return ids, nil
}

func printJob(cmd *cobra.Command, j fulfillment.JobEntry) {
	t := newTable(cmd.OutOrStdout())
	t.row("job", fmt.Sprintf("%d, %s in queue %s", j.ID, j.Kind, j.Queue))
	t.row("arguments", string(j.Args))
	t.row("state", fmt.Sprintf("%s, after %d of %d attempts", j.State, j.Attempt, j.MaxAttempts))
	t.row("made", at(j.CreatedAt))
	if j.FinalizedAt != nil {
		t.row("ended", at(*j.FinalizedAt))
	} else {
		t.row("due", at(j.ScheduledAt))
	}
	if j.OrderNumber != nil {
		t.row("order", fmt.Sprintf("%d, %s", *j.OrderNumber, j.OrderID))
	}
	if j.CallState != nil {
		t.row("its call", *j.CallState)
	}
	t.end()
	cmd.Println()
	if len(j.Errors) == 0 {
		cmd.Println("It met no error.")
	}
	for _, failed := range j.Errors {
		cmd.Printf("%s  attempt %d: %s\n", at(failed.At), failed.Attempt, plain(failed.Error))
		for line := range strings.Lines(failed.Trace) {
			cmd.Printf("    %s\n", plain(strings.TrimSuffix(line, "\n")))
		}
	}
	if j.Dead() {
		cmd.Printf("\nTo try it again: paidonce jobs retry %d\n", j.ID)
	}
}

func newJobsRetry(e *surroundings) *cobra.Command {
	var flags jobFlags
	var retry retryFlags
	var attempts int
	cmd := &cobra.Command{
		Use:   "retry JOB… | --all",
		Short: "Try jobs again that were given up",
		Long: `retry makes jobs due again: the named ones, or with --all every dead one that the other flags choose. With
--state retryable it makes those due now that wait for their next attempt. A job that is due, running or
completed is left as it is: giving the command twice does nothing the second time.

A job keeps its arguments, and with them the key of the call or mail that it is about, so that what was
done once is not done twice. One whose call the provider refused for good is left as it is where a person
has to decide anew (a checkout, a refund); a notice of what was bought is sent again under its key.`,
		Example: `  paidonce jobs retry 4711
  paidonce jobs retry --all --kind send_receipt --dry-run
  paidonce jobs retry --all --since 24h --stagger 2s`,
		RunE: func(cmd *cobra.Command, names []string) error {
			if err := retry.check(names); err != nil {
				return err
			}
			if attempts < 1 || attempts > 1000 {
				return errors.New("--attempts: must be from 1 to 1000")
			}
			ids, err := jobIDs(names)
			if err != nil {
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
			if len(ids) > 0 {
				if _, err := a.service.FindJobs(cmd.Context(), ids...); err != nil {
					return err
				}
				filter = fulfillment.JobFilter{IDs: ids} // whatever its state: the result says why one is left
			}
			results, err := a.service.RetryJobs(cmd.Context(), filter, fulfillment.Retry{Stagger: retry.stagger, Attempts: attempts, DryRun: retry.dryRun})
			if err != nil {
				return err
			}
			if retry.asJSON {
				return printJSON(cmd, results)
			}
			printRetried(cmd, results, retry.dryRun)
			return nil
		},
	}
	flags.add(cmd, 0)
	retry.add(cmd, "job")
	cmd.Flags().IntVar(&attempts, "attempts", fulfillment.DefaultMoreAttempts, "how many more attempts each gets, at least")
	return cmd
}

func printRetried(cmd *cobra.Command, results []fulfillment.JobRetry, dryRun bool) {
	const shown = 20
	due := 0
	for _, r := range results {
		if r.DueAt != nil {
			due++
		}
	}
	if len(results) > 0 {
		t := newTable(cmd.OutOrStdout(), "JOB", "KIND", "WAS", "DUE (UTC)")
		for _, r := range results[:min(len(results), shown)] {
			when := "left: " + r.Left
			if r.DueAt != nil {
				when = at(*r.DueAt)
			}
			if r.Call != "" {
				when += ", with its refused call " + r.Call
			}
			t.row(strconv.FormatInt(r.ID, 10), r.Kind, string(r.Was), when)
		}
		t.end()
	}
	if more := len(results) - shown; more > 0 {
		cmd.Printf("… and %d more\n", more)
	}
	left := ""
	if due < len(results) {
		left = fmt.Sprintf(" %d left as they are.", len(results)-due)
	}
	switch n := counted(due, "job", "jobs"); {
	case due == 0:
		cmd.Printf("Nothing to retry.%s\n", left)
	case dryRun:
		cmd.Printf("Would try %s again.%s Nothing was changed.\n", n, left)
	default:
		cmd.Printf("Trying %s again.%s What is given up once more: paidonce jobs list\n", n, left)
	}
}
