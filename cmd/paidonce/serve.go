package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"paidonce/fulfillment"
	"paidonce/internal/database"
	"paidonce/internal/web"
	"paidonce/webhooks"
)

// The HTTP server's patience. Headers come in one packet; a body of 1 MiB over a slow line
// takes some seconds; an answer may wait for the provider to open a checkout.
const (
	readHeaderTimeout = 5 * time.Second
	readTimeout       = 15 * time.Second
	writeTimeout      = 45 * time.Second
	idleTimeout       = 2 * time.Minute
	maxHeaderBytes    = 32 << 10
)

func newServe(e *surroundings) *cobra.Command {
	var noWorkers bool
	var flags workFlags
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve HTTP, and work the inbox and the jobs",
		Long: `serve brings the database to this binary's version, then serves HTTP on ADDR, and drains
the inbox and works the jobs beside it. With --no-workers it only serves; then "paidonce work"
has to run elsewhere on the same database. Any number of both may run.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			a, err := startApp(cmd.Context(), e, needs{database: true, web: true, workers: !noWorkers}, flags)
			if err != nil {
				return err
			}
			defer a.db.Close()
			listener, err := (&net.ListenConfig{}).Listen(cmd.Context(), "tcp", a.cfg.Addr)
			if err != nil {
				return fmt.Errorf("ADDR: %w", err)
			}
			if noWorkers {
				flags.queues = nil
			}
			return a.serve(cmd.Context(), listener, flags.queues)
		},
	}
	cmd.Flags().BoolVar(&noWorkers, "no-workers", false, "serve HTTP only")
	flags.add(cmd)
	return cmd
}

func newWork(e *surroundings) *cobra.Command {
	var flags workFlags
	cmd := &cobra.Command{
		Use:   "work",
		Short: "Work the inbox and the jobs, without HTTP",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			a, err := startApp(cmd.Context(), e, needs{database: true, workers: true}, flags)
			if err != nil {
				return err
			}
			defer a.db.Close()
			client, err := a.workers(flags.queues)
			if err != nil {
				return err
			}
			return a.work(cmd.Context(), client)
		},
	}
	flags.add(cmd)
	return cmd
}

// workFlags are the flags of a process that works.
type workFlags struct {
	mailDir string
	queues  []string
	crashAt string
}

func (f *workFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.mailDir, "mail-dir", "", "write mails as .eml files into this folder instead of sending them")
	cmd.Flags().StringSliceVar(&f.queues, "queue", fulfillment.Queues(), "work only the jobs of this queue; repeat it for several (default: all)")
	cmd.Flags().Lookup("queue").DefValue = "[]" // all their names are a long line, and no help
	cmd.Flags().StringVar(&f.crashAt, "crash-at", "", "end as by kill -9 at this crash window (docs/crash-windows.md)")

	must := func(err error) {
		if err != nil {
			panic("bug: the flag was just added: " + err.Error())
		}
	}
	// For the demo and the crash tests; of no use to an operator.
	must(cmd.Flags().MarkHidden("crash-at"))
	must(cmd.MarkFlagDirname("mail-dir"))
	must(cmd.RegisterFlagCompletionFunc("queue", cobra.FixedCompletions(fulfillment.Queues(), cobra.ShellCompDirectiveNoFileComp)))
}

// startApp is what serve and work begin with: the configuration, the log, the parts, and a
// database at this binary's version.
func startApp(ctx context.Context, e *surroundings, n needs, flags workFlags) (*app, error) {
	cfg, err := loadConfig(e.getenv, n)
	if err != nil {
		return nil, err
	}
	for _, queue := range flags.queues {
		if !slices.Contains(fulfillment.Queues(), queue) {
			return nil, fmt.Errorf("--queue: there is no queue %q; there are %s", queue, strings.Join(fulfillment.Queues(), ", "))
		}
	}
	if err := cfg.mailInto(flags.mailDir); err != nil {
		return nil, err
	}
	log := newLog(e.stderr)
	log.Info("configuration", "config", cfg)
	for _, warning := range cfg.warnings {
		log.Warn("configuration", "warning", warning)
	}
	wanted := int(cfg.DBMaxConns)
	if n.workers {
		wanted += listeners
	}
	if err := readyDatabase(ctx, cfg, log, wanted); err != nil {
		return nil, err
	}
	a, err := newApp(ctx, cfg, log, killSelf(flags.crashAt))
	if err != nil {
		return nil, err
	}
	if err := a.migrate(ctx); err != nil {
		a.db.Close()
		return nil, err
	}
	return a, nil
}

// listeners are the connections that a process with workers has beside its pool: one that
// hears of deliveries, and the job queue's own.
const listeners = 2

// readyDatabase waits for the database, and refuses one on which a process that may open so
// many connections could not work.
func readyDatabase(ctx context.Context, cfg config, log *slog.Logger, wanted int) error {
	if err := database.Await(ctx, cfg.DatabaseURL, cfg.WaitForDatabase, log); err != nil {
		return err
	}
	return database.Inspect(ctx, cfg.DatabaseURL, wanted, log)
}

// serve answers on listener until ctx is done; with queues it drains and works too.
func (a *app) serve(ctx context.Context, listener net.Listener, queues []string) error {
	work := func(context.Context) error { return nil }
	if len(queues) > 0 {
		client, err := a.workers(queues)
		if err != nil {
			return err
		}
		work = func(ctx context.Context) error { return a.work(ctx, client) }
	} else if err := a.insertOnly(); err != nil {
		return err
	}

	server := &http.Server{
		Handler:           a.router(),
		ReadHeaderTimeout: readHeaderTimeout, ReadTimeout: readTimeout, WriteTimeout: writeTimeout, IdleTimeout: idleTimeout,
		MaxHeaderBytes: maxHeaderBytes,
		ErrorLog:       slog.NewLogLogger(a.log.Handler(), slog.LevelWarn),
	}
	running, ctx := errgroup.WithContext(ctx)
	running.Go(func() error { return work(ctx) })
	running.Go(func() error {
		a.log.Info("serving", "addr", listener.Addr().String(), "queues", queues)
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serving: %w", err)
		}
		return nil
	})
	running.Go(func() error {
		<-ctx.Done()
		return a.shut(context.WithoutCancel(ctx), server)
	})
	return running.Wait()
}

// shut lets requests in progress end, and then ends those that do not: a provider that hangs,
// or a client that reads a byte a second, must not make an orderly stop a failed one. What such
// a request had begun is written down, and goes on elsewhere.
func (a *app) shut(ctx context.Context, server *http.Server) error {
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	err := server.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		a.log.Warn("stopping: requests in progress are cut off", "after", stopTimeout.String())
		return server.Close()
	}
	return err
}

// router is the whole HTTP surface.
func (a *app) router() http.Handler {
	router := web.NewRouter(a.log)
	(&web.Health{SQL: a.db.SQL, Log: a.log}).Register(router)
	(&web.Metrics{Token: a.cfg.MetricsToken, Standing: a.standing, Now: database.Now, Log: a.log}).Register(router)
	if a.cfg.AppSecret != "" {
		(&web.Orders{
			DB: a.db.Gorm, Store: a.orders, Licenses: a.licenses, Service: a.service, Merchant: a.merchant(),
			Tokens: web.NewTokens(a.cfg.AppSecret), Ready: a.stripe != nil, Log: a.log, Crash: a.crash,
		}).Register(router)
	}
	configured := map[string]webhooks.Provider{"stripe": nil}
	if len(a.cfg.webhookSecrets) > 0 {
		configured["stripe"] = a.providers["stripe"]
	}
	(&webhooks.Handler{
		Inbox: a.inbox, Providers: configured, MaxBody: a.cfg.WebhookMaxBody, Log: a.log,
		Now: database.Now,
	}).Register(router)
	return router
}
