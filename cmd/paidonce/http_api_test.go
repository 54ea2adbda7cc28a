package main

import (
	"encoding/json"
	"maps"
	"net/http"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/google/go-cmp/cmp"

	"paidonce/internal/devpg/devpgtest"
)

const httpPage = repo + "/docs/http-api.md"

// blocks are the code blocks of a page in one language.
func blocks(page, language string) []string {
	var found []string
	for _, match := range regexp.MustCompile("(?ms)^```"+language+"\n(.*?)^```$").FindAllStringSubmatch(page, -1) {
		found = append(found, match[1])
	}
	return found
}

// Every route is described, and nothing is that is no route. What any method reaches is
// described under POST, and refuses the others.
func TestHTTPAPIPage_HasEveryRoute(t *testing.T) {
	t.Parallel()
	env := complete()
	env["DATABASE_URL"], env["METRICS_TOKEN"] = devpgtest.New(t), strings.Repeat("m", 32)
	cfg, err := load(env, everything())
	if err != nil {
		t.Fatal(err)
	}
	a, err := newApp(t.Context(), cfg, newLog(t.Output()), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.db.Close)
	methods := map[string][]string{}
	for _, route := range a.router().(*gin.Engine).Routes() {
		path := regexp.MustCompile(`:(\w+)`).ReplaceAllString(strings.TrimSuffix(route.Path, "/"), "{$1}")
		if !slices.Contains(methods[path], route.Method) {
			methods[path] = append(methods[path], route.Method)
		}
	}
	var want []string
	for path, all := range methods {
		if len(all) > 5 {
			all = []string{http.MethodPost}
		}
		for _, method := range all {
			want = append(want, method+" "+path)
		}
	}
	slices.Sort(want)
	var got []string
	for _, match := range regexp.MustCompile(`(?m)^### ([A-Z]+ /\S*)$`).FindAllStringSubmatch(read(t, httpPage), -1) {
		got = append(got, match[1])
	}
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("routes of the router and headings of docs/http-api.md differ (-router +page):\n%s", diff)
	}
}

// A code is what programs switch on: each in the source is on the page, and the other way round.
func TestHTTPAPIPage_HasEveryCode(t *testing.T) {
	t.Parallel()
	inCode := map[string]bool{}
	for _, file := range goFiles(t, func(name string) bool { return !strings.HasSuffix(name, "_test.go") }) {
		if !strings.Contains(file, "/internal/web/") && !strings.Contains(file, "/webhooks/") {
			continue
		}
		for _, match := range regexp.MustCompile(`\bCode(?::|, p\.Detail =) "([A-Z][A-Z_]+)"`).FindAllStringSubmatch(read(t, file), -1) {
			inCode[match[1]] = true
		}
	}
	settings := map[string]bool{"WEBHOOK_MAX_BODY_BYTES": true, "METRICS_TOKEN": true}
	onPage := map[string]bool{}
	for _, match := range regexp.MustCompile("`([A-Z]{2,}(?:_[A-Z]+)*)`").FindAllStringSubmatch(read(t, httpPage), -1) {
		if !settings[match[1]] {
			onPage[match[1]] = true
		}
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(inCode)), slices.Sorted(maps.Keys(onPage))); diff != "" {
		t.Errorf("codes of the source and of docs/http-api.md differ (-source +page):\n%s", diff)
	}
}

// The page's commands, one after the other, against running processes and the simulated
// Stripe; and what they print has the fields that the page shows.
func TestHTTPAPIPage_CommandsWork(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.web()
	s.start("work")
	page := read(t, httpPage)
	commands := blocks(page, "sh")
	script := "set -euo pipefail\n"
	for _, block := range commands {
		script += block + "echo; echo ----\n"
	}
	script = strings.NewReplacer("http://127.0.0.1:8080", "http://"+s.addr, "whsec_sim", "whsec_shop").Replace(script)
	shell := exec.CommandContext(t.Context(), "bash", "-c", script)
	shell.Dir = t.TempDir()
	out, err := shell.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	answers := strings.Split(string(out), "----\n")

	// By block, from the first: what is to be seen in its answer.
	for i, want := range []string{
		"", `"state":"pending"`, `"timeline":[]`, `"checkout_url":"http`, `"state":"fulfilled"`, `{"state":"fulfilled"}`,
		`{"status":"accepted"}`, `{"status":"ready"}`, `"code":"INVALID_FIELD"`,
	} {
		if i >= len(commands) || !strings.Contains(answers[i], want) {
			t.Errorf("block %d answers\n%s, want %s in it", i, answers[i], want)
		}
	}
	if len(commands) != 9 {
		t.Errorf("%d blocks of commands, of which 9 are looked at", len(commands))
	}

	shown := blocks(page, "json")
	_, fulfilled, _ := strings.Cut(answers[4], `{"id":`) // behind what the simulated Stripe answers
	fulfilled = `{"id":` + fulfilled
	for i, answer := range map[int]string{0: answers[1], 1: fulfilled, 2: answers[8]} {
		if diff := cmp.Diff(keysOf(t, shown[i]), keysOf(t, answer)); diff != "" {
			t.Errorf("fields of the page and of the answer differ (-page +answer):\n%s", diff)
		}
	}
}

// keysOf are an object's keys, with those of the first object in each of its lists.
func keysOf(t *testing.T, text string) []string {
	t.Helper()
	var object map[string]any
	if err := json.Unmarshal([]byte(text), &object); err != nil {
		t.Fatalf("%v:\n%s", err, text)
	}
	var keys []string
	for key, value := range object {
		keys = append(keys, key)
		if list, ok := value.([]any); ok && len(list) > 0 {
			for inner := range list[0].(map[string]any) {
				keys = append(keys, key+"."+inner)
			}
		}
	}
	slices.Sort(keys)
	return keys
}
