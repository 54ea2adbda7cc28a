package devpg

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// pollEvery is how often something that cannot be waited for is looked at: often enough to
// cost no visible time, rarely enough to cost no processor.
const pollEvery = 20 * time.Millisecond

// leaveTime is how long a server whose owner was killed may take to go: the supervisor's
// own limit and a little more.
const leaveTime = (giveUpAfter + 5) * time.Second

// locks keep one data folder to one server. There are two, because an owner and its server
// do not end together. The owner's is held by our process alone. The server's is inherited
// by initdb, the postmaster and every backend, and so is free when the last of them is gone.
// Both are free after a kill -9 or a reboot: the kernel holds them, not a file's content.
type locks struct {
	owner, server *os.File
}

// take gets both locks: at once the owner's, or [ErrInUse]; then the server's, which can
// only be busy if the last owner was killed and its server is on its way out.
func (l *locks) take(ctx context.Context, folder string) error {
	var err error
	if l.owner, err = openLock(filepath.Join(folder, "owner.lock")); err != nil {
		return err
	}
	if l.server, err = openLock(filepath.Join(folder, "server.lock")); err != nil {
		return err
	}
	switch free, err := tryLock(l.owner); {
	case err != nil:
		return err
	case !free:
		return fmt.Errorf("%w: %s", ErrInUse, folder)
	}

	ctx, cancel := context.WithTimeout(ctx, leaveTime)
	defer cancel()
	err = poll(ctx, func() (bool, error) { return tryLock(l.server) })
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%w: %s: the server of an owner that died is still there: %w", ErrInUse, folder, err)
	}
	return err
}

func (l *locks) release() error {
	return errors.Join(closeFile(l.server), closeFile(l.owner))
}

func openLock(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
}

// closeFile closes a file that may never have been opened.
func closeFile(f *os.File) error {
	if f == nil {
		return nil
	}
	return f.Close()
}

// clearStalePID removes the postmaster.pid of a server that is gone. The locks say that none
// of ours lives, but PostgreSQL goes by the process id in it, which by now may belong to an
// innocent process. A server that somebody started on the folder by hand holds no lock of
// ours: if it answers, it is [ErrInUse]; if it is mute, PostgreSQL finds its shared memory
// in use and refuses by itself.
func clearStalePID(ctx context.Context, data string) error {
	path := filepath.Join(data, "postmaster.pid")
	content, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	// Lines: process id, data folder, start time, port, socket folder, listen address.
	lines := append(strings.Split(string(content), "\n"), make([]string, 6)...)
	network, address := "unix", filepath.Join(lines[4], ".s.PGSQL."+lines[3])
	if lines[4] == "" {
		network, address = "tcp", net.JoinHostPort(strings.ReplaceAll(lines[5], "*", "localhost"), lines[3])
	}
	dialer := net.Dialer{Timeout: time.Second}
	if conn, err := dialer.DialContext(ctx, network, address); err == nil {
		return errors.Join(fmt.Errorf("%w: %s, process %s, started by other means", ErrInUse, data, lines[0]), conn.Close())
	}
	return os.Remove(path)
}

// poll asks until the answer is yes, an error, or the end of ctx.
func poll(ctx context.Context, done func() (bool, error)) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		if ok, err := done(); ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}
