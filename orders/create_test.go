package orders_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"gorm.io/gorm"

	"paidonce/internal/provider"
	"paidonce/orders"
)

func callOf(o sale) provider.Call {
	return provider.Call{IdempotencyKey: o.CallKey, SubjectID: o.PaymentID}
}

func TestCreate_WritesAllOfIt(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	m := merchant()
	m.Livemode, m.Account = true, "acct_1"
	created, err := s.Create(t.Context(), m, orders.NewOrder{
		Email: " a+b@example.com ", Locale: "de-AT",
		Items: []orders.Item{{SKU: "KEY-2", Quantity: 2}, {SKU: "KEY-1", Quantity: 3}},
	})
	must(t, err)

	id := created.Order.ID
	v := s.view(id)
	wantOrder := orders.Order{
		ID: id, Number: 1, Email: "a+b@example.com", Locale: "de-AT", Currency: "usd", TotalMinor: 2*820 + 3*1999,
		State: orders.Pending, Decision: orders.NoDecision, CreatedAt: openedAt(), UpdatedAt: openedAt(),
	}
	if diff := cmp.Diff(wantOrder, v.Order); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(wantOrder, created.Order); diff != "" {
		t.Errorf("answered order (-want +got):\n%s", diff)
	}
	wantLines := []orders.Line{
		{ID: v.Lines[0].ID, OrderID: id, Position: 1, SKU: "KEY-2", Name: "Small key", Quantity: 2, UnitMinor: 820},
		{ID: v.Lines[1].ID, OrderID: id, Position: 2, SKU: "KEY-1", Name: "Key", Quantity: 3, UnitMinor: 1999},
	}
	if diff := cmp.Diff(wantLines, v.Lines); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
	wantPayments := []orders.Payment{{
		ID: created.PaymentID, OrderID: id, Provider: "stripe", Livemode: true, Account: "acct_1", Currency: "usd",
		ExpectedMinor: 2*820 + 3*1999, Status: orders.StatusOpen, CreatedAt: openedAt(), UpdatedAt: openedAt(),
	}}
	if diff := cmp.Diff(wantPayments, v.Payments); diff != "" {
		t.Errorf("payments (-want +got):\n%s", diff)
	}
	if id.Version() != 7 || len(v.Transitions) != 0 || v.CheckoutURL() != "" {
		t.Errorf("id %s, transitions %v, checkout %q", id, v.Transitions, v.CheckoutURL())
	}
}

// The call that opens the checkout is frozen when the order is made: the exact bytes that
// will be sent, and a job for it, in the same transaction.
func TestCreate_FreezesTheCheckoutCall(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	created, err := s.Create(t.Context(), merchant(), orders.NewOrder{
		Email: "a+b@example.com", Items: []orders.Item{{SKU: "KEY-1", Quantity: 2}, {SKU: "KEY-2", Quantity: 1}},
	})
	must(t, err)

	var got provider.Call
	must(t, s.DB.First(&got).Error)
	order := created.Order.ID.String()
	base := "https%3A%2F%2Fshop.example%2Forders%2F" + order
	line := func(i int, name string, unit, quantity int) string {
		at := fmt.Sprintf("line_items[%d]", i)
		return fmt.Sprintf("%[1]s[price_data][currency]=usd&%[1]s[price_data][product_data][name]=%[2]s&%[1]s[price_data][unit_amount]=%[3]d&%[1]s[quantity]=%[4]d",
			at, name, unit, quantity)
	}
	want := strings.Join([]string{
		"cancel_url=" + base,
		"client_reference_id=" + order,
		"customer_email=a%2Bb%40example.com",
		line(0, "Key", 1999, 2),
		line(1, "Small+key", 820, 1),
		"metadata[paidonce_order]=" + order,
		"metadata[paidonce_payment]=" + created.PaymentID.String(),
		"mode=payment",
		"payment_intent_data[metadata][paidonce_order]=" + order,
		"payment_intent_data[metadata][paidonce_payment]=" + created.PaymentID.String(),
		"success_url=" + base + "%2Freturn%3Fsession_id%3D%7BCHECKOUT_SESSION_ID%7D",
	}, "&")
	if diff := cmp.Diff(want, string(got.Params)); diff != "" {
		t.Errorf("params (-want +got):\n%s", diff)
	}
	got.Params = nil
	wantCall := provider.Call{
		IdempotencyKey: "checkout:" + created.PaymentID.String(), Provider: "stripe", Operation: provider.OpCheckout,
		SubjectID: created.PaymentID, Path: "/v1/checkout/sessions", State: provider.CallIntended, CreatedAt: openedAt(),
	}
	if diff := cmp.Diff(wantCall, got); diff != "" || created.CallKey != got.IdempotencyKey {
		t.Errorf("call %s (-want +got):\n%s", created.CallKey, diff)
	}
	if s.count(`SELECT count(*) FROM enqueued WHERE idempotency_key = ?`, created.CallKey) != 1 {
		t.Error("the call has no job")
	}
	if _, err := url.ParseQuery(want); err != nil {
		t.Errorf("the golden body is no form: %v", err)
	}
}

func TestCreate_NamesTheFault(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	must(t, s.DB.Exec(`INSERT INTO products VALUES ('OLD-1', 'Old', 100, 'usd', false, now()), ('BIG-1', 'Big', 99999999, 'usd', true, now())`).Error)
	item := func(sku string, quantity int) []orders.Item { return []orders.Item{{SKU: sku, Quantity: quantity}} }
	one := item("KEY-1", 1)
	before := s.dump()
	for name, test := range map[string]struct {
		order orders.NewOrder
		field string // "" if there is no fault
	}{
		// Items.
		"none":                  {orders.NewOrder{Email: "a@example.com"}, "items"},
		"101 lines":             {orders.NewOrder{Email: "a@example.com", Items: slices.Repeat(one, 101)}, "items"},
		"no sku":                {orders.NewOrder{Email: "a@example.com", Items: item("", 1)}, "items[0].sku"},
		"an unknown sku":        {orders.NewOrder{Email: "a@example.com", Items: append(slices.Clone(one), orders.Item{SKU: "KEY-9", Quantity: 1})}, "items[1].sku"},
		"a sku in other case":   {orders.NewOrder{Email: "a@example.com", Items: item("key-1", 1)}, "items[0].sku"},
		"an inactive sku":       {orders.NewOrder{Email: "a@example.com", Items: item("OLD-1", 1)}, "items[0].sku"},
		"a sku with a NUL":      {orders.NewOrder{Email: "a@example.com", Items: item("KEY-1\x00", 1)}, "items[0].sku"},
		"a sku that is no text": {orders.NewOrder{Email: "a@example.com", Items: item("KEY\xff", 1)}, "items[0].sku"},
		"quantity 0":            {orders.NewOrder{Email: "a@example.com", Items: item("KEY-1", 0)}, "items[0].quantity"},
		"quantity -1":           {orders.NewOrder{Email: "a@example.com", Items: item("KEY-1", -1)}, "items[0].quantity"},
		"quantity 1001":         {orders.NewOrder{Email: "a@example.com", Items: item("KEY-1", 1001)}, "items[0].quantity"},
		"1001 units in 2 lines": {orders.NewOrder{Email: "a@example.com", Items: append(item("KEY-1", 1000), item("KEY-1", 1)...)}, "items"},
		"two currencies":        {orders.NewOrder{Email: "a@example.com", Items: append(slices.Clone(one), orders.Item{SKU: "YEN-1", Quantity: 1})}, "items[1].sku"},
		"one over the limit":    {orders.NewOrder{Email: "a@example.com", Items: append(item("BIG-1", 1), orders.Item{SKU: "KEY-2", Quantity: 1})}, "items"},
		"far over the limit":    {orders.NewOrder{Email: "a@example.com", Items: slices.Repeat(item("BIG-1", 1000), 100)}, "items"},

		// Addresses.
		"no address":           {orders.NewOrder{Email: "", Items: one}, "email"},
		"blank":                {orders.NewOrder{Email: "  ", Items: one}, "email"},
		"no at":                {orders.NewOrder{Email: "a.example.com", Items: one}, "email"},
		"a name before it":     {orders.NewOrder{Email: "Eve <a@example.com>", Items: one}, "email"},
		"in brackets":          {orders.NewOrder{Email: "<a@example.com>", Items: one}, "email"},
		"a comment after it":   {orders.NewOrder{Email: "a@example.com (Eve)", Items: one}, "email"},
		"two addresses":        {orders.NewOrder{Email: "a@example.com,b@example.com", Items: one}, "email"},
		"two with a semicolon": {orders.NewOrder{Email: "a@example.com;b@example.com", Items: one}, "email"},
		"a header behind it":   {orders.NewOrder{Email: "a@example.com\r\nBcc: x@example.org", Items: one}, "email"},
		"a header before it":   {orders.NewOrder{Email: "x\r\nBcc: a@example.com", Items: one}, "email"},
		"a lone line feed":     {orders.NewOrder{Email: "a\n@example.com", Items: one}, "email"},
		"a NUL":                {orders.NewOrder{Email: "a\x00@example.com", Items: one}, "email"},
		"a next line":          {orders.NewOrder{Email: "a\u0085b@example.com", Items: one}, "email"},
		"a line separator":     {orders.NewOrder{Email: "a\u2028b@example.com", Items: one}, "email"},
		"a turned direction":   {orders.NewOrder{Email: "a@example.com\u202e", Items: one}, "email"},
		"something invisible":  {orders.NewOrder{Email: "a\u200b@example.com", Items: one}, "email"},
		"255 characters":       {orders.NewOrder{Email: strings.Repeat("a", 243) + "@example.com", Items: one}, "email"},

		// The rest.
		"an unknown provider": {orders.NewOrder{Email: "a@example.com", Provider: "paypal", Items: one}, "provider"},
		"a locale of words":   {orders.NewOrder{Email: "a@example.com", Locale: "klingon please", Items: one}, "locale"},
		"a locale of one":     {orders.NewOrder{Email: "a@example.com", Locale: "e", Items: one}, "locale"},
		"a locale and a line": {orders.NewOrder{Email: "a@example.com", Locale: "en\n", Items: one}, "locale"},

		// Of several faults, the one that comes first in the order of the fields is named.
		"address and items":     {orders.NewOrder{Email: "x", Locale: "!", Provider: "y"}, "email"},
		"provider and locale":   {orders.NewOrder{Email: "a@example.com", Locale: "!", Provider: "y"}, "provider"},
		"locale and items":      {orders.NewOrder{Email: "a@example.com", Locale: "!"}, "locale"},
		"two items":             {orders.NewOrder{Email: "a@example.com", Items: []orders.Item{{SKU: "KEY-1", Quantity: 0}, {SKU: "", Quantity: 1}}}, "items[0].quantity"},
		"quantity before price": {orders.NewOrder{Email: "a@example.com", Items: []orders.Item{{SKU: "KEY-9", Quantity: 1}, {SKU: "KEY-1", Quantity: 0}}}, "items[1].quantity"},
	} {
		_, err := s.Create(t.Context(), merchant(), test.order)
		var fault *orders.InputError
		if !errors.As(err, &fault) || fault.Field != test.field || fault.Detail == "" || !strings.HasPrefix(err.Error(), test.field+": ") {
			t.Errorf("%s: got %v, want a fault of %s", name, err, test.field)
		}
	}
	if diff := cmp.Diff(before, s.dump()); diff != "" {
		t.Errorf("a refused order left rows (-before +after):\n%s", diff)
	}
}

// The limits themselves are allowed, and so is what only looks odd.
func TestCreate_TakesWhatIsAtTheLimit(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	must(t, s.DB.Exec(`INSERT INTO products VALUES ('BIG-1', 'Big', 99999999, 'usd', true, now()), ('FREE-1', 'Free', 0, 'usd', true, now())`).Error)
	for name, test := range map[string]struct {
		order orders.NewOrder
		total int64
	}{
		"100 lines of one sku": {orders.NewOrder{Items: slices.Repeat([]orders.Item{{SKU: "KEY-2", Quantity: 1}}, 100)}, 82000},
		"quantity 1000":        {orders.NewOrder{Items: []orders.Item{{SKU: "KEY-1", Quantity: 1000}}}, 1999000},
		"the largest total":    {orders.NewOrder{Items: []orders.Item{{SKU: "BIG-1", Quantity: 1}}}, 99999999},
		"nothing to pay":       {orders.NewOrder{Items: []orders.Item{{SKU: "FREE-1", Quantity: 2}}}, 0},
		"yen":                  {orders.NewOrder{Items: []orders.Item{{SKU: "YEN-1", Quantity: 3}}}, 300},
		"an address with +":    {orders.NewOrder{Email: "a+tag@sub.example.com", Items: []orders.Item{{SKU: "KEY-1", Quantity: 1}}}, 1999},
		"an address in Greek":  {orders.NewOrder{Email: "δοκιμή@παράδειγμα.gr", Items: []orders.Item{{SKU: "KEY-1", Quantity: 1}}}, 1999},
		"a locale in full":     {orders.NewOrder{Locale: "zh-Hant-TW", Items: []orders.Item{{SKU: "KEY-1", Quantity: 1}}}, 1999},
		"the provider named":   {orders.NewOrder{Provider: "stripe", Items: []orders.Item{{SKU: "KEY-1", Quantity: 1}}}, 1999},
	} {
		if test.order.Email == "" {
			test.order.Email = "a@example.com"
		}
		created, err := s.Create(t.Context(), merchant(), test.order)
		if err != nil || created.Order.TotalMinor != test.total {
			t.Errorf("%s: got %d, %v; want %d", name, created.Order.TotalMinor, err, test.total)
		}
	}
}

// TestB58_MinorUnitsAddUpExactly: 19.99 and 8.20 are 1999 and 820, in every line and sum.
func TestB58_MinorUnitsAddUpExactly(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	for _, test := range []struct{ ofKey1, ofKey2, want int }{{1, 1, 2819}, {3, 2, 7637}, {100, 900, 937900}, {7, 13, 24653}} {
		o := s.order(orders.Item{SKU: "KEY-1", Quantity: test.ofKey1}, orders.Item{SKU: "KEY-2", Quantity: test.ofKey2})
		v := s.view(o.ID)
		if v.Order.TotalMinor != int64(test.want) || v.Payments[0].ExpectedMinor != int64(test.want) {
			t.Errorf("%d × 19.99 and %d × 8.20: total %d, expected %d; want %d",
				test.ofKey1, test.ofKey2, v.Order.TotalMinor, v.Payments[0].ExpectedMinor, test.want)
		}
		var units []int64
		for _, line := range v.Lines {
			units = append(units, line.UnitMinor)
		}
		if !slices.Equal(units, []int64{1999, 820}) {
			t.Errorf("units %v", units)
		}
		if got := s.apply(paid(o.Session, int64(test.want))); got.To != orders.Paid {
			t.Errorf("%d was not taken for the agreed sum: %+v", test.want, got)
		}
	}
}

// TestB59_ARolledBackOrderLeavesNothing: the job is in the order's transaction. If its last
// step fails, there is no order, no call, and no job that could start without them.
func TestB59_ARolledBackOrderLeavesNothing(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	before := s.dump()
	errQueue := errors.New("the queue is full")
	s.Calls.Jobs = enqueuer(func(tx *gorm.DB, c provider.Call) error {
		must(t, s.edges.EnqueueCall(t.Context(), tx, c))
		// Nobody else can see the order, the call or the job yet.
		if n := s.count(`SELECT (SELECT count(*) FROM orders) + (SELECT count(*) FROM provider_calls) + (SELECT count(*) FROM enqueued)`); n != 0 {
			t.Errorf("%d uncommitted rows are visible", n)
		}
		return errQueue
	})
	_, err := s.Create(t.Context(), merchant(), orders.NewOrder{Email: "a@example.com", Items: []orders.Item{{SKU: "KEY-1", Quantity: 1}}})
	if !errors.Is(err, errQueue) {
		t.Errorf("got %v, want the queue's error", err)
	}
	if diff := cmp.Diff(before, s.dump()); diff != "" {
		t.Errorf("the rolled back order left rows (-before +after):\n%s", diff)
	}

	// The caller's own transaction, rolled back after the call was written down.
	errLater := errors.New("something after it failed")
	s.Calls.Jobs = s.edges
	err = s.tx(func(tx *gorm.DB) error {
		call := provider.CheckoutRequest{PaymentID: uuid.New(), OrderID: uuid.New()}.Call()
		must(t, s.Calls.Intend(t.Context(), tx, call))
		return errLater
	})
	if diff := cmp.Diff(before, s.dump()); diff != "" || !errors.Is(err, errLater) {
		t.Errorf("%v; the rolled back call left rows (-before +after):\n%s", err, diff)
	}
}

type enqueuer func(tx *gorm.DB, c provider.Call) error

func (e enqueuer) EnqueueCall(_ context.Context, tx *gorm.DB, c provider.Call) error { return e(tx, c) }
