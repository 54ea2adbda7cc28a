package fulfillment

import (
	"time"

	"github.com/google/uuid"
)

// Every job: what it is for, and its limits.
//
// Each stage has a queue of its own: the queue's notify limiter swallows the wake-up of a
// job that is enqueued by another of the same queue, which costs up to a second an order.
// Attempts and backoff say how long a fault of the outside may last before the job is a
// dead letter: the waits double from the first up to the longest. Each is cut short by up to
// half, at random, so that jobs that failed together do not come back together; the table
// says how long it takes at most. What asks for a wait of its own (Retry-After) gets it.
//
//	kind              queue            attempts  waits        timeout  gives up after
//	fulfill_order     fulfill_order    25        1 s … 1 h    20 s     14 h
//	create_checkout   create_checkout  30        1 s … 1 h    40 s     19 h: before the key is forgotten
//	expire_checkout   expire_checkout  30        1 s … 1 h    40 s     19 h: before the key is forgotten
//	notify_provider   notify_provider  30        1 s … 1 h    40 s     19 h: before the key is forgotten
//	send_refund       send_refund      30        1 s … 1 h    40 s     19 h: before the key is forgotten
//	send_receipt      send_receipt     40        1 s … 1 h    60 s     29 h
//	read_payment      read_payment     80        1 s … 1 h    40 s     3 d: as long as Stripe redelivers
//	reconcile         reconcile        25        1 s … 1 h    60 s     14 h: of dying; what it finds is no failure
//	sweep_parked      maintenance      1         none         20 s     the next one comes in 30 s
func limitsOf(kind string) limits {
	switch kind {
	case kindFulfillOrder:
		return limits{queue: "fulfill_order", attempts: 25, longest: time.Hour, timeout: 20 * time.Second}
	case kindCreateCheckout:
		return limits{queue: "create_checkout", attempts: 30, longest: time.Hour, timeout: 40 * time.Second}
	case kindExpireCheckout:
		return limits{queue: "expire_checkout", attempts: 30, longest: time.Hour, timeout: 40 * time.Second}
	case kindNotifyProvider:
		return limits{queue: "notify_provider", attempts: 30, longest: time.Hour, timeout: 40 * time.Second}
	case kindSendRefund:
		return limits{queue: "send_refund", attempts: 30, longest: time.Hour, timeout: 40 * time.Second}
	case kindSendReceipt:
		return limits{queue: "send_receipt", attempts: 40, longest: time.Hour, timeout: 60 * time.Second}
	case kindReadPayment:
		return limits{queue: "read_payment", attempts: 80, longest: time.Hour, timeout: 40 * time.Second}
	case kindReconcile:
		return limits{queue: "reconcile", attempts: 25, longest: time.Hour, timeout: 60 * time.Second}
	case kindSweepParked:
		return limits{queue: "maintenance", attempts: 1, longest: time.Second, timeout: 20 * time.Second}
	}
	panic("bug: no limits for job kind " + kind)
}

const (
	kindFulfillOrder   = "fulfill_order"
	kindCreateCheckout = "create_checkout"
	kindExpireCheckout = "expire_checkout"
	kindNotifyProvider = "notify_provider"
	kindSendRefund     = "send_refund"
	kindSendReceipt    = "send_receipt"
	kindReadPayment    = "read_payment"
	kindReconcile      = "reconcile"
	kindSweepParked    = "sweep_parked"
)

// kinds are all kinds.
func kinds() []string {
	return []string{
		kindFulfillOrder, kindCreateCheckout, kindExpireCheckout, kindNotifyProvider, kindSendRefund, kindSendReceipt,
		kindReadPayment, kindReconcile, kindSweepParked,
	}
}

// performsCalls reports whether the jobs of a kind perform calls at the provider, under a key
// that the provider forgets.
func performsCalls(kind string) bool {
	return kind == kindCreateCheckout || kind == kindExpireCheckout || kind == kindNotifyProvider || kind == kindSendRefund
}

// sweepEvery is how often parked deliveries are matched with what has been learned: it only
// has to find what the release and the delivery's own retries both missed.
const sweepEvery = 30 * time.Second

// rescueAfter is when a job that is still marked as running is taken for the victim of a
// dead process. It must be longer than any job's timeout.
const rescueAfter = 90 * time.Second

// takeOverAfter is how long the job of a call leaves whoever asked for it, a request handler or a
// command, to make the call itself.
const takeOverAfter = 5 * time.Second

// limits of a kind of job.
type limits struct {
	queue    string
	attempts int
	longest  time.Duration // between two attempts
	timeout  time.Duration
}

// wait is the time before the attempt that follows the n-th, n from 1, at most.
func (l limits) wait(n int) time.Duration {
	wait := time.Second
	for range n - 1 {
		if wait *= 2; wait >= l.longest {
			return l.longest
		}
	}
	return wait
}

// spread is a wait as it is waited: from half of it to all of it, by a random number from 0
// to 1. Without it, two hundred jobs that were turned away together are turned away together
// again, at every wait up to the longest.
func spread(wait time.Duration, random float64) time.Duration {
	return wait - time.Duration(float64(wait/2)*random)
}

// horizon is how long a fault may last before the job gives up, at most.
func (l limits) horizon() time.Duration {
	var sum time.Duration
	for n := 1; n < l.attempts; n++ {
		sum += l.wait(n)
	}
	return sum
}

// FulfillOrderArgs asks to issue the licenses of a paid order. It is never a unique job: a
// skipped duplicate would lose the wish.
type FulfillOrderArgs struct {
	OrderID uuid.UUID `json:"order_id"`
}

// Kind implements river.JobArgs.
func (FulfillOrderArgs) Kind() string { return kindFulfillOrder }

// CreateCheckoutArgs asks to make the call that opens a checkout, if the request handler
// that wrote it down did not live to make it.
type CreateCheckoutArgs struct {
	Key string `json:"idempotency_key"`
}

// Kind implements river.JobArgs.
func (CreateCheckoutArgs) Kind() string { return kindCreateCheckout }

// ExpireCheckoutArgs asks to make the call that ends an open checkout, if the request handler
// that wrote it down did not.
type ExpireCheckoutArgs struct {
	Key       string    `json:"idempotency_key"`
	PaymentID uuid.UUID `json:"payment_id"`
}

// Kind implements river.JobArgs.
func (ExpireCheckoutArgs) Kind() string { return kindExpireCheckout }

// NotifyProviderArgs asks to write order and license ids onto the provider's object.
type NotifyProviderArgs struct {
	Key string `json:"idempotency_key"`
}

// Kind implements river.JobArgs.
func (NotifyProviderArgs) Kind() string { return kindNotifyProvider }

// SendRefundArgs asks to make the call that sends money back, if the command that decided it
// did not live to make it.
type SendRefundArgs struct {
	Key string `json:"idempotency_key"`
}

// Kind implements river.JobArgs.
func (SendRefundArgs) Kind() string { return kindSendRefund }

// SendReceiptArgs asks to send a mail that was written down.
type SendReceiptArgs struct {
	OrderID   uuid.UUID `json:"order_id"`
	About     MailKind  `json:"about"`
	SubjectID string    `json:"subject_id"`
}

// Kind implements river.JobArgs.
func (SendReceiptArgs) Kind() string { return kindSendReceipt }

// ReadPaymentArgs asks to read a payment's present state at the provider. It is never a
// unique job: a skipped duplicate would lose the wish.
type ReadPaymentArgs struct {
	PaymentID uuid.UUID `json:"payment_id"`
}

// Kind implements river.JobArgs.
func (ReadPaymentArgs) Kind() string { return kindReadPayment }

// ReconcileArgs asks to compare ourselves with the provider.
type ReconcileArgs struct{}

// Kind implements river.JobArgs.
func (ReconcileArgs) Kind() string { return kindReconcile }

// SweepParkedArgs asks to release parked deliveries whose resource is known by now.
type SweepParkedArgs struct{}

// Kind implements river.JobArgs.
func (SweepParkedArgs) Kind() string { return kindSweepParked }
