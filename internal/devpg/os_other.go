//go:build !unix

package devpg

import (
	"io/fs"
	"os"
	"syscall"
)

// The program builds everywhere, for those who set DATABASE_URL; Start asks supported first
// and so reaches none of the rest.

func supported() error { return ErrUnsupported }

func detached(*account) *syscall.SysProcAttr { return nil }

func killGroup(p *os.Process) error { return p.Kill() }

func owner(fs.FileInfo) (uid, gid uint32) { return 0, 0 }

func tryLock(*os.File) (bool, error) { return false, ErrUnsupported }

func flushDisk() {}
