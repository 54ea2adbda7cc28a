package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"paidonce/internal/database"
	"paidonce/internal/provider"
	"paidonce/webhooks"
)

func newStripeCheck(e *surroundings) *cobra.Command {
	var given string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Check the key, the account and the webhook endpoint at Stripe",
		Long: `check asks Stripe whether the key works, which mode and account it acts in, and whether the
webhook endpoint is there, enabled, of the pinned API version, and sent what this binary reads.
Whether STRIPE_WEBHOOK_SECRETS has that endpoint's secret, Stripe does not tell; with DATABASE_URL,
check says when a webhook was last accepted. It changes nothing. Exit status 0: nothing is wrong,
though warnings may remain; 1: something is.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			desk, err := openStripe(e, given)
			if err != nil {
				return err
			}
			found := desk.check(cmd.Context())
			if asJSON {
				err = json.NewEncoder(cmd.OutOrStdout()).Encode(map[string]any{"ok": !found.failed(), "checks": found})
			} else {
				found.print(cmd.OutOrStdout())
			}
			if err == nil && found.failed() {
				return exitError(1)
			}
			return err
		},
	}
	cmd.Flags().StringVar(&given, "url", "", "where Stripe reaches serve (default: PUBLIC_URL"+stripePath+")")
	cmd.Flags().BoolVar(&asJSON, "json", false, "for programs")
	return cmd
}

// finding is one thing that was looked at.
type finding struct {
	What   string `json:"what"`
	Result string `json:"result"` // ok, warn or fail
	Detail string `json:"detail"`
}

type findings []finding

func (f *findings) add(what, result, format string, args ...any) {
	*f = append(*f, finding{What: what, Result: result, Detail: fmt.Sprintf(format, args...)})
}

func (f *findings) failed() bool {
	return slices.ContainsFunc(*f, func(one finding) bool { return one.Result == "fail" })
}

func (f *findings) print(out io.Writer) {
	marks := map[string]string{"ok": "ok  ", "warn": "warn", "fail": "FAIL"}
	for _, one := range *f {
		_, _ = fmt.Fprintf(out, "%s  %-8s  %s\n", marks[one.Result], one.What, one.Detail)
	}
}

// check looks at everything; where Stripe does not answer, it stops.
func (d stripeDesk) check(ctx context.Context) *findings {
	found := &findings{}
	ours, foreign, err := d.endpoints(ctx)
	if err != nil {
		found.add("key", "fail", "%v", err)
		return found
	}
	found.add("key", "ok", "works, in %s", mode(d.stripe.Livemode()))
	d.checkAccount(ctx, found)
	d.checkSecrets(found)
	d.checkEndpoints(found, ours, foreign)
	d.checkArrival(ctx, found)
	return found
}

// checkSecrets: Stripe shows a secret once, when its endpoint is made. So whether ours is the
// endpoint's cannot be asked; only a webhook that is accepted tells.
func (d stripeDesk) checkSecrets(found *findings) {
	switch n := len(d.cfg.webhookSecrets); {
	case n == 0:
		found.add("secret", "fail", "STRIPE_WEBHOOK_SECRETS is not set: %s answers 503", stripePath)
	case d.cfg.oddSecrets():
		found.add("secret", "warn", "STRIPE_WEBHOOK_SECRETS has a value that does not begin with whsec_: it is no signing secret of an endpoint")
	default:
		found.add("secret", "ok", "STRIPE_WEBHOOK_SECRETS has %d; Stripe does not tell whether it is this endpoint's", n)
	}
}

// arrivalWait bounds how long the database is asked when a webhook last came.
const arrivalWait = 5 * time.Second

// checkArrival says when a webhook was last accepted, where there is a database to ask.
func (d stripeDesk) checkArrival(ctx context.Context, found *findings) {
	if d.cfg.DatabaseURL == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, arrivalWait)
	defer cancel()
	db, err := database.Open(ctx, d.cfg.DatabaseURL, database.Options{MaxConns: 1})
	if err != nil {
		found.add("arrival", "warn", "not known when a webhook was last accepted: %v", err)
		return
	}
	defer db.Close()
	last, err := webhooks.NewInbox(db.Gorm).LastArrival(ctx, "stripe")
	switch {
	case err != nil:
		found.add("arrival", "warn", "not known when a webhook was last accepted: %v", err)
	case last.IsZero():
		found.add("arrival", "warn", "no webhook was accepted yet, so that nobody knows whether the secret is this endpoint's")
	default:
		found.add("arrival", "ok", "a webhook was last accepted at %s", last.UTC().Format(time.RFC3339))
	}
}

func (d stripeDesk) checkAccount(ctx context.Context, found *findings) {
	own, err := d.stripe.OwnAccount(ctx)
	switch {
	case errors.Is(err, provider.ErrNotTold):
		found.add("account", "warn", "not known: %v", err)
	case err != nil:
		found.add("account", "fail", "%v", err)
	case d.cfg.StripeAccount == own.ID:
		found.add("account", "fail", "STRIPE_ACCOUNT is the key's own account: its events do not name it, and would be ignored; unset it")
	case !own.ChargesEnabled && d.stripe.Livemode():
		found.add("account", "fail", "%s may not take payments yet: complete its details in Stripe's dashboard", own.ID)
	case d.cfg.StripeAccount != "":
		found.add("account", "ok", "%s, acting for %s", own.ID, d.cfg.StripeAccount)
	default:
		found.add("account", "ok", "%s", own.ID)
	}
}

func (d stripeDesk) checkEndpoints(found *findings, ours, foreign []provider.Endpoint) {
	all := append(slices.Clone(ours), foreign...)
	if len(all) == 0 {
		found.add("endpoint", "fail", "there is none at %s; make it with: paidonce stripe setup --url %s", d.url, d.url)
		return
	}
	if len(all) > 1 {
		found.add("endpoints", "warn", "%d have this URL: each event comes %d times, and counts once; STRIPE_WEBHOOK_SECRETS needs all of their secrets", len(all), len(all))
	}
	one := all[0]
	if one.Enabled() {
		found.add("endpoint", "ok", "%s at %s is enabled", one.ID, one.URL)
	} else {
		found.add("endpoint", "fail", "%s at %s is %s: nothing is delivered", one.ID, one.URL, one.Status)
	}
	if one.APIVersion == provider.APIVersion {
		found.add("version", "ok", "%s", one.APIVersion)
	} else {
		found.add("version", "warn", "its API version is %s, not the pinned %s, and cannot be changed: stripe setup --replace", versionName(one.APIVersion), provider.APIVersion)
	}
	checkEvents(found, one.Events)
}

// checkEvents: a type that is missing loses money; one too many is stored, and ignored.
func checkEvents(found *findings, have []string) {
	want := webhooks.StripeEventTypes()
	missing, more := missingIn(have, want), missingIn(want, have)
	switch {
	case slices.Contains(have, "*"):
		found.add("events", "warn", "it is sent every event there is; %d types would do: stripe setup", len(want))
	case len(missing) > 0:
		found.add("events", "fail", "it is not sent %s: stripe setup", strings.Join(missing, ", "))
	case len(more) > 0:
		found.add("events", "warn", "it is also sent %s, which nothing reads: stripe setup", strings.Join(more, ", "))
	default:
		found.add("events", "ok", "all %d types that are read, and no other", len(want))
	}
}
