package cli

import (
	"errors"
	"fmt"
	"slices"

	"github.com/mongo-sandbox/sandbox/internal/report"
)

// planRepeats estimates from a run how often it would have to be repeated.
func planRepeats(a *app, o *benchOptions, args []string) error {
	for flag := range o.given {
		if !slices.Contains([]string{"plan-repeats", "json"}, flag) {
			return fail(exitUsage, fmt.Errorf("--%s cannot be given with --plan-repeats", flag), "nothing is run: the plan comes from a run that is there")
		}
	}
	dir, err := a.findRun(args)
	if err != nil {
		return err
	}
	comparison, err := report.Load(dir, report.Options{})
	if err != nil {
		return err
	}
	if len(comparison.Repeats) == 0 {
		return fail(exitUsage, errors.New("the run has no finished cells of two targets: there is no noise to plan with"), "`sandbox bench --resume` goes on with an unfinished run")
	}
	if o.json {
		return report.RenderRepeatsJSON(a.console.Out, comparison)
	}
	return report.RenderRepeats(a.console.Out, comparison, a.textOptions())
}
