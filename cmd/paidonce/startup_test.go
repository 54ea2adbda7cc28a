package main

import (
	"context"
	"io"
	"maps"
	"strings"
	"testing"
	"time"

	"paidonce/fulfillment"
	"paidonce/internal/provider"
	"paidonce/migrations"
)

// A process whose limits do not fit into one another does not begin to work: it says which.
func TestWorkersDoNotStartWithLimitsThatDoNotFit(t *testing.T) {
	t.Parallel()
	a := &app{service: &fulfillment.Service{Calls: &provider.Calls{Lease: time.Hour}}}
	client, err := a.workers(fulfillment.Queues())
	if client != nil || err == nil || !strings.Contains(err.Error(), "create_checkout: the lease of a call (1h0m0s) must be less than its timeout (40s)") {
		t.Errorf("got %v, %v", client, err)
	}
}

// What cannot work does not begin, and says what to do. None of it is waited for.
func TestStart_Refuses(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	ahead := newShop(t)
	if err := ahead.db.Gorm.Exec(`INSERT INTO goose_db_version (version_id, is_applied) VALUES (?, true)`, migrations.Newest()+1).Error; err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		set  map[string]string
		want string
	}{
		"Nowhere":     {map[string]string{"DATABASE_URL": "postgres://me:hush@" + freeAddr(t) + "/shop", "WAIT_FOR_DATABASE": "0"}, `database "shop"`},
		"NoDatabase":  {map[string]string{"DATABASE_URL": strings.Replace(s.dsn, "paidonce_test_", "nowhere_", 1)}, "there is no database"},
		"TooMany":     {map[string]string{"DB_MAX_CONNS": "100000"}, "lower DB_MAX_CONNS"},
		"Ahead":       {map[string]string{"DATABASE_URL": ahead.dsn}, "deploy the newer binary"},
		"Unreadable":  {map[string]string{"WAIT_FOR_DATABASE": "soon"}, "WAIT_FOR_DATABASE: is not a duration"},
		"NegativeFor": {map[string]string{"WAIT_FOR_DATABASE": "-1s"}, "WAIT_FOR_DATABASE: must not be less"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := s.environment()
			env["DATABASE_URL"], env["WAIT_FOR_DATABASE"] = s.dsn, "1h"
			maps.Copy(env, c.set)
			for _, args := range [][]string{{"serve"}, {"work"}, {"migrate", "up"}} {
				if name == "TooMany" && args[0] == "migrate" {
					continue // which opens three
				}
				refused(t, env, c.want, args...)
			}
		})
	}
}

// refused runs a command that has to end by itself, and say so.
func refused(t *testing.T, env map[string]string, want string, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience) // of one that is not refused
	defer cancel()
	var stderr strings.Builder
	code := run(ctx, args, func(name string) string { return env[name] }, strings.NewReader(""), io.Discard, &stderr)
	if code != 1 || !strings.Contains(stderr.String(), want) || strings.Contains(stderr.String(), "hush") {
		t.Errorf("%v: exit %d, want 1 and %q:\n%s", args, code, want, &stderr)
	}
}
