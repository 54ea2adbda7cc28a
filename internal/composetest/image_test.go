package composetest

// Real: the Dockerfile's own commands, run on this machine in a copy of the tree as
// .dockerignore leaves it, and the binary that comes of them. Not here: Docker itself, and
// the base images.

import (
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/moby/buildkit/frontend/dockerfile/parser"
	"github.com/moby/patternmatcher"
	"github.com/moby/patternmatcher/ignorefile"
)

const tree = "../.."

// instruction is one line of the Dockerfile.
type instruction struct {
	name  string // lower case
	args  []string
	stage int
}

func dockerfile(t *testing.T, text string) []instruction {
	t.Helper()
	parsed, err := parser.Parse(strings.NewReader(text))
	if err != nil {
		t.Fatalf("Dockerfile: %v", err)
	}
	var all []instruction
	stage := -1
	for _, node := range parsed.AST.Children {
		one := instruction{name: strings.ToLower(node.Value)}
		for arg := node.Next; arg != nil; arg = arg.Next {
			one.args = append(one.args, arg.Value)
		}
		if one.name == "from" {
			stage++
		}
		one.stage = stage
		all = append(all, one)
	}
	return all
}

// faultsOf says what an image must not be shipped with.
func faultsOf(lines []instruction, goVersion string) []string {
	var faults []string
	last := lines[len(lines)-1].stage
	user, healthy, pinned := "", false, false
	for _, line := range lines {
		first := ""
		if len(line.args) > 0 {
			first = line.args[0]
		}
		switch {
		case line.name == "from" && strings.HasPrefix(first, "golang:"):
			version, _, _ := strings.Cut(strings.TrimPrefix(first, "golang:"), "-")
			pinned = version == goVersion || strings.HasPrefix(goVersion, version+".")
		case line.name == "from" && first != "scratch" && !strings.Contains(first, ":"):
			faults = append(faults, "base image without a version: "+first)
		case line.name == "user" && line.stage == last:
			user = first
		case line.name == "healthcheck" && line.stage == last:
			healthy = slices.Contains(line.args, "/paidonce") && slices.Contains(line.args, "health")
		case line.name == "copy" && line.stage == last && !slices.Contains(line.args, "/src/bin/paidonce") && first == ".":
			faults = append(faults, "the final image takes the whole folder")
		}
	}
	if !pinned {
		faults = append(faults, "the Go version is not that of go.mod, "+goVersion)
	}
	if id, _, _ := strings.Cut(user, ":"); id == "" || id == "0" || id == "root" {
		faults = append(faults, "the last USER is root")
	}
	if !healthy {
		faults = append(faults, "no HEALTHCHECK through the binary")
	}
	return faults
}

func TestDockerfile(t *testing.T) {
	t.Parallel()
	text, version := read(t, "Dockerfile"), goVersion(t)
	if faults := faultsOf(dockerfile(t, text), version); len(faults) > 0 {
		t.Errorf("Dockerfile: %q", faults)
	}
	for _, broken := range [][2]string{
		{"FROM golang:1.26", "FROM golang:1.21"},
		{"USER 65532:65532", "USER root"},
		{"USER 65532:65532", ""},
		{"FROM scratch", "FROM debian"},
		{`CMD ["/paidonce", "health"]`, `CMD ["/bin/true"]`},
		{"COPY --from=build /src/bin/paidonce /paidonce", "COPY . /"},
	} {
		if !strings.Contains(text, broken[0]) {
			t.Fatalf("the Dockerfile has no %q to break", broken[0])
		}
		if faults := faultsOf(dockerfile(t, strings.Replace(text, broken[0], broken[1], 1)), version); len(faults) == 0 {
			t.Errorf("with %q instead of %q no fault was found", broken[1], broken[0])
		}
	}
}

// The binary, built by the Dockerfile's commands from what the builder is sent, runs alone; it
// is the same, byte for byte, as make build's from another folder; and the environment that
// Compose and Kubernetes give it is one that it starts with.
func TestShipped(t *testing.T) {
	t.Parallel()
	const version, commit = "v0.0.1-test", "0123456789ab"
	folder := sent(t)
	binary := filepath.Join(folder, "bin", "paidonce")
	for _, line := range dockerfile(t, read(t, "Dockerfile")) {
		if line.name == "run" {
			command(t, folder, []string{"VERSION=" + version, "COMMIT=" + commit}, "sh", "-ec", line.args[0])
		}
	}

	t.Run("Alone", func(t *testing.T) {
		file, err := elf.Open(binary)
		if err != nil {
			t.Skipf("not an ELF binary on this system: %v", err)
		}
		defer func() { _ = file.Close() }()
		for _, program := range file.Progs {
			if program.Type == elf.PT_INTERP {
				t.Error("the binary wants a dynamic loader, which scratch has not")
			}
		}
	})
	t.Run("Versioned", func(t *testing.T) {
		var said struct{ Version, Commit string }
		if err := json.Unmarshal(command(t, folder, nil, binary, "version", "--json"), &said); err != nil || said.Version != version || said.Commit != commit {
			t.Errorf("it says %+v %v", said, err)
		}
	})
	t.Run("Reproducible", func(t *testing.T) {
		other := filepath.Join(t.TempDir(), "a folder with a longer name")
		if err := os.CopyFS(other, os.DirFS(folder)); err != nil {
			t.Fatal(err)
		}
		if err := os.RemoveAll(filepath.Join(other, "bin")); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(other, "Makefile"), []byte(read(t, "Makefile")), 0o600); err != nil {
			t.Fatal(err)
		}
		command(t, other, nil, "make", "build", "VERSION="+version, "COMMIT="+commit)
		if one, two := sum(t, binary), sum(t, filepath.Join(other, "bin", "paidonce")); one != two {
			t.Errorf("the Dockerfile's commands make %s, make build makes %s", one, two)
		}
	})
	t.Run("Compose", func(t *testing.T) { testComposeEnvironment(t, binary) })
	t.Run("Kubernetes", func(t *testing.T) { testKubernetesEnvironment(t, binary) })
}

// sent is a copy of what the builder is sent: the tree without what .dockerignore names.
func sent(t *testing.T) string {
	t.Helper()
	patterns, err := ignorefile.ReadAll(strings.NewReader(read(t, ".dockerignore")))
	if err != nil {
		t.Fatal(err)
	}
	ignored, err := patternmatcher.New(patterns)
	if err != nil {
		t.Fatal(err)
	}
	to := t.TempDir()
	err = fs.WalkDir(os.DirFS(tree), ".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (path == ".git" || path == "bin"):
			return fs.SkipDir
		case d.IsDir() || !d.Type().IsRegular():
			return nil
		}
		if skip, err := ignored.MatchesOrParentMatches(path); err != nil || skip {
			return err
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

// A secret of the developer's never reaches the builder.
func TestDockerignore(t *testing.T) {
	t.Parallel()
	patterns, err := ignorefile.ReadAll(strings.NewReader(read(t, ".dockerignore")))
	if err != nil {
		t.Fatal(err)
	}
	ignored, err := patternmatcher.New(patterns)
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{
		".env": true, ".env.local": true, ".git/config": true, "bin/paidonce": true, "sim.json": true, "docs/tour.md": true,
		"orders/apply_test.go": true, "internal/composetest/go.mod": true,
		"go.mod": false, "orders/apply.go": false, "migrations/00002_orders.sql": false, "internal/web/templates/return.html": false,
	} {
		if got, err := ignored.MatchesOrParentMatches(path); err != nil || got != want {
			t.Errorf("%s is left out: %t %v, want %t", path, got, err, want)
		}
	}
}

// faultsOfConfiguration has the binary read an environment, without a database: what it
// complains of, variable by variable.
func faultsOfConfiguration(t *testing.T, binary string, env map[string]string, args ...string) []string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binary, args...)
	for name, value := range env {
		if name != "DATABASE_URL" {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
	}
	out, err := cmd.CombinedOutput()
	if err == nil {
		t.Fatalf("%v ran without a database:\n%s", args, out)
	}
	var faults []string
	for _, match := range regexp.MustCompile(`(?m)^([A-Z][A-Z_]+): `).FindAllStringSubmatch(string(out), -1) {
		faults = append(faults, match[1])
	}
	if !slices.Contains(faults, "DATABASE_URL") {
		t.Fatalf("%v does not ask for a database:\n%s", args, out)
	}
	return slices.DeleteFunc(faults, func(name string) bool { return name == "DATABASE_URL" })
}

// settings are the variables that the configuration knows.
func settings(t *testing.T) []string {
	t.Helper()
	var names []string
	for _, match := range regexp.MustCompile(`env:"([A-Z_]+)"`).FindAllStringSubmatch(read(t, "cmd/paidonce/config.go"), -1) {
		names = append(names, match[1])
	}
	if len(names) < 10 {
		t.Fatalf("found %d settings in config.go", len(names))
	}
	return names
}

func goVersion(t *testing.T) string {
	t.Helper()
	match := regexp.MustCompile(`(?m)^go (\S+)$`).FindStringSubmatch(read(t, "go.mod"))
	if match == nil {
		t.Fatal("go.mod names no Go version")
	}
	return match[1]
}

func read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(tree, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func sum(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	digest := sha256.Sum256(content)
	return hex.EncodeToString(digest[:])
}

// command runs a program to its end, and returns what it printed.
func command(t *testing.T, dir string, env []string, name string, args ...string) []byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
	return out
}
