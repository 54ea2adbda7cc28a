package licenses_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/uuid"

	"paidonce/licenses"
)

// The golden vector: the seed of RFC 8032's first test, whose public key that document prints.
// A license signed once is in customers' hands for ever, so these bytes never change.
const (
	goldenSeed   = "nWGxne/9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A="
	goldenPublic = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"

	goldenDataset = `{"order":"01890a5d-ac96-774b-bcce-b302099a8057","line":"01890a5d-ac96-774b-bcce-b302099a8058",` +
		`"ordinal":2,"sku":"KEY-1","kid":"21fe31df"}`
	goldenKey = "key/eyJvcmRlciI6IjAxODkwYTVkLWFjOTYtNzc0Yi1iY2NlLWIzMDIwOTlhODA1NyIsImxpbmUiOiIwMTg5MGE1ZC1hYzk2LTc3NGItYmNjZS1iMzAyMDk5YTgwNTgiLCJvcmRpbmFsIjoyLCJza3UiOiJLRVktMSIsImtpZCI6IjIxZmUzMWRmIn0=" +
		".9T-JgOSetHUeayl5KfjirjAxJQrgOZwBvTIztOvkTaeEkVH7O2EOCAOXeBInOUkSPbpvaT1rtRnfpTaAEB9rAA=="
)

func goldenClaims() licenses.Claims {
	return licenses.Claims{
		OrderID: uuid.MustParse("01890a5d-ac96-774b-bcce-b302099a8057"),
		LineID:  uuid.MustParse("01890a5d-ac96-774b-bcce-b302099a8058"),
		Ordinal: 2,
		SKU:     "KEY-1",
		KeyID:   "21fe31df",
	}
}

func TestGolden(t *testing.T) {
	t.Parallel()
	seed, err := base64.StdEncoding.DecodeString(goldenSeed)
	if err != nil {
		t.Fatal(err)
	}
	signing, err := licenses.Generate(bytes.NewReader(seed))
	if err != nil {
		t.Fatal(err)
	}
	if got := signing.Public().Hex(); got != goldenPublic {
		t.Errorf("public key %s, want %s", got, goldenPublic)
	}
	if want := "LICENSE_SIGNING_KEYS=21fe31df:" + goldenSeed; signing.EnvLine() != want {
		t.Error("the configuration line differs from the golden one")
	}

	ring := parseRing(t, "21fe31df:"+goldenSeed)
	key, kid, err := ring.Sign(goldenClaims())
	if err != nil || kid != "21fe31df" || key != goldenKey {
		t.Errorf("Sign = %s, %s, %v\nwant   %s", key, kid, err, goldenKey)
	}
	if got, err := ring.Verify(goldenKey); err != nil || got != goldenClaims() {
		t.Errorf("Verify = %+v, %v", got, err)
	}
}

// TestKeygenForm reads a key as Keygen's verifiers do, with nothing of this package.
func TestKeygenForm(t *testing.T) {
	t.Parallel()
	ring := parseRing(t, "21fe31df:"+goldenSeed)

	// Skus of growing length, so that every remainder of the padding occurs, and one that JSON
	// and HTML would like to escape.
	for _, sku := range []string{"K", "KE", "KEY", `A&B <"ü"> 鍵 ?>~`} {
		claims := goldenClaims()
		claims.SKU = sku
		key, _, err := ring.Sign(claims)
		if err != nil {
			t.Fatal(err)
		}

		signed, encodedSignature, ok := strings.Cut(key, ".")
		if !ok {
			t.Fatalf("%s has no point", key)
		}
		prefix, encodedDataset, ok := strings.Cut(signed, "/")
		if !ok || prefix != "key" {
			t.Fatalf("%s does not begin with key/", key)
		}
		signature, err := base64.URLEncoding.DecodeString(encodedSignature)
		if err != nil {
			t.Fatal(err)
		}
		public, err := hex.DecodeString(goldenPublic)
		if err != nil {
			t.Fatal(err)
		}
		if !ed25519.Verify(public, []byte("key/"+encodedDataset), signature) {
			t.Errorf("sku %q: the signature is not over the text in front of the point", sku)
		}

		dataset, err := base64.URLEncoding.DecodeString(encodedDataset)
		if err != nil {
			t.Fatal(err)
		}
		var got map[string]any
		if err := json.Unmarshal(dataset, &got); err != nil {
			t.Fatal(err)
		}
		if got["sku"] != sku || got["order"] != claims.OrderID.String() || got["line"] != claims.LineID.String() ||
			got["ordinal"] != 2.0 || got["kid"] != "21fe31df" || len(got) != 5 {
			t.Errorf("dataset %s", dataset)
		}
	}
}

func TestVerifyWith(t *testing.T) {
	t.Parallel()
	public, err := licenses.ParsePublicKey(goldenPublic)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := licenses.VerifyWith(public, goldenKey); err != nil || got != goldenClaims() {
		t.Errorf("VerifyWith = %+v, %v", got, err)
	}

	other := generate(t, 1).Public().Key
	if got, err := licenses.VerifyWith(other, goldenKey); !errors.Is(err, licenses.ErrBadSignature) || got != (licenses.Claims{}) {
		t.Errorf("VerifyWith another key = %+v, %v; want ErrBadSignature", got, err)
	}
	for _, short := range []ed25519.PublicKey{nil, public[:31]} {
		if _, err := licenses.VerifyWith(short, goldenKey); !errors.Is(err, licenses.ErrBadPublicKey) {
			t.Errorf("VerifyWith %d bytes: %v, want ErrBadPublicKey", len(short), err)
		}
	}
}

func TestParsePublicKey(t *testing.T) {
	t.Parallel()
	for _, in := range []string{"", "d75a", goldenPublic + "00", goldenPublic[:63], strings.Replace(goldenPublic, "d", "g", 1)} {
		if _, err := licenses.ParsePublicKey(in); !errors.Is(err, licenses.ErrBadPublicKey) {
			t.Errorf("ParsePublicKey(%q): %v, want ErrBadPublicKey", in, err)
		}
	}
}

// TestVerifyRefuses: each way to be wrong has its error, and no second spelling of a true key
// is accepted.
func TestVerifyRefuses(t *testing.T) {
	t.Parallel()
	ring := parseRing(t, "21fe31df:"+goldenSeed)
	signed, signature, _ := strings.Cut(goldenKey, ".")
	dataset := strings.TrimPrefix(signed, "key/")

	forge := func(dataset string) string {
		return "key/" + base64.URLEncoding.EncodeToString([]byte(dataset)) + "." + signature
	}
	for name, tc := range map[string]struct {
		key  string
		want error
	}{
		"empty":                  {"", licenses.ErrMalformed},
		"no point":               {signed, licenses.ErrMalformed},
		"no slash":               {"key" + dataset + "." + signature, licenses.ErrMalformed},
		"neither":                {"AAAA-BBBB-CCCC", licenses.ErrMalformed},
		"point alone":            {".", licenses.ErrMalformed},
		"slash alone":            {"key/", licenses.ErrMalformed},
		"prefix and point":       {"key/.", licenses.ErrMalformed},
		"another prefix":         {"license/" + dataset + "." + signature, licenses.ErrMalformed},
		"prefix in upper case":   {"KEY/" + dataset + "." + signature, licenses.ErrMalformed},
		"no signature":           {signed + ".", licenses.ErrMalformed},
		"no dataset":             {"key/." + signature, licenses.ErrMalformed},
		"two points":             {goldenKey + "." + signature, licenses.ErrMalformed},
		"space in front":         {" " + goldenKey, licenses.ErrMalformed},
		"space behind":           {goldenKey + " ", licenses.ErrMalformed},
		"line break behind":      {goldenKey + "\n", licenses.ErrMalformed},
		"line break inside":      {goldenKey[:len(goldenKey)-8] + "\r\n" + goldenKey[len(goldenKey)-8:], licenses.ErrMalformed},
		"padding left out":       {strings.TrimRight(goldenKey, "="), licenses.ErrMalformed},
		"bits under the padding": {withPaddingBits(t, goldenKey), licenses.ErrMalformed},
		"standard alphabet":      {strings.NewReplacer("-", "+", "_", "/").Replace(signed[len("key/"):]) + "." + signature, licenses.ErrMalformed},
		"short signature":        {signed + "." + base64.URLEncoding.EncodeToString(make([]byte, 63)), licenses.ErrMalformed},
		"long signature":         {signed + "." + base64.URLEncoding.EncodeToString(make([]byte, 65)), licenses.ErrMalformed},
		"dataset not JSON":       {forge("KEY-1"), licenses.ErrMalformed},
		"dataset not claims":     {forge(`{"order":"nobody"}`), licenses.ErrMalformed},
		"two datasets":           {forge(goldenDataset + goldenDataset), licenses.ErrMalformed},
		"null":                   {forge("null"), licenses.ErrUnknownKey},
		"no kid":                 {forge("{}"), licenses.ErrUnknownKey},
		"another kid":            {forge(strings.Replace(goldenDataset, "21fe31df", "00000000", 1)), licenses.ErrUnknownKey},
		"another ordinal":        {forge(strings.Replace(goldenDataset, `"ordinal":2`, `"ordinal":3`, 1)), licenses.ErrBadSignature},
		"another sku":            {forge(strings.Replace(goldenDataset, "KEY-1", "KEY-2", 1)), licenses.ErrBadSignature},
		"zero signature":         {signed + "." + base64.URLEncoding.EncodeToString(make([]byte, 64)), licenses.ErrBadSignature},
		"flipped bit":            {signed + "." + flip(t, signature), licenses.ErrBadSignature},
	} {
		got, err := ring.Verify(tc.key)
		if !errors.Is(err, tc.want) || got != (licenses.Claims{}) {
			t.Errorf("%s: Verify = %+v, %v; want %v", name, got, err, tc.want)
		}
	}
}

// withPaddingBits sets a bit of the last character before "==", which decodes to nothing.
func withPaddingBits(t *testing.T, key string) string {
	t.Helper()
	i := len(key) - 3
	if key[i+1:] != "==" {
		t.Fatalf("%s does not end in two padding characters", key)
	}
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	return key[:i] + string(alphabet[strings.IndexByte(alphabet, key[i])|1]) + "=="
}

func flip(t *testing.T, encoded string) string {
	t.Helper()
	b, err := base64.URLEncoding.DecodeString(encoded)
	if err != nil {
		t.Fatal(err)
	}
	b[0] ^= 1
	return base64.URLEncoding.EncodeToString(b)
}

// FuzzVerify: no text makes verification panic, and a text that is accepted is exactly what
// signing its claims makes. Whoever stores keys may compare them as text.
func FuzzVerify(f *testing.F) {
	for _, key := range []string{goldenKey, "", ".", "/", "key/", "key/.", "key/e30=.", "key.", "no point or slash", "key/" + goldenKey, "\xff"} {
		f.Add(key)
	}
	ring := parseRing(f, "21fe31df:"+goldenSeed)
	public := ring.PublicKeys()[0].Key
	f.Fuzz(func(t *testing.T, key string) {
		claims, err := ring.Verify(key)
		offline, offlineErr := licenses.VerifyWith(public, key)
		if err != nil {
			if !errors.Is(err, licenses.ErrMalformed) && !errors.Is(err, licenses.ErrUnknownKey) && !errors.Is(err, licenses.ErrBadSignature) {
				t.Errorf("Verify(%q): %v is none of the three", key, err)
			}
			if claims != (licenses.Claims{}) {
				t.Errorf("Verify(%q) answers claims beside its error", key)
			}
			return
		}
		if offlineErr != nil || offline != claims {
			t.Errorf("VerifyWith(%q) = %+v, %v; Verify says %+v", key, offline, offlineErr, claims)
		}
		if again, _, err := ring.Sign(claims); err != nil || again != key {
			t.Errorf("%q is accepted, but its claims sign to %q, %v", key, again, err)
		}
	})
}

// FuzzParseKeyring: no text makes it panic, and no error repeats a long stretch of it.
func FuzzParseKeyring(f *testing.F) {
	for _, s := range []string{"", " ", ",", ":", "a:b", "21fe31df:" + goldenSeed, goldenSeed + ":21fe31df", goldenSeed, "a:" + goldenSeed + ",a:" + goldenSeed} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		ring, err := licenses.ParseKeyring(s)
		if err == nil && ring.Configured() != (strings.TrimSpace(s) != "") {
			t.Errorf("ParseKeyring(%q): configured %t", s, ring.Configured())
		}
		if err != nil && (ring.Configured() || strings.Contains(err.Error(), goldenSeed)) {
			t.Errorf("ParseKeyring(%q): %v", s, err)
		}
	})
}

func parseRing(tb testing.TB, s string) licenses.Keyring {
	tb.Helper()
	ring, err := licenses.ParseKeyring(s)
	if err != nil {
		tb.Fatal(err)
	}
	return ring
}

// generate makes the signing key whose seed is 32 times the byte b.
func generate(tb testing.TB, b byte) licenses.SigningKey {
	tb.Helper()
	key, err := licenses.Generate(bytes.NewReader(bytes.Repeat([]byte{b}, ed25519.SeedSize)))
	if err != nil {
		tb.Fatal(err)
	}
	return key
}

// ringOf is a ring of generated keys, the signing one first.
func ringOf(tb testing.TB, bs ...byte) licenses.Keyring {
	tb.Helper()
	keys := make([]licenses.SigningKey, len(bs))
	for i, b := range bs {
		keys[i] = generate(tb, b)
	}
	ring, err := licenses.NewKeyring(keys...)
	if err != nil {
		tb.Fatal(err)
	}
	return ring
}
