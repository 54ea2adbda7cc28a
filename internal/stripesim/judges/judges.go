//go:build unix

// Package judges runs Stripe's own programs against the simulated Stripe: the Stripe CLI and the stripe package for
// Node.js. Nobody here wrote them, so what they accept is worth more than what our own tests accept. Only tests use it.
//
// It installs both from npm, once and at fixed versions, into the user's cache. A test that needs them fails where they
// cannot be had, and says what is missing; with PAIDONCE_SKIP_JUDGES=1 it is skipped, and says that.
package judges

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// The versions. stripe 16.12.0 is the last that is pinned to API version 2024-06-20.
const (
	CLIVersion  = "1.52.0"
	NodeVersion = "16.12.0"
)

const manifest = `{
  "name": "paidonce-judges",
  "private": true,
  "dependencies": {"@stripe/cli": "` + CLIVersion + `", "stripe": "` + NodeVersion + `"}
}
`

// Test is what is needed of a *testing.T.
type Test interface {
	Helper()
	Cleanup(func())
	Context() context.Context
	TempDir() string
	Skip(args ...any)
	Fatalf(format string, args ...any)
}

// CLI runs the Stripe CLI with args and the environment variables given, and returns what it printed.
func CLI(t Test, env []string, args ...string) (output string, err error) {
	t.Helper()
	home := t.TempDir() // its settings, and no account of the user's
	env = append([]string{"HOME=" + home, "XDG_CONFIG_HOME=" + home, "STRIPE_CLI_TELEMETRY_OPTOUT=1"}, env...)
	shim := filepath.Join(install(t), "node_modules", "@stripe", "cli", "bin", "shim.js")
	return run(t, env, append([]string{shim}, args...)...)
}

// Node runs a script of ours, a module that imports "stripe", and returns what it printed.
func Node(t Test, script string, env ...string) (output string, err error) {
	t.Helper()
	dir := install(t)
	// A module finds packages beside itself, so the script is put beside them, under a name of this test's own.
	source, err := os.ReadFile(script) //nolint:gosec // the test names its own file
	if err != nil {
		return "", err
	}
	f, err := os.CreateTemp(dir, "judge-*.mjs")
	if err != nil {
		return "", err
	}
	t.Cleanup(func() { _ = os.Remove(f.Name()) })
	if _, err := f.Write(source); err != nil {
		return "", err
	}
	if err := f.Close(); err != nil {
		return "", err
	}
	return run(t, env, f.Name())
}

func run(t Test, env []string, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", args...) //nolint:gosec // arguments of tests
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// install returns the directory with both packages. The first test to come installs them; others wait for it.
func install(t Test) string {
	t.Helper()
	if os.Getenv("PAIDONCE_SKIP_JUDGES") == "1" {
		t.Skip("skipped by PAIDONCE_SKIP_JUDGES=1: the Stripe CLI and the stripe package for Node.js have judged nothing")
	}
	dir, err := installed(t.Context())
	if err != nil {
		t.Fatalf("The Stripe CLI and the stripe package for Node.js are needed to judge the simulated Stripe: %v.\n"+
			"Install Node.js with npm and let it reach its registry, or set PAIDONCE_SKIP_JUDGES=1 to go without.", err)
	}
	return dir
}

func installed(ctx context.Context) (string, error) {
	for _, program := range []string{"node", "npm"} {
		if _, err := exec.LookPath(program); err != nil {
			return "", fmt.Errorf("%s is missing", program)
		}
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "paidonce-judges")
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return "", err
	}
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600) //nolint:gosec // below the cache
	if err != nil {
		return "", err
	}
	defer func() { _ = lock.Close() }() // gives the lock back
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", fmt.Errorf("locking %s: %w", lock.Name(), err)
	}

	// The file that says what is there is written last: an installation that was cut short is begun anew.
	done := filepath.Join(dir, "installed.json")
	if have, err := os.ReadFile(done); err == nil && string(have) == manifest { //nolint:gosec // below the cache
		return dir, nil
	}
	if err := os.WriteFile(filepath.Join(dir, "package.json"), []byte(manifest), 0o600); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--no-package-lock")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", errors.Join(fmt.Errorf("npm install in %s: %w", dir, err), errors.New(string(out)))
	}
	return dir, os.WriteFile(done, []byte(manifest), 0o600)
}
