package reconcile_test

import (
	"testing"

	"paidonce/internal/stripesim"
)

// The alert about a dead job belongs into the log of a process that works jobs.
func TestRun_ARunTakesNoAlert(t *testing.T) {
	t.Parallel()
	b := setup(t)
	o := b.order()
	_, err := b.sim.Pay(o.Session, stripesim.PayOptions{Delayed: true})
	must(t, err)
	b.exec(`CREATE FUNCTION boom() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'boom'; END $$`)
	b.exec(`CREATE TRIGGER boom BEFORE UPDATE ON orders FOR EACH ROW EXECUTE FUNCTION boom()`)
	b.exec(`INSERT INTO river_job (state, args, kind, queue, max_attempts, attempt, finalized_at, priority)
VALUES ('discarded', '{}', 'send_refund', 'send_refund', 30, 30, now(), 1)`)
	b.run()
	if got := b.text(`SELECT metadata->>'paidonce_announced' FROM river_job WHERE kind = 'send_refund'`); got == "true" {
		t.Error("a reconcile command has taken the one announcement of a dead job, into its own stderr")
	}
}
