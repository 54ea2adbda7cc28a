package database

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

const (
	// connectTime bounds one attempt: a host that swallows packets is not the last one tried.
	connectTime = 5 * time.Second

	// The pause between two attempts grows from the one to the other.
	firstPause, longestPause = 100 * time.Millisecond, 2 * time.Second
)

// Await returns when the database at dsn lets us in. One that is not there yet is waited for,
// up to limit (zero: not at all), and said so once, without the password; one that is there and
// turns us away is an error at once, since no waiting changes that.
func Await(ctx context.Context, dsn string, limit time.Duration, log *slog.Logger) error {
	config, err := ParseDSN(dsn)
	if err != nil {
		return err
	}
	who := config.ConnConfig
	waiting, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var began time.Time
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		err := greet(ctx, who)
		if err == nil {
			if !began.IsZero() {
				log.Info("the database is there", "waited_ms", Now().Sub(began).Milliseconds())
			}
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if !awaitable(err) {
			return turnedAway(who, err)
		}
		if waiting.Err() != nil {
			return fmt.Errorf("DATABASE_URL: %s did not answer within WAIT_FOR_DATABASE=%s: %s", place(who), limit, reason(err))
		}
		if began.IsZero() {
			began = Now()
			log.Warn("waiting for the database", "host", who.Host, "port", who.Port, "database", who.Database, "at_most", limit.String(), "error", reason(err))
		}
		select {
		case <-waiting.Done():
		case <-time.After(pause):
		}
	}
}

// Reach tells whether the database at dsn lets us in now. A command that a person gives waits
// for nothing: its error says at once what DATABASE_URL leads to, and never the password.
func Reach(ctx context.Context, dsn string) error {
	config, err := ParseDSN(dsn)
	if err != nil {
		return err
	}
	err = greet(ctx, config.ConnConfig)
	if err == nil || ctx.Err() != nil {
		return ctx.Err()
	}
	return turnedAway(config.ConnConfig, err)
}

// greet opens one session and closes it.
func greet(ctx context.Context, config *pgx.ConnConfig) error {
	ctx, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return err
	}
	return conn.Close(ctx)
}

// awaitable reports whether the same attempt may succeed in a while: nobody answered, or
// whoever did is starting, stopping or full. A pooler whose server is away says 08P01, which
// it also says to what it does not understand.
func awaitable(err error) bool {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		lasting := func(start string) bool { return strings.HasPrefix(pg.Message, start) }
		return slices.Contains([]string{"57P01", "57P02", "57P03", "53300"}, pg.Code) ||
			strings.HasPrefix(pg.Code, "08") && !slices.ContainsFunc([]string{"unsupported startup parameter", "no such", "bouncer config error"}, lasting)
	}
	var network *net.OpError
	var name *net.DNSError
	return (errors.As(err, &network) || errors.As(err, &name) || errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)) && !errors.Is(err, fs.ErrPermission)
}

// turnedAway says in words what a server answered at the door.
func turnedAway(config *pgx.ConnConfig, err error) error {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return fmt.Errorf("DATABASE_URL: %s: %s", place(config), reason(err))
	}
	switch pg.Code {
	case "28P01":
		return fmt.Errorf("DATABASE_URL: %s refuses the password of user %q", place(config), config.User)
	case "28000":
		return fmt.Errorf("DATABASE_URL: %s does not let user %q in: %s", place(config), config.User, pg.Message)
	case "3D000":
		return fmt.Errorf("DATABASE_URL: there is no database %q at %s; make it with: createdb %s", config.Database, address(config), config.Database)
	}
	return fmt.Errorf("DATABASE_URL: %s: %w", place(config), pg)
}

// reason is why there is no session, in one line. pgx tells of every attempt, with TLS and
// without, in lines of their own that name the place again.
func reason(err error) string {
	var pg *pgconn.PgError
	var name *net.DNSError
	var network *net.OpError
	switch {
	case errors.As(err, &pg):
		return pg.Message
	case errors.As(err, &name):
		return name.Error()
	case errors.Is(err, context.DeadlineExceeded):
		return "no answer in time"
	case errors.As(err, &network):
		return network.Err.Error()
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "whoever is there hung up"
	}
	lines := strings.Split(err.Error(), "\n")
	return strings.TrimSpace(lines[len(lines)-1])
}

func place(config *pgx.ConnConfig) string {
	return fmt.Sprintf("database %q at %s", config.Database, address(config))
}

func address(config *pgx.ConnConfig) string {
	if strings.HasPrefix(config.Host, "/") {
		return config.Host // a socket's folder
	}
	return net.JoinHostPort(config.Host, fmt.Sprint(config.Port))
}
