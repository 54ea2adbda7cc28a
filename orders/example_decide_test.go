package orders_test

import (
	"fmt"
	"time"

	"paidonce/orders"
)

// A buyer paid two checkouts of one order. The one that was made first pays it; the other is
// surplus, and pays as soon as the first is refunded. A refund that fails takes that back.
func ExampleCounted() {
	noon := time.Date(2025, 3, 1, 12, 0, 0, 0, time.UTC)
	first := orders.PaymentFacts{ResourceID: "cs_1", CreatedAt: noon, Status: orders.StatusSucceeded, Agreed: true}
	second := orders.PaymentFacts{ResourceID: "cs_2", CreatedAt: noon.Add(time.Hour), Status: orders.StatusSucceeded, Agreed: true}
	for _, refunded := range []bool{false, true, false} {
		first.Returned = refunded
		payments := []orders.PaymentFacts{second, first} // in whatever order they are read
		counted, _ := orders.Counted(payments)
		state, _ := orders.Target(orders.Facts{Payments: payments, Fulfilled: true})
		fmt.Printf("first refunded: %-5v  %s pays, the order is %s\n", refunded, counted.ResourceID, state)
	}
	// Output:
	// first refunded: false  cs_1 pays, the order is fulfilled
	// first refunded: true   cs_2 pays, the order is fulfilled
	// first refunded: false  cs_1 pays, the order is fulfilled
}

// What happens to the money of a fulfilled order, and what the order is by it.
func ExampleTarget_moneyThatGoesBack() {
	paid := orders.PaymentFacts{ResourceID: "cs_1", Status: orders.StatusSucceeded, Agreed: true}
	refunded, disputed, lost := paid, paid, paid
	refunded.Returned, disputed.DisputeOpen, lost.DisputeLost = true, true, true
	for _, then := range []struct {
		what    string
		payment orders.PaymentFacts
	}{
		{"a part is refunded", paid},
		{"all is refunded", refunded},
		{"the refund fails", paid},
		{"the bank asks it back", disputed},
		{"and keeps it", lost},
		{"and gives it up after all", paid},
	} {
		state, _ := orders.Target(orders.Facts{Payments: []orders.PaymentFacts{then.payment}, Fulfilled: true})
		fmt.Printf("%-25s  %s\n", then.what, state)
	}
	// Output:
	// a part is refunded         fulfilled
	// all is refunded            refunded
	// the refund fails           fulfilled
	// the bank asks it back      disputed
	// and keeps it               charged_back
	// and gives it up after all  fulfilled
}

// A buyer pays after a person has called the order off. Nothing is fulfilled by it until a
// person accepts the money, and then it is like any payment.
func ExampleTarget_moneyAfterCancel() {
	paid := []orders.PaymentFacts{{ResourceID: "cs_1", Status: orders.StatusSucceeded, Agreed: true}}
	for _, decision := range []orders.Decision{orders.DecisionCanceled, orders.DecisionAccepted} {
		state, reason := orders.Target(orders.Facts{Payments: paid, Decision: decision})
		fmt.Println(decision, "->", state, reason)
	}
	// Output:
	// canceled -> review paid_after_cancel
	// accepted -> paid
}
