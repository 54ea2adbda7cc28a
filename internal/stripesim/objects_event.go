package stripesim

import "encoding/json"

// eventObject follows https://docs.stripe.com/api/events/object. Top-level account is left out: Stripe sends it only for
// connected accounts.
type eventObject struct {
	ID              string       `json:"id"`
	Object          string       `json:"object"`
	APIVersion      string       `json:"api_version"`
	Created         int64        `json:"created"`
	Data            eventData    `json:"data"`
	Livemode        bool         `json:"livemode"`
	PendingWebhooks int64        `json:"pending_webhooks"`
	Request         eventRequest `json:"request"`
	Type            string       `json:"type"`
}

type eventData struct {
	Object json.RawMessage `json:"object"`
}

// eventRequest is the API request that caused the event; both are null when none did.
type eventRequest struct {
	ID             optional `json:"id"`
	IdempotencyKey optional `json:"idempotency_key"`
}

// list is one page (https://docs.stripe.com/api/pagination).
type list struct {
	Object  string `json:"object"`
	Data    []any  `json:"data"`
	HasMore bool   `json:"has_more"`
	URL     string `json:"url"`
}

// errorBody is what Stripe answers instead of an object (https://docs.stripe.com/api/errors).
type errorBody struct {
	Error errorObject `json:"error"`
}

type errorObject struct {
	Charge        string `json:"charge,omitempty"`
	Code          string `json:"code,omitempty"`
	DeclineCode   string `json:"decline_code,omitempty"`
	DocURL        string `json:"doc_url,omitempty"`
	Message       string `json:"message"`
	Param         string `json:"param,omitempty"`
	PaymentIntent any    `json:"payment_intent,omitempty"` // as it is after the failure
	RequestLogURL string `json:"request_log_url,omitempty"`
	Type          string `json:"type"`
}
