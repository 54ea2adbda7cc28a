package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"paidonce/internal/database"
	"paidonce/migrations"
	"paidonce/orders"
)

func newProducts(e *surroundings) *cobra.Command {
	cmd := &cobra.Command{Use: "products", Short: "What is for sale", Args: cobra.NoArgs, RunE: showHelp}
	cmd.AddCommand(newProductsList(e), newProductsActive(e, true), newProductsActive(e, false), &cobra.Command{
		Use:   "import FILE",
		Short: "Insert products, or update those whose sku exists",
		Long: `import reads a JSON list of {"sku","name","unit_minor","currency"}, or CSV with those columns;
"-" reads standard input. unit_minor is in minor units: 1999 is 19.99 usd, and 100 is 100 jpy.
Either the whole file is imported or, with every fault named, none of it. What is imported is for sale,
also if it was taken off before.`,
		Args: cobra.ExactArgs(1),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return []string{"json", "csv"}, cobra.ShellCompDirectiveFilterFileExt
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := loadConfig(e.getenv, needs{database: true})
			if err != nil {
				return err
			}
			in := cmd.InOrStdin()
			if args[0] != "-" {
				file, err := os.Open(args[0])
				if err != nil {
					return err
				}
				defer func() { _ = file.Close() }()
				in = file
			}
			products, err := orders.ReadProducts(in)
			if err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}

			if err := database.Reach(cmd.Context(), cfg.DatabaseURL); err != nil {
				return err
			}
			db, err := database.Open(cmd.Context(), cfg.DatabaseURL, database.Options{MaxConns: 1})
			if err != nil {
				return err
			}
			defer db.Close()
			if err := schemaFor(cmd.Context(), db, cfg.DatabaseURL); err != nil {
				return err
			}
			if err := orders.New(db.Gorm).ImportProducts(cmd.Context(), products); err != nil {
				return err
			}
			table := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			for _, p := range products {
				_, _ = fmt.Fprintf(table, "%s\t%s\t%s\n", p.SKU, p.Unit(), p.Name)
			}
			_ = table.Flush()
			cmd.Printf("Imported: %d.\n", len(products))
			return nil
		},
	})
	return cmd
}

// schemaFor gives an empty database its schema. One that is in use is not migrated on the
// side: that is a deploy's business.
func schemaFor(ctx context.Context, db *database.DB, dsn string) error {
	err := migrations.Check(ctx, db.SQL)
	if errors.Is(err, migrations.ErrEmpty) {
		_, err = migrations.Up(ctx, dsn)
	}
	return err
}
