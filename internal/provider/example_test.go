package provider_test

import (
	"fmt"

	"github.com/google/uuid"

	"paidonce/internal/money"
	"paidonce/internal/provider"
)

// The key of a refund is the id of the decision to make it, and its bytes are frozen with it:
// whoever sends it, and however often, it is one refund.
func ExampleRefundRequest() {
	request := provider.RefundRequest{
		DecisionID:      uuid.MustParse("0190f5fe-7c00-7a00-8000-000000000001"),
		OrderID:         uuid.MustParse("0190f5fe-7c00-7a00-8000-000000000002"),
		PaymentIntentID: "pi_1",
		Amount:          &money.Amount{Minor: 500, Currency: "usd"},
	}
	call, err := request.Call()
	fmt.Println(call.IdempotencyKey, err)
	again, _ := request.Call()
	fmt.Println(string(call.Params) == string(again.Params))

	request.Amount = &money.Amount{Minor: 5001, Currency: "kwd"} // Stripe takes no thousandths
	_, err = request.Call()
	fmt.Println(err)
	// Output:
	// refund:0190f5fe-7c00-7a00-8000-000000000001 <nil>
	// true
	// amount: 5.001 KWD: not payable at Stripe
}
