package main

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"paidonce/internal/stripesim"
)

// The refund is sent, and the reading of it fails.
func TestOrders_ARefundThatWasSent(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.web()
	worker := s.start("work")
	order := s.order()
	session := s.session(order)
	if _, err := s.sim.Pay(session, stripesim.PayOptions{}); err != nil {
		t.Fatal(err)
	}
	s.inState(order, "fulfilled")
	worker.stop()
	path := "/v1/checkout/sessions/" + session
	s.sim.Inject(stripesim.Fault{Method: http.MethodGet, Path: path, Delay: time.Millisecond}) // the read before is answered
	s.sim.Inject(stripesim.Fault{Method: http.MethodGet, Path: path, Status: http.StatusInternalServerError, Times: 9})
	code, out, errs := s.desk("orders", "refund", order.String(), "--amount", "500", "--by", "ann", "--why", "x")
	t.Logf("%d\n%s%s\nrefunds at Stripe: %d", code, out, errs, s.refundsAtStripe())
	if s.refundsAtStripe() == 1 && strings.Contains(out, "not sent yet") {
		t.Error("the money has gone, and the command says that it is not sent yet")
	}
}

// The refund is sent, and the reading of it is refused: what does the command advise?
func TestOrders_ARefundThatWasSentAndCannotBeRead(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.web()
	worker := s.start("work")
	order := s.order()
	session := s.session(order)
	if _, err := s.sim.Pay(session, stripesim.PayOptions{}); err != nil {
		t.Fatal(err)
	}
	s.inState(order, "fulfilled")
	worker.stop()
	path := "/v1/checkout/sessions/" + session
	s.sim.Inject(stripesim.Fault{Method: http.MethodGet, Path: path, Delay: time.Millisecond})
	s.sim.Inject(stripesim.Fault{Method: http.MethodGet, Path: path, Status: http.StatusBadRequest, Times: 1})
	code, out, errs := s.desk("orders", "refund", order.String(), "--amount", "500", "--by", "ann", "--why", "x")
	t.Logf("%d\n%s%s\nrefunds at Stripe: %d", code, out, errs, s.refundsAtStripe())
	if s.refundsAtStripe() == 1 && strings.Contains(errs, "give a --key that was not used before") {
		code, out, errs = s.desk("orders", "refund", order.String(), "--amount", "500", "--by", "ann", "--why", "x", "--key", "again")
		t.Errorf("the money has gone, and the command advises to send it again; doing so: %d\n%s%s\nrefunds at Stripe: %d", code, out, errs, s.refundsAtStripe())
	}
}

// A refund whose key is too old: nobody goes on.
func TestOrders_ARefundOfAnOldKey(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.web()
	worker := s.start("work")
	order := s.order()
	session := s.session(order)
	if _, err := s.sim.Pay(session, stripesim.PayOptions{}); err != nil {
		t.Fatal(err)
	}
	s.inState(order, "fulfilled")
	worker.stop()
	s.sim.Inject(stripesim.Fault{Method: http.MethodPost, Path: "/v1/refunds", Kind: stripesim.LoseRequest, Times: 3})
	_, out, errs := s.desk("orders", "refund", order.String(), "--by", "ann", "--why", "x")
	t.Logf("first: %s%s", out, errs)
	s.one(`WITH u AS (UPDATE provider_calls SET first_sent_at = now() - interval '25 hours', last_sent_at = now() - interval '24 hours' WHERE operation = 'refund' RETURNING 1) SELECT count(*) FROM u`)
	s.start("work")
	s.eventually("the job to end", func() bool {
		return s.one(`SELECT count(*) FROM river_job WHERE kind = 'send_refund' AND finalized_at IS NULL`) == "0"
	})
	code, out, errs := s.desk("orders", "refund", order.String(), "--by", "ann", "--why", "x")
	t.Logf("then: %d %s%s", code, out, errs)
	state := s.one(`SELECT state::text FROM river_job WHERE kind = 'send_refund'`)
	t.Logf("the job is %s, the call is %s", state, s.one(`SELECT state FROM provider_calls WHERE operation = 'refund'`))
	if strings.Contains(out, "a worker goes on") && state == "cancelled" {
		t.Error("nobody goes on, and the command says that a worker does")
	}
}
