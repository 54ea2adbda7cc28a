package stripesim

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
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

// UnmarshalJSON takes whatever a state file holds there.
func (none) UnmarshalJSON([]byte) error { return nil }

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

// UnmarshalJSON reads what an unexpanded reference was written as.
func (r *ref) UnmarshalJSON(b []byte) error { return json.Unmarshal(b, &r.id) }

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

// percent is hundredths of a percent, written as a JSON number, or null when zero: 2550 is 25.5.
type percent int64

// MarshalJSON writes the number without trailing zeros.
func (p percent) MarshalJSON() ([]byte, error) {
	if p == 0 {
		return []byte("null"), nil
	}
	text := fmt.Sprintf("%d.%02d", p/100, p%100)
	return []byte(strings.TrimSuffix(strings.TrimRight(text, "0"), ".")), nil
}

// UnmarshalJSON reads a number with at most two decimals; parsePercent reads the same of a form.
func (p *percent) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		return nil
	}
	v, ok := parsePercent(string(b))
	if !ok {
		return fmt.Errorf("not a percentage: %s", b)
	}
	*p = v
	return nil
}

func parsePercent(text string) (percent, bool) {
	whole, part, _ := strings.Cut(text, ".")
	part += strings.Repeat("0", max(0, 2-len(part)))
	if len(part) != 2 || len(whole) > 3 || strings.Trim(whole+part, "0123456789") != "" {
		return 0, false
	}
	v, err := strconv.ParseInt(whole+part, 10, 64)
	return percent(v), err == nil && v > 0 && v <= 100_00
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
