package devpgtest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/jackc/pgx/v5"

	"paidonce/internal/devpg"
	"paidonce/migrations"
)

const (
	urlEnv  = "DATABASE_URL"
	keepEnv = "PAIDONCE_KEEP_DB"
)

var errNoRun = errors.New("no devpgtest.Run; the package needs: func TestMain(m *testing.M) { os.Exit(devpgtest.Run(m)) }")

// cluster is the server that the tests of one binary use, ours or DATABASE_URL's.
type cluster struct {
	getenv func(string) string
	kept   atomic.Int64 // databases of failed tests

	// mu also makes clones one after another: a template must have no sessions while it is
	// cloned, and on this disk two at once are no faster.
	mu       sync.Mutex
	running  bool // between open and close
	begun    bool
	err      error  // of the start: every test tells it, none tries again
	template string // "" until the first New

	server *devpg.Server // nil: DATABASE_URL's
	folder string        // of the private server, when it may have to be kept
}

func (c *cluster) open() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running = true
}

func (c *cluster) keeps() bool { return c.getenv(keepEnv) == "1" }

// clone makes a database and returns its name. The first call starts the server, and the
// first migrated one makes the template.
func (c *cluster) clone(migrated bool) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.running {
		return "", errNoRun
	}
	if !c.begun {
		c.begun = true
		c.err = c.start()
	}
	if c.err == nil && migrated && c.template == "" {
		c.err = c.makeTemplate()
	}
	if c.err != nil {
		return "", c.err
	}

	// template0 is as PostgreSQL made it, while somebody may have put things into template1.
	template := "template0"
	if migrated {
		template = c.template
	}
	name := newName()
	return name, c.execute("CREATE DATABASE " + name + " TEMPLATE " + template)
}

// start starts the private server, unless there is a DATABASE_URL.
func (c *cluster) start() error {
	if dsn := c.getenv(urlEnv); dsn != "" {
		if _, err := pgx.ParseConfig(dsn); err != nil { // which hides the password
			return fmt.Errorf("%s: %w", urlEnv, err)
		}
		return nil
	}
	if c.keeps() {
		// Made and opened here: a folder of the run that has no kept database is removed.
		dir, err := os.MkdirTemp("", "paidonce-kept-")
		if err != nil {
			return err
		}
		c.folder = dir
		if err := os.Chmod(dir, 0o755); err != nil { // as root, the server's user goes through it
			return err
		}
	}
	ctx, cancel := background(startTime)
	defer cancel()
	var err error
	c.server, err = devpg.Start(ctx, devpg.Options{Dir: c.folder, Getenv: c.getenv, Progress: os.Stderr})
	return err
}

// makeTemplate migrates one database and closes it to sessions, so that none is ever in the
// way of a clone.
func (c *cluster) makeTemplate() error {
	name := newName()
	if err := c.execute("CREATE DATABASE " + name + " TEMPLATE template0"); err != nil {
		return err
	}
	c.template = name
	dsn, err := c.dsn(name)
	if err != nil {
		return err
	}
	ctx, cancel := background(startTime)
	defer cancel()
	if _, err := migrations.Up(ctx, dsn); err != nil {
		return err
	}
	return c.execute("ALTER DATABASE " + name + " ALLOW_CONNECTIONS false")
}

// close ends what start began. It may be called without one.
func (c *cluster) close(out io.Writer) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running = false
	if c.server == nil {
		var err error
		if c.template != "" {
			err = c.drop(c.template)
		}
		return errors.Join(err, c.removeFolder())
	}
	ctx, cancel := background(workTime)
	defer cancel()
	if err := c.server.Stop(ctx); err != nil {
		return err
	}
	if c.kept.Load() == 0 {
		return c.removeFolder()
	}
	_, err := fmt.Fprintf(out, "devpgtest: %d database(s) kept; as the owner of the folder: postgres -D %s -c listen_addresses= -k /tmp\n",
		c.kept.Load(), filepath.Join(c.folder, "data"))
	return err
}

func (c *cluster) removeFolder() error {
	if c.folder == "" {
		return nil
	}
	return os.RemoveAll(c.folder)
}

// dsn is the address of a database on the server.
func (c *cluster) dsn(database string) (string, error) {
	if c.server != nil {
		return c.server.URL(database), nil
	}
	return withDatabase(c.getenv(urlEnv), database)
}

// admin is the address of a database that exists: a session somewhere is needed to create
// and drop others.
func (c *cluster) admin() string {
	if c.server != nil {
		return c.server.URL("postgres")
	}
	return c.getenv(urlEnv)
}

func (c *cluster) drop(name string) error {
	return c.execute("DROP DATABASE IF EXISTS " + name + " WITH (FORCE)")
}

// execute runs one statement on a session of its own; names in it are ours and need no
// quotes.
func (c *cluster) execute(sql string) error {
	ctx, cancel := background(workTime)
	defer cancel()
	conn, err := pgx.Connect(ctx, c.admin())
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, sql)
	if err != nil {
		err = fmt.Errorf("%s: %w", sql, err)
	}
	return errors.Join(err, conn.Close(context.WithoutCancel(ctx)))
}

// newName is unlike that of any other test binary on the same server.
func newName() string {
	random := make([]byte, 8)
	_, _ = rand.Read(random) // never fails: it ends the program instead
	return "paidonce_test_" + hex.EncodeToString(random)
}
