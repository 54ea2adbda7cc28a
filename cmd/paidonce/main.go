// Command paidonce is the payment-fulfillment backend: one binary that serves, works,
// migrates, demonstrates itself, and simulates the provider it talks to.
//
// main handles signals and the exit code, and nothing else; every command is a file here.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Getenv, os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// surroundings is what a command may take from its surroundings.
type surroundings struct {
	getenv func(string) string
	stdin  io.Reader
	stdout io.Writer // what a person or a program asked for
	stderr io.Writer // logs, progress and errors
}

// run is main with everything it touches as an argument. It returns the exit code: 0, 1
// for an error that was printed, or what the command says with exitError.
func run(ctx context.Context, args []string, getenv func(string) string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := newRoot(&surroundings{getenv: getenv, stdin: stdin, stdout: stdout, stderr: stderr})
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	var exit exitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return int(exit)
	}
	_, _ = fmt.Fprintf(stderr, "paidonce: %v\n", err)
	return 1
}

// exitError ends a command that has said all it had to say.
type exitError int

func (e exitError) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

func newRoot(e *surroundings) *cobra.Command {
	root := &cobra.Command{
		Use:   "paidonce",
		Short: "Every payment that happened is fulfilled once",
		Long: `paidonce takes a provider's webhooks and fulfills what was paid for, once in effect:
one paid transition, one set of licenses, one receipt.

Configuration is read from the environment; .env.example documents every variable.`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Version:       thisRelease().String(),
		Args:          cobra.NoArgs,
		RunE:          showHelp,
	}
	root.SetVersionTemplate("{{.Version}}\n")
	root.AddCommand(
		newServe(e), newWork(e), newDemo(e), newSim(e),
		newMigrate(e), newProducts(e), newOrders(e), newDeliveries(e), newJobs(e), newMails(e), newReconcile(e),
		newLicense(e), newStripe(e), newBench(e), newHealth(e), newVersion(e),
	)
	root.SetFlagErrorFunc(wrongFlag)
	explainUsage(root)
	return root
}

// showHelp is for a command that only has commands of its own. With cobra.NoArgs beside it a
// misspelt one is an error, and not a page of help that a script takes for success.
func showHelp(cmd *cobra.Command, _ []string) error { return cmd.Help() }
