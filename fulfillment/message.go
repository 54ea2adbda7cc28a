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

// receiptOf is the receipt of an order. An order has one for ever: if it is paid again after a
// dispute, nothing is sent.
func receiptOf(order orders.Order, lines []orders.Line, issued []licenses.License, now time.Time) mailIntent {
	return mailIntent{
		OrderID: order.ID, Kind: MailReceipt, SubjectID: order.ID.String(), Message: receiptMessage(order, lines, issued), At: now,
	}
}

// receiptMessage writes the receipt of an order.
func receiptMessage(order orders.Order, lines []orders.Line, issued []licenses.License) Message {
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
	return Message{To: order.Email, Subject: fmt.Sprintf("Your order %d", order.Number), Text: text.String()}
}

// oneLine keeps a name on its line.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// domainOf is the sender's domain, which makes a Message-ID ours.
func domainOf(from string) string {
	if address, err := mail.ParseAddress(from); err == nil {
		if _, domain, ok := strings.Cut(address.Address, "@"); ok {
			return domain
		}
	}
	return "localhost"
}

// returnMessage tells a buyer about money that goes back, or is asked for: a refund or a
// dispute. license is what becomes of the order's licenses by it: they stay active (a part
// went back, or a dispute was won), are suspended while the bank looks at it, or revoked.
// Where there are none, it is "", and the mail does not speak of them.
func returnMessage(kind MailKind, order orders.Order, amount money.Amount, license licenses.Status) Message {
	sum := amount.Format(order.Locale)
	told := map[MailKind][2]string{
		MailRefund:       {"Your refund for order %d", "We have refunded " + sum + " for your order. Your bank may need some days to show it."},
		MailRefundFailed: {"Your refund for order %d did not arrive", "The refund of " + sum + " for your order did not arrive. Please write to us, so that we can send it another way."},
		MailDispute:      {"A payment for order %d is disputed", "Your bank has asked us to give back " + sum + " that was paid for your order, and is looking at it."},
		MailDisputeWon:   {"The dispute about order %d is over", "Your bank has decided that the payment of " + sum + " for your order stands."},
		MailDisputeLost:  {"The dispute about order %d is over", "Your bank has given back the payment of " + sum + " for your order."},
	}[kind]
	if told[0] == "" {
		panic("bug: no text for a mail about " + string(kind))
	}
	text := told[1] + "\n"
	switch license {
	case licenses.StatusActive:
		text += "\nYour license is active.\n"
	case licenses.StatusSuspended:
		text += "\nYour license is suspended until this is settled.\n"
	case licenses.StatusRevoked:
		text += "\nYour license is no longer valid.\n"
	}
	return Message{
		To: order.Email, Subject: fmt.Sprintf(told[0], order.Number),
		Text: fmt.Sprintf("%s\nOrder %s\n", text, order.ID),
	}
}
