package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"paidonce/internal/database"
	"paidonce/internal/devpg"
	"paidonce/internal/stripesim"
	"paidonce/licenses"
	"paidonce/migrations"
	"paidonce/orders"
)

// demoWorld is everything that the demo runs: a database, a simulated Stripe, a web process
// (this one) and a worker process (a child, to be killed).
type demoWorld struct {
	env     map[string]string // the configuration, as an operator would set it
	mailDir string
	sim     *stripesim.Sim
	app     *app // this process: serves, and looks

	closers []func() // run from the last to the first
}

// newDemoWorld starts the parts, from the database up. What was started is closed again if
// a later part fails.
func newDemoWorld(ctx context.Context, e *surroundings, say *narrator) (_ *demoWorld, err error) {
	w := &demoWorld{}
	defer func() {
		if err != nil {
			w.close()
		}
	}()
	dir, err := os.MkdirTemp("", "paidonce-demo-")
	if err != nil {
		return nil, err
	}
	w.closers = append(w.closers, func() { _ = os.RemoveAll(dir) })
	w.mailDir = filepath.Join(dir, "mail")
	if err := os.Mkdir(w.mailDir, 0o700); err != nil {
		return nil, err
	}

	dsn, err := w.startDatabase(ctx, e, say)
	if err != nil {
		return nil, err
	}
	listener, err := w.startSim(ctx)
	if err != nil {
		return nil, err
	}
	signing, err := licenses.Generate(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making a signing key: %w", err)
	}
	w.env["DATABASE_URL"] = dsn
	w.env["ADDR"] = listener.Addr().String()
	w.env["APP_SECRET"] = randomText()
	w.env["STRIPE_SECRET_KEY"] = "sk_test_demo"
	w.env["LICENSE_SIGNING_KEYS"] = signing.EnvLine()[len("LICENSE_SIGNING_KEYS="):]
	w.env["RECONCILE_EVERY"] = "0" // the story has one thing happen at a time
	w.env["MAIL_FROM"] = "Demo shop <receipts@shop.example>"

	if err := w.startWeb(ctx, listener); err != nil {
		return nil, err
	}
	product := orders.Product{SKU: "DEMO-KEY", Name: "License key", UnitMinor: 1999, Currency: "usd"}
	return w, w.app.orders.ImportProducts(ctx, []orders.Product{product})
}

// startDatabase uses DATABASE_URL, or else a private Postgres that lives as long as the demo.
func (w *demoWorld) startDatabase(ctx context.Context, e *surroundings, say *narrator) (string, error) {
	if dsn := e.getenv("DATABASE_URL"); dsn != "" {
		say.line("  Postgres   the one at DATABASE_URL")
		return dsn, refuseInUse(ctx, dsn)
	}
	server, err := devpg.Start(ctx, devpg.Options{Getenv: e.getenv, Progress: e.stderr})
	if err != nil {
		return "", err
	}
	w.closers = append(w.closers, func() {
		stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
		defer cancel()
		_ = server.Stop(stopping)
	})
	dsn := server.URL("postgres")
	say.line("  Postgres   private, psql %q", dsn)
	return dsn, nil
}

// errInUse keeps the demo out of a merchant's database: its product would be for sale there,
// and the workers of the shop would fulfill its orders.
var errInUse = errors.New("the database at DATABASE_URL is in use; unset DATABASE_URL for a private one, or give an empty one")

func refuseInUse(ctx context.Context, dsn string) error {
	db, err := database.Open(ctx, dsn, database.Options{MaxConns: 1})
	if err != nil {
		return err
	}
	defer db.Close()
	err = migrations.Check(ctx, db.SQL)
	switch {
	case errors.Is(err, migrations.ErrEmpty):
		return nil
	case err == nil, errors.Is(err, migrations.ErrBehind), errors.Is(err, migrations.ErrAhead):
		return errInUse
	}
	return err
}

// startSim starts the simulated Stripe. It delivers nothing by itself: the demo posts the
// events, to have them arrive as it tells.
func (w *demoWorld) startSim(ctx context.Context) (web net.Listener, err error) {
	secret := "whsec_" + randomText()
	api, err := listen(ctx)
	if err != nil {
		return nil, err
	}
	if web, err = listen(ctx); err != nil {
		return nil, errors.Join(err, api.Close())
	}
	base := "http://" + api.Addr().String()
	w.sim = stripesim.New(stripesim.Config{BaseURL: base})
	w.closers = append(w.closers, w.sim.Close)
	w.serveHTTP(api, w.sim.Handler())
	w.env = map[string]string{"STRIPE_API_BASE": base, "STRIPE_WEBHOOK_SECRETS": secret}
	return web, nil
}

// startWeb is "paidonce serve --no-workers", in this process so that the demo can look
// into the same database. Its log is kept quiet: the story is on the screen.
func (w *demoWorld) startWeb(ctx context.Context, listener net.Listener) error {
	cfg, err := loadConfig(func(name string) string { return w.env[name] }, needs{database: true, web: true})
	if err != nil {
		return err
	}
	if _, err := migrations.Up(ctx, cfg.DatabaseURL); err != nil {
		return err
	}
	if w.app, err = newApp(ctx, cfg, slog.New(slog.DiscardHandler), nil); err != nil {
		return err
	}
	w.closers = append(w.closers, w.app.db.Close)
	if err := w.app.insertOnly(); err != nil {
		return err
	}
	w.serveHTTP(listener, w.app.router())
	return nil
}

// serveHTTP serves until the world is closed.
func (w *demoWorld) serveHTTP(listener net.Listener, handler http.Handler) {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: readHeaderTimeout}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(listener) })
	w.closers = append(w.closers, func() { _ = server.Close(); serving.Wait() })
}

// worker is a child process: "paidonce work" on the demo's database.
type worker struct {
	cmd    *exec.Cmd
	output *bytes.Buffer
	ended  chan struct{}
}

// startWorker starts a worker process with more flags of its own.
func (w *demoWorld) startWorker(ctx context.Context, flags ...string) (*worker, error) {
	binary, err := os.Executable()
	if err != nil {
		return nil, err
	}
	args := append([]string{"work", "--mail-dir", w.mailDir}, flags...)
	cmd := exec.Command(binary, args...) //nolint:noctx // not bound to ctx: it is stopped gracefully
	cmd.Env = os.Environ()
	for name, value := range w.env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	running := &worker{cmd: cmd, output: &bytes.Buffer{}, ended: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = io.Discard, running.output
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting a worker: %w", err)
	}
	go func() {
		defer close(running.ended)
		_ = cmd.Wait() // how it ended is in cmd.ProcessState
	}()
	w.closers = append(w.closers, func() { running.stop(ctx) })
	return running, nil
}

// stop asks the worker to finish, and waits.
func (r *worker) stop(ctx context.Context) {
	_ = r.cmd.Process.Signal(os.Interrupt)
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	select {
	case <-r.ended:
	case <-stopping.Done():
		_ = r.cmd.Process.Kill()
		<-r.ended
	}
}

func (w *demoWorld) close() {
	for i := len(w.closers) - 1; i >= 0; i-- {
		w.closers[i]()
	}
	w.closers = nil
}

func listen(ctx context.Context) (net.Listener, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listening on this machine: %w", err)
	}
	return listener, nil
}

// randomText is a secret that lives as long as the demo.
func randomText() string {
	b := make([]byte, 24)
	_, _ = rand.Read(b) // never fails: crypto/rand says so
	return hex.EncodeToString(b)
}

// eventually asks until the answer is yes, or patience ends.
func eventually(ctx context.Context, what string, ask func(context.Context) (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, demoPatience)
	defer cancel()
	for {
		yes, err := ask(ctx)
		if err != nil {
			return fmt.Errorf("waiting for %s: %w", what, err)
		}
		if yes {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", what, context.Cause(ctx))
		case <-time.After(20 * time.Millisecond):
		}
	}
}
