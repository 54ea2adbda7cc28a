package fulfillment

import (
	"errors"
	"fmt"
	"time"
)

// Resend is what follows when nobody knows whether a mail went out.
type Resend string

// The policies.
const (
	ResendOnce  Resend = "once"  // it is sent at most one further time, after a pause
	ResendNever Resend = "never" // it waits for a person
)

// ResendPause is how long a mail of unknown outcome waits before it is sent once more: longer
// than the ten minutes that a mail server may take to answer the end of DATA (RFC 5321, section
// 4.5.3.2.6), so that a copy that is only slow is out of the server before the next goes in.
const ResendPause = 15 * time.Minute

// Keyed is a mailer whose service sends nothing twice under one key, for as long as it
// remembers the key. To it, a lost answer is not lost: it is asked again.
type Keyed interface {
	Mailer

	// Keys names the service that knows the keys, and tells for how long it surely does.
	Keys() (service string, life time.Duration)
}

// ErrKeyUsed is wrapped by the error of a keyed mailer whose service knows the key, with
// another mail.
var ErrKeyUsed = errors.New("another mail was sent under this key")

// errUnsettled is returned for a mail whose answer was lost, and which its key can settle.
var errUnsettled = errors.New("the answer was lost; the mail's key settles what became of it")

// keys are those of the present mailer; "" if it has none.
func (s *Service) keys() (service string, life time.Duration) {
	if keyed, ok := s.Mailer.(Keyed); ok {
		return keyed.Keys()
	}
	return "", 0
}

// settles reports whether sending the mail again under its key cannot double it: the service
// was given the key, and still knows it.
func (s *Service) settles(row sentReceipt) bool {
	service, life := s.keys()
	return service != "" && row.KeyService != nil && *row.KeyService == service && row.Now.Before(row.KeyUsedAt.Add(life))
}

// action is what is to be done with a mail.
type action struct {
	send     bool
	unknowns int
	resendAt *time.Time // not now; nil, without send: not by this job
}

// whatToDo says what is to be done with a mail that is found as it is.
func (s *Service) whatToDo(row sentReceipt) (action, error) {
	switch row.State {
	case ReceiptIntended:
		return action{send: true, unknowns: row.Unknowns}, nil
	case ReceiptSending:
		if row.Now.Before(*row.SendingUntil) {
			return action{}, errMailLater{until: *row.SendingUntil, why: "the mail is being sent by another process"}
		}
		// Its sender is gone, and may have sent it.
		return s.afterUnknown(row), nil
	case ReceiptUnknown:
		due := row.ResendAt != nil && !row.Now.Before(*row.ResendAt)
		if !due {
			return action{unknowns: row.Unknowns, resendAt: row.ResendAt}, nil
		}
		// The policy may have changed meanwhile, and a key grown old.
		return action{send: s.settles(row) || s.onceMore(row.Unknowns), unknowns: row.Unknowns}, nil
	case ReceiptSent, ReceiptParked:
	}
	return action{unknowns: row.Unknowns}, nil
}

// onceMore is the policy for mails that no key settles: with one unknown outcome there may be
// one copy, and another is sent; with two there may be two, and nothing more is.
func (s *Service) onceMore(unknowns int) bool { return s.Resend != ResendNever && unknowns <= 1 }

// afterUnknown says what follows when a sending has ended, and nobody knows how.
func (s *Service) afterUnknown(row sentReceipt) action {
	unknowns := row.Unknowns + 1
	switch {
	case s.settles(row):
		return action{send: true, unknowns: unknowns}
	case s.onceMore(unknowns):
		at := row.Now.Add(ResendPause)
		return action{unknowns: unknowns, resendAt: &at}
	}
	return action{unknowns: unknowns}
}

// ending is how a sending ended.
type ending struct {
	state    ReceiptState
	unknowns int
	resendAt *time.Time
	next     error // what the job is told; nil: it is done
}

// ending says what a mailer's answer means. A mail goes back to intended only if it certainly
// did not go out, now or before; it is parked only if no copy of it can be out.
func (s *Service) ending(row sentReceipt, sendErr error) ending {
	end := ending{state: ReceiptUnknown, unknowns: row.Unknowns}
	var rejected *RejectedError
	switch {
	case sendErr == nil:
		end.state = ReceiptSent
	case errors.Is(sendErr, ErrKeyUsed):
		if row.Unknowns == 0 {
			end.state = ReceiptParked
		}
	case errors.As(sendErr, &rejected):
		// A service that knew the key would have told what it did under it.
		if row.Unknowns == 0 || s.settles(row) {
			end.state, end.unknowns = ReceiptParked, 0
		}
	case errors.Is(sendErr, ErrNotSent):
		end.next = sendErr
		if row.Unknowns == 0 || !s.settles(row) && !s.onceMore(row.Unknowns) {
			end.state = ReceiptIntended // with copies that may be out, only a person has it sent: that wish stands
		} else {
			end.resendAt = &row.Now // as soon as the job comes back
		}
	default:
		follows := s.afterUnknown(row)
		end.unknowns, end.resendAt = follows.unknowns, follows.resendAt
		switch {
		case follows.send:
			end.resendAt, end.next = &row.Now, fmt.Errorf("%w: %w", errUnsettled, sendErr)
		case follows.resendAt != nil:
			end.next = errMailLater{until: *follows.resendAt, why: "the mail may not have gone out, and is sent once more after a pause"}
		}
	}
	return end
}
