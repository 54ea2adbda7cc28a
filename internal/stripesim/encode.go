package stripesim

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
)

// encode renders what the simulation sends in Stripe's manner: indented by two spaces, & < > as they are, no newline at
// the end.
func encode(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		// Only this package's own types come here and each of them can be encoded; a failure is a bug in their shape.
		panic(fmt.Sprintf("stripesim: encoding %T: %v", v, err))
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// none is a field the simulation never fills and Stripe then sends as null.
type none struct{}

// MarshalJSON writes null.
func (none) MarshalJSON() ([]byte, error) { return []byte("null"), nil }

// ref is an expandable field: null, an id, or the object in its place
// (https://docs.stripe.com/api/expanding_objects).
type ref struct {
	id     string
	object any // set only on the copy that answers a request with expand[]
}

// MarshalJSON writes the object if expanded, else the id, else null.
func (r ref) MarshalJSON() ([]byte, error) {
	switch {
	case r.object != nil:
		return encode(r.object), nil
	case r.id != "":
		return json.Marshal(r.id)
	default:
		return []byte("null"), nil
	}
}

// optional is a string that is null when empty: Stripe never sends "".
type optional string

// MarshalJSON writes null for the empty string.
func (o optional) MarshalJSON() ([]byte, error) {
	if o == "" {
		return []byte("null"), nil
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(string(o))
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// randomID makes an id as long as Stripe's of that kind, so that columns and logs meet real lengths.
func randomID(prefix string) string {
	length := 24
	switch prefix {
	case "cs_test_", "cs_live_":
		length = 58
	case "req_", "prod_":
		length = 14
	}
	const letters = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	b := make([]byte, length)
	_, _ = rand.Read(b) // never fails: crypto/rand ends the program instead
	for i := range b {
		b[i] = letters[int(b[i])%len(letters)]
	}
	return prefix + string(b)
}
