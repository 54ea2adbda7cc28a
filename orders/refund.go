package orders

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"
	"gorm.io/gorm"

	"paidonce/internal/money"
	"paidonce/internal/provider"
)

// RefundWish says what is to be sent back.
type RefundWish struct {
	Payment     string // a payment's id or one of the provider's; "" if there is, and was, only one to choose
	AmountMinor int64  // in the currency that was charged; 0 for all that is left
	Surplus     bool   // every payment that pays for nothing (or the one named), and only while it does

	// Key tells this refund from others of the same payment; "" makes one of the amount. The
	// same key is the same refund, however often it is asked for.
	Key string
}

var (
	// ErrNothingToRefund is returned when no payment has money that could go back.
	ErrNothingToRefund = errors.New("there is no money to refund")

	// ErrKeyOfAnother is returned when a refund's key was used for another amount.
	ErrKeyOfAnother = errors.New("the key was used for a refund of another amount")
)

// ChooseError is returned when several payments have money and none was named.
type ChooseError struct{ Payments []Payment }

func (e *ChooseError) Error() string {
	names := make([]string, len(e.Payments))
	for i, p := range e.Payments {
		names[i] = *p.ResourceID
	}
	return "payment: several have money, name one: " + strings.Join(names, ", ")
}

// Refund writes down that money is to go back, and the call that sends it, in one
// transaction. The id of the decision is made of payment and key, so that a command that is
// given twice is one refund (I7). What went back is known when the provider says so: until
// then no total changes.
//
// The caller has read the payments a moment ago: only a read tells how much is left, and in
// which currency the buyer was charged.
func (s *Store) Refund(ctx context.Context, orderID uuid.UUID, wish RefundWish, p Person) ([]Decided, error) {
	if err := p.valid(); err != nil {
		return nil, err
	}
	if wish.AmountMinor < 0 {
		return nil, &InputError{Field: "amount", Detail: "must be positive"}
	}
	var all []Decided
	_, err := s.decide(ctx, orderID, func(tx *gorm.DB, order *Order) (Decided, error) {
		payments, err := s.toRefund(tx, order.ID, wish)
		if err != nil {
			return Decided{}, err
		}
		for _, payment := range payments {
			decided, err := s.refund(ctx, tx, order, payment, wish, p)
			if err != nil {
				return Decided{}, err
			}
			all = append(all, decided)
		}
		return Decided{}, nil
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

// toRefund chooses the payments that a wish is about.
func (s *Store) toRefund(tx *gorm.DB, orderID uuid.UUID, wish RefundWish) ([]Payment, error) {
	var payments []Payment
	if err := tx.Order("created_at, id").Find(&payments, "order_id = ?", orderID).Error; err != nil {
		return nil, fmt.Errorf("reading the payments of order %s: %w", orderID, err)
	}
	if wish.Payment != "" && len(payments) > 0 {
		return s.namedPayment(tx, payments, wish)
	}
	before, err := s.refundedBefore(tx, payments, wish)
	if err != nil {
		return nil, err
	}
	if len(before) > 0 && !wish.Surplus {
		return before, nil // the command given again, and not about a payment that has come since
	}
	var found []Payment
	for _, p := range payments {
		if p.hasMoney() && (!wish.Surplus || surplus(payments, p)) {
			found = append(found, p)
		}
	}
	switch {
	case len(found) == 0 && len(before) > 0:
		return before, nil
	case len(found) == 0:
		return nil, ErrNothingToRefund
	case len(found) > 1 && !wish.Surplus:
		return nil, &ChooseError{Payments: found}
	}
	return found, nil
}

// refundedBefore is for a command that is given again: the payments that it sent back the
// first time.
func (s *Store) refundedBefore(tx *gorm.DB, payments []Payment, wish RefundWish) ([]Payment, error) {
	var found []Payment
	for _, p := range payments {
		var before bool
		if err := tx.Raw(`SELECT EXISTS (SELECT FROM order_decisions WHERE id = ?)`, wish.id(p.ID)).Row().Scan(&before); err != nil {
			return nil, fmt.Errorf("looking for an earlier refund of payment %s: %w", p.ID, err)
		}
		if before {
			found = append(found, p)
		}
	}
	return found, nil
}

// id is the id of the decision to send back money of a payment: made of the payment and the
// wish's key, or of the amount if it has none. No key that a person thinks up is that of an
// amount; and what was wanted only as surplus, and then was not sent, can be wanted as such.
func (w RefundWish) id(paymentID uuid.UUID) uuid.UUID {
	what := "all"
	switch {
	case w.Key != "":
		what = "key:" + w.Key
	case w.AmountMinor > 0:
		what = "amount:" + strconv.FormatInt(w.AmountMinor, 10)
	}
	if w.Surplus {
		what = "surplus:" + what
	}
	return uuid.NewSHA1(paymentID, []byte("refund:"+what))
}

// namedPayment finds the payment by any of its ids.
func (s *Store) namedPayment(tx *gorm.DB, payments []Payment, wish RefundWish) ([]Payment, error) {
	var named []uuid.UUID
	const find = `SELECT payment_id FROM payment_resources WHERE provider IN (SELECT provider FROM payments WHERE order_id = ?) AND resource_id = ?`
	if id, err := uuid.Parse(wish.Payment); err == nil {
		named = append(named, id)
	} else if err := tx.Raw(find, payments[0].OrderID, wish.Payment).Scan(&named).Error; err != nil {
		return nil, fmt.Errorf("looking for payment %s: %w", wish.Payment, err)
	}
	i := slices.IndexFunc(payments, func(p Payment) bool { return slices.Contains(named, p.ID) })
	if i < 0 {
		return nil, &InputError{Field: "payment", Detail: "the order has no payment " + strconv.Quote(wish.Payment)}
	}
	one := payments[i : i+1]
	if !wish.Surplus || surplus(payments, one[0]) {
		return one, nil
	}
	before, err := s.refundedBefore(tx, one, wish)
	if err == nil && len(before) == 0 {
		return nil, &InputError{Field: "payment", Detail: strconv.Quote(wish.Payment) + " is not surplus"}
	}
	return before, err
}

// hasMoney reports whether a payment has money that could be sent back. A free one succeeded,
// and has none.
func (p Payment) hasMoney() bool {
	return p.Status == StatusSucceeded && p.facts().moneyLeft() && p.LeftMinor() > 0
}

// surplus reports whether a payment has money and pays for nothing: another one counts, or
// did, until its own money went back. Where none ever counted, the order is in review for it.
func surplus(payments []Payment, p Payment) bool {
	facts := make([]PaymentFacts, len(payments))
	for i, v := range payments {
		facts[i] = v.facts()
	}
	if !p.hasMoney() || p.ResourceID == nil {
		return false
	}
	if counted, ok := Counted(facts); ok {
		return counted.ResourceID != *p.ResourceID
	}
	return slices.ContainsFunc(facts, func(f PaymentFacts) bool { return f.Agreed })
}

// refund writes one refund down.
func (s *Store) refund(ctx context.Context, tx *gorm.DB, order *Order, payment Payment, wish RefundWish, p Person) (Decided, error) {
	ruling := Ruling{
		ID: wish.id(payment.ID), OrderID: order.ID, Action: ActionRefund, PaymentID: &payment.ID, Surplus: wish.Surplus,
		DecidedBy: p.Name, Reason: p.Why, DecidedAt: s.Now(),
	}
	var before []Ruling
	if err := tx.Find(&before, "id = ?", ruling.ID).Error; err != nil {
		return Decided{}, fmt.Errorf("looking for an earlier refund of payment %s: %w", payment.ID, err)
	}
	if len(before) == 1 {
		if wish.AmountMinor > 0 && *before[0].AmountMinor != wish.AmountMinor {
			return Decided{}, fmt.Errorf("key %q: %w", wish.Key, ErrKeyOfAnother)
		}
		return Decided{Ruling: before[0], Order: *order, Repeat: true}, nil
	}
	amount, err := amountToRefund(payment, wish)
	if err != nil {
		return Decided{}, err
	}
	currency := string(amount.Currency)
	ruling.AmountMinor, ruling.Currency = &amount.Minor, &currency
	if err := s.rule(tx, order, ruling, order.Decision); err != nil {
		return Decided{}, err
	}
	intent, err := s.intentOf(tx, payment)
	if err != nil {
		return Decided{}, err
	}
	request := provider.RefundRequest{DecisionID: ruling.ID, OrderID: order.ID, PaymentIntentID: intent}
	if wish.AmountMinor > 0 {
		request.Amount = &amount // else the provider sends back whatever is left when it gets to it
	}
	call, err := request.Call()
	if err != nil {
		return Decided{}, err
	}
	call.Livemode, call.Account = payment.Livemode, payment.Account
	return Decided{Ruling: ruling, Order: *order}, s.Calls.Intend(ctx, tx, call)
}

// converted reports whether the buyer was charged in another currency than the payment's.
func (p Payment) converted() bool {
	return p.ChargedCurrency != nil && p.ReceivedCurrency != nil && *p.ChargedCurrency != *p.ReceivedCurrency
}

// amountToRefund is what a refund is written down as.
func amountToRefund(p Payment, wish RefundWish) (money.Amount, error) {
	if !p.hasMoney() {
		return money.Amount{}, ErrNothingToRefund
	}
	left := money.Amount{Minor: p.LeftMinor(), Currency: money.Currency(*p.ReceivedCurrency)}
	switch {
	case wish.AmountMinor == 0:
		return left, nil
	case p.converted():
		return money.Amount{Minor: wish.AmountMinor, Currency: money.Currency(*p.ChargedCurrency)}, nil
	case wish.AmountMinor > left.Minor:
		return money.Amount{}, &InputError{Field: "amount", Detail: fmt.Sprintf("%d is more than the %d that are left", wish.AmountMinor, left.Minor)}
	}
	return money.Amount{Minor: wish.AmountMinor, Currency: left.Currency}, nil
}

// intentOf is the id by which the provider refunds a payment.
func (s *Store) intentOf(tx *gorm.DB, p Payment) (string, error) {
	var ids []string
	const find = `SELECT resource_id FROM payment_resources WHERE payment_id = ? AND resource_id LIKE 'pi\_%' ORDER BY learned_at LIMIT 1`
	if err := tx.Raw(find, p.ID).Scan(&ids).Error; err != nil {
		return "", fmt.Errorf("looking for the intent of payment %s: %w", p.ID, err)
	}
	if len(ids) == 0 {
		return "", ErrNothingToRefund // nothing was charged
	}
	return ids[0], nil
}

// StillWanted is asked before a call is sent (it is a [provider.Calls] guard): a refund of
// surplus money is wanted only while the payment is surplus. Another may have been refunded
// since, and then this one pays the order. It locks the order.
func (s *Store) StillWanted(ctx context.Context, tx *gorm.DB, call provider.Call) error {
	if call.Operation != provider.OpRefund {
		return nil
	}
	tx = tx.WithContext(ctx)
	var ruling Ruling
	if err := tx.First(&ruling, "id = ?", call.SubjectID).Error; err != nil {
		return fmt.Errorf("reading the decision about refund %s: %w", call.SubjectID, err)
	}
	if !ruling.Surplus {
		return nil
	}
	if _, err := s.lock(tx, ruling.OrderID); err != nil {
		return err
	}
	var payments []Payment
	if err := tx.Find(&payments, "order_id = ?", ruling.OrderID).Error; err != nil {
		return fmt.Errorf("reading the payments of order %s: %w", ruling.OrderID, err)
	}
	for _, p := range payments {
		if p.ID == *ruling.PaymentID && surplus(payments, p) {
			return nil
		}
	}
	return fmt.Errorf("%w: payment %s is not surplus any more", provider.ErrNotWanted, *ruling.PaymentID)
}

// SettleRefund applies the provider's answer to the call that sends money back (TX4): the
// payment is read, and the read says how much is gone.
func (s *Store) SettleRefund(ctx context.Context, tx *gorm.DB, call provider.Call) error {
	var ruling Ruling
	if err := tx.WithContext(ctx).First(&ruling, "id = ?", call.SubjectID).Error; err != nil {
		return fmt.Errorf("reading the decision about refund %s: %w", call.SubjectID, err)
	}
	return s.WantRead(ctx, tx, *ruling.PaymentID)
}
