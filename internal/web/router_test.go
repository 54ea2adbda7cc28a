package web_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"

	"paidonce/internal/database"
	"paidonce/internal/devpg/devpgtest"
	"paidonce/internal/web"
	"paidonce/migrations"
)

// routerWith serves one route beside the router's own answers.
func routerWith(t *testing.T, log *logText, handle gin.HandlerFunc) string {
	t.Helper()
	router := web.NewRouter(slog.New(slog.NewTextHandler(log, nil)))
	router.GET("/here", handle)
	server := httptest.NewServer(router)
	t.Cleanup(server.Close)
	return server.URL
}

// A panic is a 500 without its text; the log has it, with the stack, and the server goes on.
func TestRouter_Panic(t *testing.T) {
	t.Parallel()
	log := &logText{}
	url := routerWith(t, log, func(c *gin.Context) {
		if c.Query("ok") != "" {
			c.Status(http.StatusNoContent)
			return
		}
		panic(errors.New("password=hunter2"))
	})
	got := do(t, http.MethodGet, url+"/here", "")
	if p := got.problem(t); got.Status != http.StatusInternalServerError || p.Code != "INTERNAL" || strings.Contains(got.Body, "hunter2") || strings.Contains(got.Body, ".go") {
		t.Errorf("got %d %s", got.Status, got.Body)
	}
	if text := log.String(); !strings.Contains(text, "hunter2") || !strings.Contains(text, "router_test.go") || !strings.Contains(text, "/here") {
		t.Errorf("the log has\n%s", text)
	}
	if got := do(t, http.MethodGet, url+"/here?ok=1", ""); got.Status != http.StatusNoContent {
		t.Errorf("the next request: got %d", got.Status)
	}
}

// A panic after the answer has begun cannot take it back, and does not write a second one into it.
func TestRouter_PanicAfterTheAnswerBegan(t *testing.T) {
	t.Parallel()
	url := routerWith(t, &logText{}, func(c *gin.Context) {
		c.String(http.StatusOK, "begun")
		panic("late")
	})
	if got := do(t, http.MethodGet, url+"/here", ""); got.Status != http.StatusOK || got.Body != "begun" {
		t.Errorf("got %d %q", got.Status, got.Body)
	}
}

// Nothing is redirected: a client that does not follow gets an answer, not a way to one.
func TestRouter_RedirectsNothing(t *testing.T) {
	t.Parallel()
	url := routerWith(t, &logText{}, func(c *gin.Context) { c.Status(http.StatusOK) })
	for _, path := range []string{"/here/", "/HERE", "//here", "/./here", "/x/../here", "/nowhere", "/"} {
		got := do(t, http.MethodGet, url+path, "")
		if p := got.problem(t); got.Status != http.StatusNotFound || p.Code != "NOT_FOUND" || got.Header.Get("Location") != "" {
			t.Errorf("%s: got %d %s %s", path, got.Status, got.Header.Get("Location"), got.Body)
		}
	}
	got := do(t, http.MethodPost, url+"/here", "")
	if p := got.problem(t); got.Status != http.StatusMethodNotAllowed || p.Code != "METHOD_NOT_ALLOWED" {
		t.Errorf("another method: got %d %s", got.Status, got.Body)
	}
}

// B60: what a client says of its address is not believed.
func TestB60_Router_TrustsNoProxy(t *testing.T) {
	t.Parallel()
	url := routerWith(t, &logText{}, func(c *gin.Context) { c.String(http.StatusOK, c.ClientIP()) })
	for _, header := range []string{"X-Forwarded-For", "X-Real-Ip", "X-Appengine-Remote-Addr", "Cf-Connecting-Ip", "Forwarded"} {
		if got := do(t, http.MethodGet, url+"/here", "", header, "203.0.113.9"); got.Body != "127.0.0.1" {
			t.Errorf("%s: the client is taken for %s", header, got.Body)
		}
	}
}

// The process lives whatever its database does; it is ready when requests would be served.
func TestHealth(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		prepare func(t *testing.T, dsn string) string
		ready   int
		detail  string
	}{
		"Ready":         {func(_ *testing.T, dsn string) string { return dsn }, 200, ""},
		"Database away": {func(*testing.T, string) string { return "postgres:///x?host=/nowhere" }, 503, "Not ready: database."},
		"Behind": {func(t *testing.T, dsn string) string {
			t.Helper()
			_, err := migrations.Down(t.Context(), dsn)
			must(t, err)
			return dsn
		}, 503, "Not ready: migrations."},
		// While a deploy replaces one instance after the other, the old ones are all there is to serve.
		"Ahead": {func(t *testing.T, dsn string) string {
			t.Helper()
			execute(t, dsn, `INSERT INTO goose_db_version (version_id, is_applied) VALUES (999, true)`)
			return dsn
		}, 200, ""},
		"Never migrated": {func(t *testing.T, _ string) string { t.Helper(); return devpgtest.NewEmpty(t) }, 503, "Not ready: migrations."},
		"No queue": {func(t *testing.T, dsn string) string {
			t.Helper()
			execute(t, dsn, `DROP TABLE river_job CASCADE`)
			return dsn
		}, 503, "Not ready: queue."},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db, err := database.Open(t.Context(), c.prepare(t, devpgtest.New(t)), database.Options{MaxConns: 2})
			must(t, err)
			t.Cleanup(db.Close)
			router := web.NewRouter(slog.New(slog.DiscardHandler))
			(&web.Health{SQL: db.SQL, Log: slog.New(slog.DiscardHandler)}).Register(router)
			server := httptest.NewServer(router)
			t.Cleanup(server.Close)

			if got := do(t, http.MethodGet, server.URL+"/healthz", ""); got.Status != http.StatusOK || got.Body != `{"status":"ok"}` {
				t.Errorf("healthz: got %d %s", got.Status, got.Body)
			}
			got := do(t, http.MethodGet, server.URL+"/readyz", "")
			if got.Status != c.ready {
				t.Errorf("readyz: got %d %s, want %d", got.Status, got.Body, c.ready)
			}
			if c.ready != http.StatusOK {
				if p := got.problem(t); p.Code != "NOT_READY" || p.Detail != c.detail {
					t.Errorf("readyz: got %s, want %q", got.Body, c.detail)
				}
			} else if got.Body != `{"status":"ready"}` {
				t.Errorf("readyz: got %s", got.Body)
			}
		})
	}
}

// A pool that is exhausted is not ready, and says so in bounded time.
func TestHealth_PoolExhausted(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for range 4 {
		conn, err := s.db.Pool.Acquire(ctx)
		must(t, err)
		defer conn.Release()
	}
	if got := do(t, http.MethodGet, s.url+"/readyz", ""); got.Status != http.StatusServiceUnavailable || got.problem(t).Detail != "Not ready: database." {
		t.Errorf("got %d %s", got.Status, got.Body)
	}
	if got := do(t, http.MethodGet, s.url+"/healthz", ""); got.Status != http.StatusOK {
		t.Errorf("healthz: got %d", got.Status)
	}
}

func execute(t *testing.T, dsn, sql string) {
	t.Helper()
	db, err := database.Open(t.Context(), dsn, database.Options{MaxConns: 1})
	must(t, err)
	defer db.Close()
	_, err = db.Pool.Exec(t.Context(), sql)
	must(t, err)
}
