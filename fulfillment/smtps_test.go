package fulfillment

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// smtps:// is TLS from the first byte: to a server whose certificate is good, and over it a
// password may be sent.
func TestSMTPSAuthenticatesOverTLS(t *testing.T) {
	t.Parallel()
	https := httptest.NewTLSServer(nil) // for its certificate, which is for 127.0.0.1
	defer https.Close()
	plain, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listener := tls.NewListener(plain, &tls.Config{Certificates: https.TLS.Certificates, MinVersion: tls.VersionTLS12})
	var serving sync.WaitGroup
	defer serving.Wait()
	defer listener.Close()
	var lines []string
	serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			lines = append(lines, converse(conn)...)
		}
	})

	mailer, err := ParseSMTP("smtps://user:secret@" + plain.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	m := Message{From: "shop@example.com", To: "a@example.com", MessageID: "1@example.com", Date: time.Unix(0, 0)}
	if _, err := mailer.Send(ctx, m); !errors.Is(err, ErrNotSent) {
		t.Errorf("a certificate that nobody vouches for: %v, want not sent", err)
	}
	mailer.tls.RootCAs = x509.NewCertPool()
	mailer.tls.RootCAs.AddCert(https.Certificate())
	if _, err := mailer.Send(ctx, m); err != nil {
		t.Error(err)
	}
	listener.Close()
	serving.Wait()
	if !slices.ContainsFunc(lines, func(s string) bool { return strings.HasPrefix(s, "AUTH PLAIN ") }) {
		t.Errorf("it did not authenticate: %q", lines)
	}
}

// converse takes one mail, and returns what the client said.
func converse(conn net.Conn) (lines []string) {
	defer conn.Close()
	answer := func(s string) { _, _ = conn.Write([]byte(s + "\r\n")) }
	answer("220 localhost")
	in, data := bufio.NewScanner(conn), false
	for in.Scan() {
		lines = append(lines, in.Text())
		command, _, _ := strings.Cut(in.Text(), " ")
		switch {
		case data:
			if data = in.Text() != "."; !data {
				answer("250 taken")
			}
		case command == "EHLO":
			answer("250-localhost\r\n250-8BITMIME\r\n250 AUTH PLAIN")
		case command == "AUTH":
			answer("235 welcome")
		case command == "DATA":
			data = true
			answer("354 go on")
		case command == "QUIT":
			answer("221 bye")
			return lines
		default:
			answer("250 OK")
		}
	}
	return lines
}
