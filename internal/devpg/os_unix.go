//go:build unix

package devpg

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

func supported() error { return nil }

// detached puts a process into a session of its own and, if a is not nil, drops root.
func detached(a *account) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setsid: true}
	if a != nil {
		attr.Credential = &syscall.Credential{Uid: a.uid, Gid: a.gid}
	}
	return attr
}

// killGroup kills a process that leads its group, and the group. One that has just ended
// needs no killing.
func killGroup(p *os.Process) error {
	if err := syscall.Kill(-p.Pid, syscall.SIGKILL); !errors.Is(err, syscall.ESRCH) {
		return err
	}
	return nil
}

func owner(info fs.FileInfo) (uid, gid uint32) {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return st.Uid, st.Gid
	}
	return 0, 0
}

// tryLock takes the lock of an open file, which every process that inherits it then holds.
func tryLock(f *os.File) (bool, error) {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) || errors.Is(err, syscall.EINTR) {
		return false, nil
	}
	return err == nil, err
}

// flushDisk has everything written that was written so far.
func flushDisk() { syscall.Sync() }
