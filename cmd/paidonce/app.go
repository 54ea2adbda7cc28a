package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/riverqueue/river"

	"paidonce/fulfillment"
	"paidonce/internal/database"
	"paidonce/internal/provider"
	"paidonce/licenses"
	"paidonce/migrations"
	"paidonce/orders"
	"paidonce/webhooks"
)

// drainersPerProcess is how many drain the inbox in one process. A second one works while
// the first waits for its commit; more only wait for each other's disk.
const drainersPerProcess = 2

// app is one process's parts, wired together: the only place where they all meet.
type app struct {
	cfg       config
	log       *slog.Logger
	db        *database.DB
	inbox     *webhooks.Inbox
	orders    *orders.Store
	licenses  *licenses.Store
	stripe    *provider.Stripe // nil: not configured
	queue     *fulfillment.Queue
	service   *fulfillment.Service
	events    *webhooks.Stripe             // reads Stripe's events
	providers map[string]webhooks.Provider // every provider there is, for parsing
	crash     func(window string)          // nil in production
}

// newApp opens the database and wires the parts. It starts nothing.
func newApp(ctx context.Context, cfg config, log *slog.Logger, crash func(string)) (*app, error) {
	db, err := database.Open(ctx, cfg.DatabaseURL, database.Options{MaxConns: cfg.DBMaxConns})
	if err != nil {
		return nil, err
	}
	a := &app{cfg: cfg, log: log, db: db, crash: crash}

	a.licenses = &licenses.Store{Keys: cfg.keyring}
	a.queue = &fulfillment.Queue{Licenses: a.licenses}
	a.inbox = webhooks.NewInbox(db.Gorm)
	a.inbox.Crash = crash
	if cfg.StripeSecretKey != "" {
		a.stripe = provider.NewStripe(provider.StripeConfig{Key: cfg.StripeSecretKey, Base: cfg.StripeAPIBase, Account: cfg.StripeAccount})
	}
	calls := &provider.Calls{DB: db.Gorm, Stripe: a.stripe, Jobs: a.queue, Now: database.Now, Log: log, Crash: crash}
	a.orders = orders.New(db.Gorm)
	calls.Guard = a.orders.StillWanted
	a.orders.Calls, a.orders.Follower, a.orders.Reader, a.orders.Releaser = calls, a.queue, a.queue, a.inbox
	a.service = &fulfillment.Service{
		DB: db.Gorm, Orders: a.orders, Licenses: a.licenses, Inbox: a.inbox, Calls: calls, Stripe: a.stripe, Queue: a.queue,
		Mailer: cfg.mailer, MailFrom: cfg.MailFrom, Resend: fulfillment.Resend(cfg.MailResend), SendLease: fulfillment.DefaultSendLease, Now: database.Now, Log: log, Crash: crash,
	}
	a.events = &webhooks.Stripe{Secrets: cfg.webhookSecrets, Tolerance: cfg.WebhookTolerance}
	a.providers = map[string]webhooks.Provider{"stripe": a.events}
	a.service.Reconcile = a.reconcilePart
	return a, nil
}

// queueLog is the job queue's own log: what it says of ordinary life is noise beside our
// line per attempt.
func (a *app) queueLog() *slog.Logger { return slog.New(atLeast{a.log.Handler(), slog.LevelWarn}) }

// insertOnly gives the process a queue client that only enqueues.
func (a *app) insertOnly() error {
	client, err := fulfillment.NewClient(a.db, nil, nil, 0, a.queueLog())
	a.queue.Client = client
	return err
}

// workers gives the process a queue client that enqueues and, once started, works.
func (a *app) workers(queues []string) (*river.Client[*sql.Tx], error) {
	if err := a.service.CheckTimes(); err != nil {
		return nil, err
	}
	client, err := fulfillment.NewClient(a.db, fulfillment.Workers(a.service), queues, a.cfg.Workers, a.queueLog())
	if err == nil && a.stripe != nil && a.cfg.ReconcileEvery > 0 {
		err = fulfillment.ReconcileEvery(client, a.cfg.ReconcileEvery)
	}
	a.queue.Client = client
	return client, err
}

// drainer is one drainer of the inbox.
func (a *app) drainer() *fulfillment.Drainer {
	d := &fulfillment.Drainer{
		DB: a.db.Gorm, Inbox: a.inbox, Orders: a.orders, Queue: a.queue, Providers: a.providers, Account: a.cfg.StripeAccount,
		Batch: fulfillment.DefaultBatch, Lease: fulfillment.DefaultLease, MaxAttempts: fulfillment.DefaultMaxAttempts,
		ParkFor: fulfillment.DefaultParkFor, Log: a.log, Crash: a.crash,
	}
	if a.stripe != nil {
		mode := a.stripe.Livemode()
		d.Livemode = &mode
	}
	return d
}

// stopTimeout bounds how long a stop waits for work in progress; what is not done by then is
// handed back, or left to its lease.
const stopTimeout = 20 * time.Second

// work drains and works jobs until ctx is done, then stops gracefully: drainers finish
// their transaction, jobs their attempt.
func (a *app) work(ctx context.Context, client *river.Client[*sql.Tx]) error {
	// The client is stopped by Stop alone: a canceled context would take the jobs'
	// contexts away at once.
	if err := client.Start(context.WithoutCancel(ctx)); err != nil {
		return fmt.Errorf("starting the job queue: %w", err)
	}
	var running sync.WaitGroup
	var wakes []chan<- struct{}
	for range drainersPerProcess {
		wake := make(chan struct{}, 1)
		wakes = append(wakes, wake)
		running.Go(func() { a.drainer().Run(ctx, wake) })
	}
	running.Go(func() { fulfillment.Listen(ctx, a.db.Pool, a.log, wakes...) })
	a.log.Info("working", "drainers", drainersPerProcess, "workers_per_queue", a.cfg.Workers)

	<-ctx.Done()
	a.log.Info("stopping: finishing work in progress")
	running.Wait() // at most a drainer's lease
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	if err := client.Stop(stopping); err != nil {
		return fmt.Errorf("stopping the job queue: %w", err)
	}
	a.log.Info("stopped working")
	return nil
}

// migrate brings the database to this binary's version.
func (a *app) migrate(ctx context.Context) error {
	applied, err := migrations.Up(ctx, a.cfg.DatabaseURL)
	if err != nil {
		return err
	}
	for _, m := range applied {
		a.log.Info("migrated", "version", m.Version, "name", m.Name)
	}
	return nil
}

// merchant is what all orders of this installation have in common.
func (a *app) merchant() orders.Merchant {
	return orders.Merchant{
		Livemode: provider.Livemode(a.cfg.StripeSecretKey), Account: a.cfg.StripeAccount,
		PromotionCodes: a.cfg.StripePromotionCodes, AutomaticTax: a.cfg.StripeAutomaticTax,
		ReturnURL: func(id uuid.UUID) (string, string) {
			order := a.cfg.PublicURL + "/orders/" + id.String()
			return order + "/return?session_id={CHECKOUT_SESSION_ID}", order + "/return?canceled=1"
		},
	}
}

// newLog writes JSON for programs, and text for a person at a terminal.
func newLog(w io.Writer) *slog.Logger {
	if file, ok := w.(*os.File); ok {
		if info, err := file.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
			return slog.New(slog.NewTextHandler(w, nil))
		}
	}
	return slog.New(slog.NewJSONHandler(w, nil))
}

// atLeast passes on records of a level and above.
type atLeast struct {
	slog.Handler

	level slog.Level
}

func (h atLeast) Enabled(ctx context.Context, l slog.Level) bool {
	return l >= h.level && h.Handler.Enabled(ctx, l)
}

// WithAttrs keeps the level for the loggers that are made of this one.
func (h atLeast) WithAttrs(attrs []slog.Attr) slog.Handler {
	return atLeast{h.Handler.WithAttrs(attrs), h.level}
}

// WithGroup likewise.
func (h atLeast) WithGroup(name string) slog.Handler {
	return atLeast{h.Handler.WithGroup(name), h.level}
}

// deskLog is the log of a command that a person gives: what is wrong, and nothing of ordinary
// life. What the command did is what it prints.
func deskLog(w io.Writer) *slog.Logger { return slog.New(atLeast{newLog(w).Handler(), slog.LevelWarn}) }

// killSelf is the crash for --crash-at: the process ends as by kill -9, at the named window.
// It is how the demo and the crash tests kill a real process at an exact point.
func killSelf(at string) func(window string) {
	if at == "" {
		return nil
	}
	return func(window string) {
		if window != at {
			return
		}
		self, err := os.FindProcess(os.Getpid())
		if err == nil {
			err = self.Kill()
		}
		if err != nil {
			panic(errors.Join(errors.New("could not kill this process"), err))
		}
		select {} // the signal is on its way
	}
}
