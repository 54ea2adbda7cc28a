package licenses

import "errors"

var (
	// ErrMalformed is returned for text that has not the form of a license key. Nothing was
	// verified: it is a typing error, not a forgery.
	ErrMalformed = errors.New("not a license key")

	// ErrUnknownKey is returned by [Keyring.Verify] for a license that names a signing key
	// which is not in the ring: a key dropped too early, or another shop's license.
	ErrUnknownKey = errors.New("unknown signing key")

	// ErrBadSignature is returned when the form is right and the signature is not.
	ErrBadSignature = errors.New("license signature does not match")

	// ErrNoSigningKey is returned by an empty [Keyring] asked to sign: licenses are not
	// configured.
	ErrNoSigningKey = errors.New("no license signing key")

	// ErrBadClaims is returned by [Keyring.Sign] for claims that name no order line, no
	// ordinal, or hold text that JSON would alter. A signature is for ever.
	ErrBadClaims = errors.New("incomplete license claims")

	// ErrBadPublicKey is returned for a public key that is not 32 bytes, or not hex.
	ErrBadPublicKey = errors.New("not an Ed25519 public key")

	// ErrUnknownStatus is returned by [Store.Follow], before the table's check could abort
	// the caller's transaction.
	ErrUnknownStatus = errors.New("unknown license status")

	// ErrNotIssued is returned by [Store.Issue] when fewer licenses are stored for the order
	// than were bought: some of its lines belong to another order.
	ErrNotIssued = errors.New("licenses missing after issue")
)
