//go:build unix

package devpg

import (
	"bytes"
	"context"
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"
)

func TestServer_ServesUntilStopped(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	s, err := Start(t.Context(), Options{Log: &log})
	must(t, err)
	url := s.URL("postgres")

	for setting, want := range map[string]string{
		"fsync": "on", "full_page_writes": "on", "synchronous_commit": "on",
		"listen_addresses": "", "server_encoding": "UTF8", "lc_collate": "C", "TimeZone": "UTC",
	} {
		if got := query[string](t, url, "SELECT current_setting('"+setting+"')"); got != want {
			t.Errorf("%s is %q, want %q", setting, got, want)
		}
	}
	if s.TCPURL("postgres") != "" {
		t.Error("there is a TCP address that nobody asked for")
	}

	pid := postmasterPID(t, s.folder)
	must(t, s.Stop(context.Background()))
	must(t, s.Stop(context.Background()))
	if !gone(t, pid) {
		t.Errorf("process %d is still there after Stop", pid)
	}
	if exists(s.run) {
		t.Errorf("%s is still there after Stop", s.run)
	}
	if _, err := pgx.Connect(t.Context(), url); err == nil {
		t.Error("the server still answers after Stop")
	}
	if !strings.Contains(log.String(), "ready to accept connections") {
		t.Errorf("Options.Log got %q", log.String())
	}
}

// Every kind of client reads the same URL, also where names need escaping.
func TestServer_URLWorksForEveryClient(t *testing.T) {
	t.Parallel()
	s := start(t, Options{})
	const name = "a b/c+d?é"
	execute(t, s.URL("postgres"), `CREATE DATABASE "`+name+`"`)

	config, err := pgx.ParseConfig(s.URL(name))
	must(t, err)
	if config.Database != name || config.Host != s.run || config.User != superuser || config.TLSConfig != nil {
		t.Errorf("pgx reads database %q, host %q, user %q", config.Database, config.Host, config.User)
	}
	if got := query[string](t, s.URL(name), "SELECT current_database()"); got != name {
		t.Errorf("pgx: database %q, want %q", got, name)
	}

	db, err := gorm.Open(postgres.Open(s.URL(name)), &gorm.Config{})
	must(t, err)
	pool, err := db.DB()
	must(t, err)
	defer func() { must(t, pool.Close()) }()
	var got string
	must(t, db.Raw("SELECT current_database()").Scan(&got).Error)
	if got != name {
		t.Errorf("gorm: database %q, want %q", got, name)
	}

	psql := filepath.Join(s.bin, "psql")
	if !exists(psql) {
		t.Skip("no psql beside the server")
	}
	out, err := exec.CommandContext(t.Context(), psql, "-XAtc", "SELECT current_database()", s.URL(name)).CombinedOutput()
	if got := strings.TrimSpace(string(out)); err != nil || got != name {
		t.Errorf("psql: %q, %v; want %q", got, err, name)
	}
}

func TestEscapeValue_AsLibpqReadsIt(t *testing.T) {
	t.Parallel()
	if got, want := escapeValue("/tmp/a b+c&d"), "/tmp/a%20b%2Bc%26d"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestServer_TCPOnlyOnLoopbackAndWithItsPassword(t *testing.T) {
	t.Parallel()
	s := start(t, Options{TCP: true})
	if got := query[string](t, s.TCPURL("postgres"), "SELECT host(inet_server_addr())"); got != "127.0.0.1" {
		t.Errorf("connected to %s, want 127.0.0.1", got)
	}
	if got := query[string](t, s.URL("postgres"), "SELECT current_setting('listen_addresses')"); got != "127.0.0.1" {
		t.Errorf("listens on %q, want loopback only", got)
	}
	wrong := strings.Replace(s.TCPURL("postgres"), s.password, "guess", 1)
	if _, err := pgx.Connect(t.Context(), wrong); err == nil {
		t.Error("a wrong password was accepted")
	}
}

func TestStart_TwoClustersAtOnce(t *testing.T) {
	t.Parallel()
	a, b := start(t, Options{}), start(t, Options{})
	execute(t, a.URL("postgres"), "CREATE TABLE only_in_a ()")
	if query[bool](t, b.URL("postgres"), "SELECT to_regclass('only_in_a') IS NOT NULL") {
		t.Error("two servers share a database")
	}
}

func TestStart_KeepsTheFolderAndRefusesASecondServer(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(openDir(t), "with a space", "and 'quotes'")
	s, err := Start(t.Context(), Options{Dir: dir})
	must(t, err)
	execute(t, s.URL("postgres"), "CREATE TABLE kept ()")

	if _, err := Start(t.Context(), Options{Dir: dir}); !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), dir) {
		t.Errorf("a second Start: %v, want ErrInUse and the folder", err)
	}
	must(t, s.Stop(t.Context()))

	again := start(t, Options{Dir: dir})
	if !query[bool](t, again.URL("postgres"), "SELECT to_regclass('kept') IS NOT NULL") {
		t.Error("the table is gone after a restart")
	}
}

// The socket does not lie below Dir, since a socket's path is limited to some 100 bytes.
func TestStart_LongFolder(t *testing.T) {
	t.Parallel()
	s := start(t, Options{Dir: filepath.Join(openDir(t), strings.Repeat("long/", 40))})
	must(t, connect(t, s.URL("postgres")).Ping(t.Context()))
}

func TestStop_AtOnceWhenItsContextEnds(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(openDir(t), "pg")
	s, err := Start(t.Context(), Options{Dir: dir})
	must(t, err)
	execute(t, s.URL("postgres"), "CREATE TABLE committed ()")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	pid := postmasterPID(t, dir)
	// An orderly stop may win the race with the ended context, and then is no error.
	if err := s.Stop(ended); err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("Stop: %v, want nil or context.Canceled", err)
	}
	if !gone(t, pid) {
		t.Error("the server is still there after Stop")
	}
	again := start(t, Options{Dir: dir})
	if !query[bool](t, again.URL("postgres"), "SELECT to_regclass('committed') IS NOT NULL") {
		t.Error("what was committed is gone")
	}
}
