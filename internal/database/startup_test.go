package database_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"paidonce/internal/database"
	"paidonce/internal/devpg"
	"paidonce/internal/devpg/devpgtest"
)

// patience bounds every wait of these tests; a busy machine must not fail them.
const patience = time.Minute

// lines is a log that can be read while it is written.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

func (l *lines) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited %s for %s", patience, what)
		}
	}
}

// free is an address at which nobody listens, and listen one at which handle is called for
// every connection.
func free(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer func() { must(t, listener.Close()) }()
	return listener.Addr().String()
}

func listen(t *testing.T, address string, handle func(net.Conn)) {
	t.Helper()
	listener, err := net.Listen("tcp", address)
	must(t, err)
	var serving sync.WaitGroup
	t.Cleanup(func() { must(t, listener.Close()); serving.Wait() })
	serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { defer func() { _ = conn.Close() }(); handle(conn) })
		}
	})
}

// at is the address of the database behind dsn, as if it were at another place.
func at(t *testing.T, dsn, address string) string {
	t.Helper()
	config, err := pgx.ParseConfig(dsn)
	must(t, err)
	host, port, err := net.SplitHostPort(address)
	must(t, err)
	return fmt.Sprintf("host=%s port=%s user=%s password=hush dbname=%s sslmode=disable", host, port, config.User, config.Database)
}

// forward hands a connection on to the database behind dsn.
func forward(t *testing.T, dsn string) func(net.Conn) {
	t.Helper()
	config, err := pgx.ParseConfig(dsn)
	must(t, err)
	network, address := pgconn.NetworkAddress(config.Host, config.Port)
	return func(client net.Conn) {
		server, err := net.Dial(network, address)
		if err != nil {
			return
		}
		go func() { _, _ = io.Copy(server, client); _ = server.Close() }()
		_, _ = io.Copy(client, server)
	}
}

// answers is a server that refuses everybody with one error.
func answers(code, message string) func(net.Conn) {
	return func(conn net.Conn) {
		backend := pgproto3.NewBackend(conn, conn)
		if _, err := backend.ReceiveStartupMessage(); err != nil {
			return
		}
		backend.Send(&pgproto3.ErrorResponse{Severity: "FATAL", Code: code, Message: message})
		_ = backend.Flush()
	}
}

// A database that comes later is waited for, and so is said, once and without the password.
func TestAwait_ComesLater(t *testing.T) {
	t.Parallel()
	real := devpgtest.NewEmpty(t)
	address := free(t)
	dsn := at(t, real, address)
	var log lines
	done := make(chan error, 1)
	go func() { done <- database.Await(t.Context(), dsn, patience, log.logger()) }()
	eventually(t, "the line", func() bool { return strings.Contains(log.String(), "waiting for the database") })
	listen(t, address, forward(t, real))
	must(t, <-done)

	host, port, err := net.SplitHostPort(address)
	must(t, err)
	for _, want := range []string{"host=" + host, "port=" + port, "database=paidonce_test_", "the database is there"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("not said: %s\n%s", want, &log)
		}
	}
	if strings.Contains(log.String(), "hush") || strings.Count(log.String(), "waiting") != 1 {
		t.Errorf("the log is\n%s", &log)
	}
}

// One that is there says nothing.
func TestAwait_IsThere(t *testing.T) {
	t.Parallel()
	var log lines
	must(t, database.Await(t.Context(), devpgtest.NewEmpty(t), 0, log.logger()))
	if log.String() != "" {
		t.Errorf("said: %s", &log)
	}
}

func TestAwait_NeverComes(t *testing.T) {
	t.Parallel()
	for _, limit := range []time.Duration{0, 150 * time.Millisecond} {
		address := free(t)
		var log lines
		err := database.Await(t.Context(), "postgres://me:hush@"+address+"/shop", limit, log.logger())
		if err == nil {
			t.Fatal("no error")
		}
		for _, want := range []string{"WAIT_FOR_DATABASE=" + limit.String(), address, `"shop"`, "refused"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %s", limit, err, want)
			}
		}
		said := 0
		if limit > 0 {
			said = 1 // of several attempts
		}
		if strings.Contains(err.Error()+log.String(), "hush") || strings.Count(log.String(), "waiting") != said {
			t.Errorf("%s: %v\n%s", limit, err, &log)
		}
	}
}

// One line, whatever pgx tried: with TLS and without, the name and its addresses.
func TestReach_SaysItInOneLine(t *testing.T) {
	t.Parallel()
	hangsUp, silent := free(t), free(t)
	listen(t, hangsUp, func(conn net.Conn) { _, _ = conn.Read(make([]byte, 1<<10)) })
	listen(t, silent, func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) })
	for name, c := range map[string]struct{ address, options, want string }{
		"Refused": {free(t), "", "connect: connection refused"},
		"HangsUp": {hangsUp, "?sslmode=disable", "hung up"},
		"Silent":  {silent, "?connect_timeout=1", "no answer"},
		"Nowhere": {"nowhere.invalid:5432", "", "lookup nowhere.invalid"},
		"NoTLS":   {hangsUp, "", "hung up"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := database.Reach(t.Context(), "postgres://me:hush@"+c.address+"/shop"+c.options)
			if err == nil {
				t.Fatal("no error")
			}
			text := err.Error()
			if !strings.HasPrefix(text, `DATABASE_URL: database "shop" at `+c.address+": ") || !strings.Contains(text, c.want) ||
				strings.ContainsAny(text, "\n") || strings.Contains(text, "hush") || strings.Count(text, c.address) > 1 {
				t.Errorf("got %s, want %s", text, c.want)
			}
		})
	}
	must(t, database.Reach(t.Context(), devpgtest.NewEmpty(t)))
}

func TestAwait_EndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	var log lines
	done := make(chan error, 1)
	go func() { done <- database.Await(ctx, "postgres://"+free(t)+"/x", time.Hour, log.logger()) }()
	eventually(t, "the line", func() bool { return log.String() != "" })
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// What a server says at the door: some of it passes, some of it never does.
func TestAwait_WhatTheServerSays(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		code, message string
		waits         bool
		want          string
	}{
		"Starting":       {"57P03", "the database system is starting up", true, ""},
		"Stopping":       {"57P01", "terminating connection", true, ""},
		"Full":           {"53300", "sorry, too many clients already", true, ""},
		"PoolerAlone":    {"08P01", "server login has been failing, try again later", true, ""},
		"PoolerSetting":  {"08P01", "unsupported startup parameter: search_path", false, "search_path"},
		"PoolerConfig":   {"08P01", "bouncer config error", false, "bouncer config error"},
		"PoolerDatabase": {"08P01", "no such database: shop", false, "no such database"},
		"Password":       {"28P01", `password authentication failed for user "me"`, false, `refuses the password of user "me"`},
		"NotInHBA":       {"28000", "no pg_hba.conf entry", false, `does not let user "me" in: no pg_hba.conf entry`},
		"NoDatabase":     {"3D000", `database "shop" does not exist`, false, `there is no database "shop" at 127.0.0.1`},
		"NotAllowed":     {"42501", "permission denied for database", false, "permission denied"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address := free(t)
			listen(t, address, answers(c.code, c.message))
			var log lines
			limit := time.Hour
			if c.waits {
				limit = 50 * time.Millisecond
			}
			err := database.Await(t.Context(), "postgres://me:hush@"+address+"/shop?sslmode=disable", limit, log.logger())
			if waited := strings.Contains(log.String(), "waiting"); err == nil || waited != c.waits {
				t.Fatalf("%v; waited: %v", err, waited)
			}
			if !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "hush") {
				t.Errorf("got %v, want %s", err, c.want)
			}
			// A command at the desk asks once, and waits for none of them.
			err = database.Reach(t.Context(), "postgres://me:hush@"+address+"/shop?sslmode=disable")
			if err == nil || !strings.HasPrefix(err.Error(), "DATABASE_URL: ") || !strings.Contains(err.Error(), c.want) || strings.ContainsAny(err.Error(), "\n") {
				t.Errorf("reached: %v, want one line of %s", err, c.want)
			}
		})
	}
}

// The same from a real server: its own words for a password, a user and a database.
func TestAwait_ARealServerRefuses(t *testing.T) {
	t.Parallel()
	server, err := devpg.Start(t.Context(), devpg.Options{TCP: true})
	must(t, err)
	t.Cleanup(func() { must(t, server.Stop(context.Background())) })
	config, err := pgx.ParseConfig(server.TCPURL("postgres"))
	must(t, err)
	address := net.JoinHostPort(config.Host, strconv.Itoa(int(config.Port)))
	for dsn, want := range map[string]string{
		"postgres://postgres:wrong@" + address + "/postgres?sslmode=disable":                  `refuses the password of user "postgres"`,
		"postgres://postgres:" + config.Password + "@" + address + "/nowhere?sslmode=disable": `there is no database "nowhere"`,
		server.URL("nowhere"): "createdb nowhere",
		strings.Replace(server.URL("postgres"), "user=postgres", "user=nobody", 1): `does not let user "nobody" in`,
		"postgres://postgres@" + address + "/postgres?sslmode=require":             "TLS",
	} {
		var log lines
		err := database.Await(t.Context(), dsn, time.Hour, log.logger())
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), config.Password) || log.String() != "" {
			t.Errorf("got %v, want %s at once\n%s", err, want, &log)
		}
	}
}

// The arithmetic of connections: what can never be is refused, what may not be is said.
func TestInspect_Connections(t *testing.T) {
	t.Parallel()
	dsn := devpgtest.NewEmpty(t)
	db := open(t, dsn, 1)
	most, err := strconv.Atoi(show(t, db, "max_connections")["max_connections"])
	must(t, err)
	reserved, err := strconv.Atoi(show(t, db, "superuser_reserved_connections")["superuser_reserved_connections"])
	must(t, err)
	for wanted, c := range map[int]struct{ refused, warned bool }{
		1:                   {false, false},
		most - reserved:     {false, true}, // db has one of them
		most - reserved + 1: {true, false},
	} {
		var log lines
		err := database.Inspect(t.Context(), dsn, wanted, log.logger())
		if errors.Is(err, database.ErrTooFew) != c.refused || (err != nil) != c.refused || (log.String() != "") != c.warned {
			t.Errorf("%d of %d: %v\n%s", wanted, most, err, &log)
		}
		for _, number := range []int{wanted, most - reserved, most, reserved} {
			if c.refused && !strings.Contains(err.Error(), strconv.Itoa(number)) {
				t.Errorf("%v: it does not say %d", err, number)
			}
		}
	}
}

// pooler is a pooler in transaction mode, of so many server connections, each used in turn. It
// knows as much of the protocol as Inspect needs.
func pooler(t *testing.T, dsn string, size int) string {
	t.Helper()
	type server struct {
		mu    sync.Mutex
		front *pgproto3.Frontend
	}
	servers := make([]*server, size)
	for i := range servers {
		conn, err := pgconn.Connect(t.Context(), dsn)
		must(t, err)
		raw, err := conn.Hijack()
		must(t, err)
		t.Cleanup(func() { _ = raw.Conn.Close() })
		servers[i] = &server{front: raw.Frontend}
	}
	var mu sync.Mutex
	turn := 0
	relay := func(query *pgproto3.Query, client *pgproto3.Backend) error {
		mu.Lock()
		s := servers[turn%size]
		turn++
		mu.Unlock()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.front.Send(query)
		if err := s.front.Flush(); err != nil {
			return err
		}
		for {
			message, err := s.front.Receive()
			if err != nil {
				return err
			}
			client.Send(message)
			if err := client.Flush(); err != nil {
				return err
			}
			if _, done := message.(*pgproto3.ReadyForQuery); done {
				return nil
			}
		}
	}
	address := free(t)
	listen(t, address, func(conn net.Conn) {
		client := pgproto3.NewBackend(conn, conn)
		if _, err := client.ReceiveStartupMessage(); err != nil {
			return
		}
		client.Send(&pgproto3.AuthenticationOk{})
		client.Send(&pgproto3.ParameterStatus{Name: "standard_conforming_strings", Value: "on"})
		client.Send(&pgproto3.ParameterStatus{Name: "client_encoding", Value: "UTF8"})
		client.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
		for err := client.Flush(); err == nil; {
			var message pgproto3.FrontendMessage
			if message, err = client.Receive(); err != nil {
				return
			}
			query, ok := message.(*pgproto3.Query)
			if !ok {
				return
			}
			err = relay(query, client)
		}
	})
	return at(t, dsn, address)
}

// Behind a pooler in transaction mode nothing may begin: it would work until it mattered.
func TestInspect_RefusesTransactionPooling(t *testing.T) {
	t.Parallel()
	for _, size := range []int{1, 2, 3} {
		var log lines
		err := database.Inspect(t.Context(), pooler(t, devpgtest.NewEmpty(t), size), 1, log.logger())
		if !errors.Is(err, database.ErrPooled) || !strings.Contains(err.Error(), "pool_mode") {
			t.Errorf("%d server connections: got %v, want ErrPooled and what to do", size, err)
		}
	}
}
