package devpg

import (
	"archive/tar"
	"archive/zip"
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/ulikunitz/xz"
)

// What an archive may unpack to: five times what the largest one does. The sum has been
// checked by then, so this is about a mirror of the future and not about an attacker.
const (
	maxUnpacked = 512 << 20
	maxEntries  = 20_000
)

// unpack extracts the archive inside the jar into a folder that does not exist yet.
func unpack(jar, into string) (err error) {
	archive, err := zip.OpenReader(jar)
	if err != nil {
		return fmt.Errorf("reading %s: %w", filepath.Base(jar), err)
	}
	defer func() { err = errors.Join(err, archive.Close()) }()
	inner, err := innerArchive(archive.File)
	if err != nil {
		return err
	}
	compressed, err := inner.Open()
	if err != nil {
		return fmt.Errorf("reading %s: %w", inner.Name, err)
	}
	defer func() { err = errors.Join(err, compressed.Close()) }()
	content, err := xz.NewReader(bufio.NewReaderSize(compressed, 1<<20)) // it reads single bytes
	if err != nil {
		return fmt.Errorf("reading %s: %w", inner.Name, err)
	}

	if err := makeFolder(into); err != nil {
		return err
	}
	root, err := os.OpenRoot(into)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	return (&unpacking{root: root, left: maxUnpacked}).all(tar.NewReader(content))
}

func innerArchive(files []*zip.File) (*zip.File, error) {
	for _, f := range files {
		if strings.HasSuffix(f.Name, ".txz") && !f.FileInfo().IsDir() {
			return f, nil
		}
	}
	return nil, errors.New("the jar holds no .txz: it is not one of PostgreSQL's")
}

// unpacking writes below one folder. The root refuses every path that leads out of it, through
// a link too; what it does not look at is where a link points, so [unpacking.link] does.
type unpacking struct {
	root *os.Root
	left int64
}

func (u *unpacking) all(archive *tar.Reader) error {
	for range maxEntries {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading the archive: %w", err)
		}
		if err := u.one(header, archive); err != nil {
			return fmt.Errorf("unpacking %s: %w", header.Name, err)
		}
	}
	return fmt.Errorf("the archive has more than %d entries", maxEntries)
}

func (u *unpacking) one(header *tar.Header, content io.Reader) error {
	name := path.Clean(header.Name)
	if header.Typeflag == tar.TypeDir {
		return u.folder(name)
	}
	if err := u.folder(path.Dir(name)); err != nil {
		return err
	}
	switch header.Typeflag {
	case tar.TypeReg:
		return u.file(name, header.FileInfo().Mode(), content)
	case tar.TypeSymlink:
		return u.link(name, header.Linkname)
	}
	return fmt.Errorf("it is neither a file, a folder nor a link (type %q)", header.Typeflag)
}

// folder and file give the modes themselves: our umask may be strict, and the server runs as
// somebody else when we are root.
func (u *unpacking) folder(name string) error {
	if err := u.root.MkdirAll(name, 0o755); err != nil || name == "." {
		return err
	}
	return u.root.Chmod(name, 0o755)
}

func (u *unpacking) file(name string, mode os.FileMode, content io.Reader) error {
	perm := os.FileMode(0o644)
	if mode&0o111 != 0 {
		perm = 0o755
	}
	f, err := u.root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, perm)
	if err != nil {
		return err
	}
	written, err := io.Copy(f, io.LimitReader(content, u.left+1))
	if u.left -= written; err == nil && u.left < 0 {
		err = fmt.Errorf("the archive is larger than %d MB", maxUnpacked>>20)
	}
	return errors.Join(err, f.Close(), u.root.Chmod(name, perm))
}

func (u *unpacking) link(name, target string) error {
	if path.IsAbs(target) || !filepath.IsLocal(path.Join(path.Dir(name), target)) {
		return fmt.Errorf("it is a link that leads out of the archive, to %s", target)
	}
	return u.root.Symlink(target, name)
}
