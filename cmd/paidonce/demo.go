package main

import "github.com/spf13/cobra"

func newDemo(*surroundings) *cobra.Command { return &cobra.Command{Use: "demo"} }
