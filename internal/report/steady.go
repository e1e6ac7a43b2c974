package report

import (
	"fmt"
	"math"
	"strings"

	"github.com/mongo-sandbox/sandbox/internal/stats"
)

const (
	// steadyLevel is how often a report may call any of its cells unsteady
	// when all were steady: each cell has its share of it.
	steadyLevel = 0.05
	// fewPoints: a shorter course tells so little of its own noise that the
	// level is halved to keep what it promises.
	fewPoints = 20
	// steadyMatters is the smallest change over the measured time that is
	// called unsteady: a drift biases a mean by half of itself at most.
	steadyMatters = 0.02
	// steadyVague is the drift that may well go unseen before a cell is too
	// short or too noisy for its steadiness to say much: it biases a mean by
	// half of itself.
	steadyVague = 0.10
)

// Steady tells whether a cell's throughput and mean latency kept their level
// over the measured time.
type Steady struct {
	// Reached is whether they did; it says nothing unless Known.
	Reached bool
	Known   bool
	// Metric is the one that changed most significantly, MetricThroughput or
	// MetricMean; "" when Reached.
	Metric string
	// Shape, Change and LastHalf are as in stats.Steadiness.
	Shape    stats.Shape
	Change   float64
	LastHalf float64
	// AtS is when it jumped, seconds since the measured start.
	AtS float64
	// P is the smaller one of both metrics, as in stats.Steadiness.
	P float64
	// Detectable is the drift of throughput over the measured time, as a share
	// of its mean, that would have been found with probability stats.Power.
	Detectable float64
	// SteadyFromS is after how many seconds the rest kept its level, and was
	// long enough to tell; 0 when it was not found to.
	SteadyFromS float64
}

// steadySeries are the courses that are tested.
var steadySeries = [...]struct {
	metric string
	of     func(*Point) float64
}{
	{MetricThroughput, func(p *Point) float64 { return p.ThroughputPerS }},
	{MetricMean, func(p *Point) float64 { return p.MeanMS }},
}

// steady looks at the course of every cell. How correlated the noise is, is
// learned from all cells of a group together.
func (b *builder) steady() {
	for g := range b.c.Groups {
		group := &b.c.Groups[g]
		var lines []*Timeline
		for i := range b.c.Timelines {
			if b.c.Timelines[i].Group == g {
				lines = append(lines, &b.c.Timelines[i])
			}
		}
		tests := b.steadyTests(g, lines)
		for _, line := range lines {
			for k := range b.c.Cells {
				c := &b.c.Cells[k]
				if c.State == StateCounted && c.Target == line.Target && c.Size == group.Size && c.Variant == group.Variant && c.Iteration == line.Iteration {
					s := tests.course(line)
					c.Steady = &s
				}
			}
		}
	}
}

// series is a metric's course from one point on, and where its values are in
// Points: a step without a success has no latency.
func (t *Timeline) series(metric, first int) (values []float64, at []int) {
	for i := first; i < len(t.Points); i++ {
		p := &t.Points[i]
		if steadySeries[metric].metric == MetricMean && p.MeanMS == 0 {
			continue
		}
		values, at = append(values, steadySeries[metric].of(p)), append(at, i)
	}
	return values, at
}

// steadyTests are the tests of a group's cells, which share what they are
// compared with.
type steadyTests struct {
	b     *builder
	group int
	noise [len(steadySeries)]float64
	made  map[steadyKey]*stats.SteadyTest
}

type steadyKey struct{ metric, values, cells int }

func (b *builder) steadyTests(g int, lines []*Timeline) *steadyTests {
	x := &steadyTests{b: b, group: g, made: map[steadyKey]*stats.SteadyTest{}}
	for m := range steadySeries {
		all := make([][]float64, len(lines))
		for i, line := range lines {
			all[i], _ = line.series(m, 0)
		}
		x.noise[m] = stats.NoiseAutocorrelation(all, b.seed(g, 0, steadySeries[m].metric))
	}
	return x
}

// level is that of one of a number of cells, for a series of so many values.
func (x *steadyTests) level(values, cells int) float64 {
	level := steadyLevel / float64(cells)
	if x.b.c.Run.Settings.Rate > 0 {
		// Two series that do not follow from one another share the level; in
		// a closed loop throughput is workers divided by latency.
		level /= 2
	}
	if values < fewPoints {
		level /= 2
	}
	return level
}

func (x *steadyTests) of(k steadyKey) *stats.SteadyTest {
	test := x.made[k]
	if test == nil {
		test = stats.NewSteadyTest(k.values, x.noise[k.metric], x.level(k.values, k.cells), x.b.seed(x.group, 0, fmt.Sprint(steadySeries[k.metric].metric, k.cells)))
		x.made[k] = test
	}
	return test
}

// course tests throughput and mean latency and, where they were not steady,
// finds after how long they were.
func (x *steadyTests) course(t *Timeline) Steady {
	out, drift := x.from(t, 0, len(x.b.c.Timelines))
	for tenth := 1; tenth <= 5 && out.Known && !out.Reached; tenth++ {
		from := len(t.Points) * tenth / 10
		// The rest stands for itself: one test, at the whole level. That it
		// was not called unsteady may only mean that it is short: its own line
		// has to be flat, and a drift like that of the whole would have been
		// found in it.
		rest, left := x.from(t, from, 1)
		if rest.Known && rest.Reached && left < steadyMatters && rest.Detectable <= drift {
			out.SteadyFromS = t.Points[from].AtS - t.Step.Seconds()/2
			break
		}
	}
	return out
}

// from tests a cell from one point on, as one of a number of cells. drift is
// the largest change, up or down, of the lines through its series.
func (x *steadyTests) from(t *Timeline, first, cells int) (out Steady, drift float64) {
	out = Steady{Reached: true, P: 1}
	worst := 1.0
	for m := range steadySeries {
		values, at := t.series(m, first)
		s := x.of(steadyKey{m, len(values), cells}).Of(values)
		if !s.Known {
			return Steady{}, 0
		}
		out.Known = true
		if steadySeries[m].metric == MetricThroughput {
			out.Detectable = s.Detectable(steadyMatters)
		}
		drift = max(drift, math.Abs(s.Line))
		out.P = min(out.P, s.P)
		if s.P > x.level(len(values), cells) || math.Abs(s.Change) < steadyMatters || s.P >= worst {
			continue
		}
		worst = s.P
		out.Reached, out.Metric = false, steadySeries[m].metric
		out.Shape, out.Change, out.LastHalf, out.AtS = s.Shape, s.Change, s.LastHalf, 0
		if s.Shape == stats.Jump {
			k := int(math.Round(s.At * float64(len(values))))
			out.AtS = t.Points[at[min(k, len(at)-1)]].AtS - t.Step.Seconds()/2
		}
	}
	return out, drift
}

// text says how a cell was unsteady.
func (s *Steady) text() string {
	what := "throughput"
	if s.Metric == MetricMean {
		what = "mean latency"
	}
	verb, still := "rose", "rising"
	if s.Change < 0 {
		verb, still = "fell", "falling"
	}
	by := percent(math.Abs(s.Change))
	if s.Shape == stats.Jump {
		return fmt.Sprintf("%s %s by %s at %s", what, verb, by, seconds(s.AtS))
	}
	text := fmt.Sprintf("%s %s by %s over the measured time", what, verb, by)
	if (s.LastHalf > 0) == (s.Change > 0) && math.Abs(s.LastHalf) >= steadyMatters {
		text += fmt.Sprintf(", still %s by %s over the last half", still, percent(math.Abs(s.LastHalf)))
	}
	return text
}

const steadyState = "Steady state"

// checkSteady says which cells did not keep their level.
func (b *builder) checkSteady(add addCheck) {
	const name = steadyState
	var unsteady []string
	known, counted := 0, 0
	least, from := 0.0, 0.0
	vague := make([]float64, len(b.c.Groups)) // by group: the drift from which on it is seen in all cells
	advise := true
	for i := range b.c.Cells {
		c := &b.c.Cells[i]
		if c.State != StateCounted {
			continue
		}
		counted++
		if c.Steady == nil || !c.Steady.Known {
			continue
		}
		known++
		least = max(least, c.Steady.Detectable)
		g := b.c.groupOf(c.Size, c.Variant)
		vague[g] = max(vague[g], c.Steady.Detectable)
		if c.Steady.Reached {
			continue
		}
		unsteady = append(unsteady, fmt.Sprintf("%s (%s)", b.cellName(c.CellID), c.Steady.text()))
		from = max(from, c.Steady.SteadyFromS)
		advise = advise && c.Steady.SteadyFromS > 0
	}
	if len(unsteady) > 4 {
		unsteady = append(unsteady[:3], fmt.Sprintf("and %d more", len(unsteady)-3))
	}
	switch {
	case counted == 0:
	case known == 0:
		add(name, Caution, "not known: no cell has a course of ten steps or more")
	case len(unsteady) > 0:
		advice := "a longer --warmup or --duration would tell what they come to"
		if advise {
			advice = fmt.Sprintf("each kept its level after %s at the latest: --warmup %s, or a longer --duration", seconds(from), flagDuration(from))
		}
		add(name, Caution, "not reached in %s: %s", strings.Join(unsteady, "; "), advice)
	default:
		status, some := OK, "any cell"
		if known < counted {
			some = fmt.Sprintf("any of the %d of %d cells that are long enough to tell", known, counted)
		}
		text := fmt.Sprintf("no steady rise or fall and no jump was found in the throughput or mean latency of %s. "+
			"To be noticed in every cell with a probability of %.0f %%, throughput would have to change from the start of the measured time to its end by ", some, stats.Power*100)
		var parts []string
		unseen := false
		for g, drift := range vague {
			if drift == 0 {
				continue
			}
			part := fmt.Sprintf("%s at %s", stats.Percent(drift), b.c.Groups[g].Label)
			if smallest, found := b.c.smallestReal(g); found {
				part += fmt.Sprintf(", where the smallest difference reported is %s", percent(smallest))
				unseen = unseen || drift > smallest
			}
			parts = append(parts, part)
		}
		text += strings.Join(parts, "; ")
		if unseen {
			text += ": a drift as large as such a difference may have gone unseen"
		}
		if least > steadyVague || unseen {
			status = Caution
		}
		add(name, status, "%s", text)
	}
}

// smallestReal is the smallest relative difference in throughput of a group
// that is reported as more than noise, and whether there is one.
func (c *Comparison) smallestReal(group int) (smallest float64, found bool) {
	for i := range c.Differences {
		d := &c.Differences[i]
		if d.Group != group || d.Metric != MetricThroughput || d.Operation != AllOperations || !d.Ratio.Differs() || d.onlyNoise() {
			continue
		}
		if v := math.Abs(d.Ratio.Value - 1); !found || v < smallest {
			smallest, found = v, true
		}
	}
	return smallest, found
}

// flagDuration writes seconds as a flag takes them, rounded up.
func flagDuration(s float64) string {
	if s >= 60 {
		return fmt.Sprintf("%.0fm", math.Ceil(s/60))
	}
	return fmt.Sprintf("%.0fs", math.Ceil(s))
}
