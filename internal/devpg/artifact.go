package devpg

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// mirrorEnv names another Maven repository that holds the same files.
const mirrorEnv = "PAIDONCE_PG_MIRROR"

// central is where the files are published.
const central = "https://repo1.maven.org/maven2"

// pinned is the version that is downloaded: one, so that a data folder never meets two majors
// of ours, and the one whose sums below could be read in more than one place.
const pinned = "16.14.0"

// artifact is one file to download: a jar, which is a zip with one .txz inside.
type artifact struct {
	platform string // as Maven names it, like linux-arm64v8
	version  string
	sum      string // SHA-256 of the jar, in hex
}

// sums are the SHA-256 of the jars, by platform. They are in the code because a sum that
// comes from the same server as the file proves only that the download is whole.
func sums() map[string]string {
	return map[string]string{
		"linux-amd64":          "3278331b124b46fb9f8bea30c7ff3bd6227a3934dad38a6ddb625eb7dcfa8ca8",
		"linux-arm64v8":        "482f5ccdb15f68f4bfe524a5b9df734e169db9d1d29c32a513af44ac9efc127a",
		"linux-amd64-alpine":   "314dd372c506fa00dec20c192598b5fbb85338d6eab288fdbe56d9e91b01eea9",
		"linux-arm64v8-alpine": "a545ed0a8602d70c064e1c31f0164d39f7756e1aec03057e3ae8799346945605",
		"darwin-amd64":         "9d082281befccc05f6c25dc0dd196382871543422f3ce850fb46cb035d38616a",
		"darwin-arm64v8":       "d5d84a7e5103ade5557898fcf51affae69778be559bf9ba44819714c0d68e541",
	}
}

// artifactFor is the file for a system; root is where its files are, "/" but in tests.
func artifactFor(system, processor, root string) (artifact, error) {
	platform := system + "-" + strings.ReplaceAll(processor, "arm64", "arm64v8")
	if system == "linux" && musl(root) {
		platform += "-alpine"
	}
	sum, ok := sums()[platform]
	if !ok {
		return artifact{}, fmt.Errorf("no PostgreSQL is published for %s on %s", system, processor)
	}
	return artifact{platform: platform, version: pinned, sum: sum}, nil
}

// thisArtifact is the file for the machine that we run on.
func thisArtifact() (artifact, error) { return artifactFor(runtime.GOOS, runtime.GOARCH, "/") }

// musl tells a system like Alpine. Where both C libraries are installed, the usual one counts.
func musl(root string) bool {
	return matches(root, "lib/ld-musl-*.so.1") && !matches(root, "lib*/ld-linux-*.so.*")
}

func matches(root, pattern string) bool {
	found, err := filepath.Glob(filepath.Join(root, pattern))
	return err == nil && len(found) > 0
}

// name is the jar's name without its ending, which the cache uses too.
func (a artifact) name() string {
	return "embedded-postgres-binaries-" + a.platform + "-" + a.version
}

// url is where the jar is below a Maven repository.
func (a artifact) url(mirror string) string {
	return strings.TrimRight(mirror, "/") + "/io/zonky/test/postgres/embedded-postgres-binaries-" + a.platform +
		"/" + a.version + "/" + a.name() + ".jar"
}

// mirror is the repository to ask.
func mirror(getenv func(string) string) (string, error) {
	value := strings.TrimSpace(getenv(mirrorEnv))
	if value == "" {
		return central, nil
	}
	u, err := url.Parse(value)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return "", fmt.Errorf("%s must be the URL of a Maven repository, like %s", mirrorEnv, central)
	}
	return value, nil
}

// cacheFolders are where a downloaded PostgreSQL may be kept, best first. Root's home is
// closed to the account that the server runs as, so root keeps it where a system keeps such
// things. The last one is there also without a home, or with one that is read-only; it lasts
// until the system clears its temporary files.
func cacheFolders(getenv func(string) string, uid int) []string {
	var folders []string
	for _, base := range []string{getenv("XDG_CACHE_HOME"), userCache(getenv, uid)} {
		if filepath.IsAbs(base) {
			folders = append(folders, filepath.Join(base, "paidonce"))
		}
	}
	temporary := getenv("TMPDIR")
	if !filepath.IsAbs(temporary) {
		temporary = "/tmp"
	}
	return append(folders, filepath.Join(temporary, fmt.Sprintf("paidonce-cache-%d", uid)))
}

func userCache(getenv func(string) string, uid int) string {
	home := getenv("HOME")
	switch {
	case uid == 0:
		return "/var/cache"
	case home == "":
		return ""
	case runtime.GOOS == "darwin":
		return filepath.Join(home, "Library", "Caches")
	}
	return filepath.Join(home, ".cache")
}

// openCache returns the first cache folder that can be used, and why those before it cannot.
// What is in it will be executed, so it has to be ours alone: somebody else's folder under
// our name, which anybody can make in /tmp, is passed over.
func openCache(folders []string, a *account) (dir string, passed error, err error) {
	var faults []string
	for _, folder := range folders {
		err := usable(folder, a)
		if err == nil {
			if len(faults) > 0 {
				passed = fmt.Errorf("%s", strings.Join(faults, "; "))
			}
			return folder, passed, nil
		}
		faults = append(faults, err.Error())
	}
	return "", nil, fmt.Errorf("there is no folder to keep it in: %s", strings.Join(faults, "; "))
}

// makeFolder makes a folder that others can enter, whatever our umask says: as root the server's
// user has to, and nothing in it is secret.
func makeFolder(folder string) error {
	if err := os.MkdirAll(filepath.Dir(folder), 0o755); err != nil { //nolint:gosec // see above
		return err
	}
	err := os.Mkdir(folder, 0o755) //nolint:gosec // see above
	if errors.Is(err, os.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return os.Chmod(folder, 0o755) //nolint:gosec // see above
}

func usable(folder string, a *account) error {
	if err := makeFolder(folder); err != nil {
		return err
	}
	info, err := os.Lstat(folder)
	if err != nil {
		return err
	}
	if uid, _ := owner(info); !info.IsDir() || int(uid) != os.Geteuid() || info.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("%s is not a folder that only this user can write to", folder)
	}
	probe, err := os.CreateTemp(folder, ".writable-")
	if err != nil {
		return err
	}
	if err := closeAndRemove(probe); err != nil {
		return err
	}
	return reachable(a, folder)
}
