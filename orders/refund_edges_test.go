package orders_test

import (
	"errors"
	"testing"

	"github.com/google/uuid"

	"paidonce/orders"
)

func ann() orders.Person { return orders.Person{Name: "ann", Why: "the buyer asked"} }

// refundOf asks for one, and returns the payments that it is about, and whether it was asked
// for before.
func (s shop) refundOf(order uuid.UUID, w orders.RefundWish) (payments []uuid.UUID, repeat bool, err error) {
	s.t.Helper()
	all, err := s.Refund(s.t.Context(), order, w, ann())
	for _, one := range all {
		payments, repeat = append(payments, *one.Ruling.PaymentID), one.Repeat
	}
	return payments, repeat, err
}

func (s shop) wantRefund(order uuid.UUID, w orders.RefundWish, payment uuid.UUID, repeat bool) {
	s.t.Helper()
	got, again, err := s.refundOf(order, w)
	if err != nil || len(got) != 1 || got[0] != payment || again != repeat {
		s.t.Errorf("%+v: payments %v, repeat %t, %v; want %s, %t", w, got, again, err, payment, repeat)
	}
}

// returned is what a read says of a payment of which so much went back.
func (s shop) sentBack(session string, minor, refunded, seq int64) {
	s.t.Helper()
	f := read(session, minor, seq)
	f.Returns = &orders.Returns{RefundedMinor: refunded, ChargedCurrency: "usd"}
	s.apply(f)
}

// A checkout that cost nothing succeeded, and has no money: nobody has to choose between it
// and the one that was paid, and it is not surplus that somebody should send back.
func TestRefund_AFreePaymentHasNoMoney(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	o := s.order()
	free := s.secondCheckout(o)
	s.apply(paid(o.Session, 1999))
	must(t, s.DB.Exec(`UPDATE payments SET expected_minor = 0 WHERE resource_id = ?`, free).Error)
	s.apply(paid(free, 0))
	if surplus := s.view(o.ID).Surplus(); len(surplus) != 0 {
		t.Errorf("surplus: %d payments, want none", len(surplus))
	}
	if _, _, err := s.refundOf(o.ID, orders.RefundWish{Surplus: true}); !errors.Is(err, orders.ErrNothingToRefund) {
		t.Errorf("refund of surplus: %v, want that there is none", err)
	}
	s.wantRefund(o.ID, orders.RefundWish{}, o.PaymentID, false)
}

// A command that names no payment, and is given again after another one was paid, is about
// the payment that it was about before.
func TestRefund_GivenAgainIsAboutTheSamePayment(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	o := s.order()
	second := s.secondCheckout(o)
	s.apply(paid(o.Session, 1999))
	s.wantRefund(o.ID, orders.RefundWish{}, o.PaymentID, false)
	s.sentBack(o.Session, 1999, 1999, 1)
	s.apply(paid(second, 1999)) // the buyer has paid again, and is to keep it
	s.wantRefund(o.ID, orders.RefundWish{}, o.PaymentID, true)
	if n := s.count(`SELECT count(*) FROM provider_calls WHERE operation = 'refund'`); n != 1 {
		t.Errorf("%d refunds are to be sent, want 1", n)
	}

	// Whoever means the other one names it.
	if _, repeat, err := s.refundOf(o.ID, orders.RefundWish{Payment: second}); err != nil || repeat {
		t.Errorf("named: repeat %t, %v", repeat, err)
	}
	var input *orders.InputError
	if _, _, err := s.refundOf(o.ID, orders.RefundWish{Payment: s.order().Session}); !errors.As(err, &input) || input.Field != "payment" {
		t.Errorf("a payment of another order: %v", err)
	}
}

// No wish is taken for another one: not a key for an amount, and not what was wanted only as
// surplus for what is wanted whatever it is.
func TestRefund_EveryWishHasItsOwnKey(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	o := s.order()
	s.apply(paid(s.secondCheckout(o), 1999)) // the shop's second checkout is the younger one
	s.apply(paid(o.Session, 1999))
	surplus := s.view(o.ID).Surplus()[0]
	for _, w := range []orders.RefundWish{
		{AmountMinor: 500}, {AmountMinor: 400, Key: "500"}, {AmountMinor: 300, Key: "all"}, {AmountMinor: 300, Key: "amount:500"}, {Surplus: true}, {},
	} {
		if !w.Surplus {
			w.Payment = surplus.ID.String()
		}
		s.wantRefund(o.ID, w, surplus.ID, false)
		s.wantRefund(o.ID, w, surplus.ID, true)
	}
	_, _, err := s.refundOf(o.ID, orders.RefundWish{Payment: surplus.ID.String(), AmountMinor: 401, Key: "500"})
	if !errors.Is(err, orders.ErrKeyOfAnother) {
		t.Errorf("a key for another amount: %v", err)
	}
}

// Yen that went back are not added to dollars.
func TestView_RefundedInItsOwnCurrency(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	o := s.order()
	other := s.secondCheckout(o)
	s.apply(paid(o.Session, 1999))
	s.sentBack(o.Session, 1999, 500, 1)
	yen := read(other, 3000, 1)
	yen.ReceivedCurrency, yen.Returns = "jpy", &orders.Returns{RefundedMinor: 3000, ChargedCurrency: "jpy"}
	s.apply(yen)
	if v := s.view(o.ID); v.ReceivedMinor() != 1999 || v.RefundedMinor() != 500 {
		t.Errorf("received %d, refunded %d; want 1999 and 500", v.ReceivedMinor(), v.RefundedMinor())
	}
}

// An older read that is stored after a newer one changes nothing of what went back.
func TestApply_AnOlderReadTakesNothingBack(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	o := s.order()
	s.apply(paid(o.Session, 1999))
	s.sentBack(o.Session, 1999, 1999, 2)
	s.sentBack(o.Session, 1999, 0, 1)
	if v := s.view(o.ID); v.RefundedMinor() != 1999 || v.Order.State != orders.Refunded {
		t.Errorf("%d refunded, order %s; want what was read last", v.RefundedMinor(), v.Order.State)
	}
}

// Wrong money beside an agreed payment that went back is in no review, since the order is
// refunded: so it is surplus, or nobody would ever see it (I9).
func TestSurplus_OfAnOrderWhoseOwnMoneyWentBack(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	o := s.order()
	wrong := s.secondCheckout(o)
	s.apply(paid(wrong, 700))
	if got := s.view(o.ID).Surplus(); len(got) != 0 {
		t.Errorf("in review for it, and surplus too: %+v", got)
	}
	s.apply(paid(o.Session, 1999))
	s.sentBack(o.Session, 1999, 1999, 1)
	v := s.view(o.ID)
	if got := v.Surplus(); v.Order.State != orders.Refunded || len(got) != 1 || *got[0].ResourceID != wrong {
		t.Errorf("%s, surplus %+v; want the wrong money", v.Order.State, got)
	}
	if got, _, err := s.refundOf(o.ID, orders.RefundWish{Surplus: true}); err != nil || len(got) != 1 {
		t.Errorf("refund of it: %v, %v", got, err)
	}
}
