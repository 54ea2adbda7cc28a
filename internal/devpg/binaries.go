package devpg

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
)

// binEnv names the folder of initdb and postgres, before anything that is searched for.
const binEnv = "PAIDONCE_PG_BIN"

// installed lists where packages put the binaries that they keep off the PATH, in groups:
// the first group with a usable folder wins, and in a group the newest version.
func installed() []string {
	return []string{
		"/usr/lib/postgresql/*/bin",                          // Debian, Ubuntu
		"/usr/pgsql-*/bin",                                   // PGDG on Red Hat and its kin
		"/opt/homebrew/opt/postgresql*/bin",                  // Homebrew on Apple silicon
		"/usr/local/opt/postgresql*/bin",                     // Homebrew on Intel
		"/Applications/Postgres.app/Contents/Versions/*/bin", // Postgres.app
	}
}

// FindBinaries returns the folder that holds initdb and postgres: PAIDONCE_PG_BIN if it is
// set (then wrong is an error, never a reason to look further), else the first hit on PATH,
// else the newest one installed in a usual place, else [ErrNoBinaries]. It downloads nothing:
// [Start] does, once it has that answer.
func FindBinaries(getenv func(string) string) (string, error) {
	return findBinaries(getenv, installed())
}

func findBinaries(getenv func(string) string, patterns []string) (string, error) {
	dir := getenv(binEnv)
	if dir == downloaded {
		return "", ErrNoBinaries
	}
	if dir != "" {
		dir, err := checkBinaries(dir)
		if err != nil {
			return "", fmt.Errorf("%s: %w", binEnv, err)
		}
		return dir, nil
	}
	for _, dir := range filepath.SplitList(getenv("PATH")) {
		if found, ok := behindPath(dir); ok {
			return found, nil
		}
	}
	for _, pattern := range patterns {
		dirs, err := filepath.Glob(pattern)
		if err != nil {
			return "", fmt.Errorf("bug: the pattern %s: %w", pattern, err)
		}
		slices.SortFunc(dirs, newestFirst)
		for _, dir := range dirs {
			if found, err := checkBinaries(dir); err == nil {
				return found, nil
			}
		}
	}
	return "", ErrNoBinaries
}

// behindPath follows the postgres of one PATH folder to where it really lies. A link has no
// initdb beside it for certain, and a wrapper script may need an environment that the
// server will not have: it is passed over. PAIDONCE_PG_BIN can still name it.
func behindPath(dir string) (string, bool) {
	if dir == "" { // an empty element means the current folder, which is nobody's install
		return "", false
	}
	program, err := filepath.EvalSymlinks(filepath.Join(dir, "postgres"))
	if err != nil || isScript(program) {
		return "", false
	}
	found, err := checkBinaries(filepath.Dir(program))
	return found, err == nil
}

// checkBinaries returns dir made absolute if it holds both programs.
func checkBinaries(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	for _, name := range []string{"initdb", "postgres"} {
		info, err := os.Stat(filepath.Join(dir, name))
		switch {
		case errors.Is(err, os.ErrNotExist):
			return "", fmt.Errorf("there is no %s in %s", name, dir)
		case err != nil:
			return "", err
		case info.IsDir() || info.Mode()&0o111 == 0:
			return "", fmt.Errorf("%s in %s is not a program", name, dir)
		}
	}
	return dir, nil
}

func isScript(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }()
	start := make([]byte, 2)
	_, err = io.ReadFull(f, start)
	return err == nil && string(start) == "#!"
}

// newestFirst orders folders by the version in their path, as numbers: 15 before 9.6.
func newestFirst(a, b string) int {
	return slices.Compare(version(b), version(a))
}

// version is the numbers of the part of the path that names one: ".../16/bin" is 16,
// ".../postgresql@9.6/bin" is 9.6. No number is older than any.
func version(dir string) []int {
	var parts []int
	for _, digits := range regexp.MustCompile(`\d+`).FindAllString(filepath.Base(filepath.Dir(dir)), -1) {
		n, err := strconv.Atoi(digits)
		if err != nil {
			return nil
		}
		parts = append(parts, n)
	}
	return parts
}
