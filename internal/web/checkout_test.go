package web_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"paidonce/internal/stripesim"
)

// An order that is not paid gets another checkout, and the open one can no longer be paid.
func TestCheckout_Again(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before func(t *testing.T, s shop, order created)
		stood  string // the order's state before
		after  string // its payments after
		steps  string // its history
	}{
		"Pending": {func(*testing.T, shop, created) {}, "pending", "expired open", "expire reopen"},
		"Expired": {func(t *testing.T, s shop, order created) {
			t.Helper()
			events, err := s.sim.Expire(s.session(t, order, 0))
			must(t, err)
			s.bringEvents(t, events)
		}, "expired", "expired open", "expire reopen"},
		"Expired, and not heard of": {func(t *testing.T, s shop, order created) {
			t.Helper()
			_, err := s.sim.Expire(s.session(t, order, 0))
			must(t, err)
		}, "pending", "expired open", "expire reopen"},
		"Failed": {func(t *testing.T, s shop, order created) {
			t.Helper()
			s.pay(t, order, stripesim.PayOptions{Delayed: true})
			events, err := s.sim.SettleDelayed(s.session(t, order, 0), false)
			must(t, err)
			s.bringEvents(t, events)
		}, "failed", "failed open", "confirm fail reopen"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newShop(t)
			order := s.order(t)
			c.before(t, s, order)
			if got := s.state(t, order); got != c.stood {
				t.Fatalf("it is %s, want %s", got, c.stood)
			}
			got := s.again(t, order)
			next := decode[created](t, got.Body)
			if got.Status != http.StatusCreated || next.CheckoutURL == "" || next.CheckoutURL == order.CheckoutURL {
				t.Fatalf("got %d %s", got.Status, got.Body)
			}
			next.CheckoutURL = order.CheckoutURL
			if next != order {
				t.Errorf("got %+v, want all else as before: %+v", next, order)
			}
			if _, err := s.sim.Pay(s.session(t, order, 0), stripesim.PayOptions{}); err == nil {
				t.Error("the first checkout can still be paid")
			}
			if s.payments(t, order) != c.after || s.history(t, order) != c.steps || s.state(t, order) != "pending" {
				t.Errorf("payments %s, history %s, state %s", s.payments(t, order), s.history(t, order), s.state(t, order))
			}
			paid, err := s.sim.Pay(s.session(t, order, 1), stripesim.PayOptions{})
			must(t, err)
			s.bringEvents(t, paid.Events)
			if got := s.state(t, order); got != "paid" {
				t.Errorf("the second checkout was paid, and the order is %s", got)
			}
		})
	}
}

// An order that is paid, being paid, or called off takes no other checkout, and says which.
func TestCheckout_NotOpen(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	for state, code := range map[string]string{
		"confirming": "CONFIRMING", "canceled": "CANCELED", "paid": "NOT_OPEN", "fulfilled": "NOT_OPEN", "review": "NOT_OPEN",
		"refunded": "NOT_OPEN", "disputed": "NOT_OPEN", "charged_back": "NOT_OPEN",
	} {
		order := s.order(t)
		execute(t, s.dsn, fmt.Sprintf(`UPDATE orders SET state = '%s', review_reason = CASE WHEN '%[1]s' = 'review' THEN 'amount' END,
			decision = CASE WHEN '%[1]s' = 'canceled' THEN 'canceled' ELSE 'none' END WHERE id = '%s'`, state, order.ID))
		got := s.again(t, order)
		if p := got.problem(t); got.Status != http.StatusConflict || p.Code != code {
			t.Errorf("%s: got %d %s, want 409 %s", state, got.Status, got.Body, code)
		}
		if got := s.payments(t, order); got != "open" {
			t.Errorf("%s: payments %s", state, got)
		}
	}
}

// The open checkout turns out to be complete: its payment is applied instead of being lost,
// before its event has come.
func TestCheckout_TheOpenOneIsComplete(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		delayed, bounced bool
		code, state, has string
	}{
		"Paid":                 {false, false, "NOT_OPEN", "paid", "succeeded"},
		"The money is to come": {true, false, "CONFIRMING", "confirming", "processing"},
		"It will not come, and its event will say so": {true, true, "CONFIRMING", "pending", "open"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newShop(t)
			order := s.order(t)
			_, err := s.sim.Pay(s.session(t, order, 0), stripesim.PayOptions{Hold: true, Delayed: c.delayed})
			must(t, err)
			if c.bounced {
				_, err := s.sim.SettleDelayed(s.session(t, order, 0), false)
				must(t, err)
			}
			for range 2 {
				got := s.again(t, order, "Idempotency-Key", "again")
				if p := got.problem(t); got.Status != http.StatusConflict || p.Code != c.code {
					t.Errorf("got %d %s, want 409 %s", got.Status, got.Body, c.code)
				}
			}
			if s.state(t, order) != c.state || s.payments(t, order) != c.has || s.sessions() != 1 {
				t.Errorf("state %s, payments %s, %d sessions", s.state(t, order), s.payments(t, order), s.sessions())
			}
		})
	}
}

// A provider that is away: 503, and the order and its checkout are as they were.
func TestCheckout_ProviderAway(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	order := s.order(t)
	s.stripe.Close()
	got := s.again(t, order, "Idempotency-Key", "again")
	if p := got.problem(t); got.Status != http.StatusServiceUnavailable || p.Code != "PROVIDER_UNAVAILABLE" || got.Header.Get("Retry-After") == "" {
		t.Errorf("got %d %s", got.Status, got.Body)
	}
	if s.state(t, order) != "pending" || s.payments(t, order) != "open" || s.history(t, order) != "" {
		t.Errorf("state %s, payments %s, history %s", s.state(t, order), s.payments(t, order), s.history(t, order))
	}
	if got := query[int](t, s, `SELECT count(*) FROM api_requests`); got != 0 {
		t.Errorf("%d keys are taken", got)
	}
}

// A checkout that Stripe was never heard of about is opened, so that it can be ended.
func TestCheckout_TheFirstIsNotOpenYet(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.sim.Inject(stripesim.Fault{Kind: stripesim.LoseRequest})
	order := s.order(t)
	got := s.again(t, order)
	if next := decode[created](t, got.Body); got.Status != http.StatusCreated || next.CheckoutURL == "" {
		t.Errorf("got %d %s", got.Status, got.Body)
	}
	if got := s.payments(t, order); got != "expired open" {
		t.Errorf("payments %s", got)
	}
}

// It is the order's token that opens it, and the key is the route's.
func TestCheckout_TokenAndKey(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	order, other := s.order(t), s.order(t)
	for _, token := range []string{"", other.Token} {
		got := s.again(t, created{ID: order.ID, Token: token})
		if p := got.problem(t); got.Status != http.StatusUnauthorized || p.Code != "BAD_TOKEN" {
			t.Errorf("got %d %s", got.Status, got.Body)
		}
	}
	if got := s.again(t, order, "Idempotency-Key", `"`); got.Status != http.StatusBadRequest || got.problem(t).Code != "INVALID_HEADER" {
		t.Errorf("a bad key: got %d %s", got.Status, got.Body)
	}
	first := s.again(t, order, "Idempotency-Key", "again")
	second := s.again(t, order, "Idempotency-Key", `"again"`)
	if first.Status != http.StatusCreated || second.Status != http.StatusCreated || first.Body != second.Body || second.Header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("got %d %s\nthen %d %s", first.Status, first.Body, second.Status, second.Body)
	}
	if got := s.payments(t, order); got != "expired open" {
		t.Errorf("payments %s", got)
	}
	if got := s.again(t, other, "Idempotency-Key", "again"); got.Status != http.StatusCreated || got.Header.Get("Idempotent-Replayed") != "" {
		t.Errorf("the same key for another order: got %d %s", got.Status, got.Body)
	}
	// A dead owner's checkout is gone on with, not added to.
	execute(t, s.dsn, `UPDATE api_requests SET status = NULL, answer = NULL, locked_until = now()`)
	if third := s.again(t, order, "Idempotency-Key", "again"); third.Body != first.Body || s.payments(t, order) != "expired open" {
		t.Errorf("got %d %s, payments %s", third.Status, third.Body, s.payments(t, order))
	}
	if got := s.again(t, order, "Idempotency-Key", "once more"); got.Status != http.StatusCreated || s.payments(t, order) != "expired expired open" {
		t.Errorf("another key: got %d %s, payments %s", got.Status, got.Body, s.payments(t, order))
	}
}

// Several at once, with one key, with several and without: one checkout is open in the end,
// and nobody was told of one that is not recorded.
func TestCheckout_SeveralAtOnce(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	order := s.order(t)
	var asking sync.WaitGroup
	var answers [12]answer
	barrier := make(chan struct{})
	for i := range answers {
		asking.Go(func() {
			<-barrier
			switch i % 3 {
			case 0:
				answers[i] = s.again(t, order)
			case 1:
				answers[i] = s.again(t, order, "Idempotency-Key", "one")
			case 2:
				answers[i] = s.again(t, order, "Idempotency-Key", fmt.Sprint("key ", i))
			}
		})
	}
	close(barrier)
	asking.Wait()
	var done int
	for _, got := range answers {
		switch {
		case got.Status == http.StatusCreated:
			done++
		case got.Status == http.StatusConflict && got.problem(t).Code == "IN_FLIGHT":
		default:
			t.Errorf("got %d %s", got.Status, got.Body)
		}
	}
	if open := strings.Count(s.payments(t, order), "open"); done == 0 || open != 1 {
		t.Errorf("%d were answered, payments %s; want one open", done, s.payments(t, order))
	}
}

// The first checkout is paid after all, late; and the second too. Whichever comes first pays
// the order, and the other is surplus, without effect.
func TestCheckout_BothArePaid(t *testing.T) {
	t.Parallel()
	for name, turn := range map[string][]int{"The old one first": {0, 1}, "The new one first": {1, 0}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newShop(t)
			order := s.order(t)
			s.again(t, order)
			for i, n := range turn {
				s.bring(t, completed(s.session(t, order, n), order.TotalMinor))
				if got := s.state(t, order); got != "paid" {
					t.Errorf("after %d payments it is %s", i+1, got)
				}
			}
			if got := s.payments(t, order); got != "succeeded succeeded" {
				t.Errorf("payments %s", got)
			}
			if diff := cmp.Diff("expire reopen pay", s.history(t, order)); diff != "" {
				t.Errorf("history (-want +got)\n%s", diff)
			}
			if jobs := query[int](t, s, `SELECT count(*) FROM river_job WHERE kind = 'fulfill_order'`); jobs != 1 {
				t.Errorf("%d jobs to fulfill it", jobs)
			}
		})
	}
}
