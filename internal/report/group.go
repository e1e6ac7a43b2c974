package report

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/mongo-sandbox/sandbox/internal/record"
	"github.com/mongo-sandbox/sandbox/internal/stats"
)

const usPerMS = 1000

// group computes all that is put side by side for one size and variant. It
// goes operation by operation, so that never more than one operation's
// histograms are in memory beside their sum.
func (b *builder) group(g int) error {
	group := &b.c.Groups[g]
	for t := range group.Summaries {
		b.summarise(&group.Summaries[t], b.counted[g][t])
	}
	spreads, err := b.spreads(g)
	if err != nil {
		return err
	}
	b.differences(g, spreads)
	b.timelines(g)
	return nil
}

// summarise joins a target's counted cells.
func (b *builder) summarise(s *Summary, cells []*CellInput) {
	s.Cells = len(cells)
	if s.Cells == 0 {
		return
	}
	var weighted, cpuWeight float64
	var cpu record.CPUPerCommand
	parts := make([]part, 0, len(cells))
	operations := map[string][]part{}
	var types []string
	for _, in := range cells {
		c := in.Cell
		s.Commands += c.Commands
		s.Errors += c.Errors
		s.DurationS += c.DurationS
		weighted += c.ThroughputPerS * c.DurationS
		s.DatasetBytes = max(s.DatasetBytes, c.Seeding.Bytes)
		if c.CPUUSPerCommand != nil {
			n := float64(c.Commands)
			cpuWeight += n
			cpu.Primary += n * c.CPUUSPerCommand.Primary
			cpu.Secondary += n * c.CPUUSPerCommand.Secondary
		}
		whole := part{count: c.Commands, latency: c.LatencyMS}
		for _, name := range sortedKeys(c.Operations, compareOperations) {
			o := c.Operations[name]
			if operations[name] == nil {
				types = append(types, name)
			}
			operations[name] = append(operations[name], part{
				count: o.Count, errors: o.Errors, latency: o.LatencyMS, histograms: histograms(o),
			})
			if o.Count > 0 {
				whole.histograms = append(whole.histograms, o.Histogram)
			}
		}
		parts = append(parts, whole)
	}
	if s.DurationS > 0 {
		s.ThroughputPerS = finite(weighted / s.DurationS)
	}
	s.DurationS = finite(s.DurationS)
	if cpuWeight > 0 {
		s.CPU = &record.CPUPerCommand{Primary: finite(cpu.Primary / cpuWeight), Secondary: finite(cpu.Secondary / cpuWeight)}
	}
	// A damaged histogram is one operation's as well: it is noted there.
	s.LatencyMS, _ = join(parts)
	slices.SortFunc(types, compareOperations)
	for _, name := range types {
		o := OperationSummary{Type: name}
		for _, p := range operations[name] {
			o.Count += p.count
			o.Errors += p.errors
		}
		var err error
		if o.LatencyMS, err = join(operations[name]); err != nil {
			b.damage.note(fmt.Sprintf("a cell.json of %s at %d documents: histogram of %s: %v", s.Target, cells[0].ID.Size, name, err),
				"the percentiles over several iterations are means")
		}
		s.Operations = append(s.Operations, o)
	}
}

func histograms(o record.Operation) []string {
	if o.Count == 0 {
		return nil
	}
	return []string{o.Histogram}
}

// part is one cell's share of a latency.
type part struct {
	count, errors int64
	latency       record.Latency
	histograms    []string
}

// join gives the latency of all parts together: that of merged histograms,
// and where a record has none the mean of the parts, weighted by commands.
// The latter also comes with the error, which is a damaged histogram's.
func join(parts []part) (l record.Latency, damaged error) {
	used := make([]part, 0, len(parts))
	for _, p := range parts {
		if p.count > 0 {
			used = append(used, p)
		}
	}
	if len(used) == 0 {
		return record.Latency{}, nil
	}
	if len(used) == 1 {
		return used[0].latency, nil
	}
	var total float64
	var merged stats.Distribution
	exact := true
	for _, p := range used {
		n := float64(p.count)
		total += n
		l.Mean += n * p.latency.Mean
		l.P50 += n * p.latency.P50
		l.P95 += n * p.latency.P95
		l.P99 += n * p.latency.P99
		l.P999 += n * p.latency.P999
		l.Max = max(l.Max, p.latency.Max)
		exact = exact && len(p.histograms) > 0 && !slices.Contains(p.histograms, "")
		if !exact {
			continue
		}
		for _, text := range p.histograms {
			d, err := decode(text)
			if err == nil {
				err = merged.Merge(d)
			}
			if err != nil {
				exact, damaged = false, err
				break
			}
		}
	}
	l.Mean = finite(l.Mean / total)
	if exact && merged.Count() > 0 {
		l.P50 = merged.Quantile(0.50) / usPerMS
		l.P95 = merged.Quantile(0.95) / usPerMS
		l.P99 = merged.Quantile(0.99) / usPerMS
		l.P999 = merged.Quantile(0.999) / usPerMS
		return l, nil
	}
	l.P50 = finite(l.P50 / total)
	l.P95 = finite(l.P95 / total)
	l.P99 = finite(l.P99 / total)
	l.P999 = finite(l.P999 / total)
	return l, damaged
}

// finite keeps the sums of absurd records out of the page: they count as
// not known.
func finite(v float64) float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return 0
	}
	return v
}

func decode(text string) (*stats.Distribution, error) {
	h, err := record.DecodeHistogram(text)
	if err != nil {
		return nil, err
	}
	return stats.FromHDR(h), nil
}

// spreadKey names an estimate's uncertainty.
type spreadKey struct {
	target    int
	operation string
	metric    string
}

// spreads computes the uncertainty of every estimate of a group.
func (b *builder) spreads(g int) (map[spreadKey]stats.Spread, error) {
	out := map[spreadKey]stats.Spread{}
	results := make([]map[spreadKey]stats.Spread, len(b.c.Targets))
	var tasks errgroup.Group
	tasks.SetLimit(4) // each holds one operation's histograms
	for t := range b.c.Targets {
		if !b.c.Groups[g].Summaries[t].Shown() {
			continue
		}
		tasks.Go(func() error {
			var err error
			results[t], err = b.targetSpreads(g, t)
			if err != nil {
				return fmt.Errorf("%s at %s: %w", b.c.Targets[t].Name, b.c.Groups[g].Label, err)
			}
			return nil
		})
	}
	if err := tasks.Wait(); err != nil {
		return nil, err
	}
	for _, result := range results {
		for key, spread := range result {
			out[key] = spread
		}
	}
	return out, nil
}

func (b *builder) targetSpreads(g, t int) (map[spreadKey]stats.Spread, error) {
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
		out, bad, err := b.windowSpreads(g, t, raw)
		if len(bad) == 0 {
			return out, err
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
// order of cells and windows, and the spreads are of no use.
func (b *builder) windowSpreads(g, t int, raw [][]record.Window) (map[spreadKey]stats.Spread, []badWindow, error) {
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
		_, spreads, err := stats.Estimate(windows, asked, b.seed(g, t, operation))
		if err != nil {
			return fmt.Errorf("%s: %w", operation, err)
		}
		for i := range metrics {
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
			return nil, nil, err
		}
	}
	if len(bad) > 0 {
		slices.SortStableFunc(bad, func(x, y badWindow) int { return cmp.Or(cmp.Compare(x.cell, y.cell), cmp.Compare(x.index, y.index)) })
		return nil, slices.CompactFunc(bad, func(x, y badWindow) bool { return x.cell == y.cell && x.index == y.index }), nil
	}
	if err := estimate(AllOperations, all); err != nil {
		return nil, nil, err
	}
	return out, nil, nil
}

// wholeWindows drops windows of less than half the usual length, such as the
// last one of a cell: they would weigh as much as the others in what is
// learned about noise.
func wholeWindows(windows []record.Window) []record.Window {
	if len(windows) < 3 {
		return windows
	}
	lengths := make([]float64, len(windows))
	for i, w := range windows {
		lengths[i] = w.EndS - w.StartS
	}
	slices.Sort(lengths)
	usual := lengths[len(lengths)/2]
	return slices.DeleteFunc(windows, func(w record.Window) bool { return w.EndS-w.StartS < usual/2 })
}

// seed gives every estimate a stream of random numbers of its own that
// depends on nothing but the record.
func (b *builder) seed(g, t int, operation string) uint64 {
	h := fnv.New64a()
	group := &b.c.Groups[g]
	_, _ = fmt.Fprintf(h, "%d\x00%s\x00%d\x00%s\x00%s", b.c.Run.Settings.Seed, b.c.Targets[t].Name, group.Size, group.Variant, operation)
	return h.Sum64()
}

func (b *builder) differences(g int, spreads map[spreadKey]stats.Spread) {
	group := &b.c.Groups[g]
	base := b.c.target(b.c.Baseline)
	bs := &group.Summaries[base]
	if !bs.Shown() {
		return
	}
	metrics := windowMetrics()
	for t := range group.Summaries {
		ts := &group.Summaries[t]
		if t == base || !ts.Shown() {
			continue
		}
		add := func(metric, operation string, value, baseValue float64, tSpread, bSpread stats.Spread, direction stats.Direction) {
			if value <= 0 || baseValue <= 0 {
				return
			}
			tSpread.Iterations, bSpread.Iterations = ts.Cells, bs.Cells
			b.c.Differences = append(b.c.Differences, Difference{
				Group: g, Target: ts.Target, Baseline: bs.Target, Metric: metric, Operation: operation,
				Value: value, Base: baseValue, Ratio: stats.Compare(value, baseValue, tSpread, bSpread), Direction: direction,
			})
		}
		for i := range metrics {
			m := &metrics[i]
			add(m.name, AllOperations, m.of(ts), m.of(bs),
				spreads[spreadKey{t, AllOperations, m.name}], spreads[spreadKey{base, AllOperations, m.name}], m.direction)
		}
		if ts.CPU != nil && bs.CPU != nil {
			tp, tsec := cpuValues(b.counted[g][t])
			bp, bsec := cpuValues(b.counted[g][base])
			add(MetricCPUPrimary, AllOperations, ts.CPU.Primary, bs.CPU.Primary,
				stats.SpreadOfValues(tp), stats.SpreadOfValues(bp), stats.LowerIsBetter)
			add(MetricCPUSecondary, AllOperations, ts.CPU.Secondary, bs.CPU.Secondary,
				stats.SpreadOfValues(tsec), stats.SpreadOfValues(bsec), stats.LowerIsBetter)
		}
		for _, o := range ts.Operations {
			i := slices.IndexFunc(bs.Operations, func(x OperationSummary) bool { return x.Type == o.Type })
			if i < 0 {
				continue
			}
			to, bo := Summary{LatencyMS: o.LatencyMS}, Summary{LatencyMS: bs.Operations[i].LatencyMS}
			for k := range metrics {
				m := &metrics[k]
				add(m.name, o.Type, m.of(&to), m.of(&bo),
					spreads[spreadKey{t, o.Type, m.name}], spreads[spreadKey{base, o.Type, m.name}], m.direction)
			}
		}
	}
}

func cpuValues(cells []*CellInput) (primary, secondary []float64) {
	for _, in := range cells {
		if c := in.Cell.CPUUSPerCommand; c != nil {
			primary = append(primary, c.Primary)
			secondary = append(secondary, c.Secondary)
		}
	}
	return primary, secondary
}

// difference finds what was computed for a target, or nil.
func (c *Comparison) difference(group int, target, metric, operation string) *Difference {
	i := slices.IndexFunc(c.Differences, func(d Difference) bool {
		return d.Group == group && d.Target == target && d.Metric == metric && d.Operation == operation
	})
	if i < 0 {
		return nil
	}
	return &c.Differences[i]
}

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

func (b *builder) timelines(g int) {
	var cells []*CellInput
	for t := range b.c.Targets {
		if !b.c.Groups[g].Summaries[t].Shown() {
			continue
		}
		for _, in := range b.counted[g][t] {
			if in.Intervals != nil {
				cells = append(cells, in)
			}
		}
	}
	lines := make([]Timeline, len(cells))
	var tasks errgroup.Group
	tasks.SetLimit(4)
	for i, in := range cells {
		tasks.Go(func() error {
			lines[i] = Timeline{Group: g, Target: in.ID.Target, Iteration: in.ID.Iteration, Step: timelineStep(in.Cell.DurationS)}
			lines[i].Points = b.points(in, lines[i].Step.Seconds())
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
// is less than half covered is dropped.
func (b *builder) points(in *CellInput, step float64) []Point {
	type bin struct{ seconds, count, sumUS, errors float64 }
	var bins []bin
	for v := range sound(&b.damage, in.Intervals, "the second is left out of the course over time") {
		at := math.Floor((v.StartS + v.EndS) / 2 / step)
		if !(at >= 0 && at < maxPoints) || !(v.EndS > v.StartS) {
			continue
		}
		for len(bins) <= int(at) {
			bins = append(bins, bin{})
		}
		x := &bins[int(at)]
		x.seconds += v.EndS - v.StartS
		for _, o := range v.Operations {
			x.count += float64(o.Count)
			x.sumUS += float64(o.SumUS)
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
			p.MeanMS = x.sumUS / x.count / usPerMS
		}
		out = append(out, p)
	}
	return out
}

// errorCounts lists the failures of the counted cells.
func (b *builder) errorCounts() {
	for g := range b.c.Groups {
		for t := range b.c.Targets {
			counts := map[string]int64{}
			var sent int64
			for _, in := range b.counted[g][t] {
				sent += in.Cell.Commands + in.Cell.Errors
				for code, n := range in.Cell.ErrorCodes {
					counts[code] += n
				}
			}
			for _, key := range sortedKeys(counts, strings.Compare) {
				operation, code, found := strings.Cut(key, "/")
				if !found {
					operation, code = "", key
				}
				b.c.Errors = append(b.c.Errors, ErrorCount{
					Group: g, Target: b.c.Targets[t].Name, Operation: operation, Code: code,
					Count: counts[key], Share: float64(counts[key]) / float64(max(sent, 1)),
				})
			}
		}
	}
}

// missing lists what the run asked for and has no counted attempt, and says
// of every absent summary why.
func (b *builder) missing() {
	for g := range b.c.Groups {
		group := &b.c.Groups[g]
		for t := range group.Summaries {
			for iteration := 1; iteration <= group.Iterations; iteration++ {
				id := record.CellID{Target: b.c.Targets[t].Name, Size: group.Size, Variant: group.Variant, Iteration: iteration}
				if slices.ContainsFunc(b.counted[g][t], func(in *CellInput) bool { return in.ID.Iteration == iteration }) {
					continue
				}
				m := Missing{CellID: id, Reason: b.absence(id, b.c.Targets[t].Down)}
				b.c.Missing = append(b.c.Missing, m)
				if s := &group.Summaries[t]; s.Cells == 0 && s.Absent == "" {
					s.Absent = m.Reason
				}
			}
			if s := &group.Summaries[t]; s.Cells == 0 && s.Absent == "" {
				s.Absent = "no cell counts"
			}
		}
	}
}

func (b *builder) absence(id record.CellID, down string) string {
	reason := ""
	for i := range b.c.Cells { // the last attempt says it
		if c := &b.c.Cells[i]; c.CellID == id {
			reason = fmt.Sprintf("%s: %s", c.State, c.Reason)
		}
	}
	switch {
	case reason != "":
		return reason
	case down != "":
		return "the target was down: " + down
	case b.c.Run.Finished == nil:
		return "not run yet: the run has not finished"
	}
	return "not run"
}
