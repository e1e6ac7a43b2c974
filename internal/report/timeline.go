package report

import (
	"math"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/mongo-sandbox/sandbox/internal/record"
)

// timelineStep is the length of a timeline's bins: minutes where the cell
// has ten of them (longer in very long cells), else a round number of
// seconds that gives at most 30.
func timelineStep(durationS float64) time.Duration {
	if durationS >= 600 {
		step := time.Minute
		for durationS/step.Seconds() > 240 && step < 24*time.Hour {
			step *= 5
		}
		return step
	}
	for _, s := range [...]int{1, 2, 5, 10, 15} {
		if durationS/float64(s) <= 30 {
			return time.Duration(s) * time.Second
		}
	}
	return 20 * time.Second
}

// timelines draws up the course of every counted cell of a group; windows
// are, per target, those of its cells.
func (b *builder) timelines(g int, windows [][][]WindowPoint) {
	var cells []*CellInput
	var points [][]WindowPoint
	for t := range b.c.Targets {
		if !b.c.Groups[g].Summaries[t].Shown() {
			continue
		}
		for i, in := range b.counted[g][t] {
			if in.Intervals != nil {
				cells = append(cells, in)
				points = append(points, windows[t][i])
			}
		}
	}
	lines := make([]Timeline, len(cells))
	var tasks errgroup.Group
	tasks.SetLimit(4)
	for i, in := range cells {
		tasks.Go(func() error {
			lines[i] = Timeline{Group: g, Target: in.ID.Target, Iteration: in.ID.Iteration, Step: timelineStep(in.Cell.DurationS)}
			lines[i].Points, lines[i].Trouble = b.read[in].points, b.read[in].trouble
			lines[i].Windows = points[i]
			return nil
		})
	}
	_ = tasks.Wait() // they have no errors
	for _, line := range lines {
		if len(line.Points) > 0 {
			b.c.Timelines = append(b.c.Timelines, line)
		}
	}
}

// maxPoints bounds a timeline, whatever times a record claims.
const maxPoints = 1000

// points puts a cell's intervals into bins of step seconds. A last bin that
// is less than half covered is dropped, but not from what went wrong. Every
// interval is handed to each as well.
func (b *builder) points(in *CellInput, step float64, each func(record.Interval)) ([]Point, Trouble) {
	type bin struct{ seconds, count, sumUS, maxUS, errors float64 }
	var bins []bin
	trouble := troubleBins{step: step}
	for v := range sound(&b.damage, in.Intervals, "the second is left out of the course over time") {
		each(v)
		at := math.Floor((v.StartS + v.EndS) / 2 / step)
		if !(at >= 0 && at < maxPoints) || !(v.EndS > v.StartS) {
			continue
		}
		for len(bins) <= int(at) {
			bins = append(bins, bin{})
		}
		trouble.add(int(at), &v)
		x := &bins[int(at)]
		x.seconds += v.EndS - v.StartS
		for _, o := range v.Operations {
			x.count += float64(o.Count)
			x.sumUS += float64(o.SumUS)
			x.maxUS = max(x.maxUS, float64(o.MaxUS))
			x.errors += float64(o.Errors)
		}
	}
	if n := len(bins); n > 1 && bins[n-1].seconds < step/2 {
		bins = bins[:n-1]
	}
	out := make([]Point, 0, len(bins))
	for i, x := range bins {
		if x.seconds == 0 {
			continue // nothing was recorded: the line has a gap
		}
		p := Point{AtS: (float64(i) + 0.5) * step, ThroughputPerS: x.count / x.seconds, Errors: int64(x.errors)}
		if x.count > 0 {
			p.MeanMS, p.MaxMS = x.sumUS/x.count/usPerMS, x.maxUS/usPerMS
		}
		out = append(out, p)
	}
	return out, trouble.trouble()
}
