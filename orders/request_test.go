package orders_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"paidonce/orders"
)

// Of two answers to one request, given by an owner who was slow and by whoever took over, the
// first stands, and both give it.
func TestAnswer_TheFirstStands(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	r := orders.Request{Route: "POST /orders", Key: "key"}
	n := orders.NewOrder{Email: "a@example.com", Items: []orders.Item{{SKU: "KEY-1", Quantity: 1}}}
	created, err := s.CreateOnce(t.Context(), merchant(), n, &r)
	must(t, err)
	for i, body := range []string{`{"n": 1}`, `{"n": 2}`} {
		got, err := s.Answer(t.Context(), r, orders.Answered{Status: 201 + i, Body: []byte(body)})
		must(t, err)
		if got.Status != 201 || string(got.Body) != `{"n": 1}` {
			t.Errorf("answer %d: %d %s stands, want the first", i+1, got.Status, got.Body)
		}
	}
	must(t, s.Leave(t.Context(), r)) // an answered request is nobody's to take over
	again, err := s.CreateOnce(t.Context(), merchant(), n, &r)
	must(t, err)
	if again.Answered == nil || again.Order.ID != created.Order.ID || again.PaymentID != created.PaymentID || again.CallKey != created.CallKey {
		t.Errorf("again: %+v, want what was made before: %+v", again, created)
	}
}

// A key is written by the order's own transaction: a fault of the input, or of the database,
// leaves neither.
func TestCreateOnce_AFaultLeavesTheKeyFree(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	r := orders.Request{Route: "POST /orders", Key: "key"}
	before := s.dump()
	n := orders.NewOrder{Email: "a@example.com", Items: []orders.Item{{SKU: "KEY-9", Quantity: 1}}}
	var fault *orders.InputError
	if _, err := s.CreateOnce(t.Context(), merchant(), n, &r); !errors.As(err, &fault) {
		t.Errorf("got %v, want a fault", err)
	}
	if n := s.count(`SELECT count(*) FROM api_requests`); n != 0 {
		t.Errorf("%d keys are taken", n)
	}
	if diff := cmp.Diff(before, s.dump()); diff != "" {
		t.Errorf("(-before +after)\n%s", diff)
	}
	n.Items[0].SKU = "KEY-1"
	if _, err := s.CreateOnce(t.Context(), merchant(), n, &r); err != nil {
		t.Errorf("the key is not free: %v", err)
	}
	if _, err := s.CreateOnce(t.Context(), merchant(), n, &r); !errors.Is(err, orders.ErrInFlight) {
		t.Errorf("at once again: got %v, want in flight", err)
	}
}
