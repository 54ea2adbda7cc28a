package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
)

// demoPatience bounds every wait of the demo; on a loaded machine things take seconds, and
// what takes longer than this is broken.
const demoPatience = 60 * time.Second

func newDemo(e *surroundings) *cobra.Command {
	var exit bool
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show a paid order being fulfilled once, with everything going wrong around it",
		Long: `demo starts a private Postgres (or uses an empty one at DATABASE_URL), a simulated Stripe, a web process and a
worker process, all on free ports of this machine. It pays an order, delivers the event four
times, and kills the worker between license and receipt; then come a refund that arrives before its
payment, money that comes late, wrong money that a person accepts, and a dispute that is won. It
prints one line per fact with the invariant that it shows (docs/tour.md), then stays up to be
looked at. No account is needed, and nothing leaves this machine.

Without DATABASE_URL it starts a private Postgres: the one at PAIDONCE_PG_BIN, else one that is
installed, else one that it downloads once into your cache (PAIDONCE_OFFLINE=1 forbids that).`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runDemo(cmd.Context(), e, exit)
		},
	}
	cmd.Flags().BoolVar(&exit, "exit", false, "end after the story: status 0 only if every guarantee held")
	return cmd
}

// runDemo starts the world, tells the story, and stays up unless it is told to end.
func runDemo(ctx context.Context, e *surroundings, exit bool) error {
	say := &narrator{out: e.stdout}
	say.line("paidonce demo: an order is paid, and fulfilled once, whatever happens")
	say.line("")

	world, err := newDemoWorld(ctx, e, say)
	if err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	defer world.close()
	if err := world.tell(ctx, say); err != nil {
		return fmt.Errorf("demo: %w", err)
	}

	if say.broken > 0 {
		say.line("\n%s did NOT hold.", counted(say.broken, "guarantee", "guarantees"))
		if exit {
			return exitError(1)
		}
	} else {
		say.line("\nEvery guarantee held.")
	}
	if exit {
		return nil
	}
	world.invite(say)
	<-ctx.Done()
	say.line("\nStopping.")
	return nil
}

// narrator prints the story and counts what did not hold.
type narrator struct {
	out    io.Writer
	broken int
}

func (n *narrator) line(format string, args ...any) {
	_, _ = fmt.Fprintf(n.out, format+"\n", args...)
}

// fact prints one fact, with the invariant that it shows.
func (n *narrator) fact(invariant string, held bool, format string, args ...any) {
	mark := "ok  "
	if !held {
		mark = "FAIL"
		n.broken++
	}
	n.line("  %s  %-3s  %s", mark, invariant, fmt.Sprintf(format, args...))
}
