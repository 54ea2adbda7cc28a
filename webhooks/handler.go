package webhooks

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"paidonce/internal/problem"
)

// DefaultMaxBody is the largest body read, in bytes, unless configured: 1 MiB. Real events
// of 300 KB have been seen, and limits of 16 and 52 KB have refused real money for days.
const DefaultMaxBody = 1 << 20

// recordTimeout bounds the wait for the ledger. Stripe's own timeout is not published;
// Checkout holds the buyer's redirect for up to ten seconds on this answer
// (https://docs.stripe.com/checkout/fulfillment).
const recordTimeout = 8 * time.Second

// Handler is the door: POST /webhooks/<provider>.
type Handler struct {
	Inbox *Inbox

	// Providers are those that may be configured, by name; the value is nil for one that
	// has no secret. That one answers 503 and accepts nothing (I11).
	Providers map[string]Provider

	// MaxBody is the largest body accepted, in bytes; zero means DefaultMaxBody.
	MaxBody int64

	Log *slog.Logger

	// Now is the clock that signatures are judged by.
	Now func() time.Time
}

// Register adds a route per provider, with and without a trailing slash: providers do not
// follow redirects, and count one as a failure.
func (h *Handler) Register(routes gin.IRoutes) {
	for name, provider := range h.Providers {
		handle := h.handle(name, provider)
		routes.Any("/webhooks/"+name, handle)
		routes.Any("/webhooks/"+name+"/", handle)
	}
}

// answer is the body of a 200.
type answer struct {
	Status Recorded `json:"status"`
}

// handle answers one delivery. Every exit that is not 200 has stored nothing; 200 is said
// only after Record has committed (I1).
func (h *Handler) handle(name string, provider Provider) gin.HandlerFunc {
	return func(c *gin.Context) {
		started := h.Now()
		log := h.Log.With("provider", name)

		if refused := h.refuse(c, provider); refused != nil {
			log.Warn("delivery refused", "code", refused.Code, "status", refused.Status)
			// Else the server would read the rest of the body before it lets the answer go,
			// as long as the sender likes to take.
			c.Header("Connection", "close")
			problem.Write(c, *refused)
			return
		}
		body, refused := h.read(c)
		if refused != nil {
			log.Warn("delivery refused", "code", refused.Code, "status", refused.Status)
			problem.Write(c, *refused)
			return
		}
		envelope, err := provider.Verify(c.Request.Header, body, started)
		if err != nil {
			refused := verdictOn(err)
			log.Warn("delivery refused", "code", refused.Code, "status", refused.Status, "reason", err.Error(), "bytes", len(body))
			problem.Write(c, refused)
			return
		}

		log = log.With("event_id", envelope.EventID, "event_type", envelope.EventType, "resource_id", envelope.ResourceID,
			"livemode", envelope.Livemode, "account", envelope.Account, "api_version", envelope.APIVersion)
		recorded, err := h.record(c, envelope, body)
		if err != nil {
			log.Error("delivery not stored", "error", err.Error())
			c.Header("Retry-After", "5")
			problem.Write(c, problem.Problem{
				Status: http.StatusServiceUnavailable, Code: "NOT_STORED", Detail: "The event could not be stored. Send it again.",
			})
			return
		}
		log.Info("delivery recorded", "status", recorded, "took_ms", h.Now().Sub(started).Milliseconds())
		c.JSON(http.StatusOK, answer{Status: recorded})
	}
}

// refuse turns away what can be turned away without reading the body.
func (h *Handler) refuse(c *gin.Context, provider Provider) *problem.Problem {
	switch {
	case c.Request.Method != http.MethodPost:
		c.Header("Allow", http.MethodPost)
		return &problem.Problem{Status: http.StatusMethodNotAllowed, Code: "METHOD_NOT_ALLOWED", Detail: "Webhooks are posted."}
	case provider == nil:
		return &problem.Problem{
			Status: http.StatusServiceUnavailable, Code: "NOT_CONFIGURED", Detail: "No webhook secret is configured for this provider.",
		}
	case encoded(c.GetHeader("Content-Encoding")):
		// A compressed body could be any size once unpacked, and no provider here sends one.
		return &problem.Problem{Status: http.StatusUnsupportedMediaType, Code: "ENCODED_BODY", Detail: "Send the body without Content-Encoding."}
	case c.GetHeader(provider.SignatureHeader()) == "":
		p := verdictOn(ErrNoSignature)
		return &p
	case c.Request.ContentLength > h.maxBody():
		return tooLarge()
	}
	return nil
}

// read takes the raw bytes, as they came, up to the limit.
func (h *Handler) read(c *gin.Context) ([]byte, *problem.Problem) {
	body, err := io.ReadAll(http.MaxBytesReader(c.Writer, c.Request.Body, h.maxBody()))
	if err == nil {
		return body, nil
	}
	if tooBig := new(http.MaxBytesError); errors.As(err, &tooBig) {
		return nil, tooLarge()
	}
	return nil, &problem.Problem{Status: http.StatusBadRequest, Code: "BODY_UNREADABLE", Detail: "The body ended early."}
}

// record bounds the time that storing may take. The request's own context is the parent: a
// sender that hangs up gets no answer and will send again, whether or not it was stored.
func (h *Handler) record(c *gin.Context, envelope Envelope, body []byte) (Recorded, error) {
	ctx, cancel := context.WithTimeout(c.Request.Context(), recordTimeout)
	defer cancel()
	return h.Inbox.Record(ctx, envelope, SourceWebhook, body)
}

func (h *Handler) maxBody() int64 {
	if h.MaxBody == 0 {
		return DefaultMaxBody
	}
	return h.MaxBody
}

func encoded(header string) bool { return header != "" && header != "identity" }

func tooLarge() *problem.Problem {
	return &problem.Problem{
		Status: http.StatusRequestEntityTooLarge, Code: "BODY_TOO_LARGE",
		Detail: "The body is larger than this endpoint accepts (WEBHOOK_MAX_BODY_BYTES).",
	}
}

// verdictOn maps what Verify says to an answer. It tells the sender no more than the kind
// of fault; the log has the reason.
func verdictOn(err error) problem.Problem {
	var skew *SkewError
	switch {
	case errors.Is(err, ErrNotEvent):
		return problem.Problem{Status: http.StatusBadRequest, Code: "NOT_AN_EVENT", Detail: "The signature is good, but the body is not an event."}
	case errors.As(err, &skew):
		return problem.Problem{
			Status: http.StatusForbidden, Code: "BAD_SIGNATURE", Detail: "The signature's timestamp is too far from this server's clock.",
		}
	case errors.Is(err, ErrNoSignature):
		return problem.Problem{Status: http.StatusForbidden, Code: "BAD_SIGNATURE", Detail: "The request is not signed."}
	}
	return problem.Problem{Status: http.StatusForbidden, Code: "BAD_SIGNATURE", Detail: "The signature does not match."}
}
