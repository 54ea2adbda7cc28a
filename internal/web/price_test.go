package web_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// A price that a client sends is a field like any other that an order does not have: passed
// over. What counts is the product's.
func TestCreate_ClientPricesAreIgnored(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	const cheap = `{"email":"a@example.com","locale":"de-AT","total_minor":1,"currency":"jpy","coupon":"FREE","state":"paid","id":"x",
		"items":[{"sku":"KEY-1","quantity":2,"unit_minor":1,"price":0.01,"currency":"jpy","name":"mine"}]}`
	got := do(t, http.MethodPost, s.url+"/orders", cheap)
	order := decode[created](t, got.Body)
	if got.Status != http.StatusCreated || order.TotalMinor != 2*1999 || order.Currency != "usd" || order.State != "pending" {
		t.Fatalf("got %d %s", got.Status, got.Body)
	}
	line := query[string](t, s, `SELECT sku || ' ' || quantity || ' ' || unit_minor || ' ' || name FROM order_lines WHERE order_id = $1`, order.ID)
	if line != "KEY-1 2 1999 A <key> & more" {
		t.Errorf("the line is %q", line)
	}
	if locale := query[string](t, s, `SELECT locale FROM orders WHERE id = $1`, order.ID); locale != "de-AT" {
		t.Errorf("the locale is %q", locale)
	}
	params := query[string](t, s, `SELECT convert_from(params, 'UTF8') FROM provider_calls`)
	if !strings.Contains(params, "[unit_amount]=1999&") || strings.Contains(params, "jpy") {
		t.Errorf("Stripe was asked for %s", params)
	}
}

// What may be passed over and what may not: of an item the sku and the quantity are needed.
func TestCreate_NeededFields(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	for body, field := range map[string]string{
		`{"email":"a@example.com","items":[{"quantity":1}]}`:                                                                           "items[0].sku",
		`{"email":"a@example.com","items":[{"sku":"KEY-1"}]}`:                                                                          "items[0].quantity",
		`{"email":"a@example.com","items":[{"sku":"KEY-1","qty":1}]}`:                                                                  "items[0].quantity",
		`{"email":"a@example.com","items":[{"id":"KEY-1","quantity":1}]}`:                                                              "items[0].sku",
		`{"e-mail":"a@example.com","items":[]}`:                                                                                        "email",
		`{"email":"a@example.com"}`:                                                                                                    "items",
		fmt.Sprintf(`{"email":"a@example.com","items":[{"sku":"KEY-1","quantity":%d}]}`, 1001):                                         "items[0].quantity",
		`{"email":"a@example.com","items":[` + strings.Repeat(`{"sku":"KEY-2","quantity":1},`, 100) + `{"sku":"KEY-2","quantity":1}]}`: "items",
	} {
		got := do(t, http.MethodPost, s.url+"/orders", body)
		if p := got.problem(t); got.Status != http.StatusUnprocessableEntity || p.Field != field {
			t.Errorf("%.80s: got %d %q, want 422 of %q", body, got.Status, p.Field, field)
		}
	}
	if got := query[int](t, s, `SELECT count(*) FROM orders`); got != 0 {
		t.Errorf("%d orders", got)
	}
}
