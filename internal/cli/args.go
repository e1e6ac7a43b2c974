package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// doubleDashes rewrites long flags written with one dash, as Terraform users
// type them ("-var-file=x"), to the two dashes that the flag parser knows.
// Only names that some command has as long flags are rewritten, wherever the
// command stands among them, and nothing after "--".
func doubleDashes(root *cobra.Command, args []string) []string {
	names := map[string]bool{"help": true, "version": true}
	addLongFlags(root, names)
	out := make([]string, 0, len(args))
	for i, arg := range args {
		if arg == "--" {
			return append(out, args[i:]...)
		}
		if len(arg) > 2 && arg[0] == '-' && arg[1] != '-' {
			if name, _, _ := strings.Cut(arg[1:], "="); names[name] {
				arg = "-" + arg
			}
		}
		out = append(out, arg)
	}
	return out
}

// addLongFlags adds the names of the flags of a command and of those below.
func addLongFlags(cmd *cobra.Command, names map[string]bool) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) { names[f.Name] = true })
	for _, sub := range cmd.Commands() {
		addLongFlags(sub, names)
	}
}

// flagError says what is wrong with a flag in the words of the command line
// rather than of the flag parser.
func flagError(err error) error {
	var unknown *pflag.NotExistError
	var value *pflag.InvalidValueError
	switch {
	case errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() != "":
		return fmt.Errorf("unknown flag: -%s", unknown.GetSpecifiedShortnames())
	case errors.As(err, &value) && wanted(value.GetFlag().Value.Type()) != "":
		return fmt.Errorf("--%s %s: want %s", value.GetFlag().Name, value.GetValue(), wanted(value.GetFlag().Value.Type()))
	}
	return err
}

// wanted is what a value of a flag's type looks like; "" if the type's own
// words say it.
func wanted(kind string) string {
	switch kind {
	case "bool":
		return "true or false"
	case "duration":
		return "a duration such as 30s or 10m"
	case "float64":
		return "a number"
	case "int", "int64":
		return "a whole number"
	case "uint64":
		return "a whole number from 0"
	}
	return ""
}
