package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"paidonce/internal/stripesim"
)

// A deploy replaces every process while buyers pay: no order is lost, no delivery is tried
// twice, and no job counts a failure.
func TestRollingRestart(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	front := s.balance()
	web := []*process{s.replaceWeb(front, nil), s.replaceWeb(front, nil)}
	workers := []*process{s.start("work"), s.start("work")}

	ctx, stop := context.WithCancel(t.Context())
	shopping := s.keepBuying(ctx)
	for range 2 {
		for i := range web {
			s.eventually("orders to go on", shopping.went(3))
			web[i] = s.replaceWeb(front, web[i])
		}
		for i := range workers {
			s.eventually("orders to go on", shopping.went(3))
			workers[i].stop()
			workers[i] = s.start("work")
			s.eventually("the successor to work", func() bool { return s.works(workers[i]) })
		}
	}
	s.eventually("orders to go on", shopping.went(3))
	stop()
	orders := shopping.end(t)

	s.eventually("all orders to be fulfilled and all work done", func() bool {
		return s.one(`
SELECT (SELECT count(*) FROM webhook_deliveries WHERE processed_at IS NULL)
     + (SELECT count(*) FROM orders WHERE state <> 'fulfilled')
     + (SELECT count(*) FROM river_job WHERE finalized_at IS NULL AND kind <> 'sweep_parked')`) == "0"
	})
	t.Logf("%d orders were paid while 8 processes were replaced", len(orders))
	for _, order := range orders {
		if got, want := s.outcome(order), fulfilledOnce(); got != want {
			t.Errorf("order %s: %+v, want %+v", order, got, want)
		}
	}
	for what, query := range map[string]string{
		"deliveries were tried again": `SELECT count(*) FROM webhook_deliveries WHERE attempts <> 1`,
		"jobs counted a failure":      `SELECT count(*) FROM river_job WHERE cardinality(errors) > 0`,
		"jobs were tried again":       `SELECT count(*) FROM river_job WHERE attempt > 1`,
		"jobs were rescued or ended":  `SELECT count(*) FROM river_job WHERE state IN ('discarded', 'cancelled')`,
	} {
		if n := s.one(query); n != "0" {
			t.Errorf("%s %s", n, what)
		}
	}
}

// at is the same shop with a web process at another address.
func (s *shop) at(addr string) *shop {
	there := *s
	there.addr, there.env = addr, append(slices.Clip(s.env), "ADDR="+addr)
	return &there
}

func ready(addr string) bool {
	response, err := http.Get("http://" + addr + "/readyz")
	if err != nil {
		return false
	}
	defer func() { _ = response.Body.Close() }()
	return response.StatusCode == http.StatusOK
}

// works tells whether a process listens for deliveries, which it does once it drains.
func (s *shop) works(p *process) bool {
	return s.one(`SELECT count(*) FROM pg_stat_activity WHERE application_name = ? AND query LIKE 'LISTEN%'`, p.name) != "0"
}

// balancer is what stands before the web processes: it gives each connection to one that
// takes it.
type balancer struct {
	mu       sync.Mutex
	backends []string
}

// balance listens at the shop's address.
func (s *shop) balance() *balancer {
	s.t.Helper()
	b := &balancer{}
	listener, err := net.Listen("tcp", s.addr)
	if err != nil {
		s.t.Fatal(err)
	}
	var serving sync.WaitGroup
	s.t.Cleanup(func() { _ = listener.Close(); serving.Wait() })
	serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { b.forward(conn) })
		}
	})
	return b
}

func (b *balancer) forward(client net.Conn) {
	defer func() { _ = client.Close() }()
	b.mu.Lock()
	backends := slices.Clone(b.backends)
	b.mu.Unlock()
	for _, backend := range backends {
		server, err := net.Dial("tcp", backend)
		if err != nil {
			continue
		}
		go func() {
			_, _ = io.Copy(server, client)
			_ = server.(*net.TCPConn).CloseWrite()
		}()
		_, _ = io.Copy(client, server)
		_ = server.Close()
		return
	}
}

// replaceWeb starts a web process, sends buyers to it, and only then stops the old one.
func (s *shop) replaceWeb(b *balancer, old *process) *process {
	s.t.Helper()
	addr := freeAddr(s.t)
	p := s.at(addr).start("serve", "--no-workers")
	s.eventually("the web process to be ready", func() bool { return ready(addr) })
	b.mu.Lock()
	b.backends = append([]string{addr}, b.backends...)
	b.backends = b.backends[:min(len(b.backends), 2)]
	b.mu.Unlock()
	if old != nil {
		old.stop()
	}
	return p
}

// shopping is buyers at work.
type shopping struct {
	mu     sync.Mutex
	orders []uuid.UUID
	err    error
	done   sync.WaitGroup
}

// keepBuying orders and pays, two buyers at a time, until ctx ends.
func (s *shop) keepBuying(ctx context.Context) *shopping {
	buying := &shopping{}
	for range 2 {
		buying.done.Go(func() {
			for ctx.Err() == nil {
				order, err := s.buy()
				buying.mu.Lock()
				if err != nil {
					buying.err = errors.Join(buying.err, err)
				} else {
					buying.orders = append(buying.orders, order)
				}
				buying.mu.Unlock()
				if err != nil {
					return
				}
			}
		})
	}
	return buying
}

// went makes a condition: so many more orders than now.
func (b *shopping) went(more int) func() bool {
	count := func() (int, error) {
		b.mu.Lock()
		defer b.mu.Unlock()
		return len(b.orders), b.err
	}
	begin, _ := count()
	return func() bool {
		n, err := count()
		return n >= begin+more || err != nil
	}
}

func (b *shopping) end(t *testing.T) []uuid.UUID {
	t.Helper()
	b.done.Wait()
	if b.err != nil {
		t.Fatalf("buying: %v", b.err)
	}
	return b.orders
}

// buy makes one order and pays it. A connection that a stopping process closes is asked again,
// under the same key, as every client does.
func (s *shop) buy() (uuid.UUID, error) {
	key := uuid.NewString()
	var order struct {
		ID uuid.UUID `json:"id"`
	}
	deadline := time.Now().Add(patience)
	for {
		status, answer, err := s.postOrder(key)
		if err == nil && status == http.StatusCreated {
			if err := json.Unmarshal(answer, &order); err != nil {
				return uuid.Nil, err
			}
			break
		}
		if err == nil && status != http.StatusConflict || time.Now().After(deadline) {
			return uuid.Nil, fmt.Errorf("making an order: %d %s %w", status, answer, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
	var session string
	if err := s.db.Gorm.Raw(`SELECT resource_id FROM payments WHERE order_id = ?`, order.ID).Row().Scan(&session); err != nil {
		return uuid.Nil, fmt.Errorf("the session of order %s: %w", order.ID, err)
	}
	_, err := s.sim.Pay(session, stripesim.PayOptions{})
	return order.ID, err
}

func (s *shop) postOrder(key string) (int, []byte, error) {
	const body = `{"email":"buyer@example.com","items":[{"sku":"KEY-1","quantity":2}]}`
	request, err := http.NewRequest(http.MethodPost, "http://"+s.addr+"/orders", strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	request.Header.Set("Idempotency-Key", key)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, nil, err
	}
	answer, err := io.ReadAll(response.Body)
	return response.StatusCode, answer, errors.Join(err, response.Body.Close())
}
