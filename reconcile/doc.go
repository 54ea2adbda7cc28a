// Package reconcile compares what the provider has with what we have, has what was missed
// come in by the ordinary door, and says what is still wrong.
//
// It owns reconcile_runs and reconcile_findings. It promises:
//
//   - whatever is paid at the provider and not fulfilled here is found, whether or not an
//     event about it was ever made (I9): events that are listed and missing here are recorded,
//     and the objects themselves are compared;
//   - it heals by Inbox.Record, the drainer, reads of a payment and the performing of calls
//     that were written down: the doors that everything else goes through. So a webhook that
//     comes late, or at the same moment, is a repeat, and nothing happens twice;
//   - a run that is killed goes on where it was; a page that failed is not passed over; one
//     run is at work in each world (provider, mode, account) at a time, and worlds never mix;
//   - memory does not grow with the window: one page is held, and one second's ids;
//   - a dry run changes nothing at all.
//
// It will not decide about money. What reading the provider again does not settle (paid here
// and not there, another amount) is a finding, and a person's.
//
// Read [Runner.Run], then stages.go, which has what is done in which order; kinds.go has
// every finding with what it means. docs/reconcile.md is the same for an operator.
package reconcile
