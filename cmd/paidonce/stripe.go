package main

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"paidonce/internal/provider"
)

// stripePath is where serve takes Stripe's webhooks.
const stripePath = "/webhooks/stripe"

func newStripe(e *surroundings) *cobra.Command {
	cmd := &cobra.Command{
		Use: "stripe", Short: "Set up and check the webhook endpoint at Stripe", Args: cobra.NoArgs, RunE: showHelp,
	}
	cmd.AddCommand(newStripeSetup(e), newStripeCheck(e))
	return cmd
}

// stripeDesk is what both commands begin with.
type stripeDesk struct {
	cfg    config
	stripe *provider.Stripe
	url    string // of the endpoint
}

// openStripe reads the configuration and settles the endpoint's URL: the one given, or else
// what PUBLIC_URL makes of it.
func openStripe(e *surroundings, given string) (stripeDesk, error) {
	cfg, err := loadConfig(e.getenv, needs{})
	if err != nil {
		return stripeDesk{}, err
	}
	if cfg.StripeSecretKey == "" {
		return stripeDesk{}, errors.New("STRIPE_SECRET_KEY: is required to talk to Stripe")
	}
	if given == "" {
		if strings.TrimSpace(e.getenv("PUBLIC_URL")) == "" {
			return stripeDesk{}, errors.New("--url: is required without PUBLIC_URL: where Stripe reaches serve, like https://shop.example.com" + stripePath)
		}
		given = cfg.PublicURL + stripePath
	}
	if err := checkEndpointURL(given, provider.Livemode(cfg.StripeSecretKey), cfg.StripeAPIBase != ""); err != nil {
		return stripeDesk{}, err
	}
	stripe := provider.NewStripe(provider.StripeConfig{Key: cfg.StripeSecretKey, Base: cfg.StripeAPIBase, Account: cfg.StripeAccount})
	return stripeDesk{cfg: cfg, stripe: stripe, url: given}, nil
}

// checkEndpointURL refuses what Stripe would refuse, and what would be delivered to nobody.
func checkEndpointURL(given string, live, elsewhere bool) error {
	u, err := url.Parse(given)
	switch {
	case err != nil || u.Hostname() == "" || (u.Scheme != "http" && u.Scheme != "https") || u.User != nil || u.Fragment != "":
		return errors.New("--url: must be a URL, like https://shop.example.com" + stripePath)
	case !strings.HasSuffix(strings.TrimSuffix(u.Path, "/"), stripePath):
		return fmt.Errorf("--url: must end with %s, where serve takes Stripe's webhooks", stripePath)
	case live && u.Scheme != "https":
		return errors.New("--url: must be https: Stripe delivers live events to nothing else")
	}
	ip := net.ParseIP(u.Hostname())
	local := u.Hostname() == "localhost" || strings.HasSuffix(u.Hostname(), ".localhost") || ip != nil && (ip.IsLoopback() || ip.IsUnspecified())
	if local && !elsewhere {
		return fmt.Errorf("--url: Stripe cannot reach %s; on a machine of your own use: stripe listen --forward-to %s", u.Hostname(), u.Host+u.Path)
	}
	return nil
}

// mode names the world that a key acts in.
func mode(live bool) string {
	if live {
		return "live mode"
	}
	return "test mode"
}
