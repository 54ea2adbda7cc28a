// Package database opens the one pool that everything shares.
//
// It owns how a session is set up: its time limits, and its keepalives. It promises that
// gorm, the job queue and LISTEN use one pool of connections, that a host which disappears
// frees its locks in seconds, and that a gorm transaction can be handed to the queue as the
// very same transaction. It knows no tables.
package database

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"
)

// DB is one pool in its three shapes.
type DB struct {
	Pool *pgxpool.Pool // for LISTEN
	SQL  *sql.DB       // for the job queue
	Gorm *gorm.DB      // for everything else
}

// Options of Open.
type Options struct {
	MaxConns int32 // zero means pgx' own default
}

// startupSettings are set while a connection is made.
func startupSettings() map[string]string {
	return map[string]string{"application_name": "paidonce", "timezone": "UTC"}
}

// sessionSettings are set on every connection once it is made: a pooler refuses most settings
// at the start. A statement or a lock that takes seconds is stuck, not slow; and a transaction
// that idles belongs to a process that is gone.
func sessionSettings() map[string]string {
	return map[string]string{
		"statement_timeout":                   "10s",
		"lock_timeout":                        "5s",
		"idle_in_transaction_session_timeout": "10s",
		"tcp_keepalives_idle":                 "10",
		"tcp_keepalives_interval":             "5",
		"tcp_keepalives_count":                "3",
	}
}

// set gives the configuration the settings above, unless the address has its own.
func set(config *pgxpool.Config) {
	given := config.ConnConfig.RuntimeParams
	for name, value := range startupSettings() {
		if _, theirs := given[name]; !theirs {
			given[name] = value
		}
	}
	var names, values []string
	for name, value := range sessionSettings() {
		if theirs, ok := given[name]; ok {
			value = theirs
			delete(given, name)
		}
		names, values = append(names, name), append(values, value)
	}
	config.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		const statement = `SELECT set_config(name, value, false) FROM unnest($1::text[], $2::text[]) AS s (name, value)`
		if _, err := conn.Exec(ctx, statement, pgx.QueryExecModeExec, names, values); err != nil {
			return fmt.Errorf("setting a session's limits: %w", err)
		}
		return nil
	}
}

// ParseDSN reads a URL or a key=value list. Its error does not repeat the value: pgx' own may
// quote the password.
func ParseDSN(dsn string) (*pgxpool.Config, error) {
	config, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return nil, errors.New("DATABASE_URL: not a Postgres URL")
	}
	return config, nil
}

// Open connects to the database at dsn, a URL or a key=value list. It does not wait for the
// server: the first use tells.
func Open(ctx context.Context, dsn string, o Options) (*DB, error) {
	config, err := ParseDSN(dsn)
	if err != nil {
		return nil, err
	}
	if o.MaxConns > 0 {
		config.MaxConns = o.MaxConns
	}
	set(config)
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("opening the database: %w", err)
	}

	// The sql.DB keeps no idle connections of its own: they would be lent from the pool
	// and never come back.
	db := stdlib.OpenDBFromPool(pool)
	orm, err := gorm.Open(postgres.New(postgres.Config{Conn: db}), &gorm.Config{
		SkipDefaultTransaction: true, // transactions are begun where they are meant
		DisableAutomaticPing:   true, // gorm would wait for the server
		Logger:                 logger.Discard,
		NowFunc:                Now,
	})
	if err != nil {
		pool.Close()
		return nil, fmt.Errorf("opening the database: %w", err)
	}
	return &DB{Pool: pool, SQL: db, Gorm: orm}, nil
}

// Text makes what came from outside storable: Postgres text holds neither NUL nor invalid
// UTF-8, and a signed body or a mail server's answer may hold both.
func Text(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

// Now is the clock of every process: UTC, cut to the microsecond that Postgres keeps, so
// that a time is the same before and after it was stored.
func Now() time.Time { return time.Now().UTC().Truncate(time.Microsecond) } //nolint:forbidigo // the one clock

// Close closes the pool, once everything that uses it has stopped.
func (d *DB) Close() {
	_ = d.SQL.Close()
	d.Pool.Close()
}

// Tx is the database/sql transaction inside a gorm transaction. The job queue inserts and
// completes jobs through it, so that a job and its cause are one commit.
func Tx(tx *gorm.DB) (*sql.Tx, error) {
	switch conn := tx.Statement.ConnPool.(type) {
	case *sql.Tx:
		return conn, nil
	case *gorm.PreparedStmtTX:
		if inner, ok := conn.Tx.(*sql.Tx); ok {
			return inner, nil
		}
	}
	return nil, fmt.Errorf("bug: %T is not inside a transaction", tx.Statement.ConnPool)
}

// NoFault reports whether err says nothing about the work that met it, so that the same work
// may be tried again: [Away], [Contended], or a connection that was lost on the way.
func NoFault(err error) bool {
	var network *net.OpError // reset, broken pipe, or a host that keepalives found gone
	return Away(err) || Contended(err) || errors.As(err, &network) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

// Contended reports whether somebody else was in the way: a deadlock (40P01), a serialization
// failure (40001), a lock that was not to be had (55P03).
func Contended(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && slices.Contains([]string{"40P01", "40001", "55P03"}, pg.Code)
}

// Away reports whether the server is not there, or going (57P01 to 57P03, class 08), or was
// never reached. A connection that breaks without a word in the middle of a statement is not
// among it: the statement may be what broke it.
func Away(err error) bool {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return slices.Contains([]string{"57P01", "57P02", "57P03"}, pg.Code) || strings.HasPrefix(pg.Code, "08")
	}
	var connect *pgconn.ConnectError
	return errors.As(err, &connect) || errors.Is(err, sql.ErrConnDone) || errors.Is(err, driver.ErrBadConn) || pgconn.SafeToRetry(err)
}
