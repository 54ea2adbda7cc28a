package fulfillment

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"paidonce/internal/provider"
	"paidonce/licenses"
	"paidonce/orders"
	"paidonce/webhooks"
)

// Dossier is all there is about an order, for a person.
type Dossier struct {
	orders.View

	Resources  map[uuid.UUID][]string // by payment: the ids by which the provider speaks of it
	Licenses   []licenses.License
	Mails      []ReceiptStatus
	Calls      []provider.Call
	Jobs       []JobEntry // those that are not completed
	Deliveries []webhooks.Entry
	Attention  []Attention
}

// Dossier reads everything about an order. Its parts are read one after another: what moves
// while it is read may be seen by one of them and not by another.
func (s *Service) Dossier(ctx context.Context, orderID uuid.UUID) (d Dossier, err error) {
	if d.View, err = s.Orders.Get(ctx, orderID); err != nil {
		return d, err
	}
	if d.Resources, err = s.resourcesOf(ctx, orderID); err != nil {
		return d, err
	}
	if d.Licenses, err = s.Licenses.ForOrder(ctx, s.DB, orderID); err != nil {
		return d, fmt.Errorf("licenses of order %s: %w", orderID, err)
	}
	if d.Mails, err = s.Receipts(ctx, orderID); err != nil {
		return d, err
	}
	const calls = `SELECT * FROM provider_calls WHERE ` + callsAbout + ` ORDER BY created_at, idempotency_key`
	if err = s.DB.WithContext(ctx).Raw(calls, map[string]any{"order_id": orderID}).Scan(&d.Calls).Error; err != nil {
		return d, fmt.Errorf("calls about order %s: %w", orderID, err)
	}
	if d.Deliveries, _, err = s.Inbox.List(ctx, webhooks.Filter{OrderID: orderID}); err != nil {
		return d, err
	}
	jobs, _, err := s.Jobs(ctx, JobFilter{OrderID: orderID})
	if err != nil {
		return d, err
	}
	for _, job := range jobs {
		if job.State != "completed" {
			d.Jobs = append(d.Jobs, job)
		}
	}
	d.Attention, err = s.AttentionOf(ctx, d.View)
	return d, err
}

// resourcesOf are the ids that were learned of each payment of an order, the oldest first.
func (s *Service) resourcesOf(ctx context.Context, orderID uuid.UUID) (map[uuid.UUID][]string, error) {
	const read = `
SELECT r.payment_id, r.resource_id FROM payment_resources r JOIN payments p ON p.id = r.payment_id
WHERE p.order_id = ? ORDER BY r.learned_at, r.resource_id`
	var rows []struct {
		PaymentID  uuid.UUID
		ResourceID string
	}
	if err := s.DB.WithContext(ctx).Raw(read, orderID).Scan(&rows).Error; err != nil {
		return nil, fmt.Errorf("reading the resources of order %s: %w", orderID, err)
	}
	resources := map[uuid.UUID][]string{}
	for _, row := range rows {
		resources[row.PaymentID] = append(resources[row.PaymentID], row.ResourceID)
	}
	return resources, nil
}
