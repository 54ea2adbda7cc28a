package main

import (
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"paidonce/internal/stripesim"
)

// fulfilledOnce is what every order ends with, wherever a process was killed.
func fulfilledOnce() outcome {
	return outcome{Paid: 1, Licenses: 2, Mails: 1, Sessions: 1, Told: 1, Receipt: "sent"}
}

// crash is one window of docs/crash-windows.md: a process is killed in it, and what it left
// behind is looked at before and after another process has gone on.
type crash struct {
	window string

	// in is the process that dies: "web", "worker" or "reconcile". A worker dies on what a web
	// process that lives has made, and reconcile on a payment that no webhook tells of.
	in string

	// left is what the dead process leaves behind: a query, and its answer. It is asked with
	// the order's id, if it has a parameter.
	left, found string

	// before, if set, prepares the world for the window.
	before func(*shop)

	// queue, if set, is all that the doomed worker works.
	queue string

	// of, if set, is what happens to an order that was paid and fulfilled, and that the doomed
	// worker dies of.
	of func(*shop, stripesim.Payment)

	// then, if set, is what happens while the next process goes on.
	then func(*shop, uuid.UUID)

	// ends is the outcome, if it is not fulfilledOnce, and state that of the order, if it is not
	// fulfilled.
	ends  func(*outcome)
	state string
}

// refundedOnce changes an outcome to that of an order whose money was sent back.
func refundedOnce(o *outcome) { o.Licenses, o.Mails = 0, 2 }

// sendBack is all of the money being sent back at Stripe's own page.
func sendBack(s *shop, p stripesim.Payment) {
	s.t.Helper()
	if _, _, err := s.sim.Refund(p.PaymentIntentID, 0, ""); err != nil {
		s.t.Fatal(err)
	}
}

// TestCrashWindows kills a process in every window of TX1 to TX4, and of a read, once each, and
// counts the effects after another has taken over.
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
		{window: "CW7", in: "worker", queue: "fulfill_order", left: `SELECT count(*) FROM licenses WHERE order_id = ?`, found: "2"}, // its mail under way is CW13's story

		// A call that changes something at Stripe, and TX4: the one that opens a checkout.
		{window: "CW8", in: "web", left: `SELECT state FROM provider_calls`, found: "intended"},
		{window: "CW9", in: "web", left: `SELECT state FROM provider_calls`, found: "sending"},
		{window: "CW10", in: "web", left: `SELECT state FROM provider_calls`, found: "sending"},
		{window: "CW11", in: "web", left: `SELECT state FROM provider_calls`, found: "sent"},

		// The answer to a request of our own.
		{window: "CW17", in: "web", left: `SELECT count(*) FROM api_requests WHERE status IS NULL`, found: "1"},

		// A page of a reconcile run, which has found what no webhook told.
		{window: "CW20", in: "reconcile", left: `SELECT count(*) FROM reconcile_runs r, webhook_deliveries d WHERE r.finished_at IS NULL AND r.cursor = '' AND d.source = 'reconcile'`, found: ">0"},

		// A mail, and TX4. Nobody can know whether the mail of CW13 or CW14 went out, so each
		// is sent once more; the license does not wait for it.
		{window: "CW12", in: "worker", left: `SELECT state FROM sent_receipts WHERE order_id = ?`, found: "intended"},
		{
			window: "CW13", in: "worker", left: `SELECT state FROM sent_receipts WHERE order_id = ?`, found: "sending",
			then: (*shop).mailPauses,
		},
		{
			window: "CW14", in: "worker", left: `SELECT state FROM sent_receipts WHERE order_id = ?`, found: "sending",
			then: (*shop).mailPauses,
			ends: func(o *outcome) { o.Mails = 2 },
		},
		{window: "CW15", in: "worker", left: `SELECT state FROM sent_receipts WHERE order_id = ?`, found: "sent"},

		// A call whose key tells nothing: Stripe has done it, has answered 500, and answers
		// that again. What it did is found, and not settled yet.
		{
			window: "CW16", in: "worker", queue: "fulfill_order,notify_provider",
			before: func(s *shop) {
				s.sim.Inject(stripesim.Fault{Method: http.MethodPost, Path: "/v1/payment_intents/", Status: http.StatusInternalServerError, AfterWork: true})
			},
			left: `SELECT state || ' ' || attempts FROM provider_calls WHERE operation = 'fulfill'`, found: "sending 2",
			ends: func(o *outcome) { o.Told = 0 }, // not with an answer that says so
		},

		// A read of what went back. The doomed worker sends no mails: one that is under way at
		// the kill is CW13's story.
		{
			window: "CW18", in: "worker", queue: "fulfill_order,notify_provider,read_payment", of: sendBack,
			left: `SELECT count(*) FROM payments WHERE order_id = ? AND read_until > now() AND read_seq < read_wanted`, found: "1",
			ends: refundedOnce, state: "refunded",
		},
		{
			window: "CW19", in: "worker", queue: "fulfill_order,notify_provider,read_payment", of: sendBack,
			left: `
SELECT o.state || ' ' || (SELECT string_agg(CAST(j.state AS text), ' ') FROM river_job j WHERE j.kind = 'read_payment')
    || ' ' || (SELECT string_agg(r.kind || ' ' || r.state, ' ' ORDER BY r.kind) FROM sent_receipts r WHERE r.order_id = o.id)
FROM orders o WHERE o.id = ?`, found: "refunded completed receipt intended refund intended",
			ends: refundedOnce, state: "refunded",
		},
	}
	for _, c := range crashes {
		t.Run(c.window, func(t *testing.T) {
			t.Parallel()
			s := newShop(t)
			if c.before != nil {
				c.before(s)
			}
			order := s.crashIn(c)
			s.look(c, order)
			s.timePasses()

			if c.in == "web" {
				s.web()
			}
			s.start("work")
			if c.in == "reconcile" {
				s.reconcile()
			}
			if c.in == "web" && !isDelivery(c.window) {
				s.pay(order) // the checkout that the dead process was opening
			}
			if c.then != nil {
				c.then(s, order)
			}
			if c.state != "" {
				s.inState(order, c.state)
			} else {
				s.settled(order)
			}

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

// TestCrashWindows_WhileSendingMail kills workers around the sending of a mail, under each
// policy and with each transport, and counts the copies that reached somebody: at most one
// further under "once", none under "never", and never a second where a key settles it.
func TestCrashWindows_WhileSendingMail(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		windows []string // a worker dies at each, one after the other
		env     []string
		keyed   bool
		mails   int
		receipt string
	}{
		"never, before":           {[]string{"CW13"}, []string{"MAIL_RESEND=never"}, false, 0, "unknown"},
		"never, after":            {[]string{"CW14"}, []string{"MAIL_RESEND=never"}, false, 1, "unknown"},
		"once, twice after":       {[]string{"CW14", "CW14"}, nil, false, 2, "unknown"},
		"once, before and after":  {[]string{"CW13", "CW14"}, nil, false, 1, "unknown"},
		"a key, before":           {[]string{"CW13"}, []string{"MAIL_RESEND=never"}, true, 1, "sent"},
		"a key, after":            {[]string{"CW14"}, []string{"MAIL_RESEND=never"}, true, 1, "sent"},
		"a key, three times over": {[]string{"CW14", "CW13", "CW14"}, []string{"MAIL_RESEND=never"}, true, 1, "sent"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newShop(t)
			s.env = append(s.env, tt.env...)
			if tt.keyed {
				s.throughMailAPI()
			}
			s.web()
			order := s.order()
			for i, window := range tt.windows {
				doomed := s.start("work", "--crash-at", window)
				if i == 0 {
					s.pay(order)
				} else if !tt.keyed {
					s.mailPauses(order)
				}
				doomed.dies()
				s.timePasses()
			}
			s.start("work")
			s.settled(order)

			want := fulfilledOnce()
			want.Mails, want.Receipt = tt.mails, tt.receipt
			if diff := cmp.Diff(want, s.outcome(order)); diff != "" {
				t.Errorf("order %s after crashes at %v (-want +got):\n%s", order, tt.windows, diff)
			}
		})
	}
}

// TestCrashWindows_TheClientAsksAgain kills the web process while it makes an order, and has
// the client ask again under its key, as it does without an answer: the same order, the same
// checkout, and the answer that the dead process owed.
func TestCrashWindows_TheClientAsksAgain(t *testing.T) {
	t.Parallel()
	for _, window := range []string{"CW8", "CW9", "CW10", "CW11", "CW17"} {
		t.Run("web at "+window, func(t *testing.T) {
			t.Parallel()
			s := newShop(t)
			const key = "the client's own"
			doomed := s.web("--crash-at", window)
			order := s.orderUnder(key)
			doomed.dies()
			s.web()
			s.timePasses()
			for range 2 {
				if again := s.orderUnder(key); again != order {
					t.Errorf("asked again: order %s, want %s", again, order)
				}
			}
			if n := s.one(`SELECT count(*) FROM orders`); n != "1" {
				t.Errorf("%s orders", n)
			}
			if n := s.one(`SELECT count(*) FROM api_requests WHERE status = 201 AND answer ->> 'checkout_url' <> ''`); n != "1" {
				t.Errorf("%s answers are stored, want the one with an address", n)
			}
			s.start("work")
			s.pay(order)
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
		args := []string{"work", "--crash-at", c.window}
		if c.queue != "" {
			args = append(args, "--queue", c.queue)
		}
		doomed := s.start(args...)
		paid := s.pay(order)
		if c.of != nil {
			s.eventually("the order to be fulfilled", func() bool { return s.one(`SELECT state FROM orders WHERE id = ?`, order) == "fulfilled" })
			c.of(s, paid)
		}
		doomed.dies()
		return order
	}
	if c.in == "reconcile" {
		s.web()
		order := s.order()
		s.payUntold(order)
		s.start("reconcile", "--until", s.soon(), "--crash-at", c.window).dies()
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
