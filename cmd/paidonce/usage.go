package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// explainUsage has every command say what was wrong with its arguments: which one is missing,
// or is one too many, and where to read on.
func explainUsage(cmd *cobra.Command) {
	if accepts := cmd.Args; accepts != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if accepts(cmd, args) == nil {
				return nil
			}
			return wrongArguments(cmd, args)
		}
	}
	for _, sub := range cmd.Commands() {
		explainUsage(sub)
	}
}

// wrongArguments names the argument that is missing or too many, by the words of cmd.Use. An
// argument in brackets may be left out.
func wrongArguments(cmd *cobra.Command, args []string) error {
	names := strings.Fields(cmd.Use)[1:]
	switch {
	case cmd.HasSubCommands():
		return unknownCommand(cmd, args[0])
	case len(args) < len(names):
		return fmt.Errorf("%s is missing: %s; see: %s --help", names[len(args)], cmd.UseLine(), cmd.CommandPath())
	case len(names) == 0:
		return fmt.Errorf("%s takes no argument, and was given %q; see: %s --help", cmd.CommandPath(), args[0], cmd.CommandPath())
	}
	return fmt.Errorf("%q is one argument too many: %s; see: %s --help", args[len(names)], cmd.UseLine(), cmd.CommandPath())
}

// maxTypos is how many letters a misspelt command may be away from the one that was meant.
const maxTypos = 2

func unknownCommand(cmd *cobra.Command, name string) error {
	cmd.SuggestionsMinimumDistance = maxTypos
	hint := ""
	if like := cmd.SuggestionsFor(name); len(like) > 0 {
		hint = " (did you mean " + strings.Join(like, " or ") + "?)"
	}
	return fmt.Errorf("there is no command %q%s; see: %s --help", cmd.CommandPath()+" "+name, hint, cmd.CommandPath())
}

// wrongFlag names the flag, what it was given, and what it takes.
func wrongFlag(cmd *cobra.Command, err error) error {
	var invalid *pflag.InvalidValueError
	if errors.As(err, &invalid) {
		return fmt.Errorf("--%s: %w", invalid.GetFlag().Name, wrongValue(invalid))
	}
	return fmt.Errorf("%w; see: %s --help", err, cmd.CommandPath())
}

// wrongValue says what a flag takes. A flag with a type of its own says so itself.
func wrongValue(invalid *pflag.InvalidValueError) error {
	given, cause := invalid.GetValue(), invalid.Unwrap()
	wanted := map[string]string{
		"int": "a whole number", "int64": "a whole number", "duration": "a duration, like 90s, 5m or 36h", "bool": "true or false",
	}[invalid.GetFlag().Value.Type()]
	switch {
	case errors.Is(cause, strconv.ErrRange):
		return fmt.Errorf("%s is too large a number", given)
	case wanted != "":
		return fmt.Errorf("%q is not %s", given, wanted)
	}
	return cause
}
