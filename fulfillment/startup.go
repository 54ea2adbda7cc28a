package fulfillment

import (
	"errors"
	"fmt"
	"time"

	"paidonce/internal/provider"
)

// CheckTimes tells whether the limits of the jobs and those of the calls that they perform
// fit into one another. A process with workers does not start if they do not: each fault is
// a way in which an effect would double, or be given up, and shows only when something else
// has gone wrong.
func (s *Service) CheckTimes() error {
	byKind := map[string]limits{}
	for _, kind := range kinds() {
		byKind[kind] = limitsOf(kind)
	}
	return checkTimes(s.Calls.Times(), byKind, rescueAfter)
}

// checkTimes names every fault at once.
func checkTimes(calls provider.Times, byKind map[string]limits, rescue time.Duration) error {
	var faults []error
	inOrder := func(kind, less string, a time.Duration, more string, b time.Duration, without string) {
		if a >= b {
			faults = append(faults, fmt.Errorf("%s: %s (%s) must be less than %s (%s): %s", kind, less, a, more, b, without))
		}
	}
	for _, kind := range kinds() {
		l, ok := byKind[kind]
		if !ok {
			continue
		}
		inOrder(kind, "its timeout and the soft stop", l.timeout+softStop, "the time after which a job is rescued", rescue,
			"two workers would be at one job")
		if !performsCalls(kind) {
			continue
		}
		inOrder(kind, "the time of a request", calls.Request, "the lease of a call", calls.Lease,
			"two requests of one call would be under way")
		inOrder(kind, "the lease of a call", calls.Lease, "its timeout", l.timeout,
			"a call would be free for others only after its job was taken for dead")
		inOrder(kind, "the time it is tried for", l.horizon()+time.Duration(l.attempts)*l.timeout, "the life of a key", calls.KeyLife,
			"its last attempts could only look, and not act")
	}
	if len(faults) > 0 {
		return fmt.Errorf("the limits of jobs and calls do not fit: %w", errors.Join(faults...))
	}
	return nil
}
