package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mongo-sandbox/sandbox/internal/record"
	"github.com/mongo-sandbox/sandbox/internal/report"
)

// reportOptions are those of report and compare.
type reportOptions struct {
	format   string
	output   string
	baseline string
	checks   []string
}

const checksHelp = `--check states what has to be proven, and may be repeated:

    ` + report.ThresholdGrammar + `

    --check 'throughput psmdb80 vs mongo9 >= -5%'
    --check 'p99 psmdb80 vs mongo9 <= +10% at 4M'
    --check 'p95 of updateOne psmdb80 vs mongo9 <= +10%'

METRIC is throughput, mean, p50, p95, p99 or p99.9 (latency), cpu (server CPU
per command on the primary) or cpu-secondaries; mean, p50, p95 and p99 also of
one OPERATION type, such as find or updateOne. Latency is recorded by operation
type, not by query shape. PERCENT is the first target's difference from the
second. A check is met when the whole 95 % interval satisfies it, at the size
that is named or at all of them, and missed when none of the interval does.
When the interval has both sides it is not proven, which is not met: the
record has to prove the claim, or the noisiest measurement would pass. An
unfair comparison and a missing cell are not met either. Unless every check
is met, the exit code is 3; the report is written all the same.`

func newReport(a *app) *cobra.Command {
	o := &reportOptions{}
	cmd := &cobra.Command{
		Use:   "report [RUN]",
		Short: "Say what differs, by how much and how sure that is; of the newest run unless one is named",
		Long: `report reads a run record and nothing else: RUN is its folder or its id under
runs/. It says whether the comparison is fair, what differs, by how much and
how sure that is, where and why, and how to repeat it.

--format html is one file with figures, which opens offline. --format md with
-o report.md writes the figures as SVG files into report-figures beside it,
--format csv with -o report.csv what each member did into report-members.csv.
--format json is described in docs/json.md. --format benchstat is the text
format of Go benchmarks, for benchstat -col target.

` + checksHelp,
		Args: cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error { return runReport(a, o, args) },
	}
	o.add(cmd, "report.<format> in the run's folder", "the run's")
	return cmd
}

func (o *reportOptions) add(cmd *cobra.Command, auto, baseline string) {
	flags := cmd.Flags()
	flags.StringVar(&o.format, "format", report.FormatText, strings.Join(report.Formats(), ", "))
	flags.StringVarP(&o.output, "output", "o", "", "write to `FILE` in place of standard output; auto is "+auto)
	flags.StringVar(&o.baseline, "baseline", "", "the `target` that all others are compared with (default: "+baseline+")")
	flags.StringArrayVar(&o.checks, "check", nil, "`claim` that must be proven, else the exit code is 3; may be repeated")
}

// options checks the flags before anything is read.
func (o *reportOptions) options() (report.Options, error) {
	out := report.Options{Baseline: o.baseline}
	if !slices.Contains(report.Formats(), o.format) {
		return out, usagef("--format %s: want %s", o.format, strings.Join(report.Formats(), ", "))
	}
	for _, text := range o.checks {
		threshold, err := report.ParseThreshold(text)
		if err != nil {
			return out, fail(exitUsage, err, "the form is "+report.ThresholdGrammar)
		}
		out.Thresholds = append(out.Thresholds, threshold)
	}
	return out, nil
}

func runReport(a *app, o *reportOptions, args []string) error {
	options, err := o.options()
	if err != nil {
		return err
	}
	dir, err := a.findRun(args)
	if err != nil {
		return err
	}
	comparison, err := report.Load(dir, options)
	if err != nil {
		return requestError(err)
	}
	return a.showReport(o, dir, comparison)
}

// requestError gives what was asked for in vain the exit code of bad input.
func requestError(err error) error {
	var request *report.RequestError
	if errors.As(err, &request) {
		return fail(exitUsage, err, request.Hint)
	}
	return err
}

// showReport writes the report to where it belongs, and then fails if a
// threshold is not met.
func (a *app) showReport(o *reportOptions, dir string, comparison *report.Comparison) error {
	var err error
	switch {
	case o.output != "":
		err = writeReport(a, o, dir, comparison)
	case o.format == report.FormatText:
		err = report.RenderText(a.console.Out, comparison, a.textOptions())
	default:
		switch o.format {
		case report.FormatCSV:
			a.console.Notef("without what the members did; with -o report.csv it is in report-members.csv beside it")
		case report.FormatMarkdown:
			a.console.Notef("without figures; with -o report.md they come as SVG files beside it")
		}
		err = report.Render(a.console.Out, o.format, comparison)
	}
	if err == nil && !comparison.ThresholdsMet() {
		return fail(exitThreshold, fmt.Errorf("not met: %s", comparison.ThresholdSummary()), "")
	}
	return err
}

func (a *app) textOptions() report.TextOptions {
	return report.TextOptions{Color: a.console.Color, Width: a.console.Width}
}

// writeReport writes the report to a file and prints the file's name.
func writeReport(a *app, o *reportOptions, dir string, comparison *report.Comparison) error {
	path := o.output
	if path == "auto" {
		path = filepath.Join(dir, "report."+strings.Replace(o.format, report.FormatText, "txt", 1))
	}
	if o.format == report.FormatMarkdown {
		return writeMarkdown(a, path, comparison)
	}
	file, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	if err := errors.Join(report.Render(file, o.format, comparison), file.Close()); err != nil {
		return fmt.Errorf("write report %s: %w", path, err)
	}
	if o.format == report.FormatCSV {
		if err := writeMembers(a, path, comparison); err != nil {
			return err
		}
	}
	a.console.Printf("%s\n", a.relative(path))
	return nil
}

// writeMembers writes what the members did beside a report in the CSV form:
// report-members.csv, unless none told anything.
func writeMembers(a *app, path string, comparison *report.Comparison) error {
	data, err := report.MembersCSV(comparison)
	if err != nil || data == nil {
		return err
	}
	path = strings.TrimSuffix(path, filepath.Ext(path)) + "-members.csv"
	if err := os.WriteFile(path, data, 0o644); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	a.console.Notef("what the members did in %s", a.relative(path))
	return nil
}

// writeMarkdown writes the report and, into a folder beside it, its figures:
// report.md and report-figures/*.svg.
func writeMarkdown(a *app, path string, comparison *report.Comparison) error {
	name := filepath.Base(path)
	folder := strings.TrimSuffix(name, filepath.Ext(name)) + "-figures"
	text, figures, err := report.MarkdownWithFigures(comparison, folder)
	if err != nil {
		return fmt.Errorf("write report %s: %w", path, err)
	}
	if len(figures) > 0 {
		dir := filepath.Join(filepath.Dir(path), folder)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("write figures: %w", err)
		}
		for _, f := range figures {
			if err := os.WriteFile(filepath.Join(dir, f.Name), f.Data, 0o644); err != nil {
				return fmt.Errorf("write figures: %w", err)
			}
		}
		a.console.Notef("%d figures in %s", len(figures), a.relative(dir))
	}
	if err := os.WriteFile(path, text, 0o644); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	a.console.Printf("%s\n", a.relative(path))
	return nil
}

// findRun is the folder of the run that is named, else of the newest.
func (a *app) findRun(args []string) (string, error) {
	if len(args) == 0 {
		dir, err := record.Newest(a.runsDir(), nil)
		if errors.Is(err, record.ErrNoRun) {
			return "", fail(exitUsage, errors.New("there is no run record in this directory"), "`sandbox bench` makes one")
		}
		return dir, err
	}
	for _, dir := range []string{args[0], filepath.Join(a.runsDir(), args[0])} {
		if info, err := os.Stat(dir); err == nil && info.IsDir() {
			return dir, nil
		}
	}
	return "", fail(exitUsage, fmt.Errorf("there is no run %s", args[0]), "name a folder, or an id under runs/")
}
