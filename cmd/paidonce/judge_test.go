package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"paidonce/internal/stripesim/judges"
)

// The official Stripe CLI, which nobody here wrote, pays an order of running paidonce
// processes: it reads our checkout's payment page, makes a payment method, and confirms.
func TestStripeCLI_PaysAnOrder(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.web()
	s.start("work")
	order := s.order()
	out, err := judges.CLI(t, []string{"CHECKOUT_SESSION=" + s.session(order)},
		"fixtures", repo+"/internal/stripesim/testdata/pay-session.json", "--api-base", s.api, "--api-key", "sk_test_simulated")
	if err != nil {
		t.Fatalf("stripe fixtures: %v\n%s", err, out)
	}
	s.settled(order)
	if diff := cmp.Diff(fulfilledOnce(), s.outcome(order)); diff != "" {
		t.Errorf("order %s (-want +got):\n%s\n%s", order, diff, out)
	}
}
