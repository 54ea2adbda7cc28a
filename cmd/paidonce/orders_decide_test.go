package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"

	"paidonce/internal/stripesim"
)

// desk gives a command as a person does, with the shop's configuration.
func (s *shop) desk(args ...string) (code int, out, errs string) {
	s.t.Helper()
	return command(s.t, s.environment(), "", args...)
}

// decide gives a command that decides, and reads what it printed.
func (s *shop) decide(args ...string) []decided {
	s.t.Helper()
	code, out, errs := s.desk(append(append([]string{"orders"}, args...), "--by", "ann", "--why", "a reason", "--json")...)
	var all []decided
	if err := json.Unmarshal([]byte(out), &all); err != nil || code != 0 || errs != "" {
		s.t.Fatalf("orders %v = %d: %s%s", args, code, out, errs)
	}
	return all
}

func (s *shop) inState(order uuid.UUID, state string) {
	s.t.Helper()
	s.eventually("the order to be "+state+" and all work done", func() bool {
		return s.one(`
SELECT (SELECT count(*) FROM orders WHERE id = ? AND state <> ?)
     + (SELECT count(*) FROM webhook_deliveries WHERE processed_at IS NULL)
     + (SELECT count(*) FROM river_job WHERE finalized_at IS NULL AND kind <> 'sweep_parked')`, order, state) == "0"
	})
}

// refundsAtStripe counts the refunds that Stripe made, not how often it was asked.
func (s *shop) refundsAtStripe() (n int) {
	for _, call := range s.sim.Calls() {
		if strings.HasPrefix(call.IdempotencyKey, "refund:") && !call.Replayed && call.Status == http.StatusOK {
			n++
		}
	}
	return n
}

// What a person decides, by the commands, with every process real.
func TestOrders_AcceptAndRefund(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.web()
	s.start("work")
	order := s.order()
	wrong := int64(500)
	if _, err := s.sim.Pay(s.session(order), stripesim.PayOptions{Amount: &wrong}); err != nil {
		t.Fatal(err)
	}
	s.inState(order, "review")

	number := string(s.one(`SELECT number::text FROM orders WHERE id = ?`, order))
	for i, repeat := range []bool{false, true} {
		got := s.decide("accept", number)[0]
		if got.Repeat != repeat || got.By != "ann" || got.Why != "a reason" || got.AmountMinor == nil || *got.AmountMinor != 500 {
			t.Errorf("accept %d: %+v", i, got)
		}
		s.inState(order, "fulfilled")
	}
	if got := s.one(`SELECT cause_provider || ' ' || cause_event_id FROM order_transitions WHERE order_id = ? AND event = 'pay'`, order); got != "person ann" {
		t.Errorf("paid by %s", got)
	}

	// A part, given twice, is one refund; the rest revokes the licenses. Then there is nothing left.
	for i, repeat := range []bool{false, true} {
		got := s.decide("refund", order.String(), "--amount", "200")[0]
		if got.Repeat != repeat || got.Sent == nil || !*got.Sent || got.State != "fulfilled" || s.refundsAtStripe() != 1 {
			t.Errorf("refund of a part %d: %+v, %d refunds", i, got, s.refundsAtStripe())
		}
	}
	for i, repeat := range []bool{false, true} {
		got := s.decide("refund", order.String())[0]
		if got.Repeat != repeat || got.State != "refunded" || *got.AmountMinor != 300 || s.refundsAtStripe() != 2 {
			t.Errorf("refund of the rest %d: %+v, %d refunds", i, got, s.refundsAtStripe())
		}
	}
	s.inState(order, "refunded")
	if got := s.outcome(order); got.Paid != 1 || got.Licenses != 0 {
		t.Errorf("after all: %+v", got)
	}
	if got := s.one(`SELECT string_agg(kind || ' ' || state, ', ' ORDER BY kind, created_at) FROM sent_receipts WHERE order_id = ?`, order); got !=
		"receipt sent, refund sent, refund sent" {
		t.Errorf("mails: %s", got)
	}
	for args, want := range map[string]string{
		"refund --amount 1": "no money to refund", "refund --amount 0": "amount: must be positive", "accept": "", "cancel": "an order that is refunded cannot be canceled\n",
	} {
		code, out, errs := s.desk(append(append([]string{"orders"}, strings.Fields(args)...), number, "--by", "ann", "--why", "no")...)
		if want != "" && (code != 1 || !strings.Contains(errs, want)) || want == "" && (code != 0 || !strings.Contains(out, " was accepted before, by ann. Nothing was done; it is refunded.\n")) {
			t.Errorf("%s = %d %s%s, want %q", args, code, out, errs, want)
		}
	}
}

// A buyer who pays what was called off a moment ago is in review, and not lost.
func TestOrders_Cancel(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.web()
	worker := s.start("work")
	order, late := s.order(), s.order()
	session, lateSession := s.session(order), s.session(late)

	got := s.decide("cancel", order.String())[0]
	if got.State != "canceled" || got.Repeat {
		t.Errorf("cancel: %+v", got)
	}
	s.inState(order, "canceled")
	if session, _ := s.sim.Session(session); !strings.Contains(string(session), `"status": "expired"`) && !strings.Contains(string(session), `"status":"expired"`) {
		t.Errorf("the checkout can still be paid: %s", session)
	}

	worker.stop() // nobody ends the checkout now, and the buyer is faster
	s.decide("cancel", late.String())
	if _, err := s.sim.Pay(lateSession, stripesim.PayOptions{}); err != nil {
		t.Fatal(err)
	}
	s.start("work")
	s.inState(late, "review")
	if got := s.one(`SELECT review_reason FROM orders WHERE id = ?`, late); got != "paid_after_cancel" {
		t.Errorf("review: %s", got)
	}
	s.decide("accept", late.String())
	s.inState(late, "fulfilled")
	if got := s.outcome(late); got.Paid != 1 || got.Licenses != 2 || got.Mails != 1 {
		t.Errorf("accepted after all: %+v", got)
	}
	if code, _, errs := s.desk("orders", "cancel", "999", "--by", "ann", "--why", "no"); code != 1 || !strings.Contains(errs, "no such order") {
		t.Errorf("an order that is not there: %d %s", code, errs)
	}
	if code, _, errs := s.desk("orders", "cancel", fmt.Sprint(late)); code != 1 || !strings.Contains(errs, `"by", "why"`) {
		t.Errorf("without who and why: %d %s", code, errs)
	}
}
