package orders_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"paidonce/orders"
)

// everyState is an order in each state, by what happens to orders.
func (s shop) everyState() map[orders.State]sale {
	s.t.Helper()
	ended := func(status orders.Status) sale { o := s.order(); s.apply(says(o.Session, status)); return o }
	after := func(r orders.Returns) sale { o := s.fulfilled(); s.apply(reads(o.Session, 1999, 1, r)); return o }
	all := map[orders.State]sale{
		orders.Pending: s.order(), orders.Confirming: ended(orders.StatusProcessing), orders.Failed: ended(orders.StatusFailed),
		orders.Expired: ended(orders.StatusExpired), orders.Canceled: ended(orders.StatusCanceled),
		orders.Paid: s.order(), orders.Fulfilled: s.fulfilled(), orders.Review: s.order(),
		orders.Refunded:    after(back(refund("re_1", 1999, "succeeded"))),
		orders.Disputed:    after(back(dispute("dp_1", "needs_response"))),
		orders.ChargedBack: after(back(dispute("dp_1", "lost"))),
	}
	s.apply(paid(all[orders.Paid].Session, 1999))
	s.apply(paid(all[orders.Review].Session, 1))
	for _, state := range orders.States() {
		o, ok := all[state]
		if got := s.view(o.ID).Order.State; !ok || got != state {
			s.t.Fatalf("the order that should be %s is %s", state, got)
		}
	}
	return all
}

// expiries are the keys of the calls that end checkouts, each with its job.
func (s shop) expiries() (keys []string) {
	s.t.Helper()
	const find = `SELECT c.idempotency_key FROM provider_calls c JOIN enqueued e USING (idempotency_key) WHERE operation = 'expire' ORDER BY 1`
	must(s.t, s.DB.Raw(find).Scan(&keys).Error)
	return keys
}

// What has no money can be called off, and nothing else.
func TestCancel_InEveryState(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	cancelable := []orders.State{orders.Pending, orders.Confirming, orders.Expired, orders.Failed, orders.Canceled}
	for state, o := range s.everyState() {
		before := s.dump()
		got, err := s.Cancel(t.Context(), o.ID, clerk())
		if !slices.Contains(cancelable, state) {
			var not *orders.NotCancelableError
			if !errors.As(err, &not) || not.State != state {
				t.Errorf("%s: got %v, want it refused", state, err)
			}
			gone := state == orders.Refunded || state == orders.ChargedBack // there is no money to send back
			if advised := strings.Contains(fmt.Sprint(err), "refund it instead"); advised == gone {
				t.Errorf("%s: got %v", state, err)
			}
			if diff := cmp.Diff(before, s.dump()); diff != "" {
				t.Errorf("%s: (-before +after)\n%s", state, diff)
			}
			continue
		}
		must(t, err)
		v := s.view(o.ID)
		if got.Repeat || v.Order.State != orders.Canceled || v.Order.Decision != orders.DecisionCanceled || len(v.Rulings) != 1 {
			t.Errorf("%s: %+v, and the order is %s by %v", state, got, v.Order.State, v.Rulings)
		}
		if r := v.Rulings[0]; r.Action != orders.ActionCancel || r.DecidedBy != clerk().Name || r.Reason != clerk().Why || r.PaymentID != nil {
			t.Errorf("%s: ruling %+v", state, r)
		}
		last := v.Transitions[max(len(v.Transitions)-1, 0)]
		if state != orders.Canceled && (last.Event != orders.Cancel || last.CauseProvider != "person" || last.CauseEventID != clerk().Name) {
			t.Errorf("%s: %+v, want it canceled by the person", state, last)
		}
		if !errors.As(v.Order.TakesCheckout(), new(*orders.NotOpenError)) {
			t.Errorf("%s: it takes another checkout", state)
		}
	}
}

func TestCancel_Refused(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	o := s.order()
	before := s.dump()
	var fault *orders.InputError
	for field, p := range map[string]orders.Person{"by": {Why: "x"}, "why": {Name: "x"}} {
		if _, err := s.Cancel(t.Context(), o.ID, p); !errors.As(err, &fault) || fault.Field != field {
			t.Errorf("got %v, want a fault of %s", err, field)
		}
	}
	if _, err := s.Cancel(t.Context(), s.NewID(), clerk()); !errors.Is(err, orders.ErrNotFound) {
		t.Errorf("no order: got %v, want ErrNotFound", err)
	}
	if diff := cmp.Diff(before, s.dump()); diff != "" {
		t.Errorf("(-before +after)\n%s", diff)
	}
}

// The calls that end its open checkouts are written down, and enqueued, in the transaction of
// the decision: there is none without the other.
func TestCancel_EndsItsCheckouts(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	o := s.order()
	second := s.secondCheckout(o)
	third := s.secondCheckout(o)
	s.apply(says(third, orders.StatusProcessing)) // the buyer is done there: it cannot be ended

	must(t, s.DB.Exec(`ALTER TABLE enqueued ADD CONSTRAINT no_jobs CHECK (idempotency_key NOT LIKE 'expire:%')`).Error)
	before := s.dump()
	if _, err := s.Cancel(t.Context(), o.ID, clerk()); err == nil {
		t.Error("canceled without its jobs")
	}
	if diff := cmp.Diff(before, s.dump()); diff != "" {
		t.Errorf("without its jobs (-before +after):\n%s", diff)
	}

	must(t, s.DB.Exec(`ALTER TABLE enqueued DROP CONSTRAINT no_jobs`).Error)
	want := []string{"expire:" + o.PaymentID.String(), "expire:" + second[len("cs_"):]}
	slices.Sort(want)
	for i := range 2 {
		got, err := s.Cancel(t.Context(), o.ID, clerk())
		must(t, err)
		if got.Repeat != (i == 1) || got.Order.State != orders.Canceled || got.Ruling.DecidedBy != clerk().Name {
			t.Errorf("time %d: %+v", i+1, got)
		}
		if diff := cmp.Diff(want, s.expiries()); diff != "" {
			t.Errorf("time %d: calls (-want +got):\n%s", i+1, diff)
		}
	}
	if n := len(s.view(o.ID).Rulings); n != 1 {
		t.Errorf("%d decisions, want one", n)
	}
	for _, session := range []string{o.Session, second} { // as it is told of later
		if got := s.apply(says(session, orders.StatusExpired)); got.To != orders.Canceled {
			t.Errorf("the expiry: %+v, want it canceled still", got)
		}
	}
}

// A checkout that is on its way while its order is called off has no id by which it could be
// ended. It is ended as soon as it has one, once.
func TestCancel_WhileACheckoutIsOnItsWay(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	o, other := s.unanswered(), s.unanswered()
	_, err := s.Cancel(t.Context(), o.ID, clerk())
	must(t, err)
	if got := s.expiries(); len(got) != 0 {
		t.Errorf("calls %v of a checkout that is not open", got)
	}
	for range 2 {
		s.answer(o.PaymentID, o.CallKey, "cs_1")
		s.answer(other.PaymentID, other.CallKey, "cs_2") // which nobody canceled
		if diff := cmp.Diff([]string{"expire:" + o.PaymentID.String()}, s.expiries()); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
	}
	var path string
	must(t, s.DB.Raw(`SELECT path FROM provider_calls WHERE operation = 'expire'`).Row().Scan(&path))
	if path != "/v1/checkout/sessions/cs_1/expire" {
		t.Errorf("the call is %s, want it to end cs_1", path)
	}
}

// Money that comes all the same holds the order; canceling again changes nothing, and a person
// who accepts it has it fulfilled.
func TestCancel_ThenTheMoneyComes(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	o := s.order()
	_, err := s.Cancel(t.Context(), o.ID, clerk())
	must(t, err)
	if got := s.apply(paid(o.Session, 1999)); got.Outcome != orders.Held || got.Reason != orders.ReasonPaidAfterCancel {
		t.Errorf("got %+v, want it held", got)
	}
	before := s.dump()
	if got, err := s.Cancel(t.Context(), o.ID, clerk()); err != nil || !got.Repeat || got.Order.State != orders.Review {
		t.Errorf("again: %+v and %v, want a repeat", got, err)
	}
	if diff := cmp.Diff(before, s.dump()); diff != "" {
		t.Errorf("again (-before +after):\n%s", diff)
	}
	_, err = s.Accept(t.Context(), o.ID, clerk())
	must(t, err)
	s.fulfill(o)
	want := []string{"pending cancel canceled", "canceled hold review", "review pay paid", "paid fulfill fulfilled"}
	if diff := cmp.Diff(want, s.history(o.ID)); diff != "" {
		t.Errorf("history (-want +got):\n%s", diff)
	}
	if _, err := s.Cancel(t.Context(), o.ID, clerk()); !errors.As(err, new(*orders.NotCancelableError)) {
		t.Errorf("canceling what was accepted: got %v, want it refused", err)
	}
}
