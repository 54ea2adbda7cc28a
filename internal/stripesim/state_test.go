package stripesim

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestState: what one Sim was told another knows, to the byte, and goes on from there.
func TestState(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "stripe.json")
	var answer atomic.Int64
	answer.Store(500)
	rec := newReceiver(t, func(int) int { return int(answer.Load()) })
	config := Config{
		State: file, Webhooks: []Endpoint{{URL: rec.url, Secrets: []string{secret}, Types: []string{"charge.dispute.created"}}},
		RetrySchedule: []time.Duration{time.Hour},
	}
	one := open(t, config)
	first := one.do(t, "POST", sessionsPath, form("allow_promotion_codes=true"), "Idempotency-Key", "k")
	id, _ := dig(t, first.body, "id").(string)
	made := one.do(t, "POST", "/v1/coupons", "percent_off=12.5&id=TWELVE")
	one.do(t, "POST", "/v1/promotion_codes", "coupon=TWELVE&code=SPRING")
	hook := one.do(t, "POST", "/v1/webhook_endpoints", "url=https://a.example/&enabled_events[]=product.created")
	late := one.create(t)
	p := one.pay(t, late.ID, PayOptions{Delayed: true})
	if _, err := one.sim.Decline(id); err != nil {
		t.Fatal(err)
	}
	card := one.pay(t, one.create(t).ID, PayOptions{})
	refundID, _, err := one.sim.Refund(card.ChargeID, 100, "pending")
	if err != nil {
		t.Fatal(err)
	}
	disputeID, _, err := one.sim.OpenDispute(card.ChargeID, 0, "")
	if err != nil {
		t.Fatal(err)
	}
	one.sim.Advance(time.Hour)
	eventually(t, func() bool { return len(one.sim.Attempts()) == 1 }) // and now it waits an hour for the next
	one.sim.Close()

	answer.Store(200)
	two := open(t, config)
	if got := len(two.sim.Events()); got != len(one.sim.Events()) {
		t.Errorf("%d events, want %d", got, len(one.sim.Events()))
	}
	for i, e := range two.sim.Events() {
		if want := one.sim.Events()[i]; e.ID != want.ID || !bytes.Equal(e.Body, want.Body) {
			t.Errorf("event %s differs", want.ID)
		}
	}
	for _, look := range []func(*Sim) ([]byte, bool){
		func(s *Sim) ([]byte, bool) { return s.Session(id) },
		func(s *Sim) ([]byte, bool) { return s.Session(late.ID) },
		func(s *Sim) ([]byte, bool) { return s.PaymentIntent(p.PaymentIntentID) },
		func(s *Sim) ([]byte, bool) { return s.Charge(card.ChargeID) },
		func(s *Sim) ([]byte, bool) { return s.RefundObject(refundID) },
		func(s *Sim) ([]byte, bool) { return s.Dispute(disputeID) },
	} {
		was, _ := look(one.sim)
		is, ok := look(two.sim)
		if diff := cmp.Diff(string(was), string(is)); !ok || diff != "" {
			t.Errorf("object differs (-before +after):\n%s", diff)
		}
	}
	if now := two.sim.Now(); now.Before(time.Now().Add(59 * time.Minute)) {
		t.Errorf("the clock is back at %s", now)
	}
	two.idle(t) // the delivery that was waiting has been made
	if got := rec.deliveries(); len(got) != 2 || got[1].kind != "charge.dispute.created" || !bytes.Equal(got[0].body, got[1].body) {
		t.Errorf("%d deliveries", len(got))
	}

	// It goes on: the key replays, the buyer pays with the code, the bank answers, the endpoint is there.
	again := two.do(t, "POST", sessionsPath, form("allow_promotion_codes=true"), "Idempotency-Key", "k")
	if again.header.Get("Idempotent-Replayed") != "true" || !bytes.Equal(again.body, first.body) {
		t.Errorf("key after a restart: %d %s", again.status, again.body)
	}
	two.pay(t, id, PayOptions{PromotionCode: "spring"})
	if _, err := two.sim.SettleDelayed(late.ID, true); err != nil {
		t.Error(err)
	}
	if _, err := two.sim.FailRefund(refundID); err != nil {
		t.Error(err)
	}
	if r := two.do(t, "GET", "/v1/coupons/TWELVE", ""); dig(t, r.body, "times_redeemed") == dig(t, made.body, "times_redeemed") {
		t.Errorf("coupon %s", r.body)
	}
	hookID, _ := dig(t, hook.body, "id").(string)
	if r := two.do(t, "GET", "/v1/webhook_endpoints/"+hookID, ""); r.status != 200 || dig(t, r.body, "secret") != nil {
		t.Errorf("endpoint %s", r.body)
	}
}

func open(t *testing.T, c Config) bundle {
	t.Helper()
	sim, err := Open(c)
	if err != nil {
		t.Fatal(err)
	}
	return serve(t, sim)
}

func TestStateRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, content := range map[string]string{"torn": `{"Version": 1,`, "newer": `{"Version": 2}`} {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(Config{State: file}); !errors.Is(err, ErrState) {
			t.Errorf("%s: %v", name, err)
		}
		if err := Serve(t.Context(), "127.0.0.1:0", Config{State: file}, io.Discard); !errors.Is(err, ErrState) {
			t.Errorf("%s served: %v", name, err)
		}
		if b, _ := os.ReadFile(file); string(b) != content {
			t.Errorf("%s was overwritten", name)
		}
	}
	if _, err := Open(Config{State: filepath.Join(dir, "none", "file")}); !errors.Is(err, ErrState) {
		t.Errorf("no directory: %v", err)
	}
}
