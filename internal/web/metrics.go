package web

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"log/slog"
	"math"
	"net/http"
	"strings"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"paidonce/internal/problem"
	"paidonce/reconcile"
)

// Metrics serves /metrics to whoever has its token. Without a token it is not there (I11): how
// many payments are in trouble is nobody's business.
//
// The numbers are read from the database when they are asked for, so that every process tells
// the same and none has to have done the work itself.
type Metrics struct {
	Token    string // "" is not configured
	Standing func(context.Context) (reconcile.Standing, error)
	Now      func() time.Time
	Log      *slog.Logger
}

// scrapeTimeout bounds the questions of a scrape.
const scrapeTimeout = 5 * time.Second

// Register adds the route, if there is a token.
func (m *Metrics) Register(routes gin.IRoutes) {
	if m.Token == "" {
		return
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(m)
	handler := promhttp.HandlerFor(registry, promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError, ErrorLog: m})
	routes.GET("/metrics", func(c *gin.Context) {
		token, found := strings.CutPrefix(c.GetHeader("Authorization"), "Bearer ")
		given, want := sha256.Sum256([]byte(token)), sha256.Sum256([]byte(m.Token))
		if !found || subtle.ConstantTimeCompare(given[:], want[:]) != 1 {
			c.Header("WWW-Authenticate", "Bearer")
			problem.Write(c, problem.Problem{Status: http.StatusUnauthorized, Code: "UNAUTHORIZED", Detail: "The metrics need METRICS_TOKEN as a bearer token."})
			return
		}
		handler.ServeHTTP(c.Writer, c.Request)
	})
}

// Println logs what the handler could not serve.
func (m *Metrics) Println(v ...any) { m.Log.Warn("metrics not served", "error", v) }

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(to chan<- *prometheus.Desc) {
	to <- openFindings()
	to <- lastCleanAge()
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(to chan<- prometheus.Metric) {
	// The interface brings no context of the request's.
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	standing, err := m.Standing(ctx)
	if err != nil {
		to <- prometheus.NewInvalidMetric(openFindings(), err)
		return
	}
	for _, kind := range reconcile.Kinds() {
		to <- prometheus.MustNewConstMetric(openFindings(), prometheus.GaugeValue, float64(standing.Open[kind]), string(kind))
	}
	age := math.Inf(1) // never: older than whatever a rule allows
	if standing.LastClean != nil {
		age = m.Now().Sub(*standing.LastClean).Seconds()
	}
	to <- prometheus.MustNewConstMetric(lastCleanAge(), prometheus.GaugeValue, age)
}

func openFindings() *prometheus.Desc {
	return prometheus.NewDesc("paidonce_reconcile_open_findings",
		"Findings that are open and that nobody has acknowledged, by kind.", []string{"kind"}, nil)
}

func lastCleanAge() *prometheus.Desc {
	return prometheus.NewDesc("paidonce_reconcile_last_clean_age_seconds",
		"Seconds since the end of the last run that found nothing; +Inf if there was none.", nil, nil)
}
