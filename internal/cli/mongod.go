package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/mongo-sandbox/sandbox/internal/embedded"
)

// newMongod is the embedded engine as a process of its own: what the local
// platform starts where it finds no mongod of the version asked for.
func newMongod(a *app) *cobra.Command {
	return &cobra.Command{
		Use:                "mongod --config FILE",
		Short:              "Run the embedded engine, which is not MongoDB (used by the local platform)",
		Hidden:             true,
		DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if code := embedded.Main(cmd.Context(), args, a.console.Out, a.console.Err); code != 0 {
				return fail(code, fmt.Errorf("embedded engine ended with code %d", code), "")
			}
			return nil
		},
	}
}
