package orders_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"paidonce/orders"
)

// intentPaid is what payment_intent.succeeded says; it does not name the session.
func intentPaid(session string, received, intended int64) orders.Fact {
	return orders.Fact{
		Provider: "stripe", Resources: []string{"pi_of_" + session, "ch_of_" + session}, Status: orders.StatusSucceeded,
		ReceivedMinor: received, IntendedMinor: intended, ReceivedCurrency: "usd",
		Cause: orders.Cause{Provider: "stripe", EventID: "evt_intent_" + session},
	}
}

// chargePaid is what charge.succeeded says; it names its intent second.
func chargePaid(session string, minor int64) orders.Fact {
	return orders.Fact{
		Provider: "stripe", Resources: []string{"ch_of_" + session, "pi_of_" + session}, Status: orders.StatusSucceeded,
		ReceivedMinor: minor, IntendedMinor: minor, ReceivedCurrency: "usd",
		Cause: orders.Cause{Provider: "stripe", EventID: "evt_charge_" + session},
	}
}

// read is a read of the payment, in answer to the n-th wish.
func read(session string, minor, n int64) orders.Fact {
	f := paid(session, minor)
	f.Read, f.ReadSeq, f.Cause = true, n, orders.Cause{Provider: "job", EventID: "read_payment"}
	return f
}

// teach lets the shop learn the intent's and the charge's id, without any money.
func (s shop) teach(o sale) {
	s.t.Helper()
	s.apply(orders.Fact{Provider: "stripe", Resources: []string{o.Session, "pi_of_" + o.Session, "ch_of_" + o.Session}})
	s.edges.forget()
}

// Any of the three events of one payment pays, whichever is first; the others change nothing.
func TestApply_ThreeEventsOfOnePaymentPayOnce(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	events := []func(session string) orders.Fact{
		func(cs string) orders.Fact { return paid(cs, 1999) },
		func(cs string) orders.Fact { return intentPaid(cs, 1999, 1999) },
		func(cs string) orders.Fact { return chargePaid(cs, 1999) },
	}
	for first := range events {
		o := s.order()
		s.teach(o)
		got := s.apply(events[first](o.Session))
		want := orders.Result{Outcome: orders.Applied, OrderID: o.ID, PaymentID: o.PaymentID, From: orders.Pending, To: orders.Paid}
		if !cmp.Equal(got, want) {
			t.Errorf("event %d first: got %+v, want %+v", first, got, want)
		}
		for range 2 {
			for i := range events {
				got := s.apply(events[i](o.Session))
				// The session's event tells when it was created; that was known from our own call.
				if got.Outcome != orders.Already || got.From != orders.Paid || got.To != orders.Paid {
					t.Errorf("event %d after event %d: got %+v, want already", i, first, got)
				}
			}
		}
		if got := s.history(o.ID); !slices.Equal(got, []string{"pending pay paid"}) {
			t.Errorf("event %d first: history %v", first, got)
		}
	}
	if len(s.edges.moves) != 1 { // of the last order; teach forgets the ones before
		t.Errorf("the follower was told %v", s.edges.moves)
	}
}

func TestApply_ARepeatIsAResult(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	o := s.order()
	for _, test := range []struct {
		fact orders.Fact
		want orders.Outcome
		to   orders.State
	}{
		// Up, and never down.
		{says(o.Session, orders.StatusProcessing), orders.Applied, orders.Confirming},
		{says(o.Session, orders.StatusProcessing), orders.Already, orders.Confirming},
		{says(o.Session, orders.StatusFailed), orders.Applied, orders.Failed},
		{says(o.Session, orders.StatusProcessing), orders.Stale, orders.Failed},
		{says(o.Session, orders.StatusExpired), orders.Applied, orders.Expired},
		{paid(o.Session, 1999), orders.Applied, orders.Paid},
		{paid(o.Session, 1999), orders.Already, orders.Paid},
		{says(o.Session, orders.StatusExpired), orders.Stale, orders.Paid},
		{says(o.Session, orders.StatusCanceled), orders.Stale, orders.Paid},
		{says(o.Session, ""), orders.Already, orders.Paid},
	} {
		if got := s.apply(test.fact); got.Outcome != test.want || got.To != test.to {
			t.Errorf("%q: got %s in %s, want %s in %s", test.fact.Status, got.Outcome, got.To, test.want, test.to)
		}
	}
	want := []string{"pending confirm confirming", "confirming fail failed", "failed expire expired", "expired pay paid"}
	if diff := cmp.Diff(want, s.history(o.ID)); diff != "" {
		t.Errorf("history (-want +got):\n%s", diff)
	}
}

// A checkout that ends never moves an order that another one pays (B15 at this level).
func TestApply_AnEndedCheckoutLeavesAPaidOrderAlone(t *testing.T) {
	t.Parallel()
	for _, status := range []orders.Status{orders.StatusExpired, orders.StatusFailed, orders.StatusCanceled} {
		s := openShop(t)
		o := s.order()
		second := s.secondCheckout(o)
		s.apply(paid(second, 1999))
		s.edges.forget()
		if got := s.apply(says(o.Session, status)); got.Outcome != orders.Applied || got.To != orders.Paid {
			t.Errorf("%s: got %+v, want it applied and the order paid", status, got)
		}
		if len(s.edges.moves) != 0 || len(s.history(o.ID)) != 1 {
			t.Errorf("%s: moves %v, history %v", status, s.edges.moves, s.history(o.ID))
		}
	}
}

// TestApply_WrongMoneyIsHeld (I4): nothing is paid, and the reason is named.
func TestApply_WrongMoneyIsHeld(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	inEuro := func(cs string) orders.Fact { f := paid(cs, 1999); f.ReceivedCurrency = "eur"; return f }
	for name, test := range map[string]struct {
		fact func(session string) orders.Fact
		want orders.Reason
	}{
		"less":     {func(cs string) orders.Fact { return paid(cs, 1998) }, orders.ReasonAmount},
		"more":     {func(cs string) orders.Fact { return paid(cs, 199900) }, orders.ReasonAmount},
		"nothing":  {func(cs string) orders.Fact { return paid(cs, 0) }, orders.ReasonAmount},
		"currency": {inEuro, orders.ReasonCurrency},
		"captured": {func(cs string) orders.Fact { return intentPaid(cs, 500, 1999) }, orders.ReasonCapture},
	} {
		o := s.order()
		s.teach(o)
		for i, want := range []orders.Outcome{orders.Held, orders.Already} {
			got := s.apply(test.fact(o.Session))
			if got.Outcome != want || got.To != orders.Review || got.Reason != test.want {
				t.Errorf("%s, time %d: got %+v, want %s for %s", name, i+1, got, want, test.want)
			}
		}
		v := s.view(o.ID)
		if v.Order.PaidAt != nil || *v.Order.ReviewReason != test.want || v.Transitions[0].Event != orders.Hold || len(v.Transitions) != 1 {
			t.Errorf("%s: order %+v after %v", name, v.Order, s.history(o.ID))
		}
	}
}

// Two events of one success that state two amounts: neither is believed over the other for
// having come first. A read is asked for, and the read decides.
func TestApply_AContradictionIsRead(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		first, second int64
		read          int64
		to            orders.State
		history       []string
	}{
		"the first was right":  {1999, 500, 1999, orders.Paid, []string{"pending pay paid"}},
		"the second was right": {500, 1999, 1999, orders.Paid, []string{"pending hold review", "review pay paid"}},
		"paid was wrong":       {1999, 500, 500, orders.Review, []string{"pending pay paid", "paid hold review"}},
		"both were wrong":      {500, 600, 700, orders.Review, []string{"pending hold review"}},
	} {
		s := openShop(t)
		o := s.order()
		s.apply(paid(o.Session, test.first))
		before := s.view(o.ID)

		for n := 1; n <= 2; n++ {
			if got := s.apply(intentPaid(o.Session, test.second, test.second)); got.Outcome != orders.Wanted {
				t.Errorf("%s: got %+v, want a read wanted", name, got)
			}
			p := s.view(o.ID).Payments[0]
			if p.ReadWanted != int64(n) || *p.ReceivedMinor != test.first || len(s.edges.reads) != n || s.edges.reads[0] != o.PaymentID {
				t.Errorf("%s: %d wishes, received %d, reader told %v", name, p.ReadWanted, *p.ReceivedMinor, s.edges.reads)
			}
		}
		if after := s.view(o.ID); after.Order.State != before.Order.State {
			t.Errorf("%s: a contradiction moved the order to %s", name, after.Order.State)
		}

		got := s.apply(read(o.Session, test.read, 2))
		p := s.view(o.ID).Payments[0]
		if got.To != test.to || *p.ReceivedMinor != test.read || p.ReadSeq != 2 || p.ReadWanted != 2 {
			t.Errorf("%s: got %+v, payment %+v", name, got, p)
		}
		// A read that noted an older wish comes late, and has nothing to say.
		if late := s.apply(read(o.Session, 1, 1)); late.Outcome != orders.Stale || late.To != test.to {
			t.Errorf("%s: the late read: got %+v", name, late)
		}
		if diff := cmp.Diff(test.history, s.history(o.ID)); diff != "" {
			t.Errorf("%s: history (-want +got):\n%s", name, diff)
		}
	}
}

func TestApply_AHintOnlyAsks(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	o := s.order()
	hint := says(o.Session, "")
	hint.Hint = true
	if got := s.apply(hint); got.Outcome != orders.Wanted || got.To != orders.Pending {
		t.Errorf("got %+v, want a read wanted", got)
	}
	if p := s.view(o.ID).Payments[0]; p.ReadWanted != 1 || p.ReadSeq != 0 || !slices.Equal(s.edges.reads, []uuid.UUID{o.PaymentID}) {
		t.Errorf("payment %+v, reader told %v", p, s.edges.reads)
	}
}

// The reason of an order that stays in review follows its facts.
func TestApply_TheReasonStaysTrue(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	o := s.order()
	s.apply(paid(o.Session, 500))
	in := read(o.Session, 1999, 0)
	in.ReceivedCurrency = "eur"
	if got := s.apply(in); got.Outcome != orders.Held || got.Reason != orders.ReasonCurrency {
		t.Errorf("got %+v, want held for its currency", got)
	}
	if v := s.view(o.ID); *v.Order.ReviewReason != orders.ReasonCurrency || len(v.Transitions) != 1 {
		t.Errorf("reason %s after %v", *v.Order.ReviewReason, s.history(o.ID))
	}
}

// Money for an order that was called off is held, and its history says so.
func TestApply_PaidAfterCancel(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	o := s.order()
	must(t, s.DB.Exec(`UPDATE orders SET decision = 'canceled', state = 'canceled' WHERE id = ?`, o.ID).Error)
	if got := s.apply(paid(o.Session, 1999)); got.Outcome != orders.Held || got.Reason != orders.ReasonPaidAfterCancel {
		t.Errorf("got %+v, want held", got)
	}
	if got := s.history(o.ID); !slices.Equal(got, []string{"canceled hold review"}) {
		t.Errorf("history %v", got)
	}
}
