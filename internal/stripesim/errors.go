package stripesim

import "errors"

// What an action can be refused for. They come wrapped with the id in question.
var (
	// ErrNoSession is returned by every action for an id that is no session of this Sim.
	ErrNoSession = errors.New("no such checkout session")
	// ErrNotOpen is returned by Pay, Decline and Expire for a session that is complete or expired.
	ErrNotOpen = errors.New("checkout session is not open")
	// ErrNotProcessing is returned by SettleDelayed for a session that has no payment in processing.
	ErrNotProcessing = errors.New("checkout session has no payment in processing")
	// ErrBadPayment is returned by Pay for an amount or currency that no payment can have.
	ErrBadPayment = errors.New("not a payable amount")
	// ErrNoEvent is returned by Deliver for an id that is no event of this Sim.
	ErrNoEvent = errors.New("no such event")
	// ErrClosed is returned by Idle when the Sim is closed before its deliveries ended.
	ErrClosed = errors.New("simulated Stripe is closed")
)
