package main

import (
	"context"
	"fmt"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"paidonce/internal/database"
	"paidonce/migrations"
)

func newMigrate(e *surroundings) *cobra.Command {
	cmd := &cobra.Command{Use: "migrate", Short: "Move the database's schema", Args: cobra.NoArgs, RunE: showHelp}
	cmd.AddCommand(
		&cobra.Command{
			Use: "up", Short: "Apply every pending migration", Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				cfg, err := loadConfig(e.getenv, needs{database: true})
				if err != nil {
					return err
				}
				if err := readyDatabase(cmd.Context(), cfg, newLog(e.stderr), migrations.Connections); err != nil {
					return err
				}
				applied, err := migrations.Up(cmd.Context(), cfg.DatabaseURL)
				if err != nil {
					return err
				}
				for _, m := range applied {
					cmd.Printf("applied  %05d  %s\n", m.Version, m.Name)
				}
				cmd.Printf("The database is at version %d.\n", migrations.Newest())
				return nil
			},
		},
		&cobra.Command{
			Use: "status", Short: "List the migrations and when they were applied", Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				cfg, err := loadConfig(e.getenv, needs{database: true})
				if err != nil {
					return err
				}
				if err := database.Reach(cmd.Context(), cfg.DatabaseURL); err != nil {
					return err
				}
				all, err := migrations.Status(cmd.Context(), cfg.DatabaseURL)
				if err != nil {
					return err
				}
				table := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
				for _, m := range all {
					applied := "pending"
					if !m.AppliedAt.IsZero() {
						applied = "applied " + m.AppliedAt.UTC().Format("2006-01-02 15:04:05 UTC")
					}
					_, _ = fmt.Fprintf(table, "%05d\t%s\t%s\n", m.Version, m.Name, applied)
				}
				return table.Flush()
			},
		},
		newMigrateDown(e),
	)
	return cmd
}

func newMigrateDown(e *surroundings) *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use: "down", Short: "Take back the newest migration, with the data in its tables", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := loadConfig(e.getenv, needs{database: true})
			if err != nil {
				return err
			}
			if err := database.Reach(cmd.Context(), cfg.DatabaseURL); err != nil {
				return err
			}
			if err := mayTakeBack(cmd.Context(), cfg.DatabaseURL, yes); err != nil {
				return err
			}
			undone, err := migrations.Down(cmd.Context(), cfg.DatabaseURL)
			if err != nil {
				return err
			}
			if undone == nil {
				cmd.Println("There is nothing to take back.")
				return nil
			}
			cmd.Printf("took back  %05d  %s\n", undone.Version, undone.Name)
			return nil
		},
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "really: what is in the migration's tables and columns is lost")
	return cmd
}

// mayTakeBack refuses to lose data that nobody said may go, and names what it would be.
func mayTakeBack(ctx context.Context, dsn string, yes bool) error {
	if yes {
		return nil
	}
	all, err := migrations.Status(ctx, dsn)
	if err != nil {
		return err
	}
	for _, m := range slices.Backward(all) {
		if !m.AppliedAt.IsZero() {
			return fmt.Errorf("down would take back migration %05d %s, and every row in its tables is lost; dump the database, then give --yes", m.Version, m.Name)
		}
	}
	return nil
}
