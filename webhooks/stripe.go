package webhooks

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"paidonce/internal/database"
)

// DefaultTolerance is how far a signed timestamp may be from our clock, on either side.
// Five minutes is what Stripe's own libraries use (https://docs.stripe.com/webhooks); they
// check only the past, which leaves a delivery stamped in the future replayable until then.
const DefaultTolerance = 5 * time.Minute

// maxSignatures bounds the work an unauthenticated header can ask for. Stripe sends one
// signature per active secret: two during a rotation.
const maxSignatures = 16

// Stripe verifies and reads the webhooks of Stripe.
type Stripe struct {
	// Secrets are the active endpoint secrets, each the whole "whsec_…" string. A list,
	// so that a rotation never drops a delivery, and so that a test-mode and a live-mode
	// endpoint can share the path. None: nothing verifies (I11).
	Secrets []string

	// Tolerance is how far the signed time may be from now; zero means DefaultTolerance.
	Tolerance time.Duration
}

// Name implements Provider.
func (s *Stripe) Name() string { return "stripe" }

// SignatureHeader implements Provider.
func (s *Stripe) SignatureHeader() string { return "Stripe-Signature" }

// Verify implements Provider: several v1 signatures against several secrets, in constant
// time, and a timestamp within the tolerance on both sides. The API version of the event
// is not looked at: an endpoint set to another version sends genuine events all the same.
func (s *Stripe) Verify(header http.Header, body []byte, now time.Time) (Envelope, error) {
	signed, err := parseSignature(header.Values(s.SignatureHeader()))
	if err != nil {
		return Envelope{}, err
	}
	if !s.matches(signed, body) {
		return Envelope{}, ErrBadSignature
	}

	// The time is judged after the signature, so that the answer can tell a wrong clock
	// from a wrong secret.
	tolerance := s.Tolerance
	if tolerance == 0 {
		tolerance = DefaultTolerance
	}
	skew := now.Truncate(time.Second).Sub(time.Unix(signed.at, 0)) // whole seconds, as the stamp is
	if skew.Abs() > tolerance {
		return Envelope{}, &SkewError{Skew: skew, Tolerance: tolerance}
	}
	return stripeEnvelope(body)
}

// matches reports whether any signature fits any secret. Every pair is compared: how long
// it takes tells nothing about which one fit.
func (s *Stripe) matches(signed signature, body []byte) bool {
	matched := false
	for _, secret := range s.Secrets {
		if secret == "" {
			continue // never verify with an empty key (I11)
		}
		mac := hmac.New(sha256.New, []byte(secret))
		mac.Write([]byte(signed.stamp))
		mac.Write([]byte{'.'})
		mac.Write(body)
		want := mac.Sum(nil)
		for _, v1 := range signed.v1 {
			if hmac.Equal(v1, want) {
				matched = true
			}
		}
	}
	return matched
}

// signature is a parsed Stripe-Signature header: t=…,v1=…[,v1=…],v0=….
type signature struct {
	at    int64
	stamp string // t as it was sent: the signature is over these characters
	v1    [][]byte
}

// parseSignature reads the header's one line. v0 is a fake scheme that Stripe adds to test
// events and is skipped like every unknown one; a v1 that is not 32 bytes of hex is skipped
// too, since another beside it may be good.
func parseSignature(lines []string) (signature, error) {
	switch {
	case len(lines) == 0 || lines[0] == "":
		return signature{}, ErrNoSignature
	case len(lines) > 1:
		return signature{}, fmt.Errorf("%w: %d signature headers, one expected", ErrBadSignature, len(lines))
	}

	var sig signature
	for part := range strings.SplitSeq(lines[0], ",") {
		key, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		switch key {
		case "t":
			at, err := strconv.ParseUint(value, 10, 40) // 40 bits of seconds: 34,000 years
			if err != nil || sig.stamp != "" {
				return signature{}, fmt.Errorf("%w: unusable timestamp", ErrBadSignature)
			}
			sig.at, sig.stamp = int64(at), value
		case "v1":
			v1, err := hex.DecodeString(value)
			if err != nil || len(v1) != sha256.Size {
				continue
			}
			if sig.v1 = append(sig.v1, v1); len(sig.v1) > maxSignatures {
				return signature{}, fmt.Errorf("%w: more than %d signatures", ErrBadSignature, maxSignatures)
			}
		}
	}
	if sig.stamp == "" {
		return signature{}, fmt.Errorf("%w: no timestamp", ErrBadSignature)
	}
	if len(sig.v1) == 0 {
		return signature{}, fmt.Errorf("%w of scheme v1", ErrNoSignature)
	}
	return sig, nil
}

// stripeEnvelope reads a few keys by their exact names. Decoding the whole event would
// cost more and accept more: Go's JSON matches "ID" for id.
func stripeEnvelope(body []byte) (Envelope, error) {
	if !gjson.ValidBytes(body) {
		return Envelope{}, fmt.Errorf("%w: the body is not JSON", ErrNotEvent)
	}
	root := gjson.ParseBytes(body)
	if !root.IsObject() {
		return Envelope{}, fmt.Errorf("%w: the body is not a JSON object", ErrNotEvent)
	}

	id, kind := root.Get("id"), root.Get("type")
	if id.Type != gjson.String || !usableID(id.Str) {
		return Envelope{}, fmt.Errorf("%w: id is missing or unusable", ErrNotEvent)
	}
	if kind.Type != gjson.String || !usableID(kind.Str) {
		return Envelope{}, fmt.Errorf("%w: type is missing or unusable", ErrNotEvent)
	}
	envelope := Envelope{
		Provider:   "stripe",
		EventID:    id.Str,
		EventType:  kind.Str,
		Livemode:   root.Get("livemode").Type == gjson.True,
		Account:    text(root.Get("account")),
		APIVersion: text(root.Get("api_version")),
	}
	if object := root.Get("data.object.id"); object.Type == gjson.String && usableID(object.Str) {
		envelope.ResourceID = object.Str
	}
	if created := root.Get("created"); created.Type == gjson.Number {
		envelope.OccurredAt = unixSeconds(created)
	}
	return envelope, nil
}

// text is a JSON string made storable; any other JSON value is no text.
func text(v gjson.Result) string {
	if v.Type != gjson.String {
		return ""
	}
	return database.Text(v.Str)
}

// unixSeconds reads a timestamp of whole seconds; what cannot be a date is zero. The range
// keeps a nonsense number from becoming a date that Postgres refuses.
func unixSeconds(v gjson.Result) time.Time {
	const last = 253402300799 // 9999-12-31T23:59:59Z
	if n := v.Int(); n > 0 && n <= last {
		return time.Unix(n, 0).UTC()
	}
	return time.Time{}
}
