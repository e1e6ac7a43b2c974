package cli

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// doubleDashes rewrites long flags written with one dash, as Terraform users
// type them ("-var-file=x"), to the two dashes that the flag parser knows.
// Only names that the command has as long flags are rewritten, and nothing
// after "--".
func doubleDashes(root *cobra.Command, args []string) []string {
	cmd, _, err := root.Find(withoutFlags(args))
	if err != nil {
		cmd = root
	}
	known := func(name string) bool {
		find := func(flags *pflag.FlagSet) bool { return flags.Lookup(name) != nil }
		return find(cmd.Flags()) || find(cmd.InheritedFlags()) || find(cmd.PersistentFlags()) || name == "help" || name == "version"
	}
	out := make([]string, 0, len(args))
	for i, arg := range args {
		if arg == "--" {
			return append(out, args[i:]...)
		}
		if len(arg) > 2 && arg[0] == '-' && arg[1] != '-' {
			if name, _, _ := strings.Cut(arg[1:], "="); known(name) {
				arg = "-" + arg
			}
		}
		out = append(out, arg)
	}
	return out
}

// withoutFlags keeps the words that may name a command.
func withoutFlags(args []string) []string {
	var words []string
	for _, arg := range args {
		if arg == "--" {
			break
		}
		if !strings.HasPrefix(arg, "-") {
			words = append(words, arg)
		}
	}
	return words
}
