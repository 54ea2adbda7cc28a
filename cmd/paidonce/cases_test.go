package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"paidonce/internal/database"
	"paidonce/internal/devpg/devpgtest"
	"paidonce/internal/stripesim"
	"paidonce/migrations"
)

// B02: a secret is rolled while web processes run. Some know only the old one, some both,
// some only the new one; Stripe signs with both meanwhile. No delivery is refused, and after
// the overlap the old secret opens nothing where it was taken away.
func TestB02_RotationOverTheWire(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	const older, newer = "whsec_shop", "whsec_new"
	knows := map[string][]string{}
	for _, secrets := range [][]string{{older}, {older, newer}, {newer}} {
		web := *s
		web.addr = freeAddr(t)
		web.env = append(slices.Clip(s.env), "ADDR="+web.addr, "STRIPE_WEBHOOK_SECRETS="+strings.Join(secrets, ","))
		web.web()
		knows[web.addr] = secrets
	}
	n := 0
	for _, signed := range [][]string{{older}, {older, newer}, {newer, older}, {newer}, {"whsec_other", newer}, {"whsec_other"}} {
		for addr, secrets := range knows {
			n++
			body := fmt.Appendf(nil, `{"id":"evt_%d","object":"event","type":"charge.updated","created":1740830400,"livemode":false,"data":{"object":{"id":"ch_1"}}}`, n)
			want := http.StatusForbidden
			if slices.ContainsFunc(signed, func(one string) bool { return slices.Contains(secrets, one) }) {
				want = http.StatusOK
			}
			if got := postSigned(t, addr, body, stripesim.Sign(body, time.Now(), signed...)); got != want {
				t.Errorf("signed with %v, where %v are known: %d, want %d", signed, secrets, got, want)
			}
			stored := s.one(`SELECT count(*) FROM webhook_deliveries WHERE event_id = ?`, fmt.Sprint("evt_", n))
			if (stored == "1") != (want == http.StatusOK) {
				t.Errorf("signed with %v, where %v are known: %s rows", signed, secrets, stored)
			}
		}
	}
}

func postSigned(t *testing.T, addr string, body []byte, signature string) int {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+addr+"/webhooks/stripe", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Stripe-Signature", signature)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	return response.StatusCode
}

// B43: five processes start on an empty database at the same moment. All of them come up, and
// each migration is run by one of them.
func TestB43_FiveProcessesOnAnEmptyDatabase(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.dsn = devpgtest.NewEmpty(t)
	var processes []*process
	var addrs []string
	for range 5 {
		one := *s
		one.addr = freeAddr(t)
		one.env = append(slices.Clip(s.env), "ADDR="+one.addr)
		processes, addrs = append(processes, one.start("serve")), append(addrs, one.addr)
	}
	for i, addr := range addrs {
		s.eventually("process "+fmt.Sprint(i)+" to be ready", func() bool {
			select {
			case <-processes[i].ended:
				t.Fatalf("process %d ended:\n%s", i, processes[i].log)
			default:
			}
			response, err := http.Get("http://" + addr + "/readyz")
			if err != nil {
				return false
			}
			_ = response.Body.Close()
			return response.StatusCode == http.StatusOK
		})
	}

	ran := map[int64]int{} // by version: how many processes say that they ran it
	for i, p := range processes {
		p.stop()
		if code := p.cmd.ProcessState.ExitCode(); code != 0 {
			t.Errorf("process %d ended with %d", i, code)
		}
		for line := range bytes.Lines(p.log.Bytes()) {
			var said struct {
				Msg     string
				Version int64
			}
			if json.Unmarshal(line, &said) == nil && said.Msg == "migrated" {
				ran[said.Version]++
			}
		}
	}
	db, err := database.Open(t.Context(), s.dsn, database.Options{MaxConns: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	for version := int64(1); version <= migrations.Newest(); version++ {
		var rows int
		err := db.Pool.QueryRow(t.Context(), `SELECT count(*) FROM goose_db_version WHERE version_id = $1 AND is_applied`, version).Scan(&rows)
		if err != nil || ran[version] != 1 || rows != 1 {
			t.Errorf("version %d was run by %d processes and is noted %d times, %v; want once", version, ran[version], rows, err)
		}
	}
}

// B10: two endpoints of the dashboard point at one URL, so that every event comes twice, under
// two signatures. The key is the event's id in the signed body, so it is one event all the same.
func TestB10_TwoEndpointsAtOneURL(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	secrets := []string{"whsec_shop", "whsec_other"}
	s.env = append(slices.Clip(s.env), "STRIPE_WEBHOOK_SECRETS="+strings.Join(secrets, ","))
	s.web()
	s.start("work")
	order := s.order()
	paid, err := s.sim.Pay(s.session(order), stripesim.PayOptions{Hold: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, event := range paid.Events {
		for _, secret := range secrets {
			if got := postSigned(t, s.addr, event.Body, stripesim.Sign(event.Body, time.Now(), secret)); got != http.StatusOK {
				t.Errorf("%s signed with %s: %d, want 200", event.Type, secret, got)
			}
		}
		if rows := s.one(`SELECT count(*) FROM webhook_deliveries WHERE event_id = ?`, event.ID); rows != "1" {
			t.Errorf("%s: %s rows, want 1", event.Type, rows)
		}
	}
	s.settled(order)
	if diff := cmp.Diff(fulfilledOnce(), s.outcome(order)); diff != "" {
		t.Errorf("order %s (-want +got):\n%s", order, diff)
	}
}
