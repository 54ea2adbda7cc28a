package main

import (
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"paidonce/webhooks"
)

const repo = "../.."

// TestCrashWindowsPage holds docs/crash-windows.md, the code and the crash tests to one
// another: every window has an entry in the fixed form, a line of code that carries its id
// and calls the hook, and exactly one row of TestCrashWindows that kills a process there.
func TestCrashWindowsPage(t *testing.T) {
	t.Parallel()
	page := read(t, repo+"/docs/crash-windows.md")
	inPage := ids(`(?m)^### (CW\d+) `, page)

	var code strings.Builder
	for _, file := range goFiles(t, func(name string) bool { return !strings.HasSuffix(name, "_test.go") }) {
		code.WriteString(read(t, file))
	}
	inCode := ids(`\bcrash\("(CW\d+)"\)`, code.String())
	inTests := ids(`window: "(CW\d+)"`, read(t, "crash_test.go"))

	if diff := cmp.Diff(inPage, inCode); diff != "" {
		t.Errorf("windows of the page and calls of crash in the code differ (-page +code):\n%s", diff)
	}
	if diff := cmp.Diff(inPage, inTests); diff != "" {
		t.Errorf("windows of the page and rows of TestCrashWindows differ (-page +tests):\n%s", diff)
	}

	for _, entry := range strings.Split(page, "\n### ")[1:] {
		id, _, _ := strings.Cut(entry, " ")
		for _, part := range []string{"Window", "Left behind", "Who acts", "Why safe", "Test", "Not done"} {
			if strings.Count(entry, "\n- **"+part+"**: ") != 1 {
				t.Errorf("%s: want one %q in its entry", id, part)
			}
		}
		if want := "`TestCrashWindows/" + id + "`"; !strings.Contains(entry, want) {
			t.Errorf("%s: its entry does not name its test %s", id, want)
		}
	}

	// An id in a comment that no page explains is a dead link.
	for _, id := range ids(`\b(CW\d+)\b`, code.String()) {
		if !slices.Contains(inPage, id) {
			t.Errorf("the code speaks of %s; docs/crash-windows.md does not", id)
		}
	}
}

// TestLinksInDocs: every relative link of a page leads to a file.
func TestLinksInDocs(t *testing.T) {
	t.Parallel()
	for _, page := range []string{"README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "docs"} {
		err := fs.WalkDir(os.DirFS(repo), page, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".md") {
				return err
			}
			dir := path[:strings.LastIndex("/"+path, "/")]
			for _, match := range regexp.MustCompile(`\]\(([^)#:]+)(#[^)]*)?\)`).FindAllStringSubmatch(read(t, repo+"/"+path), -1) {
				if _, err := os.Stat(repo + "/" + dir + "/" + match[1]); err != nil {
					t.Errorf("%s links to %s, which is not there", path, match[1])
				}
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
}

// TestEnvExample: .env.example documents every variable that the configuration reads, and no
// other.
func TestEnvExample(t *testing.T) {
	t.Parallel()
	got := ids(`(?m)^#? ?([A-Z][A-Z_]+)=`, read(t, repo+"/.env.example"))
	want := ids(`env:"([A-Z_]+)"`, read(t, "config.go"))
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("variables of the configuration and of .env.example differ (-config +example):\n%s", diff)
	}
}

// ids lists the first groups of all matches, each once, in order of appearance by number.
func ids(pattern, text string) []string {
	var found []string
	for _, match := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
		if !slices.Contains(found, match[1]) {
			found = append(found, match[1])
		}
	}
	slices.SortFunc(found, func(a, b string) int {
		if len(a) != len(b) {
			return len(a) - len(b)
		}
		return strings.Compare(a, b)
	})
	return found
}

func read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// goFiles lists the Go files of the tree.
func goFiles(t *testing.T, want func(name string) bool) []string {
	t.Helper()
	var files []string
	err := fs.WalkDir(os.DirFS(repo), ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && strings.HasSuffix(path, ".go") && want(path) {
			files = append(files, repo+"/"+path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// docs/events.md and the list that endpoints are made with name the same types.
func TestEventsPage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/events.md")
	if err != nil {
		t.Fatal(err)
	}
	named := map[string]bool{}
	for _, row := range strings.Split(string(page), "\n") {
		first, _, ok := strings.Cut(strings.TrimPrefix(row, "| "), " | ")
		if !ok || !strings.HasPrefix(row, "| `") {
			continue
		}
		for _, match := range regexp.MustCompile("`([a-z_]+\\.[a-z_.]+)`").FindAllStringSubmatch(first, -1) {
			named[match[1]] = true
		}
	}
	delete(named, "refund.failed") // newer versions send it; an endpoint of the pinned one cannot ask for it
	for _, kind := range webhooks.StripeEventTypes() {
		if !named[kind] {
			t.Errorf("docs/events.md does not name %s", kind)
		}
		delete(named, kind)
	}
	if len(named) > 0 {
		t.Errorf("docs/events.md names types that no endpoint is sent: %v", named)
	}
}

// docs/operations.md names a refused webhook by the words that the log has for it.
func TestOperations_NameWhyAWebhookIsRefused(t *testing.T) {
	t.Parallel()
	page := read(t, repo+"/docs/operations.md")
	skew, _, _ := strings.Cut((&webhooks.SkewError{}).Error(), "0s")
	for _, reason := range []string{webhooks.ErrBadSignature.Error(), webhooks.ErrNoSignature.Error() + " ", skew} {
		if !strings.Contains(page, "`"+reason) {
			t.Errorf("the page does not say what %q means", reason)
		}
	}
}
