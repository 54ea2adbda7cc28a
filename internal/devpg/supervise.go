package devpg

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// The supervisor's patience, in seconds: a fast shutdown writes out at most the shared
// buffers, far less than quitAfter; an immediate one takes up to five seconds.
const (
	quitAfter   = 15
	giveUpAfter = 30
)

// supervisor is the shell script that every program of the server starts as: initdb and the
// postmaster. It leaves a watcher behind and then turns into the program itself, so that the
// process we started, signal and wait for is the program, with nothing between.
//
// The watcher blocks on a pipe (file 4) whose other end only we hold. A line means that the
// program has ended and been waited for. The end of the pipe without a line means that we
// died, by whatever cause: it stops the program and removes the temporary folder. The signal
// is repeated because one that comes before the program has its handlers may be lost, if we
// were ourselves started with SIGINT ignored. The pause of one second is POSIX's shortest.
//
// The watcher's parent ends at once, so that it belongs to init: the postmaster takes the
// death of a child it does not know for a crash. It gives up the lock (file 3), which has to
// tell of the server alone.
const supervisor = `
run=$1 quit_after=$2 give_up_after=$3
shift 3
(
	(
		if read -r line <&4; then exit 0; fi
		n=0
		while kill -INT $$ && [ $n -lt "$give_up_after" ]; do
			if [ $n -ge "$quit_after" ]; then kill -QUIT $$; fi
			n=$((n + 1))
			sleep 1
		done
		rm -rf -- "$run"
	) 3<&- >/dev/null 2>&1 &
)
exec "$@" 4<&-
`

// process is a running program of the server.
type process struct {
	*os.Process
	exited chan struct{} // closed at its end, after err is set
	err    error
}

// launch starts a program under its supervisor: as the server's user, in a session of its own
// (Ctrl-C in the terminal is for us to answer, with an orderly stop), in a folder where that
// user can be. It outlives ctx, so that a caller can end it in its own way.
func (s *Server) launch(ctx context.Context, program string, args ...string) (*process, error) {
	watched, held, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	script := []string{"-c", supervisor, "paidonce-devpg", s.run, strconv.Itoa(quitAfter), strconv.Itoa(giveUpAfter)}
	script = append(script, filepath.Join(s.bin, program))
	cmd := exec.CommandContext(context.WithoutCancel(ctx), "/bin/sh", append(script, args...)...)
	cmd.Dir = "/"
	cmd.Env = s.env
	cmd.SysProcAttr = detached(s.account)
	cmd.Stdout = s.log.writer()
	cmd.Stderr = cmd.Stdout
	cmd.ExtraFiles = []*os.File{s.locks.server, watched} // files 3 and 4
	if err := errors.Join(cmd.Start(), watched.Close()); err != nil {
		return nil, errors.Join(err, held.Close())
	}

	p := &process{Process: cmd.Process, exited: make(chan struct{})}
	go func() {
		p.err = cmd.Wait()
		// Dismiss the watcher. This also keeps our end of the pipe from being collected as
		// garbage, and so closed, while the program runs.
		_, _ = held.WriteString("ended\n")
		_ = held.Close()
		close(p.exited)
	}()
	return p, nil
}

func (p *process) running() bool {
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// stop shuts the postmaster down in order, or at once when ctx ends, and returns when the
// process has been waited for.
func (p *process) stop(ctx context.Context) error {
	if !p.running() {
		return fmt.Errorf("the server had ended by itself: %w", p.ending())
	}
	p.send(syscall.SIGINT)
	select {
	case <-p.exited:
		if p.err != nil {
			return fmt.Errorf("the server did not end well: %w", p.err)
		}
		return nil
	case <-ctx.Done():
	}

	p.send(syscall.SIGQUIT)
	select {
	case <-p.exited:
	case <-time.After(abandonTime):
		p.send(syscall.SIGKILL)
		<-p.exited
	}
	return fmt.Errorf("the server was stopped as by a crash: %w", ctx.Err())
}

// ending tells how a process ended that was to run on.
func (p *process) ending() error {
	if p.err != nil {
		return p.err
	}
	return errors.New("exit status 0")
}

// send cannot fail in a way that matters: a process that has ended needs none, and the
// caller waits for the end either way.
func (p *process) send(sig os.Signal) { _ = p.Signal(sig) }
