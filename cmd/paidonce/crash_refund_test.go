package main

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"paidonce/internal/stripesim"
)

// TestCrashWindows_WhileRefunding kills the command that sends money back, in every window from
// its reads on, or a worker that has taken over from one; a person, who has seen the command
// die, gives it again. There is one refund at Stripe, whoever made it.
func TestCrashWindows_WhileRefunding(t *testing.T) {
	t.Parallel()
	for _, death := range []struct {
		command, worker string // the windows in which they die
	}{
		{command: "CW18"}, // nothing is decided yet
		{command: "CW19"}, // likewise
		{command: "CW8"},  // decided, and not begun
		{command: "CW9"},
		{command: "CW10"},
		{command: "CW11"},
		{command: "CW8", worker: "CW9"},
		{command: "CW8", worker: "CW10"},
		{command: "CW8", worker: "CW11"},
		{command: "CW8", worker: "CW16"},
		{command: "CW8", worker: "CW18"},
		{command: "CW8", worker: "CW19"},
	} {
		if testing.Short() && death.worker == "" && death.command != "CW10" {
			continue // the same windows of the same code, in another process
		}
		t.Run(strings.TrimSpace("command at "+death.command+" "+death.worker), func(t *testing.T) {
			t.Parallel()
			s := newShop(t)
			s.web()
			worker := s.start("work")
			order := s.order()
			s.pay(order)
			s.settled(order)
			worker.stop()
			if death.worker == "CW16" {
				s.sim.Inject(stripesim.Fault{Method: http.MethodPost, Path: "/v1/refunds", Status: http.StatusInternalServerError, AfterWork: true})
			}
			why := []string{"--by", "ann", "--why", "a reason"}
			s.start(append([]string{"orders", "refund", order.String(), "--crash-at", death.command}, why...)...).dies()
			s.timePasses()
			if death.worker != "" {
				doomed := s.start("work", "--crash-at", death.worker, "--queue", "send_refund,read_payment")
				doomed.dies()
				s.timePasses()
			}
			decided := s.one(`SELECT count(*) FROM order_decisions`) == "1"
			if want := death.command != "CW18" && death.command != "CW19"; decided != want {
				t.Errorf("decided: %t, want %t", decided, want)
			}

			s.start("work")
			if got := s.decide("refund", order.String())[0]; got.Repeat != decided {
				t.Errorf("given again: %+v, want repeat %t", got, decided)
			}
			s.inState(order, "refunded")
			want := fulfilledOnce()
			refundedOnce(&want)
			if diff := cmp.Diff(want, s.outcome(order)); diff != "" {
				t.Errorf("order %s (-want +got):\n%s", order, diff)
			}
			if n := len(s.sim.Refunds()); n != 1 {
				t.Errorf("%d refunds at Stripe, want 1", n)
			}
		})
	}
}

// TestTwoCommandsRefundOnce: the same command, given in two processes at one moment, while the
// workers read what it does.
func TestTwoCommandsRefundOnce(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.web()
	s.start("work")
	order := s.order()
	paid := s.pay(order)
	s.settled(order)
	if _, _, err := s.sim.Refund(paid.PaymentIntentID, 500, ""); err != nil { // its events arrive meanwhile
		t.Fatal(err)
	}
	var both []*process
	for _, who := range []string{"ann", "bob"} {
		both = append(both, s.start("orders", "refund", order.String(), "--by", who, "--why", "a reason"))
	}
	for _, p := range both {
		select {
		case <-p.ended:
		case <-time.After(patience):
			t.Fatal("a command does not end")
		}
		if code := p.cmd.ProcessState.ExitCode(); code != 0 {
			t.Errorf("a command ended with %d: %s", code, p.log)
		}
	}
	s.inState(order, "refunded")
	if n := s.refundsAtStripe(); n != 1 {
		t.Errorf("%d refunds, want 1", n)
	}
	if n := s.one(`SELECT count(*) FROM order_decisions WHERE order_id = ?`, order); n != "1" {
		t.Errorf("%s decisions, want 1", n)
	}
}
