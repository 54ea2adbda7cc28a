package fulfillment_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"paidonce/fulfillment"
	"paidonce/internal/smtptest"
)

// keyedRecorder is a mailer whose service keeps keys.
type keyedRecorder struct{ *recorder }

// Keys implements fulfillment.Keyed.
func (keyedRecorder) Keys() (string, time.Duration) { return "a service", 23 * time.Hour }

// What the mailer of a walk answers; "dies" has the sender die before it can write that down.
const (
	taken, lost, notSent, rejected, keyUsed, dies = "taken", "lost", "not sent", "rejected", "key used", "dies"
)

func answerOf(what string) error {
	switch what {
	case lost:
		return errors.New("the answer was lost")
	case notSent:
		return fmt.Errorf("%w: no route", fulfillment.ErrNotSent)
	case rejected:
		return &fulfillment.RejectedError{Cause: errors.New("550 no such user")}
	case keyUsed:
		return &fulfillment.RejectedError{Cause: fulfillment.ErrKeyUsed}
	}
	return nil
}

// walk sends an order's receipt until its job is done, with an answer for each time that the
// mailer is asked. Pauses pass at once. It returns the states between.
func (b *testBundle) walk(t *testing.T, o order, answers ...string) (states []string) {
	t.Helper()
	for asked, done := 0, 0; done == 0; {
		if len(states) > 20 {
			t.Fatalf("order %s: it does not end: %q", o.ID, states)
		}
		answer := taken
		if before := b.mailer.to(o.ID); before < len(answers) {
			answer = answers[before]
		}
		b.mailer.answer = func(fulfillment.Message) error { asked++; return answerOf(answer) }
		b.service.Crash = func(window string) {
			if window == "CW14" && answer == dies {
				panic(dies)
			}
		}
		func() {
			defer func() {
				if r := recover(); r != nil && r != dies {
					panic(r)
				}
			}()
			_ = b.service.SendReceipt(t.Context(), receiptOf(o.ID), counted(&done))
		}()
		b.exec(t, `UPDATE sent_receipts SET sending_until = now() - interval '1 second' WHERE state = 'sending'`)
		state, _ := b.receipt(t, o)
		if again := value[bool](t, b, `SELECT resend_at IS NOT NULL FROM sent_receipts WHERE order_id = ?`, o.ID); again {
			state += " again"
		}
		b.exec(t, `UPDATE sent_receipts SET resend_at = now() WHERE resend_at > now()`)
		states = append(states, string(state))
	}
	b.service.Crash = nil
	return states
}

// Every way in which a mail can end, by policy and by mailer. What counts is how many copies
// can be out: under "once" two at most, under "never" one, and with a key always one.
func TestWhatFollowsAnUnknownOutcome(t *testing.T) {
	t.Parallel()
	const once, never, keyed = "once", "never", "keyed"
	b := setup(t)
	for _, tt := range []struct {
		how     string
		answers []string
		states  string
		mails   int // given to the mailer
	}{
		{once, []string{lost}, "unknown again, sent", 2},
		{once, []string{lost, lost}, "unknown again, unknown", 2},
		{once, []string{lost, rejected}, "unknown again, unknown", 2},
		{once, []string{lost, notSent, notSent}, "unknown again, unknown again, unknown again, sent", 4},
		{once, []string{notSent, lost}, "intended, unknown again, sent", 3},
		{once, []string{dies}, "sending, unknown again, sent", 2},
		{once, []string{dies, dies}, "sending, unknown again, sending, unknown", 2},
		{once, []string{lost, dies}, "unknown again, sending, unknown", 2},
		{once, []string{rejected}, "parked", 1},

		{never, []string{lost}, "unknown", 1},
		{never, []string{dies}, "sending, unknown", 1},
		{never, []string{notSent, lost}, "intended, unknown", 2},

		// With a key, sending again is asking again.
		{keyed, []string{lost, lost, lost}, "unknown again, unknown again, unknown again, sent", 4},
		{keyed, []string{dies, dies}, "sending, sending, sent", 3},
		{keyed, []string{lost, rejected}, "unknown again, parked", 2},
		{keyed, []string{lost, keyUsed}, "unknown again, unknown", 2},
		{keyed, []string{keyUsed}, "parked", 1},
		{keyed, []string{lost, notSent}, "unknown again, unknown again, sent", 3},
	} {
		name := tt.how + ": " + strings.Join(tt.answers, ", ")
		inTurn(t, name, func() {
			b.service.Resend, b.service.Mailer = fulfillment.ResendOnce, b.mailer
			switch tt.how {
			case never:
				b.service.Resend = fulfillment.ResendNever
			case keyed:
				// A person never needs to be asked, whatever the policy.
				b.service.Resend, b.service.Mailer = fulfillment.ResendNever, keyedRecorder{b.mailer}
			}
			o := b.fulfilled(t)
			before := len(b.mailer.messages())
			if got := strings.Join(b.walk(t, o, tt.answers...), ", "); got != tt.states {
				t.Errorf("%s: %s, want %s", name, got, tt.states)
			}
			sent := b.mailer.messages()[before:]
			if len(sent) != tt.mails || len(slices.Compact(sent)) != 1 {
				t.Errorf("%s: the mailer was given %d mails, want %d alike:\n%+v", name, len(sent), tt.mails, sent)
			}
		})
	}
}

// A mail is not sent again at once, but after its pause; what is decided then is decided by
// the policy of then.
func TestAFurtherCopyWaits(t *testing.T) {
	t.Parallel()
	b := setup(t)
	o := b.fulfilled(t)
	b.mailer.answer = func(fulfillment.Message) error { return answerOf(lost) }
	for range 3 {
		done := 0
		if err := b.service.SendReceipt(t.Context(), receiptOf(o.ID), counted(&done)); err == nil || done != 0 {
			t.Errorf("order %s: %v after %d completions, want it to come back later", o.ID, err, done)
		}
	}
	pause := value[float64](t, b, `SELECT extract(epoch FROM resend_at - now())::float8 FROM sent_receipts`)
	if n := b.mailer.to(o.ID); n != 1 || pause < 14*60 || pause > 15*60 {
		t.Errorf("order %s: %d mails, and the next in %.0f s; want 1, and some 15 min", o.ID, n, pause)
	}
	b.service.Resend = fulfillment.ResendNever
	if got := b.walk(t, o); strings.Join(got, ", ") != "unknown again, unknown" || b.mailer.to(o.ID) != 1 {
		t.Errorf("order %s: %q after %d mails, want it to be left to a person", o.ID, got, b.mailer.to(o.ID))
	}
}

// A key settles what it was used for, at the service that knows it, and for as long as that
// remembers it.
func TestAKeyIsNotTrustedBeyondItsLife(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.service.Resend = fulfillment.ResendNever
	for name, tt := range map[string]struct {
		change string // between the lost answer and the next look
		want   fulfillment.ReceiptState
	}{
		"young":             {`UPDATE sent_receipts SET key_used_at = now() - interval '22 hours'`, fulfillment.ReceiptSent},
		"old":               {`UPDATE sent_receipts SET key_used_at = now() - interval '24 hours'`, fulfillment.ReceiptUnknown},
		"another service's": {`UPDATE sent_receipts SET key_service = 'another'`, fulfillment.ReceiptUnknown},
		"none, as by SMTP":  {`UPDATE sent_receipts SET key_service = NULL, key_used_at = NULL`, fulfillment.ReceiptUnknown},
	} {
		inTurn(t, name, func() {
			o := b.fulfilled(t)
			b.service.Mailer = keyedRecorder{b.mailer}
			b.mailer.answer = func(fulfillment.Message) error { return answerOf(lost) }
			if err := b.service.SendReceipt(t.Context(), receiptOf(o.ID), noJob); err == nil {
				t.Fatal("a lost answer was no error")
			}
			b.exec(t, tt.change+` WHERE order_id = ?`, o.ID)
			b.mailer.answer = nil
			if err := b.service.SendReceipt(t.Context(), receiptOf(o.ID), noJob); err != nil {
				t.Error(err)
			}
			if state, _ := b.receipt(t, o); state != tt.want {
				t.Errorf("%s: %s, want %s", name, state, tt.want)
			}
		})
	}
}

// A key that certainly sent nothing is as good as new.
func TestAKeyAgesFromWhatMayHaveSent(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.service.Resend, b.service.Mailer = fulfillment.ResendNever, keyedRecorder{b.mailer}
	o := b.fulfilled(t)
	b.mailer.answer = func(fulfillment.Message) error { return answerOf(notSent) }
	_ = b.service.SendReceipt(t.Context(), receiptOf(o.ID), noJob)
	b.exec(t, `UPDATE sent_receipts SET key_used_at = now() - interval '3 days'`)
	if got := strings.Join(b.walk(t, o, notSent, lost), ", "); got != "unknown again, sent" {
		t.Errorf("order %s: %s, want the key to settle it", o.ID, got)
	}
}

// impatient is a mailer that waits for no answer longer than a moment.
type impatient struct{ fulfillment.Mailer }

// Send implements fulfillment.Mailer.
func (i impatient) Send(ctx context.Context, m fulfillment.Message) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	return i.Mailer.Send(ctx, m)
}

// Every ambiguous end that a real conversation can have, and not one copy too many.
func TestResendOverSMTP(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		answer map[string]string
		policy fulfillment.Resend
		state  fulfillment.ReceiptState
		ends   int // how often the server saw the end of a mail
	}{
		"taken, and cut, once":   {map[string]string{".": smtptest.TakeAndDrop}, fulfillment.ResendOnce, fulfillment.ReceiptUnknown, 2},
		"taken, and cut, never":  {map[string]string{".": smtptest.TakeAndDrop}, fulfillment.ResendNever, fulfillment.ReceiptUnknown, 1},
		"cut, once":              {map[string]string{".": smtptest.Drop}, fulfillment.ResendOnce, fulfillment.ReceiptUnknown, 2},
		"cut, never":             {map[string]string{".": smtptest.Drop}, fulfillment.ResendNever, fulfillment.ReceiptUnknown, 1},
		"silent, once":           {map[string]string{".": smtptest.Silent}, fulfillment.ResendOnce, fulfillment.ReceiptUnknown, 2},
		"silent, never":          {map[string]string{".": smtptest.Silent}, fulfillment.ResendNever, fulfillment.ReceiptUnknown, 1},
		"an answer that is none": {map[string]string{".": "what?"}, fulfillment.ResendOnce, fulfillment.ReceiptUnknown, 2},
		"cut after the answer":   {map[string]string{"RSET": smtptest.Drop, "QUIT": smtptest.Drop}, fulfillment.ResendOnce, fulfillment.ReceiptSent, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			server := smtptest.New(t, tt.answer)
			mailer := smtpTo(t, server)
			b.service.Resend, b.service.Mailer = tt.policy, mailer
			if tt.answer["."] == smtptest.Silent {
				b.service.Mailer = impatient{mailer}
			}
			o := b.fulfilled(t)
			for done, looks := 0, 0; done == 0; looks++ {
				if looks > 10 {
					t.Fatal("it does not end")
				}
				_ = b.service.SendReceipt(t.Context(), receiptOf(o.ID), counted(&done))
				b.exec(t, `UPDATE sent_receipts SET resend_at = now() WHERE resend_at IS NOT NULL`)
			}
			ends := 0
			for _, command := range server.Commands() {
				if command == "." {
					ends++
				}
			}
			if state, why := b.receipt(t, o); state != tt.state || ends != tt.ends {
				t.Errorf("%s (%s) after %d mails, want %s after %d", state, why, ends, tt.state, tt.ends)
			}
			if mails := server.Mails(); len(slices.Compact(mails)) > 1 {
				t.Errorf("the copies differ:\n%q", mails)
			}
		})
	}
}
