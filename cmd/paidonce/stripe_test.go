package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"paidonce/internal/provider"
	"paidonce/internal/stripesim"
	"paidonce/webhooks"
)

const shopURL = "https://shop.example.com/webhooks/stripe"

// account is a simulated Stripe account, and the environment of a merchant who has its key.
type account struct {
	t   *testing.T
	sim *stripesim.Sim
	url string
	env map[string]string
}

func newAccount(t *testing.T) account {
	t.Helper()
	sim := stripesim.New(stripesim.Config{})
	server := httptest.NewServer(sim.Handler())
	t.Cleanup(server.Close)
	t.Cleanup(sim.Close)
	return account{t: t, sim: sim, url: server.URL, env: map[string]string{
		"STRIPE_SECRET_KEY": "sk_test_setup", "STRIPE_API_BASE": server.URL, "STRIPE_WEBHOOK_SECRETS": "whsec_x",
	}}
}

// setUp runs stripe setup --json.
func (a account) setUp(flags ...string) setupDone {
	a.t.Helper()
	code, out, errs := command(a.t, a.env, "", append([]string{"stripe", "setup", "--url", shopURL, "--json"}, flags...)...)
	var done setupDone
	if err := json.Unmarshal([]byte(out), &done); code != 0 || err != nil {
		a.t.Fatalf("stripe setup %v = %d %s%s", flags, code, out, errs)
	}
	return done
}

// check runs stripe check --json, and returns the results by what was looked at.
func (a account) check() (results map[string]string, code int) {
	a.t.Helper()
	code, out, errs := command(a.t, a.env, "", "stripe", "check", "--url", shopURL, "--json")
	var found struct {
		OK     bool
		Checks findings
	}
	if err := json.Unmarshal([]byte(out), &found); err != nil || found.OK != (code == 0) {
		a.t.Fatalf("stripe check = %d %s%s", code, out, errs)
	}
	results = map[string]string{}
	for _, one := range found.Checks {
		results[one.What] = one.Result
	}
	return results, code
}

// post changes something at Stripe, as a person at the dashboard would.
func (a account) post(path, form string) string {
	a.t.Helper()
	request, err := http.NewRequestWithContext(a.t.Context(), http.MethodPost, a.url+path, strings.NewReader(form))
	if err != nil {
		a.t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer sk_test_setup")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		a.t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	var made struct{ ID string }
	if err := json.NewDecoder(response.Body).Decode(&made); err != nil || response.StatusCode != http.StatusOK {
		a.t.Fatalf("POST %s %s: %s %v", path, form, response.Status, err)
	}
	return made.ID
}

// endpoints are the ids at Stripe, newest first.
func (a account) endpoints() []provider.Endpoint {
	a.t.Helper()
	stripe := provider.NewStripe(provider.StripeConfig{Key: "sk_test_setup", Base: a.url})
	all, err := stripe.Endpoints(a.t.Context())
	if err != nil {
		a.t.Fatal(err)
	}
	return all
}

func (a account) creations() (keys []string) {
	for _, call := range a.sim.Calls() {
		if call.Method == http.MethodPost && call.Path == "/v1/webhook_endpoints" {
			keys = append(keys, call.IdempotencyKey)
		}
	}
	return keys
}

// Once made, it is found again; its secret is told once.
func TestStripeSetup_IsIdempotent(t *testing.T) {
	t.Parallel()
	a := newAccount(t)
	first := a.setUp()
	if first.Did != "created" || !strings.HasPrefix(first.Secret, "whsec_") || !first.Pinned || first.URL != shopURL {
		t.Fatalf("the first: %+v", first)
	}
	have := a.endpoints()
	if len(have) != 1 || have[0].APIVersion != "2024-06-20" || !have[0].Ours() || !have[0].Enabled() {
		t.Fatalf("at Stripe: %+v", have)
	}
	if diff := cmp.Diff(webhooks.StripeEventTypes(), have[0].Events); diff != "" {
		t.Errorf("event types (-read +sent):\n%s", diff)
	}
	second := a.setUp()
	if second.Did != "unchanged" || second.ID != first.ID || second.Secret != "" {
		t.Errorf("the second: %+v", second)
	}
	if n := len(a.creations()); n != 1 {
		t.Errorf("%d creations, want 1", n)
	}
	if results, code := a.check(); code != 0 {
		t.Errorf("check: %v", results)
	}
	_, out, _ := command(t, a.env, "", "stripe", "setup", "--url", shopURL)
	if !strings.HasPrefix(out, "unchanged: "+first.ID) || strings.Contains(out, "whsec_") {
		t.Errorf("to a person: %s", out)
	}
}

// What a person changed at the dashboard is set right, and said.
func TestStripeSetup_BringsUpToDate(t *testing.T) {
	t.Parallel()
	a := newAccount(t)
	made := a.setUp()
	a.post("/v1/webhook_endpoints/"+made.ID, "enabled_events[]=charge.succeeded&enabled_events[]=product.created&disabled=true")
	if results, code := a.check(); code != 1 || results["endpoint"] != "fail" || results["events"] != "fail" {
		t.Errorf("check before = %d %v", code, results)
	}
	done := a.setUp()
	if done.Did != "updated" || !done.Enabled || !slices.Equal(done.Removed, []string{"product.created"}) ||
		len(done.Added) != len(webhooks.StripeEventTypes())-1 || done.Secret != "" {
		t.Errorf("%+v", done)
	}
	if results, code := a.check(); code != 0 {
		t.Errorf("check after: %v", results)
	}

	// And what differs in nothing but being disabled.
	a.post("/v1/webhook_endpoints/"+made.ID, "disabled=true")
	if done := a.setUp(); done.Did != "updated" || !done.Enabled || len(done.Added)+len(done.Removed) != 0 {
		t.Errorf("disabled: %+v", done)
	}
}

// An endpoint keeps its API version for ever: another one takes its place, and both deliver
// until the old one is deleted.
func TestStripeSetup_ReplacesAnotherVersion(t *testing.T) {
	t.Parallel()
	a := newAccount(t)
	old := a.post("/v1/webhook_endpoints", "url="+shopURL+"&enabled_events[]=*&metadata["+provider.EndpointMarker+"]=1&api_version=2024-10-28.acacia")
	_, out, _ := command(t, a.env, "", "stripe", "setup", "--url", shopURL)
	if !strings.Contains(out, "updated: "+old) || !strings.Contains(out, "--replace") {
		t.Errorf("without --replace: %s", out)
	}
	if results, code := a.check(); code != 0 || results["version"] != "warn" {
		t.Errorf("check = %d %v, want a warning: it works", code, results)
	}
	made := a.setUp("--replace")
	if made.Did != "created" || made.Secret == "" || !made.Pinned || !slices.Equal(made.Older, []string{old}) {
		t.Fatalf("--replace: %+v", made)
	}
	if results, code := a.check(); code != 0 || results["version"] != "ok" {
		t.Errorf("check with both = %d %v", code, results)
	}
	if done := a.setUp(); done.ID != made.ID || !slices.Equal(done.Older, []string{old}) {
		t.Errorf("again: %+v", done)
	}
	if done := a.setUp("--prune"); done.ID != made.ID || !slices.Equal(done.Deleted, []string{old}) {
		t.Errorf("--prune: %+v", done)
	}
	if have := a.endpoints(); len(have) != 1 || have[0].ID != made.ID {
		t.Errorf("at Stripe: %+v", have)
	}
}

// Of two, the one with the pinned version is kept, also when the other is newer.
func TestStripeSetup_KeepsThePinnedVersion(t *testing.T) {
	t.Parallel()
	a := newAccount(t)
	made := a.setUp()
	newer := a.post("/v1/webhook_endpoints", "url="+shopURL+"&enabled_events[]=*&metadata["+provider.EndpointMarker+"]=1&api_version=2024-10-28.acacia")
	if done := a.setUp(); done.ID != made.ID || done.Did != "unchanged" || !slices.Equal(done.Older, []string{newer}) {
		t.Errorf("%+v, want %s kept", done, made.ID)
	}
}

// Replacing one of the pinned version gives a new secret: the key of the request is not the
// first one's.
func TestStripeSetup_ReplacesItsOwn(t *testing.T) {
	t.Parallel()
	a := newAccount(t)
	first, second := a.setUp(), a.setUp("--replace")
	if second.ID == first.ID || second.Secret == first.Secret || second.Secret == "" {
		t.Errorf("replaced %+v with %+v", first, second)
	}
}

// What somebody made by hand is not ours to change, and a second one beside it would sign with
// a secret of its own.
func TestStripeSetup_LeavesWhatOthersMade(t *testing.T) {
	t.Parallel()
	a := newAccount(t)
	a.post("/v1/webhook_endpoints", "url=https://other.example.com/webhooks/stripe&enabled_events[]=*")
	theirs := a.post("/v1/webhook_endpoints", "url="+shopURL+"&enabled_events[]=*")
	code, _, errs := command(t, a.env, "", "stripe", "setup", "--url", shopURL)
	if code != 1 || !strings.Contains(errs, theirs) || !strings.Contains(errs, "--adopt") {
		t.Errorf("setup = %d %s", code, errs)
	}
	if done := a.setUp("--adopt"); done.Did != "updated" || done.ID != theirs {
		t.Errorf("--adopt: %+v", done)
	}
	if done := a.setUp(); done.Did != "unchanged" || done.ID != theirs {
		t.Errorf("after --adopt: %+v", done)
	}
	if n := len(a.endpoints()); n != 2 {
		t.Errorf("%d endpoints, want the 2 that were there", n)
	}
}

// A lost answer: the same request under the same key makes one endpoint, and the secret is
// told after all.
func TestStripeSetup_ALostAnswer(t *testing.T) {
	t.Parallel()
	a := newAccount(t)
	a.sim.Inject(stripesim.Fault{Method: http.MethodPost, Path: "/v1/webhook_endpoints", Kind: stripesim.LoseAnswer})
	made := a.setUp()
	keys := a.creations()
	if len(a.endpoints()) != 1 || made.Secret == "" || len(keys) != 2 || keys[0] != keys[1] || keys[0] == "" {
		t.Errorf("%d endpoints, keys %q, %+v", len(a.endpoints()), keys, made)
	}
}

// Stripe remembers the key of an endpoint that was deleted since. Its answer is not taken for
// a new one.
func TestStripeSetup_AfterADeletion(t *testing.T) {
	t.Parallel()
	a := newAccount(t)
	first := a.setUp()
	stripe := provider.NewStripe(provider.StripeConfig{Key: "sk_test_setup", Base: a.url})
	if err := stripe.DeleteEndpoint(t.Context(), first.ID); err != nil {
		t.Fatal(err)
	}
	second := a.setUp()
	if have := a.endpoints(); second.ID == first.ID || len(have) != 1 || have[0].ID != second.ID {
		t.Errorf("after %s was deleted: %+v, at Stripe %+v", first.ID, second, have)
	}
	if err := stripe.DeleteEndpoint(t.Context(), first.ID); err != nil {
		t.Errorf("deleting what is gone: %v", err)
	}
}

func TestStripeCheck_NothingThere(t *testing.T) {
	t.Parallel()
	a := newAccount(t)
	if results, code := a.check(); code != 1 || results["endpoint"] != "fail" || results["key"] != "ok" || results["account"] != "ok" {
		t.Errorf("check = %d %v", code, results)
	}
	a.setUp()
	delete(a.env, "STRIPE_WEBHOOK_SECRETS")
	if results, code := a.check(); code != 1 || results["secret"] != "fail" {
		t.Errorf("check without a secret = %d %v", code, results)
	}
	a.env["STRIPE_WEBHOOK_SECRETS"], a.env["STRIPE_ACCOUNT"] = "whsec_x", "acct_1SimulatedStripe"
	if results, code := a.check(); code != 1 || results["account"] != "fail" {
		t.Errorf("check for the key's own account = %d %v", code, results)
	}
	a.env["STRIPE_SECRET_KEY"] = "sk_live_wrong"
	if results, code := a.check(); code != 1 || results["key"] != "fail" {
		t.Errorf("check with a key that is refused = %d %v", code, results)
	}
	if _, out, _ := command(t, a.env, "", "stripe", "check", "--url", shopURL); strings.Contains(out, "sk_live") {
		t.Errorf("check tells the key: %s", out)
	}
}

// Stripe does not tell whether a secret is its endpoint's. What check knows, it says: of which
// form the secrets are, and when a webhook was last accepted.
func TestStripeCheck_Arrival(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	a := newAccount(t)
	a.setUp()
	told := func(want ...string) {
		t.Helper()
		code, out, errs := command(t, a.env, "", "stripe", "check", "--url", shopURL)
		for _, text := range want {
			if code != 0 || !strings.Contains(out, text) {
				t.Errorf("check = %d %s%s, want 0 and %q", code, out, errs, text)
			}
		}
		if strings.Contains(out, "we_odd") {
			t.Errorf("check tells a secret: %s", out)
		}
	}
	if results, _ := a.check(); results["arrival"] != "" {
		t.Errorf("without a database: %v", results)
	}
	told("ok    secret    STRIPE_WEBHOOK_SECRETS has 1; Stripe does not tell")
	a.env["STRIPE_WEBHOOK_SECRETS"] = "whsec_x,we_odd"
	told("warn  secret    ")
	a.env["DATABASE_URL"] = s.dsn
	told("warn  arrival   no webhook was accepted yet")
	s.exec(`INSERT INTO webhook_deliveries (provider, event_id, event_type, resource_id, livemode, account, api_version, source, body, received_at, opened_at, next_attempt_at)
		SELECT 'stripe', 'evt_' || source, 'x', '', false, '', '', source, '', at::timestamptz, now(), now()
		FROM (VALUES ('webhook', '2026-05-04T03:02:01Z'), ('reconcile', '2026-06-01T00:00:00Z')) AS came (source, at)`)
	told("ok    arrival   a webhook was last accepted at 2026-05-04T03:02:01Z")
	a.env["DATABASE_URL"] = "postgres://nobody:hidden@127.0.0.1:1/none"
	told("warn  arrival   not known")
}

func TestStripe_RefusesUnusableURLs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ key, base, url, word string }{
		{"", "", shopURL, "STRIPE_SECRET_KEY"},
		{"sk_test_x", "", "", "--url"},
		{"sk_test_x", "", "shop", "--url"},
		{"sk_test_x", "", "https://shop.example.com/", "/webhooks/stripe"},
		{"sk_test_x", "", "https://u:p@shop.example.com/webhooks/stripe", "--url"},
		{"sk_live_x", "", "http://shop.example.com/webhooks/stripe", "https"},
		{"sk_test_x", "", "http://localhost:8080/webhooks/stripe", "stripe listen --forward-to localhost:8080/webhooks/stripe"},
		{"sk_test_x", "", "http://127.0.0.1:8080/webhooks/stripe", "stripe listen"},
	} {
		env := map[string]string{"STRIPE_SECRET_KEY": c.key, "STRIPE_API_BASE": c.base}
		for _, name := range []string{"setup", "check"} {
			if code, out, errs := command(t, env, "", "stripe", name, "--url", c.url); code != 1 || out != "" || !strings.Contains(errs, c.word) {
				t.Errorf("%s %+v = %d %q %q", name, c, code, out, errs)
			}
		}
	}
}

// For a connected account the endpoint is the platform's, of the Connect kind, and the request
// is not made in that account's name.
func TestStripeSetup_ForAConnectedAccount(t *testing.T) {
	t.Parallel()
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, fmt.Sprintf("%s %s account=%s connect=%s", r.Method, r.URL.Path, r.Header.Get("Stripe-Account"), r.FormValue("connect")))
		if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "endpoints") {
			_, _ = w.Write([]byte(`{"object":"list","data":[],"has_more":false}`))
			return
		}
		_, _ = w.Write([]byte(`{"id":"we_1","secret":"whsec_1"}`))
	}))
	defer server.Close()
	env := map[string]string{"STRIPE_SECRET_KEY": "sk_test_x", "STRIPE_API_BASE": server.URL, "STRIPE_ACCOUNT": "acct_1", "PUBLIC_URL": "https://shop.example.com"}
	if code, _, errs := command(t, env, "", "stripe", "setup"); code != 0 {
		t.Fatal(errs)
	}
	want := []string{
		"GET /v1/webhook_endpoints account= connect=",
		"POST /v1/webhook_endpoints account= connect=true",
		"GET /v1/webhook_endpoints/we_1 account= connect=",
	}
	if diff := cmp.Diff(want, asked); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
}

// A restricted key may not read its account, which says nothing against it; an account that
// may take no payments is a fault in live mode, where it would be found out by a buyer.
func TestStripeCheck_TheAccount(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		key    string
		status int
		answer string
		want   string
	}{
		"restricted":          {"rk_live_x", http.StatusForbidden, `{"error":{"type":"invalid_request_error"}}`, "warn"},
		"not enabled":         {"sk_live_x", http.StatusOK, `{"id":"acct_1","charges_enabled":false}`, "fail"},
		"not enabled, a test": {"sk_test_x", http.StatusOK, `{"id":"acct_1","charges_enabled":false}`, "ok"},
		"enabled":             {"sk_live_x", http.StatusOK, `{"id":"acct_1","charges_enabled":true}`, "ok"},
		"not Stripe":          {"sk_live_x", http.StatusOK, `<html>`, "fail"},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/v1/account" {
				w.WriteHeader(c.status)
				_, _ = w.Write([]byte(c.answer))
				return
			}
			_, _ = w.Write([]byte(`{"object":"list","data":[],"has_more":false}`))
		}))
		t.Cleanup(server.Close)
		a := account{t: t, env: map[string]string{"STRIPE_SECRET_KEY": c.key, "STRIPE_API_BASE": server.URL}}
		if results, _ := a.check(); results["account"] != c.want {
			t.Errorf("%s: %v, want the account %s", name, results, c.want)
		}
	}
}

// A list of more than a page is read to its end: an endpoint that was overlooked is made again.
func TestStripeSetup_ReadsEveryPage(t *testing.T) {
	t.Parallel()
	a := newAccount(t)
	first := a.setUp()
	for i := range 100 {
		a.post("/v1/webhook_endpoints", fmt.Sprintf("url=https://other.example.com/%d&enabled_events[]=charge.updated", i))
	}
	if again := a.setUp(); again.ID != first.ID || again.Did != "unchanged" {
		t.Errorf("behind a hundred others: %+v, want %s unchanged", again, first.ID)
	}
}
