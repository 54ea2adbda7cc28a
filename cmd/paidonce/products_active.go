package main

import (
	"time"

	"github.com/spf13/cobra"

	"paidonce/internal/money"
)

// productEntry is a product in a list.
type productEntry struct {
	SKU       string         `json:"sku"`
	Name      string         `json:"name"`
	UnitMinor int64          `json:"unit_minor"`
	Currency  money.Currency `json:"currency"`
	Active    bool           `json:"active"`
	UpdatedAt time.Time      `json:"updated_at"`
}

func newProductsList(e *surroundings) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List what there is, and whether it is for sale",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			a, err := deskApp(cmd.Context(), e)
			if err != nil {
				return err
			}
			defer a.db.Close()
			products, err := a.orders.Products(cmd.Context())
			if err != nil {
				return err
			}
			entries := []productEntry{}
			for _, p := range products {
				entries = append(entries, productEntry{p.SKU, p.Name, p.UnitMinor, p.Currency, p.Active, p.UpdatedAt})
			}
			if asJSON {
				return printJSON(cmd, entries)
			}
			if len(entries) == 0 {
				cmd.Println("There are no products. Bring some in: paidonce products import FILE")
				return nil
			}
			t := newTable(cmd.OutOrStdout(), "SKU", "PRICE", "FOR SALE", "NAME")
			for _, p := range products {
				forSale := "no"
				if p.Active {
					forSale = "yes"
				}
				t.row(p.SKU, p.Unit().String(), forSale, p.Name)
			}
			t.end()
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON array")
	return cmd
}

// newProductsActive is the command that puts products up for sale, or the one that takes them
// off.
func newProductsActive(e *surroundings, active bool) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "activate SKU…",
		Short: "Put products up for sale again",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, skus []string) error {
			a, err := deskApp(cmd.Context(), e)
			if err != nil {
				return err
			}
			defer a.db.Close()
			if err := a.orders.SetActive(cmd.Context(), active, skus...); err != nil {
				return err
			}
			state := "for sale"
			if !active {
				state = "not for sale any more; orders that were made keep it"
			}
			for _, sku := range skus {
				cmd.Printf("%s is %s.\n", plain(sku), state)
			}
			return nil
		},
	}
	if !active {
		cmd.Use, cmd.Short = "deactivate SKU…", "Take products off sale"
	}
	return cmd
}
