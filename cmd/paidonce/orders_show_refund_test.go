package main

import (
	"strings"
	"testing"

	"paidonce/internal/stripesim"
)

// A part was to go back, and failed. The command that the order's page names must send that part.
func TestOrdersShow_TheCommandAfterAFailedPartialRefund(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.web()
	s.start("work")
	order := s.order()
	if _, err := s.sim.Pay(s.session(order), stripesim.PayOptions{}); err != nil {
		t.Fatal(err)
	}
	s.inState(order, "fulfilled")
	s.decide("refund", order.String(), "--amount", "500")
	s.inState(order, "fulfilled")
	refund := string(s.one(`SELECT refund_id FROM refunds`))
	if _, err := s.sim.FailRefund(refund); err != nil {
		t.Fatal(err)
	}
	s.inState(order, "fulfilled")
	s.eventually("the failure to be known", func() bool { return s.one(`SELECT status FROM refunds`) == "failed" })
	_, out, _ := s.desk("orders", "show", order.String())
	var named string
	for line := range strings.Lines(out) {
		if strings.Contains(line, "paidonce orders refund") {
			named = strings.TrimSpace(line)
		}
	}
	t.Log(named)
	args := strings.Fields(strings.NewReplacer("WHO", "ann", "TEXT", "again").Replace(strings.TrimPrefix(named, "paidonce ")))
	code, out, errs := s.desk(args...)
	t.Log(code, out, errs)
	if strings.Contains(out, "39.98") {
		t.Errorf("a refund of 5.00 failed; the command that is named sends back 39.98: %s", out)
	}
}
