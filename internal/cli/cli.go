// Package cli is the command line: the cobra tree with one file per
// command, the composition of the other packages, and the exit codes.
//
// Arguments and a console go in, an exit code comes out. Commands hold no
// logic of their own beyond choosing what to call and how to show it.
package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/mongo-sandbox/sandbox/internal/console"
)

// app is what every command is given.
type app struct {
	console *console.Console
	version string
	args    []string // the command line, for run records
	// dir is the working directory: state lives in dir/.sandbox, run
	// records in dir/runs.
	dir        string
	environ    []string
	executable string // this program, to start the embedded engine with
	now        func() time.Time
	risk       risk // of ending at once
}

// Main runs one command line and returns its exit code.
func Main(args []string, c *console.Console, version string) int {
	dir, err := os.Getwd()
	if err != nil {
		printError(c, fmt.Errorf("find the working directory: %w", err))
		return exitFailure
	}
	executable, err := os.Executable()
	if err != nil {
		printError(c, fmt.Errorf("find this program: %w", err))
		return exitFailure
	}
	a := &app{console: c, version: version, args: args, dir: dir, environ: os.Environ(), executable: executable, now: time.Now}
	ctx, stop := withInterrupts(context.Background(), c, &a.risk, os.Exit)
	defer stop()
	root := newRoot(a)
	root.SetArgs(doubleDashes(root, args))
	err = root.ExecuteContext(ctx)
	if err == nil && c.OutErr() != nil {
		err = fmt.Errorf("write output: %w", c.OutErr())
	}
	if err != nil {
		printError(c, err)
	}
	return exitCode(err)
}

func newRoot(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:   "sandbox",
		Short: "Compare MongoDB versions, builds and settings under exactly the same commands",
		Long: `sandbox answers one question: how do these MongoDB versions, builds or
settings compare, on identical machines, under exactly the same commands?

One file describes the environment; three commands do the rest:

    sandbox up -var-file env.tfvars
    sandbox bench --sizes 1M,4M,8M
    sandbox down

Long flags work with one dash or two. State lives in .sandbox/ and run
records in runs/, both in the working directory.

` + exitCodesHelp,
		Version:       a.version,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          knownCommand,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetOut(a.console.Out)
	root.SetErr(a.console.Err)
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SuggestionsMinimumDistance = 2
	root.SetHelpCommand(newHelp())
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return fail(exitUsage, flagError(err), fmt.Sprintf("see `%s --help`", cmd.CommandPath()))
	})
	root.AddCommand(
		newPlan(a), newUp(a), newStatus(a), newSSH(a), newBench(a), newReport(a), newCompare(a), newDown(a), newSweep(a),
		newWorkload(a), newMongod(a),
	)
	refuseStrayArguments(root)
	return root
}

// knownCommand refuses words that are no command, naming the nearest.
func knownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		return fmt.Errorf("unknown command %q; did you mean %q?", args[0], near[0])
	}
	return fmt.Errorf("unknown command %q", args[0])
}

// refuseStrayArguments makes cobra's argument errors usage errors.
func refuseStrayArguments(cmd *cobra.Command) {
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			return fail(exitUsage, check(cmd, args), fmt.Sprintf("see `%s --help`", cmd.CommandPath()))
		}
	}
	for _, sub := range cmd.Commands() {
		refuseStrayArguments(sub)
	}
}

// stateRoot holds a folder for the state of every environment.
func (a *app) stateRoot() string { return filepath.Join(a.dir, ".sandbox") }

func (a *app) runsDir() string { return filepath.Join(a.dir, "runs") }

// printJSON writes one value as indented JSON.
func (a *app) printJSON(value any) error {
	enc := json.NewEncoder(a.console.Out)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	if err := enc.Encode(value); err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	return nil
}
