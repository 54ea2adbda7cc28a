package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
)

// fulfilledOnce is what every order ends with, wherever a process was killed.
func fulfilledOnce() outcome {
	return outcome{Paid: 1, Licenses: 2, Mails: 1, Sessions: 1, Told: 1, Receipt: "sent"}
}

// crash is one window of docs/crash-windows.md: a process is killed in it, and what it left
// behind is looked at before and after another process has gone on.
type crash struct {
	window string

	// in is the process that dies: "web" or "worker". A worker dies on what a web process
	// that lives has made.
	in string

	// left is what the dead process leaves behind: a query, and its answer. It is asked with
	// the order's id, if it has a parameter.
	left, found string

	// ends is the outcome, if it is not fulfilledOnce.
	ends func(*outcome)
}

// TestCrashWindows kills a process in every window of TX1 to TX4, once each, and counts the
// effects after another has taken over.
func TestCrashWindows(t *testing.T) {
	t.Parallel()
	crashes := []crash{
		// TX1: storing a delivery.
		{window: "CW1", in: "web", left: `SELECT count(*) FROM webhook_deliveries`, found: "0"},
		{window: "CW2", in: "web", left: `SELECT count(*) > 0 FROM webhook_deliveries`, found: "true"},

		// TX2: applying it.
		{window: "CW3", in: "worker", left: `SELECT count(*) > 0 FROM webhook_deliveries WHERE claim IS NOT NULL AND processed_at IS NULL`, found: "true"},
		{window: "CW4", in: "worker", left: `SELECT count(*) FROM order_transitions WHERE order_id = ?`, found: "0"},
		{window: "CW5", in: "worker", left: `SELECT count(*) FROM webhook_deliveries WHERE outcome IS NOT NULL`, found: ">0"},

		// TX3: issuing the licenses.
		{window: "CW6", in: "worker", left: `SELECT count(*) FROM licenses WHERE order_id = ?`, found: "0"},
		{window: "CW7", in: "worker", left: `SELECT count(*) FROM licenses WHERE order_id = ?`, found: "2"},

		// A call that changes something at Stripe, and TX4: the one that opens a checkout.
		{window: "CW8", in: "web", left: `SELECT state FROM provider_calls`, found: "intended"},
		{window: "CW9", in: "web", left: `SELECT state FROM provider_calls`, found: "sending"},
		{window: "CW10", in: "web", left: `SELECT state FROM provider_calls`, found: "sending"},
		{window: "CW11", in: "web", left: `SELECT state FROM provider_calls`, found: "sent"},

		// A mail, and TX4. Nobody can know whether the mail of CW13 or CW14 went out, so
		// neither is sent again; the license does not wait for it.
		{window: "CW12", in: "worker", left: `SELECT state FROM sent_receipts WHERE order_id = ?`, found: "intended"},
		{
			window: "CW13", in: "worker", left: `SELECT state FROM sent_receipts WHERE order_id = ?`, found: "sending",
			ends: func(o *outcome) { o.Mails, o.Receipt = 0, "unknown" },
		},
		{
			window: "CW14", in: "worker", left: `SELECT state FROM sent_receipts WHERE order_id = ?`, found: "sending",
			ends: func(o *outcome) { o.Receipt = "unknown" },
		},
		{window: "CW15", in: "worker", left: `SELECT state FROM sent_receipts WHERE order_id = ?`, found: "sent"},
	}
	for _, c := range crashes {
		t.Run(c.window, func(t *testing.T) {
			t.Parallel()
			s := newShop(t)
			order := s.crashIn(c)
			s.look(c, order)
			s.timePasses()

			if c.in == "web" {
				s.web()
			}
			s.start("work")
			if c.in == "web" && !isDelivery(c.window) {
				s.pay(order) // the checkout that the dead process was opening
			}
			s.settled(order)

			want := fulfilledOnce()
			if c.ends != nil {
				c.ends(&want)
			}
			if diff := cmp.Diff(want, s.outcome(order)); diff != "" {
				t.Errorf("order %s after a crash at %s (-want +got):\n%s", order, c.window, diff)
			}
		})
	}
}

// TestCrashWindows_WhileTellingStripe kills the worker around the other call that Stripe
// gets, which writes the licenses onto the payment.
func TestCrashWindows_WhileTellingStripe(t *testing.T) {
	t.Parallel()
	for _, window := range []string{"CW8", "CW9", "CW10", "CW11"} {
		t.Run("worker at "+window, func(t *testing.T) {
			t.Parallel()
			s := newShop(t)
			s.web()
			order := s.order()
			// Not the receipt's queue: a mail that is under way at the kill is CW13's story.
			doomed := s.start("work", "--crash-at", window, "--queue", "fulfill_order,notify_provider")
			s.pay(order)
			doomed.dies()
			s.timePasses()
			s.start("work")
			s.settled(order)
			if diff := cmp.Diff(fulfilledOnce(), s.outcome(order)); diff != "" {
				t.Errorf("order %s after a crash at %s (-want +got):\n%s", order, window, diff)
			}
		})
	}
}

// isDelivery tells the windows of TX1 from those of a checkout call.
func isDelivery(window string) bool { return window == "CW1" || window == "CW2" }

// crashIn makes and pays an order, and has a process die in the window on the way.
func (s *shop) crashIn(c crash) uuid.UUID {
	s.t.Helper()
	if c.in == "worker" {
		s.web()
		order := s.order()
		doomed := s.start("work", "--crash-at", c.window)
		s.pay(order)
		doomed.dies()
		return order
	}
	doomed := s.web("--crash-at", c.window)
	order := s.order()
	if isDelivery(c.window) {
		s.pay(order)
	}
	doomed.dies()
	if order == uuid.Nil {
		s.t.Fatal("no order was written down")
	}
	return order
}

// look compares what the dead process left behind with what docs/crash-windows.md says.
func (s *shop) look(c crash, order uuid.UUID) {
	s.t.Helper()
	args := []any{}
	if containsParameter(c.left) {
		args = append(args, order)
	}
	got := string(s.one(c.left, args...))
	if c.found == ">0" && got != "0" {
		return
	}
	if got != c.found {
		s.t.Errorf("left behind at %s: %s = %s, want %s", c.window, c.left, got, c.found)
	}
}

func containsParameter(query string) bool {
	for _, c := range query {
		if c == '?' {
			return true
		}
	}
	return false
}
