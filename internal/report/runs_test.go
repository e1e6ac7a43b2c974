package report

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mongo-sandbox/sandbox/internal/record"
)

// week is a run of a and b, made some days later; its a is as much faster as
// factor says.
func week(t testing.TB, days int, factor float64) Input {
	var f *forge
	targets := []record.Target{f.target("a", "community", "9.0", "9.0.4"), f.target("b", "community", "8.0", "8.0.34")}
	f = newForge(t, targets, []record.Size{{Documents: 1000, Label: "1k", Iterations: 3}, {Documents: 4000, Label: "4k", Iterations: 2}}, 10*time.Second)
	f.window = 1
	f.grid = 40
	f.run.Started = f.run.Started.AddDate(0, 0, days)
	f.run.ID = record.NewID(f.run.Started, f.run.Environment)
	f.run.Settings.OpsPerWorker = 2000
	f.throughput = map[int64]map[string]float64{
		1000: {"a": 9000 * factor, "b": 8000}, 4000: {"a": 7000 * factor, "b": 6000},
	}
	return f.input()
}

func joined(t testing.TB, labels []string, inputs ...Input) Input {
	t.Helper()
	in, err := Join(inputs, labels)
	if err != nil {
		t.Fatal(err)
	}
	return in
}

func TestCompareRuns(t *testing.T) {
	c := build(t, joined(t, nil, week(t, 0, 1), week(t, 7, 1.2)))
	var names []string
	for i := range c.Targets {
		names = append(names, c.Targets[i].Name+" < "+c.Targets[i].Baseline)
	}
	want := []string{"a@20261106 < ", "a@20261113 < a@20261106", "b@20261106 < ", "b@20261113 < b@20261106"}
	if !slices.Equal(names, want) {
		t.Fatalf("targets %q, want %q", names, want)
	}
	if d := c.difference(0, "a@20261113", MetricThroughput, AllOperations); d == nil || math.Abs(d.Ratio.Value-1.2) > 0.02 || !d.Ratio.Differs() {
		t.Errorf("%+v", d)
	}
	if d := c.difference(1, "b@20261113", MetricThroughput, AllOperations); d == nil || d.Baseline != "b@20261106" || d.Ratio.Differs() {
		t.Errorf("%+v", d)
	}
	for _, s := range c.Fairness.Sequences {
		if !s.Same || s.Commands == 0 {
			t.Errorf("%+v", s)
		}
	}
	if check := c.check("Runs"); check.Status != Caution || !strings.Contains(check.Text, "began 168 h apart") {
		t.Errorf("%+v", check)
	}
	if check := c.check("Settings"); check.Status != OK {
		t.Errorf("%+v", check)
	}
	if !c.Fairness.Fair {
		t.Errorf("%+v", c.Fairness.Checks)
	}
	golden(t, "compared.text", render(t, FormatText, c))
	for _, format := range Formats() {
		render(t, format, c)
	}

	// One run's numbers are the same beside another's.
	alone := build(t, week(t, 0, 1))
	for _, s := range alone.Groups[0].Summaries {
		if i := c.target(s.Target + "@20261106"); !reflect.DeepEqual(c.Groups[0].Summaries[i].LatencyMS, s.LatencyMS) {
			t.Errorf("%s: %+v", s.Target, c.Groups[0].Summaries[i])
		}
	}
}

func TestCompareWithOneBaseline(t *testing.T) {
	in := joined(t, []string{"before", "after"}, week(t, 0, 1), week(t, 7, 1))
	in.Options.Baseline = "b@" + in.Runs[1].ID // the id will do as well
	c := build(t, in)
	if c.Baseline != "b@after" {
		t.Fatalf("baseline %s", c.Baseline)
	}
	for i := range c.Targets {
		if x := &c.Targets[i]; x.Name != c.Baseline && x.Baseline != c.Baseline {
			t.Errorf("%s is compared with %s", x.Name, x.Baseline)
		}
	}
	in.Options.Baseline = "b@aftr"
	var request *RequestError
	if _, err := Build(in); !errors.As(err, &request) || !strings.Contains(err.Error(), "did you mean b@after?") {
		t.Errorf("%v", err)
	}
}

func TestOnlyWhatRunsHaveInCommon(t *testing.T) {
	a, b := week(t, 0, 1), week(t, 1, 1)
	b.Run.Sizes = slices.Clone(b.Run.Sizes)
	b.Run.Sizes[0] = record.Size{Documents: 1000, Label: "1k", Iterations: 1}
	b.Run.Sizes[1] = record.Size{Documents: 8000, Label: "8k", Iterations: 1}
	b.Run.Targets = slices.Clone(b.Run.Targets)
	b.Run.Targets[1].Name = "c"
	b.Cells = slices.DeleteFunc(b.Cells, func(in CellInput) bool { return in.ID.Iteration > 1 })
	for i := range b.Cells {
		if id := &b.Cells[i].ID; id.Target == "b" {
			id.Target = "c"
		}
		if id := &b.Cells[i].ID; id.Size == 4000 {
			id.Size = 8000
		}
	}
	c := build(t, joined(t, nil, a, b))
	var names []string
	for i := range c.Targets {
		names = append(names, c.Targets[i].Name+" < "+c.Targets[i].Baseline)
	}
	if want := []string{"a@20261106 < ", "a@20261107 < a@20261106", "b < a@20261106", "c < a@20261106"}; !slices.Equal(names, want) {
		t.Errorf("%q", names)
	}
	if len(c.Groups) != 1 || c.Groups[0].Size != 1000 || len(c.Missing) != 0 {
		t.Errorf("%+v, missing %+v", c.Groups, c.Missing)
	}
	warnings := strings.Join(c.Warnings, "\n")
	for _, want := range []string{"run 20261106: 4,000 documents left out", "run 20261107: 8,000 documents left out"} {
		if !strings.Contains(warnings, want) {
			t.Errorf("%q is not in %q", want, warnings)
		}
	}
}

func TestWhatDiffersBetweenRunsIsNamed(t *testing.T) {
	a, b := week(t, 0, 1), week(t, 1, 1)
	b.Run.Settings.WriteConcern, b.Run.Settings.Duration = "1", 20*time.Second
	b.Run.LoadHost.CPUs = 2
	b.Run.Targets = slices.Clone(b.Run.Targets)
	b.Run.Targets[0] = (*forge)(nil).target("a", "community", "9.0", "9.0.5")
	c := build(t, joined(t, []string{"x", "y"}, a, b))
	if check := c.check("Settings"); check.Status != Caution || !strings.Contains(check.Text, "write-concern: the server's default in x and 1 in y") || !strings.Contains(check.Text, "duration: 10 s in x and 20 s in y") {
		t.Errorf("%+v", check)
	}
	causes := map[string]Cause{}
	for _, p := range c.Fairness.Parity {
		causes[p.Fact] = p.Cause
	}
	if causes["load host: CPUs"] != CauseEnvironment || causes["version"] != CauseVersion || causes["git version"] != CauseVersion {
		t.Errorf("%v", causes)
	}
	if c.Fairness.Fair {
		t.Error("fair with another load host")
	}

	b = week(t, 1, 1)
	b.Run.Settings.Rate = 100
	if check := build(t, joined(t, nil, a, b)).check("Settings"); check.Status != Unfair {
		t.Errorf("%+v", check)
	}

	// Other commands are never put side by side.
	b = week(t, 1, 1)
	b.Run.Settings.Seed = 1
	for i := range b.Cells {
		b.Cells[i].Cell.SequenceID = digest("another", b.Cells[i].ID.Size, b.Cells[i].ID.Iteration)
	}
	c = build(t, joined(t, []string{"x", "y"}, a, b))
	if len(c.Differences) != 0 {
		t.Errorf("%d differences", len(c.Differences))
	}
	if check := c.check("Commands"); check.Status != Unfair || !strings.Contains(check.Text, "seed: 178477 and 1") {
		t.Errorf("%+v", check)
	}

	// Nor is the stand-in called fair beside MongoDB.
	b = week(t, 1, 1)
	b.Run.Engine = record.EngineEmbedded
	b.Run.Targets = slices.Clone(b.Run.Targets)
	for i := range b.Run.Targets {
		b.Run.Targets[i].Engine = record.EngineEmbedded
	}
	c = build(t, joined(t, nil, a, b))
	if check := c.check("Engine"); check.Status != Unfair || c.Fairness.Fair || len(c.Banner()) == 0 {
		t.Errorf("%+v", check)
	}
}

func TestRunsThatCannotBeCompared(t *testing.T) {
	unfinished := week(t, 1, 1)
	for i := range unfinished.Cells {
		unfinished.Cells[i].Status, unfinished.Cells[i].Cell = record.Partial, nil
	}
	other := week(t, 1, 1)
	for i := range other.Cells {
		other.Cells[i].ID.Size += 7
	}
	for name, test := range map[string]struct {
		inputs []Input
		labels []string
		want   string
	}{
		"one":            {[]Input{week(t, 0, 1)}, nil, "one run"},
		"twice":          {[]Input{week(t, 0, 1), week(t, 0, 1)}, nil, "run 20261106-093000-mongodb-9-first-look is there twice"},
		"unfinished":     {[]Input{week(t, 0, 1), unfinished}, nil, "run 20261107-093000-mongodb-9-first-look has no finished cell"},
		"other sizes":    {[]Input{week(t, 0, 1), other}, nil, "no size in common: 20261106-093000-mongodb-9-first-look has 1,000 documents and 4,000 documents; 2"},
		"one apart":      {[]Input{week(t, 0, 1), week(t, 2, 1), other}, nil, "run 20261107-093000-mongodb-9-first-look has no size in common with another"},
		"a label short":  {[]Input{week(t, 0, 1), week(t, 1, 1)}, []string{"x"}, "1 labels for 2 runs"},
		"equal labels":   {[]Input{week(t, 0, 1), week(t, 1, 1)}, []string{"x", "x"}, `label "x" is there twice`},
		"a label's form": {[]Input{week(t, 0, 1), week(t, 1, 1)}, []string{"x", "a b"}, `label "a b"`},
	} {
		_, err := Join(test.inputs, test.labels)
		var request *RequestError
		if !errors.As(err, &request) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
}

func TestShortLabels(t *testing.T) {
	for _, test := range [][2][]string{
		{{"20261106-093000-x", "20261113-093000-x"}, {"20261106", "20261113"}},
		{{"20261106-093000-x", "20261106-101500-x"}, {"093000", "101500"}},
		{{"20261106-093000-x", "20261106-093000-x-2"}, {"x", "x-2"}},
		{{"20261106-093000-x", "20261106-093000-y", "20261107-093000-x"}, {"20261106-093000-x", "20261106-093000-y", "20261107-093000-x"}},
		{{"a", "b"}, {"a", "b"}},
		{{"", "b"}, {"", "b"}},
	} {
		if got := shortLabels(test[0]); !slices.Equal(got, test[1]) {
			t.Errorf("%q: %q, want %q", test[0], got, test[1])
		}
	}
}

// Files of different runs have the same names: damage says whose it is.
func TestLoadRuns(t *testing.T) {
	dirs := []string{write(t, week(t, 0, 1)), write(t, week(t, 1, 1))}
	file := filepath.Join(dirs[1], "cells", "b_1000_default_1_1", "windows.ndjson")
	if err := os.WriteFile(file, []byte("{\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	c, err := LoadRuns(dirs, []string{"x", "y"}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if text := strings.Join(c.Warnings, "\n"); !strings.Contains(text, "damaged: run y: read cells/b_1000_default_1_1/windows.ndjson") {
		t.Errorf("%q", text)
	}
	if _, err := LoadRuns([]string{dirs[0], t.TempDir()}, nil, Options{}); err == nil {
		t.Error("a folder without a record was compared")
	}
}

// Files of different runs have the same names: damage says of which run.
func TestDamageOfRunsIsLabelled(t *testing.T) {
	a, b := week(t, 0, 1), week(t, 7, 1)
	b.Cells[0].Samples = func(yield func(record.Sample, error) bool) {
		yield(record.Sample{}, errors.New("members.ndjson: line 2"))
	}
	warnings := strings.Join(build(t, joined(t, nil, a, b)).Warnings, "\n")
	if !strings.Contains(warnings, "run 20261113: members.ndjson: line 2") {
		t.Errorf("%q", warnings)
	}
}
