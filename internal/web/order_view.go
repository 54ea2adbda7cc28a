package web

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"paidonce/internal/money"
	"paidonce/licenses"
	"paidonce/orders"
)

// orderView is an order as GET /orders/{id} answers it. Amounts are in minor units, times
// in UTC.
type orderView struct {
	ID           uuid.UUID      `json:"id"`
	Number       int64          `json:"number"`
	State        orders.State   `json:"state"`
	ReviewReason *orders.Reason `json:"review_reason"`

	// NeedsAttention says that somebody at the shop has to look at the order. What it is
	// about is the shop's business: it would tell a buyer of our calls, our mails and what
	// the provider answered.
	NeedsAttention bool `json:"needs_attention"`

	Currency      money.Currency `json:"currency"`
	TotalMinor    int64          `json:"total_minor"`
	ReceivedMinor int64          `json:"received_minor"`
	RefundedMinor int64          `json:"refunded_minor"`
	CheckoutURL   string         `json:"checkout_url,omitempty"`
	Lines         []lineView     `json:"lines"`
	Licenses      []licenseView  `json:"licenses"`
	Receipts      []receiptView  `json:"receipts"`
	Timeline      []stepView     `json:"timeline"`
}

type lineView struct {
	SKU       string `json:"sku"`
	Name      string `json:"name"`
	Quantity  int    `json:"quantity"`
	UnitMinor int64  `json:"unit_minor"`
}

type licenseView struct {
	ID       uuid.UUID       `json:"id"`
	Key      string          `json:"key"`
	SKU      string          `json:"sku"`
	Status   licenses.Status `json:"status"`
	IssuedAt time.Time       `json:"issued_at"`
}

type receiptView struct {
	Kind  string `json:"kind"`
	State string `json:"state"`
}

type stepView struct {
	At    time.Time    `json:"at"`
	Event orders.Event `json:"event"`
	From  orders.State `json:"from"`
	To    orders.State `json:"to"`
	Cause string       `json:"cause"` // who said so: "stripe evt_…", "job fulfill_order"
}

// render puts an order and what belongs to it into the answer's shape. Lists are never
// null.
func (o *Orders) render(ctx context.Context, v orders.View) (orderView, error) {
	shown := orderView{
		ID: v.Order.ID, Number: v.Order.Number, State: v.Order.State, ReviewReason: v.Order.ReviewReason,
		Currency: v.Order.Currency, TotalMinor: v.Order.TotalMinor,
		ReceivedMinor: v.ReceivedMinor(), RefundedMinor: v.RefundedMinor(), CheckoutURL: v.CheckoutURL(),
		Lines: []lineView{}, Licenses: []licenseView{}, Receipts: []receiptView{}, Timeline: []stepView{},
	}
	for _, line := range v.Lines {
		shown.Lines = append(shown.Lines, lineView{SKU: line.SKU, Name: line.Name, Quantity: line.Quantity, UnitMinor: line.UnitMinor})
	}
	issued, err := o.Licenses.ForOrder(ctx, o.DB, v.Order.ID)
	if err != nil {
		return orderView{}, fmt.Errorf("licenses of order %s: %w", v.Order.ID, err)
	}
	for _, l := range issued {
		shown.Licenses = append(shown.Licenses, licenseView{ID: l.ID, Key: l.Key, SKU: l.SKU, Status: l.Status, IssuedAt: l.IssuedAt})
	}
	receipts, err := o.Service.Receipts(ctx, v.Order.ID)
	if err != nil {
		return orderView{}, fmt.Errorf("receipts of order %s: %w", v.Order.ID, err)
	}
	for _, r := range receipts {
		shown.Receipts = append(shown.Receipts, receiptView{Kind: string(r.Kind), State: string(r.State)})
	}
	for _, t := range v.Transitions {
		shown.Timeline = append(shown.Timeline, stepView{
			At: t.At, Event: t.Event, From: t.FromState, To: t.ToState, Cause: t.CauseProvider + " " + t.CauseEventID,
		})
	}
	attention, err := o.Service.AttentionOf(ctx, v)
	if err != nil {
		return orderView{}, fmt.Errorf("attention to order %s: %w", v.Order.ID, err)
	}
	shown.NeedsAttention = len(attention) > 0
	return shown, nil
}
