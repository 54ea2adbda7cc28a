package licenses

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"
)

// keyPrefix opens every key. It is inside what is signed, so a signature made for something
// else ("license/…" in Keygen's license files) is worth nothing here.
const keyPrefix = "key/"

// KeyID names a signing key: [a-zA-Z0-9._-], at most 32 of them.
type KeyID string

// Claims is what a license key says: the JSON between "key/" and the point, fields in this
// order. There is no time in it, so the same order line always makes the same key. New fields
// go to the end; verifiers skip what they do not know.
type Claims struct {
	OrderID uuid.UUID `json:"order"`
	LineID  uuid.UUID `json:"line"`
	Ordinal int       `json:"ordinal"` // from 1 to the line's quantity
	SKU     string    `json:"sku"`
	KeyID   KeyID     `json:"kid"` // which key signed; it selects a key and proves nothing
}

// VerifyWith checks a key against one public key, offline. It is what a customer's program
// does; the server asks its [Keyring].
func VerifyWith(pub ed25519.PublicKey, key string) (Claims, error) {
	// ed25519.Verify panics on another length.
	if len(pub) != ed25519.PublicKeySize {
		return Claims{}, fmt.Errorf("verifying license: %w: %d bytes", ErrBadPublicKey, len(pub))
	}
	p, err := split(key)
	if err != nil {
		return Claims{}, fmt.Errorf("verifying license: %w", err)
	}
	if !p.signedBy(pub) {
		return Claims{}, fmt.Errorf("verifying license: %w", ErrBadSignature)
	}
	return p.claims, nil
}

// ParsePublicKey reads a public key in hex, as [PublicKey.Hex] writes it and Keygen's SDKs
// take it.
func ParsePublicKey(s string) (ed25519.PublicKey, error) {
	pub, err := hex.DecodeString(s)
	if err != nil || len(pub) != ed25519.PublicKeySize {
		return nil, fmt.Errorf("%w: want %d hex digits", ErrBadPublicKey, 2*ed25519.PublicKeySize)
	}
	return pub, nil
}

// complete refuses claims that should never be signed.
func (c Claims) complete() error {
	switch {
	case c.OrderID == uuid.Nil:
		return fmt.Errorf("%w: no order", ErrBadClaims)
	case c.LineID == uuid.Nil:
		return fmt.Errorf("%w: no order line", ErrBadClaims)
	case c.Ordinal < 1:
		return fmt.Errorf("%w: ordinal %d", ErrBadClaims, c.Ordinal)
	case c.SKU == "" || !utf8.ValidString(c.SKU):
		return fmt.Errorf("%w: sku %.40q", ErrBadClaims, c.SKU)
	}
	return nil
}

// signed is the part of a key that is signed: prefix and dataset, as ASCII.
func (c Claims) signed() (string, error) {
	dataset, err := json.Marshal(c)
	if err != nil {
		return "", fmt.Errorf("encoding license claims: %w", err)
	}
	return keyPrefix + base64.URLEncoding.EncodeToString(dataset), nil
}

// parts is a key taken apart; its claims are what it says, not what is true.
type parts struct {
	signed    string
	signature []byte
	claims    Claims
}

func (p parts) signedBy(pub ed25519.PublicKey) bool {
	return ed25519.Verify(pub, []byte(p.signed), p.signature)
}

// join puts a key together from its signed part and the signature.
func join(signed string, signature []byte) string {
	return signed + "." + base64.URLEncoding.EncodeToString(signature)
}

// split takes a key apart. Each way to write a key is the only one: a second spelling of a
// true key would be a second license to whoever stores or counts keys by their text.
func split(key string) (parts, error) {
	signed, encodedSignature, ok := strings.Cut(key, ".")
	if !ok {
		return parts{}, fmt.Errorf("%w: no signature", ErrMalformed)
	}
	encodedDataset, ok := strings.CutPrefix(signed, keyPrefix)
	if !ok {
		return parts{}, fmt.Errorf("%w: it does not begin with %q", ErrMalformed, keyPrefix)
	}
	dataset, ok := decode(encodedDataset)
	if !ok {
		return parts{}, fmt.Errorf("%w: the dataset is not base64url", ErrMalformed)
	}
	signature, ok := decode(encodedSignature)
	if !ok {
		return parts{}, fmt.Errorf("%w: the signature is not base64url", ErrMalformed)
	}
	if len(signature) != ed25519.SignatureSize {
		return parts{}, fmt.Errorf("%w: the signature has %d bytes", ErrMalformed, len(signature))
	}

	p := parts{signed: signed, signature: signature}
	if err := json.Unmarshal(dataset, &p.claims); err != nil {
		// Not wrapped: what the decoder says quotes text that a stranger chose.
		return parts{}, fmt.Errorf("%w: the dataset holds no claims", ErrMalformed)
	}
	return p, nil
}

// decode reads URL-safe base64 with padding, in its one canonical spelling. The decoder alone
// would skip line breaks, and take any value for the bits that padding leaves over.
func decode(s string) ([]byte, bool) {
	if strings.ContainsAny(s, "\r\n") {
		return nil, false
	}
	b, err := base64.URLEncoding.Strict().DecodeString(s)
	return b, err == nil
}
