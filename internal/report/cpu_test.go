package report

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/mongo-sandbox/sandbox/internal/record"
	"github.com/mongo-sandbox/sandbox/internal/stats"
)

// A single iteration has intervals of CPU per command, for the primary and
// the secondaries apart, from the members' readings.
func TestCPUIntervalsWithinARun(t *testing.T) {
	c := compared(t, "published")
	for g, label := range []string{"1M", "4M", "8M"} {
		for _, m := range cpuMetrics() {
			d := c.difference(g, "psmdb83", m.name, AllOperations)
			if d == nil || !d.Ratio.HasInterval() || d.Ratio.WithinRun != (g > 0) || d.Ratio.Low >= d.Ratio.Value || d.Ratio.High <= d.Ratio.Value {
				t.Fatalf("%s at %s: %+v", m.name, label, d)
			}
			for i := range c.Groups[g].Summaries {
				x := &c.Groups[g].Summaries[i]
				if v := m.interval(&x.CPUInterval); v.Low <= 0 || v.Low >= m.of(x.CPU) || v.High <= m.of(x.CPU) || v.High > 1.2*m.of(x.CPU) {
					t.Errorf("%s of %s at %s: %v in %+v", m.name, x.Target, label, m.of(x.CPU), v)
				}
			}
		}
	}
	for i := range c.Cells {
		x := &c.Cells[i]
		if v := x.CPUInterval; v.Primary.Low <= 0 || v.Secondary.Low <= 0 || v.Primary.Low >= x.Result.CPUUSPerCommand.Primary {
			t.Errorf("%s: %+v", x.CellID, v)
		}
	}
}

// All CPU time and all commands of a cell are in its windows, wherever the
// readings lie.
func TestCPUWindowsAddUp(t *testing.T) {
	in := published(t)
	cell := in.find(t, "mongo9", 4_000_000, 1)
	for _, m := range cpuMetrics() {
		windows := cpuWindowsOf(&in, cell, 120, m.reading)
		var cpu, seconds float64
		var count int64
		for _, w := range windows {
			cpu += w.CPU
			count += w.Count
			seconds += w.Seconds
		}
		if want := m.of(cell.Cell.CPUUSPerCommand); len(windows) != 15 || math.Abs(cpu/float64(count)/want-1) > 0.02 || math.Abs(seconds-1800.3) > 0.01 {
			t.Errorf("%s: %d windows, %.1f s, %.1f µs per command, want %.1f", m.name, len(windows), seconds, cpu/float64(count), want)
		}
	}
}

// cpuWindowsOf reads a cell alone.
func cpuWindowsOf(in *Input, cell *CellInput, seconds float64, of func(*cpuRound) float64) []stats.Window {
	b := &builder{in: in, c: &Comparison{Run: in.Run}, read: map[*CellInput]*cellCourse{}}
	x := &cellCourse{members: b.readings(cell)}
	if cell.Intervals != nil {
		b.points(cell, 60, x.advance)
	}
	b.read[cell] = x
	return b.cpuWindows(cell, seconds, of)
}

// What is missing from a record leaves no windows to tell the noise inside.
func TestCPUWindowsWithoutReadings(t *testing.T) {
	for name, spoil := range map[string]func(*CellInput){
		"no readings": func(in *CellInput) { in.Samples = nil },
		"no seconds":  func(in *CellInput) { in.Intervals = nil },
		"half of the seconds": func(in *CellInput) {
			all := in.Intervals
			in.Intervals = func(yield func(record.Interval, error) bool) {
				for v, err := range all {
					if int(v.StartS)%2 == 0 && !yield(v, err) {
						return
					}
				}
			}
		},
	} {
		in := published(t)
		cell := in.find(t, "mongo9", 4_000_000, 1)
		spoil(cell)
		if got := cpuWindowsOf(&in, cell, 120, cpuMetrics()[0].reading); got != nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// Then a single iteration has no interval, and what lies between several
// stays known.
func TestCPUIntervalsWithoutReadings(t *testing.T) {
	in := small(t)
	for i := range in.Cells {
		in.Cells[i].Cell.CPUUSPerCommand = &record.CPUPerCommand{Primary: 500 + float64(10*i), Secondary: 900 + float64(i*i)}
	}
	c := build(t, in)
	if d := c.difference(0, "b", MetricCPUSecondary, AllOperations); d == nil || !d.Ratio.HasInterval() || d.Ratio.WithinRun {
		t.Errorf("%+v", d)
	}
	in.Cells = slices.DeleteFunc(in.Cells, func(in CellInput) bool { return in.ID.Iteration > 1 })
	c = build(t, in)
	if d := c.difference(0, "b", MetricCPUSecondary, AllOperations); d == nil || d.Ratio.HasInterval() || d.Ratio.Value <= 0 {
		t.Errorf("%+v", d)
	}
}

func TestCPURounds(t *testing.T) {
	started := time.Date(2026, 11, 6, 9, 30, 0, 0, time.UTC)
	sample := func(at float64, member, state string, us float64) *record.Sample {
		s := &record.Sample{At: started.Add(time.Duration(at * float64(time.Second))), Member: member, State: state}
		if us > 0 {
			s.Values = map[string]float64{"cpu.user_us": us, "cpu.system_us": 1}
		}
		return s
	}
	var c cpuRounds
	for _, s := range []*record.Sample{
		sample(-0.2, "p", "PRIMARY", 100), sample(-0.1, "s", "SECONDARY", 10), sample(-0.1, "arbiter", "ARBITER", 0), sample(0, "t", "SECONDARY", 20),
		sample(10, "p", "PRIMARY", 200), sample(10, "s", "", 0), sample(10, "arbiter", "ARBITER", 0), sample(10, "t", "SECONDARY", 40), // one is silent
		sample(20, "p", "PRIMARY", 300), sample(20.3, "s", "SECONDARY", 50), sample(20, "arbiter", "ARBITER", 0), sample(20.3, "t", "SECONDARY", 60),
	} {
		c.add(s, started)
	}
	c.end()
	var got []float64
	for _, m := range cpuMetrics() {
		for _, r := range c.readings(m.reading) {
			got = append(got, math.Round(10*r.AtS)/10, r.CPU)
		}
	}
	if want := []float64{-0.1, 101, 20.2, 301, -0.1, 32, 20.2, 112}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	// A member that does not tell its CPU time leaves a sum that is none.
	c.add(&record.Sample{At: started, Member: "u", State: "SECONDARY", Values: map[string]float64{"repl.lag_s": 1}}, started)
	if r := c.readings(cpuMetrics()[0].reading); r != nil {
		t.Errorf("%v", r)
	}
}

// CPU that is known of one of three iterations has an interval of that one.
func TestCPUOfOneIterationIsWithinRun(t *testing.T) {
	in := published(t)
	for i := range in.Cells {
		if in.Cells[i].ID.Target == "psmdb83" && in.Cells[i].ID.Iteration > 1 {
			in.Cells[i].Cell.CPUUSPerCommand = nil
		}
	}
	c := build(t, in)
	for target, within := range map[string]bool{"psmdb80": false, "psmdb83": true} {
		if d := c.difference(0, target, MetricCPUPrimary, AllOperations); d == nil || !d.Ratio.HasInterval() || d.Ratio.WithinRun != within {
			t.Errorf("%s: %+v", target, d)
		}
	}
	if d := c.difference(0, "psmdb83", MetricThroughput, AllOperations); d.Ratio.WithinRun {
		t.Errorf("throughput: %+v", d.Ratio)
	}
}
