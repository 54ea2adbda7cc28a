package licenses

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
)

// maxKeyID is shorter than a seed in any encoding. A seed pasted where the id belongs is
// therefore never taken for an id, and never repeated in an error.
const maxKeyID = 32

// SigningKey is an Ed25519 key pair with its id. Printing one shows the id alone.
type SigningKey struct {
	id KeyID
	// A function, because fmt looks into unexported fields without asking String, and follows
	// even a pointer there for some verbs. Into a function it cannot look, so a struct that
	// holds a keyring can be printed too.
	private func() ed25519.PrivateKey
}

// Generate makes a signing key from 32 bytes of rand (crypto/rand.Reader, save in tests).
// Its id is derived from the public key, so two keys do not share one by accident.
func Generate(rand io.Reader) (SigningKey, error) {
	seed := make([]byte, ed25519.SeedSize)
	if _, err := io.ReadFull(rand, seed); err != nil {
		return SigningKey{}, fmt.Errorf("generating license signing key: %w", err)
	}
	key := newSigningKey("", seed)
	sum := sha256.Sum256(key.public())
	key.id = KeyID(hex.EncodeToString(sum[:4]))
	return key, nil
}

func newSigningKey(id KeyID, seed []byte) SigningKey {
	private := ed25519.NewKeyFromSeed(seed)
	return SigningKey{id: id, private: func() ed25519.PrivateKey { return private }}
}

// ID is the key's id, which every license it signs names.
func (k SigningKey) ID() KeyID { return k.id }

// EnvLine is the configuration that holds this key and no other, seed included:
// LICENSE_SIGNING_KEYS=<kid>:<base64 seed>. It is the one way to the seed.
func (k SigningKey) EnvLine() string {
	return fmt.Sprintf("LICENSE_SIGNING_KEYS=%s:%s", k.id, base64.StdEncoding.EncodeToString(k.private().Seed()))
}

// Public is the half that may be published.
func (k SigningKey) Public() PublicKey {
	return PublicKey{ID: k.id, Key: k.public()}
}

func (k SigningKey) public() ed25519.PublicKey {
	public, _ := k.private().Public().(ed25519.PublicKey) // its only type
	return public
}

// String shows the id and never the seed. So do GoString and LogValue.
func (k SigningKey) String() string { return string(k.id) }

// GoString is for %#v.
func (k SigningKey) GoString() string { return fmt.Sprintf("licenses.SigningKey(%s)", k) }

// LogValue is for slog.
func (k SigningKey) LogValue() slog.Value { return slog.StringValue(k.String()) }

// PublicKey is what verifies the licenses of one signing key.
type PublicKey struct {
	ID  KeyID
	Key ed25519.PublicKey
}

// Hex is the key as Keygen's SDKs and [ParsePublicKey] take it.
func (p PublicKey) Hex() string { return hex.EncodeToString(p.Key) }

// Keyring signs with its first key and verifies with all of them. To rotate, put the new key
// first and keep the old ones for as long as their licenses live. The zero value has no key:
// it signs nothing and verifies nothing (I11).
type Keyring struct {
	keys []SigningKey
}

// NewKeyring makes a ring of these keys, the signing one first. Two keys of one id, or one key
// under two ids (a rotation that rotated nothing), are faults.
func NewKeyring(keys ...SigningKey) (Keyring, error) {
	var faults []error
	for i, k := range keys {
		if k.private == nil {
			return Keyring{}, fmt.Errorf("key %d is the zero value", i+1)
		}
		for _, earlier := range keys[:i] {
			switch {
			case k.id == earlier.id:
				faults = append(faults, fmt.Errorf("key id %q is there twice", k.id))
			case k.private().Equal(earlier.private()):
				faults = append(faults, fmt.Errorf("key ids %q and %q are the same key", earlier.id, k.id))
			}
		}
	}
	if len(faults) > 0 {
		return Keyring{}, errors.Join(faults...)
	}
	return Keyring{keys: append([]SigningKey(nil), keys...)}, nil
}

// ParseKeyring reads "kid:base64seed[,kid2:base64seed2…]", the value of LICENSE_SIGNING_KEYS.
// Blank is an empty ring: not configured. Every fault is reported, and none repeats a seed,
// not even one that stands in the wrong place.
func ParseKeyring(s string) (Keyring, error) {
	if strings.TrimSpace(s) == "" {
		return Keyring{}, nil
	}

	var keys []SigningKey
	var faults []error
	for i, element := range strings.Split(s, ",") {
		fault := func(what string) { faults = append(faults, fmt.Errorf("key %d: %s", i+1, what)) }

		element = strings.TrimSpace(element)
		id, encoded, ok := strings.Cut(element, ":")
		switch {
		case element == "":
			fault("empty")
			continue
		case !ok:
			fault("want <kid>:<base64 seed>")
			continue
		}

		idOK := validKeyID(id)
		if !idOK {
			fault(fmt.Sprintf("the kid must be 1 to %d of a-z A-Z 0-9 . _ -", maxKeyID))
		}
		seed, err := base64.StdEncoding.DecodeString(encoded)
		switch {
		case err != nil:
			fault("the seed is not base64")
		case len(seed) != ed25519.SeedSize:
			fault(fmt.Sprintf("the seed has %d bytes, want %d", len(seed), ed25519.SeedSize))
		case idOK:
			keys = append(keys, newSigningKey(KeyID(id), seed))
		}
	}

	ring, err := NewKeyring(keys...)
	if err != nil {
		faults = append(faults, err)
	}
	if len(faults) > 0 {
		return Keyring{}, errors.Join(faults...)
	}
	return ring, nil
}

// Configured tells whether there is a key to sign with.
func (k Keyring) Configured() bool { return len(k.keys) > 0 }

// Sign makes the license key of these claims with the first key of the ring, whose id it
// writes into them and answers. The same ring and claims make the same key.
func (k Keyring) Sign(c Claims) (string, KeyID, error) {
	if !k.Configured() {
		return "", "", fmt.Errorf("signing license: %w", ErrNoSigningKey)
	}
	if err := c.complete(); err != nil {
		return "", "", fmt.Errorf("signing license: %w", err)
	}
	first := k.keys[0]
	c.KeyID = first.id
	signed, err := c.signed()
	if err != nil {
		return "", "", fmt.Errorf("signing license: %w", err)
	}
	return join(signed, ed25519.Sign(first.private(), []byte(signed))), first.id, nil
}

// Verify checks a license key against the key it names. It answers [ErrMalformed],
// [ErrUnknownKey] or [ErrBadSignature], and claims only with no error.
func (k Keyring) Verify(key string) (Claims, error) {
	p, err := split(key)
	if err != nil {
		return Claims{}, fmt.Errorf("verifying license: %w", err)
	}
	for _, candidate := range k.keys {
		if candidate.id != p.claims.KeyID {
			continue
		}
		if !p.signedBy(candidate.public()) {
			return Claims{}, fmt.Errorf("verifying license: %w", ErrBadSignature)
		}
		return p.claims, nil
	}
	return Claims{}, fmt.Errorf("verifying license: %w", ErrUnknownKey)
}

// PublicKeys are what a program needs to verify licenses offline, the signing one first.
func (k Keyring) PublicKeys() []PublicKey {
	public := make([]PublicKey, len(k.keys))
	for i, key := range k.keys {
		public[i] = key.Public()
	}
	return public
}

// String shows the ids, the signing one first, and never a seed. So do GoString and LogValue.
func (k Keyring) String() string {
	ids := make([]string, len(k.keys))
	for i, key := range k.keys {
		ids[i] = key.String()
	}
	return strings.Join(ids, ",")
}

// GoString is for %#v.
func (k Keyring) GoString() string { return fmt.Sprintf("licenses.Keyring(%s)", k) }

// LogValue is for slog.
func (k Keyring) LogValue() slog.Value { return slog.StringValue(k.String()) }

func validKeyID(s string) bool {
	for _, r := range s {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '.', r == '_', r == '-':
		default:
			return false
		}
	}
	return s != "" && len(s) <= maxKeyID
}
