package fulfillment_test

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"paidonce/fulfillment"
	"paidonce/internal/stripesim"
)

// I5, the big set: an order of two checkouts lives whatever life, and its events and jobs come
// in whatever order, one after another or one during another. Then all that has not arrived
// arrives, all jobs are done, and it ends as Stripe has it.
func TestI5LivesEndAsStripeHasThem(t *testing.T) {
	t.Parallel()
	if checks := flag.Lookup("rapid.checks"); !*full && checks.Value.String() == checks.DefValue {
		if err := checks.Value.Set("25"); err != nil { // the short form; each is an order of its own
			t.Fatal(err)
		}
	}
	w := openWorld(t)
	rapid.Check(t, func(rt *rapid.T) {
		l := &life{order: w.secondCheckout(t, w.order(t))}
		a := &author{world: w, t: t, rt: rt, life: l}
		for range rapid.IntRange(5, 30).Draw(rt, "length") {
			a.next(true)
		}
		for i := range l.events {
			if l.arrived[i] == 0 {
				w.take(t, l, step{move: i, arrives: true}, nil)
			}
		}
		w.finish(t)
		if diff := cmp.Diff(w.truth(t, l), w.came(t, l)); diff != "" {
			rt.Fatalf("order %s (-want +got):\n%safter:\n  %s", l.ID, diff, strings.Join(a.story, "\n  "))
		}
	})
	w.wantNoMailTwice(t)
}

// author makes a life up.
type author struct {
	*world
	*life

	t       *testing.T
	rt      *rapid.T
	reading string   // the job that is under way, if it is a read
	story   []string // what has come about
}

// next lets one thing come about: a move, an arrival, or a job.
func (a *author) next(withReads bool) {
	type choice struct {
		name string
		do   func()
	}
	var choices []choice
	for _, m := range a.moves() {
		choices = append(choices, choice{fmt.Sprintf("%d %s happens", len(a.events), m.name), func() { a.happen(a.t, a.life, m.move) }})
	}
	for i, e := range a.events {
		if a.arrived[i] < 2 {
			choices = append(choices, choice{fmt.Sprintf("%d %s ARRIVES", i, e.Type), func() {
				a.take(a.t, a.life, step{move: i, arrives: true}, nil)
				a.drainAll(a.t)
			}})
		}
	}
	for i, job := range a.ready(a.t)[a.ID] {
		switch {
		case string(job.Args) == a.reading: // it is under way, or has to wait for it
		case withReads && job.Kind == "read_payment":
			choices = append(choices, choice{fmt.Sprintf("job %d, a read", i), func() { a.read(job) }})
		default:
			choices = append(choices, choice{fmt.Sprintf("job %d, %s", i, job.Kind), func() { a.mustDo(a.t, job) }})
		}
	}
	if len(choices) == 0 {
		return
	}
	n := rapid.IntRange(0, len(choices)-1).Draw(a.rt, "choice")
	a.story = append(a.story, choices[n].name)
	choices[n].do()
}

// read is a read during which up to three other things come about.
func (a *author) read(job readyJob) {
	inside := rapid.IntRange(0, 3).Draw(a.rt, "inside")
	nth := rapid.IntRange(0, 2).Draw(a.rt, "during request")
	a.reading = string(job.Args)
	err := a.during(a.t, a.life, job, nth, func() {
		a.story = append(a.story, fmt.Sprintf("during request %d:", nth))
		for range inside {
			a.next(false)
		}
		a.story = append(a.story, "is stored")
	})
	a.reading = ""
	if err != nil && !fulfillment.IsBeingRead(err) {
		a.t.Fatal(err)
	}
}

type namedMove struct {
	name string
	move move
}

// moves are what can happen to the money next.
func (a *author) moves() (all []namedMove) {
	add := func(m move, format string, args ...any) {
		all = append(all, namedMove{fmt.Sprintf(format, args...), m})
	}
	for nth, c := range a.checkouts {
		paidBy := slices.IndexFunc(a.paid, func(p stripesim.Payment) bool { return p.SessionID == c.Session })
		if paidBy < 0 {
			add(pays(nth), "payment of checkout %d", nth)
			if nth == 0 {
				add(paysDelayed(), "delayed payment")
			}
			continue
		}
		if gjsonOf(a.sim.Session(c.Session)).Get("payment_status").Str != "paid" {
			add(settles(), "settling")
			continue
		}
		charge := gjsonOf(a.sim.Charge(a.paid[paidBy].ChargeID))
		if left := charge.Get("amount").Int() - charge.Get("amount_refunded").Int(); left > 0 && len(a.refunds) < 4 {
			add(refunds(paidBy, 0), "refund of what is left of checkout %d", nth)
			if left > 1000 {
				add(refunds(paidBy, 1000), "refund of a part of checkout %d", nth)
			}
		}
		if len(a.disputes) < 2 {
			add(opensDispute(paidBy), "dispute of checkout %d", nth)
		}
	}
	for i, id := range a.refunds {
		if gjsonOf(a.sim.RefundObject(id)).Get("status").Str == "succeeded" {
			add(failsRefund(i), "failure of refund %d", i)
		}
	}
	for i, id := range a.disputes {
		if gjsonOf(a.sim.Dispute(id)).Get("status").Str == "needs_response" {
			add(closesDispute(i, "won"), "winning of dispute %d", i)
			add(closesDispute(i, "lost"), "losing of dispute %d", i)
		}
	}
	return all
}
