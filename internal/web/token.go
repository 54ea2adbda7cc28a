package web

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"

	"github.com/google/uuid"
)

// Tokens derives the token that opens an order from the order's id and the application's
// secret. It is never stored, so there is no table of them to steal, and the answer to a
// repeated request can carry it again.
type Tokens struct{ secret []byte }

// NewTokens returns the tokens of a secret, which must not be empty.
func NewTokens(secret string) Tokens {
	if secret == "" {
		panic("bug: an order token without a secret")
	}
	return Tokens{secret: []byte(secret)}
}

// Of is the token of an order.
func (t Tokens) Of(orderID uuid.UUID) string {
	return base64.RawURLEncoding.EncodeToString(t.mac(orderID))
}

// Opens reports whether the token is the order's, in constant time.
func (t Tokens) Opens(orderID uuid.UUID, token string) bool {
	given, err := base64.RawURLEncoding.DecodeString(token)
	return err == nil && hmac.Equal(given, t.mac(orderID))
}

func (t Tokens) mac(orderID uuid.UUID) []byte {
	mac := hmac.New(sha256.New, t.secret)
	mac.Write([]byte("paidonce order token v1:")) // a domain of its own: other uses of the secret get other MACs
	mac.Write(orderID[:])
	return mac.Sum(nil)
}
