package report

import (
	"fmt"

	"github.com/mongo-sandbox/sandbox/internal/record"
)

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
// loop. Differences are without intervals: the record has response times for
// each cell as a whole.
func (c *Comparison) responseTable() *sheet {
	t := &sheet{
		Caption: "Response time, milliseconds (from a command's intended start to its reply)",
		Columns: []column{{Head: "size"}, {Head: "target"}, {Head: "sent of asked", Right: true}},
		Note: "Response time has the time in it that a command waited for a free worker. Sent of asked: commands that succeeded, of those that the rate asks for; " +
			"where it is well under 100 % the target cannot keep up, and response times grow for as long as the run lasts. Differences are from " +
			c.baselineWords() + ", without intervals.",
	}
	for _, m := range latencyMetrics {
		t.Columns = append(t.Columns, column{Head: m.head, Right: true}, column{Head: "diff ", Right: true, Diff: true})
	}
	for g := range c.Groups {
		group := &c.Groups[g]
		for i := range group.Summaries {
			x := &group.Summaries[i]
			rate := c.runOf(&c.Targets[i]).Settings.Rate
			if x.ResponseMS == nil || rate <= 0 || !x.Shown() {
				continue
			}
			base := c.baseSummary(group, i)
			r := row{First: i == 0 && g > 0, Cells: []cell{
				{Text: group.Label, Repeat: i > 0}, {Text: x.Target, Series: i + 1}, {Text: fmt.Sprintf("%.1f %%", 100*x.ThroughputPerS/rate)},
			}}
			for _, m := range latencyMetrics {
				difference := noCell()
				switch {
				case c.isBaseline(x.Target):
					difference = cell{Text: "base ", Tone: toneMuted}
				case base != nil && base.Shown() && base.ResponseMS != nil && m.of(base.ResponseMS) > 0:
					difference = cell{Text: change(m.of(x.ResponseMS)/m.of(base.ResponseMS)) + " "}
				}
				r.Cells = append(r.Cells, cell{Text: number(m.of(x.ResponseMS))}, difference)
			}
			t.Rows = append(t.Rows, r)
		}
	}
	return t
}

// baseSummary is the summary that a target's is compared with, or nil.
func (c *Comparison) baseSummary(group *Group, target int) *Summary {
	if base := c.target(c.Targets[target].Baseline); base >= 0 {
		return &group.Summaries[base]
	}
	return nil
}
