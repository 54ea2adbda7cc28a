package orders_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"gorm.io/gorm"

	"paidonce/internal/provider"
	"paidonce/orders"
)

// refund is one of a read's.
func refund(id string, minor int64, status string) orders.PaymentRefund {
	return orders.PaymentRefund{RefundID: id, AmountMinor: minor, Currency: "usd", Status: status, CreatedAt: openedAt().Add(time.Hour)}
}

// dispute is one of a read's, about 19.99.
func dispute(id, status string) orders.PaymentDispute {
	return orders.PaymentDispute{
		DisputeID: id, AmountMinor: 1999, Currency: "usd", Status: status, Reason: "fraudulent", CreatedAt: openedAt().Add(time.Hour),
	}
}

// back is what a read says went back.
func back(all ...any) (r orders.Returns) {
	r.ChargedCurrency = "usd"
	for _, v := range all {
		switch v := v.(type) {
		case orders.PaymentRefund:
			r.Refunds = append(r.Refunds, v)
			if provider.RefundCounts(v.Status) {
				r.RefundedMinor += v.AmountMinor
			}
		case orders.PaymentDispute:
			r.Disputes = append(r.Disputes, v)
		}
	}
	return r
}

// reads is a read of a success in answer to the n-th wish, with what went back. Ids are the
// session's own.
func reads(session string, minor, n int64, r orders.Returns) orders.Fact {
	r.Refunds, r.Disputes = slices.Clone(r.Refunds), slices.Clone(r.Disputes)
	for i := range r.Refunds {
		r.Refunds[i].RefundID += "_of_" + session
	}
	for i := range r.Disputes {
		r.Disputes[i].DisputeID += "_of_" + session
	}
	f := read(session, minor, n)
	f.Returns = &r
	return f
}

// fulfill issues the order's licenses, as far as this package knows of it.
func (s shop) fulfill(o sale) {
	s.t.Helper()
	must(s.t, s.tx(func(tx *gorm.DB) error {
		order, _, err := s.LockPaid(s.t.Context(), tx, o.ID)
		if err != nil || order == nil {
			return fmt.Errorf("order %v is not paid: %w", o.ID, err)
		}
		return s.MarkFulfilled(s.t.Context(), tx, order, orders.Cause{Provider: "job", EventID: "fulfill_order"})
	}))
}

// fulfilled is an order that was paid and fulfilled.
func (s shop) fulfilled() sale {
	s.t.Helper()
	o := s.order()
	s.apply(paid(o.Session, 1999))
	s.fulfill(o)
	s.edges.forget()
	return o
}

// told is news in words.
func told(news []orders.ReturnNews) (words []string) {
	for _, n := range news {
		id, _, _ := strings.Cut(n.SubjectID, "_of_")
		words = append(words, fmt.Sprintf("%s %s %s", n.Event, id, n.Amount))
	}
	return words
}

// chapter is a read and what it does to an order.
type chapter struct {
	returns orders.Returns
	want    orders.State
	news    []string
}

// tell applies each chapter twice: the second read tells nothing new, and changes nothing.
func (s shop) tell(name string, o sale, minor int64, story []chapter) {
	s.t.Helper()
	for i, c := range story {
		f := reads(o.Session, minor, int64(i+1), c.returns)
		got := s.apply(f)
		if got.To != c.want {
			s.t.Errorf("%s, chapter %d: order is %s, want %s", name, i+1, got.To, c.want)
		}
		if diff := cmp.Diff(c.news, told(got.News)); diff != "" {
			s.t.Errorf("%s, chapter %d: news (-want +got):\n%s", name, i+1, diff)
		}
		if follower := told(s.edges.news); !slices.Equal(follower, c.news) {
			s.t.Errorf("%s, chapter %d: the follower is told %v, want %v", name, i+1, follower, c.news)
		}
		s.edges.forget()
		before := s.dump()
		if again := s.apply(f); again.Outcome != orders.Already || len(again.News)+len(s.edges.news)+len(s.edges.moves) != 0 {
			s.t.Errorf("%s, chapter %d: read again: %+v, moves %v", name, i+1, again, s.edges.moves)
		}
		if diff := cmp.Diff(before, s.dump()); diff != "" {
			s.t.Errorf("%s, chapter %d: read again (-before +after):\n%s", name, i+1, diff)
		}
	}
}

// TestApply_MoneyGoesBack: what refunds and disputes do to a fulfilled order of 19.99, and
// what is told of them, once.
func TestApply_MoneyGoesBack(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	for name, story := range map[string][]chapter{
		"a part, then the rest": {
			{back(refund("re_1", 500, "succeeded")), orders.Fulfilled, []string{"refund_succeeded re_1 5.00 USD"}},
			{back(refund("re_1", 500, "succeeded"), refund("re_2", 1499, "succeeded")), orders.Refunded, []string{"refund_succeeded re_2 14.99 USD"}},
		},
		"all, and it fails": { // B55
			{back(refund("re_1", 1999, "succeeded")), orders.Refunded, []string{"refund_succeeded re_1 19.99 USD"}},
			{back(refund("re_1", 1999, "failed")), orders.Fulfilled, []string{"refund_failed re_1 19.99 USD"}},
			{back(refund("re_1", 1999, "failed"), refund("re_2", 1999, "succeeded")), orders.Refunded, []string{"refund_succeeded re_2 19.99 USD"}},
		},
		"pending counts at once": {
			{back(refund("re_1", 1999, "pending")), orders.Refunded, nil},
			{back(refund("re_1", 1999, "succeeded")), orders.Refunded, []string{"refund_succeeded re_1 19.99 USD"}},
		},
		"pending, then canceled": {
			{back(refund("re_1", 1999, "requires_action")), orders.Refunded, nil},
			{back(refund("re_1", 1999, "canceled")), orders.Fulfilled, []string{"refund_failed re_1 19.99 USD"}},
		},
		"failed at once": {{back(refund("re_1", 1999, "failed")), orders.Fulfilled, nil}},
		"disputed and won": { // B47
			{back(dispute("dp_1", "needs_response")), orders.Disputed, []string{"dispute_opened dp_1 19.99 USD"}},
			{back(dispute("dp_1", "under_review")), orders.Disputed, nil},
			{back(dispute("dp_1", "won")), orders.Fulfilled, []string{"dispute_won dp_1 19.99 USD"}},
		},
		"disputed, lost, then won": { // B47
			{back(dispute("dp_1", "needs_response")), orders.Disputed, []string{"dispute_opened dp_1 19.99 USD"}},
			{back(dispute("dp_1", "lost")), orders.ChargedBack, []string{"dispute_lost dp_1 19.99 USD"}},
			{back(dispute("dp_1", "won")), orders.Fulfilled, []string{"dispute_won dp_1 19.99 USD"}},
		},
		"lost before we heard of it": {{back(dispute("dp_1", "lost")), orders.ChargedBack, []string{"dispute_lost dp_1 19.99 USD"}}},
		"won before we heard of it":  {{back(dispute("dp_1", "won")), orders.Fulfilled, nil}},
		"an inquiry": {
			{back(dispute("dp_1", "warning_needs_response")), orders.Fulfilled, nil},
			{back(dispute("dp_1", "warning_under_review")), orders.Fulfilled, nil},
			{back(dispute("dp_1", "warning_closed")), orders.Fulfilled, nil},
		},
		"an inquiry that becomes a dispute": {
			{back(dispute("dp_1", "warning_needs_response")), orders.Fulfilled, nil},
			{back(dispute("dp_1", "needs_response")), orders.Disputed, []string{"dispute_opened dp_1 19.99 USD"}},
		},
		"two on one charge": {
			{back(dispute("dp_1", "needs_response")), orders.Disputed, []string{"dispute_opened dp_1 19.99 USD"}},
			{back(dispute("dp_1", "won"), dispute("dp_2", "needs_response")), orders.Disputed, []string{"dispute_won dp_1 19.99 USD", "dispute_opened dp_2 19.99 USD"}},
			{back(dispute("dp_1", "won"), dispute("dp_2", "lost")), orders.ChargedBack, []string{"dispute_lost dp_2 19.99 USD"}},
			{back(dispute("dp_1", "won"), dispute("dp_2", "won")), orders.Fulfilled, []string{"dispute_won dp_2 19.99 USD"}},
		},
		"two, the first is lost": {
			{back(dispute("dp_1", "lost"), dispute("dp_2", "needs_response")), orders.ChargedBack, []string{"dispute_lost dp_1 19.99 USD", "dispute_opened dp_2 19.99 USD"}},
			{back(dispute("dp_1", "lost"), dispute("dp_2", "won")), orders.ChargedBack, []string{"dispute_won dp_2 19.99 USD"}},
		},
		"refunded while it is disputed": {
			{back(dispute("dp_1", "needs_response")), orders.Disputed, []string{"dispute_opened dp_1 19.99 USD"}},
			{
				back(refund("re_1", 1999, "succeeded"), dispute("dp_1", "needs_response")), orders.Refunded,
				[]string{"refund_succeeded re_1 19.99 USD"},
			},
			{back(refund("re_1", 1999, "succeeded"), dispute("dp_1", "won")), orders.Refunded, []string{"dispute_won dp_1 19.99 USD"}},
		},
		"a part is refunded while it is disputed": {
			{
				back(refund("re_1", 500, "succeeded"), dispute("dp_1", "needs_response")), orders.Disputed,
				[]string{"refund_succeeded re_1 5.00 USD", "dispute_opened dp_1 19.99 USD"},
			},
			{back(refund("re_1", 500, "succeeded"), dispute("dp_1", "won")), orders.Fulfilled, []string{"dispute_won dp_1 19.99 USD"}},
		},
	} {
		o := s.fulfilled()
		s.tell(name, o, 1999, story)
		v, last := s.view(o.ID), story[len(story)-1].returns
		if v.RefundedMinor() != last.RefundedMinor || len(v.Refunds) != len(last.Refunds) || len(v.Disputes) != len(last.Disputes) {
			t.Errorf("%s: %d refunded by %d refunds, %d disputes; want what was read last", name, v.RefundedMinor(), len(v.Refunds), len(v.Disputes))
		}
		for i, r := range v.Refunds {
			if want := last.Refunds[i]; r.Status != want.Status || r.AmountMinor != want.AmountMinor || !r.CreatedAt.Equal(want.CreatedAt) || r.PaymentID != o.PaymentID {
				t.Errorf("%s: kept %+v, want %+v", name, r, want)
			}
		}
		for i, d := range v.Disputes {
			if want := last.Disputes[i]; d.Status != want.Status || d.Reason != want.Reason || d.PaymentID != o.PaymentID {
				t.Errorf("%s: kept %+v, want %+v", name, d, want)
			}
		}
		if n := s.count(`SELECT count(*) FROM order_transitions WHERE order_id = ? AND event = 'pay'`, o.ID); n != 1 {
			t.Errorf("%s: paid %d times", name, n)
		}
	}
}

// Money that goes back of an order whose licenses were never issued.
func TestApply_MoneyGoesBackEarly(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	all, lost := refund("re_1", 1999, "succeeded"), dispute("dp_1", "lost")
	for name, test := range map[string]struct {
		before  func(o sale)
		minor   int64
		story   []chapter
		history []string
	}{
		"a refund is known before the payment": {
			func(sale) {}, 1999,
			[]chapter{{back(all), orders.Refunded, []string{"refund_succeeded re_1 19.99 USD"}}},
			[]string{"pending pay paid", "paid refund refunded"},
		},
		"a dispute is": {
			func(sale) {}, 1999,
			[]chapter{{back(dispute("dp_1", "needs_response")), orders.Disputed, []string{"dispute_opened dp_1 19.99 USD"}}},
			[]string{"pending pay paid", "paid dispute disputed"},
		},
		"a lost one is": {
			func(sale) {}, 1999,
			[]chapter{{back(lost), orders.ChargedBack, []string{"dispute_lost dp_1 19.99 USD"}}},
			[]string{"pending pay paid", "paid lose charged_back"},
		},
		"after its expiry": {
			func(o sale) { s.apply(says(o.Session, orders.StatusExpired)) }, 1999,
			[]chapter{{back(all), orders.Refunded, []string{"refund_succeeded re_1 19.99 USD"}}},
			[]string{"pending expire expired", "expired pay paid", "paid refund refunded"},
		},
		"between paid and fulfilled, and it fails": {
			func(o sale) { s.apply(paid(o.Session, 1999)) }, 1999,
			[]chapter{
				{back(all), orders.Refunded, []string{"refund_succeeded re_1 19.99 USD"}},
				{back(refund("re_1", 1999, "failed")), orders.Paid, []string{"refund_failed re_1 19.99 USD"}},
			},
			[]string{"pending pay paid", "paid refund refunded", "refunded restore paid"},
		},
		"in review": {
			func(o sale) { s.apply(paid(o.Session, 1000)) }, 1000,
			[]chapter{
				{back(refund("re_1", 500, "succeeded")), orders.Review, []string{"refund_succeeded re_1 5.00 USD"}},
				{back(refund("re_1", 500, "succeeded"), refund("re_2", 500, "succeeded")), orders.Refunded, []string{"refund_succeeded re_2 5.00 USD"}},
				{back(refund("re_1", 500, "succeeded"), refund("re_2", 500, "failed")), orders.Review, []string{"refund_failed re_2 5.00 USD"}},
			},
			[]string{"pending hold review", "review refund refunded", "refunded hold review"},
		},
		"in review, to the bank": {
			func(o sale) { s.apply(paid(o.Session, 1000)) }, 1000,
			[]chapter{
				{back(dispute("dp_1", "needs_response")), orders.Review, []string{"dispute_opened dp_1 19.99 USD"}},
				{back(lost), orders.ChargedBack, []string{"dispute_lost dp_1 19.99 USD"}},
				{back(dispute("dp_1", "won")), orders.Review, []string{"dispute_won dp_1 19.99 USD"}},
			},
			[]string{"pending hold review", "review lose charged_back", "charged_back hold review"},
		},
	} {
		o := s.order()
		test.before(o)
		s.edges.forget()
		s.tell(name, o, test.minor, test.story)
		if diff := cmp.Diff(test.history, s.history(o.ID)); diff != "" {
			t.Errorf("%s: history (-want +got):\n%s", name, diff)
		}
		// The event of the payment itself comes last, and changes nothing.
		state := s.view(o.ID).Order.State
		if got := s.apply(paid(o.Session, test.minor)); got.Outcome != orders.Already || got.To != state {
			t.Errorf("%s: the payment's own event: %+v, want already and %s", name, got, state)
		}
	}
}

// However many steps one read causes, what follows is asked for once, for the last of them.
func TestApply_MoneyGoesBackInOneMove(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	o := s.order()
	s.edges.forget()
	s.apply(reads(o.Session, 1999, 1, back(refund("re_1", 1999, "succeeded"))))
	want := []orders.Move{{OrderID: o.ID, From: orders.Pending, To: orders.Refunded, At: openedAt()}}
	if diff := cmp.Diff(want, s.edges.moves); diff != "" {
		t.Errorf("moves (-want +got):\n%s", diff)
	}
}

// TestB14_AStaleReadChangesNothing: of two reads the one that answers the newer wish stands,
// whichever is stored last. It is not the time of storing that decides.
func TestB14_AStaleReadChangesNothing(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	o := s.fulfilled()
	s.apply(reads(o.Session, 1999, 2, back(refund("re_1", 1999, "failed"), dispute("dp_1", "lost"))))
	s.edges.forget()
	before := s.dump()
	for _, stale := range []orders.Returns{
		back(), back(refund("re_1", 1999, "succeeded")), back(refund("re_1", 1999, "pending"), dispute("dp_1", "needs_response")), back(refund("re_2", 1, "succeeded")),
	} {
		got := s.apply(reads(o.Session, 1999, 1, stale))
		if got.To != orders.ChargedBack || len(got.News)+len(s.edges.news)+len(s.edges.moves) != 0 {
			t.Errorf("%+v: got %+v", stale, got)
		}
	}
	if diff := cmp.Diff(before, s.dump()); diff != "" {
		t.Errorf("(-before +after)\n%s", diff)
	}
	// One that answers the same wish was asked later, and stands.
	if got := s.apply(reads(o.Session, 1999, 2, back(refund("re_1", 1999, "failed"), dispute("dp_1", "won")))); got.To != orders.Fulfilled {
		t.Errorf("the same wish: got %+v, want fulfilled", got)
	}
}

// What an event says of returns is not believed: it only asks for a read.
func TestApply_OnlyAReadSaysWhatWentBack(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	o := s.fulfilled()
	f := reads(o.Session, 1999, 7, back(refund("re_1", 1999, "succeeded")))
	f.Read, f.Hint = false, true
	got := s.apply(f)
	v := s.view(o.ID)
	if got.Outcome != orders.Wanted || got.To != orders.Fulfilled || len(got.News)+len(v.Refunds) != 0 || v.RefundedMinor() != 0 {
		t.Errorf("got %+v with %d refunds, want only a read to be wanted", got, len(v.Refunds))
	}
	if !slices.Equal(s.edges.reads, []uuid.UUID{o.PaymentID}) {
		t.Errorf("reads %v, want one of %s", s.edges.reads, o.PaymentID)
	}
}

// TestB48_FailuresAndTheSuccessOfOneIntent: a declined card leaves the checkout open, a late
// failure of an earlier attempt reopens nothing, and the money counts once.
func TestB48_FailuresAndTheSuccessOfOneIntent(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	declined := func(o sale) orders.Fact {
		f := says(o.Session, "")
		f.Resources = []string{"pi_of_" + o.Session}
		return f
	}
	failed := func(o sale) orders.Fact { return says(o.Session, orders.StatusFailed) }
	success := func(o sale) orders.Fact { return intentPaid(o.Session, 1999, 1999) }
	for name, facts := range map[string][]func(sale) orders.Fact{
		"declined, then paid":       {declined, success},
		"failed, then paid":         {failed, success},
		"paid, then a late failure": {success, failed, declined},
		"all of it twice":           {declined, failed, success, declined, failed, success},
	} {
		o := s.order()
		s.teach(o)
		for _, fact := range facts {
			s.apply(fact(o))
		}
		v := s.view(o.ID)
		if v.Order.State != orders.Paid || s.count(`SELECT count(*) FROM order_transitions WHERE order_id = ? AND event = 'pay'`, o.ID) != 1 {
			t.Errorf("%s: order is %s by %v, want it paid once", name, v.Order.State, s.history(o.ID))
		}
	}
}

// The date by which evidence is wanted is kept, also when it is all that changes.
func TestApply_ADisputesDateIsKept(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	o := s.order()
	s.apply(paid(o.Session, 1999))
	for n, due := range []time.Time{openedAt().Add(24 * time.Hour), openedAt().Add(48 * time.Hour)} {
		f := read(o.Session, 1999, int64(n+1))
		f.Returns = &orders.Returns{ChargedCurrency: "usd", Disputes: []orders.PaymentDispute{{
			DisputeID: "dp_1", AmountMinor: 1999, Currency: "usd", Status: "needs_response", Reason: "general", DueAt: &due, CreatedAt: openedAt(),
		}}}
		s.apply(f)
		if got := s.view(o.ID).Disputes; len(got) != 1 || got[0].DueAt == nil || !got[0].DueAt.Equal(due) || !got[0].WaitsForUs() {
			t.Errorf("read %d: %+v, want it due %s", n, got, due)
		}
	}
}
