package fulfillment

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/mail"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"paidonce/internal/provider"
)

// DefaultMailAPI is the service whose shape MailAPI speaks.
const DefaultMailAPI = "https://api.resend.com"

// mailKeyLife is how long a key is trusted: the service keeps it for 24 h, by its own clock.
const mailKeyLife = 23 * time.Hour

// mailAPITimeout bounds a request, with its answer.
const mailAPITimeout = 30 * time.Second

// maxMailAnswer bounds how much of an answer is read; one is some hundred bytes.
const maxMailAnswer = 64 << 10

// MailAPI sends through an HTTP mail service that takes an idempotency key, as Resend does:
// one key is one mail, however often it is asked for. So a lost answer can be asked for again.
type MailAPI struct {
	url    string
	key    string
	client *http.Client
}

// NewMailAPI returns a mailer for the service at base. The API key goes into the Authorization
// header and nowhere else.
func NewMailAPI(base, apiKey string) (*MailAPI, error) {
	u, err := url.Parse(base)
	if err != nil || u.Hostname() == "" || u.User != nil || (u.Scheme != "http" && u.Scheme != "https") {
		return nil, errors.New("must be a URL without a password, like " + DefaultMailAPI)
	}
	return &MailAPI{
		url: strings.TrimSuffix(base, "/") + "/emails", key: apiKey,
		client: &http.Client{
			Timeout: mailAPITimeout,
			// Whoever answers with another address is not the service.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

// Keys implements Keyed.
func (a *MailAPI) Keys() (service string, life time.Duration) { return a.url, mailKeyLife }

// apiMail is a mail as the service takes it. Its bytes follow from the frozen message alone:
// the service refuses a key that comes with others.
type apiMail struct {
	From    string            `json:"from"`
	To      []string          `json:"to"`
	Subject string            `json:"subject"`
	HTML    string            `json:"html,omitempty"`
	Text    string            `json:"text"`
	Headers map[string]string `json:"headers"`
}

// Send implements Mailer.
func (a *MailAPI) Send(ctx context.Context, m Message) (string, error) {
	to, err := mail.ParseAddress(m.To)
	if err != nil {
		return "", &RejectedError{Cause: fmt.Errorf("recipient: %w", err)}
	}
	if _, err := mail.ParseAddress(m.From); err != nil {
		return "", &RejectedError{Cause: fmt.Errorf("sender: %w", err)}
	}
	body, err := json.Marshal(apiMail{
		From: m.From, To: []string{to.Address}, Subject: oneLine(m.Subject), HTML: m.HTML, Text: m.Text,
		Headers: map[string]string{"Message-ID": "<" + m.MessageID + ">"},
	})
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrNotSent, err)
	}
	status, header, answer, err := a.post(ctx, m.Key, body)
	if err != nil {
		return "", err
	}
	// A refusal may quote the key that it refuses; it ends in a row and in a log.
	return readAnswer(status, header, bytes.ReplaceAll(answer, []byte(a.key), []byte("…")))
}

// post makes one request. Its error wraps ErrNotSent if no byte of it can have left.
func (a *MailAPI) post(ctx context.Context, key string, body []byte) (status int, header http.Header, answer []byte, err error) {
	var connected atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected.Store(true) }})
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, a.url, bytes.NewReader(body))
	if err != nil {
		return 0, nil, nil, fmt.Errorf("%w: %w", ErrNotSent, err)
	}
	request.Header.Set("Authorization", "Bearer "+a.key)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Idempotency-Key", key)
	request.Header.Set("User-Agent", "paidonce")
	response, err := a.client.Do(request)
	if err != nil && !connected.Load() {
		return 0, nil, nil, fmt.Errorf("%w: %w", ErrNotSent, err)
	}
	if err != nil {
		return 0, nil, nil, fmt.Errorf("the mail service did not answer: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	answer, err = io.ReadAll(io.LimitReader(response.Body, maxMailAnswer))
	if err != nil {
		return 0, nil, nil, fmt.Errorf("the answer of the mail service broke off: %w", err)
	}
	return response.StatusCode, response.Header, answer, nil
}

// readAnswer says what an answer means (https://resend.com/docs/api-reference/errors).
func readAnswer(status int, header http.Header, answer []byte) (id string, err error) {
	var said struct{ ID, Name, Message string }
	if err := json.Unmarshal(answer, &said); err != nil || said == (struct{ ID, Name, Message string }{}) {
		said.Message = "the answer could not be read"
	}
	refusal := fmt.Errorf("the mail service answered %d %s: %s", status, said.Name, shortened(said.Message))
	switch {
	case status >= 200 && status < 300 && said.ID != "":
		return said.ID, nil
	case status == http.StatusConflict && said.Name != "concurrent_idempotent_requests":
		return "", &RejectedError{Cause: fmt.Errorf("%w: %w", ErrKeyUsed, refusal)}
	case status == http.StatusTooManyRequests:
		return "", fmt.Errorf("%w: %w", ErrNotSent, &provider.RetryError{After: retryAfter(header), Cause: refusal})
	case status == http.StatusUnauthorized, status == http.StatusForbidden, status == http.StatusNotFound,
		status == http.StatusMethodNotAllowed, status >= 300 && status < 400:
		// The API key, the sender's domain or MAIL_API_URL is wrong: for all mails, until mended.
		return "", fmt.Errorf("%w: %w", ErrNotSent, refusal)
	case status >= 400 && status < 500 && status != http.StatusConflict && status != http.StatusRequestTimeout:
		return "", &RejectedError{Cause: refusal}
	}
	// 5xx, an unreadable success, or the same key at work elsewhere: it may have been sent.
	if after := retryAfter(header); after > 0 {
		return "", &provider.RetryError{After: after, Cause: refusal}
	}
	return "", refusal
}

// shortened keeps what a stranger says within a line of a log.
func shortened(s string) string {
	s = oneLine(s)
	if runes := []rune(s); len(runes) > 300 {
		return string(runes[:300]) + "…"
	}
	return s
}

// retryAfter is how long a service asks to be left alone, in seconds; zero: it does not say.
func retryAfter(header http.Header) time.Duration {
	seconds, err := strconv.Atoi(strings.TrimSpace(header.Get("Retry-After")))
	if err != nil || seconds < 0 {
		return 0
	}
	return min(time.Duration(seconds)*time.Second, time.Hour)
}
