package main

import (
	"encoding/json"
	"strings"
	"testing"

	"paidonce/fulfillment"
	"paidonce/internal/smtptest"
)

// A mail that nobody knows about, by the commands, with every process real: it is listed,
// sent again, and taken for sent.
func TestMails_AreListedAndDecidedAbout(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.mail = smtptest.New(t, map[string]string{".": smtptest.TakeAndDrop})
	s.env = append(s.env, "SMTP_URL="+s.mail.URL(), "MAIL_RESEND=never")
	s.web()
	s.start("work")
	order := s.order()
	s.pay(order)
	s.settled(order)
	by := []string{"--by", "ann", "--why", "asked the buyer"}

	code, out, errs := s.desk("mails", "list", "--state", "unknown,parked", "--json")
	var mails []fulfillment.MailEntry
	if err := json.Unmarshal([]byte(out), &mails); err != nil || code != 0 || len(mails) != 1 || mails[0].OrderID != order || mails[0].Unknowns != 1 {
		t.Fatalf("mails list = %d %s%s", code, out, errs)
	}
	code, out, errs = s.desk(append([]string{"mails", "resend", order.String(), "receipt"}, by...)...)
	if code != 0 || !strings.Contains(out, "the receipt mail will be sent again") {
		t.Errorf("mails resend = %d %s%s", code, out, errs)
	}
	s.settled(order)
	if got := s.outcome(order); got.Mails != 2 || got.Receipt != "unknown" {
		t.Errorf("order %s: %+v, want two copies and nobody knowing", order, got)
	}
	code, out, errs = s.desk(append([]string{"mails", "mark-sent", order.String(), "receipt", order.String()}, by...)...)
	if code != 0 || !strings.Contains(out, "is taken for sent") {
		t.Errorf("mails mark-sent = %d %s%s", code, out, errs)
	}
	if code, out, _ = s.desk("mails", "list", "--order", order.String()); code != 0 || !strings.Contains(out, "receipt  -        sent   buyer@example.com") || !strings.HasPrefix(out, "CHANGED (UTC) ") {
		t.Errorf("mails list = %d\n%s", code, out)
	}
	for args, want := range map[string]string{
		"resend ORDER receipt": "this one is sent", "resend ORDER refund": "the order has no such mail", "list --state lost": `there is no state "lost"`,
	} {
		args := append([]string{"mails"}, strings.Fields(strings.ReplaceAll(args, "ORDER", order.String()))...)
		if args[1] == "resend" {
			args = append(args, by...)
		}
		if code, out, errs := s.desk(args...); code != 1 || !strings.Contains(errs, want) {
			t.Errorf("%v = %d %s%s, want %q", args, code, out, errs, want)
		}
	}
}
