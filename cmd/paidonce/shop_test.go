package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"paidonce/internal/database"
	"paidonce/internal/devpg/devpgtest"
	"paidonce/internal/mailapitest"
	"paidonce/internal/smtptest"
	"paidonce/internal/stripesim"
	"paidonce/licenses"
	"paidonce/orders"
)

// shop is a merchant's whole world. Real: Postgres, and every paidonce process, started as a
// child of the test and killed as by kill -9. Simulated: Stripe and the mail server, which
// run in the test, outlive every crash, and count what reached them. Tests assert only on
// what those two saw and on rows of the database.
type shop struct {
	t    *testing.T
	env  []string
	dsn  string
	addr string // where the web process listens, also after a restart
	db   *database.DB
	sim  *stripesim.Sim
	api  string // where the simulated Stripe is
	mail *smtptest.Server

	mailAPI *mailapitest.Server // nil: mail goes over SMTP
}

// patience bounds every wait of these tests; a busy machine must not fail them.
const patience = 90 * time.Second

func newShop(t *testing.T) *shop {
	t.Helper()
	s := &shop{t: t, dsn: devpgtest.New(t), addr: freeAddr(t), mail: smtptest.New(t, nil)}
	var err error
	if s.db, err = database.Open(t.Context(), s.dsn, database.Options{MaxConns: 4}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.db.Close)

	retries := make([]time.Duration, 60) // as long as a test may take
	for i := range retries {
		retries[i] = 250 * time.Millisecond
	}
	const secret = "whsec_shop"
	s.sim = stripesim.New(stripesim.Config{
		RetrySchedule: retries,
		Webhooks:      []stripesim.Endpoint{{URL: "http://" + s.addr + "/webhooks/stripe", Secrets: []string{secret}}},
	})
	t.Cleanup(s.sim.Close)
	api := httptest.NewServer(s.sim.Handler())
	t.Cleanup(api.Close)
	s.api = api.URL

	key, err := licenses.Generate(bytes.NewReader(bytes.Repeat([]byte{7}, 64)))
	if err != nil {
		t.Fatal(err)
	}
	s.env = append(os.Environ(),
		"ADDR="+s.addr, "APP_SECRET="+strings.Repeat("s", 40),
		"STRIPE_SECRET_KEY=sk_test_shop", "STRIPE_WEBHOOK_SECRETS="+secret, "STRIPE_API_BASE="+api.URL,
		key.EnvLine(), "SMTP_URL="+s.mail.URL(), "MAIL_FROM=Shop <shop@shop.example>", "WORKERS=2", "DB_MAX_CONNS=10",
		"RECONCILE_EVERY=0")
	product := orders.Product{SKU: "KEY-1", Name: "Key", UnitMinor: 1999, Currency: "usd"}
	if err := orders.New(s.db.Gorm).ImportProducts(t.Context(), []orders.Product{product}); err != nil {
		t.Fatal(err)
	}
	return s
}

// throughMailAPI has the processes that are started from now on send through a mail service
// that keeps keys.
func (s *shop) throughMailAPI() {
	s.t.Helper()
	const key = "re_shop"
	s.mailAPI = mailapitest.New(s.t, key)
	s.env = append(s.env, "SMTP_URL=", "MAIL_API_KEY="+key, "MAIL_API_URL="+s.mailAPI.URL)
}

// freeAddr is an address that is free now and stays the test's by convention.
func freeAddr(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().String()
}

// process is a child.
type process struct {
	shop  *shop
	t     *testing.T
	name  string // what its connections are called in Postgres
	cmd   *exec.Cmd
	log   *bytes.Buffer
	ended chan struct{}
}

// start starts a paidonce process; it is stopped gracefully when the test ends.
func (s *shop) start(args ...string) *process {
	s.t.Helper()
	p := &process{
		shop: s, t: s.t, name: "child-" + uuid.NewString(),
		cmd: exec.Command(os.Args[0], args...), log: &bytes.Buffer{}, ended: make(chan struct{}),
	}
	p.cmd.Env = append(slices.Clip(s.env), "DATABASE_URL="+s.dsn+"&application_name="+p.name)
	p.cmd.Stderr = p.log
	if err := p.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	go func() {
		defer close(p.ended)
		_ = p.cmd.Wait()
	}()
	s.t.Cleanup(func() {
		p.stop()
		if s.t.Failed() {
			s.t.Logf("log of %v:\n%s", args, p.log)
		}
	})
	return p
}

// stop ends the process gracefully.
func (p *process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.ended:
	case <-time.After(patience):
		_ = p.cmd.Process.Kill()
		<-p.ended
		p.t.Errorf("a process did not stop when asked to; its log:\n%s", p.log)
	}
}

// dies waits for the process to have been killed.
func (p *process) dies() {
	p.t.Helper()
	select {
	case <-p.ended:
	case <-time.After(patience):
		p.t.Fatalf("the process was to die at its window, and did not; its log:\n%s", p.log)
	}
	if status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
		p.t.Fatalf("the process ended with %v, want by SIGKILL; its log:\n%s", p.cmd.ProcessState, p.log)
	}
	// Its backends outlive it by the statement they are at, and may still commit that.
	p.shop.eventually("the dead process's backends to be gone", func() bool {
		return p.shop.one(`SELECT count(*) FROM pg_stat_activity WHERE application_name = ?`, p.name) == "0"
	})
}

// web starts a web process and waits until it answers.
func (s *shop) web(flags ...string) *process {
	s.t.Helper()
	p := s.start(append([]string{"serve", "--no-workers"}, flags...)...)
	s.eventually("the web process to answer", func() bool {
		response, err := http.Get("http://" + s.addr + "/readyz")
		if err != nil {
			return false
		}
		defer func() { _ = response.Body.Close() }()
		return response.StatusCode == http.StatusOK
	})
	return p
}

// order makes an order of two. A web process that dies while it answers is not an error: the
// order is found in the database.
func (s *shop) order() uuid.UUID {
	s.t.Helper()
	return s.orderUnder(uuid.NewString())
}

// orderUnder makes an order under an Idempotency-Key.
func (s *shop) orderUnder(key string) uuid.UUID {
	s.t.Helper()
	const body = `{"email":"buyer@example.com","items":[{"sku":"KEY-1","quantity":2}]}`
	request, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, "http://"+s.addr+"/orders", strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	request.Header.Set("Idempotency-Key", key)
	response, err := http.DefaultClient.Do(request)
	if err == nil {
		answer, _ := io.ReadAll(response.Body)
		_ = response.Body.Close()
		var created struct{ ID uuid.UUID }
		if err := json.Unmarshal(answer, &created); err != nil || response.StatusCode != http.StatusCreated {
			s.t.Fatalf("making an order: %d %s", response.StatusCode, answer)
		}
		return created.ID
	}
	return s.one("SELECT id::text FROM orders ORDER BY number DESC LIMIT 1").id(s.t)
}

// pay pays the order at the simulated Stripe, which delivers the events until they are taken.
func (s *shop) pay(order uuid.UUID) stripesim.Payment {
	s.t.Helper()
	session := s.session(order)
	paid, err := s.sim.Pay(session, stripesim.PayOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	return paid
}

// payUntold pays the order and delivers none of the events.
func (s *shop) payUntold(order uuid.UUID) {
	s.t.Helper()
	if _, err := s.sim.Pay(s.session(order), stripesim.PayOptions{Hold: true}); err != nil {
		s.t.Fatal(err)
	}
}

// soon is a time after everything that has happened, as a flag.
func (s *shop) soon() string { return time.Now().Add(time.Minute).UTC().Format(time.RFC3339) }

// environment is the configuration of the shop's processes, as a command takes it.
func (s *shop) environment() map[string]string {
	env := map[string]string{}
	for _, pair := range s.env {
		name, value, _ := strings.Cut(pair, "=")
		env[name] = value
	}
	env["DATABASE_URL"] = s.dsn
	return env
}

// reconcile runs a process that does, to its end, and returns its exit status.
func (s *shop) reconcile(flags ...string) (status int, stdout string) {
	s.t.Helper()
	cmd := exec.Command(os.Args[0], append([]string{"reconcile", "--until", s.soon()}, flags...)...)
	cmd.Env = append(slices.Clip(s.env), "DATABASE_URL="+s.dsn)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		s.t.Fatal(err)
	}
	if errs.Len() > 0 {
		s.t.Logf("reconcile said:\n%s", &errs)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

// session waits for the order's checkout to be open, and returns its id.
func (s *shop) session(order uuid.UUID) string {
	s.t.Helper()
	var id value
	s.eventually("the checkout to be open", func() bool {
		id = s.one("SELECT coalesce(max(resource_id), '') FROM payments WHERE order_id = ?", order)
		return id != ""
	})
	return string(id)
}

// value is one value of the database, as text.
type value string

func (v value) id(t *testing.T) uuid.UUID {
	t.Helper()
	id, err := uuid.Parse(string(v))
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// one asks for one value.
func (s *shop) one(query string, args ...any) value {
	s.t.Helper()
	var v any
	if err := s.db.Gorm.WithContext(context.WithoutCancel(s.t.Context())).Raw(query, args...).Row().Scan(&v); err != nil {
		s.t.Fatalf("%s: %v", query, err)
	}
	return value(fmt.Sprint(v))
}

// exec changes rows, as time passing would.
func (s *shop) exec(statement string) {
	s.t.Helper()
	if err := s.db.Gorm.WithContext(s.t.Context()).Exec(statement).Error; err != nil {
		s.t.Fatalf("%s: %v", statement, err)
	}
}

// timePasses lets every lease run out, so that what a dead process left behind may be taken
// over at once instead of in a minute.
func (s *shop) timePasses() {
	s.t.Helper()
	s.exec(`UPDATE webhook_deliveries SET claim_until = now() WHERE claim_until IS NOT NULL`)
	s.exec(`UPDATE provider_calls SET sending_until = now() WHERE state = 'sending'`)
	s.exec(`UPDATE api_requests SET locked_until = now() WHERE status IS NULL`)
	s.exec(`UPDATE sent_receipts SET sending_until = now() WHERE state = 'sending'`)
	s.exec(`UPDATE reconcile_runs SET beat_at = now() - interval '1 hour' WHERE finished_at IS NULL`)
	s.exec(`UPDATE payments SET read_until = now() WHERE read_until IS NOT NULL`)
	s.exec(`UPDATE river_job SET attempted_at = attempted_at - interval '1 hour' WHERE state = 'running'`)
	s.exec(`UPDATE river_job SET scheduled_at = now() WHERE state IN ('scheduled', 'retryable')`)
	s.exec(`DELETE FROM river_leader`)
}

// mailPauses waits until a mail of the order is to be sent once more after a pause, and lets
// the pause be over.
func (s *shop) mailPauses(order uuid.UUID) {
	s.t.Helper()
	pauses := func() bool {
		return s.one(`SELECT count(*) FROM sent_receipts WHERE order_id = ? AND state = 'unknown' AND resend_at > now()`, order) == "1"
	}
	s.eventually("the mail's outcome to be unknown", pauses)
	s.exec(`UPDATE sent_receipts SET resend_at = now() WHERE resend_at > now()`)
	s.eventually("the mail to be sent once more", func() bool {
		s.exec(`UPDATE river_job SET scheduled_at = now() WHERE kind = 'send_receipt' AND state = 'scheduled' AND scheduled_at > now()`)
		return s.one(`SELECT count(*) FROM sent_receipts WHERE order_id = ? AND state = 'unknown' AND resend_at IS NOT NULL`, order) == "0"
	})
}

// eventually polls until ok, or patience ends.
func (s *shop) eventually(what string, ok func() bool) {
	s.t.Helper()
	for deadline := time.Now().Add(patience); !ok(); {
		if time.Now().After(deadline) {
			s.t.Fatalf("waited %s for %s", patience, what)
		}
		time.Sleep(20 * time.Millisecond) // between two looks; nothing is taken to be true after it
	}
}

// settled waits until the order is fulfilled and nothing is open: no delivery, no job.
func (s *shop) settled(order uuid.UUID) {
	s.t.Helper()
	s.t.Cleanup(func() {
		if s.t.Failed() {
			s.t.Logf("open jobs: %s", s.one(`
SELECT coalesce(json_agg(json_build_object('id', id, 'kind', kind, 'state', state, 'attempt', attempt,
    'attempted_at', attempted_at, 'scheduled_at', scheduled_at, 'errors', errors)), '[]')::text
FROM river_job WHERE finalized_at IS NULL`))
		}
	})
	s.eventually("the order to be fulfilled and all work done", func() bool {
		return s.one(`
SELECT (SELECT count(*) FROM orders WHERE id = ? AND state <> 'fulfilled')
     + (SELECT count(*) FROM webhook_deliveries WHERE processed_at IS NULL)
     + (SELECT count(*) FROM river_job WHERE finalized_at IS NULL AND kind <> 'sweep_parked')`, order) == "0"
	})
}

// outcome is what an order has caused, where it can be seen.
type outcome struct {
	Paid, Licenses, Mails, Sessions, Told int
	Receipt                               string // the state of its row
}

func (s *shop) outcome(order uuid.UUID) outcome {
	s.t.Helper()
	count := func(query string) (n int) {
		_, err := fmt.Sscan(string(s.one(query, order)), &n)
		if err != nil {
			s.t.Fatal(err)
		}
		return n
	}
	o := outcome{
		Paid:     count(`SELECT count(*) FROM order_transitions WHERE order_id = ? AND event = 'pay'`),
		Licenses: count(`SELECT count(*) FROM licenses WHERE order_id = ? AND status = 'active'`),
		Receipt:  string(s.one(`SELECT coalesce(max(state), '') FROM sent_receipts WHERE order_id = ?`, order)),
	}
	for _, mail := range s.mail.Mails() {
		if strings.Contains(mail, order.String()) {
			o.Mails++
		}
	}
	if s.mailAPI != nil {
		for _, mail := range s.mailAPI.Mails() {
			if mail.Key == "receipt:"+order.String() {
				o.Mails++
			}
		}
	}
	// What Stripe did, not how often it was asked: a replayed answer did nothing.
	for _, call := range s.sim.Calls() {
		switch {
		case call.Replayed || call.Status != http.StatusOK:
		case strings.HasPrefix(call.IdempotencyKey, "checkout:") && bytes.Contains(call.Body, []byte(order.String())):
			o.Sessions++
		case call.IdempotencyKey == "fulfill:"+order.String():
			o.Told++
		}
	}
	return o
}
