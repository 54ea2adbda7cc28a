package devpg

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// initialize makes the cluster if there is none. It is made under another name and renamed
// when complete, so that a "data" that exists is whole: what a kill leaves half-made is
// thrown away by the next start.
func (s *Server) initialize(ctx context.Context) error {
	if made, err := os.ReadFile(filepath.Join(s.data(), "PG_VERSION")); err == nil {
		return s.sameMajor(ctx, strings.TrimSpace(string(made)))
	}
	unfinished := s.data() + ".new"
	if err := os.RemoveAll(unfinished); err != nil {
		return err
	}
	if err := os.Mkdir(unfinished, 0o700); err != nil {
		return err
	}
	if err := s.give(unfinished); err != nil {
		return err
	}
	if err := s.initdb(ctx, unfinished); err != nil {
		return errors.Join(err, os.RemoveAll(unfinished))
	}

	// A "data" without PG_VERSION is none of ours; rename refuses unless it is empty.
	if err := os.Rename(unfinished, s.data()); err != nil {
		return errors.Join(err, os.RemoveAll(unfinished))
	}
	return syncFolder(s.folder)
}

// sameMajor refuses a data folder that these binaries cannot read, and says what can.
func (s *Server) sameMajor(ctx context.Context, made string) error {
	have, err := versionOf(ctx, s.bin, s.account)
	if err != nil {
		return fmt.Errorf("asking %s for its version: %w", s.bin, err)
	}
	if major(have) == major(made) {
		return nil
	}
	return fmt.Errorf("%w: %s is of version %s, and %s is version %s; set %s to a version %s, or use another folder",
		ErrOtherMajor, s.folder, made, s.bin, have, binEnv, made)
}

// major is the first number of a version: 16 of "16.14", "16devel" and "16".
func major(version string) string {
	return version[:len(version)-len(strings.TrimLeft(version, "0123456789"))]
}

func (s *Server) initdb(ctx context.Context, data string) error {
	args := []string{
		"--pgdata=" + data,
		"--username=" + superuser,
		"--encoding=UTF8",
		"--locale=C",                // the same order of text on every system
		"--auth-local=trust",        // whoever can enter the socket's folder
		"--auth-host=scram-sha-256", // TCP, if asked for: with the password of this start
	}
	if !s.kept {
		args = append(args, "--no-sync") // no power cut is survived by what is temporary
	}
	p, err := s.launch(ctx, "initdb", args...)
	if err != nil {
		return err
	}
	select {
	case <-p.exited:
		err = p.err
	case <-ctx.Done():
		err = errors.Join(ctx.Err(), killGroup(p.Process)) // with the servers that it starts
		<-p.exited
	}
	if err != nil {
		return fmt.Errorf("initdb: %w", err)
	}
	return nil
}

// syncFolder makes a rename inside the folder survive a power cut.
func syncFolder(folder string) error {
	f, err := os.Open(folder)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
