package fulfillment_test

import (
	"testing"

	"paidonce/fulfillment"
)

// One command tries any number of dead letters again. A statement takes 65,535 parameters; what
// it is given here is more ids than that, of which one is a job's.
func TestRetryJobs_MoreThanAStatementHasParameters(t *testing.T) {
	t.Parallel()
	b := setup(t)
	dead := b.job(t, "read_payment", "discarded", map[string]any{})
	ids := []int64{dead}
	for len(ids) < 70_000 {
		ids = append(ids, dead+int64(len(ids)))
	}
	if err := fulfillment.MakeDue(b.db.Gorm.WithContext(t.Context()), ids, fulfillment.Retry{}); err != nil {
		t.Fatalf("%.300s", err.Error())
	}
	if state := value[string](t, b, `SELECT state::text FROM river_job WHERE id = ?`, dead); state != "available" {
		t.Errorf("the job is %s", state)
	}
}
