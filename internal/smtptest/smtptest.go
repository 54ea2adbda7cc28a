// Package smtptest is a mail server for tests: it takes mails, and can fail at any point of the
// conversation.
//
// It owns nothing but its listener. It promises that a mail is counted exactly when the server
// has taken responsibility for it, at the last dot of DATA, so that a test can tell what a
// recipient would have got from what the sender believes. It speaks just enough SMTP (RFC 5321)
// for that, and no TLS.
package smtptest

import (
	"bufio"
	"net"
	"strings"
	"sync"
	"testing"
)

// Server is a small SMTP server without TLS, as a relay on localhost is. Its answer to
// each command can be replaced by another, by the end of the connection, or by silence.
type Server struct {
	Addr string // HOST:PORT

	answer map[string]string // by command; "." is the end of DATA, "" (the greeting) the start
	closed chan struct{}

	mu       sync.Mutex
	mails    []string // what was taken, as it came
	rcpts    []string
	commands []string
}

// What New takes instead of an answer.
const (
	Drop        = "drop"          // cut the connection
	TakeAndDrop = "take and drop" // at ".": take the mail, and cut the connection before that is said
	Silent      = "silent"        // never answer, until the test ends
)

// New starts a server on a free port of this machine; it is closed when the test ends. answer
// replaces the usual answer to a command: "" is the greeting, and "." the end of DATA, at which
// a mail has been taken unless the answer refuses it.
func New(tb testing.TB, answer map[string]string) *Server {
	tb.Helper()
	listener, err := (&net.ListenConfig{}).Listen(tb.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	s := &Server{Addr: listener.Addr().String(), answer: answer, closed: make(chan struct{})}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { defer conn.Close(); s.serve(conn) })
		}
	})
	tb.Cleanup(func() { close(s.closed); listener.Close(); serving.Wait() })
	return s
}

// URL is the server's address in the form of SMTP_URL.
func (s *Server) URL() string { return "smtp://" + s.Addr }

func (s *Server) serve(conn net.Conn) {
	// say answers, unless it was told to do otherwise; then the conversation is over.
	say := func(command, usual string) bool {
		s.mu.Lock()
		s.commands = append(s.commands, command)
		s.mu.Unlock()
		switch answer, other := s.answer[command]; {
		case !other:
			_, err := conn.Write([]byte(usual + "\r\n"))
			return err == nil
		case answer == Drop, answer == TakeAndDrop:
			return false
		case answer == Silent:
			<-s.closed
			return false
		default:
			_, err := conn.Write([]byte(answer + "\r\n"))
			return err == nil
		}
	}
	go func() { <-s.closed; conn.Close() }()
	if !say("", "220 localhost") {
		return
	}
	in := bufio.NewReader(conn)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		command := strings.ToUpper(strings.Fields(line + " ?")[0])
		usual := "250 OK"
		switch command {
		case "EHLO":
			usual = "250-localhost\r\n250 8BITMIME"
		case "RCPT":
			s.mu.Lock()
			s.rcpts = append(s.rcpts, strings.TrimSpace(line))
			s.mu.Unlock()
		case "QUIT":
			say(command, "221 bye")
			return
		case "DATA":
			if !say(command, "354 go on") || s.answer[command] != "" {
				if s.answer[command] == Drop {
					return
				}
				continue
			}
			var mail strings.Builder
			for {
				line, err := in.ReadString('\n')
				if err != nil {
					return
				}
				if line == ".\r\n" {
					break
				}
				mail.WriteString(strings.TrimPrefix(line, "."))
			}
			if answer, other := s.answer["."]; !other || answer == TakeAndDrop || strings.HasPrefix(answer, "2") {
				s.mu.Lock()
				s.mails = append(s.mails, mail.String())
				s.mu.Unlock()
			}
			command = "."
		}
		if !say(command, usual) {
			return
		}
	}
}

// Mails are the mails that the server has taken, as they came.
func (s *Server) Mails() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.mails...)
}

// Recipients are the RCPT commands that the server has seen.
func (s *Server) Recipients() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.rcpts...)
}

// Commands are the commands that the server has seen, "" for the greeting and "." for the end
// of a mail.
func (s *Server) Commands() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.commands...)
}
