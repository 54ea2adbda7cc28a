package fulfillment

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/wneessen/go-mail"
)

// Mailer sends one mail. Its errors tell what is known of the outcome: an error that wraps
// ErrNotSent means that nothing went out; a RejectedError that it never will as it stands;
// any other that nobody knows.
type Mailer interface {
	Send(ctx context.Context, m Message) (providerID string, err error)
}

var (
	// ErrNotSent is wrapped by an error after which the mail certainly did not go out.
	ErrNotSent = errors.New("the mail was not sent")

	errMailNotConfigured = errors.New("no mail transport is configured (SMTP_URL, MAIL_FROM)")
)

// RejectedError is a refusal that a retry would meet again: a bad address, a bad sender.
type RejectedError struct{ Cause error }

func (e *RejectedError) Error() string { return "the mail was rejected: " + e.Cause.Error() }

// Unwrap returns the cause.
func (e *RejectedError) Unwrap() error { return e.Cause }

// smtpTimeout bounds the whole conversation. RFC 5321 would have the client wait ten
// minutes for the answer to DATA; a sender's lease is not that long, and an answer that
// takes longer than this is unknown, which is what it is.
const smtpTimeout = 45 * time.Second

// SMTP sends through a submission server.
type SMTP struct {
	host string
	tls  *tls.Config // of a server that speaks TLS from the start; nil for one that does not
	opts []mail.Option
}

// ParseSMTP reads smtp://[user:pass@]host:port, or smtps:// for TLS from the start. Over
// smtp://, STARTTLS is used if the server offers it, and required before a password is sent.
func ParseSMTP(raw string) (*SMTP, error) {
	u, err := url.Parse(raw)
	if err != nil || u.Hostname() == "" || (u.Scheme != "smtp" && u.Scheme != "smtps") {
		return nil, errors.New("must be smtp://[user:pass@]host:port or smtps://…")
	}
	port := 587
	if u.Scheme == "smtps" {
		port = 465
	}
	if u.Port() != "" {
		if port, err = strconv.Atoi(u.Port()); err != nil || port < 1 || port > 65535 {
			return nil, errors.New("the port is not a number from 1 to 65535")
		}
	}

	s := &SMTP{host: u.Hostname()}
	if u.Scheme == "smtps" {
		s.tls = &tls.Config{ServerName: s.host, MinVersion: tls.VersionTLS12}
	}
	opts := []mail.Option{mail.WithPort(port), mail.WithTimeout(smtpTimeout), mail.WithTLSPolicy(mail.TLSOpportunistic)}
	if password, ok := u.User.Password(); ok {
		opts = append(opts, mail.WithSMTPAuth(mail.SMTPAuthAutoDiscover), mail.WithUsername(u.User.Username()), mail.WithPassword(password))
		if u.Scheme == "smtp" {
			opts = append(opts, mail.WithTLSPolicy(mail.TLSMandatory))
		}
	}
	s.opts = opts
	return s, nil
}

// Send implements Mailer.
func (s *SMTP) Send(ctx context.Context, m Message) (string, error) {
	msg, err := m.build()
	if err != nil {
		return "", &RejectedError{Cause: err}
	}
	ctx, cancel := context.WithTimeout(ctx, smtpTimeout)
	defer cancel()
	client, err := mail.NewClient(s.host, append(slices.Clone(s.opts), mail.WithDialContextFunc(s.dialUntil(ctx)))...)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrNotSent, err)
	}
	if err := client.DialWithContext(ctx); err != nil {
		return "", fmt.Errorf("%w: %w", ErrNotSent, err)
	}
	err = client.Send(msg)
	_ = client.Close()
	if msg.IsDelivered() {
		// Taken by the server; what failed after that (RSET, QUIT) changes nothing.
		return m.MessageID, nil
	}
	return "", sendFault(err)
}

// dialUntil connects, and cuts the connection when ctx ends. The library looks at a context
// only while it connects, and counts its timeout anew from each step.
func (s *SMTP) dialUntil(ctx context.Context) mail.DialContextFunc {
	return func(connecting context.Context, network, address string) (net.Conn, error) {
		dial := (&net.Dialer{}).DialContext
		if s.tls != nil {
			dial = (&tls.Dialer{Config: s.tls}).DialContext
		}
		conn, err := dial(connecting, network, address)
		if err == nil {
			context.AfterFunc(ctx, func() { _ = conn.Close() })
		}
		return conn, err
	}
}

// sendFault says what a failed conversation means for the mail. The one moment at which
// nobody knows is after the last dot: before it the server has no mail to deliver (RFC 5321,
// section 4.1.1.4; RFC 1047 tells the story of the lost answer).
func sendFault(err error) error {
	var fault *mail.SendError
	if !errors.As(err, &fault) {
		return fmt.Errorf("outcome unknown: %w", err)
	}
	switch fault.Reason {
	case mail.ErrSMTPDataClose:
		if code := fault.ErrorCode(); code >= 400 {
			break // an answer, and it is no
		}
		return fmt.Errorf("outcome unknown: %w", err)
	case mail.ErrWriteContent, mail.ErrSMTPReset, mail.ErrAmbiguous:
		return fmt.Errorf("outcome unknown: %w", err)
	case mail.ErrGetSender, mail.ErrGetRcpts, mail.ErrNoUnencoded:
		return &RejectedError{Cause: err}
	case mail.ErrSMTPMailFrom, mail.ErrSMTPRcptTo, mail.ErrSMTPData, mail.ErrConnCheck:
		// Before the mail itself.
	}
	if code := fault.ErrorCode(); code >= 500 && code < 600 {
		return &RejectedError{Cause: err}
	}
	return fmt.Errorf("%w: %w", ErrNotSent, err)
}

// Folder writes mails as .eml files: the demo's post office.
type Folder struct{ Dir string }

// Send implements Mailer. The file's name is the Message-ID, so that sending twice is
// writing the same file twice.
func (f Folder) Send(_ context.Context, m Message) (string, error) {
	msg, err := m.build()
	if err != nil {
		return "", &RejectedError{Cause: err}
	}
	path := filepath.Join(f.Dir, m.MessageID+".eml")
	if err := writeFile(path, msg); err != nil {
		return "", fmt.Errorf("%w: %w", ErrNotSent, err)
	}
	return path, nil
}

// writeFile writes beside the file and renames, so that a half-written mail is never one.
func writeFile(path string, content io.WriterTo) error {
	file, err := os.CreateTemp(filepath.Dir(path), ".eml-*")
	if err != nil {
		return err
	}
	_, err = content.WriteTo(file)
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
		_ = os.Remove(file.Name())
		return err
	}
	return os.Rename(file.Name(), path)
}

// build makes the mail. The library checks addresses, encodes headers (RFC 2047) and
// refuses line breaks in them.
func (m Message) build() (*mail.Msg, error) {
	msg := mail.NewMsg(mail.WithNoDefaultUserAgent())
	if err := msg.From(m.From); err != nil {
		return nil, fmt.Errorf("sender: %w", err)
	}
	if err := msg.To(m.To); err != nil {
		return nil, fmt.Errorf("recipient: %w", err)
	}
	msg.Subject(m.Subject)
	msg.SetMessageIDWithValue(m.MessageID)
	msg.SetDateWithValue(m.Date)
	if m.Key != "" {
		// Over SMTP one service we know of keeps keys, and takes them here; to others it is a
		// header that says no more than the Message-ID does.
		msg.SetGenHeader("Resend-Idempotency-Key", m.Key)
	}
	msg.SetBodyString(mail.TypeTextPlain, m.Text)
	if m.HTML != "" {
		// By default the boundary is random: every attempt would be another mail.
		sum := sha256.Sum256([]byte(m.MessageID))
		msg.SetBoundary(hex.EncodeToString(sum[:]))
		msg.AddAlternativeString(mail.TypeTextHTML, m.HTML)
	}
	return msg, nil
}
