package migrations

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
	"github.com/riverqueue/river/riverdriver/riverdatabasesql"
	"github.com/riverqueue/river/rivermigrate"

	"paidonce/internal/database"
)

//go:embed *.sql
var files embed.FS

// riverMigration is the goose version at which the queue's own tables appear, and
// riverVersion the version of the queue's schema that they get. A later queue with a
// newer schema adds another pair; these two never change once released.
const (
	riverMigration = 4
	riverVersion   = 8
)

// lockRetry and lockAttempts bound the wait for another process that is migrating:
// five minutes, longer than any migration here, and short enough that a stuck
// deployment says so.
const (
	lockRetry    = 1 // seconds
	lockAttempts = 300
)

// Connections is what a run opens at most: one holds the advisory lock, one migrates, and the
// queue's migrator takes one of its own.
const Connections = 3

var (
	// ErrAhead is returned when the database has migrations that this binary does not
	// know: an older binary must not run against it.
	ErrAhead = errors.New("the database is ahead of this binary")

	// ErrBehind is returned by [Check] when migrations are pending.
	ErrBehind = errors.New("the database is behind this binary")

	// ErrEmpty is returned by [Check], beside ErrBehind, when none was ever applied.
	ErrEmpty = errors.New("the database has no schema yet")
)

// Migration is one step of the schema, as Status lists it.
type Migration struct {
	Version   int64     `json:"version"`
	Name      string    `json:"name"`
	AppliedAt time.Time `json:"applied_at,omitzero"` // zero: pending
}

// Up applies every pending migration and returns those it applied, oldest first.
func Up(ctx context.Context, dsn string) ([]Migration, error) {
	var applied []Migration
	err := withProvider(ctx, dsn, func(p *goose.Provider) error {
		if err := refuseAhead(ctx, p); err != nil {
			return err
		}
		results, err := p.Up(ctx)
		for _, r := range results {
			applied = append(applied, Migration{Version: r.Source.Version, Name: name(r.Source)})
		}
		return err
	})
	return applied, err
}

// Down takes back the newest applied migration and returns it, or nil if there is none.
func Down(ctx context.Context, dsn string) (*Migration, error) {
	var undone *Migration
	err := withProvider(ctx, dsn, func(p *goose.Provider) error {
		result, err := p.Down(ctx)
		if errors.Is(err, goose.ErrNoNextVersion) {
			return nil
		}
		if err != nil {
			return err
		}
		undone = &Migration{Version: result.Source.Version, Name: name(result.Source)}
		return nil
	})
	return undone, err
}

// Status lists every migration this binary knows, oldest first.
func Status(ctx context.Context, dsn string) ([]Migration, error) {
	var all []Migration
	err := withProvider(ctx, dsn, func(p *goose.Provider) error {
		states, err := p.Status(ctx)
		for _, s := range states {
			all = append(all, Migration{Version: s.Source.Version, Name: name(s.Source), AppliedAt: s.AppliedAt})
		}
		return err
	})
	return all, err
}

// Check tells whether the database is at this binary's version, without a lock and
// without changing anything: nil, [ErrBehind] or [ErrAhead].
func Check(ctx context.Context, db *sql.DB) error {
	const newest = `SELECT coalesce(max(version_id), 0) FROM goose_db_version WHERE is_applied`
	var have int64
	err := db.QueryRowContext(ctx, newest).Scan(&have)
	var refused *pgconn.PgError
	untouched := errors.As(err, &refused) && refused.Code == "42P01" // no such table: version 0
	if err != nil && !untouched {
		return fmt.Errorf("reading the migration version: %w", err)
	}
	switch {
	case have == 0:
		return fmt.Errorf("%w: %w; run: paidonce migrate up", ErrBehind, ErrEmpty)
	case have < Newest():
		return fmt.Errorf("%w: at version %d of %d; run: paidonce migrate up", ErrBehind, have, Newest())
	case have > Newest():
		return ahead(have)
	}
	return nil
}

// Newest is the version this binary migrates to.
func Newest() int64 {
	newest := int64(riverMigration)
	names, err := fs.Glob(files, "*.sql")
	if err != nil {
		panic("bug: the pattern is constant: " + err.Error())
	}
	for _, n := range names {
		if v, err := goose.NumericComponent(n); err == nil {
			newest = max(newest, v)
		}
	}
	return newest
}

// withProvider opens a pool of its own, hands a locked goose provider to do, and closes
// the pool again.
func withProvider(ctx context.Context, dsn string, do func(*goose.Provider) error) error {
	config, err := database.ParseDSN(dsn)
	if err != nil {
		return err
	}
	db := stdlib.OpenDB(*config.ConnConfig)
	defer func() { _ = db.Close() }()

	db.SetMaxOpenConns(Connections)

	locker, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(lockRetry, lockAttempts))
	if err != nil {
		return fmt.Errorf("migrations: %w", err)
	}
	river := goose.NewGoMigration(riverMigration, &goose.GoFunc{RunDB: riverUp}, &goose.GoFunc{RunDB: riverDown})
	provider, err := goose.NewProvider(goose.DialectPostgres, db, files,
		goose.WithSessionLocker(locker),
		goose.WithGoMigrations(river),
		goose.WithDisableGlobalRegistry(true),
	)
	if err != nil {
		return fmt.Errorf("migrations: %w", err)
	}
	if err := do(provider); err != nil {
		return fmt.Errorf("migrations: %w", err)
	}
	return nil
}

// riverUp runs the queue's own migrations. They have no lock of their own, which is why
// they run here, inside goose's.
func riverUp(ctx context.Context, db *sql.DB) error {
	return migrateRiver(ctx, db, rivermigrate.DirectionUp, riverVersion)
}

// riverDown removes the queue's tables; -1 is the queue's word for "all of it".
func riverDown(ctx context.Context, db *sql.DB) error {
	return migrateRiver(ctx, db, rivermigrate.DirectionDown, -1)
}

func migrateRiver(ctx context.Context, db *sql.DB, direction rivermigrate.Direction, target int) error {
	migrator, err := rivermigrate.New(riverdatabasesql.New(db), nil)
	if err != nil {
		return fmt.Errorf("river: %w", err)
	}
	if _, err := migrator.Migrate(ctx, direction, &rivermigrate.MigrateOpts{TargetVersion: target}); err != nil {
		return fmt.Errorf("river: %w", err)
	}
	return nil
}

func refuseAhead(ctx context.Context, p *goose.Provider) error {
	have, err := p.GetDBVersion(ctx)
	if err != nil {
		return err
	}
	if have > Newest() {
		return ahead(have)
	}
	return nil
}

func ahead(have int64) error {
	return fmt.Errorf("%w: at version %d, this binary knows %d; deploy the newer binary", ErrAhead, have, Newest())
}

// name is the file's name, or the queue's for the migration that is code.
func name(s *goose.Source) string {
	if s.Type == goose.TypeGo {
		return "river"
	}
	return s.Path
}
