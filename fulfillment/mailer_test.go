package fulfillment_test

import (
	"context"
	"errors"
	"fmt"
	"mime"
	"net/mail"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"paidonce/fulfillment"
	"paidonce/internal/smtptest"
)

func testMessage() fulfillment.Message {
	return fulfillment.Message{
		From: testSender, To: "a@example.com", Subject: "Your order 7", Text: "Thank you.\n", HTML: "<p>Thank you.</p>",
		MessageID: "receipt.7@example.com", Date: time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC),
	}
}

func smtpTo(t *testing.T, s *smtptest.Server) *fulfillment.SMTP {
	t.Helper()
	mailer, err := fulfillment.ParseSMTP("smtp://" + s.Addr)
	if err != nil {
		t.Fatal(err)
	}
	return mailer
}

// outcomeOf says in a word what a mailer's error means.
func outcomeOf(err error) string {
	rejected := new(fulfillment.RejectedError)
	switch {
	case err == nil:
		return "sent"
	case errors.As(err, &rejected):
		return "rejected"
	case errors.Is(err, fulfillment.ErrNotSent):
		return "not sent"
	}
	return "unknown"
}

// What is known of a mail's outcome, by where the conversation ended. Nobody knows only
// between the last dot and its answer.
func TestOutcomesOfAnSMTPConversation(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		answer map[string]string
		want   string
		mails  int
	}{
		// Taken, whatever comes after.
		{"accepted", nil, "sent", 1},
		{"cut after it was accepted, on RSET", map[string]string{"RSET": smtptest.Drop}, "sent", 1},
		{"cut after it was accepted, on QUIT", map[string]string{"QUIT": smtptest.Drop}, "sent", 1},
		{"an error after it was accepted", map[string]string{"RSET": "421 going down"}, "sent", 1},

		// Before the mail itself: certainly not sent.
		{"the greeting is a refusal", map[string]string{"": "554 not today"}, "not sent", 0},
		{"cut at the greeting", map[string]string{"": smtptest.Drop}, "not sent", 0},
		{"the recipient is refused for now", map[string]string{"RCPT": "451 greylisted"}, "not sent", 0},
		{"the sender is refused for now", map[string]string{"MAIL": "450 busy"}, "not sent", 0},
		{"cut at MAIL", map[string]string{"MAIL": smtptest.Drop}, "not sent", 0},
		{"cut at RCPT", map[string]string{"RCPT": smtptest.Drop}, "not sent", 0},
		{"cut at DATA", map[string]string{"DATA": smtptest.Drop}, "not sent", 0},
		{"DATA is refused for now", map[string]string{"DATA": "451 later"}, "not sent", 0},
		{"the mail is refused for now", map[string]string{".": "452 no room"}, "not sent", 0},

		// A no for good.
		{"the recipient does not exist", map[string]string{"RCPT": "550 no such user"}, "rejected", 0},
		{"the sender is not allowed", map[string]string{"MAIL": "550 not yours"}, "rejected", 0},
		{"the mail is refused", map[string]string{".": "554 spam"}, "rejected", 0},

		// The answer to the last dot was lost.
		{"cut after the last dot", map[string]string{".": smtptest.Drop}, "unknown", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			server := smtptest.New(t, tt.answer)
			id, err := smtpTo(t, server).Send(t.Context(), testMessage())
			if got := outcomeOf(err); got != tt.want {
				t.Errorf("%s (%v), want %s", got, err, tt.want)
			}
			if (err == nil) != (id == testMessage().MessageID) {
				t.Errorf("provider id %q with error %v", id, err)
			}
			if got := len(server.Mails()); got != tt.mails {
				t.Errorf("the server took %d mails, want %d", got, tt.mails)
			}
		})
	}
}

// The caller's deadline bounds the whole conversation, wherever the server falls silent.
func TestASilentServerIsLeftAtTheDeadline(t *testing.T) {
	t.Parallel()
	for command, want := range map[string]string{
		"": "not sent", "EHLO": "not sent", "NOOP": "not sent", "MAIL": "not sent", "RCPT": "not sent", "DATA": "not sent",
		".": "unknown", "RSET": "sent", "QUIT": "sent",
	} {
		t.Run(fmt.Sprintf("at %q", command), func(t *testing.T) {
			t.Parallel()
			server := smtptest.New(t, map[string]string{command: smtptest.Silent, "HELO": smtptest.Silent})
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			ended := make(chan error, 1)
			go func() { _, err := smtpTo(t, server).Send(ctx, testMessage()); ended <- err }()
			select {
			case err := <-ended:
				if got := outcomeOf(err); got != want {
					t.Errorf("%s (%v), want %s", got, err, want)
				}
			case <-time.After(10 * time.Second):
				t.Error("it is still waiting 10 s after a deadline of 200 ms")
			}
		})
	}
}

func TestNobodyListens(t *testing.T) {
	t.Parallel()
	mailer, err := fulfillment.ParseSMTP("smtp://127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := mailer.Send(t.Context(), testMessage()); outcomeOf(err) != "not sent" {
		t.Errorf("%s (%v), want not sent", outcomeOf(err), err)
	}
}

// What was sent is one mail to one recipient, whose headers say what the message says.
func TestAMailIsWhatTheMessageSays(t *testing.T) {
	t.Parallel()
	server := smtptest.New(t, nil)
	m := testMessage()
	m.From = `"Müller, Söhne <& Co>" <shop@example.com>`
	m.Subject = "Bestellung 7: 鍵 ключ " + strings.Repeat("🔑", 300)
	m.Text = "Grüße, 你好\n.\nafter a lone dot\n"
	mailer := smtpTo(t, server)
	for range 2 {
		if _, err := mailer.Send(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	taken := server.Mails()
	if len(taken) != 2 || taken[0] != taken[1] {
		t.Fatalf("two sends of one message differ:\n%q", taken)
	}
	for i, c := range []byte(strings.SplitN(taken[0], "\r\n\r\n", 2)[0]) {
		if c > 126 {
			t.Fatalf("the header has a raw byte %d at %d", c, i)
		}
	}
	got, err := mail.ReadMessage(strings.NewReader(taken[0]))
	if err != nil {
		t.Fatal(err)
	}
	decode := func(header string) string {
		s, err := new(mime.WordDecoder).DecodeHeader(got.Header.Get(header))
		if err != nil {
			t.Errorf("%s: %v", header, err)
		}
		return s
	}
	from, err := got.Header.AddressList("From")
	if err != nil || len(from) != 1 || from[0].Name != "Müller, Söhne <& Co>" || from[0].Address != "shop@example.com" {
		t.Errorf("From: %v, %v", from, err)
	}
	if s := decode("Subject"); s != m.Subject {
		t.Errorf("Subject: %s, want %s", s, m.Subject)
	}
	if id := got.Header.Get("Message-Id"); id != "<receipt.7@example.com>" {
		t.Errorf("Message-ID: %s", id)
	}
	if date, err := got.Header.Date(); err != nil || !date.Equal(m.Date) {
		t.Errorf("Date: %v, %v", date, err)
	}
	for _, rcpt := range server.Recipients() {
		if rcpt != "RCPT TO:<a@example.com>" {
			t.Errorf("recipient %s", rcpt)
		}
	}
}

// Text from outside cannot add a header or a recipient: it is refused, or it stays text.
func TestB31HeaderInjection(t *testing.T) {
	t.Parallel()
	for _, hostile := range []string{
		"Eve\r\nBcc: x@example.org", "Eve\nBcc: x@example.org", "Eve\rBcc: x@example.org", "Eve\u2028Bcc: x@example.org",
		"=?utf-8?q?Eve=0D=0ABcc:_x@example.org?=", "a@example.com\r\nBcc: x@example.org", "a@example.com,x@example.org",
		"a@example.com>\r\nRCPT TO:<x@example.org", "<a@example.com> <x@example.org>", "", "no address",
	} {
		for _, place := range []string{"to", "subject", "text"} {
			m := testMessage()
			switch place {
			case "to":
				m.To = hostile
			case "subject":
				m.Subject = hostile
			case "text":
				m.Text = hostile
			}
			server := smtptest.New(t, nil)
			_, err := smtpTo(t, server).Send(t.Context(), m)
			if place == "to" && outcomeOf(err) != "rejected" {
				t.Errorf("to %q: %s (%v), want rejected", hostile, outcomeOf(err), err)
			}
			if rcpts := server.Recipients(); len(rcpts) > 1 {
				t.Errorf("%s %q: recipients %q, want one", place, hostile, rcpts)
			}
			for _, raw := range server.Mails() {
				got, err := mail.ReadMessage(strings.NewReader(raw))
				if err != nil {
					t.Errorf("%s %q: %v", place, hostile, err)
					continue
				}
				if got.Header.Get("Bcc") != "" || got.Header.Get("To") != "<a@example.com>" {
					t.Errorf("%s %q: headers %v", place, hostile, got.Header)
				}
			}
		}
	}
}

func TestAFolderHoldsOneFilePerMail(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	mailer := fulfillment.Folder{Dir: dir}
	for range 2 {
		path, err := mailer.Send(t.Context(), testMessage())
		if err != nil || path != filepath.Join(dir, "receipt.7@example.com.eml") {
			t.Fatalf("%s, %v", path, err)
		}
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 1 {
		t.Errorf("%d files, %v; want 1", len(files), err)
	}
	m := testMessage()
	m.To = "nobody"
	if _, err := mailer.Send(t.Context(), m); outcomeOf(err) != "rejected" {
		t.Errorf("%v, want rejected", err)
	}
	if _, err := (fulfillment.Folder{Dir: filepath.Join(dir, "absent")}).Send(t.Context(), testMessage()); outcomeOf(err) != "not sent" {
		t.Errorf("%v, want not sent", err)
	}
}

func TestParseSMTP(t *testing.T) {
	t.Parallel()
	for _, good := range []string{
		"smtp://localhost:25", "smtp://localhost", "smtps://mail.example.com", "smtps://mail.example.com:465", "smtp://[::1]:1025",
		"smtp://user:p%40ss@mail.example.com:587", "smtp://mail.example.com/",
	} {
		if _, err := fulfillment.ParseSMTP(good); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for _, bad := range []string{
		"", "localhost:25", "http://localhost", "smtp://", "smtp://:25", "smtp://user:hunter2@", "smtp://user:hunter2@host:port",
		"smtp://user:hunter2@host:0", "smtp://user:hunter2@host:70000", "smtp://user:hunter2@host:-1", "ftp://user:hunter2@host", "smtp://user:hunter2%@host",
	} {
		if _, err := fulfillment.ParseSMTP(bad); err == nil {
			t.Errorf("%q is accepted", bad)
		} else if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: the error tells the password: %v", bad, err)
		}
	}
}

// A password is not sent over a connection that is not encrypted.
func TestNoPasswordWithoutTLS(t *testing.T) {
	t.Parallel()
	server := smtptest.New(t, map[string]string{"EHLO": "250-localhost\r\n250 AUTH PLAIN LOGIN"})
	mailer, err := fulfillment.ParseSMTP("smtp://user:hunter2@" + server.Addr)
	if err != nil {
		t.Fatal(err)
	}
	_, err = mailer.Send(t.Context(), testMessage())
	if outcomeOf(err) != "not sent" || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("%s (%v), want not sent", outcomeOf(err), err)
	}
	if slices.Contains(server.Commands(), "AUTH") {
		t.Error("it tried to authenticate in the clear")
	}
}
