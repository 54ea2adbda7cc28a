//go:build unix

package provider_test

// Real here: stripe-mock, Stripe's own program, which holds every request against Stripe's
// OpenAPI. It keeps no state and answers with fixtures: what it judges is the shape of what
// this package sends.

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"paidonce/internal/money"
	"paidonce/internal/provider"
)

// stripeMock is the judge's version; its OpenAPI is of this release.
const stripeMock = "github.com/stripe/stripe-mock@v0.203.0"

// TestStripeMock_TakesEveryRequest: every kind of request that this package sends, through
// the client that sends it.
func TestStripeMock_TakesEveryRequest(t *testing.T) {
	t.Parallel()
	mock := startStripeMock(t)
	d := openDesk(t, 0)
	d.Stripe = provider.NewStripe(provider.StripeConfig{Key: secretKey, Base: mock})

	simple := checkout()
	simple.Items = simple.Items[:1]
	free, yen, many := checkout(), checkout(), checkout()
	free.Items = []provider.CheckoutItem{{Name: "Gift", Quantity: 1, Unit: money.Amount{Minor: 0, Currency: "usd"}}}
	yen.Items = []provider.CheckoutItem{{Name: "鍵", Quantity: 1000, Unit: money.Amount{Minor: 99, Currency: "jpy"}}}
	many.Items = nil
	for i := range 100 {
		many.Items = append(many.Items, provider.CheckoutItem{Name: fmt.Sprint("Key ", i), Quantity: i + 1, Unit: money.Amount{Minor: 1, Currency: "eur"}})
	}
	calls := map[string]provider.Call{
		"one line": simple.Call(), "two lines": checkout().Call(), "free": free.Call(), "yen": yen.Call(), "100 lines": many.Call(),
	}
	for _, licenses := range []int{0, 1, 1000} {
		request := provider.FulfillRequest{OrderID: uuid.Must(uuid.NewV7()), PaymentIntentID: "pi_1"}
		for range licenses {
			request.LicenseIDs = append(request.LicenseIDs, uuid.Must(uuid.NewV7()))
		}
		calls[fmt.Sprint(licenses, " licenses")] = request.Call()
	}
	part := money.Amount{Minor: 500, Currency: "usd"}
	for name, amount := range map[string]*money.Amount{"a refund of all": nil, "a refund of a part": &part} {
		request := provider.RefundRequest{DecisionID: uuid.Must(uuid.NewV7()), OrderID: uuid.Must(uuid.NewV7()), PaymentIntentID: "pi_1", Amount: amount}
		call, err := request.Call()
		must(t, err)
		calls[name] = call
	}
	calls["an expiry"] = provider.ExpireRequest{PaymentID: uuid.Must(uuid.NewV7()), SessionID: "cs_1"}.Call()
	for name, call := range calls {
		key := d.intend(call)
		if err := d.perform(key); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		d.wantState(name, key, provider.CallSent)
	}

	if _, err := d.Stripe.ReadPayment(t.Context(), "cs_1"); err != nil {
		t.Errorf("reading a session with its intent: %v", err)
	}

	// Looking: the list of sessions in a window, the object of an update, and the refunds of an intent.
	refund, err := provider.RefundRequest{DecisionID: uuid.Must(uuid.NewV7()), PaymentIntentID: "pi_1"}.Call()
	must(t, err)
	for name, call := range map[string]provider.Call{
		"a checkout": checkout().Call(), "a notice": provider.FulfillRequest{OrderID: uuid.Must(uuid.NewV7()), PaymentIntentID: "pi_1"}.Call(),
		"a refund": refund,
	} {
		key := d.intend(call)
		d.age(key, aDay)
		if err := d.perform(key); !errors.Is(err, provider.ErrKeyTooOld) || strings.Contains(err.Error(), "looking") {
			t.Errorf("looking for %s: got %v, want nothing found", name, err)
		}
	}

	// And the judge is awake: it does not take just anything.
	bad := checkout().Call()
	bad.Params = append(bad.Params, "&no_such_parameter=1"...)
	if err := d.perform(d.intend(bad)); !errors.Is(err, provider.ErrRefused) {
		t.Errorf("an unknown parameter: got %v, want it refused", err)
	}
	bad = checkout().Call()
	bad.Params = bytes.ReplaceAll(bad.Params, []byte("[quantity]=2"), []byte("[quantity]=two"))
	if err := d.perform(d.intend(bad)); !errors.Is(err, provider.ErrRefused) {
		t.Errorf("a quantity in words: got %v, want it refused", err)
	}
}

// startStripeMock starts the judge on a port of its own, and returns where it is.
func startStripeMock(t *testing.T) string {
	t.Helper()
	if os.Getenv("PAIDONCE_SKIP_JUDGES") == "1" {
		t.Skip("skipped by PAIDONCE_SKIP_JUDGES=1: stripe-mock has judged nothing")
	}
	program, err := installStripeMock(t.Context())
	if err != nil {
		t.Fatalf("stripe-mock is needed to judge the requests of this package: %v.\n"+
			"Let go install reach the module proxy, or set PAIDONCE_SKIP_JUDGES=1 to go without.", err)
	}
	// The port is free now, and might be taken by the time it is listened on: then another.
	for range 3 {
		if url, ok := tryStripeMock(t, program); ok {
			return url
		}
	}
	t.Fatal("stripe-mock does not answer")
	return ""
}

func tryStripeMock(t *testing.T, program string) (url string, ok bool) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	addr := listener.Addr().String()
	must(t, listener.Close())
	_, port, err := net.SplitHostPort(addr)
	must(t, err)

	mock := exec.CommandContext(t.Context(), program, "-http-port", port)
	said := &bytes.Buffer{}
	mock.Stdout, mock.Stderr = said, said
	must(t, mock.Start())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = mock.Wait() }()
	t.Cleanup(func() { _ = mock.Process.Kill(); <-ended })

	// It reads 8 MB of OpenAPI first: seconds on a busy machine.
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); {
		select {
		case <-ended:
			t.Logf("stripe-mock ended: %s", said)
			return "", false
		case <-time.After(20 * time.Millisecond):
		}
		response, err := http.Get("http://" + addr + "/v1/charges")
		if err == nil {
			_ = response.Body.Close()
			return "http://" + addr, true
		}
	}
	return "", false
}

// installStripeMock installs it once into the user's cache; others who come meanwhile wait.
func installStripeMock(ctx context.Context) (program string, err error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	_, version, _ := strings.Cut(stripeMock, "@")
	dir := filepath.Join(cache, "paidonce-judges", "stripe-mock", version)
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return "", err
	}
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return "", err
	}
	defer func() { _ = lock.Close() }() // gives the lock back
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", fmt.Errorf("locking %s: %w", lock.Name(), err)
	}

	// go install puts the program there whole, or not at all.
	program = filepath.Join(dir, "stripe-mock")
	if _, err := os.Stat(program); err == nil {
		return program, nil
	}
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	install := exec.CommandContext(ctx, "go", "install", stripeMock)
	install.Dir = dir // outside of this module
	install.Env = append(os.Environ(), "GOBIN="+dir, "GOFLAGS=", "GOWORK=off")
	if out, err := install.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go install %s: %w\n%s", stripeMock, err, out)
	}
	return program, nil
}
