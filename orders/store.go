package orders

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"gorm.io/gorm"

	"paidonce/internal/database"
	"paidonce/internal/provider"
)

// Move is an order's change of state, told to the Follower once per transaction, however
// many steps it took.
type Move struct {
	OrderID  uuid.UUID
	From, To State
	At       time.Time
}

// Follower does what follows from a move, in the same transaction: the states of licenses,
// and jobs for what comes next.
type Follower interface {
	OrderMoved(ctx context.Context, tx *gorm.DB, m Move) error

	// MoneyReturned tells, after the order has moved, what a read found out about refunds
	// and disputes that was not known before.
	MoneyReturned(ctx context.Context, tx *gorm.DB, order Order, at time.Time, news []ReturnNews) error
}

// Reader asks, in the transaction, for a read of a payment's present state at the provider.
type Reader interface {
	WantRead(ctx context.Context, tx *gorm.DB, paymentID uuid.UUID) error
}

// Releaser brings back deliveries that wait for a resource, in the transaction that
// learned it.
type Releaser interface {
	Release(ctx context.Context, tx *gorm.DB, provider string, ids []string) error
}

// Store keeps orders and their payments.
type Store struct {
	DB       *gorm.DB
	Follower Follower
	Reader   Reader
	Releaser Releaser
	Calls    *provider.Calls

	Now   func() time.Time // UTC, cut to the microsecond that Postgres keeps
	NewID func() uuid.UUID
}

// New returns a store whose clock and ids are real. Its partners are the caller's to set.
func New(db *gorm.DB) *Store {
	return &Store{
		DB:    db,
		Now:   database.Now,
		NewID: func() uuid.UUID { return uuid.Must(uuid.NewV7()) },
	}
}

// Resource is an id of a provider.
type Resource struct{ Provider, ID string }

// LockAll locks the orders that the resources lead to, and the hinted ones, in the order of
// their ids. A transaction that is about to apply several facts calls it first: with one order
// of locking for everybody, two of them cannot wait for each other. The hints are of facts
// whose resource may only be learned while this is going on.
func (s *Store) LockAll(ctx context.Context, tx *gorm.DB, resources []Resource, hinted []uuid.UUID) error {
	if len(resources) == 0 {
		return nil // a fact without a resource is not applied to anything
	}
	pairs := make([][]any, len(resources))
	for i, r := range resources {
		pairs[i] = []any{r.Provider, r.ID}
	}
	const lock = `
SELECT id FROM orders WHERE id IN (
    SELECT p.order_id FROM payment_resources r JOIN payments p ON p.id = r.payment_id
    WHERE (r.provider, r.resource_id) IN @resources
    UNION SELECT o.id FROM orders o WHERE o.id IN @hinted)
ORDER BY id
FOR UPDATE`
	if err := tx.WithContext(ctx).Exec(lock, map[string]any{"resources": pairs, "hinted": hinted}).Error; err != nil {
		return fmt.Errorf("locking orders: %w", err)
	}
	return nil
}
