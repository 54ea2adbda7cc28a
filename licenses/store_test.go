package licenses_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"paidonce/internal/devpg/devpgtest"
	"paidonce/licenses"
)

// Real: Postgres with the project's migrations, and every transaction. Made up: orders and
// their lines, which other packages own, are inserted as bare rows. A test may assert on what
// Issue, Follow and ForOrder answer and on the rows of licenses.
func TestMain(m *testing.M) { os.Exit(devpgtest.Run(m)) }

func TestIssue(t *testing.T) {
	t.Parallel()
	db := openDB(t)
	store := licenses.Store{Keys: ringOf(t, 1)}
	order := insertOrder(t, db, 2, 3)
	bystander := insertOrder(t, db, 1)

	got := issue(t, db, store, order, issuedAt)
	if len(got) != 5 {
		t.Fatalf("order %s: %d licenses, want 5", order.ID, len(got))
	}
	i := 0
	for _, line := range order.Lines {
		for ordinal := 1; ordinal <= line.Quantity; ordinal++ {
			license := got[i]
			i++
			want := licenses.License{
				ID: license.ID, OrderID: order.ID, OrderLineID: line.ID, Ordinal: ordinal, SKU: line.SKU,
				Key: license.Key, KeyID: generate(t, 1).ID(), Status: licenses.StatusActive, IssuedAt: issuedAt, UpdatedAt: issuedAt,
			}
			if diff := cmp.Diff(want, license); diff != "" {
				t.Errorf("license %d (-want +got):\n%s", i, diff)
			}
			if license.ID.Version() != 7 || license.IssuedAt.Location() != time.UTC || license.UpdatedAt.Location() != time.UTC {
				t.Errorf("license %d: id %s issued %s updated %s, want version 7 and UTC", i, license.ID, license.IssuedAt, license.UpdatedAt)
			}
			claims := licenses.Claims{OrderID: order.ID, LineID: line.ID, Ordinal: ordinal, SKU: line.SKU, KeyID: license.KeyID}
			if said, err := store.Keys.Verify(license.Key); err != nil || said != claims {
				t.Errorf("license %d says %+v, %v; want %+v", i, said, err, claims)
			}
		}
	}
	if got := forOrder(t, db, bystander.ID); len(got) != 0 {
		t.Errorf("another order has %d licenses", len(got))
	}
}

// TestIssueAgain: later runs, in the same transaction or another, answer the first run's rows
// and leave the transaction usable (an error swallowed in it would be 25P02 here).
func TestIssueAgain(t *testing.T) {
	t.Parallel()
	db := openDB(t)
	store := licenses.Store{Keys: ringOf(t, 1)}
	order := insertOrder(t, db, 3)

	want := issue(t, db, store, order, issuedAt)
	for _, again := range []time.Time{issuedAt.Add(time.Hour), issuedAt.Add(2 * time.Hour)} {
		err := db.Transaction(func(tx *gorm.DB) error {
			for range 2 {
				got, err := store.Issue(t.Context(), tx, order, again)
				if err != nil {
					return err
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("issued again (-first +again):\n%s", diff)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(want, forOrder(t, db, order.ID)); diff != "" {
		t.Errorf("stored in the end (-first +stored):\n%s", diff)
	}
}

// TestIssueAtOnce (I6): eight transactions issue one order at the same moment, half of them with
// its lines in reverse. All get the same licenses, and none falls to a deadlock.
func TestIssueAtOnce(t *testing.T) {
	t.Parallel()
	db := openDB(t)
	store := licenses.Store{Keys: ringOf(t, 1)}
	order := insertOrder(t, db, 40, 1, 40, 40)
	reversed := licenses.Order{ID: order.ID, Lines: slices.Clone(order.Lines)}
	slices.Reverse(reversed.Lines)

	const callers = 8
	type result struct {
		licenses []licenses.License
		err      error
	}
	start, results := make(chan struct{}), make(chan result, callers)
	for i := range callers {
		mine := order
		if i%2 == 1 {
			mine = reversed
		}
		tx := db.Begin()
		if tx.Error != nil {
			t.Fatal(tx.Error)
		}
		go func() {
			<-start
			got, err := store.Issue(t.Context(), tx, mine, issuedAt)
			if err != nil {
				tx.Rollback()
			} else {
				err = tx.Commit().Error
			}
			results <- result{got, err}
		}()
	}
	close(start)

	var all []result
	for range callers {
		all = append(all, <-results)
	}
	stored := forOrder(t, db, order.ID)
	if len(stored) != 121 {
		t.Errorf("order %s: %d licenses, want 121", order.ID, len(stored))
	}
	for i, r := range all {
		if diff := cmp.Diff(stored, r.licenses); r.err != nil || diff != "" {
			t.Errorf("caller %d: %v (-stored +got):\n%s", i, r.err, diff)
		}
	}
}

// TestIssueCompletes: what an earlier run left behind stays, what is missing is added.
func TestIssueCompletes(t *testing.T) {
	t.Parallel()
	db := openDB(t)
	store := licenses.Store{Keys: ringOf(t, 1)}
	order := insertOrder(t, db, 5)
	part := licenses.Order{ID: order.ID, Lines: []licenses.Line{{ID: order.Lines[0].ID, SKU: order.Lines[0].SKU, Quantity: 2}}}

	first := issue(t, db, store, part, issuedAt)
	all := issue(t, db, store, order, issuedAt.Add(time.Hour))
	if len(first) != 2 || len(all) != 5 {
		t.Fatalf("%d licenses, then %d; want 2, then 5", len(first), len(all))
	}
	if diff := cmp.Diff(first, all[:2]); diff != "" {
		t.Errorf("the first two changed (-before +after):\n%s", diff)
	}
}

// TestIssueAfterRotation: a new signing key re-derives other keys, and the stored ones win.
func TestIssueAfterRotation(t *testing.T) {
	t.Parallel()
	db := openDB(t)
	order := insertOrder(t, db, 2)
	before, after := licenses.Store{Keys: ringOf(t, 1)}, licenses.Store{Keys: ringOf(t, 2, 1)}

	want := issue(t, db, before, order, issuedAt)
	if diff := cmp.Diff(want, issue(t, db, after, order, issuedAt.Add(time.Hour))); diff != "" {
		t.Errorf("after rotation (-before +after):\n%s", diff)
	}

	later := issue(t, db, after, insertOrder(t, db, 1), issuedAt)
	if later[0].KeyID == want[0].KeyID {
		t.Errorf("the new order was signed by the old key %s", later[0].KeyID)
	}
	for _, license := range append(want, later...) {
		claims, err := after.Keys.Verify(license.Key)
		if err != nil || claims.KeyID != license.KeyID || claims.Ordinal != license.Ordinal {
			t.Errorf("license signed by %s: %+v, %v", license.KeyID, claims, err)
		}
	}
}

// TestIssueKeepsStatus: issuing again does not bring a revoked license back; Follow does.
func TestIssueKeepsStatus(t *testing.T) {
	t.Parallel()
	db := openDB(t)
	store := licenses.Store{Keys: ringOf(t, 1)}
	order := insertOrder(t, db, 1)

	issue(t, db, store, order, issuedAt)
	if changed, err := store.Follow(t.Context(), db, order.ID, licenses.StatusRevoked, issuedAt); changed != 1 || err != nil {
		t.Fatalf("revoked %d, %v", changed, err)
	}
	if got := issue(t, db, store, order, issuedAt); got[0].Status != licenses.StatusRevoked {
		t.Errorf("issued again, the license is %s, want revoked", got[0].Status)
	}
}

// TestIssueBelongsToTheCaller: what the caller rolls back was never issued.
func TestIssueBelongsToTheCaller(t *testing.T) {
	t.Parallel()
	db := openDB(t)
	store := licenses.Store{Keys: ringOf(t, 1)}
	order := insertOrder(t, db, 2)

	regret := errors.New("regret")
	err := db.Transaction(func(tx *gorm.DB) error {
		if got, err := store.Issue(t.Context(), tx, order, issuedAt); err != nil || len(got) != 2 {
			return fmt.Errorf("%d licenses, %w", len(got), err)
		}
		return regret
	})
	if !errors.Is(err, regret) {
		t.Fatal(err)
	}
	if got := forOrder(t, db, order.ID); len(got) != 0 {
		t.Errorf("%d licenses survived the rollback", len(got))
	}
}

// TestIssueThousands: ten columns of 7000 rows are more than the 65535 parameters a statement
// may have.
func TestIssueThousands(t *testing.T) {
	t.Parallel()
	db := openDB(t)
	store := licenses.Store{Keys: ringOf(t, 1)}
	order := insertOrder(t, db, 1000, 6000)
	if got := issue(t, db, store, order, issuedAt); len(got) != 7000 {
		t.Errorf("%d licenses, want 7000", len(got))
	}
}

func TestIssueRefuses(t *testing.T) {
	t.Parallel()
	db := openDB(t)
	store := licenses.Store{Keys: ringOf(t, 1)}
	order, other := insertOrder(t, db, 1), insertOrder(t, db, 1)
	issue(t, db, store, other, issuedAt)

	if got, err := store.Issue(t.Context(), db, licenses.Order{ID: order.ID}, issuedAt); err != nil || len(got) != 0 {
		t.Errorf("no lines: %d licenses, %v; want none", len(got), err)
	}
	if _, err := (licenses.Store{}).Issue(t.Context(), db, order, issuedAt); !errors.Is(err, licenses.ErrNoSigningKey) {
		t.Errorf("no key: %v, want ErrNoSigningKey", err)
	}
	nameless := licenses.Order{ID: order.ID, Lines: []licenses.Line{{ID: order.Lines[0].ID, Quantity: 1}}}
	if _, err := store.Issue(t.Context(), db, nameless, issuedAt); !errors.Is(err, licenses.ErrBadClaims) {
		t.Errorf("no sku: %v, want ErrBadClaims", err)
	}
	stolen := licenses.Order{ID: order.ID, Lines: other.Lines}
	if _, err := store.Issue(t.Context(), db, stolen, issuedAt); !errors.Is(err, licenses.ErrNotIssued) {
		t.Errorf("lines of another order: %v, want ErrNotIssued", err)
	}
	if got := forOrder(t, db, order.ID); len(got) != 0 {
		t.Errorf("%d licenses stored by refusals", len(got))
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := store.Issue(canceled, db, order, issuedAt); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v, want context.Canceled", err)
	}
}

// TestOneLicensePerOrdinal (I6): the table itself refuses a second license, by whatever way it
// comes.
func TestOneLicensePerOrdinal(t *testing.T) {
	t.Parallel()
	db := openDB(t)
	order := insertOrder(t, db, 1)
	issue(t, db, licenses.Store{Keys: ringOf(t, 1)}, order, issuedAt)

	err := db.Exec(`INSERT INTO licenses SELECT ?, order_id, order_line_id, ordinal, sku, 'key/another', key_id, status, issued_at, updated_at
		FROM licenses WHERE order_id = ?`, uuid.New(), order.ID).Error
	var refused *pgconn.PgError
	if !errors.As(err, &refused) || refused.ConstraintName != "licenses_line_ordinal_key" {
		t.Errorf("a second license for one ordinal: %v, want licenses_line_ordinal_key", err)
	}
}

// TestFollow walks from every status to every status.
func TestFollow(t *testing.T) {
	t.Parallel()
	db := openDB(t)
	store := licenses.Store{Keys: ringOf(t, 1)}
	statuses := []licenses.Status{licenses.StatusActive, licenses.StatusSuspended, licenses.StatusRevoked}
	bystander := issue(t, db, store, insertOrder(t, db, 1), issuedAt)

	for _, from := range statuses {
		for _, to := range statuses {
			order := insertOrder(t, db, 2, 1)
			issue(t, db, store, order, issuedAt)
			follow(t, db, store, order.ID, from, issuedAt.Add(time.Hour))
			before := forOrder(t, db, order.ID)

			want, wantAt := int64(3), issuedAt.Add(2*time.Hour)
			if from == to {
				want, wantAt = 0, before[0].UpdatedAt
			}
			if got := follow(t, db, store, order.ID, to, issuedAt.Add(2*time.Hour)); got != want {
				t.Errorf("%s to %s changed %d, want %d", from, to, got, want)
			}
			if got := follow(t, db, store, order.ID, to, issuedAt.Add(3*time.Hour)); got != 0 {
				t.Errorf("%s to %s again changed %d, want 0", from, to, got)
			}
			for i, license := range forOrder(t, db, order.ID) {
				wantLicense := before[i]
				wantLicense.Status, wantLicense.UpdatedAt = to, wantAt
				if diff := cmp.Diff(wantLicense, license); diff != "" {
					t.Errorf("%s to %s (-want +got):\n%s", from, to, diff)
				}
			}
		}
	}
	if diff := cmp.Diff(bystander, forOrder(t, db, bystander[0].OrderID)); diff != "" {
		t.Errorf("another order's license changed (-before +after):\n%s", diff)
	}
}

// TestFollowPart: licenses that have the status already are neither touched nor counted.
func TestFollowPart(t *testing.T) {
	t.Parallel()
	db := openDB(t)
	store := licenses.Store{Keys: ringOf(t, 1)}
	issued := issue(t, db, store, insertOrder(t, db, 3), issuedAt)
	if err := db.Exec("UPDATE licenses SET status = 'revoked' WHERE id = ?", issued[1].ID).Error; err != nil {
		t.Fatal(err)
	}

	if got := follow(t, db, store, issued[0].OrderID, licenses.StatusRevoked, issuedAt.Add(time.Hour)); got != 2 {
		t.Errorf("changed %d, want 2", got)
	}
	for i, want := range []time.Time{issuedAt.Add(time.Hour), issuedAt, issuedAt.Add(time.Hour)} {
		got := forOrder(t, db, issued[0].OrderID)[i]
		if got.Status != licenses.StatusRevoked || !got.UpdatedAt.Equal(want) || !got.IssuedAt.Equal(issuedAt) {
			t.Errorf("license %d: %s at %s, want revoked at %s", i+1, got.Status, got.UpdatedAt, want)
		}
	}
}

func TestFollowRefuses(t *testing.T) {
	t.Parallel()
	db := openDB(t)
	store := licenses.Store{}
	order := insertOrder(t, db, 1)
	if got := follow(t, db, store, order.ID, licenses.StatusRevoked, issuedAt); got != 0 {
		t.Errorf("an order without licenses: changed %d, want 0", got)
	}

	// The refusal comes before the table's check, so the transaction lives on.
	err := db.Transaction(func(tx *gorm.DB) error {
		if _, err := store.Follow(t.Context(), tx, order.ID, "lost", issuedAt); !errors.Is(err, licenses.ErrUnknownStatus) {
			t.Errorf("status lost: %v, want ErrUnknownStatus", err)
		}
		return tx.Exec("SELECT 1").Error
	})
	if err != nil {
		t.Errorf("the transaction died: %v", err)
	}
}

// issuedAt is the time of the first transaction in every test.
var issuedAt = time.Date(2026, 3, 4, 5, 6, 7, 890123000, time.UTC) //nolint:gochecknoglobals // a constant, if times could be

func openDB(t *testing.T) *gorm.DB {
	t.Helper()
	db, err := gorm.Open(postgres.Open(devpgtest.New(t)), &gorm.Config{SkipDefaultTransaction: true, Logger: logger.Discard})
	if err != nil {
		t.Fatal(err)
	}
	pool, err := db.DB()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pool.Close() })
	return db
}

// insertOrder writes an order with one line per quantity, as bare rows.
func insertOrder(t *testing.T, db *gorm.DB, quantities ...int) licenses.Order {
	t.Helper()
	order := licenses.Order{ID: newID(t)}
	err := db.Exec(`INSERT INTO orders (id, email, locale, currency, total_minor, state, created_at, updated_at, paid_at)
		VALUES (?, 'a@example.com', 'en', 'usd', 0, 'paid', ?, ?, ?)`, order.ID, issuedAt, issuedAt, issuedAt).Error
	if err != nil {
		t.Fatal(err)
	}
	for i, quantity := range quantities {
		line := licenses.Line{ID: newID(t), SKU: fmt.Sprintf("KEY-%d", i+1), Quantity: quantity}
		err := db.Exec(`INSERT INTO order_lines (id, order_id, position, sku, name, quantity, unit_minor)
			VALUES (?, ?, ?, ?, ?, ?, 0)`, line.ID, order.ID, i+1, line.SKU, strings.ToLower(line.SKU), quantity).Error
		if err != nil {
			t.Fatal(err)
		}
		order.Lines = append(order.Lines, line)
	}
	return order
}

func newID(t *testing.T) uuid.UUID {
	t.Helper()
	id, err := uuid.NewV7()
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func issue(t *testing.T, db *gorm.DB, store licenses.Store, order licenses.Order, now time.Time) []licenses.License {
	t.Helper()
	var issued []licenses.License
	err := db.Transaction(func(tx *gorm.DB) (err error) {
		issued, err = store.Issue(t.Context(), tx, order, now)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return issued
}

func follow(t *testing.T, db *gorm.DB, store licenses.Store, orderID uuid.UUID, to licenses.Status, now time.Time) int64 {
	t.Helper()
	var changed int64
	err := db.Transaction(func(tx *gorm.DB) (err error) {
		changed, err = store.Follow(t.Context(), tx, orderID, to, now)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return changed
}

func forOrder(t *testing.T, db *gorm.DB, orderID uuid.UUID) []licenses.License {
	t.Helper()
	found, err := licenses.Store{}.ForOrder(t.Context(), db, orderID)
	if err != nil {
		t.Fatal(err)
	}
	return found
}
