package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"paidonce/internal/stripesim"
)

// What a web process does with clients that are slow, large, many or lying (B38, B44, B45).
// Everything is real: a process of its own, its limits, TCP.

const shopSecret = "whsec_shop"

// anEvent is a signed delivery that changes nothing, of about so many bytes.
func anEvent(size int) (id string, body []byte, signature string) {
	id = "evt_" + uuid.NewString()
	body = fmt.Appendf(nil, `{"id":%q,"object":"event","type":"customer.created","created":%d,"livemode":false,"api_version":"2024-06-20",`+
		`"data":{"object":{"id":"cus_1","object":"customer","description":%q}}}`, id, time.Now().Unix(), strings.Repeat("x", size))
	return id, body, stripesim.Sign(body, time.Now(), shopSecret)
}

// answered is the time in which a provider wants its answer.
const answered = 10 * time.Second

// postDelivery posts a delivery from any goroutine.
func postDelivery(ctx context.Context, addr string, body []byte, signature string) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, answered)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+addr+"/webhooks/stripe", bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	request.Header.Set("Stripe-Signature", signature)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	return response.StatusCode, response.Body.Close()
}

// wire is a connection to the web process, by hand.
type wire struct {
	net.Conn

	in *bufio.Reader
}

func dial(t *testing.T, addr string) wire {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return wire{conn, bufio.NewReader(conn)}
}

// status reads an answer and returns its status; 0: the connection was closed without one.
func (w wire) status(t *testing.T, within time.Duration) int {
	t.Helper()
	if err := w.SetReadDeadline(time.Now().Add(within)); err != nil {
		t.Fatal(err)
	}
	response, err := http.ReadResponse(w.in, nil)
	if timeout, ok := err.(net.Error); ok && timeout.Timeout() { //nolint:errorlint // straight from the connection
		t.Errorf("no answer and no end within %s", within)
		return -1
	}
	if err != nil {
		return 0
	}
	_, _ = io.Copy(io.Discard, response.Body)
	_ = response.Body.Close()
	return response.StatusCode
}

func head(length int, more ...string) string {
	return "POST /webhooks/stripe HTTP/1.1\r\nHost: shop.example\r\n" + fmt.Sprintf("Content-Length: %d\r\n", length) + strings.Join(append(more, ""), "\r\n") + "\r\n"
}

// The rest of the time in which a slow client must be got rid of: twice the limit.
const slack = 2 * readTimeout

// B38: each kind of request that is not to be served, and that none of it is stored.
func TestB38_WhatIsRefused(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.web()
	_, body, signature := anEvent(100)
	signed := "Stripe-Signature: " + signature
	var bomb bytes.Buffer
	packer := gzip.NewWriter(&bomb)
	_, _ = packer.Write(make([]byte, 10<<20))
	_ = packer.Close()

	for name, c := range map[string]struct {
		send string
		want int
	}{
		// Nothing of the promised body is ever sent: the answer comes before it.
		"Unsigned":         {head(1000), 403},
		"Encoded":          {head(bomb.Len(), "Content-Encoding: gzip", signed), 415},
		"TooLargeAndSaid":  {head(2<<20, signed), 413},
		"HeadersTooLarge":  {head(0, "X-Long: "+strings.Repeat("x", 128<<10)), 431},
		"EncodedBomb":      {head(bomb.Len(), "Content-Encoding: gzip", signed) + bomb.String(), 415},
		"LessThanPromised": {head(len(body)+10, signed) + string(body), -400},
		"MoreThanPromised": {head(len(body)-10, signed) + string(body), 403}, // what is there is not what was signed
		"NegativeLength":   {head(-1, signed), 400},
		"TwoLengths":       {strings.Replace(head(2, signed), "Host", "Content-Length: 3\r\nHost", 1) + "{}", 400},
		"NoHTTP":           {"hello\r\n\r\n", 400},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := dial(t, s.addr)
			_, _ = io.WriteString(w, c.send) // a refusal may come while it is being sent
			want := c.want
			if want < 0 { // the sender is done, and has not sent what it promised
				want = -want
				_ = w.Conn.(*net.TCPConn).CloseWrite()
			}
			if got := w.status(t, readTimeout-2*time.Second); got != want {
				t.Errorf("got %d, want %d", got, want)
			}
		})
	}
	t.Cleanup(func() {
		if n := s.one(`SELECT count(*) FROM webhook_deliveries`); n != "0" {
			t.Errorf("%s deliveries are stored", n)
		}
	})
}

// B38: a body without an end is cut off soon after the limit.
func TestB38_EndlessBody(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.web()
	w := dial(t, s.addr)
	_, err := io.WriteString(w, "POST /webhooks/stripe HTTP/1.1\r\nHost: shop.example\r\nTransfer-Encoding: chunked\r\nStripe-Signature: t=1,v1=ab\r\n\r\n")
	if err != nil {
		t.Fatal(err)
	}
	chunk := "10000\r\n" + strings.Repeat("x", 1<<16) + "\r\n"
	sent := 0
	for ; sent < 2<<30; sent += 1 << 16 {
		if _, err := io.WriteString(w, chunk); err != nil {
			break
		}
	}
	if sent > 32<<20 { // what the buffers of both sides hold, and far less than was to come
		t.Errorf("took %d MB of a body that has no end", sent>>20)
	}
}

// B38, B45: hundreds of slow clients, in their headers and in their bodies, cost neither the
// real deliveries their time nor the process its memory, and are got rid of.
func TestB38_SlowClients(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	p := s.web()
	before := p.memory(t)
	const each = 250
	var slow []wire
	for range each {
		inHeader := dial(t, s.addr)
		_, _ = io.WriteString(inHeader, "POST /webhooks/stripe HTTP/1.1\r\nHo")
		inBody := dial(t, s.addr)
		_, _ = io.WriteString(inBody, head(1000, "Stripe-Signature: t=1,v1=ab")+"{")
		slow = append(slow, inHeader, inBody)
	}

	// Meanwhile the largest real event is taken.
	for range 20 {
		_, body, signature := anEvent(300 << 10)
		if got, err := postDelivery(t.Context(), s.addr, body, signature); err != nil || got != http.StatusOK {
			t.Fatalf("a real delivery beside slow clients: got %d, %v", got, err)
		}
	}
	// A connection that held the largest body would make it 512 MB; the race detector triples
	// what it really is.
	grown := p.memory(t) - before
	t.Logf("%d slow clients and 20 large deliveries: the process has grown by %d KB", len(slow), grown)
	if grown > 160<<10 {
		t.Errorf("grown by %d KB", grown)
	}
	for i, w := range slow {
		if got := w.status(t, slack); got != 0 && got != 400 && got != 408 {
			t.Errorf("slow client %d: got %d, want the end", i, got)
		}
	}
}

// memory is what the process has in memory, in KB.
func (p *process) memory(t *testing.T) int {
	t.Helper()
	if runtime.GOOS != "linux" {
		return 0 // NOT MEASURED: there is no /proc
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	var kb int
	if _, err := fmt.Sscan(rest, &kb); err != nil {
		t.Fatal(err)
	}
	return kb
}

// B44: with a small pool, a provider that hangs takes no connection from the webhooks; and
// when the process is told to stop meanwhile, it stops in order.
func TestB44_AHangingProvider(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	hang := make(chan struct{})
	var once sync.Once
	asked := make(chan struct{}, 100)
	provider := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		select {
		case <-hang:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(func() { once.Do(func() { close(hang) }); provider.Close() })
	s.env = append(s.env, "STRIPE_API_BASE="+provider.URL, "DB_MAX_CONNS=3")
	p := s.web()

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	const buyers = 30
	var buying sync.WaitGroup
	defer buying.Wait()
	defer cancel()
	for range buyers {
		buying.Go(func() {
			request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+s.addr+"/orders",
				strings.NewReader(`{"email":"buyer@example.com","items":[{"sku":"KEY-1","quantity":1}]}`))
			if err != nil {
				t.Error(err)
				return
			}
			if response, err := http.DefaultClient.Do(request); err == nil {
				_ = response.Body.Close()
			}
		})
	}
	for range buyers {
		select {
		case <-asked:
		case <-time.After(patience):
			t.Fatal("not all buyers have come to the provider")
		}
	}
	for range 50 {
		_, body, signature := anEvent(100)
		if got, err := postDelivery(t.Context(), s.addr, body, signature); err != nil || got != http.StatusOK {
			t.Fatalf("a delivery while the provider hangs: got %d, %v", got, err)
		}
	}
	if !ready(s.addr) {
		t.Error("not ready while the provider hangs")
	}

	p.stop()
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("stopped with exit code %d; its log:\n%s", code, p.log)
	}
}

// B44: the same delivery fifty times, while somebody else's uncommitted insert of it is in the
// way: every wait has an end, and what has no row was not acknowledged.
func TestB44_DuplicatesThatWait(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.env = append(s.env, "DB_MAX_CONNS=5")
	s.web()
	id, body, signature := anEvent(100)
	blocker := s.db.Gorm.WithContext(t.Context()).Begin()
	defer blocker.Rollback()
	const insert = `INSERT INTO webhook_deliveries (provider, event_id, event_type, resource_id, account, api_version, source, body, livemode, occurred_at, received_at, opened_at, next_attempt_at)
VALUES ('stripe', ?, 'customer.created', 'cus_1', '', '', 'webhook', '{}', false, now(), now(), now(), now())`
	if err := blocker.Exec(insert, id).Error; err != nil {
		t.Fatal(err)
	}

	var posting sync.WaitGroup
	var mu sync.Mutex
	answers := map[int]int{}
	for range 50 {
		posting.Go(func() {
			status, err := postDelivery(t.Context(), s.addr, body, signature)
			mu.Lock()
			defer mu.Unlock()
			answers[status]++
			if err != nil {
				t.Error(err)
			}
		})
	}
	done := make(chan struct{})
	go func() { posting.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(patience):
		t.Fatal("deliveries wait without an end")
	}
	if answers[http.StatusOK] > 0 || answers[http.StatusServiceUnavailable] != 50 {
		t.Errorf("answers %v, want 503 for all: nothing of it is committed", answers)
	}
	if err := blocker.Rollback().Error; err != nil {
		t.Fatal(err)
	}
	if got, err := postDelivery(t.Context(), s.addr, body, signature); err != nil || got != http.StatusOK {
		t.Errorf("once nobody is in the way: got %d, %v", got, err)
	}
	if n := s.one(`SELECT count(*) FROM webhook_deliveries WHERE event_id = ?`, id); n != "1" {
		t.Errorf("%s rows", n)
	}
}
