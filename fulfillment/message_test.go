package fulfillment_test

import (
	"html"
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net/mail"
	"strings"
	"testing"

	"github.com/google/uuid"

	"paidonce/fulfillment"
	"paidonce/internal/money"
	"paidonce/internal/smtptest"
	"paidonce/licenses"
	"paidonce/orders"
)

// parts are the decoded parts of a mail as it came, by their content type.
func parts(t *testing.T, raw string) (header mail.Header, byType map[string]string) {
	t.Helper()
	m, err := mail.ReadMessage(strings.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	kind, params, err := mime.ParseMediaType(m.Header.Get("Content-Type"))
	if err != nil || kind != "multipart/alternative" {
		t.Fatalf("content type %q, %v", m.Header.Get("Content-Type"), err)
	}
	byType = map[string]string{}
	var order []string
	for reader := multipart.NewReader(m.Body, params["boundary"]); ; {
		part, err := reader.NextRawPart()
		if err == io.EOF { //nolint:errorlint // NextRawPart documents it as it is
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if encoding := part.Header.Get("Content-Transfer-Encoding"); encoding != "quoted-printable" {
			t.Errorf("a part is encoded as %q", encoding)
		}
		body, err := io.ReadAll(quotedprintable.NewReader(part))
		if err != nil {
			t.Fatal(err)
		}
		kind, _, _ := mime.ParseMediaType(part.Header.Get("Content-Type"))
		byType[kind] = strings.ReplaceAll(string(body), "\r\n", "\n")
		order = append(order, kind)
	}
	if len(order) != 2 || order[0] != "text/plain" || order[1] != "text/html" {
		t.Errorf("parts %q, want the text, and after it the HTML, which is preferred", order)
	}
	return m.Header, byType
}

// hostileNames are names that have broken mails elsewhere (B31).
func hostileNames() []string {
	return []string{
		"Eve\r\nBcc: x@example.org\r\n\r\nHi", "Eve\nBcc: x@example.org", "Eve\rBcc: x@example.org", "Eve\u2028Bcc: x@example.org",
		"=?utf-8?q?Eve=0D=0ABcc:_x@example.org?=", "Müller & Söhne, <GmbH> \"König\"", "鍵 ライセンス", "مفتاح الترخيص", "\u202eyek",
		"<script>alert(1)</script>", "{{.Keys}}", `" onmouseover="x`, strings.Repeat("🔑", 300), "a\x07b\x1b[31m",
	}
}

// B31, from the order to the mail server: a product can be called anything. It stays text, in
// one mail to one recipient, which can be read.
func TestB31ProductNames(t *testing.T) {
	t.Parallel()
	b := setup(t)
	server := smtptest.New(t, nil)
	b.service.Mailer = smtpTo(t, server)
	for i, name := range hostileNames() {
		o := b.paid(t, 1, 1)[0]
		b.exec(t, `UPDATE order_lines SET name = ? WHERE order_id = ?`, name, o.ID)
		if err := b.service.FulfillOrder(t.Context(), o.ID, noJob); err != nil {
			t.Fatal(err)
		}
		if err := b.service.SendReceipt(t.Context(), receiptOf(o.ID), noJob); err != nil {
			t.Fatal(err)
		}
		taken := server.Mails()
		if len(taken) != i+1 {
			t.Fatalf("%q: %d mails, want %d", name, len(taken), i+1)
		}
		header, parts := parts(t, taken[i])
		if header.Get("To") != "<a@example.com>" || header.Get("Bcc") != "" || len(header) != 8 {
			t.Errorf("%q: headers %v", name, header)
		}
		shown := strings.Join(strings.Fields(strings.NewReplacer("\x07", " ", "\x1b", " ").Replace(name)), " ")
		if !strings.Contains(parts["text/plain"], "\n1 x "+shown+"   $") {
			t.Errorf("%q: the text does not show it on its line:\n%s", name, parts["text/plain"])
		}
		if !strings.Contains(html.UnescapeString(parts["text/html"]), ">"+shown+"</td>") || strings.Contains(parts["text/html"], "<script") {
			t.Errorf("%q: the HTML does not show it as text:\n%s", name, parts["text/html"])
		}
	}
	if rcpts := server.Recipients(); len(rcpts) != len(hostileNames()) {
		t.Errorf("recipients %q, want one for each mail", rcpts)
	}
}

// B31: an address that is not one is not sent to. The license does not wait for it.
func TestB31Addresses(t *testing.T) {
	t.Parallel()
	b := setup(t)
	server := smtptest.New(t, nil)
	b.service.Mailer = smtpTo(t, server)
	for _, address := range []string{
		"a@example.org,b@example.org", "a@example.org\r\nBcc: b@example.org", "a@example.org b@example.org", "nobody", "<>", "a@", " ", "",
	} {
		o := b.paid(t, 1, 1)[0]
		b.exec(t, `UPDATE orders SET email = ? WHERE id = ?`, address, o.ID)
		if err := b.service.FulfillOrder(t.Context(), o.ID, noJob); err != nil {
			t.Fatal(err)
		}
		if err := b.service.SendReceipt(t.Context(), receiptOf(o.ID), noJob); err != nil {
			t.Errorf("%q: %v", address, err)
		}
		if state, why := b.receipt(t, o); state != fulfillment.ReceiptParked || why == "" {
			t.Errorf("%q: the receipt is %s (%s), want parked with a reason", address, state, why)
		}
		if n := b.count(t, `SELECT count(*) FROM licenses WHERE order_id = ? AND status = 'active'`, o.ID); n != 1 {
			t.Errorf("%q: %d licenses, want 1", address, n)
		}
	}
	if seen := server.Commands(); len(seen) != 0 {
		t.Errorf("the mail server was asked: %q", seen)
	}
}

// B57: a mail is in the buyer's language, not in that of the process, and amounts have their
// currency's digits.
func TestB57LanguageAndAmounts(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		locale, currency string
		minor            int64
		language, text   string
	}{
		{"en", "usd", 1999, "en", "We have refunded $19.99 for"},
		{"", "usd", 1999, "en", "We have refunded $19.99 for"},
		{"en-GB", "kwd", 18600, "en", "We have refunded KWD\u00a018.600 for"},
		{"de", "eur", 123456, "de", "Wir haben Ihnen 1.234,56\u00a0€ zu"},
		{"de-AT", "jpy", 100, "de", "Wir haben Ihnen"},
		{"DE_de", "jpy", 100, "de", "100\u00a0¥ zu"},
		{"fr", "eur", 1999, "en", "We have refunded 19,99\u00a0€ for"},
		{"tlh", "jpy", 100, "en", "We have refunded ¥100 for"},
		{"*", "usd", 1, "en", "We have refunded $0.01 for"},
		{"../mails/de", "usd", 1, "en", "We have refunded $0.01 for"},
	} {
		order := orders.Order{ID: uuid.New(), Number: 7, Email: "a@example.com", Locale: tt.locale}
		m := fulfillment.ReturnMessage(fulfillment.MailRefund, order, money.Amount{Minor: tt.minor, Currency: money.Currency(tt.currency)}, "")
		for part, text := range map[string]string{"text": m.Text, "html": html.UnescapeString(m.HTML)} {
			if !strings.Contains(text, tt.text) || !strings.Contains(text, order.ID.String()) {
				t.Errorf("%q: the %s lacks %q:\n%s", tt.locale, part, tt.text, text)
			}
		}
		if !strings.Contains(m.HTML, `<html lang="`+tt.language+`">`) {
			t.Errorf("%q: the HTML is not marked as %s", tt.locale, tt.language)
		}
	}
}

// Every language has every text, and each says what becomes of the license.
func TestEveryLanguageHasEveryText(t *testing.T) {
	t.Parallel()
	kinds := []fulfillment.MailKind{
		fulfillment.MailRefund, fulfillment.MailRefundFailed, fulfillment.MailDispute, fulfillment.MailDisputeWon, fulfillment.MailDisputeLost,
	}
	seen := map[string]string{}
	for _, language := range []string{"en", "de"} {
		for _, kind := range kinds {
			for _, license := range []licenses.Status{"", licenses.StatusActive, licenses.StatusSuspended, licenses.StatusRevoked} {
				order := orders.Order{Number: 7, Email: "a@example.com", Locale: language}
				m := fulfillment.ReturnMessage(kind, order, money.Amount{Minor: 1999, Currency: "usd"}, license)
				name := language + " " + string(kind) + " " + string(license)
				if m.To != "a@example.com" || !strings.Contains(m.Subject, "7") || !strings.Contains(m.Text, "19") ||
					strings.Contains(m.Text+m.HTML, "<no value>") {
					t.Errorf("%s: %+v", name, m)
				}
				if other := seen[m.Text]; other != "" {
					t.Errorf("%s says the same as %s:\n%s", name, other, m.Text)
				}
				seen[m.Text] = name
				if speaks := strings.Contains(m.Text, "icense") || strings.Contains(m.Text, "Lizenz"); speaks != (license != "") {
					t.Errorf("%s: %s", name, m.Text)
				}
			}
		}
	}
}

// A mail has to be readable where nothing is loaded from outside.
func TestTheHTMLNeedsNothingFromOutside(t *testing.T) {
	t.Parallel()
	m := fulfillment.ReturnMessage(fulfillment.MailRefund, orders.Order{Locale: "en"}, money.Amount{Minor: 1, Currency: "usd"}, "")
	for _, outside := range []string{"http:", "https:", "<img", "<link", "<script", "url(", "ZgotmplZ"} {
		if strings.Contains(m.HTML, outside) {
			t.Errorf("the HTML has %q", outside)
		}
	}
}

func BenchmarkMessage(b *testing.B) {
	for b.Loop() {
		fulfillment.ReturnMessage(fulfillment.MailRefund, orders.Order{Locale: "de"}, money.Amount{Minor: 1, Currency: "usd"}, licenses.StatusActive)
	}
}
