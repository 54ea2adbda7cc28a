package web

import (
	"log/slog"
	"net/http"
	"runtime/debug"

	"github.com/gin-gonic/gin"

	"paidonce/internal/problem"
)

// NewRouter returns an engine with our defaults: no proxy is trusted for the client's
// address, nothing is redirected, and every error is a problem. A panic is logged with its
// stack and answered without.
func NewRouter(log *slog.Logger) *gin.Engine {
	gin.SetMode(gin.ReleaseMode)
	router := gin.New()
	router.RedirectTrailingSlash = false
	router.RedirectFixedPath = false
	router.HandleMethodNotAllowed = true
	if err := router.SetTrustedProxies(nil); err != nil {
		panic("bug: no proxies are always valid: " + err.Error())
	}
	router.Use(recoverer(log))
	router.NoRoute(func(c *gin.Context) {
		problem.Write(c, problem.Problem{Status: http.StatusNotFound, Code: "NOT_FOUND", Detail: "There is nothing here."})
	})
	router.NoMethod(func(c *gin.Context) {
		problem.Write(c, problem.Problem{Status: http.StatusMethodNotAllowed, Code: "METHOD_NOT_ALLOWED", Detail: "Not by this method."})
	})
	return router
}

func recoverer(log *slog.Logger) gin.HandlerFunc {
	return func(c *gin.Context) {
		defer func() {
			if p := recover(); p != nil {
				log.Error("panic in a request", "method", c.Request.Method, "route", c.FullPath(), "panic", p, "stack", string(debug.Stack()))
				if !c.Writer.Written() {
					problem.Write(c, internal())
				}
				c.Abort()
			}
		}()
		c.Next()
	}
}

// internal is the answer to what is our own fault; what it was is in the log.
func internal() problem.Problem {
	return problem.Problem{Status: http.StatusInternalServerError, Code: "INTERNAL", Detail: "Something went wrong here. Try again."}
}
