package web

import (
	"errors"
	"net/http"
	"strings"
)

// keyHeader is the header by which a client names its request, so that asking again is
// asking once. Buyers are not logged in: whoever sends the same key with the same order is
// the same client, and is given the order's token. So a key is to be random.
const keyHeader = "Idempotency-Key"

// maxKey is the longest key, in characters. It is Stripe's limit, and so that of many clients.
const maxKey = 255

var errNoKey = errors.New(`must be 1 to 255 printable ASCII characters, with or without double quotes around them`)

// idempotencyKey reads the header; given is false if there is none. The draft
// (draft-ietf-httpapi-idempotency-key-header) wants a structured-field string, in quotes;
// most clients send it bare. Both are the same key.
func idempotencyKey(header http.Header) (key string, given bool, err error) {
	lines := header.Values(keyHeader)
	switch {
	case len(lines) == 0:
		return "", false, nil
	case len(lines) > 1:
		return "", true, errors.New("was sent more than once")
	}
	key, ok := lines[0], true
	if strings.HasPrefix(key, `"`) {
		key, ok = unquote(key)
	}
	if !ok || key == "" || len(key) > maxKey {
		return "", true, errNoKey
	}
	for i := range len(key) {
		if key[i] < ' ' || key[i] > '~' {
			return "", true, errNoKey
		}
	}
	return key, true, nil
}

// unquote reads a structured-field string (RFC 8941, section 4.2.5): quotes around it, and a
// backslash before a quote or a backslash in it. Nothing may follow it.
func unquote(quoted string) (string, bool) {
	var b strings.Builder
	for i := 1; i < len(quoted); i++ {
		switch quoted[i] {
		case '"':
			return b.String(), i == len(quoted)-1
		case '\\':
			i++
			if i == len(quoted) || quoted[i] != '"' && quoted[i] != '\\' {
				return "", false
			}
		}
		b.WriteByte(quoted[i])
	}
	return "", false // it does not end
}
