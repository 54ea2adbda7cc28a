package webhooks_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"paidonce/webhooks"
)

// Short names for what Parse answers.
func succeeded(received, intended int64, currency string, ids ...string) webhooks.Event {
	return webhooks.Event{
		Handled: true, Resources: ids, Status: webhooks.StatusSucceeded, ReceivedMinor: received, IntendedMinor: intended, Currency: currency,
	}
}

func says(status webhooks.Status, ids ...string) webhooks.Event {
	return webhooks.Event{Handled: true, Resources: ids, Status: status}
}

func hint(ids ...string) webhooks.Event {
	return webhooks.Event{Handled: true, Resources: ids, Hint: true}
}

func unhandled(ids ...string) webhooks.Event { return webhooks.Event{Resources: ids} }

// Every row of the table in Parse's comment, and what lies beside it.
func TestParse_WhichFieldIsEvidenceOfWhat(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		kind, object string
		want         webhooks.Event
	}{
		// Sessions: the total is received where the session says it is paid.
		{
			"checkout.session.completed", `{"id":"cs_1","payment_intent":"pi_1","payment_status":"paid","amount_total":1999,"currency":"usd"}`,
			succeeded(1999, 1999, "usd", "cs_1", "pi_1"),
		},
		{
			"checkout.session.completed", `{"id":"cs_1","payment_intent":null,"payment_status":"no_payment_required","amount_total":0,"currency":"usd"}`,
			succeeded(0, 0, "usd", "cs_1"),
		},
		{"checkout.session.completed", `{"id":"cs_1","payment_status":"unpaid","amount_total":1999,"currency":"usd"}`, says(webhooks.StatusProcessing, "cs_1")},
		{"checkout.session.completed", `{"id":"cs_1","payment_status":"a_new_one","amount_total":1999,"currency":"usd"}`, hint("cs_1")},
		{"checkout.session.completed", `{"id":"cs_1","amount_total":1999,"currency":"usd"}`, hint("cs_1")},
		{
			"checkout.session.async_payment_succeeded", `{"id":"cs_1","payment_status":"paid","amount_total":5,"currency":"EUR","invoice":"in_1"}`,
			succeeded(5, 5, "eur", "cs_1", "in_1"),
		},
		{"checkout.session.async_payment_failed", `{"id":"cs_1","payment_status":"unpaid","amount_total":5,"currency":"eur"}`, says(webhooks.StatusFailed, "cs_1")},
		{"checkout.session.expired", `{"id":"cs_1","payment_status":"unpaid"}`, says(webhooks.StatusExpired, "cs_1")},
		{"checkout.session.a_new_one", `{"id":"cs_1","payment_status":"paid","amount_total":5,"currency":"eur"}`, unhandled("cs_1")},

		// Intents: what was received counts, and what was asked for is kept beside it (B49).
		{
			"payment_intent.succeeded", `{"id":"pi_1","latest_charge":"ch_1","amount":1999,"amount_received":1999,"currency":"usd"}`,
			succeeded(1999, 1999, "usd", "pi_1", "ch_1"),
		},
		{"payment_intent.succeeded", `{"id":"pi_1","amount":2000,"amount_received":500,"currency":"usd"}`, succeeded(500, 2000, "usd", "pi_1")},
		{"payment_intent.processing", `{"id":"pi_1","amount":1999,"amount_received":0,"currency":"usd"}`, says(webhooks.StatusProcessing, "pi_1")},
		{"payment_intent.canceled", `{"id":"pi_1"}`, says(webhooks.StatusCanceled, "pi_1")},
		{"payment_intent.payment_failed", `{"id":"pi_1","amount":1999,"currency":"usd"}`, says(webhooks.StatusNone, "pi_1")},
		{"payment_intent.created", `{"id":"pi_1","amount":1999,"currency":"usd"}`, unhandled("pi_1")},
		{
			"payment_intent.amount_capturable_updated", `{"id":"pi_1","status":"requires_capture","amount":1999,"amount_capturable":1999,"currency":"usd"}`,
			says(webhooks.StatusNone, "pi_1"),
		},
		{"payment_intent.partially_funded", `{"id":"pi_1","amount":1999,"amount_received":500,"currency":"usd"}`, says(webhooks.StatusNone, "pi_1")},

		// Charges: authorized is not received.
		{
			"charge.succeeded", `{"id":"ch_1","payment_intent":"pi_1","captured":true,"amount":1999,"amount_captured":1999,"currency":"usd"}`,
			succeeded(1999, 1999, "usd", "ch_1", "pi_1"),
		},
		{"charge.succeeded", `{"id":"ch_1","captured":true,"amount":2000,"amount_captured":500,"currency":"usd"}`, succeeded(500, 2000, "usd", "ch_1")},
		{"charge.succeeded", `{"id":"ch_1","captured":false,"amount":1999,"amount_captured":0,"currency":"usd"}`, says(webhooks.StatusNone, "ch_1")},
		{"charge.succeeded", `{"id":"ch_1","captured":false,"amount":1999,"amount_captured":1999,"currency":"usd"}`, says(webhooks.StatusNone, "ch_1")},
		{"charge.succeeded", `{"id":"ch_1","captured":"true","amount":1999,"amount_captured":1999,"currency":"usd"}`, says(webhooks.StatusNone, "ch_1")},

		{
			"charge.captured", `{"id":"ch_1","payment_intent":"pi_1","captured":true,"amount":2000,"amount_captured":500,"currency":"usd"}`,
			succeeded(500, 2000, "usd", "ch_1", "pi_1"),
		},

		// Refunds and disputes, of both families: whatever they say is only a reason to read. Their own ids
		// name no payment.
		{"charge.refunded", `{"id":"ch_1","payment_intent":"pi_1","amount":1999,"amount_refunded":1999,"refunded":true}`, hint("ch_1", "pi_1")},
		{"charge.refund.updated", `{"id":"re_1","payment_intent":"pi_1","charge":"ch_1","status":"failed","amount":1999}`, hint("pi_1", "ch_1")},
		{"refund.created", `{"id":"re_1","payment_intent":{"id":"pi_1"},"charge":"ch_1","status":"succeeded","amount":1999}`, hint("pi_1", "ch_1")},
		{"refund.updated", `{"id":"re_1","charge":"ch_1"}`, hint("ch_1")},
		{"refund.failed", `{"id":"re_1","payment_intent":"pi_1","charge":null}`, hint("pi_1")},
		{"charge.dispute.created", `{"id":"dp_1","payment_intent":"pi_1","charge":"ch_1","status":"lost"}`, hint("pi_1", "ch_1")},
		{"charge.dispute.updated", `{"id":"dp_1","charge":"ch_1"}`, hint("ch_1")},
		{"charge.dispute.closed", `{"id":"dp_1","charge":"ch_1","status":"won"}`, hint("ch_1")},
		{"charge.dispute.funds_withdrawn", `{"id":"dp_1","charge":"ch_1"}`, hint("ch_1")},
		{"charge.dispute.funds_reinstated", `{"id":"dp_1","charge":"ch_1"}`, hint("ch_1")},
		{"refund.created", `{"id":"re_1","charge":null,"payment_intent":null}`, hint()},

		// Anything else says nothing about payments.
		{"charge.updated", `{"id":"ch_1","captured":true,"amount":1,"amount_captured":1,"currency":"usd"}`, unhandled()},
		{"charge.succeeded.again", `{"id":"ch_1"}`, unhandled()},
		{"customer.created", `{"id":"cus_1"}`, unhandled()},
		{"checkout.session", `{"id":"cs_1","payment_status":"paid","amount_total":5,"currency":"eur"}`, unhandled()},
	} {
		got, err := (&webhooks.Stripe{}).Parse(event("evt_1", c.kind, c.object))
		if diff := cmp.Diff(c.want, got); err != nil || diff != "" {
			t.Errorf("%s %s: %v (-want +got)\n%s", c.kind, c.object, err, diff)
		}
	}
}

// What does not state its money in whole minor units is a hint to read the payment: never money,
// and never a payment of zero.
func TestParse_OddAmountsAreHints(t *testing.T) {
	t.Parallel()
	objects := map[string]string{
		"checkout.session.completed": `{"id":"x_1","payment_status":"paid","amount_total":%,"currency":"usd"}`,
		"payment_intent.succeeded":   `{"id":"x_1","amount":1999,"amount_received":%,"currency":"usd"}`,
		"charge.succeeded":           `{"id":"x_1","captured":true,"amount":1999,"amount_captured":%,"currency":"usd"}`,
	}
	for kind, object := range objects {
		for _, amount := range []string{
			`null`, `"1999"`, `19.99`, `1999.0`, `-1`, `-0`, `1e3`, `1E3`, `true`, `{}`, `[1999]`, `""`, `1234567890123456789`, `99999999999999999999`,
		} {
			got, err := (&webhooks.Stripe{}).Parse(event("evt_1", kind, strings.Replace(object, "%", amount, 1)))
			if diff := cmp.Diff(hint("x_1"), got); err != nil || diff != "" {
				t.Errorf("%s of %s: %v (-want +got)\n%s", kind, amount, err, diff)
			}
		}
	}
}

// A success without a part of its money is a hint too, whichever part is missing.
func TestParse_MissingMoneyIsAHint(t *testing.T) {
	t.Parallel()
	for kind, objects := range map[string][]string{
		"checkout.session.completed": {
			`{"id":"x_1","payment_status":"paid","currency":"usd"}`,
			`{"id":"x_1","payment_status":"paid","amount_total":1999}`,
			`{"id":"x_1","payment_status":"paid","amount_total":1999,"currency":null}`,
			`{"id":"x_1","payment_status":"paid","amount_total":1999,"currency":""}`,
			`{"id":"x_1","payment_status":"paid","Amount_Total":1999,"currency":"usd"}`,
			`{"id":"x_1","payment_status":"no_payment_required","amount_total":null,"currency":null}`,
		},
		"payment_intent.succeeded": {
			`{"id":"x_1","amount":1999,"currency":"usd"}`,
			`{"id":"x_1","amount_received":1999,"currency":"usd"}`,
			`{"id":"x_1","amount_received":1999,"amount":1999}`,
		},
		"charge.succeeded": {
			`{"id":"x_1","captured":true,"amount":1999,"currency":"usd"}`,
			`{"id":"x_1","captured":true,"amount_captured":1999,"currency":"usd"}`,
		},
	} {
		for _, object := range objects {
			got, err := (&webhooks.Stripe{}).Parse(event("evt_1", kind, object))
			if diff := cmp.Diff(hint("x_1"), got); err != nil || diff != "" {
				t.Errorf("%s %s: %v (-want +got)\n%s", kind, object, err, diff)
			}
		}
	}
}

// The buyer's own currency is for showing; the money is in the session's.
func TestParse_PresentmentIsNotTheMoney(t *testing.T) {
	t.Parallel()
	got, err := (&webhooks.Stripe{}).Parse(event("evt_1", "checkout.session.completed",
		`{"id":"cs_1","payment_status":"paid","amount_total":1999,"currency":"usd","presentment_details":{"presentment_amount":1852,"presentment_currency":"eur"}}`))
	if diff := cmp.Diff(succeeded(1999, 1999, "usd", "cs_1"), got); err != nil || diff != "" {
		t.Errorf("%v (-want +got)\n%s", err, diff)
	}
}

// B54: an amount or a reference above 2^53 keeps its digits.
func TestB54_Parse_LargeNumbersKeepTheirDigits(t *testing.T) {
	t.Parallel()
	got, err := (&webhooks.Stripe{}).Parse(event("evt_1", "payment_intent.succeeded",
		`{"id":"pi_1","amount":9007199254740993,"amount_received":999999999999999999,"currency":"idr","metadata":{"paidonce_order":"9007199254740993"}}`))
	want := succeeded(999999999999999999, 9007199254740993, "idr", "pi_1")
	want.OrderHint = "9007199254740993"
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got)\n%s", err, diff)
	}
}

func TestParse_ResourcesAndMarker(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		object, marker string
		ids            []string
	}{
		// Plain ids, expanded objects, and what is neither.
		{`{"id":"cs_1","payment_intent":"pi_1","invoice":"in_1"}`, "", []string{"cs_1", "pi_1", "in_1"}},
		{`{"id":"cs_1","payment_intent":{"id":"pi_1","object":"payment_intent"},"invoice":{"id":"in_1"}}`, "", []string{"cs_1", "pi_1", "in_1"}},
		{`{"id":"cs_1","payment_intent":null,"invoice":7}`, "", []string{"cs_1"}},
		{`{"id":"cs_1","payment_intent":{"id":null},"invoice":["in_1"]}`, "", []string{"cs_1"}},
		{`{"id":"cs_1","payment_intent":"","invoice":"in_\u0000"}`, "", []string{"cs_1"}},
		{`{"id":7,"payment_intent":"pi_1"}`, "", []string{"pi_1"}},
		{`{"ID":"cs_1"}`, "", nil},

		// Our own marker, made storable; any other shape is none.
		{`{"id":"cs_1","metadata":{"paidonce_order":"o-1"}}`, "o-1", []string{"cs_1"}},
		{`{"id":"cs_1","metadata":{"paidonce_order":"o\u0000"}}`, "o\uFFFD", []string{"cs_1"}},
		{`{"id":"cs_1","metadata":{"paidonce_order":9007199254740993}}`, "", []string{"cs_1"}},
		{`{"id":"cs_1","metadata":{"Paidonce_Order":"o-1"}}`, "", []string{"cs_1"}},
		{`{"id":"cs_1","metadata":null,"client_reference_id":"o-1"}`, "", []string{"cs_1"}},
	} {
		got, err := (&webhooks.Stripe{}).Parse(event("evt_1", "checkout.session.expired", c.object))
		want := says(webhooks.StatusExpired, c.ids...)
		want.OrderHint = c.marker
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got)\n%s", c.object, err, diff)
		}
	}
}

func TestParse_TheCheckoutsCreationIsTheSessions(t *testing.T) {
	t.Parallel()
	for kind, want := range map[string]time.Time{
		"checkout.session.completed": time.Unix(1_600_000_000, 0).UTC(),
		"payment_intent.succeeded":   {},
		"charge.succeeded":           {},
	} {
		got, err := (&webhooks.Stripe{}).Parse(event("evt_1", kind, `{"id":"x_1","created":1600000000}`))
		if err != nil || !got.CheckoutCreatedAt.Equal(want) {
			t.Errorf("%s: got %s, %v; want %s", kind, got.CheckoutCreatedAt, err, want)
		}
	}
}

// B06: a thin event, or one that carries no object, is unsupported; it is no panic and no payment.
func TestB06_Parse_EventsWithoutAnObject(t *testing.T) {
	t.Parallel()
	for _, body := range []string{
		`{"id":"evt_v2","object":"v2.core.event","type":"v2.core.account.updated","created":"2025-01-01T00:00:00.000Z","related_object":{"id":"acct_1"}}`,
		`{"id":"evt_v2","object":"v2.core.event","type":"checkout.session.completed","data":{"object":{"id":"cs_1","payment_status":"paid","amount_total":1,"currency":"usd"}}}`,
		`{"id":"evt_1","object":"event","type":"checkout.session.completed"}`,
		`{"id":"evt_1","object":"event","type":"checkout.session.completed","data":{}}`,
		`{"id":"evt_1","object":"event","type":"checkout.session.completed","data":null}`,
		`{"id":"evt_1","object":"event","type":"checkout.session.completed","data":{"object":null}}`,
		`{"id":"evt_1","object":"event","type":"checkout.session.completed","data":{"object":[]}}`,
		`{"id":"evt_1","object":"event","type":"checkout.session.completed","data":{"object":"cs_1"}}`,
		`null`, `[]`, ``, `{`,
	} {
		got, err := (&webhooks.Stripe{}).Parse([]byte(body))
		if !errors.Is(err, webhooks.ErrUnsupported) {
			t.Errorf("%s: got %+v, %v; want it unsupported", body, got, err)
		}
	}
}

// The list that endpoints are made with is what Parse reads: one that is missing there would
// never come, one too many is stored for nothing. Of every type that the pinned library
// knows, Parse reads those of the list and no other.
func TestStripeEventTypes_AreThoseThatParseReads(t *testing.T) {
	t.Parallel()
	listed := webhooks.StripeEventTypes()
	for _, kind := range stripeTypes(t) {
		event, err := (&webhooks.Stripe{}).Parse([]byte(`{"object":"event","type":"` + kind + `","data":{"object":{"id":"x_1"}}}`))
		if err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
		if event.Handled != slices.Contains(listed, kind) {
			t.Errorf("%s: Parse reads it: %t; in StripeEventTypes: %t", kind, event.Handled, slices.Contains(listed, kind))
		}
	}
	comment, err := os.ReadFile("stripe_event.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range listed {
		if !strings.Contains(string(comment), "//\t"+kind+" ") {
			t.Errorf("%s is not in the table of Parse's comment", kind)
		}
	}
}

// stripeTypes lists every event type of the pinned library, from its source.
func stripeTypes(t *testing.T) []string {
	t.Helper()
	dir, err := exec.Command("go", "list", "-f", "{{.Dir}}", "github.com/stripe/stripe-go/v79").Output()
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "event.go"))
	if err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for _, match := range regexp.MustCompile(`EventType = "([a-z0-9_.]+)"`).FindAllStringSubmatch(string(source), -1) {
		kinds = append(kinds, match[1])
	}
	if len(kinds) < 200 {
		t.Fatalf("found %d event types in the library", len(kinds))
	}
	return kinds
}
