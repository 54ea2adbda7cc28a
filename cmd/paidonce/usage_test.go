package main

import (
	"net"
	"strings"
	"testing"
)

// What was given wrongly is named, and so is the page that tells how it is done.
func TestWrongUsage(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = taken.Close() })
	busy := taken.Addr().String()

	for given, want := range map[string]string{
		"orders show":                   "ORDER is missing: paidonce orders show ORDER [flags]; see: paidonce orders show --help",
		"orders show 1 2":               `"2" is one argument too many: paidonce orders show ORDER [flags]; see: paidonce orders show --help`,
		"orders email 1":                "ADDRESS is missing: paidonce orders email ORDER ADDRESS [flags]; see: paidonce orders email --help",
		"mails resend 1":                "KIND is missing: paidonce mails resend ORDER KIND [SUBJECT] [flags]; see: paidonce mails resend --help",
		"mails resend 1 receipt x y":    `"y" is one argument too many: paidonce mails resend ORDER KIND [SUBJECT] [flags]; see: paidonce mails resend --help`,
		"demo --exit extra":             `paidonce demo takes no argument, and was given "extra"; see: paidonce demo --help`,
		"order":                         `there is no command "paidonce order" (did you mean orders?); see: paidonce --help`,
		"orders lst":                    `there is no command "paidonce orders lst" (did you mean list?); see: paidonce orders --help`,
		"orders nonsense":               `there is no command "paidonce orders nonsense"; see: paidonce orders --help`,
		"orders list --limit many":      `--limit: "many" is not a whole number`,
		"orders list --before 1e9":      `--before: "1e9" is not a whole number`,
		"orders list --attention=maybe": `--attention: "maybe" is not true or false`,
		"sim --lag soon":                `--lag: "soon" is not a duration, like 90s, 5m or 36h`,
		"jobs list --since yesterday":   `--since: "yesterday" is no time: write how long ago (36h, 7d), a day (2026-11-30) or a time (2026-11-30T18:00:00Z)`,
		"orders list --stat paid":       "unknown flag: --stat; see: paidonce orders list --help",
		"sim --rate-limit -3":           "--rate-limit: must not be negative; 0 is no limit",
		"sim --addr nowhere":            `--addr: cannot listen at "nowhere": address nowhere: missing port in address`,
		"sim --addr " + busy:            `--addr: cannot listen at "` + busy + `": bind: address already in use`,

		"orders list --limit 9999999999999999999": "--limit: 9999999999999999999 is too large a number",
	} {
		code, out, errs := command(t, nil, "", strings.Fields(given)...)
		if code != 1 || out != "" || errs != "paidonce: "+want+"\n" {
			t.Errorf("%s = %d %s\n got %swant paidonce: %s", given, code, out, errs, want)
		}
	}

	// A time is read the same way by every command.
	code, _, errs := command(t, nil, "", "reconcile", "--since", "yesterday")
	if code != 2 || !strings.HasPrefix(errs, `paidonce: --since: "yesterday" is no time: write how long ago`) {
		t.Errorf("reconcile --since yesterday = %d %s", code, errs)
	}
}

// The word alone is a page of help, and no failure.
func TestNoCommandIsHelp(t *testing.T) {
	t.Parallel()
	if code, out, errs := command(t, nil, ""); code != 0 || !strings.Contains(out, "Available Commands:") || errs != "" {
		t.Errorf("paidonce = %d\n%s%s", code, out, errs)
	}
}

// The names of all queues are a line of their own length.
func TestHelp_OfQueues(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"serve", "work"} {
		if _, out, _ := command(t, nil, "", name, "--help"); !strings.Contains(out, "(default: all)\n") {
			t.Errorf("%s --help\n%s", name, out)
		}
	}
}
