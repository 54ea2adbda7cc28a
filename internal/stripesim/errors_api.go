package stripesim

import (
	"fmt"
	"net/http"
	"strings"
)

// apiError is an answer that is no object. The words of message are ours; status, type, code and param are Stripe's
// (https://docs.stripe.com/api/errors, https://docs.stripe.com/error-codes).
type apiError struct {
	status  int
	kind    string // Stripe's "type"
	code    string
	message string
	param   string
	decline *declinedError
	unsaved bool // refused before the endpoint began to execute: not kept under an Idempotency-Key
}

func (e *apiError) body(account, requestID string) []byte {
	o := errorObject{Code: e.code, Message: e.message, Param: e.param, Type: e.kind}
	if e.code != "" {
		o.DocURL = docURL(e.code)
	}
	if e.decline != nil {
		o.Charge, o.DeclineCode, o.PaymentIntent = e.decline.charge, e.decline.code, e.decline.intent
	}
	o.RequestLogURL = "https://dashboard.stripe.com/" + account + "/test/workbench/logs?object=" + requestID
	return encode(errorBody{o})
}

// declinedError is what the answer to a declined card tells beside: the charge and the intent as they are now.
type declinedError struct {
	charge, code string
	intent       *paymentIntent
}

func cardDeclined(d *decline, ch *charge, pi *paymentIntent) *apiError {
	return &apiError{
		status: http.StatusPaymentRequired, kind: "card_error", code: d.code, message: d.message,
		decline: &declinedError{charge: ch.ID, code: d.declineCode, intent: pi},
	}
}

func docURL(code string) string {
	return "https://stripe.com/docs/error-codes/" + strings.ReplaceAll(code, "_", "-")
}

// invalid is a parameter that did not pass validation.
func invalid(code, param, format string, args ...any) *apiError {
	return &apiError{
		status: http.StatusBadRequest, kind: "invalid_request_error", code: code, param: param,
		message: fmt.Sprintf(format, args...), unsaved: true,
	}
}

func missingParam(param string) *apiError {
	return invalid("parameter_missing", param, "Missing required param: %s.", param)
}

func unknownParam(param string) *apiError {
	return invalid("parameter_unknown", param, "Received unknown parameter: %s", param)
}

// refused is a request that was understood and cannot be done in the object's present state. Execution had begun, so it
// is kept under its key like a success (https://docs.stripe.com/api/idempotent_requests).
func refused(code, param, format string, args ...any) *apiError {
	e := invalid(code, param, format, args...)
	e.unsaved = false
	return e
}

// noSuch is the 404 for an id in the path.
func noSuch(object, id, param string) *apiError {
	return &apiError{
		status: http.StatusNotFound, kind: "invalid_request_error", code: "resource_missing", param: param,
		message: fmt.Sprintf("No such %s: '%s'", object, id),
	}
}

func unauthorized(message string) *apiError {
	return &apiError{status: http.StatusUnauthorized, kind: "invalid_request_error", message: message, unsaved: true}
}

func unrecognized(r *http.Request) *apiError {
	return &apiError{
		status: http.StatusNotFound, kind: "invalid_request_error", unsaved: true,
		message: fmt.Sprintf("Unrecognized request URL (%s: %s). The simulated Stripe has no such endpoint.",
			r.Method, r.URL.Path),
	}
}

// keyReused and keyInUse are the two conflicts of an Idempotency-Key (https://docs.stripe.com/error-low-level).
func keyReused(key, format string, args ...any) *apiError {
	return &apiError{
		status: http.StatusBadRequest, kind: "idempotency_error", unsaved: true,
		message: fmt.Sprintf(format, args...) + fmt.Sprintf(" Use a key other than '%s' for another request.", key),
	}
}

func keyInUse(key string) *apiError {
	return &apiError{
		status: http.StatusConflict, kind: "invalid_request_error", code: "idempotency_key_in_use", unsaved: true,
		message: fmt.Sprintf("Another request with the Idempotency-Key '%s' is still in progress. Try again later.", key),
	}
}
