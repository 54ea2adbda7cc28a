package web

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/gin-gonic/gin"
	"github.com/google/uuid"

	"paidonce/internal/money"
	"paidonce/internal/problem"
	"paidonce/internal/provider"
	"paidonce/orders"
)

// createdOrder answers POST /orders and POST /orders/{id}/checkout. It is stored under the
// request's key as it stands here, but for the token: that is derived again each time.
type createdOrder struct {
	ID          uuid.UUID      `json:"id"`
	Number      int64          `json:"number"`
	State       orders.State   `json:"state"`
	Currency    money.Currency `json:"currency"`
	TotalMinor  int64          `json:"total_minor"`
	CheckoutURL string         `json:"checkout_url"`
	Token       string         `json:"token,omitempty"`
}

// create takes an order: written down with the call that opens its checkout, then the call,
// made at once. If the provider does not answer, the order stands and its job opens the
// checkout; the client is told where to look.
func (o *Orders) create(c *gin.Context) {
	request, ok := o.begin(c, "POST /orders")
	if !ok {
		return
	}
	wanted, fault := readOrder(c)
	if fault != nil {
		problem.Write(c, *fault)
		return
	}
	created, err := o.Store.CreateOnce(c.Request.Context(), o.Merchant, wanted, request)
	if err != nil {
		o.refuse(c, "order not created", err)
		return
	}
	ctx, cancel := detached(c, openTimeout)
	defer cancel()
	o.open(ctx, c, created, request)
}

// begin is what both POSTs begin with: a provider, and the client's key; a nil request if it
// sent none. If it is not ok, the request has been answered.
func (o *Orders) begin(c *gin.Context, route string) (request *orders.Request, ok bool) {
	if !o.Ready {
		o.refuse(c, "nothing is taken", provider.ErrNotConfigured)
		return nil, false
	}
	key, given, err := idempotencyKey(c.Request.Header)
	switch {
	case err != nil:
		problem.Write(c, problem.Problem{Status: http.StatusBadRequest, Code: "INVALID_HEADER", Field: keyHeader, Detail: keyHeader + ": " + err.Error()})
		return nil, false
	case !given:
		return nil, true
	}
	return &orders.Request{Route: route, Key: key}, true
}

// open makes the call of a checkout that was just written down, and answers; or answers as
// before, if the request is an old one.
func (o *Orders) open(ctx context.Context, c *gin.Context, created orders.Created, request *orders.Request) {
	if created.Answered != nil {
		o.replay(c, *created.Answered)
		return
	}
	log := o.Log.With("order_id", created.Order.ID, "payment_id", created.PaymentID)
	err := o.Service.OpenCheckout(ctx, created.CallKey)
	if errors.Is(err, provider.ErrRefused) {
		o.leave(ctx, request)
		log.Error("checkout refused", "error", err.Error())
		problem.Write(c, problem.Problem{
			Status: http.StatusBadGateway, Code: "CHECKOUT_REFUSED", Detail: "The payment provider refused to open a checkout for this order.",
		})
		return
	}
	if err != nil {
		log.Warn("checkout not open yet; its job will open it", "error", err.Error())
	}
	answer, err := o.answerOf(ctx, created)
	if err != nil {
		o.leave(ctx, request)
		o.refuse(c, "order not read back", err)
		return
	}
	log.Info("checkout asked for", "number", answer.Number, "state", answer.State, "currency", answer.Currency,
		"total_minor", answer.TotalMinor, "open", answer.CheckoutURL != "")
	if request != nil {
		if err := o.keep(ctx, *request, &answer); err != nil {
			o.refuse(c, "answer not kept", err)
			return
		}
	}
	answer.Token = o.Tokens.Of(answer.ID)
	c.Header("Cache-Control", "no-store")
	c.JSON(http.StatusCreated, answer)
}

// answerOf is the answer to whoever asked for this checkout.
func (o *Orders) answerOf(ctx context.Context, created orders.Created) (createdOrder, error) {
	view, err := o.Store.Get(ctx, created.Order.ID)
	if err != nil {
		return createdOrder{}, err
	}
	answer := createdOrder{
		ID: view.Order.ID, Number: view.Order.Number, State: view.Order.State, Currency: view.Order.Currency, TotalMinor: view.Order.TotalMinor,
	}
	for _, p := range view.Payments {
		if p.ID == created.PaymentID && p.CheckoutURL != nil {
			answer.CheckoutURL = *p.CheckoutURL
		}
	}
	return answer, nil
}

// keep stores the answer under its request's key, and leaves in it the one that stands. An
// answer without a checkout is not the last one: whoever asks again gets the address that
// its job has come by.
func (o *Orders) keep(ctx context.Context, request orders.Request, answer *createdOrder) error {
	if answer.CheckoutURL == "" {
		o.leave(ctx, &request)
		return nil
	}
	encoded, err := json.Marshal(answer)
	if err != nil {
		panic("bug: a struct of plain values always encodes: " + err.Error())
	}
	o.crash("CW17")
	standing, err := o.Store.Answer(ctx, request, orders.Answered{Status: http.StatusCreated, Body: encoded})
	if err != nil {
		return err
	}
	return json.Unmarshal(standing.Body, answer)
}

// leave lets the next one go on with a request at once. If that fails, its lease will lapse.
func (o *Orders) leave(ctx context.Context, request *orders.Request) {
	if request == nil {
		return
	}
	if err := o.Store.Leave(ctx, *request); err != nil {
		o.Log.Warn("request not left; its lease will lapse", "error", err.Error())
	}
}

// replay gives the answer that was given before, with the token that is not stored.
func (o *Orders) replay(c *gin.Context, a orders.Answered) {
	var answer createdOrder
	if err := json.Unmarshal(a.Body, &answer); err != nil {
		o.refuse(c, "stored answer not read", err)
		return
	}
	o.Log.Info("answer replayed", "order_id", answer.ID)
	answer.Token = o.Tokens.Of(answer.ID)
	c.Header("Idempotent-Replayed", "true")
	c.Header("Cache-Control", "no-store")
	c.JSON(a.Status, answer)
}
