package orders_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"gorm.io/gorm"

	"paidonce/internal/provider"
	"paidonce/orders"
)

// TestSettleCheckout_BindsOnce (I2): the answer gives the payment its resource id, and
// releases what came before it. The same answer again changes nothing.
func TestSettleCheckout_BindsOnce(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	o := s.unanswered()
	if got := s.apply(paid("cs_1", 1999)); got.Outcome != orders.Unknown {
		t.Errorf("before the answer: got %+v, want unknown", got)
	}
	s.answer(o.PaymentID, o.CallKey, "cs_1")

	v := s.view(o.ID)
	p := v.Payments[0]
	made := time.Unix(1740830400, 0).UTC()
	if *p.ResourceID != "cs_1" || *p.CheckoutURL != "https://pay.example/cs_1" || !p.ObjectCreatedAt.Equal(made) {
		t.Errorf("payment %+v", p)
	}
	if v.CheckoutURL() != "https://pay.example/cs_1" || v.Order.State != orders.Pending || len(v.Transitions) != 0 {
		t.Errorf("checkout %q, state %s, transitions %v", v.CheckoutURL(), v.Order.State, v.Transitions)
	}
	if !slices.Equal(s.edges.released, []string{"cs_1"}) {
		t.Errorf("released %v, want cs_1", s.edges.released)
	}

	before := s.dump()
	s.Now = func() time.Time { return openedAt().Add(time.Hour) }
	s.answer(o.PaymentID, o.CallKey, "cs_1")
	if diff := cmp.Diff(before, s.dump()); diff != "" || len(s.edges.released) != 1 {
		t.Errorf("the answer again, later: released %v (-before +after):\n%s", s.edges.released, diff)
	}
	if got := s.apply(paid("cs_1", 1999)); got.To != orders.Paid {
		t.Errorf("after the answer: got %+v, want it paid", got)
	}
}

// An answer after the payment succeeded, by the job after the handler, takes nothing back.
func TestSettleCheckout_AfterThePaymentTakesNothingBack(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	o := s.order()
	s.apply(paid(o.Session, 1999))
	before := s.dump()
	s.answer(o.PaymentID, o.CallKey, o.Session)
	if diff := cmp.Diff(before, s.dump()); diff != "" {
		t.Errorf("rows changed (-before +after):\n%s", diff)
	}
}

// An older API version names the intent in its answer: it is learned with the session.
func TestSettleCheckout_LearnsTheIntent(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	o := s.unanswered()
	answer := provider.Answer{ID: "cs_1", Body: []byte(`{"id":"cs_1","object":"checkout.session","url":null,"created":1740830400,"payment_intent":"pi_1"}`)}
	must(t, s.tx(func(tx *gorm.DB) error { return s.SettleCheckout(t.Context(), tx, callOf(o), answer) }))
	if !slices.Equal(s.edges.released, []string{"cs_1", "pi_1"}) {
		t.Errorf("released %v, want both ids", s.edges.released)
	}
	intent := intentPaid("", 1999, 1999)
	intent.Resources = []string{"pi_1"}
	if got := s.apply(intent); got.OrderID != o.ID || got.To != orders.Paid {
		t.Errorf("got %+v, want the intent to pay", got)
	}
}

func TestSettleCheckout_RefusesWhatIsNoSession(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	o := s.unanswered()
	other := s.order()
	before := s.dump()
	for name, answer := range map[string]provider.Answer{
		"nothing":           {},
		"another object":    {ID: "pi_1", Body: []byte(`{"id":"pi_1","object":"payment_intent"}`)},
		"no id":             {Body: []byte(`{"object":"checkout.session"}`)},
		"another payment's": sessionAnswer(other.Session),
	} {
		err := s.tx(func(tx *gorm.DB) error { return s.SettleCheckout(t.Context(), tx, callOf(o), answer) })
		if err == nil {
			t.Errorf("%s was taken", name)
		}
		if name == "another payment's" {
			wantConstraint(t, err, "payments_resource_key")
		}
	}
	if diff := cmp.Diff(before, s.dump()); diff != "" {
		t.Errorf("rows changed (-before +after):\n%s", diff)
	}
}

func TestGet_IsAllOfOneOrder(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	o, other := s.order(orders.Item{SKU: "KEY-2", Quantity: 1}, orders.Item{SKU: "KEY-1", Quantity: 1}), s.order()
	second := s.secondCheckout(o)
	s.apply(paid(other.Session, 1999))
	s.apply(says(o.Session, orders.StatusExpired))
	s.apply(paid(second, 2819))

	v := s.view(o.ID)
	if v.Order.ID != o.ID || len(v.Lines) != 2 || v.Lines[0].SKU != "KEY-2" || len(v.Payments) != 2 || v.Payments[0].ID != o.PaymentID {
		t.Errorf("view %+v", v)
	}
	if got, want := fmt.Sprint(s.history(o.ID)), "[pending pay paid]"; got != want {
		t.Errorf("history %s, want %s", got, want)
	}
	if v.ReceivedMinor() != 2819 || v.RefundedMinor() != 0 || v.CheckoutURL() != "" {
		t.Errorf("received %d, refunded %d, checkout %q", v.ReceivedMinor(), v.RefundedMinor(), v.CheckoutURL())
	}
	if _, err := s.Get(t.Context(), o.PaymentID); !errors.Is(err, orders.ErrNotFound) {
		t.Errorf("an id of no order: got %v, want ErrNotFound", err)
	}
}

// What is added up is of one currency, refunds of every payment, and the newest open checkout.
func TestView_Sums(t *testing.T) {
	t.Parallel()
	minor := func(n int64) *int64 { return &n }
	text := func(s string) *string { return &s }
	v := orders.View{
		Order: orders.Order{Currency: "usd"},
		Payments: []orders.Payment{
			{Status: orders.StatusSucceeded, ReceivedMinor: minor(1999), ReceivedCurrency: text("usd"), RefundedMinor: 500},
			{Status: orders.StatusSucceeded, ReceivedMinor: minor(820), ReceivedCurrency: text("usd"), RefundedMinor: 820},
			{Status: orders.StatusSucceeded, ReceivedMinor: minor(100), ReceivedCurrency: text("jpy")},
			{Status: orders.StatusOpen, CheckoutURL: text("https://pay.example/1")},
			{Status: orders.StatusOpen, CheckoutURL: text("https://pay.example/2")},
			{Status: orders.StatusExpired, CheckoutURL: text("https://pay.example/3")},
			{Status: orders.StatusOpen},
		},
	}
	if v.ReceivedMinor() != 2819 || v.RefundedMinor() != 1320 || v.CheckoutURL() != "https://pay.example/2" {
		t.Errorf("received %d, refunded %d, checkout %q", v.ReceivedMinor(), v.RefundedMinor(), v.CheckoutURL())
	}
}

// PaidBy is the ids of the payment that counts, and follows it when the first is refunded.
func TestPaidBy_FollowsTheCountedPayment(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	o := s.order()
	second := s.secondCheckout(o)
	paidBy := func() (ids []string) {
		must(t, s.tx(func(tx *gorm.DB) (err error) { _, ids, err = s.PaidBy(t.Context(), tx, o.ID); return err }))
		slices.Sort(ids)
		return ids
	}
	if got := paidBy(); got != nil {
		t.Errorf("nothing is paid, and %v pays it", got)
	}
	s.apply(paid(second, 1999))
	if got, want := paidBy(), []string{second, "pi_of_" + second}; !slices.Equal(got, want) {
		t.Errorf("paid by %v, want %v", got, want)
	}
	// The sessions were made in one second, so that the smaller id counts.
	s.apply(paid(o.Session, 1999))
	first := min(o.Session, second)
	if got, want := paidBy(), []string{first, "pi_of_" + first}; !slices.Equal(got, want) {
		t.Errorf("paid by %v, want %v", got, want)
	}
	must(t, s.DB.Exec(`UPDATE payments SET refunded_minor = received_minor WHERE resource_id = ?`, first).Error)
	other := max(o.Session, second)
	if got, want := paidBy(), []string{other, "pi_of_" + other}; !slices.Equal(got, want) {
		t.Errorf("after the refund paid by %v, want %v", got, want)
	}
}
