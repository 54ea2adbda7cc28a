package composetest

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// docs/make-it-yours.md, done from its first block to its last in a copy of the tree: its
// commands are run, its files written, its changes made. The last block builds and tests what
// came of it, without the network: all it needs has been fetched.
func TestMakeItYours(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds everything under another name")
	}
	t.Parallel()
	folder, page := clone(t), read(t, "docs/make-it-yours.md")
	offline := []string{"GOPROXY=off"}
	done := map[string]int{}
	for _, block := range regexp.MustCompile("(?ms)^```(sh|go|diff)\n(.*?)^```$").FindAllStringSubmatch(page, -1) {
		language, text := block[1], block[2]
		done[language]++
		switch language {
		case "sh":
			command(t, folder, offline, "bash", "-euc", text)
		case "go":
			path := strings.TrimPrefix(strings.SplitN(text, "\n", 2)[0], "// ")
			if err := os.WriteFile(filepath.Join(folder, path), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		case "diff":
			change(t, folder, text)
		}
	}
	if done["sh"] != 2 || done["go"] != 2 || done["diff"] != 3 {
		t.Errorf("blocks done: %v", done)
	}
	if left := grep(t, folder, `"paidonce/`); len(left) > 0 {
		t.Errorf("still under the old name: %q", left)
	}
	for _, name := range regexp.MustCompile(`\bTest[A-Z]\w+`).FindAllString(page, -1) {
		if name != t.Name() && len(grep(t, folder, "func "+name)) == 0 {
			t.Errorf("the page names %s, which is not there", name)
		}
	}
}

// clone is a copy of everything that is not built or hidden by git.
func clone(t *testing.T) string {
	t.Helper()
	to := t.TempDir()
	err := fs.WalkDir(os.DirFS(tree), ".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (path == ".git" || path == "bin" || path == "mail"):
			return fs.SkipDir
		case d.IsDir() || !d.Type().IsRegular():
			return nil
		}
		content, err := os.ReadFile(filepath.Join(tree, path))
		if err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Join(to, filepath.Dir(path)), 0o700); err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, path), content, 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
	return to
}

// change makes the changes of a diff. Its places are found by their lines alone, whatever
// blanks are in them, and each has to be there once.
func change(t *testing.T, folder, diff string) {
	t.Helper()
	for _, hunk := range hunks(diff) {
		path, old, now := filepath.Join(folder, hunk.path), hunk.old, hunk.now
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(string(content), "\n")
		at := -1
		for i := range len(lines) - len(old) + 1 {
			if blankless(lines[i:i+len(old)]) != blankless(old) {
				continue
			}
			if at >= 0 {
				t.Fatalf("%s has %q twice", path, old)
			}
			at = i
		}
		if at < 0 {
			t.Fatalf("%s has no %q", path, old)
		}
		changed := strings.Join(append(append(append([]string(nil), lines[:at]...), now...), lines[at+len(old):]...), "\n")
		if err := os.WriteFile(path, []byte(changed), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// hunk is one place of a diff.
type hunk struct {
	path     string
	old, now []string
}

func hunks(diff string) []hunk {
	var all []hunk
	path := ""
	for line := range strings.Lines(diff) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case strings.HasPrefix(line, "--- a/"):
		case strings.HasPrefix(line, "+++ b/"):
			path = strings.TrimPrefix(line, "+++ b/")
		case strings.HasPrefix(line, "@@"):
			all = append(all, hunk{path: path})
		default:
			one := &all[len(all)-1]
			if line[0] != '+' {
				one.old = append(one.old, line[1:])
			}
			if line[0] != '-' {
				one.now = append(one.now, line[1:])
			}
		}
	}
	return all
}

func blankless(lines []string) string {
	return strings.Join(strings.Fields(strings.Join(lines, " \\n ")), " ")
}

// grep lists the Go files with a text in them.
func grep(t *testing.T, folder, text string) []string {
	t.Helper()
	var found []string
	err := fs.WalkDir(os.DirFS(folder), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasPrefix(path, "internal/composetest/") {
			return err
		}
		content, err := os.ReadFile(filepath.Join(folder, path))
		if strings.Contains(string(content), text) {
			found = append(found, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
