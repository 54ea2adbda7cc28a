package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"paidonce/internal/database"
	"paidonce/internal/devpg"
	"paidonce/internal/devpg/devpgtest"
	"paidonce/internal/stripesim"
)

const livePage = repo + "/docs/going-live.md"

// The page's own commands bring a database with a fulfilled order into another one. There,
// everything is migrated, the event that Stripe sends again is a repeat, and nothing is
// fulfilled, told or mailed a second time.
func TestGoingLive_BackupAndRestore(t *testing.T) {
	t.Parallel()
	tools := clientPrograms(t)
	s := newShop(t)
	s.web()
	s.start("work")
	order := s.order()
	paid := s.pay(order)
	s.settled(order)
	before := s.outcome(order)
	if diff := cmp.Diff(fulfilledOnce(), before); diff != "" {
		t.Fatalf("order %s (-want +got):\n%s", order, diff)
	}

	restored := devpgtest.NewEmpty(t)
	script := "set -euo pipefail\npaidonce() { " + os.Args[0] + " \"$@\"; }\n"
	for _, block := range blocks(read(t, livePage), "sh") {
		script += block
	}
	shell := exec.CommandContext(t.Context(), "bash", "-c", script)
	shell.Dir = t.TempDir()
	shell.Env = append(os.Environ(), "DATABASE_URL="+s.dsn, "RESTORED_URL="+restored, "PATH="+tools+":"+os.Getenv("PATH"))
	out, err := shell.CombinedOutput()
	if err != nil || strings.Contains(string(out), "pending") || !strings.Contains(string(out), "applied") {
		t.Fatalf("the commands of docs/going-live.md: %v\n%s", err, out)
	}

	second := *s
	second.dsn, second.addr = restored, freeAddr(t)
	second.env = append(append([]string(nil), s.env...), "ADDR="+second.addr)
	if second.db, err = database.Open(t.Context(), restored, database.Options{MaxConns: 4}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(second.db.Close)
	second.web()
	second.start("work")
	for _, event := range paid.Events {
		if got := postEvent(event, second.addr); got != "200 duplicate" {
			t.Errorf("%s again, after the restore: %s, want 200 duplicate", event.Type, got)
		}
	}

	// The drainers and workers of the restored database get something to do, so that what
	// they would do wrongly has been done when it is done.
	body := []byte(`{"id":"evt_after_restore","object":"event","type":"charge.updated","created":1740830400,"livemode":false,"data":{"object":{"id":"ch_1"}}}`)
	if got := postSigned(t, second.addr, body, stripesim.Sign(body, time.Now(), "whsec_shop")); got != 200 {
		t.Fatalf("a new event after the restore: %d", got)
	}
	second.settled(order)
	if diff := cmp.Diff(before, second.outcome(order)); diff != "" {
		t.Errorf("order %s before the dump and after the restore (-before +after):\n%s", order, diff)
	}
}

// The questions of the page are questions to this schema, and a healthy database answers
// every one of them with nothing.
func TestGoingLive_WhatToWatch(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.web()
	s.start("work")
	order := s.order()
	s.pay(order)
	s.settled(order)
	questions := strings.Split(strings.Join(blocks(read(t, livePage), "sql"), "\n"), ";")
	asked := 0
	for _, question := range questions {
		if !strings.Contains(question, "SELECT") {
			continue
		}
		asked++
		if n := s.one("SELECT count(*) FROM (" + question + ") AS found"); n != "0" {
			t.Errorf("%s\nfound %s in a healthy shop", question, n)
		}
	}
	if asked < 6 {
		t.Errorf("asked %d questions", asked)
	}
	s.exec(`UPDATE orders SET state = 'paid', paid_at = now() - interval '1 hour' WHERE id = '` + order.String() + `'`)
	found := 0
	for _, question := range questions {
		if strings.Contains(question, "FROM orders") && s.one("SELECT count(*) FROM ("+question+") AS found") != "0" {
			found++
		}
	}
	if found != 1 {
		t.Errorf("an order that is paid and not fulfilled is found by %d questions, want 1", found)
	}
}

// clientPrograms is the folder of pg_dump and pg_restore: on the PATH, or beside the server's.
func clientPrograms(t *testing.T) string {
	t.Helper()
	if path, err := exec.LookPath("pg_dump"); err == nil {
		return filepath.Dir(path)
	}
	if dir, err := devpg.FindBinaries(os.Getenv); err == nil {
		if _, err := os.Stat(filepath.Join(dir, "pg_dump")); err == nil {
			return dir
		}
	}
	t.Skip("no pg_dump here: a server alone cannot back up")
	return ""
}
