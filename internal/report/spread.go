package report

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/mongo-sandbox/sandbox/internal/record"
	"github.com/mongo-sandbox/sandbox/internal/stats"
)

// spreadKey names an estimate's uncertainty.
type spreadKey struct {
	target    int
	operation string
	metric    string
}

// spreads computes the uncertainty of every estimate of a group, and per
// target the windows of every counted cell.
func (b *builder) spreads(g int) (map[spreadKey]stats.Spread, [][][]WindowPoint, error) {
	out := map[spreadKey]stats.Spread{}
	results := make([]map[spreadKey]stats.Spread, len(b.c.Targets))
	points := make([][][]WindowPoint, len(b.c.Targets))
	var tasks errgroup.Group
	tasks.SetLimit(4) // each holds one operation's histograms
	for t := range b.c.Targets {
		if !b.c.Groups[g].Summaries[t].Shown() {
			continue
		}
		tasks.Go(func() error {
			var err error
			results[t], points[t], err = b.targetSpreads(g, t)
			if err != nil {
				return fmt.Errorf("%s at %s: %w", b.c.Targets[t].Name, b.c.Groups[g].Label, err)
			}
			return nil
		})
	}
	if err := tasks.Wait(); err != nil {
		return nil, nil, err
	}
	for _, result := range results {
		for key, spread := range result {
			out[key] = spread
		}
	}
	return out, points, nil
}

func (b *builder) targetSpreads(g, t int) (map[spreadKey]stats.Spread, [][]WindowPoint, error) {
	const cost = "the window is left out of the intervals"
	cells := b.counted[g][t]
	raw := make([][]record.Window, len(cells))
	for i, in := range cells {
		if in.Windows == nil {
			continue
		}
		raw[i] = wholeWindows(slices.Collect(sound(&b.damage, in.Windows, cost)))
	}
	for {
		out, points, bad, err := b.windowSpreads(g, t, raw)
		if len(bad) == 0 && err == nil {
			err = b.cpuSpreads(g, t, raw, out)
		}
		if len(bad) == 0 {
			return out, points, err
		}
		for _, w := range slices.Backward(bad) {
			id := cells[w.cell].ID
			b.damage.note(fmt.Sprintf("a windows.ndjson of %s: window at %.0f s: %v", id, raw[w.cell][w.index].StartS, w.cause), cost)
			raw[w.cell] = slices.Delete(raw[w.cell], w.index, w.index+1)
		}
	}
}

// badWindow is a window of a cell with a histogram that cannot be decoded.
type badWindow struct {
	cell, index int
	cause       error
}

// windowSpreads computes the uncertainty of a target's estimates from its
// cells' windows. When there are bad ones, each is in the list once, in the
// order of cells and windows, and the rest is of no use.
func (b *builder) windowSpreads(g, t int, raw [][]record.Window) (map[spreadKey]stats.Spread, [][]WindowPoint, []badWindow, error) {
	all := make([][]stats.Window, len(raw))
	types := map[string]bool{}
	for i := range raw {
		all[i] = make([]stats.Window, len(raw[i]))
		for k, w := range raw[i] {
			all[i][k] = stats.Window{Seconds: w.EndS - w.StartS, Latency: &stats.Distribution{}}
			for name := range w.Operations {
				types[name] = true
			}
		}
	}
	metrics := windowMetrics()
	asked := make([]stats.Metric, len(metrics))
	for i := range metrics {
		asked[i] = metrics[i].metric
	}
	out := map[spreadKey]stats.Spread{}
	estimate := func(operation string, windows [][]stats.Window) error {
		asked := asked
		if operation != AllOperations {
			asked = asked[:len(asked)-1] // p99.9 is the last
		}
		spreads, err := b.estimate(g, t, windows, asked, operation)
		if err != nil {
			return fmt.Errorf("%s: %w", operation, err)
		}
		for i := range asked {
			out[spreadKey{t, operation, metrics[i].name}] = spreads[i]
		}
		return nil
	}
	var bad []badWindow
	for _, name := range sortedKeys(types, compareOperations) {
		windows := make([][]stats.Window, len(raw))
		for i := range raw {
			windows[i] = make([]stats.Window, len(raw[i]))
			for k, w := range raw[i] {
				o := w.Operations[name]
				v := stats.Window{Seconds: w.EndS - w.StartS, Count: o.Count, Sum: float64(o.SumUS)}
				sum := &all[i][k]
				sum.Count += v.Count
				sum.Sum += v.Sum
				if o.Count > 0 && o.Histogram != "" {
					var err error
					if v.Latency, err = decode(o.Histogram); err == nil {
						err = sum.Latency.Merge(v.Latency)
					}
					if err != nil {
						bad = append(bad, badWindow{i, k, fmt.Errorf("%s: %w", name, err)})
					}
				}
				windows[i][k] = v
			}
		}
		if len(bad) > 0 {
			continue // only to find all of them
		}
		if err := estimate(name, windows); err != nil {
			return nil, nil, nil, err
		}
	}
	if len(bad) > 0 {
		slices.SortStableFunc(bad, func(x, y badWindow) int { return cmp.Or(cmp.Compare(x.cell, y.cell), cmp.Compare(x.index, y.index)) })
		return nil, nil, slices.CompactFunc(bad, func(x, y badWindow) bool { return x.cell == y.cell && x.index == y.index }), nil
	}
	if err := estimate(AllOperations, all); err != nil {
		return nil, nil, nil, err
	}
	if bad, err := b.responseSpreads(g, t, raw, out); len(bad) > 0 || err != nil {
		return nil, nil, bad, err
	}
	points := make([][]WindowPoint, len(raw))
	for i := range raw {
		for k, w := range raw[i] {
			points[i] = append(points[i], WindowPoint{
				AtS: (w.StartS + w.EndS) / 2, Seconds: w.EndS - w.StartS,
				Count: all[i][k].Latency.Count(), P99MS: all[i][k].Latency.Quantile(0.99) / usPerMS,
			})
		}
	}
	return out, points, nil, nil
}

// wholeWindows drops windows of less than half the usual length, such as the
// last one of a cell: they would weigh as much as the others in what is
// learned about noise.
func wholeWindows(windows []record.Window) []record.Window {
	if len(windows) < 3 {
		return windows
	}
	usual := usualLength(windows)
	return slices.DeleteFunc(windows, func(w record.Window) bool { return w.EndS-w.StartS < usual/2 })
}

// usualLength is the median length of windows in seconds, 0 without any.
func usualLength(windows []record.Window) float64 {
	if len(windows) == 0 {
		return 0
	}
	lengths := make([]float64, len(windows))
	for i, w := range windows {
		lengths[i] = w.EndS - w.StartS
	}
	slices.Sort(lengths)
	return lengths[len(lengths)/2]
}

// estimate gives the spreads of metrics over the windows of every counted
// cell of a target.
func (b *builder) estimate(g, t int, windows [][]stats.Window, metrics []stats.Metric, operation string) ([]stats.Spread, error) {
	seed := b.seed(g, t, operation)
	if b.c.pool == nil {
		_, spreads, err := stats.Estimate(windows, metrics, seed)
		return spreads, err
	}
	placements := make([][][]stats.Window, b.c.Placements)
	for i, in := range b.counted[g][t] {
		run, _ := b.c.pool.origin(in.ID.Size, in.ID.Iteration)
		p := b.c.pool.placements[run]
		placements[p] = append(placements[p], windows[i])
	}
	_, spreads, err := stats.EstimatePlacements(placements, metrics, seed)
	return spreads, err
}

// seed gives every estimate a stream of random numbers of its own that
// depends on nothing but the record.
func (b *builder) seed(g, t int, operation string) uint64 {
	h := fnv.New64a()
	group, target := &b.c.Groups[g], &b.c.Targets[t]
	_, _ = fmt.Fprintf(h, "%d\x00%s\x00%d\x00%s\x00%s", b.c.runOf(target).Settings.Seed, target.Origin, group.Size, group.Variant, operation)
	return h.Sum64()
}
