package stripesim

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// kind is what a parameter may be.
type kind int

const (
	text        kind = iota // any string, not empty unless clear
	integer                 // digits, perhaps a minus
	boolean                 // true or false
	object                  // named members of given kinds
	array                   // items of one kind
	metadata                // any names, string values
	span                    // an integer, or gt gte lt lte
	anything                // whatever is there is taken and has no effect
	unsupported             // Stripe has it, this simulation does not
)

// spec describes one parameter and, for objects and arrays, what is inside.
type spec struct {
	kind     kind
	required bool
	clear    bool // an empty string is allowed and unsets
	members  map[string]spec
	of       *spec
	min      int64 // for integers
	max      int64 // for integers; 0 is no bound
	length   int   // for text; 0 is Stripe's general 5000
	among    []string
}

func fields(members map[string]spec) spec { return spec{kind: object, members: members} }
func arrayOf(of spec) spec                { return spec{kind: array, of: &of} }

// check holds n against sp and names the first parameter that does not fit, as Stripe does.
func (sp spec) check(path string, n *node) *apiError {
	switch sp.kind {
	case object:
		return sp.checkObject(path, n)
	case array:
		return sp.checkArray(path, n)
	case metadata:
		return checkMetadata(path, n)
	case span:
		if !n.isText {
			bound := spec{kind: integer}
			return fields(map[string]spec{"gt": bound, "gte": bound, "lt": bound, "lte": bound}).check(path, n)
		}
		return spec{kind: integer}.checkText(path, n)
	case unsupported:
		return invalid("", path, "The simulated Stripe does not support this parameter: %s", path)
	case anything:
		return nil
	case text, integer, boolean:
		return sp.checkText(path, n)
	}
	return nil
}

func (sp spec) checkObject(path string, n *node) *apiError {
	if n.isText || n.items != nil {
		return invalid("", path, "Invalid object: %s", path)
	}
	for _, name := range n.names {
		inner, known := sp.members[name]
		if !known {
			return unknownParam(within(path, name))
		}
		if err := inner.check(within(path, name), n.member[name]); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(sp.members)) {
		if sp.members[name].required && n.member[name] == nil {
			return missingParam(within(path, name))
		}
	}
	return nil
}

func (sp spec) checkArray(path string, n *node) *apiError {
	if n.isText {
		return invalid("", path, "Invalid array: %s", path)
	}
	items, wrong := n.list()
	if wrong != "" {
		return invalid("", path, "The keys of an array given by index must be numeric and run from 0: %s[%s]", path, wrong)
	}
	for i, item := range items {
		if err := sp.of.check(within(path, strconv.Itoa(i)), item); err != nil {
			return err
		}
	}
	return nil
}

func (sp spec) checkText(path string, n *node) *apiError {
	if !n.isText {
		return invalid("", path, "Invalid string: %s", path)
	}
	if n.text == "" {
		if sp.clear {
			return nil
		}
		return invalid("parameter_invalid_empty", path,
			"You passed an empty string for '%s', which would unset it; '%s' cannot be unset.", path, path)
	}
	if sp.kind == integer {
		v, err := strconv.ParseInt(n.text, 10, 64)
		if err != nil {
			return invalid("parameter_invalid_integer", path, "Invalid integer: %s", n.text)
		}
		if v < sp.min || sp.max != 0 && v > sp.max {
			return invalid("parameter_invalid_integer", path, "Invalid integer: %s is out of range for %s", n.text, path)
		}
	}
	if sp.kind == boolean && n.text != "true" && n.text != "false" {
		return invalid("", path, "Invalid boolean: %s", n.text)
	}
	limit := sp.length
	if limit == 0 {
		limit = 5000
	}
	if utf8.RuneCountInString(n.text) > limit {
		return invalid("", path, "Invalid string: %s must be at most %d characters", path, limit)
	}
	if sp.among != nil && !slices.Contains(sp.among, n.text) {
		return invalid("", path, "Invalid %s: must be one of %s", path, strings.Join(sp.among, ", "))
	}
	return nil
}

// checkMetadata: at most 50 keys of 40 characters, values of 500 (https://docs.stripe.com/api/metadata).
func checkMetadata(path string, n *node) *apiError {
	if n.isText && n.text == "" {
		return nil // metadata= clears all of it
	}
	if n.isText || n.items != nil {
		return invalid("", path, "Invalid object: %s", path)
	}
	for _, name := range n.names {
		at := within(path, name)
		switch {
		case utf8.RuneCountInString(name) > 40:
			return invalid("", at, "Metadata keys can be at most 40 characters: %s", name)
		case !n.member[name].isText:
			return invalid("", at, "Metadata values must be strings: %s", name)
		case utf8.RuneCountInString(n.member[name].text) > 500:
			return invalid("", at, "Metadata values can be at most 500 characters: %s", name)
		}
	}
	return nil
}

func within(path, name string) string {
	if path == "" {
		return name
	}
	return fmt.Sprintf("%s[%s]", path, name)
}

// Reading what check has passed: each returns the zero value for a parameter that was not given.

func (n *node) get(path ...string) *node {
	for _, name := range path {
		if n == nil {
			return nil
		}
		n = n.member[name]
	}
	return n
}

func (n *node) str(path ...string) string {
	if v := n.get(path...); v != nil {
		return v.text
	}
	return ""
}

func (n *node) num(path ...string) int64 {
	v, err := strconv.ParseInt(n.str(path...), 10, 64)
	if err != nil {
		return 0 // absent: check has refused everything else that is no number
	}
	return v
}

func (n *node) elems(path ...string) []*node {
	v := n.get(path...)
	if v == nil {
		return nil
	}
	items, _ := v.list()
	return items
}

func (n *node) strs(path ...string) []string {
	var out []string
	for _, v := range n.elems(path...) {
		out = append(out, v.text)
	}
	return out
}

// mergeInto applies metadata parameters to what is there: an empty value deletes its key, an empty parameter all keys.
func (n *node) mergeInto(have map[string]string) (map[string]string, bool) {
	out := maps.Clone(have)
	if out == nil {
		out = map[string]string{}
	}
	if n == nil {
		return out, true
	}
	if n.isText {
		return map[string]string{}, true
	}
	for _, name := range n.names {
		if v := n.member[name].text; v == "" {
			delete(out, name)
		} else {
			out[name] = v
		}
	}
	return out, len(out) <= 50
}
