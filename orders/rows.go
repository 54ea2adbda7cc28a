package orders

import (
	"time"

	"github.com/google/uuid"

	"paidonce/internal/money"
)

// Order is a row of orders.
type Order struct {
	ID           uuid.UUID `gorm:"primaryKey"`
	Number       int64     `gorm:"->"` // the database counts it
	Email        string
	Locale       string
	Currency     money.Currency
	TotalMinor   int64
	State        State
	Decision     Decision
	ReviewReason *Reason
	CreatedAt    time.Time
	UpdatedAt    time.Time
	PaidAt       *time.Time // the one `pay`
	FulfilledAt  *time.Time // the first issue of its licenses
}

// Total is what the buyer was asked for.
func (o Order) Total() money.Amount { return money.Amount{Minor: o.TotalMinor, Currency: o.Currency} }

// Line is a row of order_lines.
type Line struct {
	ID        uuid.UUID `gorm:"primaryKey"`
	OrderID   uuid.UUID
	Position  int // from 1
	SKU       string
	Name      string
	Quantity  int
	UnitMinor int64
}

// TableName tells gorm the table.
func (Line) TableName() string { return "order_lines" }

// Payment is a row of payments: one checkout at one provider, and all that is known of it.
type Payment struct {
	ID               uuid.UUID `gorm:"primaryKey"`
	OrderID          uuid.UUID
	Provider         string
	ResourceID       *string // the checkout object's id; nil until the provider answered
	Livemode         bool
	Account          string
	CheckoutURL      *string
	Currency         money.Currency
	ExpectedMinor    int64
	Adjustable       bool // promotion codes or tax may change its total
	Status           Status
	ReceivedMinor    *int64
	ReceivedCurrency *string
	IntendedMinor    *int64
	SubtotalMinor    *int64 // nil, with the next three: no breakdown was stated, or none is needed
	DiscountMinor    *int64
	TaxMinor         *int64
	ShippingMinor    *int64
	ObjectCreatedAt  *time.Time
	RefundedMinor    int64
	AcceptedMinor    *int64
	AcceptedCurrency *string
	AcceptedBy       *string
	AcceptedAt       *time.Time
	ChargedCurrency  *string // what refunds and disputes are stated in; nil: never read
	DisputeOpen      bool
	DisputeLost      bool
	ReadUntil        *time.Time
	ReadWanted       int64
	ReadSeq          int64
	CreatedAt        time.Time
	UpdatedAt        time.Time
}

// facts is what the payment contributes to its order's state.
func (p Payment) facts() PaymentFacts {
	f := PaymentFacts{Status: p.Status, CreatedAt: p.CreatedAt}
	if p.ResourceID != nil {
		f.ResourceID = *p.ResourceID
	}
	if p.ObjectCreatedAt != nil {
		f.CreatedAt = *p.ObjectCreatedAt
	}
	if p.Status != StatusSucceeded {
		return f
	}
	f.Agreed, f.Accepted, f.Disagree = p.agreement()
	f.Returned = *p.ReceivedMinor > 0 && p.RefundedMinor >= *p.ReceivedMinor
	f.DisputeOpen, f.DisputeLost = p.DisputeOpen, p.DisputeLost
	return f
}

// Received is what came; zero if nothing did.
func (p *Payment) Received() money.Amount {
	if p == nil || p.ReceivedMinor == nil {
		return money.Amount{}
	}
	return money.Amount{Minor: *p.ReceivedMinor, Currency: money.Currency(*p.ReceivedCurrency)}
}

// LeftMinor is how much of what was received has not been refunded.
func (p Payment) LeftMinor() int64 {
	if p.ReceivedMinor == nil {
		return 0
	}
	return max(*p.ReceivedMinor-p.RefundedMinor, 0)
}

// agreement compares what was received with what was asked for, or with what a person
// accepted instead (I4). Amounts are compared only within one currency.
func (p Payment) agreement() (agreed, accepted bool, why Reason) {
	switch {
	case p.AcceptedMinor != nil && *p.AcceptedMinor == *p.ReceivedMinor && *p.AcceptedCurrency == *p.ReceivedCurrency:
		return true, true, NoReason
	case *p.ReceivedCurrency != string(p.Currency):
		return false, false, ReasonCurrency
	case p.Adjustable:
		agreed, why = p.addsUp()
		return agreed, false, why
	case *p.ReceivedMinor == p.ExpectedMinor:
		return true, false, NoReason
	case p.IntendedMinor != nil && *p.IntendedMinor == p.ExpectedMinor && *p.ReceivedMinor < p.ExpectedMinor:
		return false, false, ReasonCapture
	}
	return false, false, ReasonAmount
}

// Transition is a row of order_transitions.
type Transition struct {
	ID            int64 `gorm:"->"`
	OrderID       uuid.UUID
	Event         Event
	FromState     State
	ToState       State
	CauseProvider string
	CauseEventID  string
	At            time.Time
}

// TableName tells gorm the table.
func (Transition) TableName() string { return "order_transitions" }
