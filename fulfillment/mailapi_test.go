package fulfillment_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"paidonce/fulfillment"
	"paidonce/internal/mailapitest"
	"paidonce/internal/provider"
)

const testAPIKey = "re_hunter2"

func apiAt(t *testing.T, base string) *fulfillment.MailAPI {
	t.Helper()
	mailer, err := fulfillment.NewMailAPI(base, testAPIKey)
	if err != nil {
		t.Fatal(err)
	}
	return mailer
}

// keyedMessage is a mail with its row's key.
func keyedMessage() fulfillment.Message {
	m := testMessage()
	m.Key = "receipt:7"
	return m
}

// What an answer means, by itself.
func TestAnswersOfTheMailAPI(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		fault mailapitest.Fault
		want  string
		after time.Duration
	}{
		{"too many", mailapitest.Fault{Status: 429, Name: "rate_limit_exceeded", RetryAfter: "7"}, "not sent", 7 * time.Second},
		{"too many, for longer than is listened to", mailapitest.Fault{Status: 429, RetryAfter: "99999"}, "not sent", time.Hour},
		{"too many, without a word", mailapitest.Fault{Status: 429, RetryAfter: "soon"}, "not sent", 0},
		{"no key", mailapitest.Fault{Status: 401, Name: "missing_api_key"}, "not sent", 0},
		{"domain not verified", mailapitest.Fault{Status: 403, Name: "validation_error"}, "not sent", 0},
		{"moved", mailapitest.Fault{Status: 307}, "not sent", 0},
		{"invalid", mailapitest.Fault{Status: 400, Name: "validation_error"}, "rejected", 0},
		{"missing", mailapitest.Fault{Status: 422, Name: "missing_required_field"}, "rejected", 0},
		{"another payload", mailapitest.Fault{Status: 409, Name: "invalid_idempotent_request"}, "rejected", 0},
		{"at work elsewhere", mailapitest.Fault{Status: 409, Name: "concurrent_idempotent_requests"}, "unknown", 0},
		{"broken", mailapitest.Fault{Status: 500, Name: "application_error"}, "unknown", 0},
		{"away", mailapitest.Fault{Status: 503, RetryAfter: "5"}, "unknown", 5 * time.Second},
		{"slow", mailapitest.Fault{Status: 408}, "unknown", 0},
		{"cut", mailapitest.Fault{}, "unknown", 0},
		{"cut after it was taken", mailapitest.Fault{AfterWork: true}, "unknown", 0},
		{"a page", mailapitest.Fault{Status: 200, Body: "<html>welcome</html>"}, "unknown", 0},
		{"an answer without an id", mailapitest.Fault{Status: 200, Body: "{}"}, "unknown", 0},
		{"an endless answer", mailapitest.Fault{Status: 200, Body: `{"x":"` + strings.Repeat("y", 1<<20) + `","id":"z"}`}, "unknown", 0},
		{"an endless refusal", mailapitest.Fault{Status: 400, Body: `{"name":"x","message":"` + strings.Repeat("y", 50_000) + `"}`}, "rejected", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			server := mailapitest.New(t, testAPIKey)
			server.Fail(tt.fault)
			id, err := apiAt(t, server.URL).Send(t.Context(), keyedMessage())
			if got := outcomeOf(err); got != tt.want || id != "" {
				t.Errorf("%s (%v), want %s", got, err, tt.want)
			}
			var retry *provider.RetryError
			if errors.As(err, &retry) && retry.After != tt.after || retry == nil && tt.after != 0 {
				t.Errorf("%v asks to wait other than %s", err, tt.after)
			}
			if len(err.Error()) > 600 {
				t.Errorf("the error is %d bytes long", len(err.Error()))
			}
		})
	}
}

// Where the request did not leave, it certainly was not sent; where it was silent, nobody knows.
func TestTheMailAPIIsNotThere(t *testing.T) {
	t.Parallel()
	if _, err := apiAt(t, "http://127.0.0.1:1").Send(t.Context(), keyedMessage()); outcomeOf(err) != "not sent" {
		t.Errorf("nobody listens: %s (%v), want not sent", outcomeOf(err), err)
	}
	server := mailapitest.New(t, testAPIKey)
	server.Fail(mailapitest.Fault{AfterWork: true, Silent: true})
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	if _, err := apiAt(t, server.URL).Send(ctx, keyedMessage()); outcomeOf(err) != "unknown" {
		t.Errorf("silence: %s (%v), want unknown", outcomeOf(err), err)
	}
}

// The mail arrives as it was frozen, to one recipient, under its key; again under its key it
// is the same mail.
func TestTheMailAPITakesAMail(t *testing.T) {
	t.Parallel()
	server := mailapitest.New(t, testAPIKey)
	mailer := apiAt(t, server.URL+"/")
	first, err := mailer.Send(t.Context(), keyedMessage())
	if err != nil || first == "" {
		t.Fatalf("%q, %v", first, err)
	}
	if again, err := mailer.Send(t.Context(), keyedMessage()); err != nil || again != first {
		t.Errorf("again: %q, %v; want %q", again, err, first)
	}
	taken, want := server.Mails(), keyedMessage()
	if len(taken) != 1 || taken[0].Key != "receipt:7" || taken[0].From != want.From || strings.Join(taken[0].To, " ") != want.To ||
		taken[0].Subject != want.Subject || taken[0].Text != want.Text || taken[0].HTML != want.HTML ||
		taken[0].Headers["Message-ID"] != "<"+want.MessageID+">" {
		t.Errorf("taken: %+v, want %+v once", taken, want)
	}

	other := keyedMessage()
	other.Text = "Another text."
	if _, err := mailer.Send(t.Context(), other); outcomeOf(err) != "rejected" || !errors.Is(err, fulfillment.ErrKeyUsed) {
		t.Errorf("another mail under the key: %v, want ErrKeyUsed", err)
	}
}

// B31 over HTTP: what is no address is not given to the service.
func TestB31AddressesOverTheMailAPI(t *testing.T) {
	t.Parallel()
	server := mailapitest.New(t, testAPIKey)
	for _, address := range []string{"", "nobody", "a@example.org,b@example.org", "a@example.org\r\nBcc: b@example.org"} {
		m := keyedMessage()
		m.To = address
		if _, err := apiAt(t, server.URL).Send(t.Context(), m); outcomeOf(err) != "rejected" {
			t.Errorf("to %q: %v, want rejected", address, err)
		}
		m.To, m.From = "a@example.com", address
		if _, err := apiAt(t, server.URL).Send(t.Context(), m); outcomeOf(err) != "rejected" {
			t.Errorf("from %q: %v, want rejected", address, err)
		}
	}
	if n := server.Requests(); n != 0 {
		t.Errorf("%d requests, want none", n)
	}
}

// The key is a secret: it goes into one header, to one host, and into no error.
func TestTheMailAPITellsNoKey(t *testing.T) {
	t.Parallel()
	server := mailapitest.New(t, "another key")
	_, err := apiAt(t, server.URL).Send(t.Context(), keyedMessage())
	if outcomeOf(err) != "not sent" || strings.Contains(err.Error(), testAPIKey) {
		t.Errorf("a wrong key: %v, want not sent, and no key told", err)
	}
	elsewhere := mailapitest.New(t, testAPIKey)
	moved := httptest.NewServer(http.RedirectHandler(elsewhere.URL+"/emails", http.StatusPermanentRedirect))
	defer moved.Close()
	if _, err := apiAt(t, moved.URL).Send(t.Context(), keyedMessage()); outcomeOf(err) != "not sent" || elsewhere.Requests() != 0 {
		t.Errorf("moved: %v after %d requests elsewhere, want none", err, elsewhere.Requests())
	}
	for _, bad := range []string{"", "api.example.com", "ftp://api.example.com", "https://", "https://user:hunter2@api.example.com", "https://%"} {
		if _, err := fulfillment.NewMailAPI(bad, testAPIKey); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: %v, want it refused", bad, err)
		}
	}
}

// This transport closes the window: wherever the answer is lost, and however often, there is
// one mail, and no person is asked, even with the policy to send nothing again. (A request whose
// connection is cut may be made again by net/http itself, since it has a key.)
func TestTheMailAPIClosesTheWindow(t *testing.T) {
	t.Parallel()
	b := setup(t)
	server := mailapitest.New(t, testAPIKey)
	for name, faults := range map[string][]mailapitest.Fault{
		"lost after it was taken":         {{AfterWork: true}, {AfterWork: true}},
		"lost before":                     {{}, {}},
		"broken after it was taken":       {{AfterWork: true, Status: 500}, {Status: 502}},
		"a page after it was taken":       {{AfterWork: true, Status: 200, Body: "<html>"}},
		"at work elsewhere":               {{AfterWork: true}, {Status: 409, Name: "concurrent_idempotent_requests"}},
		"too many, lost, too many, wrong": {{Status: 429}, {AfterWork: true}, {Status: 429}, {Status: 401}},
	} {
		inTurn(t, name, func() {
			b.service.Resend, b.service.Mailer = fulfillment.ResendNever, apiAt(t, server.URL)
			o := b.fulfilled(t)
			before, asked := len(server.Mails()), server.Requests()
			server.Fail(faults...)
			for done, looks := 0, 0; done == 0 && looks < 10; looks++ {
				_ = b.service.SendReceipt(t.Context(), receiptOf(o.ID), counted(&done))
			}
			state, why := b.receipt(t, o)
			mails, requests := len(server.Mails())-before, server.Requests()-asked
			if state != fulfillment.ReceiptSent || mails != 1 || requests != len(faults)+1 {
				t.Errorf("%s: %s (%s), %d mails after %d requests, want sent, 1, %d", name, state, why, mails, requests, len(faults)+1)
			}
		})
	}
}

// When the service has forgotten the key, sending again would be sending twice: the window is
// open again, and the policy has its say.
func TestTheMailAPIForgets(t *testing.T) {
	t.Parallel()
	b := setup(t)
	server := mailapitest.New(t, testAPIKey)
	b.service.Resend, b.service.Mailer = fulfillment.ResendNever, apiAt(t, server.URL)
	o := b.fulfilled(t)
	server.Fail(mailapitest.Fault{AfterWork: true})
	_ = b.service.SendReceipt(t.Context(), receiptOf(o.ID), noJob)
	server.Forget()
	b.exec(t, `UPDATE sent_receipts SET key_used_at = now() - interval '23 hours'`)
	done := 0
	if err := b.service.SendReceipt(t.Context(), receiptOf(o.ID), counted(&done)); err != nil || done != 1 {
		t.Errorf("%v after %d completions", err, done)
	}
	if state, _ := b.receipt(t, o); state != fulfillment.ReceiptUnknown || len(server.Mails()) != 1 {
		t.Errorf("%s after %d mails, want unknown after 1", state, len(server.Mails()))
	}
}
