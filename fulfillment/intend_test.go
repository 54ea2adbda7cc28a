package fulfillment_test

import (
	"errors"
	"testing"
	"time"

	"gorm.io/gorm"

	"paidonce/fulfillment"
	"paidonce/internal/database"
	"paidonce/internal/money"
	"paidonce/licenses"
)

// refundMail is a mail about a refund of an order.
func (b *testBundle) refundMail(t *testing.T, o order, refundID string) fulfillment.MailIntent {
	t.Helper()
	view, err := b.orders.Get(t.Context(), o.ID)
	if err != nil {
		t.Fatal(err)
	}
	return fulfillment.MailIntent{
		OrderID: o.ID, Kind: fulfillment.MailRefund, SubjectID: refundID, At: database.Now(),
		Message: fulfillment.ReturnMessage(fulfillment.MailRefund, view.Order, money.Amount{Minor: 500, Currency: "usd"}, licenses.StatusActive),
	}
}

// intend writes a mail down in a transaction of its own, which ends with end.
func (b *testBundle) intend(t *testing.T, m fulfillment.MailIntent, end error) {
	t.Helper()
	err := b.db.Gorm.WithContext(t.Context()).Transaction(func(tx *gorm.DB) error {
		return errors.Join(b.queue.IntendMail(t.Context(), tx, m), end)
	})
	if !errors.Is(err, end) {
		t.Fatal(err)
	}
}

// A mail is written down with its job, once for each subject, or not at all.
func TestAMailIsWrittenDownOncePerSubject(t *testing.T) {
	t.Parallel()
	b := setup(t)
	o := b.order(t)
	b.intend(t, b.refundMail(t, o, "re_0"), errors.New("rolled back"))
	for _, refund := range []string{"re_1", "re_2", "re_1"} {
		b.intend(t, b.refundMail(t, o, refund), nil)
	}
	if rows, jobs := b.count(t, `SELECT count(*) FROM sent_receipts`), b.jobs(t, "send_receipt"); rows != 2 || jobs != 2 {
		t.Errorf("order %s: %d mails and %d jobs, want 2 of each", o.ID, rows, jobs)
	}
	for range 2 {
		for _, refund := range []string{"re_1", "re_2"} {
			args := fulfillment.SendReceiptArgs{OrderID: o.ID, About: fulfillment.MailRefund, SubjectID: refund}
			if err := b.service.SendReceipt(t.Context(), args, noJob); err != nil {
				t.Fatal(err)
			}
		}
	}
	sent := b.mailer.messages()
	if len(sent) != 2 || sent[0].MessageID != "refund.re_1@example.com" || sent[1].MessageID != "refund.re_2@example.com" {
		t.Errorf("order %s: sent %+v, want one mail for each refund", o.ID, sent)
	}
	if age := time.Since(sent[0].Date); sent[0].From != testSender || sent[0].To != "a@example.com" || age < 0 || age > time.Minute {
		t.Errorf("order %s: sent %+v", o.ID, sent[0])
	}
}

// An order without an address has its mail written down all the same: parked, with the reason.
func TestAMailWithoutAnAddressIsParked(t *testing.T) {
	t.Parallel()
	b := setup(t)
	o := b.order(t)
	mail := b.refundMail(t, o, "re_1")
	mail.Message.To = ""
	b.intend(t, mail, nil)
	if state, why := b.receipt(t, o); state != fulfillment.ReceiptParked || why != "the order has no mail address" {
		t.Errorf("order %s: the mail is %s (%s), want parked with the reason", o.ID, state, why)
	}
	if n := b.jobs(t, "send_receipt"); n != 0 {
		t.Errorf("order %s: %d jobs for a mail that cannot go out", o.ID, n)
	}
}
