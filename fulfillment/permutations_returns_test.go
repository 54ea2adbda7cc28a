package fulfillment_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/tidwall/gjson"
	"gorm.io/gorm"

	"paidonce/fulfillment"
	"paidonce/internal/devpg/devpgtest"
	"paidonce/internal/stripesim"
	"paidonce/licenses"
	"paidonce/orders"
)

// life is what happens to the money of one order at the simulated Stripe.
type life struct {
	order
	paid              []stripesim.Payment
	refunds, disputes []string
	events            []stripesim.Event // the one that tells of each move, in the order of the moves
	arrived           []int             // how often each has arrived
}

// move is something that happens at Stripe, and the type of the event that tells of it.
type move struct {
	event string
	make  func(*stripesim.Sim, *life) ([]stripesim.Event, error)
}

func pays(nth int) move {
	return move{completed, func(sim *stripesim.Sim, l *life) ([]stripesim.Event, error) {
		paid, err := sim.Pay(l.checkouts[nth].Session, stripesim.PayOptions{Hold: true})
		l.paid = append(l.paid, paid)
		return paid.Events, err
	}}
}

func paysDelayed() move {
	return move{completed, func(sim *stripesim.Sim, l *life) ([]stripesim.Event, error) {
		paid, err := sim.Pay(l.checkouts[0].Session, stripesim.PayOptions{Hold: true, Delayed: true})
		l.paid = append(l.paid, paid)
		return paid.Events, err
	}}
}

func settles() move {
	return move{asyncPaid, func(sim *stripesim.Sim, l *life) ([]stripesim.Event, error) {
		return sim.SettleDelayed(l.checkouts[0].Session, true, stripesim.Held)
	}}
}

// refunds sends money of a payment back; 0 is all that is left.
func refunds(nth int, amount int64) move {
	return move{"charge.refunded", func(sim *stripesim.Sim, l *life) ([]stripesim.Event, error) {
		id, events, err := sim.Refund(l.paid[nth].PaymentIntentID, amount, "", stripesim.Held)
		l.refunds = append(l.refunds, id)
		return events, err
	}}
}

func failsRefund(nth int) move {
	return move{"charge.refund.updated", func(sim *stripesim.Sim, l *life) ([]stripesim.Event, error) {
		return sim.FailRefund(l.refunds[nth], stripesim.Held)
	}}
}

func opensDispute(nth int) move {
	return move{"charge.dispute.created", func(sim *stripesim.Sim, l *life) ([]stripesim.Event, error) {
		id, events, err := sim.OpenDispute(l.paid[nth].PaymentIntentID, 0, "", stripesim.Held)
		l.disputes = append(l.disputes, id)
		return events, err
	}}
}

func closesDispute(nth int, result string) move {
	return move{"charge.dispute.closed", func(sim *stripesim.Sim, l *life) ([]stripesim.Event, error) {
		return sim.CloseDispute(l.disputes[nth], result, stripesim.Held)
	}}
}

// story is moves in the order in which they happen, and the state that the order ends in.
type story struct {
	name      string
	checkouts int
	moves     []move
	ends      orders.State
}

func stories() []story {
	return []story{
		{"sent back in three parts", 1, []move{pays(0), refunds(0, 1000), refunds(0, 1000), refunds(0, 0)}, orders.Refunded},
		{"a part sent back", 1, []move{pays(0), refunds(0, 1000)}, orders.Fulfilled},
		{"sent back, and failed", 1, []move{pays(0), refunds(0, 0), failsRefund(0)}, orders.Fulfilled},
		{"a part sent back, the rest failed", 1, []move{pays(0), refunds(0, 1000), refunds(0, 0), failsRefund(1)}, orders.Fulfilled},
		{"disputed", 1, []move{pays(0), opensDispute(0)}, orders.Disputed},
		{"disputed and won", 1, []move{pays(0), opensDispute(0), closesDispute(0, "won")}, orders.Fulfilled},
		{"disputed and lost", 1, []move{pays(0), opensDispute(0), closesDispute(0, "lost")}, orders.ChargedBack},
		{"paid late, and sent back", 1, []move{paysDelayed(), settles(), refunds(0, 0)}, orders.Refunded},
		{"paid twice, one sent back", 2, []move{pays(0), pays(1), refunds(0, 0)}, orders.Fulfilled},
		{"paid twice, both gone", 2, []move{pays(0), pays(1), refunds(1, 0), opensDispute(0), closesDispute(0, "lost")}, orders.ChargedBack},
	}
}

// step is a move that happens at Stripe, or the arrival of the event that tells of it.
type step struct {
	move    int
	arrives bool
}

// jobs says what is done about the jobs that are ready at a step.
type jobs int

const (
	notYet    jobs = iota // nothing
	afterIt               // all are done after it
	newestOne             // the one that was made last is done after it
	around                // a read begins before it, and stores after it what it was told before
	overslept             // likewise, but for so long that another reads meanwhile
)

// timeline is one way in which a story comes about here.
type timeline struct {
	story story
	steps []step
	jobs  []jobs // at each step
	at    int    // which of the requests of a read a step happens at, where one is around it
}

func (l timeline) String() string {
	var text []string
	for i, s := range l.steps {
		what := fmt.Sprintf("%s (%d) happens", l.story.moves[s.move].event, s.move)
		if s.arrives {
			what = fmt.Sprintf("%s (%d) ARRIVES", l.story.moves[s.move].event, s.move)
		}
		text = append(text, what+[]string{
			"", ", all jobs", ", the newest job", fmt.Sprintf(" during request %d of a read", l.at),
			fmt.Sprintf(" during request %d of a read that oversleeps", l.at),
		}[l.jobs[i]])
	}
	return l.story.name + ":\n  " + strings.Join(text, "\n  ")
}

// orderings are all ways in which n moves happen one after another, and the event of each
// arrives at some time after it, one of them twice. twice is none of them if it is negative.
// If late, none arrives before all has happened.
func orderings(n, twice int, late bool) (all [][]step) {
	left := make([]int, n)
	for i := range left {
		left[i] = 1
	}
	if twice >= 0 {
		left[twice] = 2
	}
	var next func(happened int, so []step)
	next = func(happened int, so []step) {
		ended := happened == n
		if !ended {
			next(happened+1, append(slices.Clip(so), step{move: happened}))
		}
		for i := range happened {
			if left[i] == 0 {
				continue
			}
			ended = false
			if !late || happened == n {
				left[i]--
				next(happened, append(slices.Clip(so), step{move: i, arrives: true}))
				left[i]++
			}
		}
		if ended {
			all = append(all, so)
		}
	}
	next(0, nil)
	return all
}

// schedules are the ways in which jobs are done at n steps: for few, every combination; else at
// none, the same at all, and one kind at one of them alone.
func schedules(n int) (all [][]jobs) {
	kinds := []jobs{notYet, afterIt, newestOne, around, overslept}
	if n <= 4 {
		all = [][]jobs{nil}
		for range n {
			var longer [][]jobs
			for _, so := range all {
				for _, kind := range kinds {
					longer = append(longer, append(slices.Clip(so), kind))
				}
			}
			all = longer
		}
		return all
	}
	for _, kind := range kinds {
		all = append(all, slices.Repeat([]jobs{kind}, n))
	}
	for i := range n {
		for _, kind := range kinds[1:] {
			one := make([]jobs, n)
			one[i] = kind
			all = append(all, one)
		}
	}
	return all
}

// I5: whatever of a payment's money goes back, comes again, or is asked for, in whatever order
// the events about it arrive, one of them twice under another id, and whenever the jobs run
// and the reads read: it ends as Stripe has it. So do the state, the totals, the active
// licenses; there is one pay, and no mail goes out twice.
//
// Every order of arrival after all has happened is always complete, and for short stories every
// one of arrival while it happens, each with one schedule of the jobs, in turn. Of the others
// there is a part. With -full there are all, and those without a duplicate have every schedule.
func TestI5MoneyThatGoesBackEndsTheSame(t *testing.T) {
	t.Parallel()
	const sideBySide = 2
	var all [sideBySide][]timeline
	for _, story := range stories() {
		for i, l := range timelines(story) {
			all[i%sideBySide] = append(all[i%sideBySide], l)
		}
	}
	for i, part := range all {
		t.Run(fmt.Sprint("part ", i), func(t *testing.T) {
			t.Parallel()
			w := openWorld(t)
			for chunk := range slices.Chunk(part, 100) {
				w.run(t, chunk)
			}
			t.Logf("%d timelines", len(part))
		})
	}
}

// timelines are those of a story that are tried. The short form takes one in so many orderings.
func timelines(s story) (all []timeline) {
	n := len(s.moves)
	add := func(orderings [][]step, oneIn int, everySchedule bool) {
		for i, steps := range orderings {
			if i%oneIn != 0 && !*full || testing.Short() && i%4 != 0 {
				continue
			}
			possible := schedules(len(steps))
			if !*full || !everySchedule {
				possible = possible[(i/oneIn)%len(possible):][:1]
			}
			for j, jobs := range possible {
				all = append(all, timeline{story: s, steps: steps, jobs: jobs, at: (i + j) % 3})
			}
		}
	}
	if n > 4 {
		add(orderings(n, -1, true), 6, false)
		add(orderings(n, -1, false), 60, false)
		return all
	}
	add(orderings(n, -1, true), 1, true)
	add(orderings(n, -1, false), max(1, 5*(n-3)), true)
	for twice := range n {
		add(orderings(n, twice, true), 20, false)
		add(orderings(n, twice, false), 200, false)
	}
	return all
}

// world is a process, and Stripe behind a gate.
type world struct {
	*testBundle
	gate *gate
}

func openWorld(t *testing.T) *world {
	t.Helper()
	sim := stripesim.New(stripesim.Config{})
	gate := &gate{next: sim.Handler(), once: map[string]func(){}}
	server := httptest.NewServer(gate)
	t.Cleanup(server.Close)
	t.Cleanup(sim.Close)
	// What is not durable is only faster: nothing here crashes.
	dsn := devpgtest.New(t) + "&synchronous_commit=off&plan_cache_mode=force_generic_plan"
	b := newProcess(t, dsn, sim, server.URL, &recorder{}, 0)
	b.importProducts(t)
	b.drainer.Batch = 200
	return &world{testBundle: b, gate: gate}
}

// gate lets something happen between an answer of Stripe's and its arrival.
type gate struct {
	next http.Handler
	mu   sync.Mutex
	once map[string]func() // by path and intent
}

func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	answer := httptest.NewRecorder()
	g.next.ServeHTTP(answer, r)
	if r.Method == http.MethodGet {
		key := r.URL.Path + r.URL.Query().Get("payment_intent")
		g.mu.Lock()
		meanwhile := g.once[key]
		delete(g.once, key)
		g.mu.Unlock()
		if meanwhile != nil {
			meanwhile()
		}
	}
	for name, values := range answer.Header() {
		w.Header()[name] = values
	}
	w.WriteHeader(answer.Code)
	_, _ = w.Write(answer.Body.Bytes())
}

func (g *gate) set(key string, do func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if do == nil {
		delete(g.once, key)
		return
	}
	g.once[key] = do
}

// readyJob is a job that may be done.
type readyJob struct {
	ID   int64
	Kind string
	Args []byte
}

// ready are the jobs that may be done now, by their order, the oldest first.
func (w *world) ready(t *testing.T) map[uuid.UUID][]readyJob {
	t.Helper()
	var rows []struct {
		Job     readyJob `gorm:"embedded"`
		OrderID uuid.UUID
	}
	err := w.db.Gorm.WithContext(t.Context()).Raw(`
SELECT j.id, j.kind, j.args, coalesce(CAST(j.args->>'order_id' AS uuid), p.order_id, CAST(substring(j.args->>'idempotency_key' FROM '^fulfill:(.*)$') AS uuid)) AS order_id
FROM river_job j LEFT JOIN payments p ON p.id = CAST(j.args->>'payment_id' AS uuid)
WHERE j.state = 'available' ORDER BY j.id`).Scan(&rows).Error
	if err != nil {
		t.Fatal(err)
	}
	found := map[uuid.UUID][]readyJob{}
	for _, row := range rows {
		found[row.OrderID] = append(found[row.OrderID], row.Job)
	}
	return found
}

func (w *world) doOne(t *testing.T, job readyJob) error {
	t.Helper()
	const end = `UPDATE river_job SET state = 'completed', finalized_at = now() WHERE id = ?`
	err := w.do(t.Context(), job.Kind, job.Args, func(tx *gorm.DB) error { return tx.Exec(end, job.ID).Error })
	if err == nil {
		w.exec(t, end, job.ID)
	}
	return err
}

func (w *world) mustDo(t *testing.T, job readyJob) {
	t.Helper()
	if err := w.doOne(t, job); err != nil {
		t.Fatalf("job %s %s: %v", job.Kind, job.Args, err)
	}
}

// take lets a step come about: something happens at Stripe, or an event is recorded.
func (w *world) take(t *testing.T, l *life, s step, moves []move) {
	t.Helper()
	if s.arrives {
		l.arrived[s.move]++
		body := l.events[s.move].Body
		if n := l.arrived[s.move]; n > 1 {
			body = again(l.events[s.move], n)
		}
		w.record(t, body)
		return
	}
	w.happen(t, l, moves[s.move])
}

func (w *world) happen(t *testing.T, l *life, m move) {
	t.Helper()
	events, err := m.make(w.sim, l)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(events, func(e stripesim.Event) bool { return e.Type == m.event })
	if i < 0 {
		t.Fatalf("no event %s among %d", m.event, len(events))
	}
	l.events, l.arrived = append(l.events, events[i]), append(l.arrived, 0)
}

// drainAll drains, and leaves parked deliveries to who learns their ids.
func (w *world) drainAll(t *testing.T) {
	t.Helper()
	w.drain(t)
	w.exec(t, `UPDATE webhook_deliveries SET next_attempt_at = now() + interval '1 hour' WHERE outcome = 'parked' AND next_attempt_at > now()`)
}

// during does a read, and lets something happen after Stripe has answered its n-th request.
// It happens in any case: after the read, if that asked for less.
func (w *world) during(t *testing.T, l *life, job readyJob, nth int, do func()) error {
	t.Helper()
	var args fulfillment.ReadPaymentArgs
	if err := json.Unmarshal(job.Args, &args); err != nil {
		t.Fatal(err)
	}
	session := l.checkouts[slices.IndexFunc(l.checkouts, func(c checkout) bool { return c.PaymentID == args.PaymentID })].Session
	key := "/v1/checkout/sessions/" + session
	if i := slices.IndexFunc(l.paid, func(p stripesim.Payment) bool { return p.SessionID == session }); nth > 0 && i >= 0 {
		key = []string{"/v1/refunds", "/v1/disputes"}[nth-1] + l.paid[i].PaymentIntentID
	}
	done := false
	w.gate.set(key, func() { do(); done = true })
	err := w.doOne(t, job)
	w.gate.set(key, nil)
	if !done {
		do()
	}
	return err
}

// oversleep is during, for longer than the reader has: others read meanwhile.
func (w *world) oversleep(t *testing.T, l *life, job readyJob, nth int, do func()) {
	t.Helper()
	err := w.during(t, l, job, nth, func() {
		do()
		w.exec(t, `UPDATE payments SET read_until = now() WHERE order_id = ? AND read_until IS NOT NULL`, l.ID)
		for _, other := range w.ready(t)[l.ID] {
			if other.ID != job.ID && other.Kind == "read_payment" {
				w.mustDo(t, other)
			}
		}
	})
	if err != nil && !fulfillment.IsBeingRead(err) { // then the job comes again
		t.Fatal(err)
	}
}

// run lets timelines come about side by side, an order each: the n-th steps of all of them
// before the next.
func (w *world) run(t *testing.T, all []timeline) {
	t.Helper()
	lives := make([]*life, len(all))
	longest := 0
	for i, l := range all {
		lives[i] = &life{order: w.order(t)}
		if l.story.checkouts == 2 {
			lives[i].order = w.secondCheckout(t, lives[i].order)
		}
		longest = max(longest, len(l.steps))
	}
	for n := range longest {
		w.runStep(t, all, lives, n)
	}
	w.finish(t)
	w.wantNoMailTwice(t)
	faults := 0
	for i, l := range all {
		want := w.truth(t, lives[i])
		if want.State != l.story.ends {
			t.Fatalf("order %s: Stripe's objects call for %s, the story for %s; %s", lives[i].ID, want.State, l.story.ends, l)
		}
		if diff := cmp.Diff(want, w.came(t, lives[i])); diff != "" {
			if faults++; faults < 4 {
				t.Errorf("order %s (-want +got):\n%safter %s", lives[i].ID, diff, l)
			}
		}
	}
	if faults > 0 {
		t.Fatalf("%d of %d timelines ended otherwise", faults, len(all))
	}
}

func (w *world) runStep(t *testing.T, all []timeline, lives []*life, n int) {
	t.Helper()
	at := func(l timeline) jobs {
		if n < len(l.steps) {
			return l.jobs[n]
		}
		return notYet
	}
	for i, l := range all {
		if n < len(l.steps) && at(l) != around && at(l) != overslept {
			w.take(t, lives[i], l.steps[n], l.story.moves)
		}
	}
	w.drainAll(t)
	ready := w.ready(t)
	for i, l := range all {
		if at(l) != around && at(l) != overslept {
			continue
		}
		do := func() {
			w.take(t, lives[i], l.steps[n], l.story.moves)
			w.drainAll(t)
		}
		reads := slices.DeleteFunc(slices.Clone(ready[lives[i].ID]), func(j readyJob) bool { return j.Kind != "read_payment" })
		switch {
		case len(reads) == 0:
			do()
		case at(l) == around:
			if err := w.during(t, lives[i], reads[0], l.at, do); err != nil {
				t.Fatal(err)
			}
		default:
			w.oversleep(t, lives[i], reads[0], l.at, do)
		}
	}
	for i, l := range all {
		switch mine := ready[lives[i].ID]; {
		case at(l) == newestOne && len(mine) > 0:
			w.mustDo(t, mine[len(mine)-1])
		case at(l) == afterIt:
			for ; len(mine) > 0; mine = w.ready(t)[lives[i].ID] {
				for _, job := range mine {
					w.mustDo(t, job)
				}
			}
		}
	}
}

// finish drains and does jobs until nothing is left.
func (w *world) finish(t *testing.T) {
	t.Helper()
	for range 50 {
		w.drainAll(t)
		ready := w.ready(t)
		if len(ready) == 0 {
			return
		}
		for _, mine := range ready {
			for _, job := range mine {
				w.mustDo(t, job)
			}
		}
	}
	t.Fatal("work is never done")
}

// returned is what a timeline ends in.
type returned struct {
	State              orders.State
	Pays               int
	Licenses           int // active
	Received, Refunded int64
	Open               int // deliveries that are open, dead or taken for somebody else's
}

// gjsonOf is an object of the simulated Stripe's.
func gjsonOf(json []byte, _ bool) gjson.Result { return gjson.ParseBytes(json) }

// truth is what has to come of an order, told from Stripe's own objects as they are now.
func (w *world) truth(t *testing.T, l *life) returned {
	t.Helper()
	look := func(json []byte, ok bool) gjson.Result {
		if !ok {
			t.Fatalf("order %s: an object is not at Stripe", l.ID)
		}
		return gjson.ParseBytes(json)
	}
	facts := orders.Facts{Fulfilled: true}
	var want returned
	for _, c := range l.checkouts {
		session := look(w.sim.Session(c.Session))
		f := orders.PaymentFacts{
			ResourceID: c.Session, CreatedAt: time.Unix(session.Get("created").Int(), 0), Status: orders.StatusOpen,
		}
		if id := session.Get("payment_intent").Str; session.Get("payment_status").Str == "paid" {
			charge := look(w.sim.Charge(look(w.sim.PaymentIntent(id)).Get("latest_charge").Str))
			f.Status, f.Agreed = orders.StatusSucceeded, charge.Get("amount").Int() == l.Total
			f.Returned = charge.Get("refunded").Bool()
			want.Received += charge.Get("amount_captured").Int()
			want.Refunded += charge.Get("amount_refunded").Int()
			for _, dispute := range l.disputes {
				if d := look(w.sim.Dispute(dispute)); d.Get("payment_intent").Str == id {
					f.DisputeOpen = f.DisputeOpen || d.Get("status").Str == "needs_response"
					f.DisputeLost = f.DisputeLost || d.Get("status").Str == "lost"
				}
			}
		} else if id != "" {
			f.Status = orders.StatusProcessing
		}
		facts.Payments = append(facts.Payments, f)
	}
	want.State, _ = orders.Target(facts)
	if want.Received > 0 {
		want.Pays = 1
	}
	if want.State == orders.Fulfilled {
		want.Licenses = l.Quantity
	}
	return want
}

// came is what came of an order.
func (w *world) came(t *testing.T, l *life) returned {
	t.Helper()
	view := w.view(t, l.order)
	got := returned{State: view.Order.State, Received: view.ReceivedMinor(), Refunded: view.RefundedMinor()}
	for _, step := range view.Transitions {
		if step.Event == orders.Pay {
			got.Pays++
		}
	}
	got.Licenses = w.count(t, `SELECT count(*) FROM licenses WHERE order_id = ? AND status = ?`, l.ID, licenses.StatusActive)
	for i, e := range l.events {
		got.Open += w.count(t, `
SELECT count(*) FROM webhook_deliveries
WHERE starts_with(event_id, ?) AND (processed_at IS NULL OR outcome NOT IN ('applied', 'already', 'stale', 'read'))`, e.ID)
		if l.arrived[i] == 0 {
			t.Fatalf("order %s: event %d never arrived", l.ID, i)
		}
	}
	return got
}

func (w *world) view(t *testing.T, o order) orders.View {
	t.Helper()
	view, err := w.orders.Get(t.Context(), o.ID)
	if err != nil {
		t.Fatal(err)
	}
	return view
}

// wantNoMailTwice: a kind of mail about a subject went out once, if at all.
func (w *world) wantNoMailTwice(t *testing.T) {
	t.Helper()
	seen := map[string]bool{}
	for _, m := range w.mailer.messages() {
		if seen[m.MessageID] {
			t.Errorf("mail %s went out twice: %s", m.MessageID, m.Subject)
		}
		seen[m.MessageID] = true
	}
	if len(seen) == 0 {
		t.Error("no mail went out at all")
	}
}
