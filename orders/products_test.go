package orders_test

import (
	"errors"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"paidonce/orders"
)

func TestReadProducts(t *testing.T) {
	t.Parallel()
	key := orders.Product{SKU: "KEY-1", Name: "Key", UnitMinor: 1999, Currency: "usd"}
	yen := orders.Product{SKU: "YEN-1", Name: "鍵", UnitMinor: 100, Currency: "jpy"}
	for name, test := range map[string]struct {
		text string
		want []orders.Product
	}{
		// JSON.
		"json":                 {`[{"sku":"KEY-1","name":"Key","unit_minor":1999,"currency":"usd"},{"sku":"YEN-1","name":"鍵","unit_minor":100,"currency":"JPY"}]`, []orders.Product{key, yen}},
		"json after a mark":    {"\ufeff \n[{\"sku\":\"KEY-1\",\"name\":\"Key\",\"unit_minor\":1999,\"currency\":\"usd\"}]\n", []orders.Product{key}},
		"json, amount as text": {`[{"sku":"KEY-1","name":"Key","unit_minor":"1999","currency":"usd"}]`, []orders.Product{key}},

		// CSV.
		"csv":                   {"sku,name,unit_minor,currency\nKEY-1,Key,1999,usd\nYEN-1,鍵,100,jpy\n", []orders.Product{key, yen}},
		"csv after a mark":      {"\ufeffsku,name,unit_minor,currency\nKEY-1,Key,1999,usd\n", []orders.Product{key}},
		"csv in another order":  {"Currency, unit_minor ,SKU,note,NAME\r\nUSD,1999,KEY-1,ours,Key\r\n", []orders.Product{key}},
		"csv without a last lf": {"sku,name,unit_minor,currency\nKEY-1,Key,1999,usd", []orders.Product{key}},
		"csv with quotes": {
			"sku,name,unit_minor,currency\nKEY-3,\"Key, \"\"large\"\"\",0, eur \n",
			[]orders.Product{{SKU: "KEY-3", Name: `Key, "large"`, UnitMinor: 0, Currency: "eur"}},
		},
	} {
		got, err := orders.ReadProducts(strings.NewReader(test.text))
		if diff := cmp.Diff(test.want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
	}
}

// Every fault is told at once, each with its entry and its field.
func TestReadProducts_TellsEveryFault(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", orders.MaxSKU+1)
	for name, test := range map[string]struct {
		text string
		want []string
	}{
		"csv": {
			"sku,name,unit_minor,currency\n" +
				",Key,1999,usd\n" + // 2
				"KEY-1,,19.99,usd\n" + // 3
				"KEY-2,\"two\nlines\",1,usd\n" + // 4 and 5
				"KEY-3,Key,-1,xyz\n" + // 6
				"KEY-1,Key,1,usd\n" + // 7
				"KEY-4,Key,1\n" + // 8
				long + ",Key,100000000,\n" + // 9
				"KEY\x00,Caf\xe9,1,usd\n", // 10
			[]string{
				"line 2: sku: is missing",
				"line 3: name: is missing", `line 3: unit_minor: "19.99" is not a whole number`,
				"line 4: name: holds characters",
				`line 6: unit_minor: "-1"`, "line 6: currency: ",
				`line 7: sku: "KEY-1" was given before, as line 3`,
				"line 8: has 3 columns, the header has 4",
				"line 9: sku: is longer than 200", `line 9: unit_minor: "100000000"`, "line 9: currency: ",
				"line 10: sku: holds characters", "line 10: name: holds characters",
			},
		},
		"json": {
			`[{"name":"Key","unit_minor":1,"currency":"usd"},{"sku":" ","name":" ","unit_minor":1.5,"currency":"dollars"},{"sku":"A","name":"A","currency":"usd"},{"sku":"A ","name":"A","unit_minor":1e3,"currency":"usd"}]`,
			[]string{
				"product 1: sku: is missing",
				"product 2: sku: is missing", "product 2: name: is missing", `product 2: unit_minor: "1.5"`, "product 2: currency: ",
				`product 3: unit_minor: ""`,
				`product 4: sku: "A" was given before, as product 3`, `product 4: unit_minor: "1e3"`,
			},
		},

		// What is no list at all is one fault.
		"nothing":        {"", []string{"no products: "}},
		"an empty list":  {"[]", []string{"no products: "}},
		"a header alone": {"sku,name,unit_minor,currency\n", []string{"no products: "}},
		"another header": {"sku;name;unit_minor;currency\nKEY-1;Key;1999;usd\n", []string{"the CSV header must name"}},
		"one object":     {`{"sku":"KEY-1"}`, []string{"products are not a JSON list"}},
		"a misspelt key": {`[{"sku":"KEY-1","price":1}]`, []string{"products are not a JSON list"}},
		"half a list":    {`[{"sku":"KEY-1"`, []string{"products are not a JSON list"}},
		"two lists":      {`[{"sku":"A","name":"A","unit_minor":1,"currency":"usd"}] []`, []string{"products are one JSON list"}},
		"a torn quote":   {"sku,name,unit_minor,currency\nKEY-1,\"Key,1999,usd\n", []string{"products are not CSV"}},
	} {
		got, err := orders.ReadProducts(strings.NewReader(test.text))
		if err == nil || got != nil {
			t.Errorf("%s: got %v, want it refused", name, got)
			continue
		}
		said := strings.Split(err.Error(), "\n")
		if len(said) != len(test.want) {
			t.Errorf("%s: %d faults, want %d:\n%v", name, len(said), len(test.want), err)
			continue
		}
		for i, want := range test.want {
			if !strings.HasPrefix(said[i], want) {
				t.Errorf("%s: fault %d is %q, want %q", name, i+1, said[i], want)
			}
		}
	}
	errDisk := errors.New("the disk is gone")
	if _, err := orders.ReadProducts(iotest.ErrReader(errDisk)); !errors.Is(err, errDisk) {
		t.Errorf("got %v, want the reader's error", err)
	}
}

// A product that is imported again changes, and what was sold stays as it was sold.
func TestImportProducts_OrdersKeepTheirPrices(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	o := s.order(orders.Item{SKU: "KEY-1", Quantity: 2}, orders.Item{SKU: "KEY-2", Quantity: 1})
	before := s.view(o.ID)
	must(t, s.DB.Exec(`UPDATE products SET active = false WHERE sku = 'KEY-2'`).Error)
	must(t, s.ImportProducts(t.Context(), []orders.Product{
		{SKU: "KEY-1", Name: "Dearer key", UnitMinor: 2999, Currency: "eur"}, {SKU: "KEY-2", Name: "Small key", UnitMinor: 820, Currency: "eur"},
	}))
	if diff := cmp.Diff(before, s.view(o.ID)); diff != "" {
		t.Errorf("the order changed (-before +after):\n%s", diff)
	}

	// New orders are at the new price, and the product is for sale again.
	v := s.view(s.order(orders.Item{SKU: "KEY-1", Quantity: 1}, orders.Item{SKU: "KEY-2", Quantity: 2}).ID)
	if v.Order.TotalMinor != 2999+2*820 || v.Order.Currency != "eur" || v.Lines[0].Name != "Dearer key" {
		t.Errorf("order %+v of %+v", v.Order, v.Lines)
	}
	if got := s.count(`SELECT count(*) FROM products`); got != 3 {
		t.Errorf("%d products, want 3", got)
	}
}

func TestImportProducts_AllOrNone(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	before := s.dump()
	err := s.ImportProducts(t.Context(), []orders.Product{
		{SKU: "NEW-1", Name: "New", UnitMinor: 1, Currency: "usd"}, {SKU: "NEW-2", Name: "New", UnitMinor: -1, Currency: "usd"},
	})
	wantConstraint(t, err, "products_unit_not_negative")
	if diff := cmp.Diff(before, s.dump()); diff != "" {
		t.Errorf("half an import stayed (-before +after):\n%s", diff)
	}
}

// B20: a price that Stripe cannot be told is refused before anybody orders it; the field says
// whether it is the currency or the amount.
func TestB20_ReadProducts_UnpayablePrices(t *testing.T) {
	t.Parallel()
	for line, field := range map[string]string{
		"A,A,100,jpy": "", "A,A,18600,kwd": "", "A,A,100,isk": "", "A,A,500,huf": "", "A,A,200,mga": "", "A,A,999999,isk": "",
		"A,A,500,ugx": "currency", "A,A,500,iqd": "currency", "A,A,500,clf": "currency", "A,A,0,ugx": "currency",
		"A,A,18601,kwd": "unit_minor", "A,A,150,mga": "unit_minor", "A,A,1000000,isk": "unit_minor",
	} {
		_, err := orders.ReadProducts(strings.NewReader("sku,name,unit_minor,currency\n" + line + "\n"))
		switch {
		case field == "" && err != nil:
			t.Errorf("%s: %v", line, err)
		case field != "" && (err == nil || !strings.HasPrefix(err.Error(), "line 2: "+field+": ")):
			t.Errorf("%s: got %v, want a fault of %s", line, err, field)
		}
	}
}
