package cli

import (
	"github.com/spf13/cobra"

	"github.com/mongo-sandbox/sandbox/internal/bench"
)

// newBenchJob is the load host's half of a bench that runs there: bench's own
// subcommand, since nobody else calls it.
func newBenchJob(a *app) *cobra.Command {
	return &cobra.Command{
		Use:    "job FILE",
		Short:  "Make the run that a job file describes (started by bench on the load host)",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return bench.RunJob(cmd.Context(), args[0], a.tool(), newRunner(), a.console.Out)
		},
	}
}

// newRunner makes the load in this process.
func newRunner() *bench.InProcess { return &bench.InProcess{AppName: "sandbox bench"} }
