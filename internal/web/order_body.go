package web

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"reflect"

	"github.com/gin-gonic/gin"

	"paidonce/internal/problem"
	"paidonce/orders"
)

// maxOrderBody bounds the body of POST /orders, in bytes: a hundred lines are a tenth of it.
const maxOrderBody = 64 << 10

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

// readOrder reads the body. Fields that an order does not have are passed over, a price that
// a client sends among them; what an order has is of its type, or named.
func readOrder(c *gin.Context) (orders.NewOrder, *problem.Problem) {
	decoder := json.NewDecoder(http.MaxBytesReader(c.Writer, c.Request.Body, maxOrderBody))
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
