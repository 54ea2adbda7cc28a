package fulfillment

import (
	"fmt"
	"math"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"paidonce/internal/provider"
)

// The table in the comment of limitsOf is what people read: every kind has its row, and the
// row is what the code says.
func TestTheTableOfJobsIsTrue(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("jobs.go")
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile(`(?m)^//\t(\w+) +(\w+) +(\d+) +(none|1 s … 1 h) +(\d+ s) +(.*)$`)
	rows := map[string][]string{}
	for _, m := range row.FindAllStringSubmatch(string(source), -1) {
		rows[m[1]] = m[2:]
	}
	if len(rows) != len(kinds()) {
		t.Errorf("the table has %d rows, want one for each of the %d kinds", len(rows), len(kinds()))
	}
	queues := map[string]string{}
	for _, kind := range kinds() {
		l := limitsOf(kind)
		if other := queues[l.queue]; other != "" {
			t.Errorf("%s and %s share the queue %s", kind, other, l.queue)
		}
		queues[l.queue] = kind

		waits := "1 s … 1 h"
		if l.attempts == 1 {
			waits = "none"
		}
		giveUp := fmt.Sprintf("%.0f h", math.Ceil(l.horizon().Hours()))
		if l.horizon() > 48*time.Hour {
			giveUp = fmt.Sprintf("%.0f d", math.Ceil(l.horizon().Hours()/24))
		}
		if l.attempts == 1 {
			giveUp = "the next one comes in " + fmt.Sprint(sweepEvery.Seconds()) + " s"
		}
		want := []string{l.queue, fmt.Sprint(l.attempts), waits, fmt.Sprintf("%.0f s", l.timeout.Seconds()), giveUp}
		got := rows[kind]
		if len(got) != len(want) {
			t.Errorf("%s has no row in the table", kind)
			continue
		}
		for i := range want {
			if got[i] != want[i] && (i < len(want)-1 || !strings.HasPrefix(got[i], want[i])) {
				t.Errorf("%s: the table says %q, the code %q", kind, got[i], want[i])
			}
		}
		if l.attempts > 1 && l.longest != time.Hour {
			t.Errorf("%s: its longest wait is %s, the table says 1 h", kind, l.longest)
		}
	}
}

func TestWaitsDoubleUpToTheLongest(t *testing.T) {
	t.Parallel()
	l := limits{longest: 10 * time.Second, attempts: 7}
	for n, want := range []time.Duration{1, 2, 4, 8, 10, 10} {
		if got := l.wait(n + 1); got != want*time.Second {
			t.Errorf("the wait after attempt %d is %s, want %s", n+1, got, want*time.Second)
		}
	}
	if got, want := l.horizon(), 35*time.Second; got != want {
		t.Errorf("a fault may last %s, want %s", got, want)
	}
	if got := (limits{longest: time.Hour}).wait(1_000_000); got != time.Hour {
		t.Errorf("the wait after a million attempts is %s", got)
	}
	for n, want := range map[int]time.Duration{1: 1, 2: 2, 5: 16, 9: 256, 10: 300, 11: 300, 1000: 300} {
		if got := backoff(n); got != want*time.Second {
			t.Errorf("a delivery's wait after attempt %d is %s, want %s", n, got, want*time.Second)
		}
	}
}

// The limits fit into one another. Each line is a way in which an effect could double, or be
// given up, if it did not hold.
func TestLimitsFitIntoOneAnother(t *testing.T) {
	t.Parallel()
	const keyLife = 23 * time.Hour // what provider uses of the 24 h for which Stripe remembers a key
	for _, kind := range kinds() {
		l := limitsOf(kind)
		if l.timeout+softStop >= rescueAfter {
			t.Errorf("%s may take %s and is rescued after %s: two would work at it", kind, l.timeout, rescueAfter)
		}
		if kind == kindCreateCheckout || kind == kindNotifyProvider {
			if worst := l.horizon() + time.Duration(l.attempts)*l.timeout; worst >= keyLife {
				t.Errorf("%s is tried for %s: its key may be forgotten after %s", kind, worst, keyLife)
			}
		}
		if strings.Contains("create_checkout notify_provider read_payment", kind) && l.timeout <= provider.DefaultTimeout {
			t.Errorf("%s has %s for a request that may take %s", kind, l.timeout, provider.DefaultTimeout)
		}
	}
	send := limitsOf(kindSendReceipt)
	if smtpTimeout >= send.timeout || send.timeout >= DefaultSendLease {
		t.Errorf("a mail has %s, its job %s, its lease %s: each must be within the next", smtpTimeout, send.timeout, DefaultSendLease)
	}
}
