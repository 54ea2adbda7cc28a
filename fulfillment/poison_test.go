package fulfillment_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"paidonce/orders"
	"paidonce/webhooks"
)

// This test binary, started with poisonEnv set to a database, is a process that drains it
// until nothing is open, and is killed, as by kill -9, whenever it reads the poison event.
const poisonEnv = "PAIDONCE_TEST_DRAIN"

const (
	poison       = "evt_poison"
	poisonLease  = time.Second
	poisonTrials = 4 // attempts of a delivery
)

// drainAsChild is the child's main; it returns the exit code.
func drainAsChild(dsn string) int {
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	b, err := wire(ctx, dsn, "http://127.0.0.1:1", &recorder{}, 0)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer b.db.Close()
	b.drainer.Lease, b.drainer.MaxAttempts = poisonLease, poisonTrials
	b.drainer.Providers = map[string]webhooks.Provider{"stripe": parsing{b.stripe, func(body []byte) {
		if names(body, poison) {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {} // the signal is on its way
		}
	}}}
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for range ticker.C {
		var open int
		err := b.db.Gorm.WithContext(ctx).Raw(`SELECT count(*) FROM webhook_deliveries WHERE processed_at IS NULL`).Row().Scan(&open)
		for taken := 1; err == nil && taken > 0; {
			taken, err = b.drainer.Drain(ctx)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		if open == 0 {
			break
		}
	}
	return 0
}

// B26: a row that kills its process, among 50 good ones. It takes no other row with it more
// than once, comes to an end by itself, and stays ended.
func TestB26APoisonRowEndsItselfAndTakesNobodyWithIt(t *testing.T) {
	t.Parallel()
	b := setup(t)
	placed := b.placed(t, 51, 1, 1)
	bad := placed[25]
	for _, o := range placed {
		id := "evt_" + o.ID.String()
		if o.ID == bad.ID {
			id = poison
		}
		b.record(t, o.checkouts[0].event(id, completed))
	}

	crashes := 0
	for {
		child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^$")
		child.Env = append(os.Environ(), poisonEnv+"="+b.dsn)
		out, err := child.CombinedOutput()
		if err == nil {
			break
		}
		if exit := new(exec.ExitError); !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
			t.Fatalf("the child ended with %v: %s", err, out)
		}
		if crashes++; crashes > 2*poisonTrials {
			t.Fatalf("killed %d processes, and no end", crashes)
		}
		// Where it was when it died: alone, from the second time on.
		held := b.count(t, `SELECT count(*) FROM webhook_deliveries WHERE claim_until > now()`)
		if crashes > 1 && held > 1 {
			t.Errorf("crash %d took %d deliveries with it, want the poison row alone", crashes, held)
		}
	}
	if crashes != poisonTrials {
		t.Errorf("killed %d processes, want one for each of its %d attempts", crashes, poisonTrials)
	}
	dead := b.delivery(t, poison)
	if dead.outcome() != webhooks.OutcomeDead || dead.Attempts != poisonTrials || !strings.Contains(text(dead.LastError), "its process ended") {
		t.Errorf("the poison row: %+v (%s), want dead after %d attempts", dead, text(dead.LastError), poisonTrials)
	}
	for _, o := range placed {
		if o.ID != bad.ID {
			b.wantState(t, o, orders.Paid)
		}
	}
	if more := b.count(t, `SELECT count(*) FROM webhook_deliveries WHERE attempts > 2 AND event_id <> ?`, poison); more != 0 {
		t.Errorf("%d good deliveries were tried more than twice", more)
	}
	b.wantLeftAlone(t, poison, dead)

	// A person, once the fault is mended: the event is sent again.
	b.record(t, bad.checkouts[0].event(poison, completed))
	b.drain(t)
	b.wantOutcome(t, poison, webhooks.OutcomeApplied)
	b.wantState(t, bad, orders.Paid)
}

// A row whose last claim was never finished is handed out alone, whether rows that are above
// suspicion are due before it or after it.
func TestASuspectIsHandedOutAlone(t *testing.T) {
	t.Parallel()
	b := setup(t)
	placed := b.placed(t, 3, 1, 1)
	ids := b.recordOne(t, placed)
	suspect := ids[1]
	b.exec(t, `UPDATE webhook_deliveries SET claim = gen_random_uuid(), claim_until = now(), attempts = 1 WHERE event_id = ?`, suspect)
	for _, tt := range []struct {
		due  string // of the suspect, compared with the others
		want []int  // how many each claim hands out
	}{
		{"before", []int{1, 2}},
		{"after", []int{2, 1}},
	} {
		b.exec(t, `UPDATE webhook_deliveries SET next_attempt_at = now() + CASE WHEN event_id = ? THEN interval '-1 minute' ELSE interval '-1 minute' * ? END`,
			suspect, map[string]float64{"before": 0.5, "after": 2}[tt.due])
		for n, want := range tt.want {
			token := webhooks.NewClaim()
			rows, died, err := b.inbox.Claim(t.Context(), token, 50, 10, time.Minute)
			if err != nil || len(died) != 0 || len(rows) != want {
				t.Errorf("%s the others: claim %d hands out %d, %v; want %d", tt.due, n+1, len(rows), err, want)
			}
			for _, row := range rows {
				if alone := row.EventID == suspect; alone != (want == 1) {
					t.Errorf("%s the others: claim %d hands out %s among %d", tt.due, n+1, row.EventID, len(rows))
				}
			}
		}
		b.exec(t, `UPDATE webhook_deliveries SET claim = CASE WHEN event_id = ? THEN claim END, claim_until = CASE WHEN event_id = ? THEN now() END`,
			suspect, suspect)
	}
}
