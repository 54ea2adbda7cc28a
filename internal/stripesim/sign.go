package stripesim

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Sign returns the Stripe-Signature header of a delivery of body at t: t=…,v1=…[,v1=…], one v1 per secret in the order
// given. The key is the whole secret, whsec_ included, and the message is the timestamp, a dot and the raw body
// (https://docs.stripe.com/webhooks#verify-manually).
func Sign(body []byte, t time.Time, secrets ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "t=%d", t.Unix())
	for _, secret := range secrets {
		fmt.Fprintf(&b, ",v1=%s", mac(secret, t, body))
	}
	return b.String()
}

// decoy is the v0 that Stripe adds to the header of test-mode events. It signs nothing; a receiver that takes it for a
// signature is open to anybody (https://docs.stripe.com/webhooks#verify-manually).
func decoy(body []byte, t time.Time) string {
	return ",v0=" + mac("", t, body)
}

func mac(secret string, t time.Time, body []byte) string {
	h := hmac.New(sha256.New, []byte(secret))
	h.Write([]byte(strconv.FormatInt(t.Unix(), 10) + "."))
	h.Write(body)
	return hex.EncodeToString(h.Sum(nil))
}
