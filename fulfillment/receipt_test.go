package fulfillment_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"gorm.io/gorm"

	"paidonce/fulfillment"
)

// fulfilled is an order whose receipt is written down and not sent.
func (b *testBundle) fulfilled(t *testing.T) order {
	t.Helper()
	o := b.paid(t, 1, 2)[0]
	if err := b.service.FulfillOrder(t.Context(), o.ID, noJob); err != nil {
		t.Fatal(err)
	}
	return o
}

func (b *testBundle) receipt(t *testing.T, o order) (state fulfillment.ReceiptState, lastError string) {
	t.Helper()
	receipts, err := b.service.Receipts(t.Context(), o.ID)
	if err != nil || len(receipts) != 1 {
		t.Fatalf("order %s: %d receipts, %v; want 1", o.ID, len(receipts), err)
	}
	return receipts[0].State, text(receipts[0].LastError)
}

// counted is a completion that counts its calls.
func counted(n *int) fulfillment.Complete {
	return func(*gorm.DB) error { *n++; return nil }
}

// What the transport says decides what becomes of the mail: only what certainly did not go
// out is tried again.
func TestWhatBecomesOfAReceipt(t *testing.T) {
	t.Parallel()
	b := setup(t)
	refused := errors.New("550 no such user")
	for _, tt := range []struct {
		name   string
		answer error
		state  fulfillment.ReceiptState
		again  bool // the job stays, and its next attempt sends
	}{
		{"taken", nil, fulfillment.ReceiptSent, false},
		{"certainly not sent", fmt.Errorf("%w: no route", fulfillment.ErrNotSent), fulfillment.ReceiptIntended, true},
		{"rejected", &fulfillment.RejectedError{Cause: refused}, fulfillment.ReceiptParked, false},
	} {
		inTurn(t, tt.name, func() {
			o := b.fulfilled(t)
			b.mailer.answer = func(fulfillment.Message) error { return tt.answer }
			done := 0
			err := b.service.SendReceipt(t.Context(), receiptOf(o.ID), counted(&done))
			if tt.again != errors.Is(err, fulfillment.ErrNotSent) || (err != nil) != tt.again {
				t.Errorf("order %s: %v, want a retry: %v", o.ID, err, tt.again)
			}
			if state, why := b.receipt(t, o); state != tt.state || (tt.answer != nil && !strings.Contains(why, tt.answer.Error())) {
				t.Errorf("order %s: receipt is %s (%s), want %s", o.ID, state, why, tt.state)
			}
			if done != map[bool]int{false: 1}[tt.again] {
				t.Errorf("order %s: the job was completed %d times", o.ID, done)
			}

			// The job again, as after a lost acknowledgement.
			b.mailer.answer = nil
			if err := b.service.SendReceipt(t.Context(), receiptOf(o.ID), noJob); err != nil {
				t.Error(err)
			}
			want := 1
			if tt.again {
				want = 2
			}
			if got := b.mailer.to(o.ID); got != want {
				t.Errorf("order %s: the transport was given %d mails, want %d", o.ID, got, want)
			}
			messages := b.mailer.messages()
			if first, last := messages[len(messages)-want], messages[len(messages)-1]; first != last {
				t.Errorf("order %s: the attempts differ:\n%+v\n%+v", o.ID, first, last)
			}
		})
	}
}

// Two workers at once: one sends; the other finds it sending and comes back later.
func TestOnlyOneWorkerSendsAReceipt(t *testing.T) {
	t.Parallel()
	b := setup(t)
	o := b.fulfilled(t)
	sending, answer := make(chan struct{}), make(chan struct{})
	var begun sync.Once
	b.mailer.answer = func(fulfillment.Message) error {
		begun.Do(func() { close(sending) })
		<-answer
		return nil
	}
	first := make(chan error, 1)
	go func() { first <- b.service.SendReceipt(t.Context(), receiptOf(o.ID), noJob) }()
	wait(t, "the first sender", sending)

	done := 0
	err := b.another(t).service.SendReceipt(t.Context(), receiptOf(o.ID), counted(&done))
	if err == nil || !strings.Contains(err.Error(), "being sent by another process") || done != 0 {
		t.Errorf("order %s: the second worker got %v after %d completions, want to come back later", o.ID, err, done)
	}
	close(answer)
	if err := wait(t, "its end", first); err != nil {
		t.Error(err)
	}
	if state, _ := b.receipt(t, o); state != fulfillment.ReceiptSent || b.mailer.to(o.ID) != 1 {
		t.Errorf("order %s: receipt is %s after %d mails, want sent after 1", o.ID, state, b.mailer.to(o.ID))
	}
}

// A sender that was only slow finds its mail taken for lost. If it did go out, its word counts,
// and there is no further copy; anything else that it says does not.
func TestASlowSendersWordCounts(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		answer error
		state  fulfillment.ReceiptState
		done   int
	}{
		"it went out":     {nil, fulfillment.ReceiptSent, 1},
		"it did not":      {fulfillment.ErrNotSent, fulfillment.ReceiptUnknown, 0},
		"it cannot":       {&fulfillment.RejectedError{Cause: errors.New("550")}, fulfillment.ReceiptUnknown, 0},
		"it does not say": {errors.New("lost"), fulfillment.ReceiptUnknown, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			o := b.fulfilled(t)
			sending, answer := make(chan struct{}), make(chan struct{})
			b.mailer.answer = func(fulfillment.Message) error { close(sending); <-answer; return tt.answer }
			slow, done := make(chan error, 1), 0
			go func() { slow <- b.service.SendReceipt(t.Context(), receiptOf(o.ID), counted(&done)) }()
			wait(t, "the sender", sending)
			b.exec(t, `UPDATE sent_receipts SET sending_until = now() - interval '1 second'`)

			if err := b.another(t).service.SendReceipt(t.Context(), receiptOf(o.ID), noJob); err == nil {
				t.Errorf("order %s: it was not put off", o.ID)
			}
			if state, why := b.receipt(t, o); state != fulfillment.ReceiptUnknown || why == "" {
				t.Errorf("order %s: receipt is %s (%s), want unknown with a reason", o.ID, state, why)
			}
			close(answer)
			if err := wait(t, "the slow sender", slow); (err == nil) != (tt.done == 1) {
				t.Errorf("order %s: the slow sender ended with %v", o.ID, err)
			}
			if state, _ := b.receipt(t, o); state != tt.state || done != tt.done || b.mailer.to(o.ID) != 1 {
				t.Errorf("order %s: receipt is %s after %d mails and %d completions, want %s", o.ID, state, b.mailer.to(o.ID), done, tt.state)
			}
		})
	}
}

// The process is told to stop while the mail is under way. That it went out is written down,
// and the job is done with it.
func TestAStopDuringTheSendLosesNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	o := b.fulfilled(t)
	ctx, stop := context.WithCancel(t.Context())
	b.mailer.answer = func(fulfillment.Message) error { stop(); return nil }
	done := 0
	if err := b.service.SendReceipt(ctx, receiptOf(o.ID), counted(&done)); err != nil || done != 1 {
		t.Errorf("order %s: %v after %d completions, want it sent", o.ID, err, done)
	}
	if state, _ := b.receipt(t, o); state != fulfillment.ReceiptSent {
		t.Errorf("order %s: receipt is %s, want sent", o.ID, state)
	}
}

// Without a transport a receipt waits; it is sent once, with the sender filled in, when one
// is configured.
func TestAReceiptWaitsForATransport(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.service.Mailer, b.service.MailFrom = nil, ""
	o := b.fulfilled(t)
	done := 0
	if err := b.service.SendReceipt(t.Context(), receiptOf(o.ID), counted(&done)); err == nil || done != 0 {
		t.Errorf("order %s: %v after %d completions, want it to wait", o.ID, err, done)
	}
	if state, _ := b.receipt(t, o); state != fulfillment.ReceiptIntended {
		t.Errorf("order %s: receipt is %s, want intended", o.ID, state)
	}

	b.service.Mailer, b.service.MailFrom = b.mailer, testSender
	for range 2 {
		if err := b.service.SendReceipt(t.Context(), receiptOf(o.ID), noJob); err != nil {
			t.Fatal(err)
		}
	}
	sent := b.mailer.messages()
	if len(sent) != 1 || sent[0].From != testSender || sent[0].To != "a@example.com" ||
		sent[0].MessageID != "receipt."+o.ID.String()+"@example.com" {
		t.Errorf("order %s: sent %+v, want one mail from %s with its own Message-ID", o.ID, sent, testSender)
	}
}

// The text is fixed when the order is fulfilled, the sender at the first attempt: what changes
// later changes no attempt.
func TestAReceiptIsFrozen(t *testing.T) {
	t.Parallel()
	b := setup(t)
	o := b.fulfilled(t)
	b.exec(t, `UPDATE order_lines SET name = 'Another name' WHERE order_id = ?`, o.ID)
	b.exec(t, `UPDATE orders SET email = 'other@example.com' WHERE id = ?`, o.ID)
	b.mailer.answer = func(fulfillment.Message) error { return fulfillment.ErrNotSent }
	if err := b.service.SendReceipt(t.Context(), receiptOf(o.ID), noJob); !errors.Is(err, fulfillment.ErrNotSent) {
		t.Fatal(err)
	}
	b.mailer.answer = nil
	b.service.MailFrom = "other@shop.example.com"
	if err := b.service.SendReceipt(t.Context(), receiptOf(o.ID), noJob); err != nil {
		t.Fatal(err)
	}
	m := b.mailer.messages()[1]
	keys := value[string](t, b, `SELECT string_agg(key, E'\n\n' ORDER BY ordinal) FROM licenses WHERE order_id = ?`, o.ID)
	if m.To != "a@example.com" || m.From != testSender || !strings.Contains(m.Text, "2 x Key ") || !strings.Contains(m.Text, keys) ||
		!strings.Contains(m.Text, "Total: $20.00") || !strings.Contains(m.Text, "license keys:") {
		t.Errorf("order %s: sent %+v, want what was written down", o.ID, m)
	}
	if age := time.Since(m.Date); age < 0 || age > time.Minute {
		t.Errorf("order %s: dated %s", o.ID, m.Date)
	}
}
