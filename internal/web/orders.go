package web

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"reflect"
	"strings"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/google/uuid"
	"gorm.io/gorm"

	"paidonce/fulfillment"
	"paidonce/internal/money"
	"paidonce/internal/problem"
	"paidonce/internal/provider"
	"paidonce/licenses"
	"paidonce/orders"
)

// maxOrderBody bounds the body of POST /orders, in bytes: a hundred lines are a tenth of it.
const maxOrderBody = 64 << 10

// openTimeout bounds how long POST /orders waits for the provider to open the checkout. It
// is longer than one request to the provider may take.
const openTimeout = provider.DefaultTimeout + 5*time.Second

// Orders serves POST /orders and GET /orders/{id}.
type Orders struct {
	DB       *gorm.DB
	Store    *orders.Store
	Licenses *licenses.Store
	Service  *fulfillment.Service
	Merchant orders.Merchant
	Tokens   Tokens
	Ready    bool // the provider is configured; if not, no order is taken (I11)
	Log      *slog.Logger
}

// Register adds the routes.
func (o *Orders) Register(routes gin.IRoutes) {
	routes.POST("/orders", o.create)
	routes.GET("/orders/:id", o.show)
	routes.GET("/orders/:id/return", o.returned)
}

type newOrder struct {
	Email    string         `json:"email"`
	Locale   string         `json:"locale"`
	Provider string         `json:"provider"`
	Items    []newOrderItem `json:"items"`
}

type newOrderItem struct {
	SKU      string `json:"sku"`
	Quantity int    `json:"quantity"`
}

type createdOrder struct {
	ID          uuid.UUID      `json:"id"`
	Number      int64          `json:"number"`
	State       orders.State   `json:"state"`
	Currency    money.Currency `json:"currency"`
	TotalMinor  int64          `json:"total_minor"`
	CheckoutURL string         `json:"checkout_url"`
	Token       string         `json:"token"`
}

// create takes an order: written down with the call that opens its checkout, then the call,
// made at once. If the provider does not answer, the order stands and its job opens the
// checkout; the client is told where to look.
func (o *Orders) create(c *gin.Context) {
	if !o.Ready {
		problem.Write(c, problem.Problem{Status: http.StatusServiceUnavailable, Code: "NOT_CONFIGURED", Detail: "No payment provider is configured (STRIPE_SECRET_KEY)."})
		return
	}
	wanted, fault := readOrder(c)
	if fault != nil {
		problem.Write(c, *fault)
		return
	}
	created, err := o.Store.Create(c.Request.Context(), o.Merchant, wanted)
	var input *orders.InputError
	switch {
	case errors.As(err, &input):
		problem.Write(c, invalid(input.Field, input.Detail))
		return
	case err != nil:
		o.Log.Error("order not created", "error", err.Error())
		problem.Write(c, internal())
		return
	}

	// The client may hang up; the order stands, and so does the wish to open its checkout.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.Request.Context()), openTimeout)
	defer cancel()
	log := o.Log.With("order_id", created.Order.ID, "payment_id", created.PaymentID)
	if err := o.Service.OpenCheckout(ctx, created.CallKey); err != nil {
		log.Warn("checkout not open yet; its job will open it", "error", err.Error())
	}
	view, err := o.Store.Get(ctx, created.Order.ID)
	if err != nil {
		log.Error("order not read back", "error", err.Error())
		problem.Write(c, internal())
		return
	}
	log.Info("order created", "number", view.Order.Number, "currency", view.Order.Currency, "total_minor", view.Order.TotalMinor)
	c.JSON(http.StatusCreated, createdOrder{
		ID: view.Order.ID, Number: view.Order.Number, State: view.Order.State, Currency: view.Order.Currency,
		TotalMinor: view.Order.TotalMinor, CheckoutURL: view.CheckoutURL(), Token: o.Tokens.Of(view.Order.ID),
	})
}

// readOrder reads the body strictly: a misspelt field would be an order of something else.
func readOrder(c *gin.Context) (orders.NewOrder, *problem.Problem) {
	decoder := json.NewDecoder(http.MaxBytesReader(c.Writer, c.Request.Body, maxOrderBody))
	decoder.DisallowUnknownFields()
	var body newOrder
	err := decoder.Decode(&body)
	if err == nil {
		err = atEnd(decoder)
	}
	if err != nil {
		fault := jsonFault(err)
		return orders.NewOrder{}, &fault
	}
	wanted := orders.NewOrder{Email: body.Email, Locale: body.Locale, Provider: body.Provider}
	for _, item := range body.Items {
		wanted.Items = append(wanted.Items, orders.Item{SKU: item.SKU, Quantity: item.Quantity})
	}
	return wanted, nil
}

// atEnd is nil if nothing but blanks follows what was decoded.
func atEnd(decoder *json.Decoder) error {
	err := decoder.Decode(new(any))
	switch {
	case errors.Is(err, io.EOF):
		return nil
	case err == nil:
		return errors.New("more than one JSON value")
	}
	return err
}

// jsonFault says what is wrong with a body, and in which field.
func jsonFault(err error) problem.Problem {
	var tooBig *http.MaxBytesError
	var wrongType *json.UnmarshalTypeError
	switch {
	case errors.As(err, &tooBig):
		return problem.Problem{Status: http.StatusRequestEntityTooLarge, Code: "BODY_TOO_LARGE", Detail: "An order fits 64 KiB."}
	case errors.As(err, &wrongType) && wrongType.Field != "":
		return invalid(wrongType.Field, "must be "+typeWanted(wrongType.Type.Kind())+", not "+typeFound(wrongType.Value))
	case strings.HasPrefix(err.Error(), "json: unknown field "):
		return invalid(strings.Trim(strings.TrimPrefix(err.Error(), "json: unknown field "), `"`), "is not a field of an order")
	}
	return problem.Problem{Status: http.StatusBadRequest, Code: "NOT_JSON", Detail: "The body is not the JSON of an order."}
}

// typeWanted names a type of ours in the client's words.
func typeWanted(k reflect.Kind) string {
	switch k {
	case reflect.Struct:
		return "an object"
	case reflect.Slice:
		return "a list"
	case reflect.Int:
		return "a whole number"
	default:
		return "a " + k.String()
	}
}

// typeFound names what came instead; it is encoding/json's word, which may end in the number.
func typeFound(value string) string {
	switch value {
	case "object":
		return "an object"
	case "array":
		return "a list"
	}
	return "a " + value
}

func invalid(field, detail string) problem.Problem {
	return problem.Problem{Status: http.StatusUnprocessableEntity, Code: "INVALID_FIELD", Field: field, Detail: field + ": " + detail}
}

// show answers with an order, to whoever has its token. Without it the answer is the same
// for an order that exists and one that does not.
func (o *Orders) show(c *gin.Context) {
	id, err := uuid.Parse(c.Param("id"))
	if err != nil || !o.Tokens.Opens(id, tokenOf(c)) {
		c.Header("WWW-Authenticate", "Bearer")
		problem.Write(c, problem.Problem{Status: http.StatusUnauthorized, Code: "BAD_TOKEN", Detail: "The order's token is needed: Authorization: Bearer, or ?token=."})
		return
	}
	view, err := o.Store.Get(c.Request.Context(), id)
	if errors.Is(err, orders.ErrNotFound) {
		problem.Write(c, problem.Problem{Status: http.StatusNotFound, Code: "NOT_FOUND", Detail: "There is no such order."})
		return
	}
	if err != nil {
		o.Log.Error("order not read", "order_id", id, "error", err.Error())
		problem.Write(c, internal())
		return
	}
	shown, err := o.render(c.Request.Context(), view)
	if err != nil {
		o.Log.Error("order not read", "order_id", id, "error", err.Error())
		problem.Write(c, internal())
		return
	}
	c.Header("Cache-Control", "no-store")
	c.JSON(http.StatusOK, shown)
}

// returned is where the provider sends the buyer back to. It shows nothing of the order,
// since the address holds no token, and it changes nothing: the webhook pays.
func (o *Orders) returned(c *gin.Context) {
	c.Header("Cache-Control", "no-store")
	c.String(http.StatusOK, "Thank you. Your payment is being confirmed; your receipt comes by mail.\n")
}

// tokenOf takes the token from the Authorization header, or else from the query.
func tokenOf(c *gin.Context) string {
	if scheme, token, _ := strings.Cut(c.GetHeader("Authorization"), " "); strings.EqualFold(scheme, "Bearer") {
		return token
	}
	return c.Query("token")
}
