package main

import (
	"encoding/json"
	"strings"
	"testing"

	"paidonce/internal/smtptest"
)

// A mistyped address, by the commands, with every process real: the receipt is parked, the
// license is there, and the corrected address gets the one mail.
func TestOrders_Email(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.mail = smtptest.New(t, map[string]string{"RCPT": "550 no such user"})
	taking := smtptest.New(t, nil)
	s.env = append(s.env, "SMTP_URL="+s.mail.URL())
	s.web()
	worker := s.start("work")
	order := s.order()
	s.pay(order)
	s.settled(order)
	if got := s.outcome(order); got.Receipt != "parked" || got.Mails != 0 || got.Licenses != 2 {
		t.Fatalf("order %s: %+v, want a parked receipt and two licenses", order, got)
	}
	worker.stop()
	s.mail, s.env = taking, append(s.env, "SMTP_URL="+taking.URL())
	s.start("work")

	by := []string{"--by", "ann", "--why", "a typo"}
	for i, want := range []string{"receipt: will be sent there", "went to right@example.com already"} {
		code, out, errs := s.desk(append([]string{"orders", "email", order.String(), "right@example.com"}, by...)...)
		if code != 0 || !strings.Contains(out, want) {
			t.Errorf("%d: %d %s%s, want %q", i, code, out, errs, want)
		}
		s.settled(order)
	}
	if got := s.outcome(order); got.Receipt != "sent" || got.Mails != 1 {
		t.Errorf("order %s: %+v, want one mail", order, got)
	}
	for _, rcpt := range s.mail.Recipients() {
		if rcpt != "RCPT TO:<right@example.com>" {
			t.Errorf("%s", rcpt)
		}
	}

	// What went out does not go out again, and the command says so.
	code, out, errs := s.desk(append([]string{"orders", "email", order.String(), "third@example.com", "--json"}, by...)...)
	var c corrected
	if err := json.Unmarshal([]byte(out), &c); err != nil || code != 0 || len(c.Mails) != 1 || c.Mails[0].Sending || c.Mails[0].To != "right@example.com" {
		t.Errorf("%d %s%s: want the mail left alone", code, out, errs)
	}
	code, out, errs = s.desk(append([]string{"orders", "email", order.String(), "fourth@example.com"}, by...)...)
	if code != 0 || !strings.Contains(out, "was sent to right@example.com, and is not sent again") {
		t.Errorf("%d %s%s", code, out, errs)
	}
	for args, want := range map[string]string{"a@example.org,b@example.org": "email: must be one plain address", "": "email: must be"} {
		if code, _, errs := s.desk(append([]string{"orders", "email", order.String(), args}, by...)...); code != 1 || !strings.Contains(errs, want) {
			t.Errorf("%q = %d %s, want %q", args, code, errs, want)
		}
	}
	s.settled(order)
	if got := s.outcome(order); got.Mails != 1 {
		t.Errorf("order %s: %d mails, want 1", order, got.Mails)
	}
}
