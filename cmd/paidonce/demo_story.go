package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/google/uuid"

	"paidonce/internal/database"
	"paidonce/internal/money"
	"paidonce/internal/stripesim"
	"paidonce/orders"
)

// demoOrder is an order of the demo, as the client that made it knows it.
type demoOrder struct {
	ID          uuid.UUID `json:"id"`
	Number      int64     `json:"number"`
	TotalMinor  int64     `json:"total_minor"`
	CheckoutURL string    `json:"checkout_url"`
	Token       string    `json:"token"`
	session     string
	story       string // for the table
}

// tell is the story.
func (w *demoWorld) tell(ctx context.Context, say *narrator) error {
	say.line("  Stripe     simulated, %s", w.env["STRIPE_API_BASE"])
	say.line("  Web        http://%s", w.env["ADDR"])
	say.line("\nAn order of two, paid:")
	order, err := w.order(ctx)
	if err != nil {
		return err
	}
	say.fact("I10", order.TotalMinor == 3998, "order %d over HTTP: 2 x 19.99 = %s, in integers", order.Number, usd(order.TotalMinor))
	paid, err := w.sim.Pay(order.session, stripesim.PayOptions{Hold: true})
	if err != nil {
		return fmt.Errorf("paying: %w", err)
	}
	if err := w.deliverFourTimes(ctx, say, paid); err != nil {
		return err
	}
	if err := w.killBetween(ctx, say, order); err != nil {
		return err
	}
	if err := w.finish(ctx, say, order, paid); err != nil {
		return err
	}
	order.story = "paid, killed between"
	told := []demoOrder{order}
	for _, chapter := range []struct {
		title, story string
		tell         func(context.Context, *narrator) (demoOrder, error)
	}{
		{"The refund arrives before the payment", "refund first", w.refundFirst},
		{"The checkout expires, and the money comes late", "late money", w.lateMoney},
		{"Wrong money, and a person decides", "wrong, then accepted", w.payWrong},
	} {
		say.line("\n%s:", chapter.title)
		next, err := chapter.tell(ctx, say)
		if err != nil {
			return err
		}
		next.story = chapter.story
		told = append(told, next)
	}
	say.line("\nThe bank asks for the first order's money back, and the merchant wins:")
	if err := w.disputeWon(ctx, say, order, paid); err != nil {
		return err
	}
	told[0].story += ", dispute won"
	say.line("")
	return w.table(ctx, say, told)
}

// deliverFourTimes posts the paying event twice at once, and twice more.
func (w *demoWorld) deliverFourTimes(ctx context.Context, say *narrator, paid stripesim.Payment) error {
	completed := eventOf(paid.Events, "checkout.session.completed")
	answers := make([]string, 4)
	faults := make([]error, 4)
	var atOnce sync.WaitGroup
	for i := range 2 {
		atOnce.Go(func() { answers[i], faults[i] = w.post(ctx, completed) })
	}
	atOnce.Wait()
	for i := 2; i < 4; i++ {
		answers[i], faults[i] = w.post(ctx, completed)
	}
	if err := errors.Join(faults...); err != nil {
		return err
	}
	slices.Sort(answers[:2])
	want := []string{"200 accepted", "200 duplicate", "200 duplicate", "200 duplicate"}
	say.fact("I1", slices.Equal(answers, want), "%s posted four times, two at once: %s", completed.ID, strings.Join(answers, ", "))
	stored, err := w.count(ctx, `SELECT count(*) FROM webhook_deliveries WHERE event_id = ?`, completed.ID)
	say.fact("I2", stored == 1, "the ledger has %d row of it, stored before the first answer", stored)
	return err
}

// killBetween lets a worker issue the licenses and kills it before the receipt.
func (w *demoWorld) killBetween(ctx context.Context, say *narrator, order demoOrder) error {
	// It works no other queue: had it fetched the receipt's job before it died, that would
	// only be rescued a minute later, and nobody watches that long.
	doomed, err := w.startWorker(ctx, "--crash-at", "CW7", "--queue", "fulfill_order")
	if err != nil {
		return err
	}
	select {
	case <-doomed.ended:
	case <-time.After(demoPatience):
		return fmt.Errorf("the worker was to be killed and was not; its log:\n%s", doomed.output)
	}
	killed := doomed.cmd.ProcessState.ExitCode() == -1 // by a signal
	issued, err1 := w.count(ctx, `SELECT count(*) FROM licenses WHERE order_id = ?`, order.ID)
	intended, err2 := w.count(ctx, `SELECT count(*) FROM sent_receipts WHERE order_id = ? AND state = 'intended'`, order.ID)
	mails, _, err3 := w.mails(order.ID)
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	say.fact("I7", killed && issued == 2 && intended == 1 && mails == 0,
		"the worker is killed (kill -9) between license and receipt: %d licenses, %d receipt written down, %d sent", issued, intended, mails)
	return nil
}

// finish starts another worker, waits until all is done, delivers everything once more, and
// looks that nothing more happened.
func (w *demoWorld) finish(ctx context.Context, say *narrator, order demoOrder, paid stripesim.Payment) error {
	if _, err := w.startWorker(ctx); err != nil {
		return err
	}
	if err := w.settled(ctx, order.ID, orders.Fulfilled); err != nil {
		return err
	}
	once, err := w.effects(ctx, order)
	if err != nil {
		return err
	}
	say.fact("I7", once.receipts == 1 && once.told == 1, "another worker goes on: %d receipt sent, Stripe told once under fulfill:<order id>", once.receipts)
	say.fact("I6", once.issued == 2 && once.active == 2, "%d licenses for a quantity of 2, one per line and ordinal", once.issued)

	for _, event := range paid.Events {
		if _, err := w.post(ctx, event); err != nil {
			return err
		}
	}
	if err := w.settled(ctx, order.ID, orders.Fulfilled); err != nil {
		return err
	}
	again, err := w.effects(ctx, order)
	if err != nil {
		return err
	}
	say.fact("I3", again == once && again.paid == 1, "intent, charge and session events all say paid: %d paid transition, nothing more happened", again.paid)
	say.fact("I5", again.state == orders.Fulfilled, "the order is %s, whichever of them came first", again.state)
	return nil
}

// payWrong pays an order with an amount that was not agreed, and has a person accept it.
func (w *demoWorld) payWrong(ctx context.Context, say *narrator) (demoOrder, error) {
	order, err := w.order(ctx)
	if err != nil {
		return order, err
	}
	amount := int64(100)
	paid, err := w.sim.Pay(order.session, stripesim.PayOptions{Hold: true, Amount: &amount})
	if err != nil {
		return order, fmt.Errorf("paying: %w", err)
	}
	answer, err := w.post(ctx, eventOf(paid.Events, "checkout.session.completed"))
	if err != nil {
		return order, err
	}
	var view orders.View
	err = eventually(ctx, "the order to be held", func(ctx context.Context) (bool, error) {
		view, err = w.app.orders.Get(ctx, order.ID)
		return view.Order.State != orders.Pending, err
	})
	if err != nil {
		return order, err
	}
	reason := orders.NoReason
	if view.Order.ReviewReason != nil {
		reason = *view.Order.ReviewReason
	}
	say.fact("I4", answer == "200 accepted" && view.Order.State == orders.Review && reason == orders.ReasonAmount,
		"asked for %s, received %s: answered %q, held in %s (%s), nothing fulfilled",
		usd(order.TotalMinor), usd(view.ReceivedMinor()), answer, view.Order.State, reason)

	person := orders.Person{Name: "demo", Why: "the rest was paid in cash"}
	if _, err := w.app.orders.Accept(ctx, order.ID, person); err != nil {
		return order, err
	}
	again, err := w.app.orders.Accept(ctx, order.ID, person)
	if err != nil {
		return order, err
	}
	if err := w.settled(ctx, order.ID, orders.Fulfilled); err != nil {
		return order, err
	}
	after, err := w.effects(ctx, order)
	say.fact("I3", again.Repeat && after.paid == 1 && after.active == 2,
		"orders accept, given twice: %d paid transition by the person, %d licenses, %d receipt", after.paid, after.active, after.receipts)
	return order, err
}

// effects is what an order has caused, counted where it can be seen from outside.
type effects struct {
	state                                      orders.State
	paid, issued, active, receipts, told, news int64
}

func (w *demoWorld) effects(ctx context.Context, order demoOrder) (effects, error) {
	view, err1 := w.app.orders.Get(ctx, order.ID)
	paid, err2 := w.count(ctx, `SELECT count(*) FROM order_transitions WHERE order_id = ? AND event = 'pay'`, order.ID)
	issued, err3 := w.count(ctx, `SELECT count(*) FROM licenses WHERE order_id = ?`, order.ID)
	active, err4 := w.count(ctx, `SELECT count(*) FROM licenses WHERE order_id = ? AND status = 'active'`, order.ID)
	receipts, news, err5 := w.mails(order.ID)
	var told int64
	for _, call := range w.sim.Calls() {
		if call.IdempotencyKey == "fulfill:"+order.ID.String() && !call.Replayed {
			told++
		}
	}
	return effects{
		state: view.Order.State, paid: paid, issued: issued, active: active, receipts: receipts, news: news, told: told,
	}, errors.Join(err1, err2, err3, err4, err5)
}

// table ends the story: orders by effects.
func (w *demoWorld) table(ctx context.Context, say *narrator, all []demoOrder) error {
	table := tabwriter.NewWriter(say.out, 0, 0, 3, ' ', 0)
	_, _ = fmt.Fprintln(table, "  order\tstory\tstate\tpaid\tlicenses active\treceipts\tother mails\tStripe told")
	for _, order := range all {
		e, err := w.effects(ctx, order)
		if err != nil {
			return err
		}
		_, _ = fmt.Fprintf(table, "  %d\t%s\t%s\t%d\t%d\t%d\t%d\t%d\n",
			order.Number, order.story, e.state, e.paid, e.active, e.receipts, e.news, e.told)
	}
	return table.Flush()
}

// invite says what there is to look at while the demo stays up.
func (w *demoWorld) invite(say *narrator) {
	say.line("\nStill up, until Ctrl-C:")
	say.line("  make an order   curl -s http://%s/orders -d '{\"email\":\"you@example.com\",\"items\":[{\"sku\":\"DEMO-KEY\",\"quantity\":1}]}'", w.env["ADDR"])
	say.line("  pay it          open its checkout_url")
	say.line("  receipts        %s", w.mailDir)
	say.line("  the database    psql %q", w.env["DATABASE_URL"])
	w.sim.SetWebhooks([]stripesim.Endpoint{{URL: "http://" + w.env["ADDR"] + "/webhooks/stripe", Secrets: []string{w.env["STRIPE_WEBHOOK_SECRETS"]}}})
}

// order makes an order of two over HTTP.
func (w *demoWorld) order(ctx context.Context) (demoOrder, error) {
	var order demoOrder
	const wanted = `{"email":"buyer@example.com","items":[{"sku":"DEMO-KEY","quantity":2}]}`
	return order, w.checkout(ctx, &order, "/orders", []byte(wanted), nil)
}

// checkout posts what answers with an order and its checkout.
func (w *demoWorld) checkout(ctx context.Context, order *demoOrder, path string, body []byte, header http.Header) error {
	status, answer, err := w.request(ctx, path, body, header)
	if err != nil {
		return err
	}
	if status != http.StatusCreated {
		return fmt.Errorf("posting to %s: %d %s", path, status, answer)
	}
	if err := json.Unmarshal(answer, order); err != nil {
		return fmt.Errorf("posting to %s: %w", path, err)
	}
	order.session = order.CheckoutURL[strings.LastIndex(order.CheckoutURL, "/")+1:]
	return nil
}

// post delivers an event as Stripe does, and returns the answer's status and word.
func (w *demoWorld) post(ctx context.Context, e stripesim.Event) (string, error) {
	signature := stripesim.Sign(e.Body, database.Now(), w.env["STRIPE_WEBHOOK_SECRETS"])
	status, body, err := w.request(ctx, "/webhooks/stripe", e.Body, http.Header{"Stripe-Signature": {signature}})
	if err != nil {
		return "", err
	}
	var answer struct {
		Status any `json:"status"` // a word, or the number of a problem
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return "", fmt.Errorf("the answer to a delivery: %w", err)
	}
	return fmt.Sprintf("%d %v", status, answer.Status), nil
}

func (w *demoWorld) request(ctx context.Context, path string, body []byte, header http.Header) (int, []byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+w.env["ADDR"]+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, fmt.Errorf("posting to %s: %w", path, err)
	}
	for name, values := range header {
		request.Header[name] = values
	}
	response, err := (&http.Client{Timeout: demoPatience}).Do(request)
	if err != nil {
		return 0, nil, fmt.Errorf("posting to %s: %w", path, err)
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	return response.StatusCode, answer, err
}

// settled waits until the order has come to a state and nothing is open any more: no
// delivery, and no job that is due.
func (w *demoWorld) settled(ctx context.Context, order uuid.UUID, state orders.State) error {
	const open = `
SELECT (SELECT count(*) FROM webhook_deliveries WHERE processed_at IS NULL)
     + (SELECT count(*) FROM river_job WHERE state IN ('available', 'running', 'retryable') AND kind <> 'sweep_parked')
     + (SELECT count(*) FROM orders WHERE id = ? AND state <> ?)`
	return eventually(ctx, "the work to be done", func(ctx context.Context) (bool, error) {
		left, err := w.count(ctx, open, order, state)
		return left == 0, err
	})
}

func (w *demoWorld) count(ctx context.Context, query string, args ...any) (int64, error) {
	var n int64
	err := w.app.db.Gorm.WithContext(ctx).Raw(query, args...).Row().Scan(&n)
	return n, err
}

// mails counts what was sent to an order's buyer: receipts, and news about refunds and
// disputes.
func (w *demoWorld) mails(order uuid.UUID) (receipts, news int64, err error) {
	files, err := filepath.Glob(filepath.Join(w.mailDir, "*.eml"))
	if err != nil {
		return 0, 0, err
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return 0, 0, err
		}
		switch {
		case !bytes.Contains(content, []byte(order.String())):
		case strings.HasPrefix(filepath.Base(file), "receipt."):
			receipts++
		default:
			news++
		}
	}
	return receipts, news, nil
}

func eventOf(events []stripesim.Event, kind string) stripesim.Event {
	return events[slices.IndexFunc(events, func(e stripesim.Event) bool { return e.Type == kind })]
}

func usd(minor int64) string { return money.Amount{Minor: minor, Currency: "usd"}.String() }
