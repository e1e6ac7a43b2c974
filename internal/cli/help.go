package cli

import (
	"github.com/spf13/cobra"
)

// newHelp is cobra's help command, but for a word that is no command: that
// is bad usage.
func newHelp() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Help about any command",
		RunE: func(cmd *cobra.Command, args []string) error {
			found, rest, err := cmd.Root().Find(args)
			if err == nil {
				found.SuggestionsMinimumDistance = cmd.Root().SuggestionsMinimumDistance
				err = knownCommand(found, rest)
			}
			if err != nil {
				return fail(exitUsage, err, "see `sandbox --help`")
			}
			found.InitDefaultHelpFlag()
			return found.Help()
		},
	}
}
