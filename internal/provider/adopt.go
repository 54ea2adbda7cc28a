package provider

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
)

// adopt settles a call whose key does not tell any more what the call did: it is older than
// the provider remembers, was used for other bytes, or brings back a 500 that was kept. What
// the call made is looked for, and settled as if it had been the answer.
//
// If there is nothing, the attempt ends as failed says: with the same key again later, while
// that may still act; else with an error that stops the job, so that a person looks. A fresh
// key would be an answer too: the one that charges twice what was only slow to appear.
func (c *Calls) adopt(ctx context.Context, call Call, failed outcome, settle Settle) error {
	found, err := c.look(ctx, call)
	var again *RetryError
	switch {
	case err != nil && !errors.Is(err, ErrRefused): // the way there, or our own database: look again
		return c.record(ctx, call, CallUnknown, fmt.Errorf("looking for what it did: %w", err))
	case found == nil && errors.As(failed.err, &again):
		return c.record(ctx, call, failed.state, failed.err)
	case err != nil:
		c.alert(ctx, call, "call stopped: what it did cannot be found", "error", err.Error())
		return c.record(ctx, call, CallUnknown, fmt.Errorf("%w, and looking for what it did: %w", failed.err, err))
	case found == nil:
		c.alert(ctx, call, "call stopped: its key tells nothing, and nothing it did was found", "error", failed.err.Error())
		return c.record(ctx, call, failed.state, failed.err)
	}

	// A process that dies here leaves the row as sending, and has changed nothing: whoever
	// takes over asks the key, and looks, again.
	c.crash("CW16")
	note := fmt.Sprintf("adopted %s, found at the provider: %v", found.ID, failed.err)
	if err := c.finish(ctx, call, *found, note, settle); err != nil {
		return c.record(ctx, call, CallUnknown, err)
	}
	c.log().InfoContext(ctx, "call adopted", "idempotency_key", call.IdempotencyKey, "result_id", found.ID, "reason", failed.err.Error())
	c.crash("CW11")
	return nil
}

// look finds what a call did; nil if there is no trace of it. It only reads, and outside of
// any transaction (I8).
func (c *Calls) look(ctx context.Context, call Call) (*Answer, error) {
	switch call.Operation {
	case OpCheckout:
		return c.lookForSession(ctx, call)
	case OpExpire:
		return c.lookWhetherExpired(ctx, call)
	case OpFulfill:
		return c.lookAtObject(ctx, call)
	case OpRefund:
		return c.lookForRefund(ctx, call)
	}
	return nil, fmt.Errorf("bug: nothing looks for what %q did", call.Operation)
}

// lookAtObject finds out whether an update was made: then the object carries the metadata
// that the call writes.
func (c *Calls) lookAtObject(ctx context.Context, call Call) (*Answer, error) {
	wanted, err := writtenMetadata(call.Params)
	if err != nil {
		return nil, err
	}
	object, err := c.Stripe.get(ctx, call.Path, nil)
	if err != nil {
		return nil, err // also if the object is not there: then nothing can be done to it
	}
	has, ok := metadataOf(object.LastResponse.RawJSON)
	if !ok {
		return nil, nil // no trace of it
	}
	for key, value := range wanted {
		if has[key] != value {
			return nil, nil // no trace of it
		}
	}
	return &Answer{ID: object.ID, Body: object.LastResponse.RawJSON}, nil
}

// alert logs what a person has to look at. docs/operations.md says what each one means.
func (c *Calls) alert(ctx context.Context, call Call, message string, args ...any) {
	args = append([]any{"alert", true, "idempotency_key", call.IdempotencyKey, "subject_id", call.SubjectID}, args...)
	c.log().ErrorContext(ctx, message, args...)
}

func (c *Calls) log() *slog.Logger {
	if c.Log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return c.Log
}
