package orders_test

import (
	"fmt"
	"time"

	"paidonce/orders"
)

// An order whose first checkout expired, and whose second was paid. Both facts may arrive in
// either order: the target is the same.
func ExampleTarget() {
	noon := time.Date(2025, 3, 1, 12, 0, 0, 0, time.UTC)
	first := orders.PaymentFacts{ResourceID: "cs_1", CreatedAt: noon, Status: orders.StatusExpired}
	second := orders.PaymentFacts{ResourceID: "cs_2", CreatedAt: noon.Add(time.Hour), Status: orders.StatusSucceeded, Agreed: true}
	for _, payments := range [][]orders.PaymentFacts{{first}, {first, second}, {second, first}} {
		state, _ := orders.Target(orders.Facts{Payments: payments})
		fmt.Println(state)
	}
	// Output:
	// expired
	// paid
	// paid
}
