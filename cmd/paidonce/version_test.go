package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"paidonce/internal/provider"
	"paidonce/migrations"
)

func TestVersion_SaysWhatTheBinaryIs(t *testing.T) {
	t.Parallel()
	code, out, errs := command(t, nil, "", "version", "--json")
	var got release
	if err := json.Unmarshal([]byte(out), &got); code != 0 || err != nil {
		t.Fatalf("version --json = %d %s%s %v", code, out, errs, err)
	}
	if got.Version == "" || got.Go != runtime.Version() || got.Stripe != provider.APIVersion || got.Schema != migrations.Newest() {
		t.Errorf("version --json: %+v", got)
	}
	_, table, _ := command(t, nil, "", "version")
	for _, word := range []string{got.Version, got.Go, got.Stripe, fmt.Sprint(got.Schema)} {
		if !strings.Contains(table, word) {
			t.Errorf("version does not say %q:\n%s", word, table)
		}
	}
	if code, line, _ := command(t, nil, "", "--version"); code != 0 || !strings.HasPrefix(line, "paidonce "+got.Version) || strings.Count(line, "\n") != 1 {
		t.Errorf("--version = %d %q", code, line)
	}
}

// What the linker was not told is taken from what the toolchain noted.
func TestVersion_FromTheBuildInfo(t *testing.T) {
	t.Parallel()
	noted := func(settings ...string) *debug.BuildInfo {
		build := &debug.BuildInfo{Main: debug.Module{Version: "v1.2.3"}}
		for i := 0; i < len(settings); i += 2 {
			build.Settings = append(build.Settings, debug.BuildSetting{Key: settings[i], Value: settings[i+1]})
		}
		return build
	}
	for _, c := range []struct {
		build *debug.BuildInfo
		want  string
	}{
		{noted(), "paidonce v1.2.3"},
		{noted("vcs.revision", "abc", "vcs.modified", "false"), "paidonce v1.2.3 (abc)"},
		{noted("vcs.revision", "abc", "vcs.modified", "true"), "paidonce v1.2.3 (abc+dirty)"},
		{nil, "paidonce "},
	} {
		if got := releaseOf(c.build).String(); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}

func TestHealth_AsksReadyz(t *testing.T) {
	t.Parallel()
	var asked []string
	answer := http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Method+" "+r.URL.Path)
		w.WriteHeader(answer)
		_, _ = w.Write([]byte(`{"detail":"Not ready: database."}`))
	}))
	defer server.Close()
	addr := map[string]string{"ADDR": strings.TrimPrefix(server.URL, "http://")}

	for _, args := range [][]string{{"health"}, {"health", "--url", server.URL}, {"health", "--url", server.URL + "/"}, {"health", "--url", server.URL + "/healthz"}} {
		if code, out, errs := command(t, addr, "", args...); code != 0 || out != "ready\n" {
			t.Errorf("%v = %d %s%s", args, code, out, errs)
		}
	}
	want := []string{"GET /readyz", "GET /readyz", "GET /readyz", "GET /healthz"}
	if diff := cmp.Diff(want, asked); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}

	answer = http.StatusServiceUnavailable
	if code, out, errs := command(t, addr, "", "health"); code != 1 || out != "" || !strings.Contains(errs, "Not ready: database.") {
		t.Errorf("health of what is not ready = %d %q %q", code, out, errs)
	}
	server.Close()
	if code, _, errs := command(t, addr, "", "health"); code != 1 || errs == "" {
		t.Errorf("health of nobody = %d %q", code, errs)
	}
	for _, bad := range []string{"shop", "ftp://shop.example.com", "http://"} {
		if code, _, errs := command(t, nil, "", "health", "--url", bad); code != 1 || !strings.Contains(errs, "--url") {
			t.Errorf("--url %s = %d %q, want it named", bad, code, errs)
		}
	}
}

// ADDR may say "everywhere", where nobody can be asked.
func TestHealth_OfAProcessThatListensEverywhere(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	_, port, _ := strings.Cut(strings.TrimPrefix(server.URL, "http://"), ":")
	for _, addr := range []string{":" + port, "0.0.0.0:" + port} {
		if code, _, errs := command(t, map[string]string{"ADDR": addr}, "", "health"); code != 0 {
			t.Errorf("ADDR=%s: %d %s", addr, code, errs)
		}
	}
}

// What there is a list of can be completed; a new queue or version appears by itself.
func TestCompletion(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"work", "--queue", ""}, "fulfill_order\n"},
		{[]string{"sim", "--event-version", ""}, provider.APIVersion + "\n"},
		{[]string{"products", "import", ""}, "json\ncsv\n:8"},
		{[]string{"stripe", ""}, "setup\t"},
	} {
		code, out, errs := command(t, nil, "", append([]string{"__complete"}, c.args...)...)
		if code != 0 || !strings.Contains(out, c.want) {
			t.Errorf("%v completes to\n%s%s, want %q among it", c.args, out, errs, c.want)
		}
	}
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if code, out, _ := command(t, nil, "", "completion", shell); code != 0 || !strings.Contains(out, "paidonce") {
			t.Errorf("completion %s = %d", shell, code)
		}
	}
}
