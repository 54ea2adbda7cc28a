package fulfillment

import (
	"embed"
	htmltemplate "html/template"
	"net/mail"
	"strings"
	"text/template"
	"time"
	"unicode"

	"paidonce/internal/money"
	"paidonce/licenses"
	"paidonce/orders"
)

// Message is a mail as it is frozen before the first attempt: every attempt sends the same.
type Message struct {
	From      string    `json:"from"` // with Message-ID: empty until the first sending
	To        string    `json:"to"`
	Subject   string    `json:"subject"`
	Text      string    `json:"text"`
	HTML      string    `json:"html"`       // the same for a mail program that shows it; "": there is none
	MessageID string    `json:"message_id"` // without the angle brackets
	Date      time.Time `json:"date"`

	// Key is the row's idempotency key. It is the row's, and not part of what is frozen in it.
	Key string `json:"-"`
}

// The texts are mails/<language>.tmpl, a file for each language that mails are written in; mails/mail.txt and
// mails/mail.html give all of them their form.
//
//go:embed mails
var mails embed.FS

// content is what a mail says, before it is put into text and HTML.
type content struct {
	Language                      string
	Subject                       string
	Paragraphs                    []string
	Lines                         []receiptLine
	TotalWord, Total              string
	PaidWord, Paid                string // "" where it is the total
	Keys                          []string
	KeysTitle, OrderWord, OrderID string
}

type receiptLine struct {
	Quantity  int
	Name, Sum string
}

// words fills in one language's texts.
type words struct {
	language string
	texts    *template.Template
}

// wordsFor are the texts for a locale: de-AT is written to in German, and a language that
// there are no texts for in English.
func wordsFor(locale string) words {
	language, _, _ := strings.Cut(strings.ToLower(strings.ReplaceAll(locale, "_", "-")), "-")
	file, err := mails.ReadFile("mails/" + language + ".tmpl")
	if err != nil {
		return wordsFor("en")
	}
	return words{language: language, texts: template.Must(template.New(language).Parse(string(file)))}
}

// say is the named text.
func (w words) say(name string, data any) string {
	var said strings.Builder
	if err := w.texts.ExecuteTemplate(&said, name, data); err != nil {
		panic("bug: mails/" + w.language + ".tmpl: " + err.Error())
	}
	return said.String()
}

// message puts what a mail says into its two parts. In the text nothing needs escaping; in
// the HTML the template escapes, so that a product called <script> is shown as that.
func (c content) message(to string) Message {
	m := Message{To: to, Subject: c.Subject}
	var text, html strings.Builder
	if err := template.Must(template.ParseFS(mails, "mails/mail.txt")).Execute(&text, c); err != nil {
		panic("bug: mails/mail.txt: " + err.Error())
	}
	if err := htmltemplate.Must(htmltemplate.ParseFS(mails, "mails/mail.html")).Execute(&html, c); err != nil {
		panic("bug: mails/mail.html: " + err.Error())
	}
	m.Text, m.HTML = text.String(), html.String()
	return m
}

// receiptOf is the receipt of an order. An order has one for ever: if it is paid again after a
// dispute, nothing is sent.
func receiptOf(order orders.Order, lines []orders.Line, issued []licenses.License, paid money.Amount, now time.Time) mailIntent {
	return mailIntent{
		OrderID: order.ID, Kind: MailReceipt, SubjectID: order.ID.String(), Message: receiptMessage(order, lines, issued, paid), At: now,
	}
}

// receiptMessage writes the receipt of an order. What was paid is told where it is not the sum
// of the prices: with a discount or a tax, or because a person accepted it.
func receiptMessage(order orders.Order, lines []orders.Line, issued []licenses.License, paid money.Amount) Message {
	w := wordsFor(order.Locale)
	c := content{
		Language: w.language, OrderWord: w.say("order", nil), OrderID: order.ID.String(),
		Subject:    w.say("receipt.subject", order),
		Paragraphs: []string{w.say("receipt", order)},
		TotalWord:  w.say("total", nil), Total: order.Total().Format(order.Locale),
		KeysTitle: w.say("keys", struct{ Keys int }{len(issued)}),
	}
	for _, line := range lines {
		sum := money.Amount{Minor: line.UnitMinor * int64(line.Quantity), Currency: order.Currency}
		c.Lines = append(c.Lines, receiptLine{Quantity: line.Quantity, Name: oneLine(line.Name), Sum: sum.Format(order.Locale)})
	}
	for _, license := range issued {
		c.Keys = append(c.Keys, license.Key)
	}
	if paid.Currency != "" && !paid.Equal(order.Total()) {
		c.PaidWord, c.Paid = w.say("paid", nil), paid.Format(order.Locale)
	}
	return c.message(order.Email)
}

// returnMessage tells a buyer about money that goes back, or is asked for: a refund or a
// dispute. license is what the order's licenses are by then: active (a part went back, or a
// dispute was won), suspended (the bank looks at it), or revoked. Where there are none, it is
// "", and the mail does not speak of them.
func returnMessage(kind MailKind, order orders.Order, amount money.Amount, license licenses.Status) Message {
	w := wordsFor(order.Locale)
	data := struct {
		Kind   MailKind
		Number int64
		Amount string
	}{kind, order.Number, amount.Format(order.Locale)}
	c := content{
		Language: w.language, OrderWord: w.say("order", nil), OrderID: order.ID.String(),
		Subject:    w.say(string(kind)+".subject", data),
		Paragraphs: []string{w.say(string(kind), data)},
	}
	if license != "" {
		c.Paragraphs = append(c.Paragraphs, w.say("license."+string(license), data))
	}
	return c.message(order.Email)
}

// oneLine keeps a name on its line, and out of everything but it.
func oneLine(s string) string {
	printable := strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, s)
	return strings.Join(strings.Fields(printable), " ")
}

// domainOf is the sender's domain, which makes a Message-ID ours.
func domainOf(from string) string {
	if address, err := mail.ParseAddress(from); err == nil {
		if _, domain, ok := strings.Cut(address.Address, "@"); ok {
			return domain
		}
	}
	return "localhost"
}
