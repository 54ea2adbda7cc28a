package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"paidonce/fulfillment"
)

// A stop takes a drainer's lease, and then the queue's time. Whoever kills a process sooner
// than that cuts off work that would have ended by itself; it is safe, and it is slow.
func TestDeploy_StopsWaitLongEnough(t *testing.T) {
	t.Parallel()
	needed := fulfillment.DefaultLease + stopTimeout
	for path, pattern := range map[string]string{
		"docs/deploy/paidonce.service": `(?m)^TimeoutStopSec=(\d+)s$`,
		"docs/deploy/kubernetes.yaml":  `(?m)^ +terminationGracePeriodSeconds: (\d+)$`,
		"docker-compose.yml":           `(?m)^ +stop_grace_period: (\d+)s$`,
	} {
		found := regexp.MustCompile(pattern).FindAllStringSubmatch(read(t, repo+"/"+path), -1)
		if len(found) == 0 {
			t.Errorf("%s does not say how long a stop may take", path)
		}
		for _, match := range found {
			if seconds, err := strconv.Atoi(match[1]); err != nil || time.Duration(seconds)*time.Second < needed+10*time.Second {
				t.Errorf("%s waits %s s for a stop that takes up to %s", path, match[1], needed)
			}
		}
	}
}

// The unit is confined, and systemd takes it as it stands, where there is a systemd to ask.
func TestDeploy_SystemdUnit(t *testing.T) {
	t.Parallel()
	unit := read(t, repo+"/docs/deploy/paidonce.service")
	for _, line := range []string{
		"DynamicUser=yes", "ProtectSystem=strict", "NoNewPrivileges=yes", "EnvironmentFile=/etc/paidonce.env", "Restart=always",
		"ExecStart=/usr/local/bin/paidonce serve", "KillSignal=SIGTERM", "CapabilityBoundingSet=",
	} {
		if !strings.Contains(unit, "\n"+line+"\n") {
			t.Errorf("the unit has no line %s", line)
		}
	}
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Log("no systemd-analyze here: the unit was only read")
		return
	}
	path := filepath.Join(t.TempDir(), "paidonce.service")
	here := strings.ReplaceAll(unit, "/usr/local/bin/paidonce", os.Args[0]) // verify looks for the program
	if err := os.WriteFile(path, []byte(here), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(analyze, "verify", path).CombinedOutput(); err != nil || strings.Contains(string(out), "paidonce.service") {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
}
