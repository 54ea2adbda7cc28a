//go:build unix

package devpg

import (
	"os"
	"path/filepath"
	"testing"
)

// binary passes for a compiled program: not a script.
const binary = "\x7fELF"

func TestFindBinaries(t *testing.T) {
	t.Parallel()
	root, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	at := func(parts ...string) string { return filepath.Join(append([]string{root}, parts...)...) }
	for _, dir := range []string{"named", "system/9.6/bin", "system/9/bin", "system/15/bin", "brew/postgresql/bin", "brew/postgresql@9/bin", "brew/postgresql@14/bin"} {
		program(t, at(dir, "initdb"), binary)
		program(t, at(dir, "postgres"), binary)
	}
	program(t, at("system/16/bin/postgres"), binary) // a client package without a server's initdb
	program(t, at("half/postgres"), binary)
	program(t, at("wrapped/postgres"), "#!/bin/sh\n")
	program(t, at("wrapped/initdb"), "#!/bin/sh\n")
	must(t, os.Mkdir(at("links"), 0o755))
	must(t, os.Symlink(at("system/9.6/bin/postgres"), at("links/postgres")))
	must(t, os.WriteFile(at("named/notes"), nil, 0o644))

	system, brew := at("system/*/bin"), at("brew/postgresql*/bin")
	for name, test := range map[string]struct {
		env      map[string]string
		patterns []string
		want     string // "": an error
	}{
		"Named":             {map[string]string{binEnv: at("named"), "PATH": at("links")}, []string{system}, at("named")},
		"NamedButHalf":      {map[string]string{binEnv: at("half"), "PATH": at("named")}, []string{system}, ""},
		"NamedButNoFolder":  {map[string]string{binEnv: at("named/notes")}, []string{system}, ""},
		"NamedWrapper":      {map[string]string{binEnv: at("wrapped")}, nil, at("wrapped")},
		"PathIsFollowed":    {map[string]string{"PATH": at("none") + ":" + at("links")}, []string{system}, at("system/9.6/bin")},
		"PathWithoutInitdb": {map[string]string{"PATH": at("half") + ":" + at("named")}, []string{system}, at("named")},
		"PathWrapper":       {map[string]string{"PATH": at("wrapped")}, []string{system}, at("system/15/bin")},
		"NewestAsNumbers":   {nil, []string{system, brew}, at("system/15/bin")},
		"NewestOfHomebrew":  {nil, []string{at("absent/*/bin"), brew}, at("brew/postgresql@14/bin")},
		"None":              {map[string]string{"PATH": at("half")}, []string{at("absent/*/bin")}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := findBinaries(func(name string) string { return test.env[name] }, test.patterns)
			if got != test.want || (err != nil) != (test.want == "") {
				t.Errorf("got %q, %v; want %q", got, err, test.want)
			}
		})
	}
}
