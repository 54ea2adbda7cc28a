package orders_test

import (
	"errors"
	"regexp"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/jackc/pgx/v5/pgconn"
	"gorm.io/gorm"

	"paidonce/orders"
)

// A walk of several steps writes a row for each, in order, all of one moment and one cause;
// what follows is told once, with the ends of the walk.
func TestHistory_OneWalk(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	o := s.order()
	s.apply(says(o.Session, orders.StatusExpired))
	s.edges.forget()

	// The money is known to be back before it is known to have come.
	must(t, s.DB.Exec(`UPDATE payments SET refunded_minor = 1999 WHERE id = ?`, o.PaymentID).Error)
	f := paid(o.Session, 1999)
	if got := s.apply(f); got.From != orders.Expired || got.To != orders.Refunded {
		t.Errorf("got %+v, want expired to refunded", got)
	}

	v := s.view(o.ID)
	row := func(e orders.Event, from, to orders.State, cause orders.Cause) orders.Transition {
		return orders.Transition{
			OrderID: o.ID, Event: e, FromState: from, ToState: to, At: openedAt(),
			CauseProvider: cause.Provider, CauseEventID: cause.EventID,
		}
	}
	expiry := says(o.Session, orders.StatusExpired).Cause
	want := []orders.Transition{
		row(orders.Expire, orders.Pending, orders.Expired, expiry),
		row(orders.Pay, orders.Expired, orders.Paid, f.Cause),
		row(orders.Refund, orders.Paid, orders.Refunded, f.Cause),
	}
	if diff := cmp.Diff(want, v.Transitions, cmpopts.IgnoreFields(orders.Transition{}, "ID")); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
	if v.Order.PaidAt == nil || !v.Order.PaidAt.Equal(openedAt()) || v.Order.ReviewReason != nil {
		t.Errorf("order %+v, want it paid once at %s", v.Order, openedAt())
	}
	told := []orders.Move{{OrderID: o.ID, From: orders.Expired, To: orders.Refunded, At: openedAt()}}
	if diff := cmp.Diff(told, s.edges.moves); diff != "" {
		t.Errorf("the follower was told (-want +got):\n%s", diff)
	}
}

// Wrong money that is back already passes through review, and leaves no reason behind.
func TestHistory_WrongMoneySentBack(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	o := s.order()
	must(t, s.DB.Exec(`UPDATE payments SET refunded_minor = 500 WHERE id = ?`, o.PaymentID).Error)
	s.apply(paid(o.Session, 500))
	if diff := cmp.Diff([]string{"pending hold review", "review refund refunded"}, s.history(o.ID)); diff != "" {
		t.Errorf("history (-want +got):\n%s", diff)
	}
	if v := s.view(o.ID); v.Order.ReviewReason != nil || v.Order.PaidAt != nil {
		t.Errorf("order %+v, want no reason and no payment", v.Order)
	}

	// A second checkout then pays; the first money's return does not stand in its way.
	second := s.secondCheckout(o)
	if got := s.apply(paid(second, 1999)); got.From != orders.Refunded || got.To != orders.Paid {
		t.Errorf("got %+v, want refunded to paid", got)
	}
}

func TestHistory_FulfilledOnce(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	o := s.order(orders.Item{SKU: "KEY-2", Quantity: 3}, orders.Item{SKU: "KEY-1", Quantity: 1})
	job := orders.Cause{Provider: "job", EventID: "fulfill_order"}
	fulfill := func() (lines []orders.Line, locked bool) {
		must(t, s.tx(func(tx *gorm.DB) error {
			order, ls, err := s.LockPaid(t.Context(), tx, o.ID)
			if err != nil || order == nil {
				return err
			}
			lines, locked = ls, true
			return s.MarkFulfilled(t.Context(), tx, order, job)
		}))
		return lines, locked
	}
	if _, locked := fulfill(); locked {
		t.Error("a pending order was locked as paid")
	}
	s.apply(paid(o.Session, 1999+3*820))
	lines, locked := fulfill()
	if !locked || len(lines) != 2 || lines[0].SKU != "KEY-2" || lines[1].SKU != "KEY-1" {
		t.Errorf("locked %v with %+v, want the two lines as ordered", locked, lines)
	}
	if _, locked := fulfill(); locked {
		t.Error("a fulfilled order was locked as paid")
	}
	v := s.view(o.ID)
	if last := v.Transitions[len(v.Transitions)-1]; last.Event != orders.Fulfill || last.CauseProvider != "job" || v.Order.FulfilledAt == nil {
		t.Errorf("last step %+v, order %+v", last, v.Order)
	}

	// Paid again after a refund that failed: the licenses exist, so the same walk ends in
	// fulfilled, by restore and never by a second pay.
	refunded := func(minor int64) orders.Fact {
		must(t, s.DB.Exec(`UPDATE payments SET refunded_minor = ? WHERE id = ?`, minor, o.PaymentID).Error)
		return read(o.Session, 1999+3*820, minor+1)
	}
	s.apply(refunded(4459))
	back := refunded(0)
	back.ReadSeq = 9999
	s.apply(back)
	want := []string{
		"pending pay paid", "paid fulfill fulfilled", "fulfilled refund refunded", "refunded restore paid", "paid fulfill fulfilled",
	}
	if diff := cmp.Diff(want, s.history(o.ID)); diff != "" {
		t.Errorf("history (-want +got):\n%s", diff)
	}
}

func TestHistory_IsAppendOnly(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	o := s.order()
	s.apply(paid(o.Session, 1999))
	for _, attack := range []string{
		`UPDATE order_transitions SET cause_event_id = 'evt_other'`,
		`DELETE FROM order_transitions`,
		`TRUNCATE order_transitions`,
		`TRUNCATE orders CASCADE`,
	} {
		wantCode(t, s.DB.Exec(attack).Error, attack, "23001") // restrict_violation
	}
	if got := s.history(o.ID); !slices.Equal(got, []string{"pending pay paid"}) {
		t.Errorf("history %v", got)
	}
}

// TestPaidOnce_TheIndexHoldsIfAllElseIsWrong (I3): with the order's row tampered with, so
// that lock and machine see an order that was never paid, the last barrier refuses the
// second pay, and the whole transaction with it.
func TestPaidOnce_TheIndexHoldsIfAllElseIsWrong(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	o := s.order()
	s.apply(paid(o.Session, 1999))

	const second = `
INSERT INTO order_transitions (order_id, event, from_state, to_state, cause_provider, cause_event_id, at)
VALUES (?, ?, 'pending', 'paid', 'stripe', 'evt_x', now())`
	wantConstraint(t, s.DB.Exec(second, o.ID, "pay").Error, "order_transitions_paid_once")
	must(t, s.DB.Exec(second, o.ID, "restore").Error) // any other event may come again
	other := s.order()
	must(t, s.DB.Exec(second, other.ID, "pay").Error) // and every order has one of its own

	must(t, s.DB.Exec(`UPDATE orders SET state = 'pending', paid_at = NULL WHERE id = ?`, o.ID).Error)
	again := s.secondCheckout(o)
	before := s.dump()
	_, err := s.tryApply(paid(again, 1999))
	wantConstraint(t, err, "order_transitions_paid_once")
	if diff := cmp.Diff(before, s.dump()); diff != "" {
		t.Errorf("the refused transaction left something (-before +after):\n%s", diff)
	}
}

// The words of the code are the words of the CHECKs: one that only one side knows would be
// found by the first order that needs it.
func TestWords_AreThoseOfTheSchema(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	for name, want := range map[string][]string{
		"orders_state":         words(orders.States()),
		"payments_status":      words(orders.Statuses()),
		"orders_decision":      words([]orders.Decision{orders.NoDecision, orders.DecisionCanceled, orders.DecisionAccepted}),
		"orders_review_reason": words([]orders.Reason{orders.ReasonAmount, orders.ReasonCurrency, orders.ReasonCapture, orders.ReasonPaidAfterCancel}),
		"order_transitions_event": words([]orders.Event{
			orders.Confirm, orders.Pay, orders.Fulfill, orders.Hold, orders.Expire, orders.Fail, orders.Cancel, orders.Reopen,
			orders.Refund, orders.Dispute, orders.Win, orders.Lose, orders.Restore,
		}),
	} {
		var check string
		must(t, s.DB.Raw(`SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conname = ?`, name).Row().Scan(&check))
		var got []string
		for _, m := range regexp.MustCompile(`'([a-z_]+)'::text`).FindAllStringSubmatch(check, -1) {
			got = append(got, m[1])
		}
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-code +schema):\n%s", name, diff)
		}
	}
}

func words[W ~string](all []W) []string {
	out := make([]string, len(all))
	for i, w := range all {
		out[i] = string(w)
	}
	slices.Sort(out)
	return out
}

func wantConstraint(t *testing.T, err error, name string) {
	t.Helper()
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || pg.ConstraintName != name {
		t.Errorf("got %v, want a violation of %s", err, name)
	}
}

func wantCode(t *testing.T, err error, what, code string) {
	t.Helper()
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || pg.Code != code {
		t.Errorf("%s: got %v, want SQLSTATE %s", what, err, code)
	}
}
