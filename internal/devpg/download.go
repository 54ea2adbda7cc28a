package devpg

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// offlineEnv forbids the download.
const offlineEnv = "PAIDONCE_OFFLINE"

// downloaded, as the value of PAIDONCE_PG_BIN, asks for the PostgreSQL that is downloaded even
// where one is installed: the same version on every machine.
const downloaded = "download"

// supply is where the binaries come from when none are installed: a cache, filled once.
type supply struct {
	artifact artifact
	mirror   string
	folders  []string // to keep them in, best first
	account  *account // who has to be able to run them
	offline  bool
	client   *http.Client
	pause    time.Duration // after a failed attempt
	tell     *progress
}

// newSupply reads the environment. What is wrong with it is an error before anything is
// searched for on the network.
func newSupply(getenv func(string) string, a *account, out io.Writer) (*supply, error) {
	s := &supply{
		account: a, folders: cacheFolders(getenv, os.Geteuid()), client: newClient(), pause: time.Second / 2, tell: newProgress(out),
	}
	var err error
	if value := strings.TrimSpace(getenv(offlineEnv)); value != "" {
		if s.offline, err = strconv.ParseBool(value); err != nil {
			return nil, fmt.Errorf("%s must be 1 or 0", offlineEnv)
		}
	}
	if s.mirror, err = mirror(getenv); err != nil {
		return nil, err
	}
	s.artifact, err = thisArtifact()
	return s, err
}

// binaries returns the folder of initdb and postgres: from the cache, or else downloaded into
// it. Whoever comes second waits for the first.
func (s *supply) binaries(ctx context.Context) (string, error) {
	cache, passed, err := openCache(s.folders, s.account)
	if err != nil {
		return "", err
	}
	tree := filepath.Join(cache, s.artifact.name())
	if bin, err := checkBinaries(filepath.Join(tree, "bin")); err == nil {
		return bin, nil
	}
	if s.offline {
		return "", fmt.Errorf("%s is set, and %s has none from before", offlineEnv, cache)
	}
	if passed != nil {
		s.tell.line("PostgreSQL will be kept in %s, and so for a while only: %v", cache, passed)
	}

	release, err := s.turn(ctx, tree+".lock")
	if err != nil {
		return "", err
	}
	defer release()
	if bin, err := checkBinaries(filepath.Join(tree, "bin")); err == nil {
		return bin, nil // somebody else has brought it
	}
	if err := s.bring(ctx, tree); err != nil {
		if fullDisk(err) {
			return "", fmt.Errorf("there is no room in %s, where about 100 MB are needed: %w", cache, err)
		}
		return "", err
	}
	return checkBinaries(filepath.Join(tree, "bin"))
}

// turn waits for the lock of the cache: two at once download once. The kernel holds it, so
// that a process that is killed does not.
func (s *supply) turn(ctx context.Context, path string) (release func(), err error) {
	lock, err := openLock(path)
	if err != nil {
		return nil, err
	}
	said := false
	err = poll(ctx, func() (bool, error) {
		free, err := tryLock(lock)
		if !free && err == nil && !said {
			said = true
			s.tell.line("Another process is downloading PostgreSQL; waiting for it.")
		}
		return free, err
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("waiting for another download: %w", err), lock.Close())
	}
	return func() { _ = lock.Close() }, nil
}

// bring downloads, unpacks beside the place, tries, and only then puts the tree there: a tree
// that exists is whole.
func (s *supply) bring(ctx context.Context, tree string) (err error) {
	from := s.artifact.url(s.mirror)
	shown := from
	if u, err := url.Parse(from); err == nil {
		shown = u.Redacted()
	}
	s.tell.line("No PostgreSQL is installed here. Downloading version %s, once:\n  %s", s.artifact.version, shown)
	d := &download{client: s.client, url: from, sum: s.artifact.sum, part: tree + ".jar.part", tell: s.tell, pause: s.pause}
	err = d.run(ctx)
	s.tell.end()
	if err != nil {
		return fmt.Errorf("downloading %s: %w", shown, err)
	}

	unfinished := tree + ".new"
	if err := os.RemoveAll(unfinished); err != nil { // of an attempt that was killed
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(unfinished))
		}
		if err == nil || fullDisk(err) {
			err = errors.Join(err, d.discard())
		}
	}()
	if err := unpack(d.part, unfinished); err != nil {
		return err
	}
	if err := s.try(ctx, filepath.Join(unfinished, "bin")); err != nil {
		return err
	}
	flushDisk() // before the rename, or a power cut could leave a whole tree of empty files
	if err := os.Rename(unfinished, tree); err != nil {
		return err
	}
	s.tell.line("  Kept in %s", tree)
	return nil
}

// try runs what was unpacked: another C library, or a folder that may not be executed from,
// is found out here, with its own words, and not by an initdb that fails.
func (s *supply) try(ctx context.Context, bin string) error {
	if _, err := checkBinaries(bin); err != nil {
		return err
	}
	_, err := versionOf(ctx, bin, s.account)
	if err != nil {
		return fmt.Errorf("the PostgreSQL for %s does not run here: %w", s.artifact.platform, err)
	}
	return nil
}

// versionOf asks the postgres in a folder for its version, like "16.14".
func versionOf(ctx context.Context, bin string, a *account) (string, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(bin, "postgres"), "--version")
	cmd.Dir = "/"
	cmd.SysProcAttr = detached(a)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, strings.TrimSpace(string(out)))
	}
	fields := strings.Fields(string(out)) // postgres (PostgreSQL) 16.14 (Debian …)
	if len(fields) < 3 {
		return "", fmt.Errorf("%s says %q of its version", cmd.Path, strings.TrimSpace(string(out)))
	}
	return fields[2], nil
}
