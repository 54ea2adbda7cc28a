package reconcile_test

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gorm.io/gorm"

	"paidonce/internal/stripesim"
	"paidonce/orders"
	"paidonce/reconcile"
)

func nothing(*gorm.DB) error { return nil }

// An outage in which every webhook was lost: every event is found, recorded under its own id,
// and applied; the run says so, and the next one finds nothing.
func TestRun_AnOutageWithEveryWebhookDropped(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var all []shopOrder
	for range 7 { // 21 events of ours: several pages of each kind
		o, _ := b.paid()
		all = append(all, o)
	}
	expired := b.order()
	_, err := b.sim.Expire(expired.Session)
	must(t, err)

	report := b.wantRun("after the outage", reconcile.Drift, "event_missed 0 open 22 healed")
	for _, o := range all {
		b.wantState(o, orders.Paid)
	}
	b.wantState(expired, orders.Expired)
	for _, f := range report.Findings {
		if f.HealedAt == nil || f.OrderNumber == nil || f.Action != "record the event" {
			t.Errorf("finding %+v, want it healed, with its order and what was done", f)
		}
	}
	if n := b.text(`SELECT count(*) FROM webhook_deliveries WHERE source = 'reconcile' AND event_id LIKE 'evt_%'`); n != "22" {
		t.Errorf("%s events recorded under their own ids, want 22", n)
	}
	for _, o := range all {
		b.fulfill(o)
	}
	b.wantRun("the next run", reconcile.Clean, "")
	if n := b.text(`SELECT count(*) FROM order_transitions WHERE event = 'pay'`); n != "7" {
		t.Errorf("%s pay transitions, want 7", n)
	}
}

// Events that were never made, though their objects were: the session is recorded as it is,
// and applied like an event about it.
func TestRun_EventsThatNeverExisted(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.mute.Store(true)
	var all []shopOrder
	for range 6 {
		o, _ := b.paid()
		all = append(all, o)
	}
	expired := b.order()
	_, err := b.sim.Expire(expired.Session)
	must(t, err)

	b.wantRun("without events", reconcile.Drift, "paid_there 0 open 6 healed, status_differs 0 open 1 healed")
	for _, o := range all {
		b.wantState(o, orders.Paid)
		b.fulfill(o)
	}
	b.wantState(expired, orders.Expired)
	if n := b.text(`SELECT count(*) FROM webhook_deliveries WHERE event_id LIKE 'reconcile:cs_%' AND event_type = 'checkout.session.read' AND outcome = 'applied'`); n != "6" {
		t.Errorf("%s sessions recorded and applied, want 6", n)
	}
	b.wantRun("the next run", reconcile.Clean, "")
}

// B46: an outage of 35 days. Events older than 30 days cannot be listed; what was paid before
// is found by its objects, and the report says why.
func TestB46_AnOutageOf35Days(t *testing.T) {
	t.Parallel()
	b := setup(t)
	long, _ := b.paid()
	b.sim.Advance(35 * 24 * time.Hour)
	lately, _ := b.paid()

	until := b.sim.Now().Add(2 * time.Second)
	report, err := b.runner.Run(t.Context(), reconcile.Options{Since: until.Add(-40 * 24 * time.Hour), Until: until})
	must(t, err)
	if got, want := kinds(report), "webhooks_silent"; strings.Contains(got, want) {
		t.Errorf("found %q: events of this second tell nothing of silence", got)
	}
	if got, want := kinds(report), "paid_there 0 open 1 healed, event_missed 0 open 3 healed"; got != want {
		t.Errorf("found %q, want %q", got, want)
	}
	b.wantState(long, orders.Paid)
	b.wantState(lately, orders.Paid)
	if len(report.Notes) != 1 || !strings.Contains(report.Notes[0], "30 days") {
		t.Errorf("notes %q, want one that says what could not be listed", report.Notes)
	}
}

// A run whose cursor names an event that has meanwhile become too old to be listed goes on,
// without an error and without a gap.
func TestB46_ACursorOlderThanTheLimit(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for range 4 {
		b.paid()
	}
	first := true
	b.runner.Lists.PageSize = 3
	o := b.window()
	o.Progress = func(reconcile.Progress) {
		if first {
			first = false
			b.sim.Inject(stripesim.Fault{Path: "/v1/events", Status: http.StatusServiceUnavailable})
		}
	}
	if report, err := b.runner.Run(t.Context(), o); err == nil || report.Outcome != reconcile.Unsure {
		t.Fatalf("a run whose page failed = %s %v, want an error", report.Outcome, err)
	}
	b.sim.Advance(35 * 24 * time.Hour)
	later, _ := b.paid()
	report := b.run()
	if got := kinds(report); !strings.Contains(got, "event_missed 0 open 3 healed") {
		t.Errorf("after the old cursor: %q, want the later order's events found", got)
	}
	b.wantState(later, orders.Paid)
	if n := b.text(`SELECT count(*) FROM orders WHERE state = 'paid'`); n != "5" {
		t.Errorf("%s orders paid, want all 5", n)
	}
}

// More objects in one second than a page holds, and more that appear while somebody is paging.
func TestRun_ManyInOneSecondAndSomeAppearing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.runner.Lists.PageSize = 2
	var all []shopOrder
	for range 8 {
		o, _ := b.paid()
		all = append(all, o)
	}
	appeared := 0
	o := b.window()
	o.Until = o.Until.Add(time.Minute)
	o.Progress = func(p reconcile.Progress) {
		if p.Stage == reconcile.StageEvents && appeared < 3 {
			appeared++
			late, _ := b.paid()
			all = append(all, late)
		}
	}
	report, err := b.runner.Run(t.Context(), o)
	must(t, err)
	if got, want := kinds(report), "event_missed 0 open 33 healed"; got != want {
		t.Errorf("found %q, want %q", got, want)
	}
	if got := report.Counts["sessions"]; got != 11 {
		t.Errorf("%d sessions looked at, want each of 11 once", got)
	}
	for _, o := range all {
		b.wantState(o, orders.Paid)
	}
}

// A page that fails leaves the cursor where it was. The next run goes on from there, and what
// was done is not done again.
func TestRun_APageFailsAndTheNextRunGoesOn(t *testing.T) {
	t.Parallel()
	for _, stage := range []string{"/v1/events", "/v1/checkout/sessions", "/v1/payment_intents", "/v1/refunds", "/v1/disputes"} {
		t.Run(stage, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			for range 7 {
				b.paid()
			}
			b.sim.Inject(stripesim.Fault{Method: http.MethodGet, Path: stage, Status: http.StatusBadGateway})
			report, err := b.runner.Run(t.Context(), b.window())
			if err == nil || report.Outcome != reconcile.Unsure || !strings.Contains(report.Error, "502") {
				t.Fatalf("a run whose page failed = %s %q, want it unsure, and why", report.Outcome, report.Error)
			}
			if left := b.text(`SELECT count(*) FROM reconcile_runs WHERE finished_at IS NULL AND owner IS NULL AND error LIKE '%502%'`); left != "1" {
				t.Fatalf("%s runs left for the next, want 1", left)
			}
			again := b.run()
			if again.Outcome != reconcile.Drift || b.text(`SELECT count(*) FROM reconcile_runs`) != "1" || !again.Resumed {
				t.Errorf("the next run: %s, resumed %t, %s runs; want the same one finished", again.Outcome, again.Resumed, b.text(`SELECT count(*) FROM reconcile_runs`))
			}
			if n := b.text(`SELECT count(*) FROM orders WHERE state = 'paid'`); n != "7" {
				t.Errorf("%s orders paid, want 7", n)
			}
			if n := again.Counts["sessions"]; n != 7 {
				t.Errorf("%d sessions looked at in both together, want each of 7 once", n)
			}
		})
	}
}

// A run that is stopped at every other page, after the page was worked through and before that
// was stored: each page comes again, and counts once. What is stored runs behind, never ahead.
func TestRun_StoppedBetweenWorkAndCursor(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.runner.Lists.PageSize = 3
	for range 7 {
		b.paid()
	}
	for turn := 1; ; turn++ {
		ctx, cancel := context.WithCancel(t.Context())
		pages := 0
		b.runner.Crash = func(string) {
			if pages++; pages == 2 {
				cancel()
			}
		}
		report, err := b.runner.Run(ctx, b.window())
		cancel()
		if err != nil && turn < 100 {
			continue
		}
		must(t, err)
		for stage, want := range map[string]int64{"events": 21, "sessions": 7, "intents": 7} {
			if got := report.Counts[stage]; got != want {
				t.Errorf("%d %s counted in %d turns, want %d", got, stage, turn, want)
			}
		}
		if turn < 5 {
			t.Errorf("%d turns: the run was not stopped", turn)
		}
		break
	}
	if n := b.text(`SELECT count(*) FROM orders WHERE state = 'paid'`); n != "7" {
		t.Errorf("%s orders paid, want 7", n)
	}
}

// Two at once: the second is told who is at it. One that died is gone on with after its lease,
// and an owner that wakes up late finds that the run is not its own any more.
func TestRun_TwoAtOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.paid()
	o := b.window()
	tried := false
	o.Progress = func(reconcile.Progress) {
		if tried {
			return
		}
		tried = true
		var running *reconcile.RunningError
		if _, err := b.runner.Run(t.Context(), b.window()); !errors.As(err, &running) || running.Stage != reconcile.StageEvents {
			t.Errorf("a second run = %v, want to be told of the first", err)
		}
		b.exec(`UPDATE reconcile_runs SET beat_at = now() - interval '1 hour'`)
		if report, err := b.runner.Run(t.Context(), b.window()); err != nil || !report.Resumed {
			t.Errorf("a run after the lease = %+v, %v, want the first one gone on with", report, err)
		}
	}
	if report, err := b.runner.Run(t.Context(), o); !errors.Is(err, reconcile.ErrLost) || report.Outcome != reconcile.Unsure {
		t.Errorf("the first, waking up = %s %v, want ErrLost", report.Outcome, err)
	}
	if n := b.text(`SELECT count(*) FROM reconcile_runs WHERE outcome = 'drift'`); n != "1" {
		t.Errorf("%s finished runs, want 1", n)
	}
}

// Webhooks that come while reconcile is recording the same events: each order is paid once.
func TestRun_LateWebhooksRacing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var events []stripesim.Event
	for range 10 {
		_, payment := b.paid()
		events = append(events, payment.Events...)
	}
	var racing sync.WaitGroup
	other := process(t, b.dsn, b.sim, b.url)
	racing.Go(func() {
		for _, e := range events {
			other.post(e)
			_, _ = other.drainer.Drain(context.Background())
		}
	})
	report, err := b.runner.Run(t.Context(), b.window())
	must(t, err)
	racing.Wait()
	b.eventually("every delivery to be done", func() bool {
		b.drain()
		return b.text(`SELECT count(*) FROM webhook_deliveries WHERE processed_at IS NULL`) == "0"
	})
	if report.Outcome == reconcile.Unsure {
		t.Errorf("report %+v", report)
	}
	if n := b.text(`SELECT count(*) FROM order_transitions WHERE event = 'pay'`); n != "10" {
		t.Errorf("%s pay transitions, want 10", n)
	}
	if n := b.text(`SELECT count(*) FROM webhook_deliveries WHERE event_id LIKE 'evt_%' AND outcome NOT IN ('applied', 'already', 'stale', 'ignored')`); n != "0" {
		t.Errorf("%s deliveries did not end well", n)
	}
	if n := b.text(`SELECT count(*) FROM river_job WHERE kind = 'fulfill_order'`); n != "10" {
		t.Errorf("%s fulfill jobs, want 10", n)
	}
}

// A checkout that was opened at the provider, and whose answer was lost with its process: it is
// adopted by its own call, under its own key. One whose call is still young is left alone.
func TestRun_AdoptsACheckoutThatWasNeverRecorded(t *testing.T) {
	t.Parallel()
	for name, age := range map[string]string{"its key still lives": "1 hour", "its key is forgotten": "2 days"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			created := b.unopened()
			b.sim.Inject(stripesim.Fault{Method: http.MethodPost, Path: "/v1/checkout/sessions", Kind: stripesim.LoseAnswer})
			if err := b.service.OpenCheckout(t.Context(), created.CallKey); err == nil {
				t.Fatal("the answer was to be lost")
			}
			session := b.sim.Sessions()[0]
			_, err := b.sim.Pay(session, stripesim.PayOptions{})
			must(t, err)
			b.wantRun("at once", reconcile.Drift, "event_missed 3 open 0 healed") // nobody knows its session yet

			b.exec(`UPDATE payments SET created_at = created_at - interval '` + age + `'`)
			b.exec(`UPDATE provider_calls SET first_sent_at = first_sent_at - interval '` + age + `', last_sent_at = last_sent_at`)
			report := b.run()
			if got := kinds(report); !strings.Contains(got, "checkout_unrecorded 0 open 1 healed") {
				t.Errorf("found %q, want the checkout adopted", got)
			}
			if got := b.text(`SELECT resource_id FROM payments`); got != session {
				t.Errorf("the payment's session is %s, want %s", got, session)
			}
			b.drain()
			b.wantState(shopOrder{ID: created.Order.ID}, orders.Paid)
			if n := len(b.sim.Sessions()); n != 1 {
				t.Errorf("%d sessions at the provider, want the one", n)
			}
		})
	}
}

// What is none of ours is counted, and touched by nothing: another program's sessions on the
// same account, also one that bears our markers of an order that is not here; and our own
// orders of another mode or account.
func TestRun_ForeignObjectsAndOtherWorlds(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, marker := range []string{"", "0192f5a0-0000-7000-8000-000000000000", "nonsense"} {
		form := url.Values{
			"mode": {"payment"}, "success_url": {"https://shop.example.com/"},
			"line_items[0][quantity]": {"1"}, "line_items[0][price_data][currency]": {"usd"},
			"line_items[0][price_data][unit_amount]": {"500"}, "line_items[0][price_data][product_data][name]": {"Theirs"},
		}
		if marker != "" {
			form.Set("metadata[paidonce_payment]", marker)
			form.Set("metadata[paidonce_order]", marker)
		}
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.url+"/v1/checkout/sessions", strings.NewReader(form.Encode()))
		must(t, err)
		request.Header.Set("Authorization", "Bearer sk_test_1")
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		response, err := http.DefaultClient.Do(request)
		must(t, err)
		_ = response.Body.Close()
	}
	for _, id := range b.sim.Sessions() {
		_, err := b.sim.Pay(id, stripesim.PayOptions{})
		must(t, err)
	}
	live, _ := b.paid()
	b.exec(`UPDATE payments SET livemode = true WHERE order_id = ?`, live.ID)
	other, _ := b.paid()
	b.exec(`UPDATE payments SET account = 'acct_other' WHERE order_id = ?`, other.ID)

	report := b.wantRun("foreign", reconcile.Clean, "")
	if report.Counts["foreign"] == 0 {
		t.Errorf("counts %v, want the foreign ones counted", report.Counts)
	}
	if n := b.text(`SELECT count(*) FROM webhook_deliveries`); n != "0" {
		t.Errorf("%s deliveries recorded, want none", n)
	}
	b.wantState(live, orders.Pending)
	b.wantState(other, orders.Pending)
}

// An order of the most lines that there can be: Stripe shows ten of them with a session, and the
// rest on further pages. Its total is compared, whatever it is made of.
func TestRun_AnOrderOfMoreLinesThanAPage(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.mute.Store(true)
	o := b.order(slices.Repeat([]orders.Item{{SKU: "KEY-1", Quantity: 2}}, orders.MaxLines)...)
	_, err := b.sim.Pay(o.Session, stripesim.PayOptions{Hold: true})
	must(t, err)
	b.wantRun("after the outage", reconcile.Drift, "paid_there 0 open 1 healed")
	b.fulfill(o)
	if n := b.text(`SELECT count(*) FROM licenses WHERE order_id = ? AND status = 'active'`, o.ID); n != "200" {
		t.Errorf("%s licenses, want 200", n)
	}
	b.mute.Store(false)
	if report := b.run(); strings.Contains(kinds(report), "amount") || strings.Contains(kinds(report), "licenses") {
		t.Errorf("afterwards: %s", kinds(report))
	}
}
