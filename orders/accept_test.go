package orders_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"paidonce/orders"
)

// clerk is who decides in these tests.
func clerk() orders.Person {
	return orders.Person{Name: "clerk@example.com", Why: "the buyer wrote to us"}
}

// held are orders in review, by the reason.
func (s shop) held() map[orders.Reason]sale {
	s.t.Helper()
	all := map[orders.Reason]sale{}
	for _, reason := range []orders.Reason{orders.ReasonAmount, orders.ReasonCurrency, orders.ReasonCapture, orders.ReasonPaidAfterCancel} {
		o := s.order()
		s.teach(o)
		f := paid(o.Session, 1999)
		switch reason {
		case orders.ReasonAmount:
			f = paid(o.Session, 1500)
		case orders.ReasonCurrency:
			f.ReceivedCurrency = "eur"
		case orders.ReasonCapture:
			f = intentPaid(o.Session, 500, 1999)
		case orders.ReasonPaidAfterCancel:
			_, err := s.Cancel(s.t.Context(), o.ID, clerk())
			must(s.t, err)
		case orders.NoReason:
		}
		if got := s.apply(f); got.To != orders.Review || got.Reason != reason {
			s.t.Fatalf("%s: got %+v", reason, got)
		}
		all[reason] = o
	}
	return all
}

// Accepting takes the money that came, for every reason there is to hold it; who and why are
// kept, and the history names the person.
func TestAccept(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	for reason, o := range s.held() {
		s.edges.forget()
		got, err := s.Accept(t.Context(), o.ID, clerk())
		must(t, err)
		v := s.view(o.ID)
		if got.Repeat || got.Order.State != orders.Paid || v.Order.State != orders.Paid || v.Order.Decision != orders.DecisionAccepted || v.Order.PaidAt == nil {
			t.Errorf("%s: %+v, and the order is %s by decision %s", reason, got, v.Order.State, v.Order.Decision)
		}
		last := v.Transitions[len(v.Transitions)-1]
		if last.Event != orders.Pay || last.FromState != orders.Review || last.CauseProvider != "person" || last.CauseEventID != clerk().Name {
			t.Errorf("%s: %+v, want it paid out of review by the person", reason, last)
		}
		want := []orders.Move{{OrderID: o.ID, From: orders.Review, To: orders.Paid, At: openedAt()}}
		if diff := cmp.Diff(want, s.edges.moves); diff != "" {
			t.Errorf("%s: moves (-want +got):\n%s", reason, diff)
		}
		ruling := v.Rulings[len(v.Rulings)-1]
		if ruling.Action != orders.ActionAccept || ruling.DecidedBy != clerk().Name || ruling.Reason != clerk().Why || !ruling.DecidedAt.Equal(openedAt()) {
			t.Errorf("%s: ruling %+v, want who and why", reason, ruling)
		}
		p := v.Payments[0]
		if reason == orders.ReasonPaidAfterCancel {
			if ruling.PaymentID != nil || ruling.AmountMinor != nil || p.AcceptedMinor != nil {
				t.Errorf("%s: ruling %+v about payment %+v: its amount was never in doubt", reason, ruling, p)
			}
			continue
		}
		if *ruling.PaymentID != p.ID || *ruling.AmountMinor != *p.ReceivedMinor || *ruling.Currency != *p.ReceivedCurrency {
			t.Errorf("%s: ruling %+v, want it about payment %+v", reason, ruling, p)
		}
		if *p.AcceptedMinor != *p.ReceivedMinor || *p.AcceptedCurrency != *p.ReceivedCurrency || *p.AcceptedBy != clerk().Name || p.AcceptedAt == nil {
			t.Errorf("%s: payment %+v, want it accepted", reason, p)
		}
	}
}

// The same command again does nothing, whoever gives it, and says who was first. So it does
// after the order has moved on.
func TestAccept_Again(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	for reason, o := range s.held() {
		first, err := s.Accept(t.Context(), o.ID, clerk())
		must(t, err)
		for _, then := range []func(){func() {}, func() { s.fulfill(o) }} {
			then()
			before := s.dump()
			again, err := s.Accept(t.Context(), o.ID, orders.Person{Name: "other@example.com", Why: "me too"})
			must(t, err)
			if !again.Repeat || again.Ruling.ID != first.Ruling.ID || again.Ruling.DecidedBy != clerk().Name {
				t.Errorf("%s: %+v, want a repeat of %s", reason, again, first.Ruling.ID)
			}
			if diff := cmp.Diff(before, s.dump()); diff != "" {
				t.Errorf("%s: (-before +after)\n%s", reason, diff)
			}
		}
	}
}

func TestAccept_Refused(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	pending, done := s.order(), s.fulfilled()
	held := s.held()[orders.ReasonAmount]
	before := s.dump()
	for name, test := range map[string]struct {
		order  uuid.UUID
		person orders.Person
		want   string
	}{
		"pending":     {pending.ID, clerk(), "only an order in review can be accepted; this one is pending"},
		"fulfilled":   {done.ID, clerk(), "only an order in review can be accepted; this one is fulfilled"},
		"nobody":      {held.ID, orders.Person{Why: "x"}, "by: must name who decides"},
		"for nothing": {held.ID, orders.Person{Name: "x"}, "why: must say why"},
	} {
		if _, err := s.Accept(t.Context(), test.order, test.person); err == nil || err.Error() != test.want {
			t.Errorf("%s: got %v, want %s", name, err, test.want)
		}
	}
	var not *orders.NotInReviewError
	if _, err := s.Accept(t.Context(), pending.ID, clerk()); !errors.As(err, &not) || not.State != orders.Pending {
		t.Errorf("got %v, want NotInReviewError", err)
	}
	if _, err := s.Accept(t.Context(), s.NewID(), clerk()); !errors.Is(err, orders.ErrNotFound) {
		t.Errorf("no order: got %v, want ErrNotFound", err)
	}
	if diff := cmp.Diff(before, s.dump()); diff != "" {
		t.Errorf("(-before +after)\n%s", diff)
	}
}

// Of two payments that do not agree the one that would count is accepted, by whenever its
// checkout was made, not by arrival. The other is surplus, and pays nothing.
func TestAccept_OfTwo(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	o := s.order()
	second := s.secondCheckout(o)
	s.apply(paid(second, 700))
	must(t, s.DB.Exec(`UPDATE payments SET object_created_at = object_created_at + interval '1 h' WHERE resource_id = ?`, second).Error)
	s.apply(paid(o.Session, 1500))
	got, err := s.Accept(t.Context(), o.ID, clerk())
	must(t, err)
	v := s.view(o.ID)
	if *got.Ruling.PaymentID != o.PaymentID || v.Order.State != orders.Paid {
		t.Errorf("accepted %s, order is %s; want the first payment to pay it", *got.Ruling.PaymentID, v.Order.State)
	}
	if surplus := v.Surplus(); len(surplus) != 1 || *surplus[0].ResourceID != second {
		t.Errorf("surplus %+v, want the second payment", surplus)
	}
}

// Money that is gone by now is not accepted: the payment is that still has some.
func TestAccept_OfWhatIsLeft(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	o := s.order()
	second := s.secondCheckout(o)
	s.apply(reads(o.Session, 1500, 1, back(refund("re_1", 1500, "succeeded"))))
	s.apply(paid(second, 700))
	got, err := s.Accept(t.Context(), o.ID, clerk())
	must(t, err)
	if *got.Ruling.AmountMinor != 700 || got.Order.State != orders.Paid {
		t.Errorf("accepted %+v, order is %s; want the second payment to pay it", got.Ruling, got.Order.State)
	}
}

// An amount was accepted, not a payment: a read that finds another amount holds the order
// again, and it takes another decision. It is not paid a second time.
func TestAccept_IsOfAnAmount(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	o := s.order()
	s.apply(paid(o.Session, 1500))
	first, err := s.Accept(t.Context(), o.ID, clerk())
	must(t, err)
	s.fulfill(o)
	if got := s.apply(read(o.Session, 900, 1)); got.To != orders.Review || got.Reason != orders.ReasonAmount {
		t.Errorf("another amount: %+v, want it held", got)
	}
	second, err := s.Accept(t.Context(), o.ID, clerk())
	must(t, err)
	if second.Repeat || second.Ruling.ID == first.Ruling.ID || *second.Ruling.AmountMinor != 900 {
		t.Errorf("%+v, want a decision of its own about 900", second.Ruling)
	}
	want := []string{
		"pending hold review", "review pay paid", "paid fulfill fulfilled", "fulfilled hold review",
		"review restore paid", "paid fulfill fulfilled",
	}
	if diff := cmp.Diff(want, s.history(o.ID)); diff != "" {
		t.Errorf("history (-want +got):\n%s", diff)
	}
}

// Twenty people accept at once: one decides, and the others learn of it.
func TestAccept_TwentyAtOnce(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	o := s.held()[orders.ReasonCapture]
	results, errs := atOnce(20, func(int) (orders.Decided, error) { return s.Accept(t.Context(), o.ID, clerk()) })
	decided := 0
	for i, err := range errs {
		must(t, err)
		if !results[i].Repeat {
			decided++
		}
	}
	v := s.view(o.ID)
	if decided != 1 || len(v.Rulings) != 1 || v.Order.State != orders.Paid {
		t.Errorf("%d decided, %d decisions are kept, order is %s; want one, one, paid", decided, len(v.Rulings), v.Order.State)
	}
}
