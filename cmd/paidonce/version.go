package main

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"paidonce/internal/provider"
	"paidonce/migrations"
)

// version and commit are what the linker is told: -X main.version=v1.2.3 -X main.commit=…
// A build without them falls back on what the Go toolchain noted of the module and its
// repository. They are variables because the linker can set nothing else.
var (
	version string
	commit  string //nolint:gochecknoglobals // both are set by the linker
)

// release is what a person reports with a fault, and what a deploy compares.
type release struct {
	Version string `json:"version"`
	Commit  string `json:"commit"` // "" if the build does not know; "+dirty" at its end: with changes beside it
	Go      string `json:"go"`
	OSArch  string `json:"os_arch"`
	Stripe  string `json:"stripe_api_version"`
	Schema  int64  `json:"schema_version"` // the database is brought to this
}

// releaseOf tells what a binary is, from its build info; nil if it has none.
func releaseOf(build *debug.BuildInfo) release {
	r := release{
		Version: version, Commit: commit, Go: runtime.Version(), OSArch: runtime.GOOS + "/" + runtime.GOARCH,
		Stripe: provider.APIVersion, Schema: migrations.Newest(),
	}
	if build == nil {
		return r
	}
	if r.Version == "" {
		r.Version = build.Main.Version
	}
	if r.Commit == "" {
		noted := map[string]string{}
		for _, s := range build.Settings {
			noted[s.Key] = s.Value
		}
		r.Commit = noted["vcs.revision"]
		if r.Commit != "" && noted["vcs.modified"] == "true" {
			r.Commit += "+dirty"
		}
	}
	return r
}

// thisRelease is this binary's.
func thisRelease() release {
	build, _ := debug.ReadBuildInfo()
	r := releaseOf(build)
	if r.Version == "" {
		r.Version = "(devel)"
	}
	return r
}

// String is the one line of --version.
func (r release) String() string {
	line := "paidonce " + r.Version
	if r.Commit != "" {
		line += " (" + r.Commit + ")"
	}
	return line
}

func newVersion(*surroundings) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print what this binary is: version, commit, API and schema versions",
		Long: `version prints this binary's version and commit, the Go version it was built with, the version of
Stripe's API that it is pinned to, and the version of the database schema that it migrates to.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r := thisRelease()
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(r)
			}
			known := r.Commit
			if known == "" {
				known = "not noted in this build"
			}
			table := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			_, _ = fmt.Fprintf(table, "paidonce\t%s\n  commit\t%s\n  go\t%s %s\n  stripe api\t%s\n  schema\t%d\n",
				r.Version, known, r.Go, r.OSArch, r.Stripe, r.Schema)
			return table.Flush()
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "for programs")
	return cmd
}
