package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mongo-sandbox/sandbox/internal/record"
)

// placementRun is a run like others of its name, made on machines of its own: b
// is as fast as a, but for the machines, which differ by so much.
func placementRun(t testing.TB, number int, machines float64) Input {
	in := forged(t, fmt.Sprintf("placement %d %v", number, machines), func(t testing.TB) Input { return forgePlacement(t, number, machines) })
	in.Run.Targets = slices.Clone(in.Run.Targets)
	for i := range in.Run.Targets {
		x := &in.Run.Targets[i]
		x.Members = slices.Clone(x.Members)
		for k := range x.Members {
			x.Members[k].Settings = maps.Clone(x.Members[k].Settings)
		}
	}
	return in
}

func forgePlacement(t testing.TB, number int, machines float64) Input {
	var f *forge
	targets := []record.Target{f.target("a", "community", "9.0", "9.0.4"), f.target("b", "community", "8.0", "8.0.34")}
	for i := range targets {
		for k := range targets[i].Members {
			m := &targets[i].Members[k]
			m.FCV, m.MachineID = "9.0", fmt.Sprintf("%d-%s", number, m.Name)
		}
	}
	f = newForge(t, targets, []record.Size{{Documents: 1000, Label: "1k", Iterations: 2}, {Documents: 4000, Label: "4k", Iterations: 1}}, 10*time.Second)
	f.window, f.grid, f.between, f.noise = 1, 40, 0.002, 0.01
	f.run.Started = f.run.Started.AddDate(0, 0, number)
	f.run.ID = record.NewID(f.run.Started, f.run.Environment)
	f.run.Settings.OpsPerWorker = 2000
	rng := rand.New(rand.NewPCG(uint64(number), 5))
	for _, size := range []int64{1000, 4000} {
		f.throughput[size] = map[string]float64{
			"a": 9000 * math.Exp(machines*rng.NormFloat64()), "b": 9000 * math.Exp(machines*rng.NormFloat64()),
		}
	}
	f.cpu = map[string]float64{"a": 500, "b": 520}
	f.change = func(cell *record.Cell) {
		cell.CPUUSPerCommand.Primary *= math.Exp(machines / 4 * rng.NormFloat64())
		cell.CPUUSPerCommand.Secondary *= math.Exp(machines / 4 * rng.NormFloat64())
	}
	return f.input()
}

func combined(t testing.TB, o Options, inputs ...Input) *Comparison {
	t.Helper()
	in, err := combine(inputs, nil, o)
	if err != nil {
		t.Fatal(err)
	}
	return build(t, in)
}

func TestPooledPlacements(t *testing.T) {
	c := combined(t, Options{}, placementRun(t, 0, 0.04), placementRun(t, 1, 0.04), placementRun(t, 2, 0.04))
	if c.Placements != 3 || len(c.Targets) != 2 || len(c.Runs) != 3 || c.Runs[2].Placement != 3 || len(c.Missing) != 0 {
		t.Fatalf("%d placements, targets %+v, missing %+v", c.Placements, c.Targets, c.Missing)
	}
	if n := c.Groups[0].Summaries[0].Cells; n != 6 || c.Groups[0].Iterations != 6 || c.Groups[1].Iterations != 3 {
		t.Errorf("%d cells of %+v", n, c.Groups)
	}
	for g := range c.Groups {
		for _, metric := range []string{MetricThroughput, MetricP99, MetricCPUPrimary} {
			d := c.difference(g, "b", metric, AllOperations)
			if d == nil || d.Ratio.Placements != 3 || d.Ratio.WithinRun || !d.Ratio.HasInterval() {
				t.Fatalf("%s: %+v", metric, d)
			}
		}
		if d := c.difference(g, "b", MetricThroughput, AllOperations); d.Ratio.Differs() {
			t.Errorf("machines were taken for a difference: %+v", d.Ratio)
		}
	}
	// In each of the runs alone, or with their iterations taken as equals,
	// they are.
	alone := build(t, placementRun(t, 1, 0.04))
	if d := alone.difference(0, "b", MetricThroughput, AllOperations); d.Ratio.Placements != 0 || !d.Ratio.Differs() {
		t.Errorf("%+v", d.Ratio)
	}
	for _, check := range []string{"Placements", "Repetition", "Settings"} {
		if x := c.check(check); x.Status != OK {
			t.Errorf("%+v", x)
		}
	}
	if len(c.Fairness.Sequences) != 9 || slices.ContainsFunc(c.Fairness.Sequences, func(s Sequence) bool { return !s.Same || s.Commands == 0 }) {
		t.Errorf("%+v", c.Fairness.Sequences)
	}
	if run, iteration := c.pool.origin(1000, 5); run != 2 || iteration != 1 || c.runIteration(4000, 3) != 1 {
		t.Errorf("iteration 5 is %d of run %d", iteration, run)
	}
	golden(t, "pooled.text", render(t, FormatText, c))
	for _, format := range Formats() {
		render(t, format, c)
	}
	text := string(render(t, FormatText, c))
	for _, blind := range []string{"blind to machine-to-machine", "in no interval", "not between the runs"} {
		if strings.Contains(text, blind) {
			t.Errorf("%q is on the page", blind)
		}
	}
	var doc struct {
		Runs  []struct{ Placement int }
		Cells []struct {
			Run       string
			Iteration int
		}
		Targets     []map[string]any
		Comparisons []struct{ Placements int }
	}
	if err := json.Unmarshal(render(t, FormatJSON, c), &doc); err != nil {
		t.Fatal(err)
	}
	last := doc.Cells[len(doc.Cells)-1]
	if doc.Runs[1].Placement != 2 || last.Run != c.Runs[2].Label || last.Iteration != 3 || doc.Comparisons[0].Placements != 3 || doc.Targets[0]["run"] != nil {
		t.Errorf("%+v", doc)
	}
	csv := render(t, FormatCSV, c)
	for i := range c.Runs {
		if n := bytes.Count(csv, []byte("\n"+c.Runs[i].ID)); n != 2*3*8 {
			t.Errorf("%d rows of run %s", n, c.Runs[i].ID)
		}
	}
}

// The records on disk say on which machines they were made.
func TestLoadPooledRuns(t *testing.T) {
	dirs := []string{write(t, placementRun(t, 0, 0.01)), write(t, placementRun(t, 1, 0.01))}
	c, err := LoadRuns(dirs, []string{"x", "y"}, Options{Pool: PoolAlways})
	if err != nil {
		t.Fatal(err)
	}
	if c.Placements != 2 || c.Runs[1].Label != "y" || c.target("b") < 0 || len(c.Missing) != 0 {
		t.Errorf("%d placements, targets %+v, missing %+v", c.Placements, c.Targets, c.Missing)
	}
}

// Two placements have intervals that hold, and the report says how few stand
// behind them.
func TestTwoPlacements(t *testing.T) {
	c := combined(t, Options{Pool: PoolAlways}, placementRun(t, 0, 0.04), placementRun(t, 1, 0.04))
	three := combined(t, Options{}, placementRun(t, 0, 0.04), placementRun(t, 1, 0.04), placementRun(t, 2, 0.04))
	two, more := c.difference(0, "b", MetricThroughput, AllOperations), three.difference(0, "b", MetricThroughput, AllOperations)
	if two.Ratio.Placements != 2 || two.Ratio.Detectable < 1.5*more.Ratio.Detectable {
		t.Errorf("%+v, with three %+v", two.Ratio, more.Ratio)
	}
	if x := c.check("Placements"); x.Status != Caution || !strings.Contains(x.Text, "2 runs on 2 sets of machines") {
		t.Errorf("%+v", x)
	}

	// A size that only one of them finished is blind to machines, and says so.
	b := placementRun(t, 1, 0.04)
	b.Cells = slices.DeleteFunc(b.Cells, func(in CellInput) bool { return in.ID.Size == 1000 })
	c = combined(t, Options{}, placementRun(t, 0, 0.04), b)
	if d := c.difference(0, "b", MetricThroughput, AllOperations); d.Ratio.Placements != 1 {
		t.Errorf("%+v", d.Ratio)
	}
	if text := string(render(t, FormatText, c)); !strings.Contains(text, "of one placement, blind to") {
		t.Error("nothing says that one placement is blind to machines")
	}
	if len(c.Missing) != 4 {
		t.Errorf("%+v", c.Missing)
	}
	if x := c.check("Placements"); x.Status != Caution || !strings.Contains(x.Text, "at 1k some target has cells of one set only") {
		t.Errorf("%+v", x)
	}
	if x := c.check("Repetition"); x.Status != OK || !strings.HasSuffix(x.Text, "from machine to machine but at 1k") {
		t.Errorf("%+v", x)
	}
}

// A target that went down in one run did not in the other.
func TestPooledRunsKeepTheirReasons(t *testing.T) {
	a, b := placementRun(t, 0, 0.04), placementRun(t, 1, 0.04)
	a.Down = map[string]string{"b": "connection refused"}
	unfinished := func(in *Input, keep func(CellInput) bool) {
		in.Cells = slices.DeleteFunc(slices.Clone(in.Cells), func(c CellInput) bool { return !keep(c) })
		in.Run.Finished = nil
	}
	unfinished(&a, func(c CellInput) bool { return c.ID.Target != "b" || c.ID.Size == 1000 })
	unfinished(&b, func(c CellInput) bool { return c.ID.Size == 1000 })
	c := combined(t, Options{}, a, b)
	var got []string
	for _, m := range c.Missing {
		got = append(got, fmt.Sprintf("%s %d: %s", m.Target, m.Iteration, m.Reason))
	}
	want := []string{
		"a 2: not run yet: the run has not finished",
		"b 1: the target was down: connection refused",
		"b 2: not run yet: the run has not finished",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// Rows of the members' form bear the run that they are from.
func TestPooledMembersKeepTheirRun(t *testing.T) {
	inputs := []Input{placementRun(t, 0, 0.04), placementRun(t, 1, 0.04)}
	for i := range inputs {
		inputs[i].Cells = slices.Clone(inputs[i].Cells)
		for k := range inputs[i].Cells {
			cell := &inputs[i].Cells[k]
			cell.Samples = (&forge{t: t}).readings(cell, 1, []memberLoad{{machineCPU: 0.5}, {machineCPU: 0.4}, {machineCPU: 0.3}})
		}
	}
	text, err := MembersCSV(combined(t, Options{}, inputs...))
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]int{}
	for line := range strings.Lines(string(text)) {
		id, _, _ := strings.Cut(line, ",")
		rows[id]++
	}
	if rows[inputs[0].Run.ID] == 0 || rows[inputs[0].Run.ID] != rows[inputs[1].Run.ID] {
		t.Errorf("%v", rows)
	}
}

// Runs on the same machines are iterations of one placement.
func TestRunsOfOnePlacement(t *testing.T) {
	again := placementRun(t, 1, 0)
	for i := range again.Run.Targets {
		for k := range again.Run.Targets[i].Members {
			m := &again.Run.Targets[i].Members[k]
			m.MachineID = "0-" + m.Name
		}
	}
	c := combined(t, Options{}, placementRun(t, 0, 0), again, placementRun(t, 2, 0))
	if c.Placements != 2 || c.Runs[1].Placement != 1 || c.Runs[2].Placement != 2 {
		t.Errorf("%+v", c.Runs)
	}
}

func TestRunsThatMayNotBePooled(t *testing.T) {
	member := func(in *Input) *record.MemberFacts { return &in.Run.Targets[0].Members[1] }
	for want, change := range map[string]func(*Input){
		"version of a: 9.0.4 in 20261106, 9.0.5 in 20261107": func(in *Input) { in.Run.Targets[0].ActualVersion = "9.0.5" },
		"targets: a and b in 20261106, a and c in 20261107":  func(in *Input) { in.Run.Targets[1].Name = "c" },
		"CPU model of a: ": func(in *Input) { member(in).Machine.CPUModel = "another" },
		"setParameter.internalQueryStatsSampleRate of a: 0 in 20261106": func(in *Input) { member(in).Settings["setParameter.internalQueryStatsSampleRate"] = "1" },
		"members of a: 3 in 20261106, 2 in 20261107":                    func(in *Input) { in.Run.Targets[0].Members = in.Run.Targets[0].Members[:2] },
		"write-concern: the server's default in 20261106, 1 in":         func(in *Input) { in.Run.Settings.WriteConcern = "1" },
		"seed: 178477 and 1": func(in *Input) { in.Run.Settings.Seed = 1 },
		"sizes: 1,000 and 4,000 in 20261106, 1,000 in 20261107": func(in *Input) { in.Run.Sizes = in.Run.Sizes[:1] },
		"load host: CPUs: 8 in 20261106, 2 in 20261107":         func(in *Input) { in.Run.LoadHost.CPUs = 2 },
		"run 20261107 does not say on which machines":           func(in *Input) { member(in).MachineID = "" },
		"share some of their machines":                          func(in *Input) { member(in).MachineID = "0-" + member(in).Name },
		"of another sequence at 1,000 documents, iteration 1":   func(in *Input) { in.Cells[0].Cell.SequenceID = "x" },
		"another fingerprint at 1,000 documents, iteration 1":   func(in *Input) { in.Cells[0].Cell.Fingerprint = "x" },
		"iteration 1 from worker 2": func(in *Input) {
			inner := in.Cells[0].Checkpoints
			in.Cells[0].Checkpoints = func() (record.Checkpoints, error) {
				v, err := inner()
				v.Workers = slices.Clone(v.Workers)
				v.Workers[2] = []string{"x", "y"}
				v.Last = nil // which would be equal
				return v, err
			}
		},
	} {
		inputs := []Input{placementRun(t, 0, 0), placementRun(t, 1, 0)}
		change(&inputs[1])
		_, err := combine(inputs, nil, Options{Pool: PoolAlways})
		var request *RequestError
		if !errors.As(err, &request) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
		// Else they are listed apart, with the reason.
		in, err := combine(inputs, nil, Options{})
		if err != nil || in.pool != nil || !slices.ContainsFunc(in.Run.Targets, func(x record.Target) bool { return x.Name == "a@20261106" }) || !strings.Contains(in.notPooled, want) {
			t.Errorf("%+v, %q, want %q (%v)", in.Run.Targets, in.notPooled, want, err)
		}
	}

	same := placementRun(t, 1, 0)
	for i := range same.Run.Targets {
		for k := range same.Run.Targets[i].Members {
			m := &same.Run.Targets[i].Members[k]
			m.MachineID = "0-" + m.Name
		}
	}
	if _, err := combine([]Input{placementRun(t, 0, 0), same}, nil, Options{Pool: PoolAlways}); err == nil || !strings.Contains(err.Error(), "all were made on the same machines") {
		t.Errorf("%v", err)
	}
	c := combined(t, Options{}, placementRun(t, 0, 0), same)
	if text := c.check("Runs").Text; c.Placements != 0 || !strings.Contains(text, "; not pooled: all were made on the same machines") {
		t.Errorf("%d placements, %q", c.Placements, text)
	}
}

// Who asks for the targets of single runs gets them.
func TestAskingForRunsApart(t *testing.T) {
	inputs := []Input{placementRun(t, 0, 0), placementRun(t, 1, 0)}
	for _, o := range []Options{
		{Pool: PoolNever}, {Baseline: "a@20261107"}, {Thresholds: []Threshold{{Metric: MetricMean, Target: "a@20261106", Baseline: "a@20261107"}}},
	} {
		if c := combined(t, o, inputs...); c.Placements != 0 || c.target("b@20261107") < 0 || strings.Contains(c.check("Runs").Text, "not pooled") {
			t.Errorf("%+v: %+v", o, c.Targets)
		}
	}
	in, err := combine(inputs, nil, Options{Pool: PoolAlways, Baseline: "a@20261107"})
	if err != nil {
		t.Fatal(err)
	}
	var request *RequestError
	if _, err := Build(in); !errors.As(err, &request) {
		t.Errorf("%v", err)
	}
}
