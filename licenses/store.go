package licenses

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"gorm.io/gorm"
)

// Store issues licenses into the licenses table. Its methods work in the caller's
// transaction and neither begin nor commit one. now is the transaction's one time: UTC,
// whole microseconds.
type Store struct {
	Keys  Keyring
	NewID func() uuid.UUID // nil: a new version 7 id, so that rows lie in the index as they came
}

// Issue makes one license per (line, ordinal) of the order, unless it is there already, and
// answers all of the order's licenses as they are stored, ordered by line id and ordinal.
// What is there stays untouched: its key, though the ring may sign with another one by now,
// and its status. Any number of callers may issue the same order at once.
func (s Store) Issue(ctx context.Context, tx *gorm.DB, o Order, now time.Time) ([]License, error) {
	rows, err := s.derive(o)
	if err != nil {
		return nil, fmt.Errorf("issuing licenses of order %s: %w", o.ID, err)
	}

	// Invariant I6: one license per (line, ordinal) (licenses_line_ordinal_key).
	// Without it: two runs of the same job, or one run after a crash, double the licenses.
	// The conflict is never an error here, since an error would abort the caller's transaction.
	// All callers insert in one order, so two of them wait for each other but never in a ring.
	insert := tx.WithContext(ctx).Exec(`
		INSERT INTO licenses (id, order_id, order_line_id, ordinal, sku, key, key_id, status, issued_at, updated_at)
		SELECT id, ?, order_line_id, ordinal, sku, key, key_id, ?, ?, ?
		FROM unnest(?::uuid[], ?::uuid[], ?::integer[], ?::text[], ?::text[], ?::text[])
			AS new (id, order_line_id, ordinal, sku, key, key_id)
		ORDER BY order_line_id, ordinal
		ON CONFLICT (order_line_id, ordinal) DO NOTHING`,
		o.ID, StatusActive, now, now,
		&rows.ids, &rows.lineIDs, &rows.ordinals, &rows.skus, &rows.keys, &rows.keyIDs)
	if insert.Error != nil {
		return nil, fmt.Errorf("issuing licenses of order %s: %w", o.ID, insert.Error)
	}

	// Read back rather than answer what was derived: the stored row is the license.
	stored, err := s.ForOrder(ctx, tx, o.ID)
	if err != nil {
		return nil, fmt.Errorf("issuing licenses of order %s: %w", o.ID, err)
	}
	if len(stored) < len(rows.ids) {
		return nil, fmt.Errorf("issuing licenses of order %s: %w: %d bought, %d stored", o.ID, ErrNotIssued, len(rows.ids), len(stored))
	}
	return stored, nil
}

// Follow gives the order's licenses the status that the order's state asks for and answers
// how many it changed. Those that have it already are not touched, so a second call changes
// nothing. An order without licenses has none to change.
func (s Store) Follow(ctx context.Context, tx *gorm.DB, orderID uuid.UUID, to Status, now time.Time) (changed int64, err error) {
	if !to.known() {
		return 0, fmt.Errorf("licenses of order %s: %w: %.40q", orderID, ErrUnknownStatus, string(to))
	}
	update := tx.WithContext(ctx).Exec(
		`UPDATE licenses SET status = ?, updated_at = ? WHERE order_id = ? AND status <> ?`,
		to, now, orderID, to)
	if update.Error != nil {
		return 0, fmt.Errorf("licenses of order %s to %s: %w", orderID, to, update.Error)
	}
	return update.RowsAffected, nil
}

// ForOrder answers the licenses of an order, ordered by line id and ordinal. None is no error.
func (s Store) ForOrder(ctx context.Context, db *gorm.DB, orderID uuid.UUID) ([]License, error) {
	var found []License
	err := db.WithContext(ctx).Where("order_id = ?", orderID).Order("order_line_id, ordinal").Find(&found).Error
	if err != nil {
		return nil, fmt.Errorf("licenses of order %s: %w", orderID, err)
	}
	// The driver answers times in the machine's zone.
	for i := range found {
		found[i].IssuedAt, found[i].UpdatedAt = found[i].IssuedAt.UTC(), found[i].UpdatedAt.UTC()
	}
	return found, nil
}

// columns are new licenses as one array per column. The statement thus has the same text and
// ten parameters for one license and for thousands (Postgres takes 65535 at most), and is
// planned once. gorm spreads a slice over many parameters, but passes on a pointer to one.
type columns struct {
	ids, lineIDs       []uuid.UUID
	ordinals           []int
	skus, keys, keyIDs []string
}

// derive signs the licenses that the order should have.
func (s Store) derive(o Order) (columns, error) {
	newID := s.NewID
	if newID == nil {
		newID = func() uuid.UUID { return uuid.Must(uuid.NewV7()) }
	}

	var c columns
	for _, line := range o.Lines {
		for ordinal := 1; ordinal <= line.Quantity; ordinal++ {
			key, keyID, err := s.Keys.Sign(Claims{OrderID: o.ID, LineID: line.ID, Ordinal: ordinal, SKU: line.SKU})
			if err != nil {
				return columns{}, fmt.Errorf("line %s: %w", line.ID, err)
			}
			c.ids = append(c.ids, newID())
			c.lineIDs = append(c.lineIDs, line.ID)
			c.ordinals = append(c.ordinals, ordinal)
			c.skus = append(c.skus, line.SKU)
			c.keys = append(c.keys, key)
			c.keyIDs = append(c.keyIDs, string(keyID))
		}
	}
	return c, nil
}
