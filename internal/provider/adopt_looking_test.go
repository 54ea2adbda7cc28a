package provider_test

import (
	"errors"
	"net/http"
	"runtime"
	"sync"
	"testing"
	"time"

	"paidonce/internal/provider"
	"paidonce/internal/stripesim"
)

// Looking is a request like another: it may be turned away, or lost. Then it is done again,
// as the other side asks; and who looks holds no connection, and is alone at it (I8).
func TestAdopt_WhileLooking(t *testing.T) {
	t.Parallel()
	d := openDesk(t, 1)
	key := d.intended()
	d.yesterday(key, func() {
		d.sim.Inject(stripesim.Fault{Kind: stripesim.LoseAnswer})
		_ = d.perform(key)
	})
	made := d.newest()
	list := stripesim.Fault{Method: http.MethodGet, Path: "/v1/checkout/sessions"}
	for _, fault := range []stripesim.Fault{{Status: 429, RetryAfter: "7"}, {Status: 500}, {Kind: stripesim.LoseAnswer}, {Status: 401}} {
		fault.Method, fault.Path = list.Method, list.Path
		d.sim.Inject(fault)
		var retry *provider.RetryError
		err := d.perform(key)
		if !errors.As(err, &retry) || errors.Is(err, provider.ErrKeyTooOld) || (retry.After == 7*time.Second) != (fault.RetryAfter == "7") {
			t.Errorf("%+v: got %v, want to look again", fault, err)
		}
		d.wantState("looking failed", key, provider.CallUnknown)
	}
	if d.alerts() != 0 {
		t.Errorf("%d alerts before anything is known", d.alerts())
	}

	gate := make(chan struct{})
	list.Gate = gate
	d.sim.Inject(list)
	looks := d.lists()
	looking := d.start(key)
	d.until("somebody looks", func() bool { return d.lists() == looks+1 })
	if d.row(key).State != provider.CallSending { // on the only connection
		t.Errorf("row %+v, want it on record as under way", d.row(key))
	}
	if err := d.perform(key); !errors.Is(err, provider.ErrInFlight) || d.lists() != looks+1 {
		t.Errorf("a second one: got %v after %d looks, want ErrInFlight and one", err, d.lists()-looks)
	}
	close(gate)
	must(t, <-looking)
	d.wantAdopted("after all", key, made)
}

// A performer dies between finding and settling: nothing is settled, and the next one finds
// the same. CW16.
func TestAdopt_DeathBeforeSettling(t *testing.T) {
	t.Parallel()
	d := openDesk(t, 0)
	key := d.intended()
	d.sim.Inject(stripesim.Fault{Status: 500, AfterWork: true})
	_ = d.perform(key)
	d.Crash = func(at string) {
		if at == "CW16" {
			runtime.Goexit()
		}
	}
	var wg sync.WaitGroup
	wg.Go(func() { _ = d.perform(key) })
	wg.Wait()
	d.Crash = nil
	d.wantState("found, not settled", key, provider.CallSending)
	if n := d.count(`SELECT count(*) FROM settled`); n != 0 {
		t.Errorf("%d settled by the dead", n)
	}
	d.lapse(key)
	must(t, d.perform(key))
	d.wantAdopted("taken over", key, d.newest())
}
