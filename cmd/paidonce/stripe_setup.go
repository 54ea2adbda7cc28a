package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"paidonce/internal/provider"
	"paidonce/webhooks"
)

// endpointDescription is what Stripe's dashboard shows beside the URL.
const endpointDescription = "paidonce: payments to be fulfilled"

func newStripeSetup(e *surroundings) *cobra.Command {
	var given string
	var how setup
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "setup",
		Short: "Make the webhook endpoint at Stripe, or bring it up to date",
		Long: `setup makes the webhook endpoint with the API version that this binary is written for, and with
exactly the event types that it reads. Run it as often as you like: an endpoint that it made
before is found by its URL and brought up to date.

Stripe tells an endpoint's signing secret once, when it is made; so does setup, on standard
output: add it to STRIPE_WEBHOOK_SECRETS. The API version cannot be changed later. --replace
makes another endpoint beside the old one; when every process knows the new secret,
--prune deletes the old one. No event is lost in between: what both deliver is one event.`,
		Example: `  paidonce stripe setup --url https://shop.example.com/webhooks/stripe`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			desk, err := openStripe(e, given)
			if err != nil {
				return err
			}
			done, err := desk.setUp(cmd.Context(), how)
			if err != nil {
				return err
			}
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(done) //nolint:gosec // telling the secret, once, is what it is for
			}
			done.print(cmd.OutOrStdout())
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&given, "url", "", "where Stripe reaches serve (default: PUBLIC_URL"+stripePath+")")
	f.BoolVar(&how.replace, "replace", false, "make another endpoint, with the pinned API version and a new secret, beside the old one")
	f.BoolVar(&how.adopt, "adopt", false, "take over an endpoint with this URL that somebody made by hand")
	f.BoolVar(&how.prune, "prune", false, "delete older endpoints of ours with this URL")
	f.BoolVar(&asJSON, "json", false, "for programs")
	cmd.MarkFlagsMutuallyExclusive("replace", "prune")
	cmd.MarkFlagsMutuallyExclusive("replace", "adopt")
	return cmd
}

// setup is what a person allows.
type setup struct{ replace, adopt, prune bool }

// setupDone is what was done.
type setupDone struct {
	Did        string   `json:"did"` // created, updated or unchanged
	ID         string   `json:"id"`
	URL        string   `json:"url"`
	Livemode   bool     `json:"livemode"`
	APIVersion string   `json:"api_version"`
	Pinned     bool     `json:"api_version_pinned"` // it is the one this binary is written for
	Events     []string `json:"enabled_events"`
	Added      []string `json:"added,omitempty"`   // event types that it was not sent before
	Removed    []string `json:"removed,omitempty"` // event types that it is sent no more
	Enabled    bool     `json:"enabled,omitempty"` // it was disabled before
	Deleted    []string `json:"deleted,omitempty"` // older endpoints that were deleted
	Older      []string `json:"older,omitempty"`   // older endpoints of ours that still stand
	Secret     string   `json:"secret,omitempty"`  // at creation only
}

// setUp finds the endpoint or makes it.
func (d stripeDesk) setUp(ctx context.Context, how setup) (setupDone, error) {
	ours, foreign, err := d.endpoints(ctx)
	if err != nil {
		return setupDone{}, err
	}
	if len(ours) == 0 && len(foreign) > 0 {
		if !how.adopt {
			return setupDone{}, fmt.Errorf("%s has this URL, and was not made by this command: take it over with --adopt, or delete it", foreign[0].ID)
		}
		ours = foreign[:1]
	}
	if len(ours) == 0 || how.replace {
		return d.make(ctx, ours)
	}
	done, err := d.bringUpToDate(ctx, ours[0])
	if err != nil {
		return setupDone{}, err
	}
	for _, old := range ours[1:] {
		if !how.prune {
			done.Older = append(done.Older, old.ID)
			continue
		}
		if err := d.stripe.DeleteEndpoint(ctx, old.ID); err != nil {
			return setupDone{}, err
		}
		done.Deleted = append(done.Deleted, old.ID)
	}
	return done, nil
}

// endpoints are those with our URL: ours, the one to keep first, and what others made.
func (d stripeDesk) endpoints(ctx context.Context) (ours, foreign []provider.Endpoint, _ error) {
	all, err := d.stripe.Endpoints(ctx)
	if err != nil {
		return nil, nil, err
	}
	var otherVersion []provider.Endpoint
	for _, one := range all { // the newest first
		switch {
		case strings.TrimSuffix(one.URL, "/") != strings.TrimSuffix(d.url, "/"):
		case !one.Ours():
			foreign = append(foreign, one)
		case one.APIVersion == provider.APIVersion:
			ours = append(ours, one)
		default:
			otherVersion = append(otherVersion, one)
		}
	}
	return append(ours, otherVersion...), foreign, nil
}

// make makes an endpoint, beside those that there are.
func (d stripeDesk) make(ctx context.Context, beside []provider.Endpoint) (setupDone, error) {
	request := provider.EndpointRequest{URL: d.url, Events: webhooks.StripeEventTypes(), Description: endpointDescription}
	var older []string
	for _, old := range beside {
		older = append(older, old.ID)
	}
	if len(older) > 0 {
		request.After = older[0]
	}
	made, err := d.stripe.CreateEndpoint(ctx, request)
	if err != nil {
		return setupDone{}, err
	}
	done := doneWith(made, "created")
	done.Older, done.Secret = older, made.Secret
	if made.Secret == "" {
		return done, errors.New("the endpoint " + made.ID + " was made, and Stripe did not tell its secret: read it in Stripe's dashboard")
	}
	return done, nil
}

// bringUpToDate changes what differs from what this binary wants.
func (d stripeDesk) bringUpToDate(ctx context.Context, have provider.Endpoint) (setupDone, error) {
	want := webhooks.StripeEventTypes()
	added, removed := missingIn(have.Events, want), missingIn(want, have.Events)
	if len(added)+len(removed) == 0 && have.Enabled() && have.Ours() && have.Description == endpointDescription {
		return doneWith(have, "unchanged"), nil
	}
	now, err := d.stripe.UpdateEndpoint(ctx, have.ID, provider.EndpointChange{Events: want, Description: endpointDescription})
	if err != nil {
		return setupDone{}, err
	}
	done := doneWith(now, "updated")
	done.Added, done.Removed, done.Enabled = added, removed, !have.Enabled()
	return done, nil
}

func doneWith(e provider.Endpoint, did string) setupDone {
	return setupDone{
		Did: did, ID: e.ID, URL: e.URL, Livemode: e.Livemode, APIVersion: e.APIVersion,
		Pinned: e.APIVersion == provider.APIVersion, Events: e.Events,
	}
}

// missingIn lists what want has and have has not.
func missingIn(have, want []string) []string {
	var missing []string
	for _, one := range want {
		if !slices.Contains(have, one) {
			missing = append(missing, one)
		}
	}
	return missing
}

// print tells a person what was done, and what is left to do.
func (d setupDone) print(out io.Writer) {
	say := func(format string, args ...any) { _, _ = fmt.Fprintf(out, format+"\n", args...) }
	say("%s: %s at %s, %s, API version %s, %d event types", d.Did, d.ID, d.URL, mode(d.Livemode), versionName(d.APIVersion), len(d.Events))
	for _, one := range d.Added {
		say("  + %s", one)
	}
	for _, one := range d.Removed {
		say("  - %s", one)
	}
	if d.Enabled {
		say("It was disabled, and is enabled again.")
	}
	for _, id := range d.Deleted {
		say("deleted: %s", id)
	}
	if !d.Pinned {
		say("Its API version is not the pinned %s, and cannot be changed. Its events are read all the same, with fewer", provider.APIVersion)
		say("guarantees about their fields; --replace makes another endpoint.")
	}
	if d.Secret != "" {
		say("\nIts secret, which Stripe does not tell again:\n\n  %s\n\nAdd it to STRIPE_WEBHOOK_SECRETS, with a comma behind those that are there, and restart.", d.Secret)
	}
	if len(d.Older) > 0 {
		say("Still there: %s. When every process knows the newest secret, delete with: paidonce stripe setup --url %s --prune",
			strings.Join(d.Older, ", "), d.URL)
	}
}

func versionName(v string) string {
	if v == "" {
		return "of the account"
	}
	return v
}
