package web

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"paidonce/internal/problem"
	"paidonce/migrations"
)

// readyTimeout bounds the questions behind /readyz; whoever asks has a timeout of its own.
const readyTimeout = 2 * time.Second

// Health serves /healthz and /readyz.
type Health struct {
	SQL *sql.DB
	Log *slog.Logger
}

// Register adds the routes.
func (h *Health) Register(routes gin.IRoutes) {
	routes.GET("/healthz", h.alive)
	routes.GET("/readyz", h.ready)
}

// alive says that the process runs, and asks nobody: a database that is away is no reason
// to restart it.
func (h *Health) alive(c *gin.Context) { c.JSON(http.StatusOK, gin.H{"status": "ok"}) }

// migrated is satisfied by a database that is ahead: while a deploy replaces one instance
// after the other, the first new one migrates, and the old ones are all there is to serve.
// Migrations only add. Starting against a database that is ahead is refused elsewhere.
func (h *Health) migrated(ctx context.Context) error {
	err := migrations.Check(ctx, h.SQL)
	if errors.Is(err, migrations.ErrAhead) {
		h.Log.Warn("the database is ahead of this binary", "error", err.Error())
		return nil
	}
	return err
}

// ready says whether requests would be served: the database answers, it is at this binary's
// version, and the queue's tables are there.
func (h *Health) ready(c *gin.Context) {
	ctx, cancel := context.WithTimeout(c.Request.Context(), readyTimeout)
	defer cancel()
	checks := []struct {
		name string
		ask  func(context.Context) error
	}{
		{"database", h.SQL.PingContext},
		{"migrations", h.migrated},
		{"queue", func(ctx context.Context) error {
			_, err := h.SQL.ExecContext(ctx, `SELECT 1 FROM river_job LIMIT 1`)
			return err
		}},
	}
	for _, check := range checks {
		if err := check.ask(ctx); err != nil {
			h.Log.Warn("not ready", "check", check.name, "error", err.Error())
			problem.Write(c, problem.Problem{Status: http.StatusServiceUnavailable, Code: "NOT_READY", Detail: "Not ready: " + check.name + "."})
			return
		}
	}
	c.JSON(http.StatusOK, gin.H{"status": "ready"})
}
