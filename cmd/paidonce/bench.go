package main

import "github.com/spf13/cobra"

func newBench(e *surroundings) *cobra.Command {
	return &cobra.Command{Use: "bench"}
}
