package main

import (
	"errors"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"
)

func newBench(e *surroundings) *cobra.Command {
	cmd := &cobra.Command{
		Use: "bench", Short: "Measure on this machine", Args: cobra.NoArgs, RunE: showHelp,
	}
	cmd.AddCommand(newBenchReconcile(e))
	return cmd
}

// The sizes that reconcile is measured with, and how many of the orders nobody told us of.
const (
	benchMissedOneIn     = 100
	benchObjectsPerOrder = 5 // a session, an intent, and three events of ours
)

func newBenchReconcile(e *surroundings) *cobra.Command {
	var sizes []int
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "reconcile",
		Short: "Objects per second and peak memory of paidonce reconcile",
		Long: `reconcile starts a private Postgres and a simulated Stripe in this process, fills both with paid
orders, one in a hundred of which no event told us of, and runs "paidonce reconcile" on them as a
process of its own, whose memory is then its own. The second run of each size finds nothing.

Objects are sessions, intents and events. The time that the simulated Stripe takes is measured
beside, since it is no part of ours; the budget of requests a second is lifted, which ordinarily
is what bounds a run: 10 a second, of up to 100 objects each. Numbers of one machine are told as
ratios of its own: the second size to the first.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if len(sizes) == 0 {
				return errors.New("--objects: at least one size is needed")
			}
			for _, n := range sizes {
				if n < benchObjectsPerOrder*benchMissedOneIn {
					return fmt.Errorf("--objects: %d is too few to measure; at least %d", n, benchObjectsPerOrder*benchMissedOneIn)
				}
			}
			var all []benchResult
			for _, n := range sizes {
				result, err := benchReconcile(cmd.Context(), e, n)
				if err != nil {
					return fmt.Errorf("with %d objects: %w", n, err)
				}
				all = append(all, result)
			}
			if asJSON {
				return writeJSON(cmd.OutOrStdout(), all)
			}
			printBench(cmd.OutOrStdout(), all)
			return nil
		},
	}
	cmd.Flags().IntSliceVar(&sizes, "objects", []int{10_000, 100_000}, "how many of the provider's objects; several are compared")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// benchResult is what was measured with one size.
type benchResult struct {
	Orders  int      `json:"orders"`
	Healing benchRun `json:"healing"` // one order in a hundred was missed
	Clean   benchRun `json:"clean"`
}

// benchRun is one run of paidonce reconcile.
type benchRun struct {
	Objects         int64   `json:"objects"`
	Healed          int64   `json:"healed"`
	Seconds         float64 `json:"seconds"`
	ProviderSeconds float64 `json:"provider_seconds"` // of them, the simulated Stripe's
	Requests        int64   `json:"requests"`
	PerSecond       float64 `json:"objects_per_second"`
	OwnPerSecond    float64 `json:"objects_per_second_without_provider"`
	PeakHeapBytes   uint64  `json:"peak_heap_bytes"`
	PeakRSSBytes    uint64  `json:"peak_rss_bytes"` // 0: this system does not tell
}

func printBench(w io.Writer, all []benchResult) {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintln(table, "objects\trun\thealed\tseconds\tStripe's\trequests\tobjects/s\twithout Stripe\tpeak heap\tpeak RSS\t")
	for _, r := range all {
		for _, run := range []struct {
			name string
			benchRun
		}{{"healing", r.Healing}, {"clean", r.Clean}} {
			_, _ = fmt.Fprintf(table, "%d\t%s\t%d\t%.2f\t%.2f\t%d\t%.0f\t%.0f\t%s\t%s\t\n", run.Objects, run.name, run.Healed, run.Seconds,
				run.ProviderSeconds, run.Requests, run.PerSecond, run.OwnPerSecond, mib(run.PeakHeapBytes), mib(run.PeakRSSBytes))
		}
	}
	_ = table.Flush()
	if len(all) > 1 {
		first, last := all[0].Clean, all[len(all)-1].Clean
		_, _ = fmt.Fprintf(w, "\n%.1f times the objects: %.2f times the speed, %.2f times the heap, %.2f times the RSS.\n",
			ratio(float64(last.Objects), float64(first.Objects)), ratio(last.OwnPerSecond, first.OwnPerSecond),
			ratio(float64(last.PeakHeapBytes), float64(first.PeakHeapBytes)), ratio(float64(last.PeakRSSBytes), float64(first.PeakRSSBytes)))
	}
}

func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

func mib(bytes uint64) string { return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20)) }
