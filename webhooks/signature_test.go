package webhooks_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stripe/stripe-go/v79/webhook"

	"paidonce/webhooks"
)

// verdict is what Verify said, in the words of testdata/signatures.json.
func verdict(err error) string {
	var skew *webhooks.SkewError
	switch {
	case err == nil:
		return "ok"
	case errors.As(err, &skew):
		return "skew"
	case errors.Is(err, webhooks.ErrNoSignature):
		return "no_signature"
	case errors.Is(err, webhooks.ErrBadSignature):
		return "bad_signature"
	case errors.Is(err, webhooks.ErrNotEvent):
		return "not_event"
	}
	return "unknown: " + err.Error()
}

func header(lines ...string) http.Header { return http.Header{"Stripe-Signature": lines} }

// The vectors were made by testdata/signatures.py, which shares no code with ours.
func TestVerify_Vectors(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("testdata/signatures.json")
	must(t, err)
	var vectors []struct {
		Name       string
		Want       string
		Now        int64
		Secrets    []string
		Headers    []string
		Body       string
		BodyBase64 []byte `json:"body_base64"`
	}
	must(t, json.Unmarshal(raw, &vectors))
	if len(vectors) < 90 {
		t.Fatalf("%d vectors, want them all", len(vectors))
	}
	for _, v := range vectors {
		t.Run(v.Name, func(t *testing.T) {
			t.Parallel()
			body := []byte(v.Body)
			if v.BodyBase64 != nil {
				body = v.BodyBase64
			}
			stripe := &webhooks.Stripe{Secrets: v.Secrets}
			got, err := stripe.Verify(header(v.Headers...), body, time.Unix(v.Now, 0))
			if verdict(err) != v.Want {
				t.Errorf("got %s (%v), want %s", verdict(err), err, v.Want)
			}
			if id := got.EventID; (err == nil) != (id == "evt_1") {
				t.Errorf("got event id %q with error %v", id, err)
			}
		})
	}
}

// A bound of 300 s is one of whole seconds on both sides, wherever in its second our clock stands.
func TestVerify_ToleranceAtAnyFractionOfASecond(t *testing.T) {
	t.Parallel()
	body := event("evt_1", "charge.succeeded", `{"id":"ch_1"}`)
	for _, fraction := range []time.Duration{0, 1, 400 * time.Millisecond, time.Second - 1} {
		for seconds, want := range map[int64]string{-301: "skew", -300: "ok", 0: "ok", 300: "ok", 301: "skew"} {
			signed := signedAt().Add(time.Duration(seconds) * time.Second)
			_, err := (&webhooks.Stripe{Secrets: []string{secret}}).Verify(header(sign(body, secret, signed)), body, signedAt().Add(fraction))
			if got := verdict(err); got != want {
				t.Errorf("signed %+d s, our clock %s into its second: got %s, want %s", seconds, fraction, got, want)
			}
		}
	}
}

func TestVerify_ToleranceIsConfigurable(t *testing.T) {
	t.Parallel()
	body := event("evt_1", "charge.succeeded", `{"id":"ch_1"}`)
	stripe := &webhooks.Stripe{Secrets: []string{secret}, Tolerance: 10 * time.Second}
	for seconds, want := range map[int64]string{-11: "skew", -10: "ok", 10: "ok", 11: "skew"} {
		signed := signedAt().Add(time.Duration(seconds) * time.Second)
		_, err := stripe.Verify(header(sign(body, secret, signed)), body, signedAt())
		if got := verdict(err); got != want {
			t.Errorf("signed %+d s: got %s, want %s", seconds, got, want)
		}
	}
}

// A wrong clock is told apart from a wrong secret, with its size and its direction.
func TestVerify_SkewSaysWhichWayTheClockIsWrong(t *testing.T) {
	t.Parallel()
	body := event("evt_1", "charge.succeeded", `{"id":"ch_1"}`)
	for _, skew := range []time.Duration{301 * time.Second, -301 * time.Second, 365 * 24 * time.Hour} {
		_, err := (&webhooks.Stripe{Secrets: []string{secret}}).Verify(header(sign(body, secret, signedAt().Add(-skew))), body, signedAt())
		var got *webhooks.SkewError
		if !errors.As(err, &got) || got.Skew != skew || got.Tolerance != webhooks.DefaultTolerance {
			t.Errorf("got %v, want a skew of %s", err, skew)
		}
	}
}

// Where Stripe's own library and ours should agree, they do; the table names the rest.
func TestVerify_AgreesWithStripeGo(t *testing.T) {
	t.Parallel()
	now := time.Now() // stripe-go's clock cannot be set
	body := event("evt_1", "charge.succeeded", `{"id":"ch_1"}`)
	good := sign(body, secret, now)
	stamp, v1, _ := strings.Cut(good, ",")
	for _, c := range []struct {
		name, header string
		ours, theirs bool
	}{
		// Agreed.
		{"good", good, true, true},
		{"bad before good", stamp + ",v1=" + strings.Repeat("ab", 32) + "," + v1, true, true},
		{"odd hex before good", stamp + ",v1=abc," + v1, true, true},
		{"upper-case hex", stamp + ",v1=" + strings.ToUpper(v1[3:]), true, true},
		{"v0 beside it", good + ",v0=" + v1[3:], true, true},
		{"v0 alone", stamp + ",v0=" + v1[3:], false, false},
		{"another secret", sign(body, "whsec_other", now), false, false},
		{"another body", sign(append(body, '\n'), secret, now), false, false},
		{"299 s old", sign(body, secret, now.Add(-299*time.Second)), true, true},
		{"302 s old", sign(body, secret, now.Add(-302*time.Second)), false, false},
		{"empty", "", false, false},
		{"no =", "hello", false, false},
		{"no time", v1, false, false},
		{"time not a number", "t=x," + v1, false, false},

		// Stricter than theirs: they look at the past only, and let the last of two times count.
		{"a year ahead", sign(body, secret, now.AddDate(1, 0, 0)), false, true},
		{"two headers joined", good + "," + good, false, true},

		// More lenient: a part that says nothing refuses nothing.
		{"blank after the comma", stamp + ", " + v1, true, false},
		{"trailing comma", good + ",", true, false},
	} {
		_, err := (&webhooks.Stripe{Secrets: []string{secret}}).Verify(header(c.header), body, now)
		_, theirs := webhook.ConstructEvent(body, c.header, secret)
		if got := [2]bool{err == nil, theirs == nil}; got != [2]bool{c.ours, c.theirs} {
			t.Errorf("%s: ours and theirs accept %v, want %v (%v; %v)", c.name, got, [2]bool{c.ours, c.theirs}, err, theirs)
		}
	}
}

// I11: nothing is ever verified with an empty key, wherever it stands in the list.
func TestVerify_AnEmptySecretVerifiesNothing(t *testing.T) {
	t.Parallel()
	body := event("evt_1", "charge.succeeded", `{"id":"ch_1"}`)
	for _, secrets := range [][]string{nil, {}, {""}, {"", ""}, {"whsec_other", ""}, {"", "whsec_other"}} {
		_, err := (&webhooks.Stripe{Secrets: secrets}).Verify(header(sign(body, "", signedAt())), body, signedAt())
		if !errors.Is(err, webhooks.ErrBadSignature) {
			t.Errorf("secrets %q: got %v, want it refused", secrets, err)
		}
	}
}

// A header may ask for sixteen comparisons, however it spells them, and for no more.
func TestVerify_TheHeaderIsBounded(t *testing.T) {
	t.Parallel()
	body := event("evt_1", "charge.succeeded", `{"id":"ch_1"}`)
	stamp, v1, _ := strings.Cut(sign(body, secret, signedAt()), ",")
	other := ",v1=" + strings.Repeat("ab", 32)
	for _, c := range []struct{ name, header, want string }{
		{"64 KB of junk, then good", stamp + strings.Repeat(",v1=abc", 9362) + "," + v1, "ok"},
		{"64 KB without =", strings.Repeat("x", 64<<10), "bad_signature"},
		{"64 KB of commas", strings.Repeat(",", 64<<10), "bad_signature"},
		{"64 KB of signatures", stamp + strings.Repeat(other, 960) + "," + v1, "bad_signature"},
		{"fifteen others, then good", stamp + strings.Repeat(other, 15) + "," + v1, "ok"},
		{"sixteen others, then good", stamp + strings.Repeat(other, 16) + "," + v1, "bad_signature"},
	} {
		_, err := (&webhooks.Stripe{Secrets: []string{secret}}).Verify(header(c.header), body, signedAt())
		if got := verdict(err); got != c.want {
			t.Errorf("%s: got %s, want %s", c.name, got, c.want)
		}
	}
}

// The text of a refusal goes to the log: it must not carry what would forge the next request.
func TestVerify_ErrorsTellNoSecret(t *testing.T) {
	t.Parallel()
	body := event("evt_1", "charge.succeeded", `{"id":"ch_1"}`)
	want := sign(body, secret, signedAt())
	_, mac, _ := strings.Cut(want, "v1=")
	for _, lines := range [][]string{{"t=1700000000,v1=" + strings.Repeat("ab", 32)}, {"t=x," + mac}, nil} {
		_, err := (&webhooks.Stripe{Secrets: []string{secret}}).Verify(header(lines...), body, signedAt())
		if text := fmt.Sprint(err); strings.Contains(text, secret) || strings.Contains(text, mac) {
			t.Errorf("headers %q: the error tells %q", lines, text)
		}
	}
}
