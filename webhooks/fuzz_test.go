package webhooks_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"paidonce/webhooks"
)

// FuzzVerify: whatever the header and the body are, nothing panics, and nothing is called genuine
// that is not signed. The header may hold MAC, which is replaced by the right signature, so that
// genuine ones are found too; the judge below shares no code with Verify.
func FuzzVerify(f *testing.F) {
	for _, h := range []string{
		"t=1700000000,v1=MAC", "t=1700000000,v1=MAC,v1=MAC", "v1=MAC,t=1700000000", "t=1700000000,v0=MAC", "t=1700000000, v1=MAC,",
		"t=1,t=1700000000,v1=MAC", "t=,v1=MAC", "v1=MAC", "t=1700000000", "", "=,=,=", "t=1700000000,v1=abc,v1=MAC", "t=-1,v1=MAC", "t=+1700000000,v1=MAC",
	} {
		f.Add(h, event("evt_1", "charge.succeeded", `{"id":"ch_1"}`))
		f.Add(h, []byte("null"))
	}
	f.Fuzz(func(t *testing.T, line string, body []byte) {
		for stamp := range strings.SplitSeq(line, ",") {
			if value, ok := strings.CutPrefix(strings.TrimSpace(stamp), "t="); ok {
				line = strings.ReplaceAll(line, "MAC", macOf(value, body))
				break
			}
		}
		got, err := (&webhooks.Stripe{Secrets: []string{"", "whsec_other", secret}}).Verify(header(line), body, signedAt())
		genuine := err == nil || errors.Is(err, webhooks.ErrNotEvent) || verdict(err) == "skew"
		if genuine && !isSigned(line, body) {
			t.Fatalf("accepted, and not signed: %q over %q", line, body)
		}
		if err == nil {
			checkEnvelope(t, got, body)
		}
	})
}

func macOf(stamp string, body []byte) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(append([]byte(stamp+"."), body...))
	return hex.EncodeToString(mac.Sum(nil))
}

// isSigned: some v1 in the line is the mac of the line's only time and the body.
func isSigned(line string, body []byte) bool {
	stamps := regexp.MustCompile(`(?:^|,)\s*t=([0-9]+)\s*(?:,|$)`).FindAllStringSubmatch(line, -1)
	if len(stamps) != 1 {
		return false
	}
	for _, v1 := range regexp.MustCompile(`v1=([0-9a-fA-F]{64})`).FindAllStringSubmatch(line, -1) {
		if strings.EqualFold(v1[1], macOf(stamps[0][1], body)) {
			return true
		}
	}
	return false
}

// checkEnvelope: what the ledger is given is storable text, and the body is JSON.
func checkEnvelope(t *testing.T, e webhooks.Envelope, body []byte) {
	t.Helper()
	if !json.Valid(body) {
		t.Fatalf("an event that is no JSON: %q", body)
	}
	if e.EventID == "" || e.EventType == "" || e.Provider != "stripe" {
		t.Fatalf("an event without a name: %+v", e)
	}
	for _, text := range []string{e.EventID, e.EventType, e.ResourceID, e.Account, e.APIVersion} {
		if !utf8.ValidString(text) || strings.Contains(text, "\x00") {
			t.Fatalf("text that Postgres refuses: %q", text)
		}
	}
}

// FuzzParse: nothing panics, and a success is only ever read from whole, non-negative digits that
// stand in the body as they are.
func FuzzParse(f *testing.F) {
	for _, kind := range []string{"checkout.session.completed", "payment_intent.succeeded", "charge.succeeded", "payment_intent.canceled", "x"} {
		f.Add([]byte(kind), []byte("1999"), []byte(`"usd"`))
		f.Add([]byte(kind), []byte("19.99"), []byte(`null`))
		f.Add([]byte(kind), []byte("-1"), []byte(`"USD\u0000"`))
		f.Add([]byte(kind), []byte(`"1999"`), []byte(`"usd","metadata":{"paidonce_order":"\ud800"}`))
		f.Add([]byte(kind), []byte("9007199254740993"), []byte(`"usd","payment_intent":{"id":"pi_1"}`))
		f.Add([]byte(kind), []byte("1e3"), []byte(`"usd"}}}]`))
	}
	f.Fuzz(func(t *testing.T, kind, amount, currency []byte) {
		body := fmt.Appendf(nil, `{"id":"evt_1","type":"%s","data":{"object":{"id":"x_1","payment_status":"paid","captured":true,`+
			`"amount_total":%s,"amount_received":%s,"amount_captured":%s,"amount":%s,"currency":%s}}}`,
			kind, amount, amount, amount, amount, currency)
		stripe := &webhooks.Stripe{}
		_, _ = stripe.Parse(kind) // and on what is no event at all
		got, err := stripe.Parse(body)
		if err != nil {
			if !errors.Is(err, webhooks.ErrUnsupported) {
				t.Fatalf("%q: %v", body, err)
			}
			return
		}
		if got.Status != webhooks.StatusSucceeded {
			if got.ReceivedMinor != 0 || got.IntendedMinor != 0 {
				t.Fatalf("money without a success: %+v from %q", got, body)
			}
			return
		}
		if got.Hint || got.ReceivedMinor < 0 || got.IntendedMinor < 0 || got.Currency == "" {
			t.Fatalf("a success of %+v from %q", got, body)
		}
		for _, minor := range []int64{got.ReceivedMinor, got.IntendedMinor} {
			if json.Valid(body) && !bytes.Contains(body, fmt.Appendf(nil, "%d", minor)) {
				t.Fatalf("%d is not in the body %q", minor, body)
			}
		}
	})
}
