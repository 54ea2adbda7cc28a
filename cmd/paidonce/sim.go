package main

import (
	"errors"
	"net/url"

	"github.com/spf13/cobra"

	"paidonce/internal/stripesim"
)

func newSim(*surroundings) *cobra.Command {
	var addr, webhookURL string
	var secrets []string
	cmd := &cobra.Command{
		Use:   "sim",
		Short: "Run a simulated Stripe, to sell without an account",
		Long: `sim answers Stripe's API for checkout sessions, payment intents, charges and events, lets a
person pay on a page, and delivers signed webhooks. It keeps everything in memory. Point
paidonce at it with STRIPE_API_BASE=http://HOST:PORT and any STRIPE_SECRET_KEY=sk_test_….`,
		Example: `  paidonce sim --addr 127.0.0.1:12111 --webhook-url http://127.0.0.1:8080/webhooks/stripe --webhook-secret whsec_demo`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var config stripesim.Config
			switch {
			case webhookURL != "" && len(secrets) == 0:
				return errors.New("--webhook-secret is required with --webhook-url: deliveries are signed")
			case webhookURL == "" && len(secrets) > 0:
				return errors.New("--webhook-url is required with --webhook-secret")
			case webhookURL != "":
				if u, err := url.Parse(webhookURL); err != nil || u.Host == "" {
					return errors.New("--webhook-url must be a URL, like http://127.0.0.1:8080/webhooks/stripe")
				}
				config.Webhooks = []stripesim.Endpoint{{URL: webhookURL, Secrets: secrets}}
			}
			return stripesim.Serve(cmd.Context(), addr, config, cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVar(&addr, "addr", "127.0.0.1:12111", "HOST:PORT to listen on")
	cmd.Flags().StringVar(&webhookURL, "webhook-url", "", "where events are delivered; none if empty")
	cmd.Flags().StringArrayVar(&secrets, "webhook-secret", nil, "secret that deliveries are signed with; repeat it for a rotation: each signs")
	return cmd
}
