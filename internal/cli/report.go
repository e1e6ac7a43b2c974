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

type reportOptions struct {
	format string
	output string
}

func newReport(a *app) *cobra.Command {
	o := &reportOptions{}
	cmd := &cobra.Command{
		Use:   "report [RUN]",
		Short: "Say what differs, by how much and how sure that is; of the newest run unless one is named",
		Long: `report reads a run record and nothing else: RUN is its folder or its id under
runs/. It says whether the comparison is fair, what differs, by how much and
how sure that is, where and why, and how to repeat it.

--format html is one file with figures, which opens offline. --format md with
-o report.md writes the figures as SVG files into report-figures beside it.
--format json is described in docs/json.md. --format benchstat is the text
format of Go benchmarks, for benchstat -col target.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error { return runReport(a, o, args) },
	}
	cmd.Flags().StringVar(&o.format, "format", report.FormatText, strings.Join(report.Formats(), ", "))
	cmd.Flags().StringVarP(&o.output, "output", "o", "", "write to `FILE` in place of standard output; auto is report.<format> in the run's folder")
	return cmd
}

func runReport(a *app, o *reportOptions, args []string) error {
	if !slices.Contains(report.Formats(), o.format) {
		return usagef("--format %s: want %s", o.format, strings.Join(report.Formats(), ", "))
	}
	dir, err := a.findRun(args)
	if err != nil {
		return err
	}
	comparison, err := report.Load(dir)
	if err != nil {
		return err
	}
	switch {
	case o.output != "":
		return writeReport(a, o, dir, comparison)
	case o.format == report.FormatText:
		return report.RenderText(a.console.Out, comparison, report.TextOptions{Color: a.console.Color, Width: a.console.Width})
	default:
		if o.format == report.FormatMarkdown {
			a.console.Notef("without figures; with -o report.md they come as SVG files beside it")
		}
		return report.Render(a.console.Out, o.format, comparison)
	}
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
	a.console.Printf("%s\n", a.relative(path))
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
