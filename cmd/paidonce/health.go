package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// maxHealthAnswer bounds what is read of an answer: whatever listens there may not be ours.
const maxHealthAnswer = 4 << 10

func newHealth(e *surroundings) *cobra.Command {
	var base string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "health",
		Short: "Ask a running serve whether it is ready: exit status 0 or 1",
		Long: `health asks GET /readyz of the process that listens on ADDR, or at --url, and ends with 0 if it is
ready and with 1 if it is not, or does not answer. It is the health check of a container that
has no shell and no curl.`,
		Example: `  paidonce health
  paidonce health --url https://shop.example.com`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if base == "" {
				cfg, err := loadConfig(e.getenv, needs{})
				if err != nil {
					return err
				}
				base = "http://" + reachable(cfg.Addr)
			}
			at, err := readyAt(base)
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			if err := askReady(ctx, at); err != nil {
				return fmt.Errorf("%s: %w", at, err)
			}
			cmd.Println("ready")
			return nil
		},
	}
	cmd.Flags().StringVar(&base, "url", "", "where it is, like https://shop.example.com (default: ADDR, on this machine)")
	cmd.Flags().DurationVar(&timeout, "timeout", 5*time.Second, "how long to wait for the answer")
	return cmd
}

// readyAt is the address of /readyz below a base URL; one that names a path is asked as it stands.
func readyAt(base string) (string, error) {
	u, err := url.Parse(base)
	if err != nil || u.Hostname() == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return "", fmt.Errorf("--url: must be a URL, like https://shop.example.com")
	}
	if strings.Trim(u.Path, "/") == "" {
		u.Path = "/readyz"
	}
	return u.String(), nil
}

// askReady is nil if the answer is 200; else it says what the answer says.
func askReady(ctx context.Context, at string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return err
	}
	// A proxy of the environment is for the way out, and this asks a neighbor.
	transport := &http.Transport{DisableKeepAlives: true}
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode == http.StatusOK {
		return nil
	}
	var problem struct{ Detail string }
	body, _ := io.ReadAll(io.LimitReader(response.Body, maxHealthAnswer))
	if json.Unmarshal(body, &problem) != nil || problem.Detail == "" {
		return fmt.Errorf("answered %s", response.Status)
	}
	return fmt.Errorf("answered %s: %s", response.Status, problem.Detail)
}
