package licenses_test

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/uuid"

	"paidonce/licenses"
)

func TestGenerate(t *testing.T) {
	t.Parallel()
	one, err := licenses.Generate(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	other, err := licenses.Generate(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if len(one.ID()) != 8 || one.ID() == other.ID() {
		t.Errorf("ids %q and %q, want eight digits each, and two", one.ID(), other.ID())
	}

	// The line it prints is the configuration that signs like it.
	value, ok := strings.CutPrefix(one.EnvLine(), "LICENSE_SIGNING_KEYS=")
	if !ok || strings.ContainsAny(value, " \n") {
		t.Fatal("not one line of LICENSE_SIGNING_KEYS=…")
	}
	public := parseRing(t, value).PublicKeys()
	if len(public) != 1 || public[0].ID != one.ID() || public[0].Hex() != one.Public().Hex() {
		t.Errorf("the line holds %v, want %s", public, one.ID())
	}

	if _, err := licenses.Generate(iotest.ErrReader(errors.New("no entropy"))); err == nil {
		t.Error("a key was generated from no entropy")
	}
	if _, err := licenses.Generate(bytes.NewReader(make([]byte, 31))); err == nil {
		t.Error("a key was generated from 31 bytes")
	}
}

func TestNewKeyringRefuses(t *testing.T) {
	t.Parallel()
	one := generate(t, 1)
	for name, keys := range map[string][]licenses.SigningKey{
		"one key twice":  {one, one},
		"the zero value": {one, {}},
	} {
		if ring, err := licenses.NewKeyring(keys...); err == nil || ring.Configured() {
			t.Errorf("%s: a ring of %s, %v; want an error", name, ring, err)
		}
	}
}

func TestSignRefuses(t *testing.T) {
	t.Parallel()
	if _, _, err := (licenses.Keyring{}).Sign(goldenClaims()); !errors.Is(err, licenses.ErrNoSigningKey) {
		t.Errorf("an empty ring: %v, want ErrNoSigningKey", err)
	}

	ring := ringOf(t, 1)
	for name, spoil := range map[string]func(*licenses.Claims){
		"no order":        func(c *licenses.Claims) { c.OrderID = uuid.Nil },
		"no line":         func(c *licenses.Claims) { c.LineID = uuid.Nil },
		"ordinal 0":       func(c *licenses.Claims) { c.Ordinal = 0 },
		"ordinal below 0": func(c *licenses.Claims) { c.Ordinal = -1 },
		"no sku":          func(c *licenses.Claims) { c.SKU = "" },
		"sku not UTF-8":   func(c *licenses.Claims) { c.SKU = "KEY\xff" },
	} {
		claims := goldenClaims()
		spoil(&claims)
		if key, _, err := ring.Sign(claims); !errors.Is(err, licenses.ErrBadClaims) || key != "" {
			t.Errorf("%s: signed as %q, %v; want ErrBadClaims", name, key, err)
		}
	}
}

// TestRotation: the new key goes first and signs; what the old one signed stays true until the
// old one leaves the ring.
func TestRotation(t *testing.T) {
	t.Parallel()
	before, during, after := ringOf(t, 1), ringOf(t, 2, 1), ringOf(t, 2)

	oldKey, oldID, err := before.Sign(goldenClaims())
	if err != nil {
		t.Fatal(err)
	}
	newKey, newID, err := during.Sign(goldenClaims())
	if err != nil {
		t.Fatal(err)
	}
	if oldID == newID || oldKey == newKey || newID != generate(t, 2).ID() {
		t.Errorf("signed by %s, then by %s", oldID, newID)
	}

	for _, tc := range []struct {
		name string
		ring licenses.Keyring
		key  string
		kid  licenses.KeyID
		want error
	}{
		{"old license before", before, oldKey, oldID, nil},
		{"old license during", during, oldKey, oldID, nil},
		{"new license during", during, newKey, newID, nil},
		{"new license after", after, newKey, newID, nil},
		{"new license before", before, newKey, "", licenses.ErrUnknownKey},
		{"old license after", after, oldKey, "", licenses.ErrUnknownKey},
		{"no keys", licenses.Keyring{}, oldKey, "", licenses.ErrUnknownKey},
	} {
		if got, err := tc.ring.Verify(tc.key); !errors.Is(err, tc.want) || got.KeyID != tc.kid {
			t.Errorf("%s: %+v, %v; want %v", tc.name, got, err, tc.want)
		}
	}
}

func TestParseKeyring(t *testing.T) {
	t.Parallel()
	one, two := element(generate(t, 1)), element(generate(t, 2))

	for _, blank := range []string{"", " ", "\n"} {
		if ring := parseRing(t, blank); ring.Configured() || len(ring.PublicKeys()) != 0 {
			t.Errorf("%q is a ring of %s, want none", blank, ring)
		}
	}
	if got, want := parseRing(t, one+" , "+two).String(), ringOf(t, 1, 2).String(); got != want {
		t.Errorf("ring %s, want %s", got, want)
	}

	for name, tc := range map[string]struct {
		in   string
		want []string // each must be in the error: all faults at once
	}{
		"empty element":      {one + ",", []string{"key 2: empty"}},
		"only commas":        {",", []string{"key 1: empty", "key 2: empty"}},
		"seed alone":         {goldenSeed, []string{"key 1: want <kid>:<base64 seed>"}},
		"seed and kid":       {goldenSeed + ":a", []string{"key 1: the kid must be", "key 1: the seed is not base64"}},
		"no kid":             {":" + goldenSeed, []string{"key 1: the kid must be"}},
		"long kid":           {strings.Repeat("k", 33) + ":" + goldenSeed, []string{"key 1: the kid must be 1 to 32"}},
		"kid with a quote":   {`a"b:` + goldenSeed, []string{"key 1: the kid must be"}},
		"no seed":            {"a:", []string{"key 1: the seed has 0 bytes, want 32"}},
		"short seed":         {"a:" + base64.StdEncoding.EncodeToString(make([]byte, 31)), []string{"the seed has 31 bytes"}},
		"private key":        {"a:" + base64.StdEncoding.EncodeToString(make([]byte, 64)), []string{"the seed has 64 bytes"}},
		"seed not padded":    {"a:" + strings.TrimRight(goldenSeed, "="), []string{"the seed is not base64"}},
		"kid twice":          {"a:" + seedOf(t, 1) + ",a:" + seedOf(t, 2), []string{`key id "a" is there twice`}},
		"seed twice":         {"a:" + goldenSeed + ",b:" + goldenSeed, []string{`key ids "a" and "b" are the same key`}},
		"everything at once": {"a:" + goldenSeed + ",,a:" + seedOf(t, 1) + ",c:zz", []string{"key 2: empty", `"a" is there twice`, "key 4: the seed"}},
	} {
		ring, err := licenses.ParseKeyring(tc.in)
		if err == nil || ring.Configured() {
			t.Errorf("%s: %v, configured %t; want an error and no ring", name, err, ring.Configured())
			continue
		}
		for _, want := range tc.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: error %q does not say %q", name, err, want)
			}
		}
		for _, secret := range []string{strings.TrimRight(goldenSeed, "="), strings.TrimRight(seedOf(t, 1), "="), strings.Repeat("A", 40)} {
			if strings.Contains(err.Error(), secret) {
				t.Errorf("%s: the error repeats a seed", name)
			}
		}
	}
}

// TestSeedsAreNotPrinted prints a ring in every way a log might, alone and inside a struct
// that does not export it, and looks for the seed in each spelling.
func TestSeedsAreNotPrinted(t *testing.T) {
	t.Parallel()
	ring, key := parseRing(t, "main:"+goldenSeed), generate(t, 1)
	type config struct {
		ring licenses.Keyring
		key  licenses.SigningKey
		Ring *licenses.Keyring
	}
	holder := config{ring: ring, key: key, Ring: &ring}

	var printed strings.Builder
	for _, v := range []any{ring, &ring, key, &key, holder, &holder, []licenses.Keyring{ring}, licenses.Store{Keys: ring}} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
			fmt.Fprintf(&printed, verb+"\n", v)
		}
	}
	for _, handler := range []slog.Handler{slog.NewTextHandler(&printed, nil), slog.NewJSONHandler(&printed, nil)} {
		slog.New(handler).Info("start", "ring", ring, "ringp", &ring, "key", key, "holder", holder)
	}

	for name, encoded := range map[string]string{"golden": goldenSeed, "generated": seedOf(t, 1)} {
		seed, err := base64.StdEncoding.DecodeString(encoded)
		if err != nil {
			t.Fatal(err)
		}
		spaced := strings.Trim(fmt.Sprint(string(seed)), "[]")
		for _, secret := range []string{
			string(seed), encoded, base64.URLEncoding.EncodeToString(seed),
			fmt.Sprintf("%x", seed), fmt.Sprintf("%X", seed), spaced, strings.ReplaceAll(spaced, " ", ","),
			strings.Trim(fmt.Sprintf("%#v", seed), "[]byte{}"),
		} {
			if strings.Contains(printed.String(), secret) {
				t.Errorf("the %s seed was printed as %q", name, secret)
			}
		}
	}
	if !strings.Contains(printed.String(), "main") {
		t.Error("the key id was not printed")
	}
}

// element is a key as it stands in LICENSE_SIGNING_KEYS.
func element(k licenses.SigningKey) string {
	return strings.TrimPrefix(k.EnvLine(), "LICENSE_SIGNING_KEYS=")
}

func seedOf(tb testing.TB, b byte) string {
	tb.Helper()
	_, seed, _ := strings.Cut(element(generate(tb, b)), ":")
	return seed
}
