package devpg

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// tailLines is how much of the log an error carries: the reason and its surroundings, not
// the start-up chatter before it.
const tailLines = 12

// serverLog is what initdb and the server write.
type serverLog struct {
	file *os.File
	copy io.Writer // nil: the file only
}

// openLog starts a new server.log and keeps the one before it, which tells of a crash.
func openLog(folder string, also io.Writer) (*serverLog, error) {
	path := filepath.Join(folder, "server.log")
	if err := os.Rename(path, path+".1"); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	return &serverLog{file: file, copy: also}, nil
}

// writer is where a process writes. The bare file is handed to the process itself, which
// then can log even when we are gone; a copy needs a pipe through us.
func (l *serverLog) writer() io.Writer {
	if l.copy == nil {
		return l.file
	}
	return io.MultiWriter(l.file, l.copy)
}

// explain adds the last lines of the log to an error.
func (l *serverLog) explain(err error) error {
	tail := l.tail()
	if tail == "" {
		return err
	}
	return fmt.Errorf("%w; the last lines of its log:\n%s", err, tail)
}

func (l *serverLog) tail() string {
	content, err := os.ReadFile(l.file.Name())
	if err != nil {
		return ""
	}
	lines := strings.Split(strings.TrimSpace(string(content)), "\n")
	return strings.Join(lines[max(0, len(lines)-tailLines):], "\n")
}

func (l *serverLog) close() error {
	if l == nil {
		return nil
	}
	return l.file.Close()
}
