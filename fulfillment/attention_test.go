package fulfillment_test

import (
	"bytes"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"paidonce/fulfillment"
	"paidonce/internal/provider"
	"paidonce/internal/stripesim"
	"paidonce/orders"
)

// poisonOrderEnv names the order whose mail kills a child.
const poisonOrderEnv = "PAIDONCE_TEST_POISON_ORDER"

// alerts counts the log lines that ask for a person.
type alerts struct {
	mu  sync.Mutex
	out bytes.Buffer
}

func (a *alerts) Write(p []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.out.Write(p)
}

func (a *alerts) logger() *slog.Logger { return slog.New(slog.NewJSONHandler(a, nil)) }

func (a *alerts) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return strings.Count(a.out.String(), `"alert":true`)
}

// wantAttention expects exactly these things to need attention about the order, and the order
// to be in the list of those that do.
func (b *testBundle) wantAttention(t *testing.T, o order, want ...fulfillment.AttentionKind) {
	t.Helper()
	found, err := b.service.Attention(t.Context(), o.ID)
	if err != nil {
		t.Fatal(err)
	}
	var got []fulfillment.AttentionKind
	for _, a := range found {
		got = append(got, a.Kind)
		if a.Subject == "" || a.Detail == "" || a.Since.IsZero() {
			t.Errorf("order %s: %+v says too little", o.ID, a)
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("order %s: needs attention for %v, want %v; %+v", o.ID, got, want, found)
	}
	list, err := b.service.NeedingAttention(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	listed := slices.ContainsFunc(list, func(a fulfillment.OrderAttention) bool { return a.Order.ID == o.ID })
	if listed != (len(want) > 0) {
		t.Errorf("order %s: in the list of those that need attention: %v; it needs it for %v", o.ID, listed, want)
	}
}

func (b *testBundle) wantNoneNeedsAttention(t *testing.T) {
	t.Helper()
	list, err := b.service.NeedingAttention(t.Context(), 0)
	if err != nil || len(list) != 0 {
		t.Errorf("%+v need attention, %v; want none", list, err)
	}
}

// What needs attention, one thing at a time, and that it is gone once it is settled. An order
// beside it, to which nothing happened, never needs any.
func TestAttention(t *testing.T) {
	t.Parallel()
	type world struct {
		t       *testing.T
		b       *testBundle
		o       order
		payment uuid.UUID
	}
	call := func(w world, operation, state string, more string) {
		subject := w.payment
		if operation == "fulfill" {
			subject = w.o.ID
		}
		w.b.exec(w.t, `INSERT INTO provider_calls (idempotency_key, provider, livemode, account, operation, subject_id, path, params, created_at,
				state, sending_until, last_error)
			VALUES (?, 'stripe', false, '', ?, ?, '', '', now() - interval '1 hour', ?, CASE WHEN ? = 'sending' THEN now() - interval '10 minutes' END, nullif(?, ''))`,
			operation+":x", operation, subject, state, state, more)
	}
	unknownMail := func(w world) {
		w.b.exec(w.t, `INSERT INTO sent_receipts (order_id, kind, subject_id, idempotency_key, state, unknowns, created_at, updated_at)
			VALUES (?, 'receipt', 'x', 'x', 'unknown', 1, now(), now())`, w.o.ID)
	}
	for name, test := range map[string]struct {
		make   func(w world)
		want   fulfillment.AttentionKind
		settle func(w world)
	}{
		"in review": {
			func(w world) {
				w.b.exec(w.t, `UPDATE orders SET state = 'review', review_reason = 'amount' WHERE id = ?`, w.o.ID)
			},
			fulfillment.AttentionReview,
			func(w world) {
				w.b.exec(w.t, `UPDATE orders SET state = 'paid', review_reason = NULL WHERE id = ?`, w.o.ID)
			},
		},
		"a dispute that wants evidence": {
			func(w world) {
				w.b.exec(w.t, `INSERT INTO disputes (provider, dispute_id, payment_id, amount_minor, currency, status, reason, due_at, created_at, updated_at)
					VALUES ('stripe', 'dp_1', ?, 1999, 'usd', 'needs_response', 'fraudulent', now() + interval '7 days', now(), now())`, w.payment)
			},
			fulfillment.AttentionDispute,
			func(w world) { w.b.exec(w.t, `UPDATE disputes SET status = 'under_review'`) },
		},
		"an inquiry that wants an answer": {
			func(w world) {
				w.b.exec(w.t, `INSERT INTO disputes (provider, dispute_id, payment_id, amount_minor, currency, status, reason, created_at, updated_at)
					VALUES ('stripe', 'dp_1', ?, 1999, 'usd', 'warning_needs_response', 'general', now(), now())`, w.payment)
			},
			fulfillment.AttentionDispute,
			func(w world) { w.b.exec(w.t, `UPDATE disputes SET status = 'warning_closed'`) },
		},
		"a dead delivery that names a recorded id": {
			func(w world) {
				w.b.record(w.t, w.o.checkouts[0].event("evt_1", completed))
				w.b.exec(w.t, `UPDATE webhook_deliveries SET processed_at = now(), outcome = 'dead', last_error = 'broken'`)
			},
			fulfillment.AttentionDelivery,
			func(w world) { w.b.exec(w.t, `UPDATE webhook_deliveries SET outcome = 'applied'`) },
		},
		"a dead delivery that names the order only inside": {
			func(w world) {
				w.b.record(w.t, w.o.checkouts[0].event("evt_1", chargePaid))
				w.b.exec(w.t, `UPDATE webhook_deliveries SET processed_at = now(), outcome = 'dead', detail = 'unmatched'`)
			},
			fulfillment.AttentionDelivery,
			func(w world) { w.b.exec(w.t, `UPDATE webhook_deliveries SET processed_at = NULL, outcome = NULL`) },
		},
		"a dead job of a paid order": {
			func(w world) {
				w.b.job(w.t, "fulfill_order", "discarded", map[string]any{"order_id": w.o.ID})
				w.b.exec(w.t, `UPDATE orders SET state = 'paid' WHERE id = ?`, w.o.ID)
			},
			fulfillment.AttentionJob,
			func(w world) { w.b.exec(w.t, `UPDATE orders SET state = 'fulfilled' WHERE id = ?`, w.o.ID) },
		},
		"a dead read": {
			func(w world) {
				w.b.job(w.t, "read_payment", "cancelled", map[string]any{"payment_id": w.payment})
				w.b.exec(w.t, `UPDATE payments SET read_wanted = 2, read_seq = 1 WHERE id = ?`, w.payment)
			},
			fulfillment.AttentionJob,
			func(w world) { w.b.exec(w.t, `UPDATE payments SET read_seq = 2 WHERE id = ?`, w.payment) },
		},
		"a dead job of another kind": {
			func(w world) { w.b.job(w.t, "no_such_kind", "discarded", map[string]any{"order_id": w.o.ID}) },
			fulfillment.AttentionJob,
			func(w world) {
				w.b.exec(w.t, `UPDATE river_job SET state = 'available', finalized_at = NULL WHERE kind = 'no_such_kind'`)
			},
		},
		"a refused call": {
			func(w world) { call(w, "fulfill", "failed", "stripe answered 400") },
			fulfillment.AttentionCall,
			func(w world) {
				w.b.exec(w.t, `UPDATE provider_calls SET state = 'sent', result_id = 'pi_1', finished_at = now() WHERE operation = 'fulfill'`)
			},
		},
		"a call with an unknown outcome, and no job": {
			func(w world) { call(w, "fulfill", "unknown", "") },
			fulfillment.AttentionCallUnknown,
			func(w world) {
				w.b.job(w.t, "notify_provider", "retryable", map[string]any{"idempotency_key": "fulfill:x"})
			},
		},
		"a call that was begun, long ago": {
			func(w world) { call(w, "fulfill", "sending", "") },
			fulfillment.AttentionCallStuck,
			func(w world) {
				w.b.exec(w.t, `UPDATE provider_calls SET sending_until = now() WHERE state = 'sending'`)
			},
		},
		"a refund that was refused": {
			func(w world) { call(w, "refund", "failed", "stripe answered 400") },
			fulfillment.AttentionCall,
			func(w world) {
				w.b.exec(w.t, `UPDATE provider_calls SET last_error = ? WHERE operation = 'refund'`, "x: "+provider.ErrNotWanted.Error())
			},
		},
		"an open checkout that could not be ended": {
			func(w world) { call(w, "expire", "unknown", "") },
			fulfillment.AttentionCallUnknown,
			func(w world) { w.b.exec(w.t, `UPDATE payments SET status = 'expired' WHERE id = ?`, w.payment) },
		},
		"a mail with an unknown outcome": {
			func(w world) { unknownMail(w) },
			fulfillment.AttentionMailUnknown,
			func(w world) { w.b.exec(w.t, `UPDATE sent_receipts SET resend_at = now() + interval '15 minutes'`) },
		},
		"a mail that was to be sent once more, and has nobody to do it": {
			func(w world) {
				unknownMail(w)
				w.b.exec(w.t, `UPDATE sent_receipts SET resend_at = now()`)
				w.b.job(w.t, "send_receipt", "discarded", map[string]any{"order_id": w.o.ID, "about": "receipt", "subject_id": "x"})
			},
			fulfillment.AttentionJob,
			func(w world) {
				w.b.exec(w.t, `UPDATE sent_receipts SET state = 'sent', sent_at = now(), resend_at = NULL`)
			},
		},
		"a mail that cannot go out": {
			func(w world) {
				w.b.exec(w.t, `INSERT INTO sent_receipts (order_id, kind, subject_id, idempotency_key, state, last_error, created_at, updated_at)
					VALUES (?, 'receipt', 'x', 'x', 'parked', 'no such mailbox', now(), now())`, w.o.ID)
			},
			fulfillment.AttentionMailParked,
			func(w world) { w.b.exec(w.t, `UPDATE sent_receipts SET state = 'sent', sent_at = now()`) },
		},
		"a refund that failed": {
			func(w world) {
				w.b.exec(w.t, `INSERT INTO refunds VALUES ('stripe', 're_1', ?, 100, 'usd', 'failed', now() - interval '1 hour', now())`, w.payment)
			},
			fulfillment.AttentionRefundFailed,
			func(w world) {
				w.b.exec(w.t, `INSERT INTO refunds VALUES ('stripe', 're_2', ?, 100, 'usd', 'pending', now(), now())`, w.payment)
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			placed := b.placed(t, 2, 1, 1)
			w := world{t, b, placed[0], placed[0].checkouts[0].PaymentID}
			b.wantAttention(t, w.o)
			test.make(w)
			b.wantAttention(t, w.o, test.want)
			b.wantAttention(t, placed[1])
			test.settle(w)
			b.wantAttention(t, w.o)
		})
	}
}

// Two checkouts were paid: one counts, the money of the other is the buyer's until it is back.
func TestAttention_SurplusPayment(t *testing.T) {
	t.Parallel()
	b := setup(t)
	o := b.secondCheckout(t, b.order(t))
	for _, c := range o.checkouts {
		for _, e := range b.pay(t, c, stripesim.PayOptions{}) {
			b.record(t, e.Body)
		}
	}
	b.settle(t)
	b.wantState(t, o, orders.Fulfilled)
	b.wantAttention(t, o, fulfillment.AttentionSurplus)
	found, err := b.service.Attention(t.Context(), o.ID)
	if err != nil {
		t.Fatal(err)
	}
	if got := found[0].Subject; got != o.checkouts[0].Session && got != o.checkouts[1].Session || !strings.Contains(found[0].Detail, "39.98 USD") {
		t.Errorf("got %+v, want the payment and its amount", found[0])
	}
	b.exec(t, `UPDATE payments SET refunded_minor = received_minor WHERE resource_id = ?`, found[0].Subject)
	b.wantAttention(t, o)
}
