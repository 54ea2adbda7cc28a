package main

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"paidonce/internal/devpg/devpgtest"
	"paidonce/internal/stripesim"
	"paidonce/licenses"
)

func claimsForTest(t *testing.T) licenses.Claims {
	t.Helper()
	return licenses.Claims{OrderID: uuid.New(), LineID: uuid.New(), Ordinal: 1, SKU: "KEY-1"}
}

// The demo is a promise that anybody can check; so is its exit status.
func TestDemo_HoldsItsGuarantees(t *testing.T) {
	t.Parallel()
	code, out, errs := command(t, nil, "", "demo", "--exit")
	if code != 0 || !strings.HasSuffix(out, "Every guarantee held.\n") || strings.Contains(out, "FAIL") {
		t.Errorf("demo --exit = %d\n%s%s", code, out, errs)
	}
	for _, invariant := range []string{"I1", "I2", "I3", "I4", "I5", "I6", "I7", "I10"} {
		if !strings.Contains(out, " "+invariant+" ") {
			t.Errorf("the demo shows no %s:\n%s", invariant, out)
		}
	}
}

// The demo sells things. It does so in an empty database, and in nobody else's.
func TestDemo_KeepsOutOfADatabaseInUse(t *testing.T) {
	t.Parallel()
	code, out, errs := command(t, map[string]string{"DATABASE_URL": devpgtest.New(t)}, "", "demo", "--exit")
	if code != 1 || !strings.Contains(errs, "in use") {
		t.Errorf("demo on a database in use = %d\n%s%s, want it refused", code, out, errs)
	}
	code, out, errs = command(t, map[string]string{"DATABASE_URL": devpgtest.NewEmpty(t)}, "", "demo", "--exit")
	if code != 0 {
		t.Errorf("demo on an empty database = %d\n%s%s", code, out, errs)
	}
}

// The main job, with every process real: an order over HTTP, paid, its events delivered by
// the simulated Stripe over HTTP, and nothing more after all of them arrive again.
func TestServe_APaidOrderIsFulfilledOnce(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.web()
	s.start("work")
	order := s.order()
	paid := s.pay(order)
	s.settled(order)
	if diff := cmp.Diff(fulfilledOnce(), s.outcome(order)); diff != "" {
		t.Fatalf("order %s (-want +got):\n%s", order, diff)
	}

	for _, event := range paid.Events {
		if err := s.sim.Deliver(event.ID); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.sim.Idle(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.settled(order)
	if diff := cmp.Diff(fulfilledOnce(), s.outcome(order)); diff != "" {
		t.Errorf("order %s after every event came again (-want +got):\n%s", order, diff)
	}
}

// B07: one event, handled by several processes at once. Twenty posts at the same moment, ten
// to each of two web processes, with two worker processes draining.
func TestB07_OneEventAtSeveralProcesses(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.web()
	other := *s
	other.addr = freeAddr(t)
	other.env = append(append([]string(nil), s.env...), "ADDR="+other.addr)
	other.web()
	s.start("work")
	s.start("work")

	rounds := 10
	if testing.Short() {
		rounds = 3
	}
	for round := range rounds {
		order := s.order()
		paid, err := s.sim.Pay(s.session(order), stripesim.PayOptions{Hold: true})
		if err != nil {
			t.Fatal(err)
		}
		answers := postAtOnce(t, paid, s.addr, other.addr)
		if answers["200 accepted"] != len(paid.Events) || answers["200 duplicate"] != 19*len(paid.Events) {
			t.Errorf("round %d: answers %v, want each of %d events accepted once and 19 times a duplicate", round, answers, len(paid.Events))
		}
		s.settled(order)
		if diff := cmp.Diff(fulfilledOnce(), s.outcome(order)); diff != "" {
			t.Errorf("round %d: order %s (-want +got):\n%s", round, order, diff)
		}
	}
}

// postAtOnce posts every event twenty times, alternating between the addresses, all at the
// same moment, and counts the answers.
func postAtOnce(t *testing.T, paid stripesim.Payment, addrs ...string) map[string]int {
	t.Helper()
	var (
		barrier = make(chan struct{})
		posting sync.WaitGroup
		mu      sync.Mutex
		answers = map[string]int{}
	)
	for _, event := range paid.Events {
		for i := range 20 {
			posting.Go(func() {
				<-barrier
				answer := postEvent(event, addrs[i%len(addrs)])
				mu.Lock()
				defer mu.Unlock()
				answers[answer]++
			})
		}
	}
	close(barrier)
	posting.Wait()
	return answers
}

func postEvent(e stripesim.Event, addr string) string {
	request, err := http.NewRequest(http.MethodPost, "http://"+addr+"/webhooks/stripe", bytes.NewReader(e.Body))
	if err != nil {
		return err.Error()
	}
	request.Header.Set("Stripe-Signature", stripesim.Sign(e.Body, time.Now(), "whsec_shop"))
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = response.Body.Close() }()
	var body bytes.Buffer
	_, _ = body.ReadFrom(response.Body)
	for _, word := range []string{"accepted", "duplicate"} {
		if strings.Contains(body.String(), `"`+word+`"`) {
			return fmt.Sprintf("%d %s", response.StatusCode, word)
		}
	}
	return fmt.Sprintf("%d %s", response.StatusCode, &body)
}

// A rolling restart: workers and web processes come and go while orders are paid. Nothing is
// lost, nothing is done twice, and no delivery loses an attempt over it.
func TestRestartsUnderLoad(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.web()
	const count = 12
	worker := s.start("work")
	var orders []uuid.UUID
	for i := range count {
		order := s.order()
		orders = append(orders, order)
		s.pay(order)
		if i%3 == 2 {
			next := s.start("work")
			worker.stop()
			worker = next
		}
	}
	for _, order := range orders {
		s.settled(order)
		if diff := cmp.Diff(fulfilledOnce(), s.outcome(order)); diff != "" {
			t.Errorf("order %s (-want +got):\n%s", order, diff)
		}
	}
	if got := s.one(`SELECT max(attempts) FROM webhook_deliveries`); got != "1" {
		t.Errorf("a delivery needed %s attempts, want 1: a graceful stop burns none", got)
	}
}
