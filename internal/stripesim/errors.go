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
	// ErrBadPayment is returned by Pay for an amount, a currency, a method or a code that no payment can have.
	ErrBadPayment = errors.New("cannot be paid")
	// ErrNoAction is returned for a form of the pay page that cannot be read, or asks for what there is not.
	ErrNoAction = errors.New("no such action")
	// ErrNoPayment is returned for an id that is no charge, intent, refund or dispute of this Sim.
	ErrNoPayment = errors.New("no such payment")
	// ErrBadAmount is returned by Refund, OpenDispute and Capture for more than there is.
	ErrBadAmount = errors.New("not an amount that is there")
	// ErrNotPossible is returned for a change that the present status does not allow.
	ErrNotPossible = errors.New("not possible in this status")
	// ErrState is returned by Open for a state file that cannot be read.
	ErrState = errors.New("state file")
	// ErrListen is returned by Serve for an address that is taken, or is none.
	ErrListen = errors.New("cannot listen")
	// ErrNoEvent is returned by Deliver for an id that is no event of this Sim.
	ErrNoEvent = errors.New("no such event")
	// ErrClosed is returned by Idle when the Sim is closed before its deliveries ended.
	ErrClosed = errors.New("simulated Stripe is closed")
)
