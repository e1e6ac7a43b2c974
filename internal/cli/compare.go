package cli

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mongo-sandbox/sandbox/internal/report"
)

type compareOptions struct {
	reportOptions
	labels []string
	pool   string
}

func newCompare(a *app) *cobra.Command {
	o := &compareOptions{}
	cmd := &cobra.Command{
		Use:   "compare RUN RUN [RUN...]",
		Short: "Put several runs side by side, or pool them: did the upgrade change anything, does it hold on other machines?",
		Long: `compare reads run records and nothing else; a RUN is a folder or an id under
runs/. It writes the report of report, over the sizes that the runs have in
common. A target that several runs have becomes one per run, NAME@LABEL, and
is compared with that of the first run; --baseline NAME@LABEL compares all
with one. The labels are what tells the runs' ids apart, or --label.

Targets are put side by side only where fingerprints prove that they were sent
the same commands; other settings that differ are named. What differs between
days and machines is then in no interval.

It is when the runs are repetitions of one, each on machines that were made
anew (down, up, bench): the same targets, versions, settings, commands and
kinds of machine. Such runs are pooled: a target stays one, and its intervals
cover placement, iteration and window. Two placements give intervals that hold
and are wide; five are much better. --pool always refuses runs that may not be
pooled, with the reason; --pool never lists them apart, as does asking for a
NAME@LABEL.

` + checksHelp,
		Args: cobra.MinimumNArgs(2),
		RunE: func(_ *cobra.Command, args []string) error { return runCompare(a, o, args) },
	}
	o.add(cmd, "compare.<format> in this folder", "that of the same name in the first run")
	cmd.Flags().StringSliceVar(&o.labels, "label", nil, "`name` of a run in the report; once for every run, in their order")
	cmd.Flags().StringVar(&o.pool, "pool", report.PoolAuto, "take the runs as repetitions of one: "+strings.Join(poolModes(), ", "))
	return cmd
}

func poolModes() []string { return []string{report.PoolAuto, report.PoolAlways, report.PoolNever} }

func runCompare(a *app, o *compareOptions, args []string) error {
	options, err := o.options()
	if err != nil {
		return err
	}
	if !slices.Contains(poolModes(), o.pool) {
		return usagef("--pool %s: want %s", o.pool, strings.Join(poolModes(), ", "))
	}
	options.Pool = o.pool
	dirs := make([]string, len(args))
	for i, arg := range args {
		if dirs[i], err = a.findRun(args[i : i+1]); err != nil {
			return err
		}
		for k := range i {
			if same(dirs[i], dirs[k]) {
				return fail(exitUsage, fmt.Errorf("run %s is there twice", arg), "name different runs")
			}
		}
	}
	comparison, err := report.LoadRuns(dirs, o.labels, options)
	if err != nil {
		var request *report.RequestError
		if !errors.As(err, &request) {
			return fail(exitUsage, err, "leave the run out")
		}
		return requestError(err)
	}
	if o.output == "auto" {
		o.output = "compare." + strings.Replace(o.format, report.FormatText, "txt", 1)
	}
	return a.showReport(&o.reportOptions, "", comparison)
}

// same tells whether two paths are one folder.
func same(a, b string) bool {
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	return errX == nil && errY == nil && os.SameFile(x, y)
}
