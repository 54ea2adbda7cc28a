package database

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
)

// ErrPooled is returned by [Inspect] behind a pooler that lends a server session for one
// transaction at a time. What needs a session of its own would be lost there without an error:
// LISTEN, the lock of the migrations, the time limits of [Open].
var ErrPooled = errors.New("DATABASE_URL leads through a pooler in transaction mode, in which LISTEN, advisory locks and session settings are lost; " +
	"set its pool_mode to session for this database, or connect to PostgreSQL itself")

// ErrTooFew is returned by [Inspect] when the server can never give what a process may open.
var ErrTooFew = errors.New("the server has too few connections")

// inspectTime bounds the questions of [Inspect].
const inspectTime = 10 * time.Second

// Connections is the arithmetic of a server's connections.
type Connections struct {
	Most     int // max_connections
	Reserved int // for superusers and for privileged roles
	Used     int // by everybody else, now
	Wanted   int // what this process may open
}

// Inspect asks a database that answers whether a process that may open so many connections can
// work on it. That there are none left right now is only said: during a deploy the old
// process still has its own.
func Inspect(ctx context.Context, dsn string, wanted int, log *slog.Logger) error {
	config, err := ParseDSN(dsn)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, inspectTime)
	defer cancel()
	// Statements that were prepared are the first thing that a pooler in transaction mode loses.
	config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	one, err := pgx.ConnectConfig(ctx, config.ConnConfig)
	if err != nil {
		return turnedAway(config.ConnConfig, err)
	}
	defer func() { _ = one.Close(context.WithoutCancel(ctx)) }()
	other, err := pgx.ConnectConfig(ctx, config.ConnConfig)
	if err != nil {
		return fmt.Errorf("opening a second connection to the database: %w", err)
	}
	defer func() { _ = other.Close(context.WithoutCancel(ctx)) }()

	if err := ownSessions(ctx, one, other); err != nil {
		return err
	}
	c, err := count(ctx, one)
	if err != nil {
		return err
	}
	c.Wanted = wanted
	return c.judge(log)
}

// ownSessions finds out whether each connection has a server process of its own, for as long as
// it is open. A pooler in transaction mode gives the process that was used last, or the next in
// turn: either two connections have the same, or one has two.
func ownSessions(ctx context.Context, one, other *pgx.Conn) error {
	var pids [3]string
	for i, conn := range []*pgx.Conn{one, one, other} {
		const who = `SELECT pg_backend_pid() || ' since ' || pg_postmaster_start_time()`
		if err := conn.QueryRow(ctx, who).Scan(&pids[i]); err != nil {
			return fmt.Errorf("asking the database for its process (a pooler whose pool holds one connection never gives a second): %w", err)
		}
	}
	if pids[0] != pids[1] || pids[0] == pids[2] {
		return ErrPooled
	}
	return nil
}

// count reads the limits, and who is there but for the two that ask. reserved_connections is
// new in PostgreSQL 16. Who is not a superuser sees how many there are, not who.
func count(ctx context.Context, conn *pgx.Conn) (c Connections, err error) {
	const limits = `
SELECT current_setting('max_connections')::int,
       current_setting('superuser_reserved_connections')::int + coalesce(current_setting('reserved_connections', true), '0')::int,
       (SELECT coalesce(sum(numbackends), 0)::int FROM pg_stat_database WHERE datid <> 0)`
	if err := conn.QueryRow(ctx, limits).Scan(&c.Most, &c.Reserved, &c.Used); err != nil {
		return c, fmt.Errorf("reading the database's limits: %w", err)
	}
	c.Used = max(c.Used-2, 0)
	return c, nil
}

// judge says how it adds up.
func (c Connections) judge(log *slog.Logger) error {
	open := c.Most - c.Reserved
	if c.Wanted > open {
		return fmt.Errorf("%w: this process may open %d, and the server gives %d (max_connections=%d, of which %d are reserved); "+
			"lower DB_MAX_CONNS or raise max_connections", ErrTooFew, c.Wanted, open, c.Most, c.Reserved)
	}
	if left := open - c.Used; c.Wanted > left {
		log.Warn("the server may run out of connections: lower DB_MAX_CONNS, or raise max_connections",
			"this_process_may_open", c.Wanted, "left", left, "max_connections", c.Most, "reserved", c.Reserved, "in_use", c.Used)
	}
	return nil
}
