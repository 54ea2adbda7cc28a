package main

import "github.com/spf13/cobra"

func newOrders(e *surroundings) *cobra.Command {
	cmd := &cobra.Command{Use: "orders", Short: "What was ordered, and what a person decides about it", Args: cobra.NoArgs, RunE: showHelp}
	cmd.AddCommand(
		newOrdersList(e), newOrdersShow(e), newOrdersAccept(e), newOrdersCancel(e), newOrdersRefund(e), newOrdersEmail(e),
	)
	return cmd
}
