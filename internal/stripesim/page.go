package stripesim

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"strconv"
	"strings"
)

//go:embed page.html
var pageHTML string

// payPage is what page.html shows.
type payPage struct {
	ID, Status, Total, ReturnTo string
	Lines                       []payLine
	Email                       string
	Declined                    bool
	Wrong                       string
}

type payLine struct {
	Name, Amount string
	Quantity     int64
}

func (s *Sim) showPayPage(w http.ResponseWriter, r *http.Request) {
	s.renderPayPage(w, r, http.StatusOK, "")
}

func (s *Sim) renderPayPage(w http.ResponseWriter, r *http.Request, status int, wrong string) {
	id := r.PathValue("session")
	s.mu.Lock()
	v, ok := s.sessions[id]
	var p payPage
	if ok {
		p = payPage{
			ID: id, Status: v.Status, Total: amountText(v.AmountTotal, v.Currency), ReturnTo: returnTo(v),
			Email: string(v.CustomerEmail), Declined: r.URL.Query().Has("declined"), Wrong: wrong,
		}
		for _, l := range v.items {
			p.Lines = append(p.Lines, payLine{l.Description, amountText(l.AmountTotal, l.Currency), l.Quantity})
		}
	}
	s.mu.Unlock()
	if !ok {
		http.Error(w, "There is no such checkout session here.", http.StatusNotFound)
		return
	}
	t, err := template.New("pay").Parse(pageHTML)
	var b bytes.Buffer
	if err == nil {
		err = t.Execute(&b, p)
	}
	if err != nil {
		s.cfg.Log.Error("pay page", "session_id", id, "error", err)
		http.Error(w, "The page could not be shown.", http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	// No form-action here: browsers hold it against the redirect to the merchant's page too.
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes())
}

// postPayPage is the buyer's click: action pay or decline, and perhaps another amount in minor units. A browser is sent
// on by 303, to the merchant's success_url once paid; a program that accepts application/json gets the outcome.
func (s *Sim) postPayPage(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, 64<<10)
	id := r.PathValue("session")
	// Before any field is read: a form that cannot be read must not look like an empty one, which pays.
	if err := r.ParseForm(); err != nil {
		s.payFailed(w, r, fmt.Errorf("%w: the form could not be read", ErrBadPayment))
		return
	}
	switch action := r.PostFormValue("action"); action {
	case "decline":
		events, err := s.Decline(id) //nolint:contextcheck // deliveries outlive the click that caused them
		if err != nil {
			s.payFailed(w, r, err)
			return
		}
		s.say("payment  declined for " + id)
		s.respond(w, r, http.StatusPaymentRequired, outcomeJSON{Session: id, Outcome: "declined", Events: ids(events)},
			"/pay/"+id+"?declined=1")
	case "", "pay":
		o, err := payOptions(r)
		if err != nil {
			s.payFailed(w, r, err)
			return
		}
		p, err := s.Pay(id, o) //nolint:contextcheck // likewise
		if err != nil {
			s.payFailed(w, r, err)
			return
		}
		s.mu.Lock()
		v := s.sessions[id]
		to, total := returnTo(v), amountText(v.AmountTotal, v.Currency)
		s.mu.Unlock()
		s.say(fmt.Sprintf("payment  %s for %s, intent %s", total, id, p.PaymentIntentID))
		s.respond(w, r, http.StatusOK, outcomeJSON{
			Session: id, Outcome: "paid", PaymentIntent: optional(p.PaymentIntentID), Charge: optional(p.ChargeID),
			Events: ids(p.Events), ReturnTo: to,
		}, to)
	default:
		s.payFailed(w, r, fmt.Errorf("%w: action is pay or decline, not %q", ErrBadPayment, action))
	}
}

func payOptions(r *http.Request) (PayOptions, error) {
	o := PayOptions{Email: r.PostFormValue("email")}
	if v := r.PostFormValue("amount"); v != "" {
		amount, err := strconv.ParseInt(v, 10, 64)
		if err != nil {
			return o, fmt.Errorf("%w: amount %q is no integer of minor units", ErrBadPayment, v)
		}
		o.Amount = &amount
	}
	return o, nil
}

// outcomeJSON is the page's answer to a program; it is ours, not Stripe's.
type outcomeJSON struct {
	Session       string   `json:"session"`
	Outcome       string   `json:"outcome"`
	PaymentIntent optional `json:"payment_intent"`
	Charge        optional `json:"charge"`
	Events        []string `json:"events"`
	ReturnTo      string   `json:"return_to,omitempty"`
	Error         string   `json:"error,omitempty"`
}

// respond answers a program, or sends a browser on. A declined card is 402 to the one and an explanation to the other.
func (s *Sim) respond(w http.ResponseWriter, r *http.Request, status int, o outcomeJSON, to string) {
	if !wantsJSON(r) {
		http.Redirect(w, r, to, http.StatusSeeOther) //nolint:gosec // the merchant said where, when creating the session
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(encode(o))
}

func (s *Sim) payFailed(w http.ResponseWriter, r *http.Request, err error) {
	status := http.StatusBadRequest
	switch {
	case errors.Is(err, ErrNoSession):
		status = http.StatusNotFound
	case errors.Is(err, ErrNotOpen):
		status = http.StatusConflict
	}
	if wantsJSON(r) {
		s.respond(w, r, status, outcomeJSON{
			Session: r.PathValue("session"), Outcome: "refused", Events: []string{}, Error: err.Error(),
		}, "")
		return
	}
	s.renderPayPage(w, r, status, err.Error())
}

func wantsJSON(r *http.Request) bool {
	return strings.Contains(r.Header.Get("Accept"), "application/json")
}

// returnTo puts the session's id in the place Stripe documents
// (https://docs.stripe.com/payments/checkout/custom-success-page).
func returnTo(v *session) string {
	return strings.ReplaceAll(v.SuccessURL, "{CHECKOUT_SESSION_ID}", v.ID)
}

func ids(events []Event) []string {
	out := make([]string, len(events))
	for i, e := range events {
		out[i] = e.ID
	}
	return out
}
