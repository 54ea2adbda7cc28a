package devpg

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// superuser is the role that initdb makes and every URL names: the one that tools expect.
const superuser = "postgres"

// socketPort only names the socket's file when TCP is off; the folder is private, so the
// usual number clashes with nobody.
const socketPort = 5432

// Options say where and how a server runs. The zero value is a temporary one.
type Options struct {
	// Dir is the data folder, kept between runs and made if absent. As root it has to lie
	// where the server's user can reach it. Empty: a temporary one that Stop removes.
	Dir string

	// BinDir holds initdb and postgres. Empty: what FindBinaries finds, else a download.
	BinDir string

	// TCP asks for a free loopback port beside the socket; see [Server.TCPURL].
	TCP bool

	// Getenv reads PAIDONCE_PG_BIN, PAIDONCE_PG_MIRROR, PAIDONCE_OFFLINE, PATH, TMPDIR, HOME
	// and XDG_CACHE_HOME; nil is os.Getenv.
	Getenv func(string) string

	// Progress is told of a download, which can take a minute; nil: nobody is.
	Progress io.Writer

	// Log gets a copy of what initdb and the server write; they always write server.log
	// in the data folder. A Log that blocks can block the server.
	Log io.Writer
}

// Server is a running cluster. Its methods may be called from several goroutines.
type Server struct {
	bin     string   // folder of initdb and postgres
	env     []string // of the server: nothing of ours but where to find programs
	account *account // whom it runs as; nil: ourselves

	run    string // temporary folder: the socket, and the data too unless Dir was given
	folder string // Dir, or run
	kept   bool   // folder outlives Stop

	locks locks
	log   *serverLog
	main  *process

	port     int
	tcp      bool
	password string // of the superuser over TCP, new at every start

	stopOnce sync.Once
	stopErr  error
}

// Start makes the cluster if there is none yet, starts it and waits until it answers. If
// it fails, or ctx ends first, no process, no temporary folder and no half-made data folder
// is left. Once Start has returned, ctx has no power over the server: only Stop ends it.
func Start(ctx context.Context, o Options) (*Server, error) {
	s, err := newServer(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("private postgres: %w", err)
	}
	if err := s.start(ctx, o); err != nil {
		return nil, fmt.Errorf("private postgres: %w", errors.Join(err, s.abandon(ctx)))
	}
	return s, nil
}

// URL is the address of a database over the private socket, for pgx, gorm, psql and
// everything else that reads libpq's form. The database "postgres" always exists.
func (s *Server) URL(database string) string {
	return "postgres:///" + url.PathEscape(database) +
		"?host=" + escapeValue(s.run) + "&port=" + strconv.Itoa(s.port) + "&user=" + superuser + "&sslmode=disable"
}

// TCPURL is the address of a database over loopback TCP, with its password, for clients
// that cannot reach the socket; empty unless Options.TCP was set.
func (s *Server) TCPURL(database string) string {
	if !s.tcp {
		return ""
	}
	u := url.URL{
		Scheme:   "postgres",
		User:     url.UserPassword(superuser, s.password),
		Host:     fmt.Sprintf("127.0.0.1:%d", s.port),
		Path:     "/" + database,
		RawQuery: "sslmode=disable",
	}
	return u.String()
}

// Stop ends every session, shuts the server down in order and waits for its end. If ctx
// ends first, the server is stopped as by a crash, which it recovers from at the next start,
// and Stop returns the context's error. Every call returns what the first one did.
func (s *Server) Stop(ctx context.Context) error {
	s.stopOnce.Do(func() {
		err := s.main.stop(ctx)
		if err != nil {
			err = s.log.explain(err)
		}
		if err := errors.Join(err, s.release()); err != nil {
			s.stopErr = fmt.Errorf("private postgres: %w", err)
		}
	})
	return s.stopErr
}

// newServer settles what can be settled before the folder is touched.
func newServer(ctx context.Context, o Options) (*Server, error) {
	if err := supported(); err != nil {
		return nil, err
	}
	getenv := o.Getenv
	if getenv == nil {
		getenv = os.Getenv
	}
	s := &Server{env: environment(getenv), kept: o.Dir != "", port: socketPort, tcp: o.TCP}
	var err error
	if s.kept {
		if s.folder, err = filepath.Abs(o.Dir); err != nil {
			return nil, err
		}
	}
	if s.account, err = chooseAccount(s.data()); err != nil {
		return nil, err
	}
	if s.bin, err = s.chooseBinaries(ctx, o, getenv); err != nil {
		return nil, err
	}
	if s.run, err = makeRunFolder(getenv, s.account); err != nil {
		return nil, err
	}
	if !s.kept {
		s.folder = s.run
	}
	return s, nil
}

// chooseBinaries takes those it was told, else those that are installed, else it downloads.
func (s *Server) chooseBinaries(ctx context.Context, o Options, getenv func(string) string) (string, error) {
	if o.BinDir != "" {
		return checkBinaries(o.BinDir)
	}
	bin, err := FindBinaries(getenv)
	if !errors.Is(err, ErrNoBinaries) {
		return bin, err
	}
	supply, err := newSupply(getenv, s.account, o.Progress)
	if err == nil {
		bin, err = supply.binaries(ctx)
	}
	if err != nil {
		return "", fmt.Errorf("none is installed, and none could be downloaded: %w\n%w", err, ErrNoBinaries)
	}
	return bin, nil
}

// start goes from folders to a server that answers.
func (s *Server) start(ctx context.Context, o Options) error {
	if err := s.openFolder(); err != nil {
		return err
	}
	if err := s.locks.take(ctx, s.folder); err != nil {
		return err
	}
	var err error
	if s.log, err = openLog(s.folder, o.Log); err != nil {
		return err
	}
	// Not before our own files are in it: as root we would else open them in a folder
	// where another account can put links.
	if err := s.give(s.run); err != nil {
		return err
	}
	if err := s.initialize(ctx); err != nil {
		return s.log.explain(err)
	}
	if err := clearStalePID(ctx, s.data()); err != nil {
		return err
	}
	if err := s.boot(ctx); err != nil {
		return s.log.explain(err)
	}
	return nil
}

// abandonTime bounds the clean-up of a failed start. An immediate stop takes less than the
// five seconds after which the postmaster kills what does not obey.
const abandonTime = 10 * time.Second

// abandon undoes a start that failed. It has a time of its own, since the caller's context
// may be what ended.
func (s *Server) abandon(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abandonTime)
	defer cancel()
	var err error
	if s.main != nil && s.main.running() {
		err = s.main.stop(ctx)
	}
	return errors.Join(err, s.release())
}

// release gives back the log, the temporary folder and, last, the locks: whoever gets them
// next finds nothing of ours.
func (s *Server) release() error {
	return errors.Join(s.log.close(), os.RemoveAll(s.run), s.locks.release())
}

// data is PostgreSQL's own data folder. It lies inside ours so that log and locks survive
// its being made anew.
func (s *Server) data() string { return filepath.Join(s.folder, "data") }

// environment is what the server gets of ours: where programs and libraries are. Secrets
// stay out of it, and so do the PG… variables, which would change what it does; messages
// are in English, since a retry reads one of them.
func environment(getenv func(string) string) []string {
	env := []string{"LC_ALL=C"}
	for _, name := range []string{"PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"} {
		if v := getenv(name); v != "" {
			env = append(env, name+"="+v)
		}
	}
	return env
}

// escapeValue escapes a query value in the way that both net/url and libpq read: libpq
// does not take "+" for a space. Slashes stay, for the reader's sake.
func escapeValue(v string) string {
	return strings.NewReplacer("+", "%20", "%2F", "/").Replace(url.QueryEscape(v))
}
