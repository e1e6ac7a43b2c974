package report

import (
	"fmt"
	"math"
	"strings"

	"github.com/mongo-sandbox/sandbox/internal/stats"
)

const (
	// steadyLevel is how often a cell that was steady may be called unsteady.
	steadyLevel = 0.05
	// fewPoints: a shorter course tells so little of its own noise that the
	// level is halved to keep what it promises.
	fewPoints = 20
	// steadyMatters is the smallest change over the measured time that is
	// called unsteady: a drift biases a mean by half of itself at most.
	steadyMatters = 0.02
	// steadyVague is the drift that may go unseen before a cell is too short
	// or too noisy for its steadiness to say much.
	steadyVague = 0.20
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
	// Detectable is the relative change of throughput over the measured time
	// that would just have been seen.
	Detectable float64
	// SteadyFromS is after how many seconds the rest kept its level; 0 when
	// it was not found to.
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
		var noise [len(steadySeries)]float64
		for m := range steadySeries {
			all := make([][]float64, len(lines))
			for i, line := range lines {
				all[i] = line.series(m, 0)
			}
			noise[m] = stats.NoiseAutocorrelation(all, b.seed(g, 0, steadySeries[m].metric))
		}
		for _, line := range lines {
			for k := range b.c.Cells {
				c := &b.c.Cells[k]
				if c.State == StateCounted && c.Target == line.Target && c.Size == group.Size && c.Variant == group.Variant && c.Iteration == line.Iteration {
					s := b.steadyCourse(line, noise)
					c.Steady = &s
				}
			}
		}
	}
}

// series is a metric's course from one point on.
func (t *Timeline) series(metric, first int) []float64 {
	out := make([]float64, 0, len(t.Points)-first)
	for i := first; i < len(t.Points); i++ {
		out = append(out, steadySeries[metric].of(&t.Points[i]))
	}
	return out
}

// steadyCourse tests throughput and mean latency and, where they were not
// steady, finds after how long they were.
func (b *builder) steadyCourse(t *Timeline, noise [len(steadySeries)]float64) Steady {
	out := b.steadyFrom(t, 0, noise)
	for tenth := 1; tenth <= 5 && out.Known && !out.Reached; tenth++ {
		from := len(t.Points) * tenth / 10
		if rest := b.steadyFrom(t, from, noise); rest.Known && rest.Reached {
			out.SteadyFromS = t.Points[from].AtS - t.Step.Seconds()/2
			break
		}
	}
	return out
}

func (b *builder) steadyFrom(t *Timeline, first int, noise [len(steadySeries)]float64) Steady {
	out := Steady{Reached: true, P: 1}
	level, worst := steadyLevel, 1.0
	if b.c.Run.Settings.Rate > 0 {
		// Two series that do not follow from one another share the level; in
		// a closed loop throughput is workers divided by latency.
		level /= 2
	}
	if len(t.Points)-first < fewPoints {
		level /= 2
	}
	for m := range steadySeries {
		s := stats.Steady(t.series(m, first), noise[m], level, b.seed(t.Group, b.c.target(t.Target), fmt.Sprint(steadySeries[m].metric, t.Iteration, first)))
		if !s.Known {
			return Steady{}
		}
		out.Known = true
		if steadySeries[m].metric == MetricThroughput {
			out.Detectable = s.Detectable
		}
		out.P = min(out.P, s.P)
		if s.P > level || math.Abs(s.Change) < steadyMatters || s.P >= worst {
			continue
		}
		worst = s.P
		out.Reached, out.Metric = false, steadySeries[m].metric
		out.Shape, out.Change, out.LastHalf, out.AtS = s.Shape, s.Change, s.LastHalf, 0
		if s.Shape == stats.Jump {
			at := first + int(math.Round(s.At*float64(len(t.Points)-first)))
			out.AtS = t.Points[min(at, len(t.Points)-1)].AtS - t.Step.Seconds()/2
		}
	}
	return out
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

// checkSteady says which cells did not keep their level.
func (b *builder) checkSteady(add addCheck) {
	const name = "Steady state"
	var unsteady []string
	known, counted := 0, 0
	least, from := 0.0, 0.0
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
		status, some := OK, "every cell"
		if known < counted {
			some = fmt.Sprintf("the %d of %d cells that are long enough to tell", known, counted)
		}
		if least > steadyVague {
			status = Caution
		}
		add(name, status, "no trend and no jump found in throughput and mean latency of %s; in the worst, a drift of up to %s over the measured time could have gone unseen",
			some, stats.Percent(least))
	}
}

// flagDuration writes seconds as a flag takes them, rounded up.
func flagDuration(s float64) string {
	if s >= 60 {
		return fmt.Sprintf("%.0fm", math.Ceil(s/60))
	}
	return fmt.Sprintf("%.0fs", math.Ceil(s))
}
