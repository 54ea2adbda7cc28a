package fulfillment

import (
	"context"
	"fmt"
	"strings"

	"github.com/google/uuid"
	"gorm.io/gorm"

	"paidonce/internal/provider"
	"paidonce/licenses"
	"paidonce/orders"
)

// FulfillOrder issues what was paid for (TX3): in one transaction, under the order's lock,
// the licenses, the step to fulfilled, the receipt to be sent, the call that tells the
// provider, their jobs, and the end of this one. For an order that is not in the state paid
// it does nothing: it was fulfilled before, or its money is gone again.
func (s *Service) FulfillOrder(ctx context.Context, orderID uuid.UUID, complete Complete) error {
	err := s.DB.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		order, lines, err := s.Orders.LockPaid(ctx, tx, orderID)
		if err != nil {
			return err
		}
		if order == nil {
			return complete(tx)
		}

		// Invariant I6: one license per (line, ordinal) (licenses_line_ordinal_key).
		// Without it: a job that runs twice issues twice. CW6.
		issued, err := s.Licenses.Issue(ctx, tx, licensesOf(*order, lines), s.Now())
		if err != nil {
			return fmt.Errorf("issuing: %w", err)
		}
		if err := s.Orders.MarkFulfilled(ctx, tx, order, orders.Cause{Provider: "job", EventID: kindFulfillOrder}); err != nil {
			return err
		}
		payment, ids, err := s.Orders.PaidBy(ctx, tx, order.ID)
		if err != nil {
			return err
		}
		if err := s.Queue.intendMail(ctx, tx, receiptOf(*order, lines, issued, payment.Received(), s.Now())); err != nil {
			return err
		}
		if err := s.intendNotice(ctx, tx, payment, ids, issued); err != nil {
			return err
		}
		if err := complete(tx); err != nil {
			return err
		}
		s.crash("CW6")
		return nil
	})
	if err != nil {
		return fmt.Errorf("fulfilling order %s: %w", orderID, err)
	}
	s.crash("CW7")
	return nil
}

func licensesOf(order orders.Order, lines []orders.Line) licenses.Order {
	o := licenses.Order{ID: order.ID}
	for _, line := range lines {
		o.Lines = append(o.Lines, licenses.Line{ID: line.ID, SKU: line.SKU, Quantity: line.Quantity})
	}
	return o
}

// intendNotice writes down the call that puts order and license ids on the payment's
// intent. A free order has no intent, and nobody to tell.
func (s *Service) intendNotice(ctx context.Context, tx *gorm.DB, payment *orders.Payment, ids []string, issued []licenses.License) error {
	for _, id := range ids {
		if !strings.HasPrefix(id, "pi_") {
			continue
		}
		request := provider.FulfillRequest{OrderID: payment.OrderID, PaymentIntentID: id}
		for _, license := range issued {
			request.LicenseIDs = append(request.LicenseIDs, license.ID)
		}
		call := request.Call()
		call.Livemode, call.Account = payment.Livemode, payment.Account
		return s.Calls.Intend(ctx, tx, call)
	}
	return nil
}
