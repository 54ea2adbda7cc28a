package fulfillment_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/riverqueue/river/rivertype"

	"paidonce/fulfillment"
	"paidonce/internal/provider"
	"paidonce/internal/stripesim"
	"paidonce/orders"
	"paidonce/webhooks"
)

// job inserts a job as it might have become, and returns its id.
func (b *testBundle) job(t *testing.T, kind, state string, args any) int64 {
	t.Helper()
	encoded, err := json.Marshal(args)
	if err != nil {
		t.Fatal(err)
	}
	return value[int64](t, b, `
INSERT INTO river_job (kind, queue, args, state, attempt, max_attempts, finalized_at, errors)
VALUES (?, ?, CAST(? AS jsonb), CAST(? AS river_job_state), 3, 3,
    CASE WHEN CAST(? AS text) IN ('discarded', 'cancelled', 'completed') THEN now() END,
    ARRAY[CAST('{"at":"2026-01-02T03:04:05Z","attempt":3,"error":"broken","trace":""}' AS jsonb)])
RETURNING id`, kind, kind, string(encoded), state, state)
}

func (b *testBundle) listedJobs(t *testing.T, f fulfillment.JobFilter) []int64 {
	t.Helper()
	jobs, _, err := b.service.Jobs(t.Context(), f)
	if err != nil {
		t.Fatal(err)
	}
	ids := []int64{}
	for _, j := range jobs {
		ids = append(ids, j.ID)
	}
	return ids
}

func TestJobs_Filters(t *testing.T) {
	t.Parallel()
	b := setup(t)
	o, other := b.order(t), b.order(t)
	b.exec(t, `DELETE FROM river_job`)
	payment := o.checkouts[0].PaymentID
	fulfill := b.job(t, "fulfill_order", "discarded", map[string]any{"order_id": o.ID})
	read := b.job(t, "read_payment", "cancelled", map[string]any{"payment_id": payment})
	call := b.job(t, "create_checkout", "discarded", map[string]any{"idempotency_key": o.callKey})
	anothers := b.job(t, "fulfill_order", "discarded", map[string]any{"order_id": other.ID})
	nonsense := b.job(t, "fulfill_order", "discarded", map[string]any{"order_id": 7})
	list := b.job(t, "no_such_kind", "discarded", []int{1})
	waiting := b.job(t, "read_payment", "retryable", map[string]any{"payment_id": payment})
	b.exec(t, `UPDATE river_job SET finalized_at = now() - interval '2 days' WHERE id = ?`, list)
	dead := fulfillment.DeadStates()
	for name, test := range map[string]struct {
		filter fulfillment.JobFilter
		want   []int64
	}{
		"all, the newest first": {fulfillment.JobFilter{}, []int64{waiting, list, nonsense, anothers, call, read, fulfill}},
		"the dead":              {fulfillment.JobFilter{States: dead}, []int64{list, nonsense, anothers, call, read, fulfill}},
		"a state":               {fulfillment.JobFilter{States: []rivertype.JobState{rivertype.JobStateRetryable}}, []int64{waiting}},
		"kinds":                 {fulfillment.JobFilter{Kinds: []string{"read_payment", "no_such_kind"}}, []int64{waiting, list, read}},
		"an order":              {fulfillment.JobFilter{OrderID: o.ID}, []int64{waiting, call, read, fulfill}},
		"the dead of an order":  {fulfillment.JobFilter{OrderID: o.ID, States: dead}, []int64{call, read, fulfill}},
		"since":                 {fulfillment.JobFilter{States: dead, Since: time.Now().Add(-time.Hour)}, []int64{nonsense, anothers, call, read, fulfill}},
		"a page":                {fulfillment.JobFilter{Before: anothers, Limit: 2}, []int64{call, read}},
	} {
		if got := b.listedJobs(t, test.filter); !slices.Equal(got, test.want) {
			t.Errorf("%s: got %v, want %v", name, got, test.want)
		}
	}
	jobs, total, err := b.service.Jobs(t.Context(), fulfillment.JobFilter{Limit: 1, Kinds: []string{"create_checkout"}})
	if err != nil || total != 1 || jobs[0].OrderID == nil || *jobs[0].OrderID != o.ID || jobs[0].LastError() != "broken" || *jobs[0].CallState != "sent" {
		t.Errorf("got %d %+v, %v; want the order, its call and its error", total, jobs, err)
	}
}

// retried are the jobs that a retry makes due, in the order in which they are.
func (b *testBundle) retried(t *testing.T, f fulfillment.JobFilter, r fulfillment.Retry) (due []int64, left map[int64]string) {
	t.Helper()
	results, err := b.service.RetryJobs(t.Context(), f, r)
	if err != nil {
		t.Fatal(err)
	}
	left = map[int64]string{}
	for _, r := range results {
		if r.DueAt != nil {
			due = append(due, r.ID)
		} else {
			left[r.ID] = r.Left
		}
	}
	return due, left
}

// A dead or waiting job becomes due, with attempts left; one in any other state is left alone,
// whatever the filter, and the result says why.
func TestRetryJobs_OnlyWhatIsDeadOrWaits(t *testing.T) {
	t.Parallel()
	b := setup(t)
	args := map[string]any{"order_id": uuid.New()}
	ids := map[string]int64{}
	for _, state := range []string{"discarded", "cancelled", "retryable", "scheduled", "completed", "available", "running", "pending"} {
		ids[state] = b.job(t, "fulfill_order", state, args)
	}
	single := b.job(t, "sweep_parked", "discarded", map[string]any{})
	b.exec(t, `UPDATE river_job SET unique_key = 'x', unique_states = B'11110101' WHERE id = ?`, single)
	b.exec(t, `UPDATE river_job SET metadata = '{"cancel_attempted_at": "2026-01-01T00:00:00Z", "snoozes": 2}'`)
	untouched := func() string {
		return value[string](t, b, `SELECT string_agg(CAST(j AS text), ' ' ORDER BY id) FROM river_job j WHERE state IN ('completed', 'available', 'running', 'pending') AND id IN ? OR id = ?`,
			[]int64{ids["completed"], ids["available"], ids["running"], ids["pending"]}, single)
	}
	before := untouched()

	want := []int64{ids["discarded"], ids["cancelled"], ids["retryable"], ids["scheduled"]}
	if due, _ := b.retried(t, fulfillment.JobFilter{}, fulfillment.Retry{DryRun: true}); !slices.Equal(due, want) {
		t.Errorf("a dry run tells of %v, want %v", due, want)
	}
	if n := b.count(t, `SELECT count(*) FROM river_job WHERE state = 'available'`); n != 1 {
		t.Errorf("a dry run made %d jobs available", n-1)
	}
	due, left := b.retried(t, fulfillment.JobFilter{}, fulfillment.Retry{})
	if !slices.Equal(due, want) || len(left) != 5 || left[ids["completed"]] != "it is completed" || left[single] == "" {
		t.Errorf("due %v, want %v; left %v", due, want, left)
	}
	if n := b.count(t, `SELECT count(*) FROM river_job WHERE id IN ? AND state = 'available' AND scheduled_at <= now() AND finalized_at IS NULL
		AND attempt = 3 AND max_attempts = 8 AND metadata = '{"snoozes": 2}' AND array_length(errors, 1) = 1`, want); n != 4 {
		t.Errorf("%d are available with five more attempts and their history, want 4", n)
	}
	if after := untouched(); after != before {
		t.Errorf("others were touched\n%s\n%s", before, after)
	}
	if due, _ = b.retried(t, fulfillment.JobFilter{States: fulfillment.DeadStates()}, fulfillment.Retry{}); len(due) != 0 {
		t.Errorf("the second time: %v, want nothing", due)
	}
}

func TestRetryJobs_Staggers(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for range 20 {
		b.job(t, "fulfill_order", "discarded", map[string]any{"order_id": uuid.New()})
	}
	due, _ := b.retried(t, fulfillment.JobFilter{States: fulfillment.DeadStates()}, fulfillment.Retry{Stagger: 2 * time.Second, Attempts: 1})
	if len(due) != 20 || !slices.IsSorted(due) {
		t.Fatalf("due %v, want 20, the oldest first", due)
	}
	spread := value[string](t, b, `SELECT string_agg(CAST(wait AS text), ' ' ORDER BY id) FROM (
		SELECT id, round(extract(epoch FROM scheduled_at - min(scheduled_at) OVER ())) AS wait FROM river_job WHERE max_attempts = 4
		AND state = CASE WHEN scheduled_at > now() THEN 'scheduled' ELSE 'available' END::river_job_state) j`)
	want := ""
	for n := range 20 {
		want += fmt.Sprint(2*n) + " "
	}
	if spread != strings.TrimSpace(want) {
		t.Errorf("due after %s seconds, want every two", spread)
	}
}

func TestFindJobs_NamesTheUnknown(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.job(t, "fulfill_order", "discarded", map[string]any{})
	jobs, err := b.service.FindJobs(t.Context(), id, 998, 999)
	if len(jobs) != 1 || !errors.Is(err, fulfillment.ErrNoJob) || !strings.Contains(err.Error(), "998") || !strings.Contains(err.Error(), "999") {
		t.Errorf("got %d, %v", len(jobs), err)
	}
}

// The provider refused to be told what was bought, for a cause that is mended since. The job is
// tried again, and its call is made under the same key.
func TestRetryJobs_ARefusedNoticeIsMadeAgain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	o := b.order(t)
	b.sim.Inject(stripesim.Fault{Method: http.MethodPost, Path: "/v1/payment_intents", Status: http.StatusBadRequest})
	b.start(t)
	b.deliverPaid(t, o)
	eventually(t, "the notice is refused", func() bool { return b.jobState(t, "notify_provider") == "cancelled" })
	b.wantAttention(t, o, fulfillment.AttentionCall)

	results, err := b.service.RetryJobs(t.Context(), fulfillment.JobFilter{Kinds: []string{"notify_provider"}}, fulfillment.Retry{})
	if err != nil || len(results) != 1 || results[0].Call != "fulfill:"+o.ID.String() {
		t.Fatalf("got %+v, %v; want the job with its call", results, err)
	}
	eventually(t, "the job is completed", func() bool { return b.jobState(t, "notify_provider") == "completed" })
	b.wantEffects(t, o, once(o))
	b.wantAttention(t, o)
	b.wantNoneNeedsAttention(t)
}

// A checkout that was refused is closed, and the buyer may have another by now; money may have
// gone back another way. Their jobs are left dead, and no key is sent again.
func TestRetryJobs_ARefusedDecisionIsNotRepeated(t *testing.T) {
	t.Parallel()
	b := setup(t)
	o := b.unopened(t)
	b.sim.Inject(stripesim.Fault{Method: http.MethodPost, Status: http.StatusBadRequest})
	if err := b.service.OpenCheckout(t.Context(), o.callKey); !errors.Is(err, provider.ErrRefused) {
		t.Fatal(err)
	}
	b.exec(t, `UPDATE river_job SET state = 'cancelled', finalized_at = now() WHERE kind = 'create_checkout'`)
	refund := "refund:" + uuid.NewString()
	b.exec(t, `INSERT INTO provider_calls (idempotency_key, provider, livemode, account, operation, subject_id, path, params, created_at, state)
		VALUES (?, 'stripe', false, '', 'refund', ?, '/v1/refunds', '', now(), 'failed')`, refund, uuid.New())
	b.job(t, "send_refund", "cancelled", map[string]any{"idempotency_key": refund})
	due, left := b.retried(t, fulfillment.JobFilter{}, fulfillment.Retry{})
	if len(due) != 0 || len(left) != 2 {
		t.Errorf("due %v, left %v; want both left", due, left)
	}
	for id, why := range left {
		if !strings.Contains(why, "refused its call") {
			t.Errorf("job %d is left because %s", id, why)
		}
	}
	if reopened, err := b.calls.Reopen(t.Context(), b.db.Gorm, []string{o.callKey, refund}); err != nil || len(reopened) != 0 {
		t.Errorf("reopened %v, %v; want neither", reopened, err)
	}
	if failed := b.count(t, `SELECT count(*) FROM provider_calls WHERE state = 'failed'`); failed != 2 {
		t.Errorf("%d calls are refused, want 2", failed)
	}
	b.wantAttention(t, o, fulfillment.AttentionCall)

	// The buyer opens another checkout, and nothing is left to look at.
	if _, err := b.service.CheckoutAgain(t.Context(), merchant(), o.ID, nil); err != nil {
		t.Fatal(err)
	}
	b.wantAttention(t, o)
}

// B26: nothing brings the dead back by itself. Ten sweeps leave every dead job and delivery as
// it is, one exception made: a delivery that had waited in vain for an id that is known now.
func TestB26NoSweepRaisesTheDead(t *testing.T) {
	t.Parallel()
	b := setup(t)
	placed := b.placed(t, 2, 1, 1)
	o, unmatched := placed[0], placed[1]
	b.record(t, o.checkouts[0].event("evt_dead", completed))
	b.record(t, unmatched.checkouts[0].event("evt_unmatched", completed))
	b.exec(t, `UPDATE webhook_deliveries SET processed_at = now(), outcome = 'dead', attempts = 10, last_error = 'broken' WHERE event_id = 'evt_dead'`)
	b.exec(t, `UPDATE webhook_deliveries SET processed_at = now(), outcome = 'dead', detail = ? WHERE event_id = 'evt_unmatched'`, webhooks.Unmatched)
	b.exec(t, `INSERT INTO delivery_resources SELECT provider, resource_id, event_id FROM webhook_deliveries`)
	was := b.delivery(t, "evt_dead")
	for _, state := range []string{"discarded", "cancelled"} {
		b.job(t, "fulfill_order", state, map[string]any{"order_id": o.ID})
		b.job(t, "no_such_kind", state, map[string]any{})
	}
	b.exec(t, `UPDATE river_job SET queue = 'elsewhere' WHERE kind = 'no_such_kind'`)
	const dead = `SELECT string_agg(concat_ws(' ', id, state, attempt, max_attempts, finalized_at, errors), E'\n' ORDER BY id) FROM river_job WHERE kind <> 'sweep_parked'`
	before := value[string](t, b, dead)

	b.start(t) // with its own sweep, rescuer, scheduler and cleaner
	for range 10 {
		if err := b.service.SweepParked(t.Context(), noJob); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the periodic sweep has run", func() bool {
		return b.count(t, `SELECT count(*) FROM river_job WHERE kind = 'sweep_parked' AND state = 'completed'`) > 0
	})
	if after := value[string](t, b, dead); after != before {
		t.Errorf("dead jobs changed\n%s\n%s", before, after)
	}
	if d := b.delivery(t, "evt_dead"); d.outcome() != webhooks.OutcomeDead || d.Attempts != was.Attempts {
		t.Errorf("the dead delivery is %+v, was %+v", d, was)
	}
	if d := b.delivery(t, "evt_unmatched"); d.ProcessedAt != nil {
		t.Errorf("what waited for a known id is %+v, want it open", d)
	}
}

// jobPoisonEnv makes this test binary a process that works a database's jobs, and is killed,
// as by kill -9, by the mail to one order.
const jobPoisonEnv = "PAIDONCE_TEST_WORK"

// workAsChild is the child's main; it returns the exit code.
func workAsChild(dsn, poisonOrder string) int {
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	mailer := &recorder{answer: func(m fulfillment.Message) error {
		if strings.Contains(m.MessageID, poisonOrder) {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {} // the signal is on its way
		}
		return nil
	}}
	b, err := wire(ctx, dsn, "http://127.0.0.1:1", mailer, 0)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer b.db.Close()
	client, err := fulfillment.NewClient(b.db, fulfillment.Workers(b.service), fulfillment.Queues(), 2, b.service.Log)
	if err == nil {
		err = client.Start(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for open := 1; open > 0; <-ticker.C {
		const left = `SELECT count(*) FROM river_job WHERE finalized_at IS NULL AND kind = 'send_receipt'`
		if err := b.db.Gorm.WithContext(ctx).Raw(left).Row().Scan(&open); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	_ = client.StopAndCancel(context.WithoutCancel(ctx))
	return 0
}

// B26: a job that kills its process, among 100 good ones. Every crash counts as an attempt; at
// the end of them the job is dead, without a worker that could say so, and stays dead; the
// good ones are done, each once; and a person can have it tried again.
func TestB26AJobThatKillsItsProcessEndsAndHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	const attempts = 3
	b := setup(t)
	placed := b.paid(t, 101, 1)
	bad := placed[50]
	for _, o := range placed {
		if err := b.service.FulfillOrder(t.Context(), o.ID, noJob); err != nil {
			t.Fatal(err)
		}
	}
	b.exec(t, `DELETE FROM river_job WHERE kind <> 'send_receipt'`)
	b.exec(t, `DELETE FROM provider_calls`) // whose jobs these were
	b.exec(t, `UPDATE river_job SET max_attempts = ? WHERE args->>'order_id' = CAST(? AS text)`, attempts, bad.ID)
	job := value[int64](t, b, `SELECT id FROM river_job WHERE args->>'order_id' = CAST(? AS text)`, bad.ID)

	crashes := 0
	for {
		child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^$")
		child.Env = append(os.Environ(), jobPoisonEnv+"="+b.dsn, poisonOrderEnv+"="+bad.ID.String())
		out, err := child.CombinedOutput()
		if err == nil {
			break
		}
		if exit := new(exec.ExitError); !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
			t.Fatalf("the child ended with %v: %s", err, out)
		}
		if crashes++; crashes > 2*attempts {
			t.Fatalf("killed %d processes, and no end", crashes)
		}
		// Time passes: the dead process's jobs are stuck for long, its leases have lapsed, and
		// the mail, which may have gone out, is known not to have.
		b.exec(t, `UPDATE river_job SET attempted_at = attempted_at - interval '10 minutes' WHERE state = 'running'`)
		b.exec(t, `UPDATE river_job SET scheduled_at = now() WHERE state IN ('retryable', 'scheduled')`)
		b.exec(t, `UPDATE sent_receipts SET state = 'intended', sending_until = NULL WHERE state = 'sending'`)
		b.exec(t, `DELETE FROM river_leader`)
	}
	if crashes != attempts {
		t.Errorf("killed %d processes, want one for each of its %d attempts", crashes, attempts)
	}
	const end = `SELECT concat_ws(' ', state, attempt, array_length(errors, 1)) FROM river_job WHERE id = ?`
	if got, want := value[string](t, b, end, job), fmt.Sprintf("discarded %d %d", attempts, attempts); got != want {
		t.Errorf("the poison job is %s, want %s", got, want)
	}
	if done := b.count(t, `SELECT count(*) FROM sent_receipts WHERE state = 'sent'`); done != 100 {
		t.Errorf("%d mails went out, want those of the 100 good jobs", done)
	}
	b.wantAttention(t, bad, fulfillment.AttentionJob)

	// Whoever sweeps tells of it, once.
	log := &alerts{}
	b.service.Log = log.logger()
	for range 3 {
		if err := b.service.SweepParked(t.Context(), noJob); err != nil {
			t.Fatal(err)
		}
	}
	if told := b.count(t, `SELECT count(*) FROM river_job WHERE id = ? AND metadata->'paidonce_announced' IS NOT NULL`, job); told != 1 || log.count() != 1 {
		t.Errorf("its end was told %d times (marked: %d), want once", log.count(), told)
	}

	// A person, once the fault is mended.
	if due, left := b.retried(t, fulfillment.JobFilter{States: fulfillment.DeadStates()}, fulfillment.Retry{}); !slices.Equal(due, []int64{job}) {
		t.Errorf("due %v, left %v; want the one", due, left)
	}
	b.start(t)
	eventually(t, "its mail has gone out", func() bool { return b.mailer.to(bad.ID) == 1 })
	eventually(t, "its job is completed", func() bool { return strings.HasPrefix(value[string](t, b, end, job), "completed") })
	b.wantAttention(t, bad)
	b.wantState(t, bad, orders.Fulfilled)
}
