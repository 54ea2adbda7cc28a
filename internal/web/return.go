package web

import (
	"bytes"
	"context"
	"embed"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/google/uuid"

	"paidonce/orders"
)

//go:embed templates
var templates embed.FS

// The page's patience: with the provider, and with the drainer that applies what was read. A
// buyer is looking at a blank window meanwhile.
const (
	returnTimeout = 4 * time.Second
	appliedWithin = 1500 * time.Millisecond
	lookEvery     = 50 * time.Millisecond
)

// returnView is what the page may know. It is open to whoever has its address, and so shows
// no token and no license.
type returnView struct {
	Number int64 // 0: nothing of an order is shown
	State  orders.State
	Left   bool // the buyer turned back at the checkout
}

// Paid reports whether the money is here and counts.
func (v returnView) Paid() bool { return v.State == orders.Paid || v.State == orders.Fulfilled }

// Waiting reports whether the page should look again by itself.
func (v returnView) Waiting() bool {
	return v.Number != 0 && (v.State == orders.Pending || v.State == orders.Confirming)
}

// returned is where the provider sends the buyer back to. With the id of one of the order's
// own sessions it tells how the order stands, after having had that session read; with any
// other, or none, it is the same page and knows nothing. It does not depend on the provider:
// without an answer, it says what is known here.
func (o *Orders) returned(c *gin.Context) {
	ctx, cancel := context.WithTimeout(c.Request.Context(), returnTimeout)
	defer cancel()
	view := o.returnedTo(ctx, c.Param("id"), c.Query("session_id"))
	view.Left = view.Number == 0 && c.Query("canceled") != ""

	c.Header("Cache-Control", "no-store")
	c.Header("Referrer-Policy", "no-referrer") // the address names the session
	c.Header("Vary", "Accept")
	if c.NegotiateFormat(gin.MIMEHTML, gin.MIMEJSON) == gin.MIMEJSON {
		c.JSON(http.StatusOK, gin.H{"state": view.State})
		return
	}
	var page bytes.Buffer
	if err := o.returnPage.Execute(&page, view); err != nil {
		o.refuse(c, "return page not written", err)
		return
	}
	c.Header("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	c.Header("X-Content-Type-Options", "nosniff")
	c.Data(http.StatusOK, "text/html; charset=utf-8", page.Bytes())
}

// returnedTo is what there is to tell about an order to whoever comes from a session.
func (o *Orders) returnedTo(ctx context.Context, order, session string) returnView {
	unknown := returnView{State: orders.Pending}
	id, err := uuid.Parse(order)
	if err != nil || !plainID(session) {
		return unknown
	}
	log := o.Log.With("order_id", id)
	got, err := o.Service.ReadReturn(ctx, id, session)
	if err != nil {
		log.Warn("nothing read for the return page; the webhook will tell", "error", err.Error())
	}
	if !got.Ours {
		return unknown
	}

	// The reading may have used up the patience; looking here takes no time.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), returnTimeout)
	defer cancel()
	for giveUp := time.After(appliedWithin); ; {
		view, err := o.Store.Get(ctx, id)
		if err != nil {
			log.Error("order not read", "error", err.Error())
			return unknown
		}
		shown := returnView{Number: view.Order.Number, State: view.Order.State}
		if !got.Paid || view.Order.PaidAt != nil || shown.State == orders.Review {
			return shown
		}
		select {
		case <-giveUp:
			return shown
		case <-time.After(lookEvery):
		}
	}
}

// plainID reports whether s can be an id of a provider.
func plainID(s string) bool {
	if s == "" || len(s) > 255 {
		return false
	}
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}
