package report

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mongo-sandbox/sandbox/internal/record"
)

// In an open loop a target that queues answers each command as fast as ever:
// only its response time tells.
func TestResponseTimes(t *testing.T) {
	in := published(t)
	in.Run.Settings.Rate = 4000
	in.Run.CommandLine = commandLine(&in.Run)
	for i := range in.Cells {
		cell := *in.Cells[i].Cell
		factor := 2.0
		if cell.Target == "psmdb83" {
			factor = 50
		}
		l := cell.LatencyMS
		cell.ResponseMS = &record.Latency{Mean: factor * l.Mean, P50: factor * l.P50, P95: factor * l.P95, P99: factor * l.P99, P999: factor * l.P999, Max: factor * l.Max}
		in.Cells[i].Cell = &cell
	}
	c := build(t, in)
	for g := range c.Groups {
		for i := range c.Groups[g].Summaries {
			s := &c.Groups[g].Summaries[i]
			want := 2.0
			if s.Target == "psmdb83" {
				want = 50
			}
			if s.ResponseMS == nil || s.ResponseMS.Mean/s.LatencyMS.Mean < 0.99*want || s.ResponseMS.Mean/s.LatencyMS.Mean > 1.01*want {
				t.Errorf("%s at %s: response %v, service %v", s.Target, c.Groups[g].Label, s.ResponseMS, s.LatencyMS)
			}
		}
	}
	table := c.responseTable()
	if len(table.Rows) != 9 {
		t.Fatalf("%d rows", len(table.Rows))
	}
	// 8M: 1,541 of 4,000 a second.
	if row := table.Rows[6].Cells; row[0].Text != "8M" || row[2].Text != "38.5 %" || row[3].Text != number(c.Groups[2].Summaries[0].ResponseMS.Mean) {
		t.Errorf("the baseline's row is %+v", row)
	}
	// There are no response times by window: no interval is invented.
	differences := c.responseDifferenceTable()
	if row := differences.Rows[len(differences.Rows)-5].Cells; row[1].Text != "psmdb83" || row[2].Text != "mean" || !strings.HasPrefix(row[3].Text, "+2,4") && !strings.HasPrefix(row[3].Text, "+24") ||
		row[4].Text != none || row[5].Text != "too little data" {
		t.Errorf("the row of a target that queues is %+v", row)
	}
	if !strings.Contains(differences.Note, "Of psmdb80, mongo9 and psmdb83 the record has response times of whole cells only") {
		t.Errorf("%s", differences.Note)
	}
	if d := c.difference(2, "psmdb83", MetricResponseP99, AllOperations); d == nil || d.Ratio.HasInterval() {
		t.Errorf("an older record's difference is %+v", d)
	}
	closed := build(t, published(t))
	if rows := slices.Concat(closed.responseTable().Rows, closed.responseDifferenceTable().Rows); len(rows) != 0 {
		t.Errorf("a closed loop has response times: %+v", rows)
	}
}

// openLoop is a run in which three targets answer as fast, but keep commands
// waiting: one as long as the baseline, one 20 % longer.
func openLoop(t testing.TB) Input {
	return forged(t, "openLoop", func(t testing.TB) Input {
		var f *forge
		targets := []record.Target{
			f.target("base1", "community", "9.0", "9.0.4"), f.target("same2", "psmdb", "psmdb-80", "8.0.34-15"), f.target("late3", "psmdb", "psmdb-83", "8.3.13-4"),
		}
		f = newForge(t, targets, []record.Size{{Documents: 1000, Label: "1k", Iterations: 3}, {Documents: 4000, Label: "4k", Iterations: 1}}, time.Minute)
		f.run.Settings.Rate, f.window, f.noise, f.between, f.alike = 2000, 6, 0.01, 0.003, true
		for _, size := range f.run.Sizes {
			f.throughput[size.Documents] = map[string]float64{"base1": 2000, "same2": 2000, "late3": 2000}
		}
		f.response = map[string]float64{"base1": 2, "same2": 2, "late3": 2.4}
		return f.input()
	})
}

// Differences in response time have intervals by the same estimator as those
// in service time: a known one is found, and where there is none, what would
// have been found is said.
func TestResponseIntervals(t *testing.T) {
	c := build(t, openLoop(t))
	for g := range c.Groups {
		for _, m := range responseMetrics {
			late, same := c.difference(g, "late3", m.metric, AllOperations), c.difference(g, "same2", m.metric, AllOperations)
			if late == nil || same == nil {
				t.Fatalf("%s at %s is missing", m.metric, c.Groups[g].Label)
			}
			if r := late.Ratio; !r.Differs() || r.Low > 1.2 || r.High < 1.2 || r.WithinRun != (g == 1) {
				t.Errorf("%s at %s: 20 %% longer is %+v", m.metric, c.Groups[g].Label, r)
			}
			if r := same.Ratio; !r.HasInterval() || r.Differs() || !strings.HasPrefix(same.Verdict(), "no difference detected (would have detected ") {
				t.Errorf("%s at %s: none is %+v", m.metric, c.Groups[g].Label, r)
			}
		}
		if d := c.difference(g, "late3", MetricMean, AllOperations); d.Ratio.Differs() {
			t.Errorf("service time at %s differs: %+v", c.Groups[g].Label, d.Ratio)
		}
	}
	if note := c.responseDifferenceTable().Note; strings.Contains(note, "have no intervals") {
		t.Errorf("%s", note)
	}
	golden(t, "openloop.text", render(t, FormatText, c))
}

// A window whose response times are damaged costs that window.
func TestDamagedResponseTimes(t *testing.T) {
	in := openLoop(t)
	c := in.find(t, "late3", 4000, 1)
	whole := c.Windows
	c.Windows = func(yield func(record.Window, error) bool) {
		for w, err := range whole {
			if w.StartS == 12 {
				w.Operations = maps.Clone(w.Operations)
				o := w.Operations["find"]
				o.ResponseHistogram = "HIST nonsense"
				w.Operations["find"] = o
			}
			if !yield(w, err) {
				return
			}
		}
	}
	got := build(t, in)
	if d := got.difference(1, "late3", MetricResponseMean, AllOperations); !d.Ratio.HasInterval() {
		t.Errorf("%+v", d.Ratio)
	}
	if !slices.ContainsFunc(got.Warnings, func(w string) bool {
		return strings.Contains(w, "window at 12 s: find: response times: ") && strings.Contains(w, "left out of the intervals")
	}) {
		t.Errorf("warnings %q", got.Warnings)
	}
}

func TestRetriesAreSaid(t *testing.T) {
	in := published(t)
	cell := *in.Cells[0].Cell
	cell.Retries = 1234 // beside the seven of another cell
	in.Cells[0].Cell = &cell
	for _, check := range build(t, in).Fairness.Checks {
		if check.Name == "Errors" && strings.Contains(check.Text, "the driver sent 1,241 commands a second time") {
			return
		}
	}
	t.Error("no check says so")
}
