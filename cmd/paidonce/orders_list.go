package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"paidonce/fulfillment"
	"paidonce/internal/money"
	"paidonce/orders"
)

// orderEntry is an order in a list.
type orderEntry struct {
	ID             uuid.UUID                   `json:"id"`
	Number         int64                       `json:"number"`
	Email          string                      `json:"email"`
	State          orders.State                `json:"state"`
	ReviewReason   *orders.Reason              `json:"review_reason"`
	Currency       money.Currency              `json:"currency"`
	TotalMinor     int64                       `json:"total_minor"`
	CreatedAt      time.Time                   `json:"created_at"`
	NeedsAttention []fulfillment.AttentionKind `json:"needs_attention"`
}

func newOrderEntry(a fulfillment.OrderAttention) orderEntry {
	o := a.Order
	entry := orderEntry{
		ID: o.ID, Number: o.Number, Email: o.Email, State: o.State, ReviewReason: o.ReviewReason,
		Currency: o.Currency, TotalMinor: o.TotalMinor, CreatedAt: o.CreatedAt, NeedsAttention: []fulfillment.AttentionKind{},
	}
	for _, one := range a.Attention {
		if !slices.Contains(entry.NeedsAttention, one.Kind) {
			entry.NeedsAttention = append(entry.NeedsAttention, one.Kind)
		}
	}
	return entry
}

// orderFlags choose orders.
type orderFlags struct {
	attention bool
	state     string
	email     string
	before    int64
	limit     int
}

func stateList() string {
	var names []string
	for _, s := range orders.States() {
		names = append(names, string(s))
	}
	return strings.Join(names, ", ")
}

func (f *orderFlags) check() error {
	switch {
	case f.state != "" && !slices.Contains(orders.States(), orders.State(f.state)):
		return fmt.Errorf("--state: there is no %q; there are %s", f.state, stateList())
	case f.limit < 0:
		return errors.New("--limit: must not be negative")
	}
	return nil
}

func newOrdersList(e *surroundings) *cobra.Command {
	var flags orderFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List orders, the newest first, with what needs attention",
		Example: `  paidonce orders list --attention
  paidonce orders list --state review
  paidonce orders list --email buyer@example.com`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := flags.check(); err != nil {
				return err
			}
			a, err := deskApp(cmd.Context(), e)
			if err != nil {
				return err
			}
			defer a.db.Close()
			found, total, err := a.listOrders(cmd, flags)
			if err != nil {
				return err
			}
			entries := []orderEntry{}
			for _, one := range found {
				entries = append(entries, newOrderEntry(one))
			}
			if asJSON {
				return printJSON(cmd, entries)
			}
			printOrders(cmd, entries, flags, total)
			return nil
		},
	}
	cmd.Flags().BoolVar(&flags.attention, "attention", false, "only those that need a person")
	cmd.Flags().StringVar(&flags.state, "state", "", "only in this state: "+stateList())
	cmd.Flags().StringVar(&flags.email, "email", "", "only of this buyer")
	cmd.Flags().Int64Var(&flags.before, "before", 0, "the next page: only older than this number")
	cmd.Flags().IntVar(&flags.limit, "limit", listed, "at most so many; 0 for all")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON array")
	return cmd
}

// listOrders are the orders that the flags choose, and how many there are on all pages.
func (a *app) listOrders(cmd *cobra.Command, f orderFlags) ([]fulfillment.OrderAttention, int, error) {
	if f.attention {
		all, err := a.service.NeedingAttention(cmd.Context(), 0)
		if err != nil {
			return nil, 0, err
		}
		all = slices.DeleteFunc(all, func(one fulfillment.OrderAttention) bool {
			return f.state != "" && string(one.Order.State) != f.state || f.email != "" && !strings.EqualFold(one.Order.Email, f.email)
		})
		total := len(all)
		all = slices.DeleteFunc(all, func(one fulfillment.OrderAttention) bool { return f.before > 0 && one.Order.Number >= f.before })
		if f.limit > 0 {
			all = all[:min(len(all), f.limit)]
		}
		return all, total, nil
	}
	list, total, err := a.orders.List(cmd.Context(), orders.ListFilter{State: orders.State(f.state), Email: f.email, Before: f.before, Limit: f.limit})
	if err != nil {
		return nil, 0, err
	}
	var all []fulfillment.OrderAttention
	for _, o := range list {
		attention, err := a.service.Attention(cmd.Context(), o.ID)
		if err != nil {
			return nil, 0, err
		}
		all = append(all, fulfillment.OrderAttention{Order: o, Attention: attention})
	}
	return all, int(total), nil
}

func printOrders(cmd *cobra.Command, entries []orderEntry, f orderFlags, total int) {
	if total == 0 {
		if f.attention {
			cmd.Println("No order needs a person.")
			return
		}
		cmd.Println("No order matches.")
		return
	}
	needing := false
	t := newTable(cmd.OutOrStdout(), "ORDER", "MADE (UTC)", "STATE", "TOTAL", "EMAIL", "NEEDS ATTENTION")
	for _, o := range entries {
		var kinds []string
		for _, kind := range o.NeedsAttention {
			kinds = append(kinds, string(kind))
		}
		needing = needing || len(kinds) > 0
		state := string(o.State)
		if o.ReviewReason != nil {
			state += ": " + string(*o.ReviewReason)
		}
		total := money.Amount{Minor: o.TotalMinor, Currency: o.Currency}
		t.row(strconv.FormatInt(o.Number, 10), at(o.CreatedAt), state, total.String(), o.Email, strings.Join(kinds, ", "))
	}
	t.end()
	cmd.Printf("\n%s in all.", counted(total, "order", "orders"))
	if last := len(entries) - 1; last >= 0 && f.limit > 0 && len(entries) == f.limit && total > f.limit {
		cmd.Printf(" The next page: --before %d.", entries[last].Number)
	}
	if needing {
		cmd.Printf(" What is needed, and how: paidonce orders show ORDER.")
	}
	cmd.Println()
}
