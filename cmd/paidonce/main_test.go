package main

import (
	"bytes"
	"os"
	"testing"

	"paidonce/internal/devpg/devpgtest"
)

// asMain makes a child of the test binary be paidonce itself: real processes, that can be
// killed, without building a second binary.
const asMain = "PAIDONCE_TEST_AS_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(asMain) != "" {
		main()
		return
	}
	if err := os.Setenv(asMain, "1"); err != nil { // for the children, which inherit it
		panic(err)
	}
	os.Exit(devpgtest.Run(m))
}

// command runs one command in this process.
func command(t *testing.T, env map[string]string, stdin string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(t.Context(), args, func(name string) string { return env[name] }, bytes.NewBufferString(stdin), &out, &errs)
	return code, out.String(), errs.String()
}
