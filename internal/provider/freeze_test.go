package provider

// Inside the package, for freeze and thaw. Pure.

import (
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"pgregory.net/rapid"

	"paidonce/internal/money"
)

// TestFreeze_ThawsToTheSameBytes (I7): what is written down is what is sent, whatever text
// buyers and merchants come with.
func TestFreeze_ThawsToTheSameBytes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.StringOf(rapid.SampledFrom([]rune("&=+%[]# ✓\n\x00;?/{}"))))
		request := CheckoutRequest{
			Email:      text.Draw(t, "email"),
			SuccessURL: text.Draw(t, "success"), CancelURL: text.Draw(t, "cancel"),
		}
		for range rapid.IntRange(0, 12).Draw(t, "items") {
			request.Items = append(request.Items, CheckoutItem{
				Name: text.Draw(t, "name"), Quantity: rapid.IntRange(1, 1000).Draw(t, "quantity"),
				Unit: money.Amount{Minor: rapid.Int64Range(0, 99_999_999).Draw(t, "unit"), Currency: "usd"},
			})
		}
		frozen := request.Call().Params
		values, err := thaw(frozen)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(frozen), values.Encode()); diff != "" {
			t.Fatalf("(-frozen +sent)\n%s", diff)
		}

		// And they say what was asked for.
		form, err := url.ParseQuery(string(frozen))
		if err != nil {
			t.Fatal(err)
		}
		if form.Get("customer_email") != request.Email || form.Get("success_url") != request.SuccessURL || form.Get("mode") != "payment" {
			t.Fatalf("form %v of %+v", form, request)
		}
		for i, item := range request.Items {
			name := "line_items[" + strconv.Itoa(i) + "][price_data][product_data][name]"
			if form.Get(name) != item.Name {
				t.Fatalf("%s is %q, want %q", name, form.Get(name), item.Name)
			}
		}
	})
}

// Order is part of the bytes: a map of the values would lose it.
func TestThaw(t *testing.T) {
	t.Parallel()
	for name, frozen := range map[string]string{
		"nothing": "", "order": "z=1&a=2&m[b]=3&m[a]=4", "twice": "a=1&a=2", "empty": "a=&b=", "escapes": "a%26=b%3D+c&d[e]=%C3%A4",
	} {
		values, err := thaw([]byte(frozen))
		if err != nil || values.Encode() != frozen {
			t.Errorf("%s: got %q, %v; want %q", name, values.Encode(), err, frozen)
		}
	}
	for _, torn := range []string{"a=%zz", "%=1", "a=%2"} {
		if _, err := thaw([]byte(torn)); err == nil {
			t.Errorf("%q was thawed", torn)
		}
	}
}

// TestFulfillRequest_FitsStripesLimits: 50 keys of 40 characters, 500 characters a value
// (https://docs.stripe.com/api/metadata). Beyond what fits, the count still tells.
func TestFulfillRequest_FitsStripesLimits(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ licenses, written, values int }{
		{0, 0, 0}, {1, 1, 1}, {13, 13, 1}, {14, 14, 2}, {26, 26, 2}, {27, 27, 3}, {520, 520, 40}, {521, 520, 40}, {1000, 520, 40},
	} {
		request := FulfillRequest{OrderID: uuid.Must(uuid.NewV7()), PaymentIntentID: "pi_1"}
		for range test.licenses {
			request.LicenseIDs = append(request.LicenseIDs, uuid.Must(uuid.NewV7()))
		}
		call := request.Call()
		form, err := url.ParseQuery(string(call.Params))
		if err != nil {
			t.Fatal(err)
		}
		values, written := 0, map[string]bool{}
		for name := range form {
			key := strings.TrimSuffix(strings.TrimPrefix(name, "metadata["), "]")
			if len(key) > 40 || len(form.Get(name)) > 500 || form.Get(name) == "" {
				t.Errorf("%d licenses: %s has %d characters", test.licenses, name, len(form.Get(name)))
			}
			if strings.HasPrefix(key, licensePrefix) {
				values++
				for id := range strings.SplitSeq(form.Get(name), ",") {
					written[id] = true
				}
			}
		}
		if len(form) > 50 || values != test.values || len(written) != test.written {
			t.Errorf("%d licenses: %d keys, %d of them with %d ids; want %d with %d", test.licenses, len(form), values, len(written), test.values, test.written)
		}
		if got := form.Get("metadata[paidonce_license_count]"); got != strconv.Itoa(test.licenses) || form.Get("metadata["+OrderMarker+"]") != request.OrderID.String() {
			t.Errorf("%d licenses: count %s in %v", test.licenses, got, form)
		}
		if call.IdempotencyKey != "fulfill:"+request.OrderID.String() || call.Path != "/v1/payment_intents/pi_1" || call.SubjectID != request.OrderID {
			t.Errorf("call %+v", call)
		}
	}
}

// Whatever the order in which the licenses are read, the request is the same bytes.
func TestFulfillRequest_DoesNotAskForTheOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		request := FulfillRequest{OrderID: uuid.Max, PaymentIntentID: "pi_1"}
		for i := range rapid.IntRange(1, 40).Draw(t, "licenses") {
			request.LicenseIDs = append(request.LicenseIDs, uuid.UUID{15: byte(i)})
		}
		want := string(request.Call().Params)
		request.LicenseIDs = rapid.Permutation(request.LicenseIDs).Draw(t, "permuted")
		if got := string(request.Call().Params); got != want {
			t.Fatalf("got %s, want %s", got, want)
		}
	})
}

// The exact bytes of one request: a license's worth of a contract with Stripe.
func TestFulfillRequest_Golden(t *testing.T) {
	t.Parallel()
	order, a, b := uuid.UUID{15: 1}, uuid.UUID{15: 2}, uuid.UUID{15: 3}
	got := string(FulfillRequest{OrderID: order, PaymentIntentID: "pi_1", LicenseIDs: []uuid.UUID{b, a}}.Call().Params)
	want := "metadata[paidonce_license_count]=2" +
		"&metadata[paidonce_licenses]=00000000-0000-0000-0000-000000000002%2C00000000-0000-0000-0000-000000000003" +
		"&metadata[paidonce_order]=00000000-0000-0000-0000-000000000001"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
