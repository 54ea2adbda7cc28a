package devpgtest

import (
	"fmt"
	"net/url"
	"strings"
)

// withDatabase returns the address with another database, in either of libpq's forms. The
// address may hold a password, so an error does not repeat it.
func withDatabase(dsn, database string) (string, error) {
	if !strings.HasPrefix(dsn, "postgres://") && !strings.HasPrefix(dsn, "postgresql://") {
		return dsn + " dbname=" + database, nil // of two values the last counts
	}
	u, err := url.Parse(dsn)
	if err != nil {
		return "", fmt.Errorf("%s is not a URL that can be read", urlEnv)
	}
	query := u.Query()
	if query.Has("dbname") || query.Has("database") { // they count more than the path
		query.Del("dbname")
		query.Del("database")
		u.RawQuery = query.Encode()
	}
	u.Path, u.RawPath = "/"+database, ""
	return u.String(), nil
}
