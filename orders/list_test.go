package orders_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"paidonce/orders"
)

func TestList(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	var ids []uuid.UUID
	for range 5 {
		ids = append(ids, s.order().ID)
	}
	must(t, s.DB.Exec(`UPDATE orders SET email = 'Other@example.com' WHERE id = ?`, ids[3]).Error)
	must(t, s.DB.Exec(`UPDATE orders SET state = 'expired' WHERE id IN ?`, ids[1:4]).Error)
	number := func(i int) int64 { return s.view(ids[i]).Order.Number }
	for name, test := range map[string]struct {
		filter orders.ListFilter
		want   []int
		total  int64
	}{
		"all, the newest first": {orders.ListFilter{}, []int{4, 3, 2, 1, 0}, 5},
		"a state":               {orders.ListFilter{State: orders.Expired}, []int{3, 2, 1}, 3},
		"a buyer, in any case":  {orders.ListFilter{Email: "oTHER@example.com"}, []int{3}, 1},
		"ids":                   {orders.ListFilter{IDs: []uuid.UUID{ids[0], ids[2]}}, []int{2, 0}, 2},
		"a page":                {orders.ListFilter{Before: number(4), Limit: 2}, []int{3, 2}, 5},
		"a page of a state":     {orders.ListFilter{State: orders.Expired, Before: number(2), Limit: 2}, []int{1}, 3},
		"nothing":               {orders.ListFilter{State: orders.Review}, nil, 0},
	} {
		list, total, err := s.List(t.Context(), test.filter)
		must(t, err)
		var got []int
		for _, o := range list {
			got = append(got, slices.Index(ids, o.ID))
		}
		if !slices.Equal(got, test.want) || total != test.total {
			t.Errorf("%s: got %v of %d, want %v of %d", name, got, total, test.want, test.total)
		}
	}
}

// A person calls an order by its id or by its number.
func TestFind(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	o := s.order()
	number := fmt.Sprint(s.view(o.ID).Order.Number)
	for _, name := range []string{o.ID.String(), strings.ToUpper(o.ID.String()), number, "#" + number} {
		if got, err := s.Find(t.Context(), name); err != nil || got != o.ID {
			t.Errorf("%s: got %s, %v", name, got, err)
		}
	}
	for _, name := range []string{"999", uuid.NewString()} {
		if _, err := s.Find(t.Context(), name); !errors.Is(err, orders.ErrNotFound) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v, want it not found and named", name, err)
		}
	}
	for _, name := range []string{"", "nope", "1.5", "99999999999999999999"} {
		var invalid *orders.InputError
		if _, err := s.Find(t.Context(), name); !errors.As(err, &invalid) || invalid.Field != "order" {
			t.Errorf("%q: %v, want the field named", name, err)
		}
	}
}

func TestSetActive(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	forSale := func() (skus []string) {
		products, err := s.Products(t.Context())
		must(t, err)
		for _, p := range products {
			if p.Active {
				skus = append(skus, p.SKU)
			}
		}
		return skus
	}
	must(t, s.SetActive(t.Context(), false, "KEY-2", "YEN-1"))
	if got := forSale(); !slices.Equal(got, []string{"KEY-1"}) {
		t.Errorf("for sale: %v", got)
	}
	if err := s.SetActive(t.Context(), true, "KEY-2", "NO-1", "NO-2"); !errors.Is(err, orders.ErrNoProduct) ||
		!strings.Contains(err.Error(), "NO-1") || !strings.Contains(err.Error(), "NO-2") {
		t.Errorf("unknown ones: %v, want both named", err)
	}
	if got := forSale(); !slices.Equal(got, []string{"KEY-1"}) {
		t.Errorf("after a change that was refused: %v are for sale, want nothing changed", got)
	}
	must(t, s.SetActive(t.Context(), true, "KEY-2"))
	if got := forSale(); !slices.Equal(got, []string{"KEY-1", "KEY-2"}) {
		t.Errorf("for sale: %v", got)
	}
}
