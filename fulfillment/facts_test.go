package fulfillment_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"paidonce/internal/database"
	"paidonce/internal/money"
	"paidonce/internal/provider"
	"paidonce/internal/stripesim"
	"paidonce/orders"
)

// order is what a test knows of one.
type order struct {
	ID        uuid.UUID
	Total     int64
	Currency  money.Currency
	Quantity  int // of all lines
	callKey   string
	checkouts []checkout
}

// checkout is a payment and the names that the provider has for it.
type checkout struct {
	PaymentID, Order        uuid.UUID
	Session, Intent, Charge string
	Amount, Created         int64
	unmarked                bool // its objects do not carry our marker
}

// pay pays a checkout at the simulated Stripe and returns the events, which are not
// delivered.
func (b *testBundle) pay(t *testing.T, c checkout, o stripesim.PayOptions) []stripesim.Event {
	t.Helper()
	o.Hold = true
	paid, err := b.sim.Pay(c.Session, o)
	if err != nil {
		t.Fatal(err)
	}
	return paid.Events
}

// placed inserts n orders as Create and SettleCheckout leave them, without asking the
// provider: for tests that need many.
func (b *testBundle) placed(t *testing.T, n, quantity, checkouts int) []order {
	t.Helper()
	b.offline = true
	const unit = 1000
	now := database.Now()
	all := make([]order, n)
	var rows []orders.Order
	var lines []orders.Line
	var payments []orders.Payment
	for i := range all {
		id := uuid.Must(uuid.NewV7())
		o := order{ID: id, Total: unit * int64(quantity), Currency: "usd", Quantity: quantity}
		rows = append(rows, orders.Order{
			ID: id, Email: "a@example.com", Locale: "en", Currency: o.Currency, TotalMinor: o.Total, State: orders.Pending,
			Decision: orders.NoDecision, CreatedAt: now, UpdatedAt: now,
		})
		lines = append(lines, orders.Line{
			ID: uuid.Must(uuid.NewV7()), OrderID: id, Position: 1, SKU: "KEY-1", Name: "Key", Quantity: quantity, UnitMinor: unit,
		})
		for range checkouts {
			c := checkout{PaymentID: uuid.Must(uuid.NewV7()), Order: id, Amount: o.Total, Created: now.Unix() + int64(len(o.checkouts))}
			name := c.PaymentID.String()
			c.Session, c.Intent, c.Charge = "cs_"+name, "pi_"+name, "ch_"+name
			created := time.Unix(c.Created, 0).UTC()
			payments = append(payments, orders.Payment{
				ID: c.PaymentID, OrderID: id, Provider: "stripe", ResourceID: &c.Session, Currency: o.Currency, ExpectedMinor: o.Total,
				Status: orders.StatusOpen, ObjectCreatedAt: &created, CreatedAt: now, UpdatedAt: now,
			})
			o.checkouts = append(o.checkouts, c)
		}
		all[i] = o
	}
	db := b.db.Gorm.WithContext(t.Context())
	for _, err := range []error{
		db.CreateInBatches(rows, 500).Error, db.CreateInBatches(lines, 500).Error, db.CreateInBatches(payments, 500).Error,
		db.Exec(`INSERT INTO payment_resources (provider, resource_id, payment_id, learned_at)
			SELECT provider, resource_id, id, now() FROM payments p
			WHERE resource_id IS NOT NULL AND NOT EXISTS (SELECT 1 FROM payment_resources r WHERE r.resource_id = p.resource_id)`).Error,
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// The events of a checkout, by the names that tests use.
const (
	completed     = "checkout.session.completed"
	unpaid        = "checkout.session.completed, unpaid"
	asyncPaid     = "checkout.session.async_payment_succeeded"
	asyncFailed   = "checkout.session.async_payment_failed"
	expired       = "checkout.session.expired"
	intentPaid    = "payment_intent.succeeded"
	intentFailed  = "payment_intent.payment_failed"
	intentCancels = "payment_intent.canceled"
	chargePaid    = "charge.succeeded"
)

// event is the body of an event about the checkout, with the fields that are read.
func (c checkout) event(id, name string) []byte {
	kind, object := name, map[string]any{"currency": "usd", "livemode": false, "metadata": map[string]string{}}
	if !c.unmarked {
		object["metadata"] = map[string]string{provider.OrderMarker: c.Order.String()}
	}
	session := func(status, payment string) {
		object["object"], object["id"], object["payment_intent"], object["created"] = "checkout.session", c.Session, c.Intent, c.Created
		object["status"], object["payment_status"], object["amount_total"] = status, payment, c.Amount
	}
	intent := func(status string, received int64) {
		object["object"], object["id"], object["latest_charge"] = "payment_intent", c.Intent, c.Charge
		object["status"], object["amount"], object["amount_received"] = status, c.Amount, received
	}
	switch name {
	case completed, asyncPaid:
		session("complete", "paid")
	case unpaid, asyncFailed:
		session("complete", "unpaid")
	case expired:
		session("expired", "unpaid")
	case intentPaid:
		intent("succeeded", c.Amount)
	case intentFailed:
		intent("requires_payment_method", 0)
	case intentCancels:
		intent("canceled", 0)
	case chargePaid:
		object["object"], object["id"], object["payment_intent"] = "charge", c.Charge, c.Intent
		object["amount"], object["amount_captured"], object["captured"] = c.Amount, c.Amount, true
	default:
		panic("bug: no event " + name)
	}
	if name == unpaid {
		kind = completed
	}
	return eventOf(id, kind, object)
}

// eventOf wraps an object as Stripe does.
func eventOf(id, kind string, object any) []byte {
	body, err := json.Marshal(map[string]any{
		"id": id, "object": "event", "api_version": "2024-06-20", "created": time.Now().Unix(), "livemode": false,
		"type": kind, "data": map[string]any{"object": object},
	})
	if err != nil {
		panic(err)
	}
	return body
}

// again is the same event under another id: a second trigger with the same content.
func again(e stripesim.Event, n int) []byte {
	return bytes.ReplaceAll(e.Body, []byte(e.ID), fmt.Appendf(nil, "%s_%d", e.ID, n))
}

// edited is an event with some keys changed: a path of "" is the event itself, otherwise
// its object.
func edited(t *testing.T, body []byte, change func(event, object map[string]any)) []byte {
	t.Helper()
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	var event map[string]any
	if err := decoder.Decode(&event); err != nil {
		t.Fatal(err)
	}
	data, _ := event["data"].(map[string]any)
	object, _ := data["object"].(map[string]any)
	change(event, object)
	out, err := json.Marshal(event)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
