package web

import (
	"net/http"
	"strings"
	"testing"
)

// FuzzIdempotencyKey: whatever the header holds, it is a key that can be stored, or a fault;
// and a key that came out goes in again, in quotes, as itself.
func FuzzIdempotencyKey(f *testing.F) {
	for _, seed := range []string{"", "a", `"a"`, `"`, `""`, `"a\"b"`, `"a\\"`, `"a\`, `"a"b`, `a"b`, "\x00", "ä", strings.Repeat("x", 256), `"a" `, "a,b"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, line string) {
		key, given, err := idempotencyKey(http.Header{keyHeader: {line}})
		if !given {
			t.Fatalf("%q is there, and was not seen", line)
		}
		if err != nil {
			if key != "" {
				t.Fatalf("%q is both a key, %q, and a fault", line, key)
			}
			return
		}
		if key == "" || len(key) > maxKey || strings.ContainsFunc(key, func(r rune) bool { return r < ' ' || r > '~' }) {
			t.Fatalf("%q made the key %q", line, key)
		}
		quoted := `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(key) + `"`
		if again, _, err := idempotencyKey(http.Header{keyHeader: {quoted}}); err != nil || again != key {
			t.Fatalf("%q is the key %q, and in quotes %q, %v", line, key, again, err)
		}
	})
}
