package fulfillment

import (
	"context"
	"log/slog"
	"time"

	"gorm.io/gorm"

	"paidonce/internal/provider"
	"paidonce/licenses"
	"paidonce/orders"
	"paidonce/webhooks"
)

// Service is the steps that follow a paid order. Each public method is one job's work.
type Service struct {
	DB       *gorm.DB
	Orders   *orders.Store
	Licenses *licenses.Store
	Inbox    *webhooks.Inbox
	Calls    *provider.Calls
	Stripe   *provider.Stripe // nil: not configured
	Queue    *Queue

	Mailer   Mailer // nil: not configured; receipts wait
	MailFrom string // a plain address or "Name <address>"
	Resend   Resend // "" is ResendOnce

	// SendLease is how long a sender has before its mail is taken for one with an unknown
	// outcome. It must exceed the mailer's own deadline.
	SendLease time.Duration

	// Reconcile does a part of a run that compares us with the provider, within ReconcileBudget,
	// and tells whether there is more. It is a function, since reconcile is above this package;
	// nil: this process does not.
	Reconcile func(ctx context.Context) (more bool, err error)

	Now func() time.Time
	Log *slog.Logger

	// Crash, if set, is called at every crash window with its id. Nil in production.
	Crash func(window string)
}

// DefaultSendLease is longer than the deadline of any mailer here.
const DefaultSendLease = 90 * time.Second

// Complete marks a job as done, in the transaction that makes it true: a commit and "done"
// are one fact. A step calls it at most once, at the end of its last transaction.
type Complete func(tx *gorm.DB) error

func (s *Service) crash(window string) {
	if s.Crash != nil {
		s.Crash(window)
	}
}

// SweepParked releases parked deliveries whose resource is known by now, and tells of jobs
// that have died. It brings none of the dead back: that is a person's to decide.
func (s *Service) SweepParked(ctx context.Context, complete Complete) error {
	var dead []deadJob
	err := s.DB.WithContext(ctx).Transaction(func(tx *gorm.DB) (err error) {
		if err := s.Inbox.Sweep(ctx, tx); err != nil {
			return err
		}
		if dead, err = announceDead(ctx, tx); err != nil {
			return err
		}
		return complete(tx)
	})
	if err == nil {
		s.announce(ctx, dead)
	}
	return err
}
