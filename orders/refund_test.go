package orders_test

import (
	"errors"
	"fmt"
	"net/url"
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

// refund asks for one, which has to be granted.
func (s shop) refund(o sale, wish orders.RefundWish) []orders.Decided {
	s.t.Helper()
	all, err := s.Refund(s.t.Context(), o.ID, wish, clerk())
	must(s.t, err)
	return all
}

// refundCalls are the calls that send money of an order back, each with its job: "intent
// amount", and no amount for all that is left.
func (s shop) refundCalls(o sale) (calls []string) {
	s.t.Helper()
	var params [][]byte
	const find = `
SELECT params FROM provider_calls c JOIN enqueued e USING (idempotency_key) JOIN order_decisions d ON d.id = c.subject_id
WHERE operation = 'refund' AND c.idempotency_key = 'refund:' || d.id AND d.order_id = ? ORDER BY c.created_at, d.payment_id`
	must(s.t, s.DB.Raw(find, o.ID).Scan(&params).Error)
	for _, p := range params {
		form, err := url.ParseQuery(string(p))
		must(s.t, err)
		calls = append(calls, strings.TrimSpace(form.Get("payment_intent")+" "+form.Get("amount")))
	}
	return calls
}

// inOrder sorts what has no order of its own.
func inOrder(calls []string) []string { return slices.Sorted(slices.Values(calls)) }

// twice is an order that is paid by two checkouts. The first counts, the second is surplus.
func (s shop) twice() (o sale, second string) {
	s.t.Helper()
	o = s.order()
	second = s.secondCheckout(o)
	must(s.t, s.DB.Exec(`UPDATE payments SET object_created_at = object_created_at + interval '1 h' WHERE resource_id = ?`, second).Error)
	s.apply(paid(second, 1999))
	s.apply(paid(o.Session, 1999))
	s.fulfill(o)
	s.edges.forget()
	return o, second
}

// gone lets a read find out that all money of a payment is back.
func (s shop) gone(session string) orders.Result {
	s.t.Helper()
	return s.apply(reads(session, 1999, 1, back(refund("re_1", 1999, "succeeded"))))
}

// A refund is a decision, a call and its job, and until the provider says so nothing else:
// neither state nor total moves.
func TestRefund(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	for name, test := range map[string]struct {
		wish   orders.RefundWish
		amount int64
		call   string // after the intent
	}{
		"all":          {orders.RefundWish{}, 1999, ""},
		"a part":       {orders.RefundWish{AmountMinor: 500}, 500, " 500"},
		"all, by name": {orders.RefundWish{AmountMinor: 1999}, 1999, " 1999"},
		"under a key":  {orders.RefundWish{AmountMinor: 500, Key: "ticket 7"}, 500, " 500"},
	} {
		o := s.fulfilled()
		history := s.history(o.ID)
		all := s.refund(o, test.wish)
		v := s.view(o.ID)
		if len(all) != 1 || all[0].Repeat || all[0].Order.State != orders.Fulfilled || len(v.Rulings) != 1 {
			t.Fatalf("%s: %+v, and %d decisions are kept", name, all, len(v.Rulings))
		}
		r := v.Rulings[0]
		if r.ID != all[0].Ruling.ID || r.Action != orders.ActionRefund || *r.PaymentID != o.PaymentID || *r.AmountMinor != test.amount || *r.Currency != "usd" ||
			r.DecidedBy != clerk().Name || r.Reason != clerk().Why || r.Surplus {
			t.Errorf("%s: kept %+v", name, r)
		}
		if diff := cmp.Diff([]string{"pi_of_" + o.Session + test.call}, s.refundCalls(o)); diff != "" {
			t.Errorf("%s: calls (-want +got):\n%s", name, diff)
		}
		if v.Order.Decision != orders.NoDecision || v.RefundedMinor() != 0 || !cmp.Equal(history, s.history(o.ID)) || len(s.edges.moves) != 0 {
			t.Errorf("%s: decision %s, %d refunded, history %v: it is not known yet", name, v.Order.Decision, v.RefundedMinor(), s.history(o.ID))
		}
	}
}

// A refund keeps what was decided about the order before.
func TestRefund_KeepsTheDecision(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	o := s.held()[orders.ReasonPaidAfterCancel]
	s.refund(o, orders.RefundWish{})
	if v := s.view(o.ID); v.Order.Decision != orders.DecisionCanceled || v.Order.State != orders.Review {
		t.Errorf("decision %s in %s, want it canceled and in review", v.Order.Decision, v.Order.State)
	}
}

// The payment may be named by any id that is known for it.
func TestRefund_NamesItsPayment(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	for _, name := range []func(o sale) string{
		func(o sale) string { return o.Session },
		func(o sale) string { return "pi_of_" + o.Session },
		func(o sale) string { return o.PaymentID.String() },
		func(o sale) string { return strings.ToUpper(o.PaymentID.String()) },
	} {
		o, _ := s.twice()
		all := s.refund(o, orders.RefundWish{Payment: name(o)})
		if len(all) != 1 || *all[0].Ruling.PaymentID != o.PaymentID {
			t.Errorf("%s: %+v, want payment %s", name(o), all, o.PaymentID)
		}
	}
}

// What cannot go back is refused by name, and nothing is written.
func TestRefund_Refused(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	o, other := s.fulfilled(), s.fulfilled()
	open, empty := s.order(), s.fulfilled()
	s.gone(empty.Session)
	lost := s.fulfilled()
	s.apply(reads(lost.Session, 1999, 1, back(dispute("dp_1", "lost"))))
	part := s.fulfilled()
	s.apply(reads(part.Session, 1999, 1, back(refund("re_1", 1500, "pending"))))
	two, second := s.twice()
	byMail := s.order() // a payment whose intent nobody has told us of
	f := paid(byMail.Session, 1999)
	f.Resources = f.Resources[:1]
	s.apply(f)
	before := s.dump()
	for name, test := range map[string]struct {
		order sale
		wish  orders.RefundWish
		want  string
	}{
		"less than nothing":       {o, orders.RefundWish{AmountMinor: -1}, "amount: must be positive"},
		"more than came":          {o, orders.RefundWish{AmountMinor: 2000}, "amount: 2000 is more than the 1999 that are left"},
		"more than is left":       {part, orders.RefundWish{AmountMinor: 500}, "amount: 500 is more than the 499 that are left"},
		"another order's payment": {o, orders.RefundWish{Payment: other.Session}, fmt.Sprintf("payment: the order has no payment %q", other.Session)},
		"another's, by its id":    {o, orders.RefundWish{Payment: other.PaymentID.String()}, fmt.Sprintf("payment: the order has no payment %q", other.PaymentID)},
		"nobody's":                {o, orders.RefundWish{Payment: "pi_1' OR true"}, `payment: the order has no payment "pi_1' OR true"`},
		"not paid":                {open, orders.RefundWish{}, "there is no money to refund"},
		"not paid, named":         {open, orders.RefundWish{Payment: open.Session}, "there is no money to refund"},
		"gone by another's hand":  {empty, orders.RefundWish{}, "there is no money to refund"},
		"lost to the bank":        {lost, orders.RefundWish{}, "there is no money to refund"},
		"nothing is surplus":      {o, orders.RefundWish{Surplus: true}, "there is no money to refund"},
		"no charge":               {byMail, orders.RefundWish{}, "there is no money to refund"},
		"two have money":          {two, orders.RefundWish{}, fmt.Sprintf("payment: several have money, name one: %s, %s", two.Session, second)},
		"what counts is not surplus": {
			two, orders.RefundWish{Payment: two.Session, Surplus: true}, fmt.Sprintf("payment: %q is not surplus", two.Session),
		},
	} {
		all, err := s.Refund(t.Context(), test.order.ID, test.wish, clerk())
		if err == nil || err.Error() != test.want || len(all) != 0 {
			t.Errorf("%s: got %v and %v, want %s", name, all, err, test.want)
		}
	}
	var fault *orders.InputError
	for field, p := range map[string]orders.Person{"by": {Why: "x"}, "why": {Name: "x"}} {
		if _, err := s.Refund(t.Context(), o.ID, orders.RefundWish{}, p); !errors.As(err, &fault) || fault.Field != field {
			t.Errorf("got %v, want a fault of %s", err, field)
		}
	}
	if _, err := s.Refund(t.Context(), s.NewID(), orders.RefundWish{}, clerk()); !errors.Is(err, orders.ErrNotFound) {
		t.Errorf("no order: got %v, want ErrNotFound", err)
	}
	if diff := cmp.Diff(before, s.dump()); diff != "" {
		t.Errorf("(-before +after)\n%s", diff)
	}
}

// TestRefund_TheSameIsOne (I7): the key is made of payment and wish. The same command is the
// same refund; two of one amount take two keys; and a key belongs to one amount.
func TestRefund_TheSameIsOne(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	o := s.fulfilled()
	intent := "pi_of_" + o.Session
	for _, step := range []struct {
		wish   orders.RefundWish
		repeat bool
		err    error
	}{
		{orders.RefundWish{AmountMinor: 500}, false, nil},
		{orders.RefundWish{AmountMinor: 500}, true, nil},
		{orders.RefundWish{AmountMinor: 500, Payment: o.Session}, true, nil},
		{orders.RefundWish{AmountMinor: 500, Key: "a"}, false, nil},
		{orders.RefundWish{AmountMinor: 500, Key: "a"}, true, nil},
		{orders.RefundWish{AmountMinor: 501, Key: "a"}, false, orders.ErrKeyOfAnother},
		{orders.RefundWish{AmountMinor: 499}, false, nil},
		{orders.RefundWish{}, false, nil},
		{orders.RefundWish{}, true, nil},
	} {
		all, err := s.Refund(t.Context(), o.ID, step.wish, clerk())
		if !errors.Is(err, step.err) || (err == nil && (len(all) != 1 || all[0].Repeat != step.repeat)) {
			t.Errorf("%+v: got %+v and %v, want repeat %v, %v", step.wish, all, err, step.repeat, step.err)
		}
	}
	want := []string{intent + " 500", intent + " 500", intent + " 499", intent}
	if diff := cmp.Diff(inOrder(want), inOrder(s.refundCalls(o))); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

// The command is given again when the money is gone by it already: that is a repeat too.
func TestRefund_TheSameAfterTheMoneyIsGone(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	for name, wish := range map[string]orders.RefundWish{
		"all": {}, "a part": {AmountMinor: 1999}, "under a key": {Key: "a"}, "surplus": {Surplus: true}, "surplus, under a key": {Surplus: true, Key: "a"},
		"named": {Payment: "-"}, "surplus, named": {Surplus: true, Payment: "-"},
	} {
		o, session := s.fulfilled(), ""
		if session = o.Session; wish.Surplus {
			o, session = s.twice()
		}
		if wish.Payment != "" {
			wish.Payment = session
		}
		first := s.refund(o, wish)
		s.gone(session)
		before := s.dump()
		again := s.refund(o, wish)
		if len(again) != 1 || !again[0].Repeat || again[0].Ruling.ID != first[0].Ruling.ID {
			t.Errorf("%s: %+v, want a repeat of %s", name, again, first[0].Ruling.ID)
		}
		if diff := cmp.Diff(before, s.dump()); diff != "" {
			t.Errorf("%s: (-before +after)\n%s", name, diff)
		}
	}
}

// A key is one refund, even if the buyer has paid again since: the command that is given again
// is not about that money.
func TestRefund_AKeyIsOfOnePayment(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	for name, wish := range map[string]orders.RefundWish{"all": {Key: "ticket 7"}, "a part": {Key: "ticket 7", AmountMinor: 1999}} {
		o := s.fulfilled()
		first := s.refund(o, wish)
		s.gone(o.Session)
		s.apply(paid(s.secondCheckout(o), 1999))
		again := s.refund(o, wish)
		if len(again) != 1 || !again[0].Repeat || again[0].Ruling.ID != first[0].Ruling.ID || len(s.refundCalls(o)) != 1 {
			t.Errorf("%s: %+v with calls %v, want a repeat of the first", name, again, s.refundCalls(o))
		}
	}
}

// In a currency of the buyer's own, a part is of what they were charged; all is all.
func TestRefund_Converted(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	o := s.order()
	r := back()
	r.ChargedCurrency = "eur"
	s.apply(reads(o.Session, 1999, 1, r))
	part, all := s.refund(o, orders.RefundWish{AmountMinor: 1850}), s.refund(o, orders.RefundWish{})
	if *part[0].Ruling.AmountMinor != 1850 || *part[0].Ruling.Currency != "eur" || *all[0].Ruling.AmountMinor != 1999 || *all[0].Ruling.Currency != "usd" {
		t.Errorf("%+v and %+v, want 18.50 euro, and all of 19.99 dollars", part[0].Ruling, all[0].Ruling)
	}
	intent := "pi_of_" + o.Session
	if diff := cmp.Diff([]string{intent, intent + " 1850"}, inOrder(s.refundCalls(o))); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

// Of an order that was paid twice, the surplus goes back; what counts stays.
func TestRefund_Surplus(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	o, second := s.twice()
	for i := range 2 {
		all := s.refund(o, orders.RefundWish{Surplus: true})
		if len(all) != 1 || all[0].Repeat != (i == 1) || !all[0].Ruling.Surplus || all[0].Ruling.PaymentID.String() != second[len("cs_"):] {
			t.Errorf("time %d: %+v, want %s", i+1, all, second)
		}
	}
	if diff := cmp.Diff([]string{"pi_of_" + second}, s.refundCalls(o)); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	if got := s.gone(second); got.To != orders.Fulfilled || len(s.edges.moves) != 0 {
		t.Errorf("the surplus is back: %+v, moves %v; want the order as it was", got, s.edges.moves)
	}
}

// A refund of surplus money is wanted only while it is surplus. When the payment that counted
// is gone, the other pays the order.
func TestStillWanted(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	o, second := s.twice()
	surplus := s.refund(o, orders.RefundWish{Surplus: true})[0].Ruling
	named := s.refund(o, orders.RefundWish{Payment: second, AmountMinor: 500})[0].Ruling
	wanted := func(operation provider.Operation, id uuid.UUID) error {
		return s.tx(func(tx *gorm.DB) error {
			return s.StillWanted(t.Context(), tx, provider.Call{Operation: operation, SubjectID: id})
		})
	}
	for _, id := range []uuid.UUID{surplus.ID, named.ID} {
		must(t, wanted(provider.OpRefund, id))
	}
	if got := s.gone(o.Session); got.To != orders.Fulfilled {
		t.Errorf("the counted payment is back: %+v, want the other to pay", got)
	}
	v := s.view(o.ID)
	paidBy, ids, err := s.PaidBy(t.Context(), s.DB, o.ID)
	must(t, err)
	if len(v.Surplus()) != 0 || *paidBy.ResourceID != second || !cmp.Equal(ids, []string{second, "pi_of_" + second}) {
		t.Errorf("paid by %s (%v) with surplus %v, want the second, and none", *paidBy.ResourceID, ids, v.Surplus())
	}
	if err := wanted(provider.OpRefund, surplus.ID); !errors.Is(err, provider.ErrNotWanted) {
		t.Errorf("surplus no more: got %v, want ErrNotWanted", err)
	}
	must(t, wanted(provider.OpRefund, named.ID)) // a person named it
	must(t, wanted(provider.OpExpire, o.PaymentID))
	if err := wanted(provider.OpRefund, uuid.New()); err == nil || errors.Is(err, provider.ErrNotWanted) {
		t.Errorf("no decision: got %v, want an error of another kind", err)
	}
}

// While it is asked whether a refund is still wanted, nobody moves the order.
func TestStillWanted_LocksTheOrder(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	o, _ := s.twice()
	ruling := s.refund(o, orders.RefundWish{Surplus: true})[0].Ruling
	must(t, s.tx(func(tx *gorm.DB) error {
		if err := s.StillWanted(t.Context(), tx, provider.Call{Operation: provider.OpRefund, SubjectID: ruling.ID}); err != nil {
			return err
		}
		free := s.count(`SELECT count(*) FROM (SELECT id FROM orders WHERE id = ? FOR UPDATE SKIP LOCKED) o`, o.ID)
		if free != 0 {
			t.Error("the order is not locked")
		}
		return nil
	}))
}

// The provider has taken a refund: how much is gone, a read says.
func TestSettleRefund(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	o := s.fulfilled()
	ruling := s.refund(o, orders.RefundWish{})[0].Ruling
	settle := func(id uuid.UUID) error {
		return s.tx(func(tx *gorm.DB) error {
			return s.SettleRefund(t.Context(), tx, provider.Call{Operation: provider.OpRefund, SubjectID: id})
		})
	}
	must(t, settle(ruling.ID))
	v := s.view(o.ID)
	if v.Payments[0].ReadWanted != 1 || !cmp.Equal(s.edges.reads, []uuid.UUID{o.PaymentID}) || v.RefundedMinor() != 0 || v.Order.State != orders.Fulfilled {
		t.Errorf("%d wishes, reads %v, %d refunded, %s; want one read and nothing else", v.Payments[0].ReadWanted, s.edges.reads, v.RefundedMinor(), v.Order.State)
	}
	if err := settle(uuid.New()); err == nil {
		t.Error("a refund that nobody decided is settled")
	}
}

// Twenty people give the same command at once: one decision, one call, nineteen repeats.
func TestRefund_TwentyAtOnce(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	for name, wish := range map[string]orders.RefundWish{"all": {}, "a part": {AmountMinor: 500}, "surplus": {Surplus: true}} {
		o := s.fulfilled()
		if wish.Surplus {
			o, _ = s.twice()
		}
		results, errs := atOnce(20, func(int) ([]orders.Decided, error) { return s.Refund(t.Context(), o.ID, wish, clerk()) })
		first := 0
		for i, err := range errs {
			must(t, err)
			if len(results[i]) != 1 || results[i][0].Ruling.ID != results[0][0].Ruling.ID {
				t.Errorf("%s: %+v and %+v, want the same", name, results[i], results[0])
			}
			if !results[i][0].Repeat {
				first++
			}
		}
		if n := len(s.view(o.ID).Rulings); first != 1 || n != 1 || len(s.refundCalls(o)) != 1 {
			t.Errorf("%s: %d decided, %d decisions, calls %v; want one of each", name, first, n, s.refundCalls(o))
		}
	}
}

// Money that comes after an expiry fulfills, though another checkout was opened meanwhile; what
// comes twice is surplus.
func TestApply_PaidAfterItsExpiry(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	o := s.order()
	s.apply(says(o.Session, orders.StatusExpired))
	second := s.secondCheckout(o)
	if got := s.apply(paid(o.Session, 1999)); got.To != orders.Paid {
		t.Errorf("after its expiry: %+v, want paid", got)
	}
	s.fulfill(o)
	late := paid(second, 1999)
	late.ObjectCreatedAt = openedAt().Add(time.Hour)
	if got := s.apply(late); got.To != orders.Fulfilled {
		t.Errorf("the other one too: %+v, want fulfilled", got)
	}
	if surplus := s.view(o.ID).Surplus(); len(surplus) != 1 {
		t.Errorf("surplus %v, want one", surplus)
	}
}
