package report

import (
	"fmt"
	"slices"

	"github.com/mongo-sandbox/sandbox/internal/record"
	"github.com/mongo-sandbox/sandbox/internal/stats"
)

// The metrics of differences in response time, over all operations only.
const (
	MetricResponseMean = "response_mean"
	MetricResponseP50  = "response_p50"
	MetricResponseP95  = "response_p95"
	MetricResponseP99  = "response_p99"
	MetricResponseP999 = "response_p99_9"
)

// responseMetrics are latencyMetrics of response time.
var responseMetrics = [...]latencyMetric{
	{MetricResponseMean, "mean", func(l *record.Latency) float64 { return l.Mean }},
	{MetricResponseP50, "p50", func(l *record.Latency) float64 { return l.P50 }},
	{MetricResponseP95, "p95", func(l *record.Latency) float64 { return l.P95 }},
	{MetricResponseP99, "p99", func(l *record.Latency) float64 { return l.P99 }},
	{MetricResponseP999, "p99.9", func(l *record.Latency) float64 { return l.P999 }},
}

// response is what a metric says of the summary's response time, 0 when
// nothing.
func (s *Summary) response(m *latencyMetric) float64 {
	if s.ResponseMS == nil || m.metric == MetricResponseP999 && !tailKnown(s.Commands) {
		return 0
	}
	return m.of(s.ResponseMS)
}

// responseSpreads adds the uncertainty of a target's response times to out.
// When a window lacks them, as in older records and in a closed loop, there
// is none. Bad windows are as in windowSpreads.
func (b *builder) responseSpreads(g, t int, raw [][]record.Window, out map[spreadKey]stats.Spread) ([]badWindow, error) {
	windows := make([][]stats.Window, len(raw))
	var bad []badWindow
	for i := range raw {
		for k, w := range raw[i] {
			v := stats.Window{Seconds: w.EndS - w.StartS, Latency: &stats.Distribution{}}
			for _, name := range sortedKeys(w.Operations, compareOperations) {
				o := w.Operations[name]
				if o.Count == 0 {
					continue
				}
				if o.ResponseHistogram == "" {
					return nil, nil
				}
				v.Count += o.Count
				v.Sum += float64(o.ResponseSumUS)
				d, err := decode(o.ResponseHistogram)
				if err == nil {
					err = v.Latency.Merge(d)
				}
				if err != nil {
					bad = append(bad, badWindow{i, k, fmt.Errorf("%s: response times: %w", name, err)})
					break
				}
			}
			windows[i] = append(windows[i], v)
		}
	}
	if len(bad) > 0 {
		return bad, nil
	}
	var asked []stats.Metric
	for _, m := range windowMetrics()[1:] { // without throughput
		asked = append(asked, m.metric)
	}
	spreads, err := b.estimate(g, t, windows, asked, "response")
	if err != nil {
		return nil, fmt.Errorf("response times: %w", err)
	}
	for i, m := range responseMetrics {
		out[spreadKey{t, AllOperations, m.metric}] = spreads[i]
	}
	return nil, nil
}

// responsePart is a cell's response times, as a share in its target's; false
// in a closed loop, which has none.
func responsePart(c *record.Cell) (part, bool) {
	if c.ResponseMS == nil {
		return part{}, false
	}
	p := part{count: c.Commands, latency: *c.ResponseMS}
	for _, name := range sortedKeys(c.Operations, compareOperations) {
		if o := c.Operations[name]; o.Count > 0 {
			p.histograms = append(p.histograms, o.ResponseHistogram)
		}
	}
	return p, true
}

// responseTable is what users who keep arriving would have seen, in an open
// loop.
func (c *Comparison) responseTable() *sheet {
	t := &sheet{
		Caption: "Response time, milliseconds (from a command's intended start to its reply)",
		Columns: []column{{Head: "size"}, {Head: "target"}, {Head: "sent of asked", Right: true}},
		Note: "Response time has the time in it that a command waited for a free worker. Sent of asked: commands that succeeded, of those that the rate asks for; " +
			"where it is well under 100 % the target cannot keep up, and response times grow for as long as the run lasts. " +
			"Differences from " + c.baselineWords() + " are below.",
	}
	for _, m := range responseMetrics {
		t.Columns = append(t.Columns, column{Head: m.head, Right: true})
	}
	for g := range c.Groups {
		group := &c.Groups[g]
		for i := range group.Summaries {
			x := &group.Summaries[i]
			rate := c.runOf(&c.Targets[i]).Settings.Rate
			if x.ResponseMS == nil || rate <= 0 || !x.Shown() {
				continue
			}
			r := row{First: i == 0 && g > 0, Cells: []cell{
				{Text: group.Label, Repeat: i > 0}, {Text: x.Target, Series: i + 1}, {Text: fmt.Sprintf("%.1f %%", 100*x.ThroughputPerS/rate)},
			}}
			for _, m := range responseMetrics {
				r.Cells = append(r.Cells, cell{Text: number(x.response(&m))})
			}
			t.Rows = append(t.Rows, r)
		}
	}
	return t
}

// responseUnknown names the targets that have intervals for service time and
// none for response time.
func (c *Comparison) responseUnknown() string {
	var without []string
	for i := range c.Differences {
		d := &c.Differences[i]
		if d.Metric != MetricResponseMean || d.Ratio.HasInterval() {
			continue
		}
		service := c.difference(d.Group, d.Target, MetricMean, AllOperations)
		if service == nil || !service.Ratio.HasInterval() {
			continue
		}
		for _, side := range []struct {
			name  string
			known bool
		}{{d.Target, d.targetKnown}, {d.Baseline, d.baseKnown}} {
			if !side.known && !slices.Contains(without, side.name) {
				without = append(without, side.name)
			}
		}
	}
	if len(without) == 0 {
		return ""
	}
	return fmt.Sprintf(" Of %s the record has response times of whole cells only, as an earlier version of sandbox made it: where they are compared there is no interval.", list(without))
}

// responseDifferenceTable has the differences of what is in the
// responseTable, with their intervals.
func (c *Comparison) responseDifferenceTable() *sheet {
	t := c.latencyDifferenceTable("Response time differences from "+c.baselineWords()+" by percentile", responseMetrics[:])
	t.Note += c.responseUnknown()
	return t
}
