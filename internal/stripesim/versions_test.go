package stripesim

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stripe/stripe-go/v79/webhook"
)

// TestEventVersions: one event to endpoints of three versions and a thin one, each as that version has it, all under one id.
func TestEventVersions(t *testing.T) {
	t.Parallel()
	old, present, acacia, thin := newReceiver(t, nil), newReceiver(t, nil), newReceiver(t, nil), newReceiver(t, nil)
	secrets := []string{secret}
	b := setup(t, Config{Webhooks: []Endpoint{
		{URL: old.url, Secrets: secrets, APIVersion: "2022-08-01"},
		{URL: present.url, Secrets: secrets},
		{URL: acacia.url, Secrets: secrets, APIVersion: refundsSince},
		{URL: thin.url, Secrets: secrets, Thin: true},
	}})
	p := b.paid(t, "")
	refundID, _, err := b.sim.Refund(p.ChargeID, 5, "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.sim.FailRefund(refundID); err != nil {
		t.Fatal(err)
	}
	b.idle(t)

	byKind := func(r *receiver) map[string][]byte {
		out := map[string][]byte{}
		for _, d := range r.deliveries() {
			out[d.kind] = d.body
		}
		return out
	}
	was, is, next, light := byKind(old), byKind(present), byKind(acacia), byKind(thin)
	for name, got := range map[string]map[string][]byte{"2022-08-01": was, APIVersion: is, refundsSince: next} {
		if v := dig(t, got["charge.refunded"], "api_version"); v != name {
			t.Errorf("%s: api_version %v", name, v)
		}
		if id := dig(t, got["charge.refunded"], "id"); id != dig(t, is["charge.refunded"], "id") {
			t.Errorf("%s: another id", name)
		}
	}
	refunds := dig(t, was["charge.refunded"], "data", "object", "refunds", "data").([]any)
	if len(refunds) != 1 || refunds[0].(map[string]any)["id"] != refundID {
		t.Errorf("2022-08-01: refunds %v", refunds)
	}
	charges := dig(t, was["payment_intent.succeeded"], "data", "object", "charges", "total_count")
	if charges != json.Number("1") || dig(t, is["payment_intent.succeeded"], "data", "object", "charges") != nil {
		t.Errorf("charges %v", charges)
	}
	if dig(t, is["charge.refunded"], "data", "object", "refunds") != nil {
		t.Error("2024-06-20 has refunds in a charge")
	}
	if !bytes.HasPrefix(was["charge.refunded"], []byte("{\n  \"id\": \"evt_")) {
		t.Error("not in Stripe's layout")
	}
	for _, kind := range []string{"refund.created", "refund.failed"} {
		if was[kind] != nil || is[kind] != nil || next[kind] == nil {
			t.Errorf("%s went where it does not belong, or not where it does", kind)
		}
	}
	note := light["v1.checkout.session.completed"]
	if dig(t, note, "object") != "v2.core.event" || dig(t, note, "related_object", "id") != p.SessionID ||
		dig(t, note, "related_object", "url") != "/v1/checkout/sessions/"+p.SessionID || dig(t, note, "data") != nil {
		t.Errorf("thin: %s", note)
	}
	// stripe-go demands its own version after a good signature, and so takes only one of them.
	for version, r := range map[string]*receiver{"2022-08-01": old, APIVersion: present, refundsSince: acacia} {
		d := r.deliveries()[0]
		_, err := webhook.ConstructEvent(d.body, d.header.Get("Stripe-Signature"), secret)
		if (err == nil) != (version == APIVersion) {
			t.Errorf("%s: %v", version, err)
		}
	}
}

// TestAccountVersion is that of the API's events, and of endpoints without one of their own.
func TestAccountVersion(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{EventAPIVersion: refundsSince})
	p := b.paid(t, "")
	_, events, err := b.sim.Refund(p.ChargeID, 5, "")
	if err != nil || kinds(events) != "charge.refunded refund.created" {
		t.Fatalf("%s, %v", kinds(events), err)
	}
	r := b.do(t, "GET", "/v1/events?type=refund.created", "")
	if ids, _ := idsOf(t, r.body); len(ids) != 1 || !strings.Contains(string(r.body), `"api_version": "2024-10-28.acacia"`) {
		t.Errorf("%s", r.body)
	}
}

// TestEndpointsByAPI: made with a secret that is shown once, changed, disabled, deleted; deliveries follow.
func TestEndpointsByAPI(t *testing.T) {
	t.Parallel()
	rec := newReceiver(t, nil)
	b := setup(t, Config{})
	r := b.do(t, "POST", "/v1/webhook_endpoints", "url="+rec.url+"&enabled_events[]=checkout.session.expired&api_version="+APIVersion)
	id, _ := dig(t, r.body, "id").(string)
	key, _ := dig(t, r.body, "secret").(string)
	path := "/v1/webhook_endpoints/" + id
	if r := b.do(t, "GET", path, ""); dig(t, r.body, "secret") != nil || dig(t, r.body, "status") != "enabled" {
		t.Errorf("%s", r.body)
	}
	expire := func() {
		if _, err := b.sim.Expire(b.create(t).ID); err != nil {
			t.Fatal(err)
		}
		b.idle(t)
	}
	expire()
	b.paid(t, "") // types it does not want
	if r := b.do(t, "POST", path, "disabled=true&description=off"); dig(t, r.body, "status") != "disabled" || dig(t, r.body, "description") != "off" {
		t.Errorf("%s", r.body)
	}
	expire()
	b.do(t, "POST", path, "disabled=false&enabled_events[]=*")
	expire()
	if r := b.do(t, "DELETE", path, ""); dig(t, r.body, "deleted") != true {
		t.Errorf("%s", r.body)
	}
	expire()
	got := rec.deliveries()
	if len(got) != 2 {
		t.Fatalf("%d deliveries, want 2", len(got))
	}
	for _, d := range got {
		if _, err := webhook.ConstructEvent(d.body, d.header.Get("Stripe-Signature"), key); err != nil {
			t.Error(err)
		}
	}
	for form, param := range map[string]string{
		"enabled_events[]=*": "url", "url=ftp://x&enabled_events[]=*": "url", "url=http://x": "enabled_events",
		"url=http://x&enabled_events[]=*&api_version=2020-01-01": "api_version",
	} {
		if r := b.do(t, "POST", "/v1/webhook_endpoints", form); r.status != 400 || r.err.Param != param {
			t.Errorf("%s: %d %s", form, r.status, r.body)
		}
	}
}

// TestRotation over the wire: a rolled secret signs first, the old one beside it until its time is over by the clock.
func TestRotation(t *testing.T) {
	t.Parallel()
	rec := newReceiver(t, nil)
	b := setup(t, Config{Webhooks: []Endpoint{{URL: rec.url, Secrets: []string{"whsec_old"}}}})
	deliver := func() delivery {
		if _, err := b.sim.Expire(b.create(t).ID); err != nil {
			t.Fatal(err)
		}
		b.idle(t)
		all := rec.deliveries()
		return all[len(all)-1]
	}
	valid := func(d delivery, key string) bool {
		return webhook.ValidatePayloadIgnoringTolerance(d.body, d.header.Get("Stripe-Signature"), key) == nil
	}
	r := b.do(t, "POST", "/_sim/webhook_endpoints/we_1Configured1/roll", `{"keep": "1h"}`)
	key, _ := dig(t, r.body, "secret").(string)
	if d := deliver(); !valid(d, "whsec_old") || !valid(d, key) || strings.Count(d.header.Get("Stripe-Signature"), "v1=") != 2 {
		t.Errorf("while rolling: %s", d.header.Get("Stripe-Signature"))
	}
	b.sim.Advance(time.Hour)
	if d := deliver(); valid(d, "whsec_old") || !valid(d, key) {
		t.Errorf("afterwards: %s", d.header.Get("Stripe-Signature"))
	}
	if _, err := b.sim.RollSecret("we_1Configured1", 25*time.Hour); err == nil {
		t.Error("an old secret may live 24 hours at most")
	}
	if r := b.do(t, "POST", "/_sim/webhook_endpoints/we_none/roll", `{}`); r.status != 400 {
		t.Errorf("%d", r.status)
	}
}

// TestKeyLife: after 24 hours by the clock the same key does the work again.
func TestKeyLife(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{})
	key := []string{"Idempotency-Key", "k"}
	first := b.do(t, "POST", sessionsPath, form(), key...)
	b.sim.Advance(keyLife - time.Minute)
	if again := b.do(t, "POST", sessionsPath, form(), key...); !bytes.Equal(again.body, first.body) {
		t.Errorf("forgotten too soon: %d %s", again.status, again.body)
	}
	b.sim.Advance(2 * time.Minute)
	later := b.do(t, "POST", sessionsPath, form("locale=de"), key...)
	if later.status != 200 || later.header.Get("Idempotent-Replayed") != "" || dig(t, later.body, "id") == dig(t, first.body, "id") {
		t.Errorf("remembered too long: %d %s", later.status, later.body)
	}
}

// TestClockExpires: a session ends by the clock, with an event; the page no longer takes money; old events are gone.
func TestClockExpires(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{})
	s, other := b.create(t), b.create(t)
	b.pay(t, other.ID, PayOptions{})
	if got := kinds(b.sim.Advance(23 * time.Hour)); got != "" {
		t.Errorf("too soon: %s", got)
	}
	if got := kinds(b.sim.Advance(time.Hour)); got != "checkout.session.expired" {
		t.Errorf("at the end: %s", got)
	}
	if r := b.do(t, "GET", "/pay/"+s.ID, ""); !strings.Contains(string(r.body), "Expired") {
		t.Error("the page does not say so")
	}
	r := b.do(t, "GET", "/v1/events?limit=100", "")
	before, _ := idsOf(t, r.body)
	b.sim.Advance(eventWindow - time.Hour)
	r = b.do(t, "GET", "/v1/events?limit=100", "")
	after, _ := idsOf(t, r.body)
	if len(before) != 5 || len(after) != 1 {
		t.Errorf("%d events, 30 days later %d", len(before), len(after))
	}
	if r := b.do(t, "GET", "/v1/events/"+before[4], ""); r.status != 404 {
		t.Errorf("an old event: %d", r.status)
	}
}

// TestRateLimit per second of the clock, with nothing remembered under a key.
func TestRateLimit(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	b := setup(t, Config{Now: func() time.Time { return now }, RateLimit: 2, RetryAfter: "3"})
	key := []string{"Idempotency-Key", "k"}
	b.do(t, "GET", "/v1/events", "")
	b.do(t, "GET", "/v1/events", "")
	r := b.do(t, "POST", sessionsPath, form(), key...)
	if r.status != 429 || r.err.Code != "rate_limit" || r.header.Get("Retry-After") != "3" {
		t.Errorf("%d %s", r.status, r.body)
	}
	b.sim.Advance(time.Second)
	if r := b.do(t, "POST", sessionsPath, form(), key...); r.status != 200 || r.header.Get("Idempotent-Replayed") != "" {
		t.Errorf("a second later: %d", r.status)
	}
}

// TestControl: clock and faults from another process.
func TestControl(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	b := setup(t, Config{Now: func() time.Time { return now }})
	for body, want := range map[string]string{
		`{"advance": "25h"}`: "2023-11-15T23:13:20Z", `{"set": "2024-01-02T03:04:05Z"}`: "2024-01-02T03:04:05Z",
	} {
		b.sim.Advance(now.Sub(b.sim.Now()))
		if r := b.do(t, "POST", "/_sim/clock", body); dig(t, r.body, "now") != want {
			t.Errorf("%s: %s", body, r.body)
		}
		if r := b.do(t, "GET", "/_sim/clock", ""); dig(t, r.body, "now") != want {
			t.Errorf("%s", r.body)
		}
	}
	r := b.do(t, "POST", "/_sim/faults", `{"method":"POST","path":"/v1/refunds","status":429,"code":"lock_timeout","retry_after":"1","times":2}`)
	if r.status != 201 {
		t.Fatalf("%d %s", r.status, r.body)
	}
	for i, want := range []int{429, 429, 400} {
		r := b.do(t, "POST", "/v1/refunds", "")
		if r.status != want || want == 429 && (r.err.Code != "lock_timeout" || r.header.Get("Retry-After") != "1") {
			t.Errorf("request %d: %d %s", i, r.status, r.body)
		}
	}
	b.do(t, "POST", "/_sim/faults", `{"path":"/v1/events","kind":"lose_request"}`)
	if _, err := b.send(t, "GET", "/v1/events", ""); err == nil {
		t.Error("the answer came")
	}
	for path, body := range map[string]string{
		"/_sim/faults": `{"colour":"red"}`, "/_sim/faults?": `{"status":200}`, "/_sim/faults??": `{"kind":"burn"}`,
		"/_sim/clock": `{"advance":25}`, "/_sim/clock?": `{"advance":"soon"}`, "/_sim/clock??": `x`,
	} {
		if r := b.do(t, "POST", path, body); r.status != 400 || dig(t, r.body, "error") == nil {
			t.Errorf("%s %s: %d %s", path, body, r.status, r.body)
		}
	}
	if r := b.do(t, "POST", "/_sim/events/evt_none/deliver", ""); r.status != 404 {
		t.Errorf("%d", r.status)
	}
}
