package devpg

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
)

// maxSocketFolder keeps the socket's path within the 104 bytes that macOS allows (Linux:
// 108), both counting the final zero byte.
const maxSocketFolder = 104 - len("/.s.PGSQL.65535") - 1

// account is the user that the server runs as.
type account struct {
	name     string
	uid, gid uint32
}

// chooseAccount returns nil, meaning ourselves, unless we are root, whom PostgreSQL refuses.
// Then it is whoever owns the data already, so that a folder made by one account is not
// given to another because somebody installed a package in between.
func chooseAccount(data string) (*account, error) {
	if os.Geteuid() != 0 {
		return nil, nil // no other account, and no fault
	}
	if info, err := os.Stat(data); err == nil {
		if uid, gid := owner(info); uid != 0 {
			return &account{name: fmt.Sprintf("user %d", uid), uid: uid, gid: gid}, nil
		}
	}
	return firstAccount("postgres", "nobody")
}

// firstAccount is the first of these users that the system has.
func firstAccount(names ...string) (*account, error) {
	for _, name := range names {
		if a, err := lookUp(name); err == nil {
			return a, nil
		}
	}
	return nil, fmt.Errorf("PostgreSQL refuses to run as root, and there is no user %s to run it as", strings.Join(names, " or "))
}

func lookUp(name string) (*account, error) {
	u, err := user.Lookup(name)
	if err != nil {
		return nil, err
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return nil, err
	}
	return &account{name: name, uid: uint32(uid), gid: uint32(gid)}, nil
}

// makeRunFolder makes the temporary folder that holds the socket: private to the server's
// user, with a path short enough for a socket whatever the length of Dir.
func makeRunFolder(getenv func(string) string, a *account) (string, error) {
	for _, base := range []string{getenv("TMPDIR"), "/tmp"} {
		// A comma would make two folders of it in the server's list and in a URL's host.
		if !filepath.IsAbs(base) || strings.ContainsAny(base, `,"`) || reachable(a, base) != nil {
			continue
		}
		dir, err := os.MkdirTemp(base, "paidonce-pg-")
		if err != nil {
			return "", err
		}
		if len(dir) <= maxSocketFolder {
			return dir, nil
		}
		if err := os.Remove(dir); err != nil {
			return "", err
		}
	}
	return "", errors.New("neither TMPDIR nor /tmp can hold the socket's folder")
}

// openFolder makes the folder if it is absent and finds out whether the server's user can
// reach it and the binaries: what PostgreSQL itself would say names the symptom only.
func (s *Server) openFolder() error {
	mode := os.FileMode(0o700)
	if s.account != nil {
		mode = 0o755 // root's folder, through which the server's user goes to its own
	}
	if err := os.MkdirAll(s.folder, mode); err != nil {
		return err
	}
	resolved, err := filepath.EvalSymlinks(s.folder)
	if err != nil {
		return err
	}
	s.folder = resolved

	if err := reachable(s.account, s.bin); err != nil || !s.kept {
		return err // the temporary folder was made where it can be reached
	}
	return reachable(s.account, s.folder)
}

// give makes the server's user the owner of what we made for it.
func (s *Server) give(path string) error {
	if s.account == nil {
		return nil
	}
	return os.Chown(path, int(s.account.uid), int(s.account.gid))
}

// reachable says which folder on the way to dir, if any, the account may not enter. We
// never open somebody's folder for it: that is for its owner to decide.
func reachable(a *account, dir string) error {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return err
	}
	for {
		info, err := os.Stat(dir)
		if err != nil {
			return err
		}
		if !info.IsDir() {
			return fmt.Errorf("%s is not a folder", dir)
		}
		if a != nil && !a.mayEnter(info) {
			return fmt.Errorf("as root the server runs as %s, who may not enter %s (mode %#o): choose another folder, or open that one",
				a.name, dir, info.Mode().Perm())
		}
		if dir == filepath.Dir(dir) {
			return nil
		}
		dir = filepath.Dir(dir)
	}
}

// mayEnter looks at the one group that the account keeps: the others are dropped with root.
func (a *account) mayEnter(info fs.FileInfo) bool {
	uid, gid := owner(info)
	switch mode := info.Mode().Perm(); {
	case uid == a.uid:
		return mode&0o100 != 0
	case gid == a.gid:
		return mode&0o010 != 0
	default:
		return mode&0o001 != 0
	}
}
