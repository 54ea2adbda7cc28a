package orders

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"gorm.io/gorm"

	"paidonce/internal/money"
	"paidonce/internal/provider"
)

// Returns is what went back of a payment's money, as it was when the payment was read.
type Returns struct {
	RefundedMinor   int64  // of what was received, in its minor units
	ChargedCurrency string // in which the refunds and disputes are stated
	Refunds         []PaymentRefund
	Disputes        []PaymentDispute
}

// PaymentRefund is a row of refunds: money that was sent back, as last read. One that has
// succeeded can fail later.
type PaymentRefund struct {
	Provider    string `gorm:"primaryKey"`
	RefundID    string `gorm:"primaryKey"`
	PaymentID   uuid.UUID
	AmountMinor int64
	Currency    money.Currency
	Status      string
	CreatedAt   time.Time // the provider's
	UpdatedAt   time.Time
}

// TableName tells gorm the table.
func (PaymentRefund) TableName() string { return "refunds" }

// PaymentDispute is a row of disputes: money that the buyer's bank asks back, as last read. A
// charge can be disputed twice, and a dispute that was lost can still be won.
type PaymentDispute struct {
	Provider    string `gorm:"primaryKey"`
	DisputeID   string `gorm:"primaryKey"`
	PaymentID   uuid.UUID
	AmountMinor int64
	Currency    money.Currency
	Status      string
	Reason      string
	DueAt       *time.Time // by when the provider wants evidence; nil: it did not say
	CreatedAt   time.Time  // the provider's
	UpdatedAt   time.Time
}

// TableName tells gorm the table.
func (PaymentDispute) TableName() string { return "disputes" }

// The statuses of a dispute that matter to an order. All others are inquiries (warning_…),
// which move no money, and ends without loss
// (https://docs.stripe.com/api/disputes/object#dispute_object-status).
const (
	disputeNeedsResponse = "needs_response"
	disputeUnderReview   = "under_review"
	disputeWon           = "won"
	inquiryNeedsResponse = "warning_needs_response"
	disputeLost          = "lost"
	refundSucceeded      = "succeeded"
)

func (d PaymentDispute) open() bool {
	return d.Status == disputeNeedsResponse || d.Status == disputeUnderReview
}

// WaitsForUs reports whether the merchant has to give evidence, to an inquiry too: one that is
// not answered becomes a dispute.
func (d PaymentDispute) WaitsForUs() bool {
	return d.Status == disputeNeedsResponse || d.Status == inquiryNeedsResponse
}

func (d PaymentDispute) lost() bool { return d.Status == disputeLost }

// setReturns notes on the payment what its order's state depends on.
func (p *Payment) setReturns(r Returns) (changed bool) {
	open, lost := slices.ContainsFunc(r.Disputes, PaymentDispute.open), slices.ContainsFunc(r.Disputes, PaymentDispute.lost)
	changed = p.RefundedMinor != r.RefundedMinor || p.DisputeOpen != open || p.DisputeLost != lost ||
		r.ChargedCurrency != "" && p.ChargedCurrency == nil
	p.RefundedMinor, p.DisputeOpen, p.DisputeLost = r.RefundedMinor, open, lost
	if r.ChargedCurrency != "" {
		p.ChargedCurrency = &r.ChargedCurrency
	}
	return changed
}

// ReturnEvent is what a read found out about a refund or a dispute.
type ReturnEvent string

// The things found out. None is told twice by one change, but a dispute can be lost and won.
const (
	RefundSucceeded ReturnEvent = "refund_succeeded"
	RefundFailed    ReturnEvent = "refund_failed" // after it had counted: the money is the merchant's again
	DisputeOpened   ReturnEvent = "dispute_opened"
	DisputeWon      ReturnEvent = "dispute_won"
	DisputeLost     ReturnEvent = "dispute_lost"
)

// ReturnNews is one thing found out.
type ReturnNews struct {
	Event     ReturnEvent
	SubjectID string // the id of the refund or of the dispute
	Amount    money.Amount
}

// keepReturns stores refunds and disputes as they were read, behind the order's lock, and
// tells what is new about them. The order has moved already.
func (s *Store) keepReturns(ctx context.Context, tx *gorm.DB, order Order, p *Payment, r Returns) ([]ReturnNews, error) {
	now := s.Now()
	refunds, err := s.keepRefunds(tx, p, r.Refunds, now)
	if err != nil {
		return nil, err
	}
	disputes, err := s.keepDisputes(tx, p, r.Disputes, now)
	if err != nil {
		return nil, err
	}
	news := append(refunds, disputes...)
	if len(news) == 0 {
		return nil, nil
	}
	return news, s.Follower.MoneyReturned(ctx, tx, order, now, news)
}

func (s *Store) keepRefunds(tx *gorm.DB, p *Payment, read []PaymentRefund, at time.Time) (news []ReturnNews, err error) {
	var known []PaymentRefund
	if err := tx.Find(&known, "payment_id = ?", p.ID).Error; err != nil {
		return nil, fmt.Errorf("reading the refunds of payment %s: %w", p.ID, err)
	}
	const keep = `
INSERT INTO refunds (provider, refund_id, payment_id, amount_minor, currency, status, created_at, updated_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (provider, refund_id) DO UPDATE
SET amount_minor = excluded.amount_minor, status = excluded.status, updated_at = excluded.updated_at`
	for _, r := range read {
		var was PaymentRefund
		if i := slices.IndexFunc(known, func(v PaymentRefund) bool { return v.RefundID == r.RefundID }); i >= 0 {
			was = known[i]
		}
		if was.Status == r.Status {
			continue
		}
		err := tx.Exec(keep, p.Provider, r.RefundID, p.ID, r.AmountMinor, r.Currency, r.Status, r.CreatedAt, at).Error
		if err != nil {
			return nil, fmt.Errorf("keeping refund %s: %w", r.RefundID, err)
		}
		if event := refundNews(was.Status, r.Status); event != "" {
			news = append(news, ReturnNews{event, r.RefundID, money.Amount{Minor: r.AmountMinor, Currency: r.Currency}})
		}
	}
	return news, nil
}

func (s *Store) keepDisputes(tx *gorm.DB, p *Payment, read []PaymentDispute, at time.Time) (news []ReturnNews, err error) {
	var known []PaymentDispute
	if err := tx.Find(&known, "payment_id = ?", p.ID).Error; err != nil {
		return nil, fmt.Errorf("reading the disputes of payment %s: %w", p.ID, err)
	}
	const keep = `
INSERT INTO disputes (provider, dispute_id, payment_id, amount_minor, currency, status, reason, due_at, created_at, updated_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (provider, dispute_id) DO UPDATE
SET amount_minor = excluded.amount_minor, status = excluded.status, reason = excluded.reason, due_at = excluded.due_at,
    updated_at = excluded.updated_at`
	for _, d := range read {
		var was PaymentDispute
		if i := slices.IndexFunc(known, func(v PaymentDispute) bool { return v.DisputeID == d.DisputeID }); i >= 0 {
			was = known[i]
		}
		if was.Status == d.Status && was.AmountMinor == d.AmountMinor && sameMoment(was.DueAt, d.DueAt) {
			continue
		}
		err := tx.Exec(keep, p.Provider, d.DisputeID, p.ID, d.AmountMinor, d.Currency, d.Status, d.Reason, d.DueAt, d.CreatedAt, at).Error
		if err != nil {
			return nil, fmt.Errorf("keeping dispute %s: %w", d.DisputeID, err)
		}
		if event := disputeNews(was, d); event != "" {
			news = append(news, ReturnNews{event, d.DisputeID, money.Amount{Minor: d.AmountMinor, Currency: d.Currency}})
		}
	}
	return news, nil
}

func sameMoment(a, b *time.Time) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Equal(*b)
}

// refundNews is what a refund's change of status means; was is "" for one not known before.
func refundNews(was, now string) ReturnEvent {
	switch {
	case now == refundSucceeded:
		return RefundSucceeded
	case was != "" && provider.RefundCounts(was) && !provider.RefundCounts(now):
		return RefundFailed
	}
	return ""
}

// disputeNews likewise. That a dispute was won is news only to who knew of it.
func disputeNews(was, now PaymentDispute) ReturnEvent {
	switch {
	case now.open() && !was.open():
		return DisputeOpened
	case now.lost() && !was.lost():
		return DisputeLost
	case now.Status == disputeWon && (was.open() || was.lost()):
		return DisputeWon
	}
	return ""
}
