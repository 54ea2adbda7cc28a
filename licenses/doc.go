// Package licenses makes license keys and keeps them.
//
// A key is text of the form key/<base64url dataset>.<base64url signature>: URL-safe base64
// with padding, an Ed25519 signature over the ASCII bytes in front of the point, a dataset of
// compact JSON ([Claims]). That is Keygen's signed-key form, so Keygen's SDKs verify it, and a
// customer's program needs nothing but a public key and no network ([VerifyWith]).
//
// What it promises:
//
//   - One license per (order line, ordinal) (invariant I6). [Store.Issue] may run any number
//     of times, at once or after a crash: the same licenses come back.
//   - A key says nothing about time and is signed deterministically, so running again makes the
//     same key. Where it cannot, after a rotation, the stored key wins: a customer's key never
//     changes.
//   - A [Keyring] signs with its first key and verifies with all of them, and never shows a
//     seed in a log or an error.
//   - Verification answers every text with claims or an error; none makes it panic.
//
// What it does not: it begins and commits no transaction, it decides no status (the order
// does; [Store.Follow] is told), and it cannot recall a key from a program that verifies
// offline. A revoked key still has a true signature; whoever wants to know asks us.
//
// Read key.go for the form, keyring.go for keys and rotation, store.go for the table.
package licenses
