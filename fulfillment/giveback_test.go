package fulfillment_test

import (
	"context"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"paidonce/internal/database"
	"paidonce/internal/stripesim"
	"paidonce/orders"
)

// B40: a deadlock, a serialization failure or a lock that was not to be had, at whatever
// statement, says nothing about the row: its attempt is given back, nothing is half applied,
// and it is done a moment later.
func TestB40GivenBackOnLockFailures(t *testing.T) {
	t.Parallel()
	b := setup(t)
	// Sequences survive a rollback: they count how often it was raised.
	b.exec(t, `CREATE SEQUENCE raised MINVALUE 0`)
	for _, sqlstate := range []string{"40P01", "40001", "55P03"} {
		for _, at := range []struct{ action, table, when string }{
			{"UPDATE", "payments", "true"},
			{"INSERT", "payment_resources", "true"},
			{"UPDATE", "orders", "true"},
			{"INSERT", "order_transitions", "true"},
			{"INSERT", "river_job", "true"},
			{"UPDATE", "webhook_deliveries", "NEW.processed_at IS NOT NULL"},
		} {
			inTurn(t, sqlstate+" "+at.action+" "+at.table, func() {
				placed := b.placed(t, 1, 1, 1)
				ids := b.recordOne(t, placed)
				before := b.everything(t)
				b.exec(t, `ALTER SEQUENCE raised RESTART`)
				defer b.raising(t, at.action, at.table, at.when+" AND nextval('raised') < 2", sqlstate)()

				for range 2 {
					if _, err := b.drainer.Drain(t.Context()); err != nil {
						t.Fatal(err)
					}
					for _, id := range ids {
						if d := b.delivery(t, id); d.Attempts != 0 || d.Claim != nil || d.LastError != nil || d.ProcessedAt != nil || d.DueIn > 1 {
							t.Errorf("%s: %+v, want it given back and due at once", id, d)
						}
					}
					if after := b.everything(t); after != before {
						t.Errorf("half applied:\n%s\nwas\n%s", after, before)
					}
					b.forward(t)
				}
				b.drain(t)
				for i, o := range placed {
					b.wantState(t, o, orders.Paid)
					if d := b.delivery(t, ids[i]); d.Attempts != 1 {
						t.Errorf("%s: %d attempts, want 1", ids[i], d.Attempts)
					}
				}
			})
		}
	}
}

// A connection that is lost during the transaction gives the attempts back too.
func TestGivenBackOnALostConnection(t *testing.T) {
	t.Parallel()
	b := setup(t)
	placed := b.placed(t, 3, 1, 1)
	ids := b.recordOne(t, placed)
	admin, err := pgx.Connect(t.Context(), b.dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close(context.WithoutCancel(t.Context()))
	before := b.everything(t)

	b.drainer.Crash = func(window string) {
		if window != "CW4" {
			return
		}
		var killed int
		err := admin.QueryRow(t.Context(), `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
			WHERE datname = current_database() AND state = 'idle in transaction'`).Scan(&killed)
		if err != nil || killed != 1 {
			t.Errorf("killed %d sessions, %v; want 1", killed, err)
		}
	}
	if _, err := b.drainer.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		if d := b.delivery(t, id); d.Attempts != 0 || d.Claim != nil || d.ProcessedAt != nil {
			t.Errorf("%s: %+v, want it given back", id, d)
		}
	}
	if after := b.everything(t); after != before {
		t.Errorf("half applied:\n%s\nwas\n%s", after, before)
	}
	b.drainer.Crash = nil
	b.forward(t)
	b.drain(t)
	for _, o := range placed {
		b.wantState(t, o, orders.Paid)
	}
}

// A stop between the claim and the work gives the rows back; a stop during the work lets its
// transaction finish.
func TestAGracefulStop(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		window  string
		applied bool
	}{
		{"CW3", false},
		{"CW4", true},
	} {
		t.Run("at "+tt.window, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			placed := b.placed(t, 3, 1, 1)
			ids := b.recordOne(t, placed)
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			b.drainer.Crash = func(window string) {
				if window == tt.window {
					stop()
				}
			}
			if _, err := b.drainer.Drain(ctx); err != nil {
				t.Fatal(err)
			}
			for _, id := range ids {
				d := b.delivery(t, id)
				if ended := d.ProcessedAt != nil; ended != tt.applied || d.Claim != nil || d.Attempts != map[bool]int{true: 1}[tt.applied] {
					t.Errorf("%s: %+v, want ended %v, and attempts only if it was", id, d, tt.applied)
				}
			}
		})
	}
}

// Several drainers on several pools share the work: every delivery is worked once.
func TestSeveralDrainersShareTheWork(t *testing.T) {
	t.Parallel()
	b := setup(t)
	placed := b.placed(t, 150, 1, 1)
	for _, o := range placed {
		b.record(t, o.checkouts[0].event("evt_s_"+o.ID.String(), completed))
		b.record(t, o.checkouts[0].event("evt_i_"+o.ID.String(), intentPaid))
	}
	var running sync.WaitGroup
	var mu sync.Mutex
	total := 0
	for n := range 4 {
		process := b
		if n > 1 {
			process = b.another(t)
		}
		drainer := *process.drainer
		drainer.Batch = 7
		running.Go(func() {
			for {
				taken, err := drainer.Drain(t.Context())
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				total += taken
				mu.Unlock()
				if taken == 0 {
					return
				}
			}
		})
	}
	running.Wait()
	b.forward(t) // given back ones, and intents whose session another was just teaching
	total += b.drain(t)
	if open := b.count(t, `SELECT count(*) FROM webhook_deliveries WHERE processed_at IS NULL OR attempts <> 1`); open != 0 {
		t.Errorf("%d of %d deliveries open or worked twice, want none", open, total)
	}
	for _, o := range placed {
		b.wantState(t, o, orders.Paid)
	}
	if pays := b.count(t, `SELECT count(*) FROM order_transitions WHERE event = 'pay'`); pays != len(placed) {
		t.Errorf("%d pay transitions, want %d", pays, len(placed))
	}
}

// B40: everything that touches an order at once, for many rounds: all of it ends, each effect
// once, nothing half applied. One order of locking is what keeps them from waiting in a ring.
func TestB40EverythingAtOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	other := b.another(t)
	const rounds = 6
	var placed []order
	events := map[int][]stripesim.Event{}
	for n := range 6 {
		o := b.secondCheckout(t, b.order(t))
		if n%2 == 0 {
			events[n] = append(events[n], b.pay(t, o.checkouts[0], stripesim.PayOptions{})...)
		}
		events[n] = append(events[n], b.pay(t, o.checkouts[1], stripesim.PayOptions{})...)
		placed = append(placed, o)
	}
	// attempt does something until it is not turned away by a lock.
	attempt := func(what string, do func(ctx context.Context) error) {
		ctx, cancel := context.WithTimeout(t.Context(), deadline)
		defer cancel()
		for {
			err := do(ctx)
			if err == nil {
				return
			}
			if !database.NoFault(err) {
				t.Errorf("%s: %v", what, err)
				return
			}
		}
	}
	for round := range rounds {
		var running sync.WaitGroup
		for _, drainer := range []func(context.Context) (int, error){b.drainer.Drain, other.drainer.Drain} {
			running.Go(func() {
				for range 20 {
					if _, err := drainer(t.Context()); err != nil {
						t.Error(err)
					}
				}
			})
		}
		for n, o := range placed {
			running.Go(func() {
				for _, e := range events[n] {
					attempt("record", func(ctx context.Context) error {
						_, err := b.tryRecord(ctx, again(e, round))
						return err
					})
				}
			})
			running.Go(func() {
				attempt("fulfill", func(ctx context.Context) error { return other.service.FulfillOrder(ctx, o.ID, noJob) })
			})
			for _, c := range o.checkouts {
				running.Go(func() {
					attempt("read", func(ctx context.Context) error { return b.service.ReadPayment(ctx, c.PaymentID, noJob) })
				})
			}
		}
		running.Wait()
	}
	b.settle(t)
	if open := b.count(t, `SELECT count(*) FROM webhook_deliveries WHERE processed_at IS NULL OR outcome = 'dead'`); open != 0 {
		t.Errorf("%d deliveries open or dead, want none", open)
	}
	if rings := b.count(t, `SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()`); rings != 0 {
		t.Errorf("%d deadlocks, want none: everybody locks orders in one order", rings)
	}
	for _, o := range placed {
		b.wantState(t, o, orders.Fulfilled)
		b.wantEffects(t, o, once(o))
	}
}

// A row whose order is locked by another transaction for too long is given back, and costs no
// attempt; the others of its batch are applied meanwhile, however long the lock is held.
func TestGivenBackOnALockThatIsHeld(t *testing.T) {
	t.Parallel()
	b := setup(t)
	placed := b.placed(t, 10, 1, 1)
	ids := b.recordOne(t, placed)
	const locked = 4
	tx := b.another(t).db.Gorm.WithContext(t.Context()).Begin()
	defer tx.Rollback()
	if err := tx.Exec(`SELECT 1 FROM orders WHERE id = ? FOR UPDATE`, placed[locked].ID).Error; err != nil {
		t.Fatal(err)
	}
	impatient, err := wire(t.Context(), b.dsn+"&lock_timeout=50ms", b.simURL, b.mailer, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(impatient.db.Close)
	for range 3 {
		if _, err := impatient.drainer.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		if d := b.delivery(t, ids[locked]); d.Attempts != 0 || d.Claim != nil || d.LastError != nil || d.ProcessedAt != nil {
			t.Errorf("%+v, want it given back", d)
		}
		b.forward(t)
	}
	for n, o := range placed {
		if n != locked {
			b.wantState(t, o, orders.Paid)
		}
	}
	if err := tx.Rollback().Error; err != nil {
		t.Fatal(err)
	}
	b.drain(t)
	b.wantState(t, placed[locked], orders.Paid)
}
