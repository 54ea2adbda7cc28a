package stripesim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// Serve runs a Sim at addr until ctx ends, with its state in the file c.State if that is named. It prints one line with the URL once it listens, then one line per API request,
// payment and delivery. A graceful end is no error.
func Serve(ctx context.Context, addr string, c Config, out io.Writer) error {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return fmt.Errorf("%w at %q: %w", ErrListen, addr, listening(err))
	}
	if c.BaseURL == "" {
		c.BaseURL = "http://" + reachable(l.Addr())
	}
	printer := &printer{out: out}
	printer.print("Simulated Stripe at " + c.BaseURL)
	c.observe = func(at time.Time, line string) { printer.print(at.Format(time.TimeOnly) + "  " + line) }
	s, err := Open(c) //nolint:contextcheck // deliveries end with Close, not before
	if err != nil {
		_ = l.Close()
		return err
	}
	defer s.Close()

	srv := &http.Server{
		Handler:           s.Handler(),
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       30 * time.Second,
	}
	ticking := time.NewTicker(time.Second)
	defer ticking.Stop()
	failed := make(chan error, 1)
	go func() { failed <- srv.Serve(l) }()
	for ctx.Err() == nil {
		select {
		case err := <-failed:
			return fmt.Errorf("serving at %s: %w", addr, err)
		case <-ticking.C:
			s.Tick() //nolint:contextcheck // deliveries outlive the tick that caused them
		case <-ctx.Done():
		}
	}

	s.Close() // first: it also ends injected waits, which would hold requests open
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := srv.Shutdown(end); err != nil {
		_ = srv.Close()
	}
	if err := <-failed; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving at %s: %w", addr, err)
	}
	return nil
}

// listening is why there is no listener, without the address, which net repeats.
func listening(err error) error {
	var network *net.OpError
	if errors.As(err, &network) {
		return network.Err
	}
	return err
}

// reachable is the address a browser on this machine can use: a listener on all interfaces has none of its own.
func reachable(a net.Addr) string {
	if tcp, ok := a.(*net.TCPAddr); ok && tcp.IP.IsUnspecified() {
		return fmt.Sprintf("localhost:%d", tcp.Port)
	}
	return a.String()
}

// printer writes whole lines, however many goroutines have one to say.
type printer struct {
	mu  sync.Mutex
	out io.Writer
}

func (p *printer) print(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, _ = fmt.Fprintln(p.out, line)
}
