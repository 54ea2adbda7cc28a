package stripesim

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// click is what came of a button: the outcome for a program, and where a browser goes.
type click struct {
	status int
	json   outcomeJSON
	to     string
}

// outcomeJSON is the page's answer to a program; it is ours, not Stripe's.
type outcomeJSON struct {
	Session       string   `json:"session"`
	Outcome       string   `json:"outcome"`
	PaymentIntent optional `json:"payment_intent"`
	Charge        optional `json:"charge"`
	Events        []string `json:"events"`
	Refund        string   `json:"refund,omitempty"`
	Dispute       string   `json:"dispute,omitempty"`
	ReturnTo      string   `json:"return_to,omitempty"`
	Error         string   `json:"error,omitempty"`
}

// postPayPage is the buyer's click, or the bank's, or the merchant's: action names it, pay if it is empty. A browser is sent
// on by 303, to the merchant's success_url once paid; a program that accepts application/json gets the outcome.
func (s *Sim) postPayPage(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, 64<<10)
	// Before any field is read: a form that cannot be read must not look like an empty one, which pays.
	if err := r.ParseForm(); err != nil {
		s.payFailed(w, r, fmt.Errorf("%w: the form could not be read", ErrNoAction))
		return
	}
	c, err := s.clicked(r) //nolint:contextcheck // deliveries outlive the click that caused them
	if err != nil {
		s.payFailed(w, r, err)
		return
	}
	s.respond(w, r, c.status, c.json, c.to)
}

func (s *Sim) clicked(r *http.Request) (click, error) {
	id, action := r.PathValue("session"), r.PostFormValue("action")
	amount, given, err := minorUnits(r.PostFormValue("amount"))
	if err != nil {
		return click{}, err
	}
	switch action {
	case "", "pay":
		o := PayOptions{
			Email: r.PostFormValue("email"), Currency: r.PostFormValue("currency"), Method: r.PostFormValue("method"),
			PromotionCode: r.PostFormValue("code"),
		}
		if given {
			o.Amount = &amount
		}
		if m, ok := findMethod(o.Method); ok && m.decline != nil {
			return s.clickDecline(id, m.name)
		}
		return s.clickPay(id, o)
	case "decline":
		return s.clickDecline(id, "chargeDeclined")
	case "expire":
		events, err := s.Expire(id)
		return s.did(id, "expired", events, err)
	case "settle", "bounce":
		events, err := s.SettleDelayed(id, action == "settle")
		return s.did(id, map[string]string{"settle": "settled", "bounce": "bounced"}[action], events, err)
	case "capture":
		events, err := s.Capture(s.intentOfSession(id), amount)
		return s.did(id, "captured", events, err)
	case "refund", "refund_pending":
		refundID, events, err := s.Refund(id, amount, strings.TrimPrefix(strings.TrimPrefix(action, "refund"), "_"))
		c, err := s.did(id, "refunded", events, err)
		c.json.Refund = refundID
		return c, err
	case "refund_passes":
		events, err := s.SettleRefund(r.PostFormValue("refund"), "succeeded")
		return s.did(id, "refund_succeeded", events, err)
	case "refund_fails":
		events, err := s.FailRefund(r.PostFormValue("refund"))
		return s.did(id, "refund_failed", events, err)
	case "dispute":
		disputeID, events, err := s.OpenDispute(id, amount, r.PostFormValue("reason"))
		c, err := s.did(id, "disputed", events, err)
		c.json.Dispute = disputeID
		return c, err
	case "dispute_won", "dispute_lost":
		events, err := s.CloseDispute(r.PostFormValue("dispute"), strings.TrimPrefix(action, "dispute_"))
		return s.did(id, action, events, err)
	}
	return click{}, fmt.Errorf("%w: %q", ErrNoAction, action)
}

func (s *Sim) clickPay(id string, o PayOptions) (click, error) {
	p, err := s.Pay(id, o)
	if err != nil {
		return click{}, err
	}
	s.mu.Lock()
	v := s.sessions.get(id)
	to, total := returnTo(v), amountText(v.AmountTotal, v.Currency)
	s.mu.Unlock()
	s.say(fmt.Sprintf("payment  %s for %s, intent %s", total, id, p.PaymentIntentID))
	return click{http.StatusOK, outcomeJSON{
		Session: id, Outcome: "paid", PaymentIntent: optional(p.PaymentIntentID), Charge: optional(p.ChargeID),
		Events: ids(p.Events), ReturnTo: to,
	}, to}, nil
}

// clickDecline is 402 to a program and an explanation to a person.
func (s *Sim) clickDecline(id, card string) (click, error) {
	events, err := s.declineBy(id, card, nil)
	if err != nil {
		return click{}, err
	}
	s.say("payment  declined for " + id)
	return click{
		http.StatusPaymentRequired, outcomeJSON{Session: id, Outcome: "declined", Events: ids(events)}, "/pay/" + id + "?declined=1",
	}, nil
}

// did is a click that leads back to the page, which then says what happened.
func (s *Sim) did(id, what string, events []Event, err error) (click, error) {
	if err != nil {
		return click{}, err
	}
	s.say("payment  " + words(what) + ": " + id)
	return click{
		http.StatusOK, outcomeJSON{Session: id, Outcome: what, Events: ids(events)}, "/pay/" + id + "?done=" + what,
	}, nil
}

// done is the sentence for a click; nothing of the query is shown as it came.
func done(what string) string {
	return map[string]string{
		"expired": "The checkout has expired.", "settled": "The money has arrived.", "bounced": "The bank has refused.",
		"captured": "The money has been captured.", "refunded": "The refund has been made.",
		"refund_succeeded": "The refund has succeeded.", "refund_failed": "The refund has failed.",
		"disputed": "The payment has been disputed.", "dispute_won": "The merchant has won the dispute.",
		"dispute_lost": "The merchant has lost the dispute.",
	}[what]
}

func minorUnits(text string) (amount int64, given bool, _ error) {
	if text == "" {
		return 0, false, nil
	}
	amount, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, false, fmt.Errorf("%w: amount %q is no integer of minor units", ErrBadPayment, text)
	}
	return amount, true, nil
}

func (s *Sim) intentOfSession(id string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if v := s.sessions.get(id); v != nil {
		return v.PaymentIntent.id
	}
	return ""
}

// respond answers a program, or sends a browser on.
func (s *Sim) respond(w http.ResponseWriter, r *http.Request, status int, o outcomeJSON, to string) {
	if !wantsJSON(r) {
		http.Redirect(w, r, to, http.StatusSeeOther) // the merchant said where, when creating the session
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(encode(o))
}

func (s *Sim) payFailed(w http.ResponseWriter, r *http.Request, err error) {
	status := http.StatusBadRequest
	switch {
	case errors.Is(err, ErrNoSession), errors.Is(err, ErrNoPayment):
		status = http.StatusNotFound
	case errors.Is(err, ErrNotOpen), errors.Is(err, ErrNotPossible), errors.Is(err, ErrNotProcessing):
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

func ids(events []Event) []string {
	out := make([]string, len(events))
	for i, e := range events {
		out[i] = e.ID
	}
	return out
}
