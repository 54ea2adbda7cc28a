package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"paidonce/fulfillment"
	"paidonce/internal/database"
	"paidonce/internal/provider"
	"paidonce/migrations"
	"paidonce/reconcile"
)

// The exit statuses of reconcile.
const (
	exitDrift  = exitError(1) // something was found, also if it was healed at once
	exitUnsure = exitError(2) // some of it could not be looked at
)

// What is looked at unless the flags say otherwise.
const (
	reconcileSince = 72 * time.Hour
	reconcileUntil = 5 * time.Minute // what is younger is left to its webhook
)

// reconcileFlags are what paidonce reconcile takes.
type reconcileFlags struct {
	since, until              moment
	crashAt                   string
	dryRun, json, quiet, heap bool
}

func newReconcile(e *surroundings) *cobra.Command {
	var f reconcileFlags
	cmd := &cobra.Command{
		Use:   "reconcile",
		Short: "Compare everything with Stripe and heal what was missed: exit status 0, 1 or 2",
		Long: `reconcile lists what Stripe has, and compares it with the database: events that never arrived,
payments, refunds and disputes, checkouts whose opening was never recorded; then our own rows
with one another. What was missed comes in by the door that webhooks come in by. It drains and
reads what it records itself, so that the table tells what is healed; licenses and receipts
follow from the workers of the installation, as always. docs/reconcile.md has every finding.

It ends with 0 if nothing was found, with 1 if something was, be it healed at once, and with 2
if it could not tell: then the next run goes on where this one stands. A finding that was
acknowledged is not counted. The last line is a summary fit for an alert.

--since and --until are a time (2026-01-31T09:00:00Z), a day (2026-01-31, from midnight UTC) or how
long ago (72h, 30d). What is younger than five minutes is left to its webhook, unless --until
says otherwise. Stripe lists events for 30 days; of what is earlier, the objects are compared.`,
		Example: `  paidonce reconcile
  paidonce reconcile --since 40d --dry-run
  paidonce reconcile --since 2026-01-01 --until 2026-02-01 --json
  paidonce reconcile findings
  paidonce reconcile ack effect_unknown/receipt:… --by kim --why "the buyer has it"`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			err := f.run(cmd, e)
			if err == nil || errors.As(err, new(exitError)) {
				return err
			}
			cmd.PrintErrf("paidonce: %v\n", err)
			return exitUnsure // whatever stopped it, nobody knows how things stand
		},
	}
	flags := cmd.Flags()
	flags.Var(&f.since, "since", "from when on (default 72h)")
	flags.Var(&f.until, "until", "until when (default 5m)")
	flags.BoolVar(&f.dryRun, "dry-run", false, "change nothing at all, and show what would be done")
	flags.BoolVar(&f.json, "json", false, "print the report as JSON")
	flags.BoolVar(&f.quiet, "no-progress", false, "do not tell on standard error how far it is")
	flags.StringVar(&f.crashAt, "crash-at", "", "end as by kill -9 at this crash window (docs/crash-windows.md)")
	flags.BoolVar(&f.heap, "heap", false, "tell on standard error how large the heap was at most")
	for _, name := range []string{"crash-at", "heap"} { // for tests and bench
		if err := flags.MarkHidden(name); err != nil {
			panic("bug: the flag was just added: " + err.Error())
		}
	}
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		cmd.PrintErrf("paidonce: %v\n", wrongFlag(cmd, err))
		return exitUnsure
	})
	cmd.AddCommand(newFindings(e), newAck(e))
	return cmd
}

func (f *reconcileFlags) run(cmd *cobra.Command, e *surroundings) error {
	now := database.Now()
	options := reconcile.Options{DryRun: f.dryRun, Since: f.since.or(now.Add(-reconcileSince)), Until: f.until.or(now.Add(-reconcileUntil))}
	a, err := reconcileApp(cmd.Context(), e, f.crashAt)
	if err != nil {
		return err
	}
	defer a.db.Close()
	if !f.quiet {
		options.Progress = newMeter(cmd.ErrOrStderr(), database.Now).tell
	}
	if f.heap {
		watching, stop := context.WithCancel(cmd.Context())
		defer stop()
		var peak atomic.Uint64
		go watchHeap(watching, &peak)
		defer func() { cmd.PrintErrf("%s%d\n%s%d\n", heapLine, peak.Load(), rssLine, peakRSS()) }()
	}
	report, failed := a.reconciler().Run(cmd.Context(), options)
	if f.json {
		if err := writeJSON(cmd.OutOrStdout(), report); err != nil {
			return err
		}
	} else {
		if !cmd.Flags().Changed("until") {
			cmd.Println("Note: what is younger than five minutes was left to its webhook; --until 0s looks at it too.")
		}
		printReport(cmd.OutOrStdout(), report)
	}
	switch {
	case failed != nil || report.Outcome == reconcile.Unsure:
		if f.json && failed != nil {
			cmd.PrintErrf("paidonce: %v\n", failed)
		}
		return exitUnsure
	case report.Outcome == reconcile.Drift:
		return exitDrift
	}
	return nil
}

// reconcileApp is the parts of a command that reconciles: it enqueues and drains, and works no
// jobs. Its log has what is wrong alone: the table is what people read.
func reconcileApp(ctx context.Context, e *surroundings, crashAt string) (*app, error) {
	cfg, err := loadConfig(e.getenv, needs{database: true})
	if err != nil {
		return nil, err
	}
	if err := database.Reach(ctx, cfg.DatabaseURL); err != nil {
		return nil, err
	}
	a, err := newApp(ctx, cfg, deskLog(e.stderr), killSelf(crashAt))
	if err != nil {
		return nil, err
	}
	if err := errors.Join(migrations.Check(ctx, a.db.SQL), a.insertOnly()); err != nil {
		a.db.Close()
		return nil, err
	}
	return a, nil
}

// reconciler compares this installation with the provider.
func (a *app) reconciler() *reconcile.Runner {
	return &reconcile.Runner{
		DB: a.db.Gorm, Stripe: a.stripe, Events: a.events, Inbox: a.inbox, Orders: a.orders, Service: a.service,
		Lists:   &provider.Lister{Stripe: a.stripe, PerSecond: a.cfg.ReconcileRate, Now: database.Now},
		Drainer: a.drainer(), Mail: a.cfg.mailer != nil, Silence: a.cfg.ReconcileSilence,
		Now: database.Now, Log: a.log, Crash: a.crash,
	}
}

// reconcilePart is the reconcile job: a part of a run.
func (a *app) reconcilePart(ctx context.Context) (more bool, err error) {
	report, err := a.reconciler().Run(ctx, reconcile.Options{Budget: fulfillment.ReconcileBudget})
	var running *reconcile.RunningError
	switch {
	case errors.Is(err, reconcile.ErrUnfinished):
		return true, nil
	case errors.As(err, &running):
		a.log.Info("reconcile left to another", "stage", running.Stage, "begun_at", running.StartedAt)
		return false, nil
	case err != nil:
		return false, err
	}
	level := slog.LevelInfo
	attrs := []any{"run_id", report.RunID, "outcome", report.Outcome, "since", report.Since, "until", report.Until}
	for _, k := range report.Kinds {
		if k.Open > 0 {
			level = slog.LevelError
		}
		attrs = append(attrs, string(k.Kind), fmt.Sprintf("%d open, %d healed", k.Open, k.Healed))
	}
	if level == slog.LevelError {
		attrs = append(attrs, "alert", true)
	}
	a.log.Log(ctx, level, "reconciled", attrs...)
	return false, nil
}

// standing is how things stand in this installation's world.
func (a *app) standing(ctx context.Context) (reconcile.Standing, error) {
	return reconcile.ReadStanding(ctx, a.db.Gorm, provider.Livemode(a.cfg.StripeSecretKey), a.cfg.StripeAccount)
}

func newFindings(e *surroundings) *cobra.Command {
	var all, asJSON bool
	cmd := &cobra.Command{
		Use: "findings", Short: "List what is open, as the last runs have left it", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			a, err := reconcileApp(cmd.Context(), e, "")
			if err != nil {
				return err
			}
			defer a.db.Close()
			findings, err := reconcile.List(cmd.Context(), a.db.Gorm, all, reconcile.MaxListed)
			if err != nil {
				return err
			}
			if asJSON {
				return writeJSON(cmd.OutOrStdout(), findings)
			}
			printFindings(cmd.OutOrStdout(), findings)
			return nil
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "also those that are healed or acknowledged")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func newAck(e *surroundings) *cobra.Command {
	var by, why string
	cmd := &cobra.Command{
		Use:   "ack FINDING",
		Short: "Acknowledge a finding: it may stay, and is no drift any more",
		Long: `ack notes who knows of an open finding, and why it may stay. It is named by its id, or as
KIND/RESOURCE as the list of findings has it. It counts again if it heals and comes back.`,
		Example: `  paidonce reconcile ack paid_here/cs_… --by kim --why "refunded by bank transfer"`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			a, err := reconcileApp(cmd.Context(), e, "")
			if err != nil {
				return err
			}
			defer a.db.Close()
			acked, err := reconcile.Ack(cmd.Context(), a.db.Gorm, args[0], by, why, database.Now())
			if err != nil {
				return err
			}
			cmd.Printf("Acknowledged: %s/%s, order %s.\n", acked.Kind, acked.ResourceID, orderNumber(acked))
			return nil
		},
	}
	cmd.Flags().StringVar(&by, "by", "", "who acknowledges it; kept with the finding")
	cmd.Flags().StringVar(&why, "why", "", "why it may stay; kept with the finding")
	for _, name := range []string{"by", "why"} {
		if err := cmd.MarkFlagRequired(name); err != nil {
			panic("bug: the flag was just added: " + err.Error())
		}
	}
	return cmd
}

func writeJSON(w io.Writer, v any) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(v)
}
