package webhooks_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"paidonce/webhooks"
)

// envelopeOf reads a body that is signed, whatever it is.
func envelopeOf(body []byte) (webhooks.Envelope, error) {
	return (&webhooks.Stripe{Secrets: []string{secret}}).Verify(header(sign(body, secret, signedAt())), body, signedAt())
}

func TestEnvelope_IsReadFromTheBody(t *testing.T) {
	t.Parallel()
	body := []byte(`{"id":"evt_1","object":"event","type":"checkout.session.completed","created":1700000000,"livemode":true,
		"account":"acct_1","api_version":"2024-06-20","data":{"object":{"id":"cs_1"}}}`)
	got, err := envelopeOf(body)
	must(t, err)
	want := webhooks.Envelope{
		Provider: "stripe", EventID: "evt_1", EventType: "checkout.session.completed", ResourceID: "cs_1",
		Livemode: true, Account: "acct_1", APIVersion: "2024-06-20", OccurredAt: time.Unix(1_700_000_000, 0).UTC(),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestEnvelope_WhatIsNoEventIsRefused(t *testing.T) {
	t.Parallel()
	const long = 256
	for name, body := range map[string]string{
		// Key names are exact: Go's own decoder would take all of these for id.
		"ID":                 `{"ID":"evt_1","type":"x"}`,
		"Id":                 `{"Id":"evt_1","type":"x"}`,
		"Kelvin sign":        "{\"\u212ad\":\"evt_1\",\"type\":\"x\"}",
		"Type":               `{"id":"evt_1","Type":"x"}`,
		"id further down":    `{"data":{"id":"evt_1"},"type":"x"}`,
		"id as a dotted key": `{"a.id":"evt_1","type":"x"}`,

		// Values of other types name nothing.
		"no id":         `{"type":"x"}`,
		"id null":       `{"id":null,"type":"x"}`,
		"id a number":   `{"id":1,"type":"x"}`,
		"id true":       `{"id":true,"type":"x"}`,
		"id an object":  `{"id":{"id":"evt_1"},"type":"x"}`,
		"id a list":     `{"id":["evt_1"],"type":"x"}`,
		"no type":       `{"id":"evt_1"}`,
		"type null":     `{"id":"evt_1","type":null}`,
		"type a number": `{"id":"evt_1","type":7}`,

		// A key of the ledger is printable ASCII of a sane length.
		"id empty":         `{"id":"","type":"x"}`,
		"id with NUL":      `{"id":"evt_1\u0000","type":"x"}`,
		"id with a blank":  `{"id":"evt 1","type":"x"}`,
		"id with newline":  `{"id":"evt_1\n","type":"x"}`,
		"id not ASCII":     `{"id":"evt_é","type":"x"}`,
		"id invalid UTF-8": "{\"id\":\"evt_\xff\",\"type\":\"x\"}",
		"id too long":      `{"id":"` + strings.Repeat("x", long) + `","type":"x"}`,
		"type with NUL":    `{"id":"evt_1","type":"x\u0000"}`,
		"type empty":       `{"id":"evt_1","type":""}`,

		// Not one JSON object.
		"null": `null`, "a number": `1`, "a string": `"evt_1"`, "true": `true`, "empty": ``, "blank": ` `,
		"a list":           `[{"id":"evt_1","type":"x"}]`,
		"byte order mark":  "\xef\xbb\xbf" + `{"id":"evt_1","type":"x"}`,
		"trailing bytes":   `{"id":"evt_1","type":"x"} x`,
		"two objects":      `{"id":"evt_1","type":"x"}{"id":"evt_2","type":"x"}`,
		"lines of objects": "{\"id\":\"evt_1\",\"type\":\"x\"}\n{\"id\":\"evt_2\",\"type\":\"x\"}",
		"cut short":        `{"id":"evt_1","type":"x"`,
		"raw NUL inside":   "{\"id\":\"evt_1\",\"type\":\"x\",\"y\":\"\x00\"}",
		"UTF-16":           "\xff\xfe{\x00}\x00",
		"a form":           `id=evt_1&type=x`,
	} {
		got, err := envelopeOf([]byte(body))
		if !errors.Is(err, webhooks.ErrNotEvent) || got != (webhooks.Envelope{}) {
			t.Errorf("%s: got %+v, %v; want it to be no event", name, got, err)
		}
	}
}

// What the ledger can do without is left out, and refuses no event.
func TestEnvelope_OddFieldsCostNothing(t *testing.T) {
	t.Parallel()
	bare := webhooks.Envelope{Provider: "stripe", EventID: "evt_1", EventType: "x"}
	with := func(change func(*webhooks.Envelope)) webhooks.Envelope { e := bare; change(&e); return e }
	beta := "2018-08-23; " + strings.Repeat("orders_beta=v3; ", 40)
	for name, c := range map[string]struct {
		fields string
		want   webhooks.Envelope
	}{
		"nothing more":            {``, bare},
		"no data object":          {`,"data":{}`, bare},
		"object null":             {`,"data":{"object":null}`, bare},
		"data null":               {`,"data":null`, bare},
		"data a list":             {`,"data":[{"object":{"id":"cs_1"}}]`, bare},
		"object a string":         {`,"data":{"object":"cs_1"}`, bare},
		"object's id a number":    {`,"data":{"object":{"id":5}}`, bare},
		"object's id unusable":    {`,"data":{"object":{"id":"cs_\u0000"}}`, bare},
		"created a string":        {`,"created":"2025-01-01T00:00:00.000Z"`, bare},
		"created negative":        {`,"created":-1`, bare},
		"created beyond any date": {`,"created":253402300800`, bare},
		"created 1e300":           {`,"created":1e300`, bare},
		"livemode a string":       {`,"livemode":"true"`, bare},
		"account null":            {`,"account":null`, bare},
		"account an object":       {`,"account":{"id":"acct_1"}`, bare},
		"version null":            {`,"api_version":null`, bare},
		"version of any length":   {`,"api_version":"` + beta + `"`, with(func(e *webhooks.Envelope) { e.APIVersion = beta })},
		"version with NUL":        {`,"api_version":"a\u0000b"`, with(func(e *webhooks.Envelope) { e.APIVersion = "a\uFFFDb" })},
		"account, invalid UTF-8":  {",\"account\":\"a\xffb\"", with(func(e *webhooks.Envelope) { e.Account = "a\uFFFDb" })},
		"a lone surrogate":        {`,"account":"a\ud800"`, with(func(e *webhooks.Envelope) { e.Account = "a\uFFFD" })},
		"request a string":        {`,"request":"req_1"`, bare},
		"created at the last day": {`,"created":253402300799`, with(func(e *webhooks.Envelope) { e.OccurredAt = time.Unix(253402300799, 0).UTC() })},
	} {
		got, err := envelopeOf([]byte(`{"id":"evt_1","type":"x"` + c.fields + `}`))
		if diff := cmp.Diff(c.want, got); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got)\n%s", name, err, diff)
		}
	}
}

// The signature is verified and the envelope read whatever version the event has (B05).
func TestEnvelope_DoesNotDependOnTheVersion(t *testing.T) {
	t.Parallel()
	for _, version := range []string{`"2024-06-20"`, `"2023-10-16"`, `"2024-09-30.acacia"`, `"2018-08-23; orders_beta=v3"`, `null`, `7`} {
		got, err := envelopeOf([]byte(`{"id":"evt_1","type":"charge.succeeded","api_version":` + version + `,"data":{"object":{"id":"ch_1"}}}`))
		if err != nil || got.EventID != "evt_1" || got.ResourceID != "ch_1" {
			t.Errorf("version %s: got %+v, %v", version, got, err)
		}
	}
}
