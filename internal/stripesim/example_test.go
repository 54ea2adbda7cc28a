package stripesim_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"

	"paidonce/internal/stripesim"
)

// A checkout is created as the merchant's backend would, paid as a buyer would, and refunded; then the refund fails. Nothing
// is delivered: a test would post the events itself, in the order it likes.
func Example() {
	sim := stripesim.New(stripesim.Config{})
	defer sim.Close()
	srv := httptest.NewServer(sim.Handler())
	defer srv.Close()

	session, err := createSession(srv.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	payment, err := sim.Pay(session, stripesim.PayOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	refund, refunded, err := sim.Refund(payment.PaymentIntentID, 500, "", stripesim.Held)
	if err != nil {
		fmt.Println(err)
		return
	}
	failed, err := sim.FailRefund(refund, stripesim.Held)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, e := range append(append(payment.Events, refunded...), failed...) {
		fmt.Println(e.Type)
	}
	// Output:
	// payment_intent.created
	// charge.succeeded
	// payment_intent.succeeded
	// checkout.session.completed
	// charge.refunded
	// charge.refund.updated
}

func createSession(base string) (id string, err error) {
	form := url.Values{
		"mode": {"payment"}, "success_url": {"https://shop.example/thanks"}, "line_items[0][quantity]": {"1"},
		"line_items[0][price_data][currency]": {"eur"}, "line_items[0][price_data][unit_amount]": {"4900"},
		"line_items[0][price_data][product_data][name]": {"License"},
	}
	req, err := http.NewRequest(http.MethodPost, base+"/v1/checkout/sessions", strings.NewReader(form.Encode()))
	if err != nil {
		return "", err
	}
	req.Header.Set("Authorization", "Bearer sk_test_example")
	res, err := (&http.Client{}).Do(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = res.Body.Close() }()
	var session struct {
		ID string `json:"id"`
	}
	err = json.NewDecoder(res.Body).Decode(&session)
	return session.ID, err
}
