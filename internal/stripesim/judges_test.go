//go:build unix

package stripesim

// Real here: the Stripe CLI and Stripe's package for Node.js, over HTTP. See package judges for how they come here.

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stripe/stripe-go/v79/webhook"

	"paidonce/internal/stripesim/judges"
)

// cliKey is a key as long as the CLI wants them.
const cliKey = "sk_test_simulated"

// TestCLITriggers: every trigger runs through, and a signed event of its type arrives.
func TestCLITriggers(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{
		"checkout.session.completed", "checkout.session.async_payment_succeeded", "checkout.session.async_payment_failed",
		"checkout.session.expired", "payment_intent.created", "payment_intent.succeeded", "payment_intent.payment_failed",
		"payment_intent.canceled", "payment_intent.processing", "payment_intent.requires_action",
		"payment_intent.amount_capturable_updated", "charge.succeeded", "charge.failed", "charge.captured", "charge.refunded",
		"charge.refund.updated", "charge.dispute.created", "charge.dispute.updated", "charge.dispute.closed",
		"product.created", "coupon.created",
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			rec := newReceiver(t, nil)
			b := setup(t, Config{Webhooks: []Endpoint{{URL: rec.url, Secrets: []string{secret}}}})
			out, err := judges.CLI(t, nil, "trigger", kind, "--api-base", b.url, "--api-key", cliKey)
			if err != nil {
				t.Fatalf("stripe trigger %s: %v\n%s", kind, err, out)
			}
			b.idle(t)
			n := 0
			for _, d := range rec.deliveries() {
				if _, err := webhook.ConstructEvent(d.body, d.header.Get("Stripe-Signature"), secret); err != nil {
					t.Errorf("%s: %v", d.kind, err)
				}
				if d.kind == kind {
					n++
				}
			}
			if n != 1 {
				t.Errorf("%d events of type %s arrived, want 1:\n%s\n%s", n, kind, kinds(b.sim.Events()), out)
			}
		})
	}
}

// TestCLIPaysASession: stripe fixtures with our file pays a session that exists, whatever it costs.
func TestCLIPaysASession(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{})
	s := b.create(t)
	pay := func() (string, error) {
		return judges.CLI(t, []string{"CHECKOUT_SESSION=" + s.ID}, "fixtures", "testdata/pay-session.json",
			"--api-base", b.url, "--api-key", cliKey)
	}
	if out, err := pay(); err != nil {
		t.Fatalf("stripe fixtures: %v\n%s", err, out)
	}
	doc, _ := b.sim.Session(s.ID)
	if dig(t, doc, "payment_status") != "paid" || dig(t, doc, "amount_total") != json.Number(fmt.Sprint(newTotal)) ||
		dig(t, doc, "customer_details", "email") != "buyer@example.com" {
		t.Errorf("%s", doc)
	}
	if out, err := pay(); err == nil {
		t.Errorf("paid twice: %s", out)
	}
	if got := strings.Count(kinds(b.sim.Events()), "payment_intent.succeeded"); got != 1 {
		t.Errorf("%d payments", got)
	}
}

// TestCLIResends: stripe events resend delivers the same bytes again, to the endpoint named.
func TestCLIResends(t *testing.T) {
	t.Parallel()
	rec, other := newReceiver(t, nil), newReceiver(t, nil)
	b := setup(t, Config{Webhooks: []Endpoint{{URL: rec.url, Secrets: []string{secret}}, {URL: other.url}}})
	if _, err := b.sim.Expire(b.create(t).ID); err != nil {
		t.Fatal(err)
	}
	b.idle(t)
	out, err := judges.CLI(t, nil, "events", "resend", b.sim.Events()[0].ID, "--webhook-endpoint", "we_1Configured1",
		"--api-base", b.url, "--api-key", cliKey)
	if err != nil {
		t.Fatalf("stripe events resend: %v\n%s", err, out)
	}
	b.idle(t)
	if got := rec.deliveries(); len(got) != 2 || string(got[0].body) != string(got[1].body) || len(other.deliveries()) != 1 {
		t.Errorf("%d and %d deliveries\n%s", len(got), len(other.deliveries()), out)
	}
}

// TestNodeJudge: Stripe's package for Node.js lists, retrieves, refunds and verifies.
func TestNodeJudge(t *testing.T) {
	t.Parallel()
	rec, mine := newReceiver(t, nil), newReceiver(t, nil)
	b := setup(t, Config{Webhooks: []Endpoint{
		{URL: rec.url, Secrets: []string{"whsec_new", secret}, Types: []string{"checkout.session.completed"}},
	}})
	s := b.create(t)
	b.pay(t, s.ID, PayOptions{})
	for range 4 {
		b.create(t)
	}
	b.idle(t)
	d := rec.deliveries()[0]
	out, err := judges.Node(t, "testdata/judge.mjs", "SIM_URL="+b.url, "SESSION="+s.ID, "SESSIONS=5", "RECEIVER="+mine.url,
		"BODY="+base64.StdEncoding.EncodeToString(d.body), "SIGNATURE="+d.header.Get("Stripe-Signature"), "SECRET="+secret)
	if err != nil {
		t.Fatalf("judge.mjs: %v\n%s", err, out)
	}
	var said struct{ Version, Refund, Event, Secret string }
	if err := json.Unmarshal([]byte(out), &said); err != nil || said.Version != judges.NodeVersion || said.Event != d.id {
		t.Fatalf("%v: %s", err, out)
	}
	b.idle(t)
	got := mine.deliveries()
	if len(got) != 1 || got[0].kind != "product.created" {
		t.Fatalf("%d deliveries to the endpoint that was made", len(got))
	}
	if _, err := webhook.ConstructEvent(got[0].body, got[0].header.Get("Stripe-Signature"), said.Secret); err != nil {
		t.Error(err)
	}
}
