package reconcile_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"paidonce/internal/stripesim"
	"paidonce/orders"
	"paidonce/reconcile"
)

// Each fault among our own rows, made by hand in a healthy shop: it is found, by itself, and
// once it is put right the next run closes it.
func TestRun_EachInsideFault(t *testing.T) {
	t.Parallel()
	const old = "UPDATE orders SET updated_at = updated_at - interval '1 day';"
	for _, c := range []struct {
		name  string
		want  reconcile.Kind
		fault string // with the order's id for $id
		undo  string
	}{
		{
			"paid, and nothing issued", reconcile.LicensesMissing,
			old + `UPDATE sent_receipts SET order_id = order_id; DELETE FROM licenses WHERE order_id = $id`,
			`INSERT INTO licenses SELECT gen_random_uuid(), order_id, id, g, sku, 'key/' || gen_random_uuid(), 'k1', 'active', now(), now()
			 FROM order_lines, generate_series(1, 2) g WHERE order_id = $id`,
		},
		{
			"fewer licenses than bought", reconcile.LicensesMissing,
			old + `UPDATE order_lines SET quantity = 3 WHERE order_id = $id`, `UPDATE order_lines SET quantity = 2 WHERE order_id = $id`,
		},
		{
			"more licenses than bought", reconcile.LicensesExtra,
			`INSERT INTO licenses SELECT gen_random_uuid(), order_id, id, 3, sku, 'key/extra', 'k1', 'active', now(), now() FROM order_lines WHERE order_id = $id`,
			`DELETE FROM licenses WHERE ordinal = 3`,
		},
		{
			"licenses of an order that is not paid", reconcile.LicensesUnpaid,
			`INSERT INTO licenses SELECT gen_random_uuid(), n.order_id, n.id, 1, sku, 'key/gift', 'k1', 'active', now(), now()
			 FROM order_lines n WHERE n.order_id = $unpaid`,
			`DELETE FROM licenses WHERE key = 'key/gift'`,
		},
		{
			"no receipt written down", reconcile.ReceiptMissing,
			old + `DELETE FROM sent_receipts WHERE order_id = $id`,
			`INSERT INTO sent_receipts (order_id, kind, subject_id, idempotency_key, state, created_at, updated_at, sent_at)
			 VALUES ($id, 'receipt', '$id', 'r', 'sent', now(), now(), now())`,
		},
		{
			"a receipt that was never sent", reconcile.ReceiptMissing,
			old + `UPDATE sent_receipts SET state = 'intended', sent_at = NULL, updated_at = now() - interval '2 hours'`,
			`UPDATE sent_receipts SET state = 'sent', sent_at = now()`,
		},
		{
			"two receipts", reconcile.ReceiptsDoubled,
			`INSERT INTO sent_receipts (order_id, kind, subject_id, idempotency_key, state, created_at, updated_at, sent_at)
			 VALUES ($id, 'receipt', 'again', 'r2', 'sent', now(), now(), now())`,
			`DELETE FROM sent_receipts WHERE subject_id = 'again'`,
		},
		{
			"a state that its facts do not call for", reconcile.StateDrifted,
			`UPDATE orders SET decision = 'canceled' WHERE id = $id`, `UPDATE orders SET decision = 'none' WHERE id = $id`,
		},
		{
			"a state that no transition led to", reconcile.HistoryDiffers,
			`INSERT INTO order_transitions (order_id, event, from_state, to_state, cause_provider, cause_event_id, at)
			 VALUES ($id, 'dispute', 'fulfilled', 'disputed', 'person', 'x', now())`,
			`INSERT INTO order_transitions (order_id, event, from_state, to_state, cause_provider, cause_event_id, at)
			 VALUES ($id, 'win', 'disputed', 'fulfilled', 'person', 'x', now())`,
		},
		{
			"paid without a pay", reconcile.HistoryDiffers,
			`UPDATE orders SET paid_at = now() WHERE id = $unpaid`, `UPDATE orders SET paid_at = NULL WHERE id = $unpaid`,
		},
		{
			"a dead delivery", reconcile.DeliveryDead,
			`UPDATE webhook_deliveries SET outcome = 'dead', last_error = 'why' WHERE event_type = 'charge.succeeded'`,
			`UPDATE webhook_deliveries SET outcome = 'already' WHERE outcome = 'dead'`,
		},
		{
			"a delivery that nobody drains", reconcile.DeliveryStuck,
			`UPDATE webhook_deliveries SET outcome = NULL, processed_at = NULL, opened_at = now() - interval '2 hours', next_attempt_at = now() + interval '1 day'
			 WHERE event_type = 'charge.succeeded'`,
			`UPDATE webhook_deliveries SET outcome = 'already', processed_at = now() WHERE event_type = 'charge.succeeded'`,
		},
		{
			"a delivery parked too long", reconcile.DeliveryStuck,
			`UPDATE webhook_deliveries SET outcome = 'parked', processed_at = NULL, opened_at = now() - interval '2 hours', next_attempt_at = now() + interval '1 day'
			 WHERE event_type = 'charge.succeeded'`,
			`UPDATE webhook_deliveries SET outcome = 'already', processed_at = now() WHERE event_type = 'charge.succeeded'`,
		},
		{
			"a dead job", reconcile.JobDead,
			`UPDATE river_job SET state = 'discarded', finalized_at = now(), errors = ARRAY['{"error":"why"}'::jsonb] WHERE kind = 'fulfill_order'`,
			`DELETE FROM river_job WHERE state = 'discarded'`,
		},
		{
			"a mail of which nobody knows", reconcile.EffectUnknown,
			`UPDATE sent_receipts SET state = 'unknown', unknowns = 1, sent_at = NULL`, `UPDATE sent_receipts SET state = 'sent', sent_at = now()`,
		},
		{
			"a call whose sender died", reconcile.EffectUnknown,
			`UPDATE provider_calls SET state = 'sending', sending_until = now() - interval '2 hours', last_sent_at = now() - interval '2 hours' WHERE operation = 'fulfill'`,
			`UPDATE provider_calls SET state = 'sent', sending_until = NULL WHERE operation = 'fulfill'`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.runner.Mail = true
			healthy, _ := b.told()
			unpaid := b.order()
			b.wantRun("healthy", reconcile.Clean, "")

			in := strings.NewReplacer("'$id'", "'"+healthy.ID.String()+"'", "$id", "'"+healthy.ID.String()+"'", "$unpaid", "'"+unpaid.ID.String()+"'")
			b.many(in.Replace(c.fault))
			report := b.wantFound("with the fault", c.want)
			if f := report.Findings[0]; f.OrderID == nil || *f.OrderID != healthy.ID && *f.OrderID != unpaid.ID || f.Ours == "" {
				t.Errorf("finding %+v, want it to name its order, and what is so", f)
			}
			b.many(in.Replace(c.undo))
			b.wantRun("put right", reconcile.Clean, "")
			if n := b.text(`SELECT count(*) FROM reconcile_findings WHERE healed_at IS NULL`); n != "0" {
				t.Errorf("%s findings still open", n)
			}
		})
	}
}

// many executes several statements.
func (b *bundle) many(statements string) {
	b.t.Helper()
	for statement := range strings.SplitSeq(statements, ";") {
		if strings.TrimSpace(statement) != "" {
			b.exec(statement)
		}
	}
}

// wantFound runs and wants open findings of one kind alone.
func (b *bundle) wantFound(name string, kind reconcile.Kind) reconcile.Report {
	b.t.Helper()
	report := b.run()
	if len(report.Kinds) != 1 || report.Kinds[0].Kind != kind || report.Kinds[0].Open == 0 || report.Outcome != reconcile.Drift {
		b.t.Fatalf("%s: %s: %q, want %s alone", name, report.Outcome, kinds(report), kind)
	}
	return report
}

// What is paid here and not there, or otherwise than there, is found and left to a person.
func TestRun_PaidHereAndOtherAmounts(t *testing.T) {
	t.Parallel()
	const succeeded = `UPDATE payments SET status = 'succeeded', received_minor = 3998, received_currency = 'usd' WHERE order_id = ?`
	for name, c := range map[string]struct {
		harm func(*bundle) shopOrder
		want string
	}{
		"paid here, open there": {func(b *bundle) shopOrder {
			o := b.order()
			b.exec(succeeded, o.ID)
			return o
		}, "paid_here 1 open 0 healed, state_drifted 1 open 0 healed"},
		"paid here, and there is no such session": {func(b *bundle) shopOrder {
			o := b.order()
			b.exec(succeeded, o.ID)
			b.exec(`UPDATE payments SET resource_id = 'cs_test_none' WHERE order_id = ?`, o.ID)
			b.exec(`DELETE FROM payment_resources WHERE resource_id = ?`, o.Session)
			return o
		}, "paid_here 1 open 0 healed, state_drifted 1 open 0 healed"},
		"another amount": {func(b *bundle) shopOrder {
			o, _ := b.told()
			b.exec(`UPDATE payments SET received_minor = 3997, expected_minor = 3997 WHERE order_id = ?`, o.ID)
			return o
		}, "amount_differs 0 open 1 healed"},
		"another currency": {func(b *bundle) shopOrder {
			o, _ := b.told()
			b.exec(`UPDATE payments SET received_currency = 'eur', currency = 'eur' WHERE order_id = ?`, o.ID)
			return o
		}, "currency_differs 0 open 1 healed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.told()
			o := c.harm(b)
			report := b.wantRun("first", reconcile.Drift, c.want)
			first := report.Findings[0].ID
			if f := report.Findings[0]; *f.OrderID != o.ID || f.Theirs == "" || f.Ours == "" {
				t.Errorf("finding %+v, want the order and both views", f)
			}
			if strings.Contains(c.want, "1 healed") { // by reading the payment again
				b.wantRun("next", reconcile.Clean, "")
				return
			}
			// The next run sees the same finding again, not another one.
			again := b.run()
			if again.Findings[0].ID != first || !again.Findings[0].LastSeenAt.After(again.Findings[0].FirstSeenAt) {
				t.Errorf("the next run has finding %+v, want %s seen again", again.Findings[0], first)
			}
		})
	}
}

// A checkout that was left by its intent alone: the session is older than the window, and what
// was paid in it is found by the intent.
func TestRun_ASessionOlderThanTheWindow(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.mute.Store(true)
	o := b.order()
	b.sim.Advance(20 * time.Hour)
	_, err := b.sim.Pay(o.Session, stripesim.PayOptions{})
	must(t, err)
	until := b.sim.Now().Add(2 * time.Second)
	report, err := b.runner.Run(t.Context(), reconcile.Options{Since: until.Add(-time.Hour), Until: until})
	must(t, err)
	if got, want := kinds(report), "paid_there 0 open 1 healed"; got != want {
		t.Errorf("found %q, want %q", got, want)
	}
	b.wantState(o, orders.Paid)
}

// Webhooks that have stopped: a finding, once the newest events have waited long enough; one
// that comes is a sign of life, and those that reconcile recorded itself are none.
func TestRun_Silence(t *testing.T) {
	t.Parallel()
	b := setup(t)
	first, _ := b.paid()
	b.wantRun("too soon to tell", reconcile.Drift, "event_missed 0 open 3 healed")
	b.fulfill(first)
	b.sim.Advance(2 * time.Hour)
	b.wantRun("silent for two hours", reconcile.Drift, "webhooks_silent 1 open 0 healed")

	second, payment := b.paid()
	b.deliver(payment.Events)
	b.fulfill(second)
	b.wantRun("one has come", reconcile.Clean, "")
	if n := b.text(`SELECT count(*) FROM reconcile_findings WHERE healed_at IS NULL`); n != "0" {
		t.Errorf("%s findings still open", n)
	}
}

// A dry run says what would be done, and changes nothing at all: not a row, not a run.
func TestRun_DryRunChangesNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.told()
	b.paid()
	b.mute.Store(true)
	b.paid()
	b.mute.Store(false)
	b.exec(`UPDATE sent_receipts SET state = 'unknown', unknowns = 1, sent_at = NULL`)
	before := b.everything()

	o := b.window()
	o.DryRun = true
	report, err := b.runner.Run(t.Context(), o)
	must(t, err)
	if diff := cmp.Diff(before, b.everything()); diff != "" {
		t.Errorf("a dry run changed (-before +after):\n%s", diff)
	}
	if got, want := kinds(report), "paid_there 2 open 0 healed, event_missed 6 open 0 healed, effect_unknown 1 open 0 healed"; got != want || report.Outcome != reconcile.Drift {
		t.Errorf("%s: %q, want drift: %q", report.Outcome, got, want)
	}
	for _, f := range report.Findings {
		if f.Kind != reconcile.EffectUnknown && !strings.HasPrefix(f.Action, "would ") || f.OrderNumber == nil {
			t.Errorf("finding %+v, want what would be done, and the order's number", f)
		}
	}
}

// everything is every row of the database, as a digest for each table.
func (b *bundle) everything() map[string]string {
	b.t.Helper()
	var tables []string
	must(b.t, b.db.Gorm.Raw(`SELECT tablename FROM pg_tables WHERE schemaname = 'public'`).Scan(&tables).Error)
	digests := map[string]string{}
	for _, table := range tables {
		digests[table] = b.text(`SELECT count(*) || ' ' || md5(coalesce(string_agg(t::text, '|' ORDER BY t::text), '')) FROM ` + table + ` t`)
	}
	return digests
}

// An acknowledged finding is no drift any more; it is named by its id, or by what it is about,
// and asks for who and why.
func TestAck(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.told()
	b.exec(`UPDATE sent_receipts SET state = 'unknown', unknowns = 1, sent_at = NULL`)
	f := b.wantFound("before", reconcile.EffectUnknown).Findings[0]

	for _, bad := range [][3]string{
		{f.ID.String(), "", "known"}, {f.ID.String(), "kim", " "}, {uuid.NewString(), "kim", "known"}, {"effect_unknown/none", "kim", "known"}, {"x", "kim", "known"},
	} {
		if _, err := reconcile.Ack(t.Context(), b.db.Gorm, bad[0], bad[1], bad[2], b.runner.Now()); err == nil {
			t.Errorf("ack %q was taken", bad)
		}
	}
	acked, err := reconcile.Ack(t.Context(), b.db.Gorm, "effect_unknown/"+f.ResourceID, "kim", "the buyer has it", b.runner.Now())
	must(t, err)
	if acked.ID != f.ID || acked.OrderNumber == nil {
		t.Errorf("acked %+v, want %s", acked, f.ID)
	}
	report := b.run()
	if report.Outcome != reconcile.Clean || report.Kinds[0].Acked != 1 {
		t.Errorf("a run with an acknowledged finding = %s %+v, want clean", report.Outcome, report.Kinds)
	}
	open, err := reconcile.List(t.Context(), b.db.Gorm, false, 10)
	must(t, err)
	all, err := reconcile.List(t.Context(), b.db.Gorm, true, 10)
	must(t, err)
	if len(open) != 0 || len(all) != 1 || all[0].AckedBy == nil || *all[0].AckedBy != "kim" {
		t.Errorf("open %+v, all %+v, want the acknowledged one among all alone", open, all)
	}
	standing, err := reconcile.ReadStanding(t.Context(), b.db.Gorm, false, "")
	must(t, err)
	if standing.Open[reconcile.EffectUnknown] != 0 || standing.LastClean == nil || len(standing.Open) != len(reconcile.Kinds()) {
		t.Errorf("standing %+v, want nothing open, and the clean run", standing)
	}
	// It heals and comes back: that is news again.
	b.exec(`UPDATE sent_receipts SET state = 'sent', sent_at = now()`)
	b.wantRun("put right", reconcile.Clean, "")
	b.exec(`UPDATE sent_receipts SET state = 'unknown', unknowns = 1, sent_at = NULL`)
	b.wantFound("again", reconcile.EffectUnknown)
}

// A finding is closed by a run that looked and no longer sees it: not by one whose window did
// not cover it, and not by one of another world. What the windows have left behind is looked
// at by itself.
func TestRun_ClosesOnlyWhatItLookedAt(t *testing.T) {
	t.Parallel()
	b := setup(t)
	o, _ := b.told()
	b.exec(`UPDATE payments SET resource_id = 'cs_test_none' WHERE order_id = ?`, o.ID)
	b.wantRun("first", reconcile.Drift, "paid_here 1 open 0 healed")

	b.exec(`UPDATE reconcile_runs SET account = 'acct_other'`)
	b.exec(`UPDATE payments SET account = 'acct_other'`)
	b.wantRun("of another world", reconcile.Clean, "")
	b.exec(`UPDATE payments SET account = ''`)
	b.exec(`UPDATE reconcile_runs SET account = ''`)
	if n := b.text(`SELECT count(*) FROM reconcile_findings WHERE healed_at IS NULL`); n != "1" {
		t.Fatalf("%s findings open after a run of another world, want 1", n)
	}

	b.sim.Advance(10 * 24 * time.Hour)
	later, payment := b.paid()
	b.deliver(payment.Events)
	b.fulfill(later)
	b.wantRun("ten days later, still so", reconcile.Drift, "paid_here 1 open 0 healed")
	b.exec(`UPDATE payments SET resource_id = ? WHERE order_id = ?`, o.Session, o.ID)
	b.wantRun("put right", reconcile.Clean, "")
	if n := b.text(`SELECT count(*) FROM reconcile_findings WHERE healed_at IS NULL`); n != "0" {
		t.Errorf("%s findings open after it was put right", n)
	}
}

// A run stops when its time is used up, and the next one goes on.
func TestRun_Budget(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for range 6 {
		b.paid()
	}
	o := b.window()
	o.Budget = time.Nanosecond
	turns := 0
	for {
		report, err := b.runner.Run(t.Context(), o)
		turns++
		if err == nil {
			if report.Outcome != reconcile.Drift {
				t.Errorf("outcome %s", report.Outcome)
			}
			break
		}
		if !errors.Is(err, reconcile.ErrUnfinished) || turns > 100 {
			t.Fatalf("turn %d: %v", turns, err)
		}
	}
	if turns < 6 {
		t.Errorf("%d turns, want one for each page that is not a stage's last", turns)
	}
	if n := b.text(`SELECT count(*) FROM orders WHERE state = 'paid'`); n != "6" {
		t.Errorf("%s orders paid, want 6", n)
	}
}

// The window is checked, and a process without a key says that it has none.
func TestRun_BadOptions(t *testing.T) {
	t.Parallel()
	b := setup(t)
	now := b.sim.Now()
	if _, err := b.runner.Run(t.Context(), reconcile.Options{Since: now, Until: now}); err == nil || !strings.Contains(err.Error(), "since") {
		t.Errorf("an empty window = %v, want it refused by name", err)
	}
	b.runner.Stripe = nil
	if report, err := b.runner.Run(t.Context(), reconcile.Options{}); !errors.Is(err, reconcile.ErrNotConfigured) || report.Outcome != reconcile.Unsure {
		t.Errorf("without a key = %s %v", report.Outcome, err)
	}
}
