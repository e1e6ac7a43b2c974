package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mongo-sandbox/sandbox/internal/record"
	"github.com/mongo-sandbox/sandbox/internal/stats"
)

func (c *Comparison) differsSection() section {
	s := section{ID: "differs", Title: "What differs, by how much, and is it more than noise?"}
	s.Blocks = append(s.Blocks,
		block{Table: c.throughputTable()},
		block{Figure: c.differenceFigure()},
		block{Figure: c.throughputFigure()},
		block{Table: c.latencyTable()},
		block{Figure: c.latencyFigure()},
		block{Table: c.responseTable()},
		block{Table: c.responseDifferenceTable()},
		block{Text: c.method()},
	)
	return s.withoutEmpty()
}

// onPage tells whether the page shows the difference: of operation types it has
// mean and p99, the others are in JSON and CSV.
func (d *Difference) onPage() bool {
	return d.Operation == AllOperations || d.Metric == MetricMean || d.Metric == MetricP99
}

// method says how the intervals are made, for those who would make them anew.
func (c *Comparison) method() string {
	if !slices.ContainsFunc(c.Differences, func(d Difference) bool { return d.Ratio.HasInterval() }) {
		return ""
	}
	cpu := ""
	if slices.ContainsFunc(c.Differences, func(d Difference) bool { return d.Metric == MetricCPUPrimary && d.Ratio.HasInterval() }) {
		cpu = " The windows of CPU per command end where the members' CPU time was read, with the commands of the same time."
	}
	if c.pool != nil {
		cpu += " Placements are a level above iterations: their estimates are compared in the same way, so that a side has one degree of freedom less than placements."
	}
	return "How the 95 % intervals are made: differences are ratios, taken as logarithms. Inside an iteration, windows are resampled in blocks whose length follows " +
		"their autocorrelation; between iterations, the iterations' own estimates are compared; both variances together, with Student's t for as many degrees of freedom " +
		"as there are." + cpu + " Iterations are not paired, and nothing is corrected for the number of comparisons. In a closed loop throughput and mean latency are one measurement seen twice."
}

// withoutEmpty drops blocks whose table or figure has nothing to show.
func (s section) withoutEmpty() section {
	s.Blocks = slices.DeleteFunc(s.Blocks, func(b block) bool {
		return b.Text == "" && b.Checks == nil && b.List == nil && b.Code == nil &&
			(b.Table == nil || len(b.Table.Rows) == 0) && (b.Figure == nil || len(b.Figure.Charts) == 0)
	})
	return s
}

func (c *Comparison) throughputTable() *sheet {
	t := &sheet{
		Caption: "Throughput, successful commands per second",
		Columns: []column{
			{Head: "size"}, {Head: "target"}, {Head: "per second", Right: true}, {Head: "difference", Right: true},
			{Head: "95 % interval", Right: true}, {Head: "verdict", Whole: true}, {Head: "would detect", Right: true},
		},
		Note: "Differences are from " + c.baselineWords() + ". \"Faster\" and \"slower\" only where the 95 % interval excludes zero; " +
			"\"would detect\" is the true difference that such a run finds with a probability of 80 %.",
	}
	withinRun := false
	for g := range c.Groups {
		group := &c.Groups[g]
		for i := range group.Summaries {
			x := &group.Summaries[i]
			r := row{First: i == 0 && g > 0, Cells: []cell{{Text: group.Label, Repeat: i > 0}, {Text: x.Target, Series: i + 1}}}
			if cells, absent := x.absentRow(5); absent {
				// The reason stands in the verdict's column.
				cells[3], cells[4] = cells[4], cells[3]
				r.Cells = append(r.Cells, cells...)
				t.Rows = append(t.Rows, r)
				continue
			}
			r.Cells = append(r.Cells, cell{Text: number(x.ThroughputPerS)})
			d := c.difference(g, x.Target, MetricThroughput, AllOperations)
			switch {
			case c.isBaseline(x.Target):
				r.Cells = append(r.Cells, cell{Text: "baseline", Tone: toneMuted}, noCell(), noCell(), noCell())
			case d == nil:
				r.Cells = append(r.Cells, noCell(), noCell(), cell{Text: "no baseline here", Tone: toneMuted}, noCell())
			default:
				r.difference = d
				r.Cells = append(r.Cells, d.cells()...)
				withinRun = withinRun || d.Ratio.WithinRun && d.Ratio.HasInterval()
			}
			t.Rows = append(t.Rows, r)
		}
	}
	c.withNoise(t)
	if c.ownMachines() {
		t.Note += " Each target ran on one set of machines: without \"in this run\" a verdict rests on several iterations there, and may not hold on other machines either."
	}
	if withinRun {
		t.Note += " A verdict \"in this run\" is within-run only: it may not hold on other machines, nor on the same ones tomorrow."
	}
	return t
}

// word is the verdict without a number, and within one run only says so.
func (d *Difference) word() string {
	switch o := d.Ratio.Outcome(d.Direction); {
	case d.onlyNoise():
		return "no more than A/A"
	case o == stats.NoDifference:
		return string(o)
	case o == stats.Unknown:
		return "too little data"
	case d.Ratio.WithinRun:
		return d.Verdict() + " in this run"
	}
	return d.Verdict()
}

// cells are difference, interval, verdict and what would have been
// detected.
func (d *Difference) cells() []cell {
	detectable := noCell()
	if d.Ratio.HasInterval() {
		detectable = cell{Text: stats.Percent(d.Ratio.Detectable), Tone: toneMuted}
	}
	return []cell{
		{Text: change(d.Ratio.Value), Tone: d.tone()}, {Text: interval(d.Ratio)}, {Text: d.word(), Tone: d.tone()}, detectable,
	}
}

// latencyMetric is a column of the tables.
type latencyMetric struct {
	metric string
	head   string
	of     func(*record.Latency) float64
}

// latencies of the tables.
var latencyMetrics = [...]latencyMetric{
	{MetricMean, "mean", func(l *record.Latency) float64 { return l.Mean }},
	{MetricP50, "p50", func(l *record.Latency) float64 { return l.P50 }},
	{MetricP95, "p95", func(l *record.Latency) float64 { return l.P95 }},
	{MetricP99, "p99", func(l *record.Latency) float64 { return l.P99 }},
	{MetricP999, "p99.9", func(l *record.Latency) float64 { return l.P999 }},
}

// marked writes a difference, with a star when it is more than noise.
func marked(d *Difference) cell {
	if d == nil {
		return noCell()
	}
	text := change(d.Ratio.Value)
	switch {
	case d.onlyNoise():
		text += "~"
	case d.Ratio.Differs():
		text += "*"
	default:
		text += " " // keeps the columns aligned
	}
	return cell{Text: text, Tone: d.tone()}
}

func (c *Comparison) latencyTable() *sheet {
	t := &sheet{
		Caption: "Latency, milliseconds (service time of successful commands)",
		Columns: []column{{Head: "size"}, {Head: "target"}},
		Note:    "* the 95 % interval of the difference from " + c.baselineWords() + " excludes zero; the intervals are in the next section." + c.noiseNote(),
	}
	if c.Run.Settings.Rate > 0 {
		t.Note += " Service time runs from a command's sending to its reply: time that it waited for a free worker is in the response time, below."
	} else {
		t.Note += " A closed loop hides stalls, because a worker that waits sends nothing; what users who keep arriving would see takes a run with --rate."
	}
	t.Note += c.tailNote()
	for _, m := range latencyMetrics {
		t.Columns = append(t.Columns, column{Head: m.head, Right: true}, column{Head: "diff ", Right: true, Diff: true})
	}
	for g := range c.Groups {
		group := &c.Groups[g]
		for i := range group.Summaries {
			x := &group.Summaries[i]
			r := row{First: i == 0 && g > 0, Cells: []cell{{Text: group.Label, Repeat: i > 0}, {Text: x.Target, Series: i + 1}}}
			for _, m := range latencyMetrics {
				if !x.Shown() {
					r.Cells = append(r.Cells, noCell(), cell{Text: none + " ", Tone: toneMuted})
					continue
				}
				d := marked(c.difference(g, x.Target, m.metric, AllOperations))
				if c.isBaseline(x.Target) {
					d = cell{Text: "base ", Tone: toneMuted}
				}
				r.Cells = append(r.Cells, cell{Text: number(x.latency(&m))}, d)
			}
			t.Rows = append(t.Rows, r)
		}
	}
	return t
}

func (c *Comparison) whereSection() section {
	s := section{ID: "where", Title: "Where: percentiles, operation types, time"}
	s.Blocks = append(s.Blocks, block{Table: c.latencyDifferenceTable("Latency differences from "+c.baselineWords()+" by percentile", latencyMetrics[:])})
	for _, m := range []int{0, 3} { // mean and p99
		s.Blocks = append(s.Blocks, block{Figure: c.operationFigure(m)})
		for _, t := range c.operationTables(m) {
			s.Blocks = append(s.Blocks, block{Table: t})
		}
	}
	s.Blocks = append(s.Blocks, block{Figure: c.throughputCourse()}, block{Figure: c.latencyCourse()})
	return s.withoutEmpty()
}

// latencyDifferenceTable has a row for every difference in the metrics, with
// its interval.
func (c *Comparison) latencyDifferenceTable(caption string, metrics []latencyMetric) *sheet {
	percentiles := &sheet{
		Caption: caption,
		Columns: []column{
			{Head: "size"}, {Head: "target"}, {Head: "latency"}, {Head: "difference", Right: true},
			{Head: "95 % interval", Right: true}, {Head: "verdict", Whole: true}, {Head: "would detect", Right: true},
		},
	}
	for g := range c.Groups {
		for i := range c.Targets {
			first := true
			for _, m := range metrics {
				d := c.difference(g, c.Targets[i].Name, m.metric, AllOperations)
				if d == nil {
					continue
				}
				last := len(percentiles.Rows) - 1
				newSize := last < 0 || percentiles.Rows[last].Cells[0].Text != c.Groups[g].Label
				percentiles.Rows = append(percentiles.Rows, row{First: last >= 0 && first, difference: d, Cells: append([]cell{
					{Text: c.Groups[g].Label, Repeat: !newSize}, {Text: d.Target, Series: i + 1, Repeat: !first}, {Text: m.head},
				}, d.cells()...)})
				first = false
			}
		}
	}
	c.withNoise(percentiles)
	return percentiles
}

// besidePerTable is how many targets fit beside the baseline in one table.
const besidePerTable = 3

func (c *Comparison) operationTables(metric int) []*sheet {
	var out []*sheet
	bases, others := c.followers()
	for i, base := range bases {
		out = append(out, c.operationTablesOf(metric, base, others[i])...)
	}
	return out
}

func (c *Comparison) operationTablesOf(metric, base int, others []int) []*sheet {
	m := latencyMetrics[metric]
	chunks := slices.Collect(slices.Chunk(others, besidePerTable))
	if len(chunks) == 0 {
		chunks = [][]int{nil}
	}
	var out []*sheet
	for _, chunk := range chunks {
		t := &sheet{
			Caption: fmt.Sprintf("%s latency by operation type, milliseconds, with differences from %s", upperFirst(m.head), c.Targets[base].Name),
			Columns: []column{{Head: "size"}, {Head: "operation"}, {Head: "share", Right: true}, {Head: c.Targets[base].Name, Right: true}},
			Note:    "* the 95 % interval of the difference excludes zero. Share: of the successful commands." + c.noiseNote(),
		}
		for _, i := range chunk {
			t.Columns = append(t.Columns, column{Head: c.Targets[i].Name, Right: true}, column{Head: "diff ", Right: true, Diff: true})
		}
		for g := range c.Groups {
			first := true
			for _, name := range c.operationTypes(g) {
				r := row{First: first && len(t.Rows) > 0, Cells: []cell{{Text: c.Groups[g].Label, Repeat: !first}, {Text: name}}}
				first = false
				share, baseCell := none, noCell()
				for _, i := range append([]int{base}, others...) {
					s := &c.Groups[g].Summaries[i]
					if o := s.operation(name); o != nil && s.Shown() {
						if share == none && s.Commands > 0 {
							share = percent(float64(o.Count) / float64(s.Commands))
						}
						if i == base {
							baseCell = cell{Text: number(m.of(&o.LatencyMS))}
						}
					}
				}
				r.Cells = append(r.Cells, cell{Text: share, Tone: toneMuted}, baseCell)
				for _, i := range chunk {
					s := &c.Groups[g].Summaries[i]
					o := s.operation(name)
					if o == nil || !s.Shown() {
						r.Cells = append(r.Cells, noCell(), cell{Text: none + " ", Tone: toneMuted})
						continue
					}
					r.Cells = append(r.Cells, cell{Text: number(m.of(&o.LatencyMS))}, marked(c.difference(g, s.Target, m.metric, name)))
				}
				t.Rows = append(t.Rows, r)
			}
		}
		out = append(out, t)
	}
	return out
}

func upperFirst(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

func (s *Summary) operation(name string) *OperationSummary {
	i := slices.IndexFunc(s.Operations, func(o OperationSummary) bool { return o.Type == name })
	if i < 0 {
		return nil
	}
	return &s.Operations[i]
}

// operationTypes are those that any target shown in the group has.
func (c *Comparison) operationTypes(g int) []string {
	var out []string
	for i := range c.Groups[g].Summaries {
		s := &c.Groups[g].Summaries[i]
		if !s.Shown() {
			continue
		}
		for _, o := range s.Operations {
			if !slices.Contains(out, o.Type) {
				out = append(out, o.Type)
			}
		}
	}
	slices.SortFunc(out, compareOperations)
	return out
}
