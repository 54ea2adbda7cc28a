package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/uuid"

	"paidonce/orders"
)

// A command at the desk does not wait for a database that is not there, and says in one line
// what DATABASE_URL leads to.
func TestDesk_NoDatabase(t *testing.T) {
	t.Parallel()
	address := freeAddr(t)
	env := map[string]string{"DATABASE_URL": "postgres://me:hush@" + address + "/shop", "WAIT_FOR_DATABASE": "1h"}
	want := `paidonce: DATABASE_URL: database "shop" at ` + address + ": connect: connection refused\n"
	for given, code := range map[string]int{
		"orders list": 1, "deliveries list": 1, "jobs list": 1, "mails list": 1, "products list": 1, "products import -": 1,
		"migrate status": 1, "migrate down --yes": 1, "reconcile": 2, "reconcile findings": 1,
	} {
		got, out, errs := command(t, env, `[{"sku":"A","name":"x","unit_minor":1,"currency":"usd"}]`, strings.Fields(given)...)
		if got != code || out != "" || errs != want {
			t.Errorf("%s = %d %s\n got %swant %s", given, got, out, errs, want)
		}
	}
}

// A refund needs Stripe, and says how it is told of; what needs no Stripe goes on.
func TestDesk_NoStripe(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.web()
	order := s.order().String()
	env := s.environment()
	env["STRIPE_SECRET_KEY"] = ""
	by := []string{"--by", "ann", "--why", "no"}
	code, _, errs := command(t, env, "", append([]string{"orders", "refund", order}, by...)...)
	if code != 1 || !strings.HasPrefix(errs, "paidonce: STRIPE_SECRET_KEY: is required to refund") {
		t.Errorf("refund = %d %s", code, errs)
	}
	if code, out, errs := command(t, env, "", "jobs", "list"); code != 0 || errs != "" {
		t.Errorf("jobs list = %d %s%s", code, out, errs)
	}
}

// What a decision came to is a sentence, for every action, the first time and after.
func TestDecided_Print(t *testing.T) {
	t.Parallel()
	usd, amount, yes, no := "usd", int64(100), true, false
	payment := uuid.New()
	for want, d := range map[string]decided{
		"Order 1: 1.00 USD accepted. It is fulfilled now.":                {Action: orders.ActionAccept, State: orders.Fulfilled, PaymentID: &payment, AmountMinor: &amount, Currency: &usd},
		"Order 1: accepted, though it had been canceled. It is paid now.": {Action: orders.ActionAccept, State: orders.Paid},
		"Order 1: 1.00 USD was accepted before, by ann. Nothing was done; it is fulfilled.": {
			Action: orders.ActionAccept, State: orders.Fulfilled, AmountMinor: &amount, Currency: &usd, Repeat: true,
		},
		"Order 1 was accepted before, by ann. Nothing was done; it is paid.": {Action: orders.ActionAccept, State: orders.Paid, Repeat: true},
		"Order 1 is canceled.": {Action: orders.ActionCancel, State: orders.Canceled},
		"Order 1 was canceled before, by ann. Nothing was done; it is canceled.": {Action: orders.ActionCancel, State: orders.Canceled, Repeat: true},
		"Order 1: the refund of 1.00 USD is sent. It is refunded now.": {
			Action: orders.ActionRefund, State: orders.Refunded, AmountMinor: &amount, Currency: &usd, Sent: &yes,
		},
		"Order 1: the refund of 1.00 USD is decided. It is paid now.": {
			Action: orders.ActionRefund, State: orders.Paid, AmountMinor: &amount, Currency: &usd, Sent: &no,
		},
		"Order 1: the refund of 1.00 USD was decided before, by ann. Nothing was done; it is refunded.": {
			Action: orders.ActionRefund, State: orders.Refunded, AmountMinor: &amount, Currency: &usd, Sent: &yes, Repeat: true,
		},
	} {
		d.Number, d.By = 1, "ann"
		var out bytes.Buffer
		d.print(&out)
		if out.String() != want+"\n" {
			t.Errorf("got %swant %s", &out, want)
		}
	}
}

// A column goes on below a row that has nothing in it.
func TestTable_KeepsItsColumns(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	table := newTable(&out, "ORDER", "NEEDS", "WHY")
	table.row("1", "a person at once", "x")
	table.row("2", "", "")
	table.row("3", "nothing", "y")
	table.end()
	lines := strings.Split(out.String(), "\n")
	if at := strings.Index(lines[0], "WHY"); strings.Index(lines[1], "x") != at || strings.Index(lines[3], "y") != at {
		t.Errorf("the columns part:\n%s", &out)
	}
}

// A long name is cut in a table, and the id of an event, which is copied from it, is not.
func TestShortName(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 60)
	if got := shortName("evt_" + long); got != "evt_"+long {
		t.Errorf("an event's id became %s", got)
	}
	if got := shortName("reconcile:" + long); len([]rune(got)) != nameLength || !strings.HasSuffix(got, "…") {
		t.Errorf("a long name became %s", got)
	}
}
