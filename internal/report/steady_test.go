package report

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mongo-sandbox/sandbox/internal/record"
	"github.com/mongo-sandbox/sandbox/internal/stats"
)

// noisyLine is the course of a cell in 30 minutes: AR(1) noise of 3 % around
// a level that may change.
func noisyLine(rng *rand.Rand, level func(share float64) float64) Timeline {
	const minutes, noise, r = 30, 0.03, 0.3
	line := Timeline{Target: "a", Iteration: 1, Step: time.Minute}
	x := rng.NormFloat64()
	for i := range minutes {
		rate := 3000 * math.Exp(noise*x)
		if level != nil {
			rate *= level(float64(i) / (minutes - 1))
		}
		line.Points = append(line.Points, Point{AtS: float64(i)*60 + 30, ThroughputPerS: rate, MeanMS: 16 * 1000 / rate})
		x = r*x + math.Sqrt(1-r*r)*rng.NormFloat64()
	}
	return line
}

// steadied judges lines as the counted cells of one group.
func steadied(lines []Timeline) []Cell {
	b := &builder{c: &Comparison{Targets: []Target{{Target: record.Target{Name: "a"}}}, Groups: []Group{{Size: 1000, Label: "1k"}}, Timelines: lines}}
	for i := range lines {
		lines[i].Iteration = i + 1
		b.c.Cells = append(b.c.Cells, Cell{CellID: record.CellID{Target: "a", Size: 1000, Iteration: i + 1}, State: StateCounted})
	}
	b.steady()
	return b.c.Cells
}

// A drift over the whole cell is not found in its last half, for lack of power.
// That is no reason to say that a longer warm-up would have left it out.
func TestDriftAllAlongHasNoWarmUp(t *testing.T) {
	trials := 50
	if testing.Short() {
		trials = 20
	}
	judge := func(level func(float64) float64) (unsteady, advised int) {
		for trial := range trials {
			rng := rand.New(rand.NewPCG(uint64(trial), 0xd21f7))
			lines := make([]Timeline, 3)
			for i := range lines {
				lines[i] = noisyLine(rng, level)
			}
			for _, c := range steadied(lines) {
				if !c.Steady.Reached {
					unsteady++
				}
				if c.Steady.SteadyFromS > 0 {
					advised++
				}
			}
		}
		return unsteady, advised
	}
	unsteady, advised := judge(func(at float64) float64 { return 1 + 0.12*at })
	t.Logf("of %d cells that drifted all along %d were called unsteady, %d of these steady after a while", 3*trials, unsteady, advised)
	if unsteady < trials || advised*20 > unsteady {
		t.Errorf("of %d cells that drifted all along %d were called unsteady, and %d of these steady after a while", 3*trials, unsteady, advised)
	}
	// Nor does it never say so.
	unsteady, advised = judge(func(at float64) float64 { return 1 - 0.4*math.Exp(-at*12) })
	t.Logf("of %d cells that warmed up %d were called unsteady, %d of these steady after a while", 3*trials, unsteady, advised)
	if advised*2 < unsteady || unsteady < 2*trials {
		t.Errorf("of %d cells that warmed up %d were called unsteady, and %d of these steady after a while", 3*trials, unsteady, advised)
	}
}

// A report of 27 steady cells raises a false alarm in 5 % of the cases, not in
// three of four; so few trials may show some more.
func TestManySteadyCellsRaiseNoAlarm(t *testing.T) {
	trials, allowed := 60, 7
	if testing.Short() {
		trials, allowed = 20, 4
	}
	alarms := 0
	for trial := range trials {
		rng := rand.New(rand.NewPCG(uint64(trial), 27))
		lines := make([]Timeline, 27)
		for i := range lines {
			lines[i] = noisyLine(rng, nil)
		}
		cells := steadied(lines)
		if slices.ContainsFunc(cells, func(c Cell) bool { return !c.Steady.Reached }) {
			alarms++
		}
	}
	t.Logf("%d of %d reports of 27 steady cells called one unsteady", alarms, trials)
	if alarms > allowed {
		t.Errorf("%d of %d reports of 27 steady cells called one unsteady, at most %d wanted", alarms, trials, allowed)
	}
}

// A step without a success has no latency, rather than one of nothing, and
// what follows it keeps its time.
func TestStepWithoutSuccess(t *testing.T) {
	line := noisyLine(rand.New(rand.NewPCG(1, 2)), nil)
	for i := 15; i < len(line.Points); i++ {
		line.Points[i].MeanMS *= 1.5
	}
	line.Points[3].ThroughputPerS, line.Points[3].MeanMS = 0, 0
	values, at := line.series(1, 2)
	if len(values) != 27 || len(at) != 27 || slices.Contains(values, 0) || at[0] != 2 || at[1] != 4 {
		t.Errorf("mean latency %v at %v", values, at)
	}
	values, at = line.series(0, 2)
	if len(values) != 28 || values[1] != 0 || at[1] != 3 {
		t.Errorf("throughput %v at %v", values, at)
	}
	s := steadied([]Timeline{line})[0].Steady
	if s.Reached || s.Metric != MetricMean || s.Shape != stats.Jump || s.AtS != 15*60 {
		t.Errorf("%+v", s)
	}
}

// What may have gone unseen is never less than what is called unsteady, and is
// a limit where it is more than what the page calls a difference.
func TestCheckSteadySaysWhatItMisses(t *testing.T) {
	difference := func(value, low, high float64) Difference {
		return Difference{Metric: MetricThroughput, Operation: AllOperations, Ratio: stats.Ratio{Value: value, Low: low, High: high}}
	}
	for _, test := range []struct {
		name        string
		detectable  float64
		differences []Difference
		status      Status
		text        string
	}{
		{"nothing to compare with", 0.08, nil, OK, "To be noticed in every cell with a probability of 80 %, throughput would have to change from the start of the measured time to its end by 8.0 % at 1k"},
		{"more than a tenth", 0.11, nil, Caution, "11 %"},
		{"less than the difference", 0.04, []Difference{difference(1.1, 1.05, 1.15), difference(1.01, 0.99, 1.03)}, OK, "80 %"},
		{"more than the smallest one", 0.04, []Difference{difference(0.9, 0.85, 0.95), difference(1.03, 1.01, 1.05)}, Caution, "by 4.0 % at 1k, where the smallest difference reported is 3.0 %: a drift as large as such a difference may have gone unseen"},
	} {
		cell := func(target string, iteration int, detectable float64) Cell {
			return Cell{
				CellID: record.CellID{Target: target, Size: 1000, Variant: record.DefaultVariant, Iteration: iteration},
				State:  StateCounted, Steady: &Steady{Known: true, Reached: true, Detectable: detectable},
			}
		}
		b := &builder{c: &Comparison{
			Differences: test.differences, Groups: []Group{{Size: 1000, Variant: record.DefaultVariant, Label: "1k"}},
			Cells: []Cell{cell("a", 1, 0.02), cell("b", 2, test.detectable), cell("c", 1, 0.03)},
		}}
		b.checkSteady(func(name string, status Status, format string, args ...any) {
			text := fmt.Sprintf(format, args...)
			if unseen := strings.Contains(text, "may have gone unseen"); unseen != strings.Contains(test.text, "unseen") || status != test.status || !strings.Contains(text, test.text) {
				t.Errorf("%s: %s, %s", test.name, status, text)
			}
		})
	}
	// No noise at all.
	flat := noisyLine(rand.New(rand.NewPCG(1, 2)), nil)
	for i := range flat.Points {
		flat.Points[i].ThroughputPerS, flat.Points[i].MeanMS = 3000, 5
	}
	if s := steadied([]Timeline{flat})[0].Steady; !s.Reached || s.Detectable < steadyMatters {
		t.Errorf("without noise: %+v", s)
	}
}
