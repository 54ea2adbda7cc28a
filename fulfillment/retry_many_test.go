package fulfillment_test

import (
	"testing"

	"paidonce/fulfillment"
)

// Many dead letters are tried again by one command.
func TestRetryJobs_SeventyThousand(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.exec(t, `INSERT INTO river_job (state, args, kind, queue, max_attempts, attempt, finalized_at, priority)
SELECT 'discarded', jsonb_build_object('payment_id', gen_random_uuid()), 'read_payment', 'read_payment', 80, 80, now(), 1 FROM generate_series(1, 70000)`)
	got, err := b.service.RetryJobs(t.Context(), fulfillment.JobFilter{States: fulfillment.DeadStates()}, fulfillment.Retry{})
	if err != nil {
		e := err.Error()
		t.Errorf("%d %s", len(got), e[max(0, len(e)-300):])
	}
}
