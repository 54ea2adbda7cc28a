package web_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"paidonce/internal/web"
	"paidonce/reconcile"
)

// The metrics are read when they are asked for, by who has the token; without one configured
// they are not there.
func TestMetrics(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	clean := now.Add(-90 * time.Second)
	standing := reconcile.Standing{Open: map[reconcile.Kind]int64{reconcile.PaidHere: 2}, LastClean: &clean}
	var failed error
	serve := func(token, authorization string) (int, string) {
		log := slog.New(slog.DiscardHandler)
		router := web.NewRouter(log)
		(&web.Metrics{
			Token: token, Now: func() time.Time { return now }, Log: log,
			Standing: func(context.Context) (reconcile.Standing, error) { return standing, failed },
		}).Register(router)
		request := httptest.NewRequest(http.MethodGet, "/metrics", nil)
		if authorization != "" {
			request.Header.Set("Authorization", authorization)
		}
		answer := httptest.NewRecorder()
		router.ServeHTTP(answer, request)
		return answer.Code, answer.Body.String()
	}

	code, body := serve("secret-of-the-scraper", "Bearer secret-of-the-scraper")
	for _, want := range []string{
		`paidonce_reconcile_open_findings{kind="paid_here"} 2`, `paidonce_reconcile_open_findings{kind="paid_there"} 0`,
		`paidonce_reconcile_last_clean_age_seconds 90`,
	} {
		if code != http.StatusOK || !strings.Contains(body, want+"\n") {
			t.Errorf("metrics = %d\n%s, want %s", code, body, want)
		}
	}
	if n := strings.Count(body, "paidonce_reconcile_open_findings{"); n != len(reconcile.Kinds()) {
		t.Errorf("%d kinds told, want all %d", n, len(reconcile.Kinds()))
	}
	standing.LastClean = nil
	if _, body := serve("secret-of-the-scraper", "Bearer secret-of-the-scraper"); !strings.Contains(body, "age_seconds +Inf") {
		t.Errorf("without a clean run:\n%s, want +Inf", body)
	}
	for _, wrong := range []string{"", "Bearer", "Bearer ", "Bearer wrong", "secret-of-the-scraper", "Basic secret-of-the-scraper"} {
		if code, body := serve("secret-of-the-scraper", wrong); code != http.StatusUnauthorized || strings.Contains(body, "paidonce_reconcile") {
			t.Errorf("authorization %q = %d", wrong, code)
		}
	}
	if code, _ := serve("", "Bearer "); code != http.StatusNotFound {
		t.Errorf("without a token configured = %d, want 404", code)
	}
	failed = errors.New("the database is away")
	if code, _ := serve("secret-of-the-scraper", "Bearer secret-of-the-scraper"); code != http.StatusInternalServerError {
		t.Errorf("without a database = %d, want 500", code)
	}
}
