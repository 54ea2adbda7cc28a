package licenses_test

import (
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"

	"paidonce/licenses"
)

// What the server does: sign with the first key, verify with any.
func ExampleKeyring_Sign() {
	ring, err := licenses.ParseKeyring("2026:nWGxne/9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A=")
	if err != nil {
		fmt.Println(err)
		return
	}
	key, kid, err := ring.Sign(licenses.Claims{
		OrderID: uuid.MustParse("01890a5d-ac96-774b-bcce-b302099a8057"),
		LineID:  uuid.MustParse("01890a5d-ac96-774b-bcce-b302099a8058"),
		Ordinal: 1,
		SKU:     "KEY-1",
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(kid, key[:40]+"…")

	claims, err := ring.Verify(key)
	fmt.Println(claims.SKU, claims.Ordinal, err)
	_, err = ring.Verify(strings.Replace(key, ".", "x.", 1))
	fmt.Println(errors.Is(err, licenses.ErrMalformed))
	// Output:
	// 2026 key/eyJvcmRlciI6IjAxODkwYTVkLWFjOTYtNzc0…
	// KEY-1 1 <nil>
	// true
}

// What a customer's program does: one public key, no network.
func ExampleVerifyWith() {
	public, err := licenses.ParsePublicKey(goldenPublic)
	if err != nil {
		fmt.Println(err)
		return
	}
	claims, err := licenses.VerifyWith(public, goldenKey)
	fmt.Println(claims.SKU, claims.Ordinal, err)

	_, err = licenses.VerifyWith(public, "AAAA-BBBB-CCCC")
	fmt.Println(err)
	// Output:
	// KEY-1 2 <nil>
	// verifying license: not a license key: no signature
}

// A configuration's faults are told all at once, and without the seeds.
func ExampleParseKeyring() {
	_, err := licenses.ParseKeyring("2026:c2hvcnQ=,,old key:nWGxne/9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A=")
	fmt.Println(err)
	// Output:
	// key 1: the seed has 5 bytes, want 32
	// key 2: empty
	// key 3: the kid must be 1 to 32 of a-z A-Z 0-9 . _ -
}
