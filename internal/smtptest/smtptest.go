// Package smtptest is a mail server for tests: it takes mails, counts them, and can fail at
// any point of the conversation.
//
// It owns nothing but its listener. It promises that a mail is counted exactly when the
// server has taken responsibility for it, at the last dot of DATA, so that a test can tell
// what a recipient would have got from what the sender believes. It speaks just enough SMTP
// (RFC 5321) for that, and no TLS.
package smtptest

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
)

// Behavior is what the server does with the next conversation.
type Behavior struct {
	// Refuse answers the command that begins with its verb ("MAIL", "RCPT", "DATA", or "."
	// for the end of the mail) with this line, like "550 5.1.1 no such user".
	Refuse map[string]string

	// Drop cuts the connection instead of answering this verb. With "." the mail has been
	// taken: it is counted, and the sender never learns it.
	Drop string

	// Hang keeps the answer to this verb back until the server is closed. With "." the mail
	// has been taken.
	Hang string
}

// Server is a running server.
type Server struct {
	listener net.Listener
	closed   chan struct{}
	serving  sync.WaitGroup

	mu    sync.Mutex
	next  []Behavior
	mails []Mail
}

// Mail is a mail that the server took.
type Mail struct {
	From string
	To   []string
	Data string // the mail as it was sent, lines ended by \n
}

// New starts a server on a free port of this machine, closed when the test ends.
func New(tb testing.TB) *Server {
	tb.Helper()
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatalf("listening: %v", err)
	}
	s := &Server{listener: listener, closed: make(chan struct{})}
	s.serving.Go(s.accept)
	tb.Cleanup(func() {
		close(s.closed)
		_ = listener.Close()
		s.serving.Wait()
	})
	return s
}

// URL is the server's address in the form of SMTP_URL.
func (s *Server) URL() string { return "smtp://" + s.listener.Addr().String() }

// Script sets what the next conversations meet, one after the other; after them the server
// is friendly again.
func (s *Server) Script(next ...Behavior) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next = append(s.next, next...)
}

// Mails are the mails taken so far.
func (s *Server) Mails() []Mail {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Mail(nil), s.mails...)
}

func (s *Server) accept() {
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			return
		}
		s.serving.Go(func() {
			finished := make(chan struct{})
			go func() {
				select {
				case <-s.closed:
				case <-finished:
				}
				_ = conn.Close()
			}()
			defer close(finished)
			s.talk(conn, s.behavior())
		})
	}
}

func (s *Server) behavior() Behavior {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.next) == 0 {
		return Behavior{}
	}
	b := s.next[0]
	s.next = s.next[1:]
	return b
}

// talk is one conversation.
func (s *Server) talk(conn net.Conn, b Behavior) {
	lines := bufio.NewReader(conn)
	say := func(line string) { _, _ = fmt.Fprintf(conn, "%s\r\n", line) }
	say("220 smtptest")
	var mail Mail
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return
		}
		line = strings.TrimRight(line, "\r\n")
		verb := strings.ToUpper(strings.SplitN(line, " ", 2)[0])
		answer, known := map[string]string{
			"EHLO": "250 smtptest", "HELO": "250 smtptest", "MAIL": "250 ok", "RCPT": "250 ok",
			"DATA": "354 go on", "RSET": "250 ok", "NOOP": "250 ok", "QUIT": "221 bye",
		}[verb]
		if !known {
			answer = "500 unknown"
		}
		if s.interrupted(verb, b, say) {
			if b.Refuse[verb] != "" {
				continue
			}
			return
		}
		switch verb {
		case "MAIL":
			mail = Mail{From: line}
		case "RCPT":
			mail.To = append(mail.To, line)
		case "QUIT":
			say(answer)
			return
		case "DATA":
			say(answer)
			if mail.Data, err = readData(lines); err != nil {
				return
			}
			if b.Refuse["."] == "" {
				s.take(mail)
			}
			if s.interrupted(".", b, say) {
				if b.Refuse["."] != "" {
					continue
				}
				return
			}
			answer = "250 taken"
		}
		say(answer)
	}
}

// interrupted does what the behavior has for the verb; it reports whether the usual answer
// is off.
func (s *Server) interrupted(verb string, b Behavior, say func(string)) bool {
	switch {
	case b.Refuse[verb] != "":
		say(b.Refuse[verb])
		return true
	case b.Drop == verb:
		return true
	case b.Hang == verb:
		<-s.closed
		return true
	}
	return false
}

func (s *Server) take(m Mail) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mails = append(s.mails, m)
}

// readData reads up to the line with a single dot, and takes the stuffing off.
func readData(lines *bufio.Reader) (string, error) {
	var data strings.Builder
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return "", err
		}
		line = strings.TrimRight(line, "\r\n")
		if line == "." {
			return data.String(), nil
		}
		data.WriteString(strings.TrimPrefix(line, "."))
		data.WriteByte('\n')
	}
}
