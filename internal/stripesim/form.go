package stripesim

import (
	"encoding/json"
	"net/url"
	"strconv"
	"strings"
)

// Bounds of one form. Stripe publishes none; these are far above what any of its requests needs.
const (
	maxPairs = 2000
	maxDepth = 8
)

// node is a parsed form parameter: a text, named members, or list items. Stripe reads forms as Rack does
// (https://docs.stripe.com/api/expanding_objects shows expand[], client libraries send line_items[0][quantity]).
type node struct {
	text   string
	isText bool
	names  []string // of members, in order of appearance
	member map[string]*node
	items  []*node // from name[]=…
}

// parseForm reads name=value pairs. Their order matters: with line_items[][a]=1&line_items[][b]=2&line_items[][a]=3 a
// repeated name begins the next item, which is why url.ParseQuery will not do.
func parseForm(raw string) (*node, *apiError) {
	root := &node{}
	if raw == "" {
		return root, nil
	}
	pairs := strings.Split(raw, "&")
	if len(pairs) > maxPairs {
		return nil, invalid("", "", "A request may have at most %d parameters.", maxPairs)
	}
	for _, pair := range pairs {
		if pair == "" {
			continue
		}
		rawName, rawValue, _ := strings.Cut(pair, "=")
		name, err1 := url.QueryUnescape(rawName)
		value, err2 := url.QueryUnescape(rawValue)
		if err1 != nil || err2 != nil {
			return nil, invalid("", "", "Invalid percent-encoding in the request parameters.")
		}
		path, ok := splitName(name)
		if !ok {
			return nil, invalid("", name, "Invalid parameter name: %s", name)
		}
		if !root.put(path, value) {
			return nil, invalid("", name, "Parameter %s is given in two forms that exclude each other.", name)
		}
	}
	return root, nil
}

// splitName takes a[b][] apart into a, b and "".
func splitName(name string) ([]string, bool) {
	first, rest, nested := strings.Cut(name, "[")
	if first == "" || strings.Contains(first, "]") {
		return nil, false
	}
	path := []string{first}
	for nested {
		part, after, ok := strings.Cut(rest, "]")
		if !ok || strings.Contains(part, "[") || len(path) == maxDepth {
			return nil, false
		}
		path = append(path, part)
		if after == "" {
			return path, true
		}
		if after[0] != '[' {
			return nil, false
		}
		rest = after[1:]
	}
	return path, true
}

// put stores value at path below n; false if something of another form is there.
func (n *node) put(path []string, value string) bool {
	if len(path) == 0 {
		if n.member != nil || n.items != nil {
			return false
		}
		n.text, n.isText = value, true // the last one wins, as in Rack
		return true
	}
	if n.isText {
		return false
	}
	if path[0] == "" {
		if n.member != nil {
			return false
		}
		return n.item(path[1:]).put(path[1:], value)
	}
	if n.items != nil {
		return false
	}
	if n.member == nil {
		n.member = map[string]*node{}
	}
	next := n.member[path[0]]
	if next == nil {
		next = &node{}
		n.member[path[0]] = next
		n.names = append(n.names, path[0])
	}
	return next.put(path[1:], value)
}

// item returns the list item that a name[] with this rest belongs to: the last one, unless it has that value already.
func (n *node) item(rest []string) *node {
	if len(rest) > 0 && len(n.items) > 0 {
		if last := n.items[len(n.items)-1]; !last.has(rest) {
			return last
		}
	}
	next := &node{}
	n.items = append(n.items, next)
	return next
}

func (n *node) has(path []string) bool {
	if len(path) == 0 || n == nil {
		return n != nil
	}
	if path[0] == "" {
		return false // name[][other][] always adds
	}
	return n.member[path[0]].has(path[1:])
}

// list returns the items of name[]=… or of name[0]=…; the second result names the index that is out of sequence.
func (n *node) list() (items []*node, wrong string) {
	if n.member == nil {
		return n.items, ""
	}
	for i := range n.names {
		name := n.names[i]
		if name != strconv.Itoa(i) {
			return nil, name
		}
		items = append(items, n.member[name])
	}
	return items, ""
}

// canonical is the same for two forms that mean the same parameters, whatever the order of their names.
func (n *node) canonical() string {
	b, err := json.Marshal(n.plain())
	if err != nil {
		return "" // maps, slices and strings always marshal
	}
	return string(b)
}

func (n *node) plain() any {
	switch {
	case n.isText:
		return n.text
	case n.items != nil:
		out := make([]any, len(n.items))
		for i, v := range n.items {
			out[i] = v.plain()
		}
		return out
	default:
		out := make(map[string]any, len(n.member))
		for k, v := range n.member {
			out[k] = v.plain()
		}
		return out
	}
}
