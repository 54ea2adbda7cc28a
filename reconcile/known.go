package reconcile

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/tidwall/gjson"

	"paidonce/internal/money"
	"paidonce/internal/provider"
	"paidonce/orders"
)

// known is a payment of this world, with the number of its order.
type known struct {
	Alias       string // the id by which it was found
	OrderNumber int64
	orders.Payment
}

// byResource finds the payments that recorded ids lead to, by id.
func (r *run) byResource(ctx context.Context, ids []string) (map[string]known, error) {
	const find = `
SELECT r.resource_id AS alias, o.number AS order_number, p.*
FROM payment_resources r JOIN payments p ON p.id = r.payment_id JOIN orders o ON o.id = p.order_id
WHERE r.provider = @provider AND r.resource_id IN @ids AND p.livemode = @livemode AND p.account = @account`
	return r.find(ctx, find, ids)
}

// byMarker finds the payments that markers name, by their own id. A marker is a hint for
// looking: nothing is bound by it.
func (r *run) byMarker(ctx context.Context, ids []string) (map[string]known, error) {
	const find = `
SELECT p.id::text AS alias, o.number AS order_number, p.*
FROM payments p JOIN orders o ON o.id = p.order_id
WHERE p.provider = @provider AND p.id IN @ids AND p.livemode = @livemode AND p.account = @account`
	return r.find(ctx, find, ids)
}

func (r *run) find(ctx context.Context, query string, ids []string) (map[string]known, error) {
	found := map[string]known{}
	if len(ids) == 0 {
		return found, nil
	}
	var rows []known
	err := r.DB.WithContext(ctx).Raw(query, map[string]any{
		"provider": stripeName, "ids": ids, "livemode": r.Stripe.Livemode(), "account": r.Stripe.Account(),
	}).Scan(&rows).Error
	if err != nil {
		return nil, fmt.Errorf("finding payments: %w", err)
	}
	for _, row := range rows {
		found[row.Alias] = row
	}
	return found, nil
}

// markers are the payments that objects name which nothing recorded.
func markers(objects []provider.Object, recorded map[string]known) []string {
	var ids []string
	for _, o := range objects {
		if _, ok := recorded[o.ID]; ok {
			continue
		}
		if id, ok := marker(o); ok {
			ids = append(ids, id)
		}
	}
	return ids
}

func marker(o provider.Object) (string, bool) {
	id, err := uuid.Parse(gjson.GetBytes(o.Raw, "metadata."+provider.PaymentMarker).Str)
	return id.String(), err == nil
}

// about is a finding about an object and the payment it leads to.
func (k known) about(kind Kind, resource string, o provider.Object, theirs, ours string) Finding {
	return Finding{
		Kind: kind, ResourceID: resource, OrderID: &k.OrderID, OrderNumber: &k.OrderNumber, ObjectAt: &o.Created,
		Theirs: theirs, Ours: ours,
	}
}

// checkout is the resource of findings about the payment: its session, whatever object told.
func (k known) checkout() string {
	if k.ResourceID == nil {
		return k.ID.String()
	}
	return *k.ResourceID
}

// ours is the payment in words.
func (k known) ours() string {
	if k.Status != orders.StatusSucceeded {
		return string(k.Status)
	}
	return "paid " + amount(*k.ReceivedMinor, *k.ReceivedCurrency)
}

func amount(minor int64, currency string) string {
	return money.Amount{Minor: minor, Currency: money.Currency(currency)}.String()
}

// differs compares a payment with what the provider has received of it; the kind is "" if
// they agree.
func (k known) differs(minor int64, currency string) Kind {
	switch {
	case k.Status != orders.StatusSucceeded:
		return PaidThere
	case *k.ReceivedCurrency != currency:
		return CurrencyDiffers
	case *k.ReceivedMinor != minor:
		return AmountDiffers
	}
	return ""
}

func idsOf(objects []provider.Object) []string {
	ids := make([]string, len(objects))
	for i, o := range objects {
		ids[i] = o.ID
	}
	return ids
}
