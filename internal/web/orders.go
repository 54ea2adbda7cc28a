package web

import (
	"context"
	"html/template"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/google/uuid"
	"gorm.io/gorm"

	"paidonce/fulfillment"
	"paidonce/internal/problem"
	"paidonce/internal/provider"
	"paidonce/licenses"
	"paidonce/orders"
)

// openTimeout bounds how long a request waits for the provider to open a checkout. It is
// longer than one request to the provider may take, and shorter than a request's lease.
const openTimeout = provider.DefaultTimeout + 5*time.Second

// Orders serves what a buyer does with an order: making it, looking at it, coming back from
// its checkout, and asking for another.
type Orders struct {
	DB       *gorm.DB
	Store    *orders.Store
	Licenses *licenses.Store
	Service  *fulfillment.Service
	Merchant orders.Merchant
	Tokens   Tokens
	Ready    bool // the provider is configured; if not, no order is taken (I11)
	Log      *slog.Logger

	// Crash, if set, is called at every crash window with its id. Nil in production.
	Crash func(window string)

	returnPage *template.Template
}

// Register adds the routes.
func (o *Orders) Register(routes gin.IRoutes) {
	o.returnPage = template.Must(template.ParseFS(templates, "templates/return.html"))
	routes.POST("/orders", o.create)
	routes.GET("/orders/:id", o.show)
	routes.POST("/orders/:id/checkout", o.checkoutAgain)
	routes.GET("/orders/:id/return", o.returned)
}

func (o *Orders) crash(window string) {
	if o.Crash != nil {
		o.Crash(window)
	}
}

// detached is a context for work that goes on if the client hangs up: what was written down
// stands, and so does the wish to open its checkout.
func detached(c *gin.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(c.Request.Context()), timeout)
}

// show answers with an order, to whoever has its token. Without it the answer is the same
// for an order that exists and one that does not.
func (o *Orders) show(c *gin.Context) {
	id, ok := o.opened(c)
	if !ok {
		return
	}
	view, err := o.Store.Get(c.Request.Context(), id)
	if err != nil {
		o.refuse(c, "order not read", err)
		return
	}
	shown, err := o.render(c.Request.Context(), view)
	if err != nil {
		o.refuse(c, "order not read", err)
		return
	}
	c.Header("Cache-Control", "no-store")
	c.JSON(http.StatusOK, shown)
}

// opened is the order that the request's token opens. If it opens none, the request has been
// answered.
func (o *Orders) opened(c *gin.Context) (uuid.UUID, bool) {
	id, err := uuid.Parse(c.Param("id"))
	if err != nil || !o.Tokens.Opens(id, tokenOf(c)) {
		c.Header("WWW-Authenticate", "Bearer")
		problem.Write(c, problem.Problem{Status: http.StatusUnauthorized, Code: "BAD_TOKEN", Detail: "The order's token is needed: Authorization: Bearer, or ?token=."})
		return uuid.Nil, false
	}
	return id, true
}

// tokenOf takes the token from the Authorization header, or else from the query.
func tokenOf(c *gin.Context) string {
	if scheme, token, _ := strings.Cut(c.GetHeader("Authorization"), " "); strings.EqualFold(scheme, "Bearer") {
		return token
	}
	return c.Query("token")
}
