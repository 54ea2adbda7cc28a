package fulfillment

import (
	"bytes"
	"fmt"
	"net/mail"
	"strings"
	"text/template"
	"time"

	"paidonce/internal/money"
	"paidonce/licenses"
	"paidonce/orders"
)

// Message is a mail as it is frozen before the first attempt: every attempt sends the same.
type Message struct {
	From      string    `json:"from"`
	To        string    `json:"to"`
	Subject   string    `json:"subject"`
	Text      string    `json:"text"`
	MessageID string    `json:"message_id"` // without the angle brackets
	Date      time.Time `json:"date"`
}

// receiptText is what the buyer reads. It is text, not HTML: nothing in it needs escaping,
// and a line break in a product's name cannot become a header.
const receiptText = `Thank you for your order {{.Number}}.

{{range .Lines}}{{.Quantity}} x {{.Name}}   {{.Sum}}
{{end}}
Total: {{.Total}}

{{if .Keys}}Your license {{if eq (len .Keys) 1}}key{{else}}keys{{end}}:

{{range .Keys}}{{.}}

{{end}}{{end}}Order {{.OrderID}}
`

type receiptLine struct {
	Quantity  int
	Name, Sum string
}

// receiptMessage writes the receipt of an order.
func receiptMessage(from, key string, order orders.Order, lines []orders.Line, issued []licenses.License, now time.Time) Message {
	data := struct {
		Number  int64
		OrderID string
		Lines   []receiptLine
		Total   string
		Keys    []string
	}{Number: order.Number, OrderID: order.ID.String(), Total: order.Total().Format(order.Locale)}
	for _, line := range lines {
		sum := money.Amount{Minor: line.UnitMinor * int64(line.Quantity), Currency: order.Currency}
		data.Lines = append(data.Lines, receiptLine{Quantity: line.Quantity, Name: oneLine(line.Name), Sum: sum.Format(order.Locale)})
	}
	for _, license := range issued {
		data.Keys = append(data.Keys, license.Key)
	}

	var text bytes.Buffer
	if err := template.Must(template.New("receipt").Parse(receiptText)).Execute(&text, data); err != nil {
		panic("bug: the template fits its data: " + err.Error())
	}
	return Message{
		From: from, To: order.Email,
		Subject:   fmt.Sprintf("Your order %d", order.Number),
		Text:      text.String(),
		MessageID: messageID(key, from),
		Date:      now,
	}
}

// oneLine keeps a name on its line.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// messageID is the same for every attempt of one mail, so that a mailbox that knows the trick
// shows a second copy once. A colon may not stand in it (RFC 5322, section 3.6.4).
func messageID(key, from string) string {
	return strings.ReplaceAll(key, ":", ".") + "@" + domainOf(from)
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
