package devpg

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// readyTime bounds the wait for a server that neither answers nor ends. Recovery after
	// a kill is the long case; with the default max_wal_size it is seconds.
	readyTime = 2 * time.Minute

	// answerTime bounds one attempt to connect, so that a hanging one is not the last.
	answerTime = 5 * time.Second

	// bindAttempts: between our finding a free port and the server's taking it somebody
	// else may; twice in a row is already unlikely.
	bindAttempts = 3
)

// boot starts the server and returns when it answers.
func (s *Server) boot(ctx context.Context) error {
	for attempt := 1; ; attempt++ {
		if s.tcp {
			port, err := freePort(ctx)
			if err != nil {
				return err
			}
			s.port = port
		}
		var err error
		if s.main, err = s.launch(ctx, "postgres", s.settings()...); err != nil {
			return err
		}
		err = s.awaitReady(ctx)
		portLost := err != nil && s.tcp && !s.main.running() && strings.Contains(s.log.tail(), "could not bind")
		if !portLost || attempt == bindAttempts {
			return err
		}
	}
}

// settings are the server's arguments. They are given at every start rather than written
// into the data folder, so that a kept folder follows the program.
func (s *Server) settings() []string {
	listen := ""
	if s.tcp {
		listen = "127.0.0.1"
	}
	args := []string{"-D", s.data()}
	for _, setting := range []string{
		"listen_addresses=" + listen,
		fmt.Sprintf("port=%d", s.port),
		"unix_socket_directories=" + s.run,

		// What "committed" means here is the product's claim.
		"fsync=on",
		"full_page_writes=on",
		"synchronous_commit=on",

		// Several packages' tests run at once, each test with pools of its own; and the
		// memory for it must be there on a small machine beside other clusters.
		"max_connections=200",
		"shared_buffers=64MB",

		"timezone=UTC",
		"log_timezone=UTC",
		"logging_collector=off", // the log is ours, whatever the kept configuration says
		"log_destination=stderr",
		"log_line_prefix=%m [%p] %d ",
		"password_encryption=scram-sha-256",
	} {
		args = append(args, "-c", setting)
	}
	return args
}

// awaitReady connects until the server lets it, ends, or time is up.
func (s *Server) awaitReady(ctx context.Context) error {
	waiting, cancel := context.WithTimeout(ctx, readyTime)
	defer cancel()
	var last error
	err := poll(waiting, func() (bool, error) {
		if !s.main.running() {
			return false, fmt.Errorf("the server ended while starting: %w", s.main.ending())
		}
		last = s.firstSession(waiting)
		return last == nil, nil
	})
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return fmt.Errorf("the server did not answer within %s: %w", readyTime, last)
	}
	return err
}

// firstSession proves that the server answers and, with TCP, gives the superuser the
// password of this start: a port can be tried by every user of the machine, the socket not.
func (s *Server) firstSession(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	conn, err := pgx.Connect(ctx, s.URL("postgres"))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	if !s.tcp {
		return conn.Ping(ctx)
	}
	s.password = rand.Text()
	// ALTER ROLE takes no parameters; the text is letters and digits only.
	_, err = conn.Exec(ctx, fmt.Sprintf("ALTER ROLE %s PASSWORD '%s'", superuser, s.password))
	return err
}

func freePort(ctx context.Context) (int, error) {
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	addr, ok := l.Addr().(*net.TCPAddr)
	if !ok {
		return 0, errors.Join(fmt.Errorf("bug: %T is no TCP address", l.Addr()), l.Close())
	}
	return addr.Port, l.Close()
}
