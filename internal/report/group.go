package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

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
	b.readCells(g)
	spreads, windows, err := b.spreads(g)
	if err != nil {
		return err
	}
	b.differences(g, spreads)
	b.measureThresholds(g, spreads)
	b.repeats(g, spreads)
	b.timelines(g, windows)
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
	var responses []part
	for _, in := range cells {
		c := in.Cell
		s.Commands += c.Commands
		s.Errors += c.Errors
		s.DurationS += c.DurationS
		weighted += c.ThroughputPerS * c.DurationS
		s.DatasetDocuments, s.DatasetBytes = max(s.DatasetDocuments, c.Seeding.Documents), max(s.DatasetBytes, c.Seeding.Bytes)
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
		if p, ok := responsePart(c); ok {
			responses = append(responses, p)
		}
	}
	if len(responses) == s.Cells {
		response, err := join(responses)
		if err != nil {
			b.damage.note(fmt.Sprintf("a cell.json of %s at %d documents: histogram of response times: %v", s.Target, cells[0].ID.Size, err),
				"the percentiles over several iterations are means")
		}
		s.ResponseMS = &response
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
	b, err := record.DecodeHistogram(text)
	if err != nil {
		return nil, err
	}
	return stats.FromBuckets(record.MinLatencyUS, record.LatencyDigits, b.Index, b.Count), nil
}

func (b *builder) differences(g int, spreads map[spreadKey]stats.Spread) {
	for t := range b.c.Targets {
		if base := b.c.target(b.c.Targets[t].Baseline); base >= 0 {
			b.pair(g, t, base, spreads, func(d Difference) { b.c.Differences = append(b.c.Differences, d) })
		}
	}
}

// pair compares a target with another in one group, if both are shown.
func (b *builder) pair(g, t, base int, spreads map[spreadKey]stats.Spread, emit func(Difference)) {
	group := &b.c.Groups[g]
	ts, bs := &group.Summaries[t], &group.Summaries[base]
	if !ts.Shown() || !bs.Shown() {
		return
	}
	metrics := windowMetrics()
	add := func(metric, operation string, value, baseValue float64, tSpread, bSpread stats.Spread, direction stats.Direction) {
		if value <= 0 || baseValue <= 0 {
			return
		}
		// What has no windows has a spread of none; readings of CPU may be
		// missing in cells that have the rest.
		for _, side := range []struct {
			spread *stats.Spread
			cells  int
		}{{&tSpread, ts.Cells}, {&bSpread, bs.Cells}} {
			if side.spread.Iterations == 0 {
				side.spread.Iterations = side.cells
			}
		}
		emit(Difference{
			targetKnown: tSpread.Known(), baseKnown: bSpread.Known(),
			Group: g, Target: ts.Target, Baseline: bs.Target, Metric: metric, Operation: operation,
			Value: value, Base: baseValue, Ratio: stats.Compare(value, baseValue, tSpread, bSpread), Direction: direction,
		})
	}
	for i := range metrics {
		m := &metrics[i]
		add(m.name, AllOperations, m.of(ts), m.of(bs),
			spreads[spreadKey{t, AllOperations, m.name}], spreads[spreadKey{base, AllOperations, m.name}], m.direction)
	}
	for i := range responseMetrics {
		m := &responseMetrics[i]
		add(m.metric, AllOperations, ts.response(m), bs.response(m),
			spreads[spreadKey{t, AllOperations, m.metric}], spreads[spreadKey{base, AllOperations, m.metric}], stats.LowerIsBetter)
	}
	if ts.CPU != nil && bs.CPU != nil {
		for _, m := range cpuMetrics() {
			add(m.name, AllOperations, m.of(ts.CPU), m.of(bs.CPU),
				spreads[spreadKey{t, AllOperations, m.name}], spreads[spreadKey{base, AllOperations, m.name}], stats.LowerIsBetter)
		}
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

// errorCounts lists the failures of the counted cells.
func (b *builder) errorCounts() {
	for g := range b.c.Groups {
		for t := range b.c.Targets {
			counts, slowest := map[string]int64{}, map[string]float64{}
			var sent int64
			for _, in := range b.counted[g][t] {
				sent += in.Cell.Commands + in.Cell.Errors
				for code, n := range in.Cell.ErrorCodes {
					counts[code] += n
				}
				for name, o := range in.Cell.Operations {
					slowest[name] = max(slowest[name], finite(o.LatencyMS.Max))
				}
			}
			for _, key := range sortedKeys(counts, strings.Compare) {
				operation, code, found := strings.Cut(key, "/")
				if !found {
					operation, code = "", key
				}
				b.c.Errors = append(b.c.Errors, ErrorCount{
					Group: g, Target: b.c.Targets[t].Name, Operation: operation, Code: code,
					Count: counts[key], Share: float64(counts[key]) / float64(max(sent, 1)), SlowestMS: slowest[operation],
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
			for iteration := 1; iteration <= b.asked(g, t); iteration++ {
				id := record.CellID{Target: b.c.Targets[t].Name, Size: group.Size, Variant: group.Variant, Iteration: iteration}
				if slices.ContainsFunc(b.counted[g][t], func(in *CellInput) bool { return in.ID.Iteration == iteration }) {
					continue
				}
				m := Missing{CellID: id, Reason: b.absence(id, &b.c.Targets[t])}
				b.c.Missing = append(b.c.Missing, m)
				if s := &group.Summaries[t]; s.Cells == 0 && s.Absent == "" {
					s.Absent = m.Reason
				}
			}
			if s := &group.Summaries[t]; s.Cells == 0 && s.Absent == "" {
				s.Absent = "no cell counts"
				if b.asked(g, t) == 0 {
					s.Absent = "not in " + b.c.runName(t)
				}
			}
		}
	}
}

func (b *builder) absence(id record.CellID, target *Target) string {
	reason := ""
	for i := range b.c.Cells { // the last attempt says it
		if c := &b.c.Cells[i]; c.CellID == id {
			reason = fmt.Sprintf("%s: %s", c.State, c.Reason)
		}
	}
	switch {
	case reason != "":
		return reason
	case b.c.downAt(&id, target) != "":
		return "the target was down: " + b.c.downAt(&id, target)
	case b.c.runAt(&id, target).Finished == nil:
		return "not run yet: the run has not finished"
	}
	return "not run"
}
