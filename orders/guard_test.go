package orders

// Inside the package: the guarded UPDATE can only be shown by a caller that is wrong about
// the locked row, which no public method is. Postgres is real; the partners are absent,
// since nothing gets as far as them.

import (
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"
	"gorm.io/gorm"

	"paidonce/internal/database"
	"paidonce/internal/devpg/devpgtest"
)

// TestTake_TheGuardDecides: a step from a state in which the row is not, is not taken, and
// leaves no transition behind. The row decides, not what somebody has in memory.
func TestTake_TheGuardDecides(t *testing.T) {
	t.Parallel()
	db, err := database.Open(t.Context(), devpgtest.New(t), database.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	s := New(db.Gorm)
	now := time.Date(2025, 3, 1, 12, 0, 0, 0, time.UTC)
	row := Order{
		ID: uuid.Must(uuid.NewV7()), Email: "a@example.com", Currency: "usd", TotalMinor: 1999,
		State: Expired, Decision: NoDecision, CreatedAt: now, UpdatedAt: now,
	}
	if err := db.Gorm.Create(&row).Error; err != nil {
		t.Fatal(err)
	}

	for _, remembered := range []Order{
		{ID: row.ID, State: Pending},                    // the state has moved on
		{ID: uuid.Must(uuid.NewV7()), State: row.State}, // the row has vanished: none is made
	} {
		err := db.Gorm.Transaction(func(tx *gorm.DB) error {
			step := transition{Event: Pay, From: remembered.State, To: Paid}
			err := s.take(tx, &remembered, step, NoReason, Cause{Provider: "stripe", EventID: "evt_1"}, now)
			if !errors.Is(err, errMoved) {
				t.Errorf("from %s: got %v, want errMoved", remembered.State, err)
			}
			return nil // what was written, if anything, shall be seen
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	var orders, transitions int64
	db.Gorm.Model(&Order{}).Where("state = ? AND paid_at IS NULL", Expired).Count(&orders)
	db.Gorm.Model(&Transition{}).Count(&transitions)
	if orders != 1 || transitions != 0 {
		t.Errorf("%d orders as before and %d transitions, want 1 and 0", orders, transitions)
	}
}
