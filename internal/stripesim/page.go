package stripesim

import (
	"bytes"
	_ "embed"
	"html/template"
	"net/http"
	"strings"
)

//go:embed page.html
var pageHTML string

// payPage is what page.html shows.
type payPage struct {
	ID, Title, Status, State, Tone string
	Total, Currency, ReturnTo      string
	Lines, Extras                  []payLine
	Email                          string
	Methods                        []methodGroup
	Codes, Taxed                   bool
	Declined                       bool
	Wrong, Done                    string

	Processing             bool
	Capturable, Refundable string
	Disputable             bool
	Refunds, Disputes      []returnLine
}

type payLine struct {
	Name, Amount string
	Quantity     int64
}

type methodGroup struct {
	Label   string
	Methods []payMethod
}

type payMethod struct{ Name, Label string }

// returnLine is a refund or a dispute; Open is whether more can become of it.
type returnLine struct {
	ID, Status, Amount, Tone string
	Open                     bool
}

func (s *Sim) showPayPage(w http.ResponseWriter, r *http.Request) {
	s.Tick() //nolint:contextcheck // what falls due is no part of the request
	s.renderPayPage(w, r, http.StatusOK, "")
}

func (s *Sim) renderPayPage(w http.ResponseWriter, r *http.Request, status int, wrong string) {
	id := r.PathValue("session")
	s.mu.Lock()
	v := s.sessions.get(id)
	var p payPage
	if v != nil {
		p = s.pageFor(v)
	}
	s.mu.Unlock()
	if v == nil {
		http.Error(w, "There is no such checkout session here.", http.StatusNotFound)
		return
	}
	p.Declined, p.Wrong, p.Done = r.URL.Query().Has("declined"), wrong, done(r.URL.Query().Get("done"))
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

// pageFor gathers what there is to see and to do. s.mu is held.
func (s *Sim) pageFor(v *session) payPage {
	money := func(minor int64) string { return amountText(minor, v.Currency) }
	p := payPage{
		ID: v.ID, Status: v.Status, Total: money(v.AmountTotal), Currency: v.Currency, Email: string(v.CustomerEmail),
		Codes: v.AllowPromotionCodes != nil && *v.AllowPromotionCodes, Taxed: v.AutomaticTax.Enabled,
	}
	for _, l := range v.items {
		p.Lines = append(p.Lines, payLine{l.Description, amountText(l.AmountSubtotal, l.Currency), l.Quantity})
	}
	if d := v.TotalDetails.AmountDiscount; d > 0 {
		p.Extras = append(p.Extras, payLine{Name: "Discount", Amount: "−" + money(d)})
	}
	if t := v.TotalDetails.AmountTax; t > 0 {
		p.Extras = append(p.Extras, payLine{Name: "Tax", Amount: money(t)})
	}
	pi := s.intents.get(v.PaymentIntent.id)
	switch v.Status {
	case "open":
		p.State, p.Title, p.Methods = "Waiting for payment", "Pay "+p.Total, methodGroups()
		return p
	case "expired":
		p.State, p.Title, p.Tone, p.ReturnTo = "Expired", "Expired", "bad", string(v.CancelURL)
		return p
	}
	p.State, p.Title, p.Tone, p.ReturnTo = "Complete: "+words(v.PaymentStatus), "Paid "+p.Total, "good", returnTo(v)
	if v.PaymentStatus == "unpaid" {
		p.Title, p.Tone = "Not yet paid", ""
	}
	if pi == nil {
		return p
	}
	switch pi.Status {
	case "processing":
		p.Processing, p.State = true, "Complete: payment on its way"
	case "requires_payment_method":
		p.State, p.Tone = "Complete: the payment failed", "bad"
	case "requires_capture":
		p.Capturable, p.State = money(pi.AmountCapturable), "Complete: reserved"
	}
	if ch := s.charges.get(pi.LatestCharge.id); ch != nil {
		s.fillReturns(&p, ch)
	}
	return p
}

func (s *Sim) fillReturns(p *payPage, ch *charge) {
	paid := ch.Status == "succeeded" && ch.Captured
	if paid && refundable(ch) > 0 && !s.chargedBack(ch) {
		p.Refundable = amountText(refundable(ch), ch.Currency)
	}
	p.Disputable = paid
	for _, r := range s.refunds.newest(func(r *refund) bool { return r.Charge.id == ch.ID }) {
		line := returnLine{ID: r.ID, Status: r.Status, Amount: amountText(r.Amount, r.Currency), Open: true}
		if r.Status == "failed" || r.Status == "canceled" {
			line.Tone, line.Open = "bad", false
		}
		p.Refunds = append(p.Refunds, line)
	}
	for _, d := range s.disputes.newest(func(d *dispute) bool { return d.Charge.id == ch.ID }) {
		line := returnLine{ID: d.ID, Status: words(d.Status), Amount: amountText(d.Amount, d.Currency), Open: d.open(), Tone: "bad"}
		if d.open() {
			p.Disputable = false
		}
		if d.Status == "won" {
			line.Tone = "good"
		}
		p.Disputes = append(p.Disputes, line)
	}
}

func methodGroups() []methodGroup {
	groups := []methodGroup{{Label: "Cards"}, {Label: "Declined cards"}, {Label: "Bank debits"}}
	for _, m := range testMethods() {
		i := 0
		switch {
		case m.label == "" || m.challenge:
			continue
		case m.decline != nil:
			i = 1
		case m.delayed():
			i = 2
		}
		groups[i].Methods = append(groups[i].Methods, payMethod{m.name, m.label})
	}
	return groups
}

func words(status string) string { return strings.ReplaceAll(status, "_", " ") }

// returnTo puts the session's id in the place Stripe documents
// (https://docs.stripe.com/payments/checkout/custom-success-page).
func returnTo(v *session) string {
	return strings.ReplaceAll(v.SuccessURL, "{CHECKOUT_SESSION_ID}", v.ID)
}
