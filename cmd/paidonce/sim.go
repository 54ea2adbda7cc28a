package main

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"paidonce/internal/stripesim"
)

func newSim(*surroundings) *cobra.Command {
	var addr, webhookURL string
	var secrets []string
	var config stripesim.Config
	cmd := &cobra.Command{
		Use:   "sim",
		Short: "Run a simulated Stripe, to sell without an account",
		Long: `sim answers Stripe's API for checkout sessions, payment intents, charges, refunds, disputes,
events and what belongs to them, lets a person pay, decline, refund and dispute on a page, and
delivers signed webhooks. It keeps everything in memory, or in the file of --state. Point
paidonce at it with STRIPE_API_BASE=http://HOST:PORT and any STRIPE_SECRET_KEY=sk_test_….
The Stripe CLI drives it with --api-base: stripe trigger, stripe fixtures.

Its clock and its faults are set from outside:
  curl http://HOST:PORT/_sim/clock  -d '{"advance": "25h"}'
  curl http://HOST:PORT/_sim/faults -d '{"method": "POST", "path": "/v1/refunds", "status": 500, "after_work": true}'`,
		Example: `  paidonce sim --addr 127.0.0.1:12111 --webhook-url http://127.0.0.1:8080/webhooks/stripe --webhook-secret whsec_demo
  stripe trigger checkout.session.completed --api-base http://127.0.0.1:12111 --api-key sk_test_simulated`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if config.Webhooks, err = simWebhooks(webhookURL, secrets); err != nil {
				return err
			}
			if !slices.Contains(stripesim.EventAPIVersions(), config.EventAPIVersion) {
				return fmt.Errorf("--event-version must be one of %s", strings.Join(stripesim.EventAPIVersions(), ", "))
			}
			if config.RateLimit < 0 {
				return errors.New("--rate-limit: must not be negative; 0 is no limit")
			}
			err = stripesim.Serve(cmd.Context(), addr, config, cmd.OutOrStdout())
			if errors.Is(err, stripesim.ErrListen) {
				return fmt.Errorf("--addr: %w", err)
			}
			return err
		},
	}
	f := cmd.Flags()
	f.StringVar(&addr, "addr", "127.0.0.1:12111", "HOST:PORT to listen on")
	f.StringVar(&webhookURL, "webhook-url", "", "where events are delivered; none if empty")
	f.StringArrayVar(&secrets, "webhook-secret", nil, "secret that deliveries are signed with; several, for a rotation, behind commas: each signs")
	f.StringVar(&config.State, "state", "", "file that keeps everything from one run to the next")
	f.StringVar(&config.EventAPIVersion, "event-version", stripesim.APIVersion, "API version in which events are rendered")
	f.IntVar(&config.RateLimit, "rate-limit", 0, "API requests per second before 429; 0 is no limit")
	f.StringVar(&config.RetryAfter, "retry-after", "", "Retry-After header of those 429, in seconds; none if empty")
	f.DurationVar(&config.Lag, "lag", 0, "how long a delayed debit, a failing refund or a dispute of a test card takes")
	if err := cmd.RegisterFlagCompletionFunc("event-version", cobra.FixedCompletions(stripesim.EventAPIVersions(), cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic("bug: the flag was just added: " + err.Error())
	}
	return cmd
}

// simWebhooks is where the simulated Stripe delivers to, and what it signs with: the values of
// --webhook-secret, each of which may be a list like STRIPE_WEBHOOK_SECRETS.
func simWebhooks(to string, given []string) ([]stripesim.Endpoint, error) {
	var secrets []string
	for _, value := range given {
		some, err := list(value)
		if err != nil {
			return nil, fmt.Errorf("--webhook-secret %w", err)
		}
		secrets = append(secrets, some...)
	}
	switch {
	case to == "" && len(given) > 0:
		return nil, errors.New("--webhook-url is required with --webhook-secret")
	case to == "":
		return nil, nil
	case len(secrets) == 0:
		return nil, errors.New("--webhook-secret is required with --webhook-url: deliveries are signed")
	}
	if u, err := url.Parse(to); err != nil || u.Host == "" {
		return nil, errors.New("--webhook-url must be a URL, like http://127.0.0.1:8080/webhooks/stripe")
	}
	return []stripesim.Endpoint{{URL: to, Secrets: secrets}}, nil
}
