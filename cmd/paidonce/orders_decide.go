package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"paidonce/fulfillment"
	"paidonce/internal/database"
	"paidonce/internal/money"
	"paidonce/internal/provider"
	"paidonce/migrations"
	"paidonce/orders"
)

// deciding is what the commands have in common by which a person decides about an order.
type deciding struct {
	person  orders.Person
	json    bool
	crashAt string // for tests: end as by kill -9 at this crash window
}

func (d *deciding) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&d.person.Name, "by", "", "who decides; kept with the decision")
	cmd.Flags().StringVar(&d.person.Why, "why", "", "why; kept with the decision")
	cmd.Flags().BoolVar(&d.json, "json", false, "print JSON")
	for _, name := range []string{"by", "why"} {
		if err := cmd.MarkFlagRequired(name); err != nil {
			panic("bug: the flag was just added: " + err.Error())
		}
	}
}

// run finds the order and has do decide about it.
func (d *deciding) run(cmd *cobra.Command, e *surroundings, name string, do func(context.Context, *app, uuid.UUID) ([]decided, error)) error {
	a, err := deskApp(cmd.Context(), e)
	if err != nil {
		return err
	}
	defer a.db.Close()
	a.service.Crash, a.service.Calls.Crash = killSelf(d.crashAt), killSelf(d.crashAt)
	id, err := a.orders.Find(cmd.Context(), name)
	if err != nil {
		return err
	}
	all, failed := do(cmd.Context(), a, id) // of several, those before the one that failed were done
	if failed != nil && len(all) == 0 {
		return failed
	}
	if d.json {
		return errors.Join(failed, json.NewEncoder(cmd.OutOrStdout()).Encode(all))
	}
	for _, one := range all {
		one.print(cmd.OutOrStdout())
	}
	return failed
}

// deskApp is the parts of a command that a person gives: it enqueues, and works nothing.
func deskApp(ctx context.Context, e *surroundings) (*app, error) {
	cfg, err := loadConfig(e.getenv, needs{database: true})
	if err != nil {
		return nil, err
	}
	if err := database.Reach(ctx, cfg.DatabaseURL); err != nil {
		return nil, err
	}
	cfg.DBMaxConns = 2
	a, err := newApp(ctx, cfg, deskLog(e.stderr), nil)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(migrations.Check(ctx, a.db.SQL), a.insertOnly()); err != nil {
		a.db.Close()
		return nil, err
	}
	return a, nil
}

// decided is what a decision came to, as it is printed.
type decided struct {
	OrderID     uuid.UUID     `json:"order_id"`
	Number      int64         `json:"number"`
	Action      orders.Action `json:"action"`
	State       orders.State  `json:"state"` // of the order, now
	PaymentID   *uuid.UUID    `json:"payment_id,omitempty"`
	AmountMinor *int64        `json:"amount_minor,omitempty"`
	Currency    *string       `json:"currency,omitempty"`
	By          string        `json:"by"`
	Why         string        `json:"why"`
	Repeat      bool          `json:"repeat"` // it had been decided before; nothing was done
	Sent        *bool         `json:"sent,omitempty"`
	Note        string        `json:"note,omitempty"`
}

func newDecided(d orders.Decided) decided {
	return decided{
		OrderID: d.Order.ID, Number: d.Order.Number, Action: d.Ruling.Action, State: d.Order.State, PaymentID: d.Ruling.PaymentID,
		AmountMinor: d.Ruling.AmountMinor, Currency: d.Ruling.Currency, By: d.Ruling.DecidedBy, Why: d.Ruling.Reason, Repeat: d.Repeat,
	}
}

func (d decided) print(w io.Writer) {
	if d.Repeat {
		_, _ = fmt.Fprintf(w, "Order %d%s. Nothing was done; it is %s.\n", d.Number, d.before(), d.State)
	} else {
		_, _ = fmt.Fprintf(w, "Order %d%s\n", d.Number, d.now())
	}
	if d.Note != "" {
		_, _ = fmt.Fprintln(w, d.Note)
	}
}

// now is what a decision did.
func (d decided) now() string {
	state := ". It is " + string(d.State) + " now."
	switch {
	case d.Action == orders.ActionAccept && d.AmountMinor == nil:
		return ": accepted, though it had been canceled" + state
	case d.Action == orders.ActionAccept:
		return ": " + d.amount() + " accepted" + state
	case d.Action == orders.ActionCancel && d.State == orders.Canceled:
		return " is canceled."
	case d.Action == orders.ActionCancel:
		return ": its cancelation is decided" + state
	case d.Sent != nil && *d.Sent:
		return ": the refund of " + d.amount() + " is sent" + state
	}
	return ": the refund of " + d.amount() + " is decided" + state
}

// before is what had been decided already.
func (d decided) before() string {
	by := " before"
	if d.By != "" {
		by += ", by " + d.By
	}
	switch {
	case d.Action == orders.ActionAccept && d.AmountMinor != nil:
		return ": " + d.amount() + " was accepted" + by
	case d.Action == orders.ActionAccept:
		return " was accepted" + by
	case d.Action == orders.ActionRefund:
		return ": the refund of " + d.amount() + " was decided" + by
	}
	return " was canceled" + by
}

func (d decided) amount() string {
	if d.AmountMinor == nil || d.Currency == nil {
		return "all that is left"
	}
	return money.Amount{Minor: *d.AmountMinor, Currency: money.Currency(*d.Currency)}.String()
}

func newOrdersAccept(e *surroundings) *cobra.Command {
	var d deciding
	cmd := &cobra.Command{
		Use:   "accept ORDER",
		Short: "Take the money that came for an order in review, and fulfill it",
		Long: `accept takes the payment that put an order into review for what was asked for, or forgets that the
order was canceled, and the order is fulfilled. ORDER is an id or a number. It is refused unless the
order is in review; given twice, it does nothing the second time.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return d.run(cmd, e, args[0], func(ctx context.Context, a *app, id uuid.UUID) ([]decided, error) {
				one, err := a.orders.Accept(ctx, id, d.person)
				if err != nil {
					return nil, err
				}
				return []decided{newDecided(one)}, nil
			})
		},
	}
	d.flags(cmd)
	return cmd
}

func newOrdersCancel(e *surroundings) *cobra.Command {
	var d deciding
	cmd := &cobra.Command{
		Use:   "cancel ORDER",
		Short: "Call off an order that has no money, and end its open checkouts",
		Long: `cancel calls an order off and ends its checkouts at the provider, so that nobody can pay it any more.
ORDER is an id or a number. Money that comes all the same puts the order into review. An order that
has money is not canceled but refunded.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return d.run(cmd, e, args[0], func(ctx context.Context, a *app, id uuid.UUID) ([]decided, error) {
				one, err := a.orders.Cancel(ctx, id, d.person)
				if err != nil {
					return nil, err
				}
				return []decided{newDecided(one)}, nil
			})
		},
	}
	d.flags(cmd)
	return cmd
}

func newOrdersRefund(e *surroundings) *cobra.Command {
	var d deciding
	var wish orders.RefundWish
	cmd := &cobra.Command{
		Use:   "refund ORDER",
		Short: "Send money back, once",
		Long: `refund sends back what is left of an order's payment, or a part of it. ORDER is an id or a number.
The payments are read at the provider first. What the order becomes is decided by what the provider
then says: all of it back revokes the licenses, a part changes nothing.

The same command given twice is one refund: its key is made of the payment and the amount. A second
refund of the same amount, or another try after one has failed, needs a --key of its own.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("amount") && wish.AmountMinor <= 0 {
				return &orders.InputError{Field: "amount", Detail: "must be positive, in minor units"}
			}
			return d.run(cmd, e, args[0], func(ctx context.Context, a *app, id uuid.UUID) ([]decided, error) {
				return refundOrder(ctx, a, id, wish, d.person)
			})
		},
	}
	d.flags(cmd)
	cmd.Flags().StringVar(&wish.Payment, "payment", "", "which payment, by any of its ids; needed if several have money")
	cmd.Flags().Int64Var(&wish.AmountMinor, "amount", 0, "a part, in minor units of the currency that was charged; without it all that is left")
	cmd.Flags().BoolVar(&wish.Surplus, "surplus", false, "every payment that pays for nothing since another one pays the order")
	cmd.Flags().StringVar(&wish.Key, "key", "", "tells this refund from an earlier one of the same payment and amount")
	cmd.Flags().StringVar(&d.crashAt, "crash-at", "", "end as by kill -9 at this crash window (docs/crash-windows.md)")
	if err := cmd.Flags().MarkHidden("crash-at"); err != nil {
		panic("bug: the flag was just added: " + err.Error())
	}
	cmd.MarkFlagsMutuallyExclusive("surplus", "payment")
	cmd.MarkFlagsMutuallyExclusive("surplus", "amount")
	return cmd
}

// refundOrder decides, and sends at once what it can: somebody is waiting. What it cannot
// send a worker sends.
func refundOrder(ctx context.Context, a *app, id uuid.UUID, wish orders.RefundWish, p orders.Person) ([]decided, error) {
	if a.stripe == nil {
		return nil, errors.New("STRIPE_SECRET_KEY: is required to refund: the payments are read at Stripe first")
	}
	rulings, err := a.service.Refund(ctx, id, wish, p)
	if err != nil {
		return nil, err
	}
	var all []decided
	for _, ruling := range rulings {
		one := newDecided(ruling)
		sent := a.service.SendRefund(ctx, ruling.Ruling)
		done := sent == nil || errors.Is(sent, fulfillment.ErrNotRead)
		one.Sent = &done
		switch {
		case done && sent != nil:
			one.Note = "The provider has taken it, under the key " + provider.RefundKey(ruling.Ruling.ID) + ". A worker reads what becomes of it: " + sent.Error()
		case done:
			view, err := a.orders.Get(ctx, id)
			if err != nil {
				return all, err
			}
			one.State = view.Order.State
			one.Note = "The provider has taken it, under the key " + provider.RefundKey(ruling.Ruling.ID) + "."
		case errors.Is(sent, provider.ErrRefused):
			return all, fmt.Errorf("order %d: %w; to try again, give a --key that was not used before", one.Number, sent)
		case errors.Is(sent, provider.ErrKeyTooOld):
			return all, fmt.Errorf("order %d: %w, and no refund of it was found: nobody tries it again; look in the provider's dashboard, "+
				"and if it is not there give a --key that was not used before", one.Number, sent)
		default:
			one.Note = "It is not sent yet, and a worker goes on: " + sent.Error()
		}
		all = append(all, one)
	}
	return all, nil
}
