package orders_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gorm.io/gorm"

	"paidonce/orders"
)

// TestB35_AnotherModeOrAccountTouchesNothing: a fact of a recorded payment, but of the other
// mode or of another account.
func TestB35_AnotherModeOrAccountTouchesNothing(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	o := s.order()
	s.edges.forget()
	before := s.dump()
	for name, change := range map[string]func(*orders.Fact){
		"live":            func(f *orders.Fact) { f.Livemode = true },
		"another account": func(f *orders.Fact) { f.Account = "acct_other" },
		"both":            func(f *orders.Fact) { f.Livemode, f.Account = true, "acct_other" },
		"a hint":          func(f *orders.Fact) { f.Livemode, f.Hint = true, true },
		"a read":          func(f *orders.Fact) { f.Account, f.Read, f.ReadSeq = "acct_other", true, 9 },
	} {
		f := paid(o.Session, 1999)
		f.Resources = append(f.Resources, "ch_new")
		change(&f)
		if got := s.apply(f); got.Outcome != orders.Mode || got.From != orders.Pending || got.To != orders.Pending {
			t.Errorf("%s: got %+v, want it left", name, got)
		}
	}
	if diff := cmp.Diff(before, s.dump()); diff != "" {
		t.Errorf("rows changed (-before +after):\n%s", diff)
	}
	if e := s.edges; len(e.moves)+len(e.reads)+len(e.released) != 0 {
		t.Errorf("moves %v, reads %v, released %v; want none", e.moves, e.reads, e.released)
	}
}

func TestApply_UnknownResourceTouchesNothing(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	o := s.order()
	s.edges.forget()
	before := s.dump()
	elsewhere := paid(o.Session, 1999)
	elsewhere.Provider = "paymos"
	for name, f := range map[string]orders.Fact{
		"another session":              paid("cs_nobody", 1999),
		"no resource":                  {Provider: "stripe", Status: orders.StatusSucceeded, ReceivedCurrency: "usd"},
		"the same id at another place": elsewhere,
	} {
		if got := s.apply(f); !cmp.Equal(got, orders.Result{Outcome: orders.Unknown}) {
			t.Errorf("%s: got %+v, want unknown", name, got)
		}
	}
	if diff := cmp.Diff(before, s.dump()); diff != "" {
		t.Errorf("rows changed (-before +after):\n%s", diff)
	}
}

// A fact that names ids of two payments is about its own object, which it names first.
func TestApply_TheFactsOwnObjectBinds(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	a, b := s.order(), s.order()
	f := paid(b.Session, 1999)
	f.Resources = []string{"in_new", b.Session, a.Session}
	if got := s.apply(f); got.OrderID != b.ID {
		t.Errorf("order %s was paid, want %s", got.OrderID, b.ID)
	}
	if got := s.count(`SELECT count(*) FROM payment_resources WHERE resource_id = ? AND payment_id = ?`, a.Session, a.PaymentID); got != 1 {
		t.Error("an id changed hands")
	}
}

// TestApply_LearnsAndReleases: ids that are new are recorded, and only they are released, in
// the same transaction.
func TestApply_LearnsAndReleases(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	o := s.order()
	s.edges.forget()

	first := paid(o.Session, 1999)
	first.Resources = []string{o.Session, "pi_1", "in_1"}
	s.apply(first)
	if got := s.edges.released; !slices.Equal(got, []string{"pi_1", "in_1"}) {
		t.Errorf("released %v, want the two new ids", got)
	}
	s.edges.forget()

	// An event of the alias teaches the next; nothing else of it is new.
	second := intentPaid(o.Session, 1999, 1999)
	second.Resources = []string{"pi_1", "ch_1"}
	if got := s.apply(second); got.Outcome != orders.Applied || got.OrderID != o.ID {
		t.Errorf("got %+v, want applied: an id was learned", got)
	}
	if got := s.edges.released; !slices.Equal(got, []string{"ch_1"}) || len(s.edges.moves) != 0 {
		t.Errorf("released %v, moves %v; want ch_1 and none", got, s.edges.moves)
	}
	s.edges.forget()
	if got := s.apply(second); got.Outcome != orders.Already || len(s.edges.released) != 0 {
		t.Errorf("again: got %s, released %v", got.Outcome, s.edges.released)
	}

	var ids []string
	must(t, s.tx(func(tx *gorm.DB) (err error) { _, ids, err = s.PaidBy(t.Context(), tx, o.ID); return err }))
	slices.Sort(ids)
	if want := []string{"ch_1", o.Session, "in_1", "pi_1"}; !slices.Equal(ids, want) {
		t.Errorf("paid by %v, want %v", ids, want)
	}
}
