package web

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"

	"paidonce/internal/database"
	"paidonce/internal/problem"
	"paidonce/internal/provider"
	"paidonce/orders"
)

// endTimeout bounds how long a request waits for the open checkout to be ended, before
// another is asked for. Together with openTimeout it is less than the server's patience.
const endTimeout = 15 * time.Second

// checkoutAgain opens another checkout for an order that is not paid, to whoever has its
// token.
func (o *Orders) checkoutAgain(c *gin.Context) {
	id, ok := o.opened(c)
	if !ok {
		return
	}
	request, ok := o.begin(c, "POST /orders/"+id.String()+"/checkout")
	if !ok {
		return
	}
	created, err := func() (orders.Created, error) {
		ctx, cancel := detached(c, endTimeout)
		defer cancel()
		return o.Service.CheckoutAgain(ctx, o.Merchant, id, request)
	}()
	if err != nil {
		o.refuse(c, "no other checkout", err)
		return
	}
	ctx, cancel := detached(c, openTimeout)
	defer cancel()
	o.open(ctx, c, created, request)
}

// refuse answers a POST that could not be done. It is the one place where a cause becomes an
// answer; the cause itself goes to the log.
func (o *Orders) refuse(c *gin.Context, what string, err error) {
	var input *orders.InputError
	var closed *orders.NotOpenError
	var retry *provider.RetryError
	switch {
	case errors.As(err, &input):
		problem.Write(c, invalid(input.Field, input.Detail))
	case errors.Is(err, orders.ErrKeyReused):
		problem.Write(c, problem.Problem{
			Status: http.StatusUnprocessableEntity, Code: "KEY_REUSED", Field: keyHeader, Detail: "This " + keyHeader + " was used for another request.",
		})
	case errors.Is(err, orders.ErrInFlight), errors.Is(err, provider.ErrInFlight):
		c.Header("Retry-After", "1")
		problem.Write(c, problem.Problem{Status: http.StatusConflict, Code: "IN_FLIGHT", Detail: "The same is being worked on. Ask again in a moment."})
	case errors.As(err, &closed):
		problem.Write(c, notOpen(closed.State))
	case errors.Is(err, orders.ErrNotFound):
		problem.Write(c, problem.Problem{Status: http.StatusNotFound, Code: "NOT_FOUND", Detail: "There is no such order."})
	case errors.Is(err, provider.ErrNotConfigured), errors.Is(err, provider.ErrOtherWorld):
		problem.Write(c, problem.Problem{Status: http.StatusServiceUnavailable, Code: "NOT_CONFIGURED", Detail: "No payment provider is configured (STRIPE_SECRET_KEY)."})
	case errors.As(err, &retry), errors.Is(err, provider.ErrRefused), errors.Is(err, provider.ErrKeyTooOld):
		o.Log.Warn(what, "error", err.Error())
		var after time.Duration
		if retry != nil {
			after = retry.After
		}
		c.Header("Retry-After", strconv.Itoa(int(max(after, 5*time.Second).Seconds())))
		problem.Write(c, problem.Problem{Status: http.StatusServiceUnavailable, Code: "PROVIDER_UNAVAILABLE", Detail: "The payment provider does not answer. Try again."})
	case database.NoFault(err), errors.Is(err, context.DeadlineExceeded):
		o.Log.Warn(what, "error", err.Error())
		c.Header("Retry-After", "1")
		problem.Write(c, problem.Problem{Status: http.StatusServiceUnavailable, Code: "BUSY", Detail: "Too much at once. Try again."})
	default:
		o.Log.Error(what, "error", err.Error())
		problem.Write(c, internal())
	}
}

// notOpen tells why an order takes no further checkout. Programs can tell apart what may
// change by itself, what was called off, and what was paid.
func notOpen(state orders.State) problem.Problem {
	p := problem.Problem{Status: http.StatusConflict, Code: "NOT_OPEN", Detail: "The order is " + string(state) + ", and takes no further checkout."}
	switch state {
	case orders.Confirming:
		p.Code, p.Detail = "CONFIRMING", "A payment of this order is being confirmed."
	case orders.Canceled:
		p.Code, p.Detail = "CANCELED", "The order was canceled."
	case orders.Pending, orders.Expired, orders.Failed, orders.Paid, orders.Fulfilled, orders.Review,
		orders.Refunded, orders.Disputed, orders.ChargedBack:
	}
	return p
}
