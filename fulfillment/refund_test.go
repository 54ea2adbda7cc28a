package fulfillment_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"paidonce/internal/provider"
	"paidonce/internal/stripesim"
	"paidonce/licenses"
	"paidonce/orders"
)

func clerk() orders.Person { return orders.Person{Name: "clerk@example.com", Why: "the buyer asked"} }

// refund is the command of a person, decided and sent at once.
func (b *testBundle) refund(t *testing.T, o order, wish orders.RefundWish) []orders.Decided {
	t.Helper()
	all, err := b.service.Refund(t.Context(), o.ID, wish, clerk())
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range all {
		if err := b.service.SendRefund(t.Context(), one.Ruling); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// A person's refund is made once, however often the command is given and whoever sends it; who
// waits for it sees what it came to.
func TestRefund_Once(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, wish := range []orders.RefundWish{{}, {AmountMinor: 500}} {
		o := b.bought(t)
		before := len(b.sim.Refunds())
		state, license, want := orders.Refunded, licenses.StatusRevoked, o.Total
		if wish.AmountMinor > 0 {
			state, license, want = orders.Fulfilled, licenses.StatusActive, wish.AmountMinor
		}
		for i := range 2 {
			all := b.refund(t, o, wish)
			if len(all) != 1 || all[0].Repeat != (i == 1) {
				t.Errorf("order %s, time %d: %+v", o.ID, i+1, all)
			}
			b.wantState(t, o, state)
			b.follows(t, o, license)
			if got := b.refundedMinor(t, o.checkouts[0]); got != want {
				t.Errorf("order %s, time %d: %d refunded, want %d", o.ID, i+1, got, want)
			}
			b.exec(t, `UPDATE river_job SET state = 'available', scheduled_at = now() WHERE kind = 'send_refund' AND state = 'scheduled'`)
			b.settle(t) // its jobs
		}
		made := b.sim.Refunds()
		if len(made) != before+1 {
			t.Fatalf("order %s: %d refunds, want one", o.ID, len(made)-before)
		}
		if diff := cmp.Diff([]string{"receipt", "refund " + made[before]}, b.mails(t, o)); diff != "" {
			t.Errorf("order %s: mails (-want +got):\n%s", o.ID, diff)
		}
	}
}

// The answer was lost, or nobody waited: the job sends the same again, and it is one refund.
func TestRefund_ItsJobStandsBehindIt(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for name, fault := range map[string]stripesim.Fault{
		"nobody waited": {}, "the answer was lost": {Kind: stripesim.LoseAnswer}, "the request was lost": {Kind: stripesim.LoseRequest},
	} {
		o := b.bought(t)
		before := len(b.sim.Refunds())
		all, err := b.service.Refund(t.Context(), o.ID, orders.RefundWish{}, clerk())
		if err != nil {
			t.Fatal(err)
		}
		if fault.Kind != 0 {
			fault.Method, fault.Path = http.MethodPost, "/v1/refunds"
			b.sim.Inject(fault)
			var retry *provider.RetryError
			if err := b.service.SendRefund(t.Context(), all[0].Ruling); !errors.As(err, &retry) {
				t.Errorf("%s: got %v, want a retry", name, err)
			}
		}
		b.exec(t, `UPDATE river_job SET state = 'available', scheduled_at = now() WHERE kind = 'send_refund' AND state = 'scheduled'`)
		b.settle(t)
		b.wantState(t, o, orders.Refunded)
		if n := len(b.sim.Refunds()) - before; n != 1 {
			t.Errorf("%s: %d refunds, want one", name, n)
		}
	}
}

// Twenty people give the command at once, from two processes: one refund.
func TestRefund_TwentyAtOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	other := b.another(t)
	o := b.bought(t)
	start := make(chan struct{})
	var running sync.WaitGroup
	var mu sync.Mutex
	decided := 0
	for n := range 20 {
		process := []*testBundle{b, other}[n%2]
		running.Go(func() {
			<-start
			all, err := process.service.Refund(t.Context(), o.ID, orders.RefundWish{}, clerk())
			if err != nil {
				t.Error(err)
				return
			}
			err = process.service.SendRefund(t.Context(), all[0].Ruling)
			if err != nil && !errors.Is(err, provider.ErrInFlight) {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			if !all[0].Repeat {
				decided++
			}
		})
	}
	close(start)
	running.Wait()
	b.settle(t)
	b.wantState(t, o, orders.Refunded)
	if n := len(b.sim.Refunds()); n != 1 || decided != 1 || len(b.mails(t, o)) != 2 {
		t.Errorf("%d refunds by %d decisions, mails %v; want one of each, and its mail", n, decided, b.mails(t, o))
	}
}

// A person waits for a job that reads the payment, and is not told that the refund failed.
func TestRefund_WhileThePaymentIsRead(t *testing.T) {
	t.Parallel()
	b := setup(t)
	o := b.bought(t)
	c := o.checkouts[0]
	b.exec(t, `UPDATE payments SET read_wanted = read_wanted + 1`)
	done := 0
	gate, ended := b.held(t, c, "/v1/disputes", &done)
	decided := make(chan error, 1)
	var all []orders.Decided
	go func() {
		var err error
		all, err = b.another(t).service.Refund(t.Context(), o.ID, orders.RefundWish{}, clerk())
		decided <- err
	}()
	select {
	case err := <-decided:
		t.Fatalf("decided without a read: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	close(gate)
	if err := errors.Join(wait(t, "the reader", ended), wait(t, "the decision", decided)); err != nil {
		t.Fatal(err)
	}

	b.exec(t, `UPDATE payments SET read_wanted = read_wanted + 1`)
	gate, ended = b.held(t, c, "/v1/disputes", &done)
	sent := make(chan error, 1)
	go func() { sent <- b.another(t).service.SendRefund(t.Context(), all[0].Ruling) }()
	eventually(t, "it is sent", func() bool { return len(b.sim.Refunds()) == 1 })
	close(gate)
	if err := errors.Join(wait(t, "the reader", ended), wait(t, "the sender", sent)); err != nil {
		t.Fatal(err)
	}
	b.wantState(t, o, orders.Refunded)

	b.exec(t, `UPDATE payments SET read_until = now() + interval '1 h'`)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := b.service.Refund(ctx, o.ID, orders.RefundWish{}, clerk()); err == nil {
		t.Error("decided without a read")
	}
}

// It is decided on what the provider has now, not on what we have heard.
func TestRefund_ReadsFirst(t *testing.T) {
	t.Parallel()
	b := setup(t)
	o := b.bought(t)
	b.refunded(t, o.checkouts[0], 500) // in the provider's own dashboard
	_, err := b.service.Refund(t.Context(), o.ID, orders.RefundWish{AmountMinor: o.Total}, clerk())
	var fault *orders.InputError
	if !errors.As(err, &fault) || fault.Field != "amount" || !strings.Contains(fault.Detail, "3498 that are left") {
		t.Errorf("got %v, want more than is left", err)
	}
	b.sim.Inject(stripesim.Fault{Method: http.MethodGet, Status: http.StatusInternalServerError})
	var retry *provider.RetryError
	if _, err := b.service.Refund(t.Context(), o.ID, orders.RefundWish{}, clerk()); !errors.As(err, &retry) {
		t.Errorf("the provider is away: got %v, want to be asked again", err)
	}
	b.service.Stripe = nil
	if _, err := b.service.Refund(t.Context(), o.ID, orders.RefundWish{}, clerk()); !errors.Is(err, provider.ErrNotConfigured) {
		t.Errorf("no provider: got %v, want it not configured", err)
	}
	if n := b.count(t, `SELECT count(*) FROM order_decisions`); n != 0 {
		t.Errorf("%d decisions", n)
	}
}

// What the provider refuses is told to whoever waits, and is a dead letter for the job.
func TestRefund_Refused(t *testing.T) {
	t.Parallel()
	b := setup(t)
	o := b.bought(t)
	b.disputed(t, o.checkouts[0], "")
	all, err := b.service.Refund(t.Context(), o.ID, orders.RefundWish{}, clerk())
	if err != nil {
		t.Fatal(err)
	}
	b.wantState(t, o, orders.Disputed) // by the read before it
	for range 2 {
		done := 0
		if err := b.service.SendRefund(t.Context(), all[0].Ruling); !errors.Is(err, provider.ErrRefused) {
			t.Errorf("got %v, want it refused", err)
		}
		if err := b.service.PerformCall(t.Context(), provider.RefundKey(all[0].Ruling.ID), counted(&done)); !errors.Is(err, provider.ErrRefused) || done != 0 {
			t.Errorf("its job: %v after %d completions, want it refused", err, done)
		}
	}
	if n := len(b.sim.Refunds()); n != 0 {
		t.Errorf("%d refunds", n)
	}
}

// The order was paid twice, and its surplus was to go back. Before that is sent, the payment
// that counted is refunded: the other one pays the order now, and stays.
func TestRefund_SurplusNoMore(t *testing.T) {
	t.Parallel()
	b := setup(t)
	o := b.secondCheckout(t, b.order(t))
	for _, c := range o.checkouts {
		b.arrive(t, b.pay(t, c, stripesim.PayOptions{}))
	}
	all, err := b.service.Refund(t.Context(), o.ID, orders.RefundWish{Surplus: true}, clerk())
	if err != nil || len(all) != 1 {
		t.Fatalf("%+v, %v", all, err)
	}
	counted, surplus := o.checkouts[0], o.checkouts[1]
	if *all[0].Ruling.PaymentID == counted.PaymentID { // made in the same second: the ids decide
		counted, surplus = surplus, counted
	}
	b.refunded(t, counted, 0)
	b.exec(t, `UPDATE payments SET read_wanted = read_wanted + 1`)
	if err := b.service.ReadPayment(t.Context(), counted.PaymentID, noJob); err != nil {
		t.Fatal(err)
	}
	if err := b.service.SendRefund(t.Context(), all[0].Ruling); !errors.Is(err, provider.ErrNotWanted) {
		t.Errorf("got %v, want it not wanted any more", err)
	}
	b.wantState(t, o, orders.Fulfilled)
	b.follows(t, o, licenses.StatusActive)
	if n := len(b.sim.Refunds()); n != 1 || b.refundedMinor(t, surplus) != 0 {
		t.Errorf("%d refunds, %d of the surplus; want the first payment's alone", n, b.refundedMinor(t, surplus))
	}
}
