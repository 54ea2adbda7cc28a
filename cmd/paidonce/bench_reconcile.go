package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"paidonce/internal/database"
	"paidonce/internal/devpg"
	"paidonce/internal/stripesim"
	"paidonce/migrations"
	"paidonce/reconcile"
)

// benchWorld is what reconcile is measured in.
type benchWorld struct {
	dsn, api string
	db       *database.DB
	sim      *stripesim.Sim
	clock    atomic.Int64 // the simulated Stripe's, in seconds; 0 is the real one

	busy     atomic.Int64 // nanoseconds that the simulated Stripe has worked
	requests atomic.Int64

	closers []func()
}

// benchReconcile fills a world and measures two runs in it.
func benchReconcile(ctx context.Context, e *surroundings, objects int) (benchResult, error) {
	w, err := newBenchWorld(ctx, e)
	defer w.close()
	if err != nil {
		return benchResult{}, err
	}
	result := benchResult{Orders: objects / benchObjectsPerOrder}
	began := database.Now()
	if err := w.fill(ctx, result.Orders); err != nil {
		return benchResult{}, fmt.Errorf("filling: %w", err)
	}
	_, _ = fmt.Fprintf(e.stderr, "%d orders made in %.0f s; measuring\n", result.Orders, database.Now().Sub(began).Seconds())
	if result.Healing, err = w.measure(ctx, int(exitDrift)); err != nil {
		return benchResult{}, err
	}
	// What the workers of a shop would do about the orders that are paid now.
	const fulfill = `
INSERT INTO licenses (id, order_id, order_line_id, ordinal, sku, key, key_id, status, issued_at, updated_at)
SELECT gen_random_uuid(), l.order_id, l.id, 1, l.sku, 'key/' || l.id, 'bench', 'active', now(), now()
FROM order_lines l JOIN orders o ON o.id = l.order_id WHERE o.state = 'paid'`
	if err := w.db.Gorm.WithContext(ctx).Exec(fulfill).Error; err != nil {
		return benchResult{}, err
	}
	result.Clean, err = w.measure(ctx, 0)
	return result, err
}

func newBenchWorld(ctx context.Context, e *surroundings) (*benchWorld, error) {
	w := &benchWorld{}
	server, err := devpg.Start(ctx, devpg.Options{Getenv: e.getenv, Progress: e.stderr})
	if err != nil {
		return w, err
	}
	w.closers = append(w.closers, func() {
		stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
		defer cancel()
		_ = server.Stop(stopping)
	})
	w.dsn = server.URL("postgres")
	if _, err := migrations.Up(ctx, w.dsn); err != nil {
		return w, err
	}
	if w.db, err = database.Open(ctx, w.dsn, database.Options{MaxConns: 2}); err != nil {
		return w, err
	}
	w.closers = append(w.closers, w.db.Close)

	w.sim = stripesim.New(stripesim.Config{Now: w.now})
	w.closers = append(w.closers, w.sim.Close)
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return w, err
	}
	w.api = "http://" + listener.Addr().String()
	api := w.sim.Handler()
	http := &http.Server{ReadHeaderTimeout: readHeaderTimeout, Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		began := database.Now()
		api.ServeHTTP(rw, r)
		w.busy.Add(int64(database.Now().Sub(began)))
		w.requests.Add(1)
	})}
	go func() { _ = http.Serve(listener) }()
	w.closers = append(w.closers, func() { _ = http.Close() })
	return w, nil
}

func (w *benchWorld) close() {
	for i := len(w.closers) - 1; i >= 0; i-- {
		w.closers[i]()
	}
}

func (w *benchWorld) now() time.Time {
	if second := w.clock.Load(); second != 0 {
		return time.Unix(second, 0)
	}
	return database.Now()
}

// measure runs paidonce reconcile as a process of its own.
func (w *benchWorld) measure(ctx context.Context, want int) (benchRun, error) {
	binary, err := os.Executable()
	if err != nil {
		return benchRun{}, err
	}
	cmd := exec.CommandContext(ctx, binary, "reconcile", "--json", "--no-progress", "--heap",
		"--until", database.Now().Add(time.Minute).Format(time.RFC3339))
	cmd.Env = append(os.Environ(), "DATABASE_URL="+w.dsn, "STRIPE_API_BASE="+w.api, "STRIPE_SECRET_KEY=sk_test_bench",
		"RECONCILE_RATE=1000000", "STRIPE_ACCOUNT=", "SMTP_URL=", "STRIPE_WEBHOOK_SECRETS=", "LICENSE_SIGNING_KEYS=")
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	w.busy.Store(0)
	w.requests.Store(0)

	began := database.Now()
	err = cmd.Run()
	took := database.Now().Sub(began).Seconds()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return benchRun{}, err
	}
	if status := cmd.ProcessState.ExitCode(); status != want {
		return benchRun{}, fmt.Errorf("reconcile ended with %d, want %d: %s", status, want, tail(out.String()+errs.String()))
	}
	var report reconcile.Report
	if err := json.Unmarshal(out.Bytes(), &report); err != nil {
		return benchRun{}, fmt.Errorf("reading its report: %w", err)
	}
	run := benchRun{
		Objects: objectsIn(report.Counts), Seconds: took, ProviderSeconds: time.Duration(w.busy.Load()).Seconds(), Requests: w.requests.Load(),
		PeakHeapBytes: numberIn(errs.String(), heapLine), PeakRSSBytes: numberIn(errs.String(), rssLine),
	}
	for _, k := range report.Kinds {
		run.Healed += k.Healed
	}
	run.PerSecond = float64(run.Objects) / run.Seconds
	run.OwnPerSecond = float64(run.Objects) / max(run.Seconds-run.ProviderSeconds, 0.001)
	return run, nil
}

// numberIn finds what --heap wrote.
func numberIn(stderr, name string) uint64 {
	for line := range strings.SplitSeq(stderr, "\n") {
		if text, ok := strings.CutPrefix(line, name); ok {
			n, err := strconv.ParseUint(text, 10, 64)
			if err == nil {
				return n
			}
		}
	}
	return 0
}

func tail(s string) string {
	const most = 2000
	return s[max(0, len(s)-most):]
}
