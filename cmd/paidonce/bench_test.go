package main

import (
	"encoding/json"
	"os"
	"testing"
)

// The bench measures what it says it does: every object is looked at, what was missed is
// healed by the first run, and the second finds nothing.
func TestBenchReconcile(t *testing.T) {
	t.Parallel()
	env := map[string]string{}
	for _, name := range []string{"PATH", "TMPDIR", "HOME", "XDG_CACHE_HOME", "PAIDONCE_PG_BIN"} {
		env[name] = os.Getenv(name)
	}
	code, out, errs := command(t, env, "", "bench", "reconcile", "--objects", "500", "--json")
	var results []benchResult
	if err := json.Unmarshal([]byte(out), &results); err != nil || code != 0 || len(results) != 1 {
		t.Fatalf("bench = %d %v\n%s%s", code, err, out, errs)
	}
	// Of the order that was missed, the session is one of the 500, and so are its three events.
	r := results[0]
	if r.Orders != 100 || r.Healing.Objects != 500 || r.Clean.Objects != 500 || r.Healing.Healed != 3 || r.Clean.Healed != 0 {
		t.Errorf("result %+v", r)
	}
	for _, run := range []benchRun{r.Healing, r.Clean} {
		if run.PeakHeapBytes == 0 || run.PerSecond <= 0 || run.Requests == 0 || run.ProviderSeconds <= 0 || run.ProviderSeconds >= run.Seconds {
			t.Errorf("run %+v, want everything measured", run)
		}
	}
	for _, bad := range []string{"0", "-5", "many", ""} {
		if code, _, errs := command(t, env, "", "bench", "reconcile", "--objects", bad); code == 0 || errs == "" {
			t.Errorf("--objects %q = %d", bad, code)
		}
	}
}
