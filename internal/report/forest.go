package report

import (
	"fmt"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/mongo-sandbox/sandbox/internal/stats"
)

func (c *Comparison) differenceFigure() *figure {
	f := &figure{
		ID: "differences", Title: "Differences from " + c.baselineWords() + " and how sure they are", Legend: c.besideBaseline(),
		Alt: "Differences of throughput and mean latency from " + c.baselineWords() + " by size, each a point on the line of its 95 % interval.",
	}
	label := func(d *Difference) string { return c.Groups[d.Group].Label }
	var all []*Difference
	for _, m := range []struct{ metric, title string }{{MetricThroughput, "Throughput"}, {MetricMean, "Mean latency"}} {
		var rows []*Difference
		for i := range c.Differences {
			if d := &c.Differences[i]; d.Metric == m.metric && d.Operation == AllOperations {
				rows = append(rows, d)
			}
		}
		if len(rows) > 0 {
			f.Charts = append(f.Charts, c.forest(m.title+", difference in %"+c.chartMark(), rows, forestTicks(rows), label))
			all = append(all, rows...)
		}
	}
	f.Caption = forestNote(all)
	f.noteCuts()
	return f
}

// besideBaseline is the legend without the baselines.
func (c *Comparison) besideBaseline() []legendEntry {
	var out []legendEntry
	for _, e := range c.legend() {
		if !c.isBaseline(e.Name) {
			out = append(out, e)
		}
	}
	return out
}

// operationFigure shows where a latency differs: a panel per size, a line per
// operation type, all on one scale.
func (c *Comparison) operationFigure(metric int) *figure {
	m := latencyMetrics[metric]
	f := &figure{
		ID: "operations-" + m.head, Title: fmt.Sprintf("%s latency by operation type and size, difference from %s", upperFirst(m.head), c.baselineWords()),
		Legend: c.besideBaseline(),
		Alt: fmt.Sprintf("Differences of the %s latency from %s, a panel per size, a row per operation type, each a point on the line of its 95 %% interval.",
			m.head, c.baselineWords()),
	}
	panels := make([][]*Difference, len(c.Groups))
	var all []*Difference
	for g := range c.Groups {
		for _, operation := range c.operationTypes(g) {
			for i := range c.Targets {
				if d := c.difference(g, c.Targets[i].Name, m.metric, operation); d != nil {
					panels[g] = append(panels[g], d)
					all = append(all, d)
				}
			}
		}
	}
	at := forestTicks(all)
	intervals := 0
	for g, rows := range panels {
		if len(rows) == 0 {
			continue
		}
		label := func(d *Difference) string { return d.Operation }
		f.Charts = append(f.Charts, c.forest(fmt.Sprintf("%s: %s, difference in %%%s", trimMiddle(c.Groups[g].Label, 12), m.head, c.chartMark()), rows, at, label))
		for _, d := range rows {
			if d.Ratio.HasInterval() {
				intervals++
			}
		}
	}
	f.Caption = "Service time of each operation type, left is better; all panels have one scale. " + forestNote(all)
	if intervals >= 20 {
		f.Caption += fmt.Sprintf(" Of these %d intervals about %d would exclude zero even if nothing differed.", intervals, (intervals+10)/20)
	}
	f.noteCuts()
	return f
}

// forestTicks are the ticks of a scale, in percent, for the differences.
func forestTicks(rows []*Difference) []float64 {
	low, high := 0.0, 0.0
	for _, d := range rows {
		low, high = min(low, d.Ratio.Value-1), max(high, d.Ratio.Value-1)
		if d.Ratio.HasInterval() {
			// One hopeless interval must not flatten all the others.
			low, high = min(low, max(d.Ratio.Low-1, -1)), max(high, min(d.Ratio.High-1, 1))
		}
	}
	pad := max((high-low)*0.06, 0.005)
	at := ticks((low-pad)*100, (high+pad)*100, 4)
	for at[0] < -100 { // nothing falls by more than all of it
		if at[1] > -100 {
			at[0] = -100
			break
		}
		at = at[1:]
	}
	return at
}

// The widths of bold and of small letters of a wide font, in pixels.
const (
	boldWidth  = 8.8
	smallWidth = 7.0
)

// forest draws one line per difference around zero, on the scale of the
// ticks. Rows with one label in a row are a group.
func (c *Comparison) forest(title string, rows []*Difference, at []float64, labelOf func(*Difference) string) chart {
	const (
		rowHeight  = 24
		right      = 66
		head       = 48
		longLabel  = 11
		longName   = 15
		sideMargin = 6
	)
	labelChars, nameChars := 0, 0
	for _, d := range rows {
		labelChars = max(labelChars, utf8.RuneCountInString(labelOf(d)))
		nameChars = max(nameChars, utf8.RuneCountInString(d.Target))
	}
	left := sideMargin + boldWidth*float64(min(labelChars, longLabel)) + 12 + smallWidth*float64(min(nameChars, longName)) + 12
	ch := chart{Title: title, W: halfChart, H: head + rowHeight*len(rows) + 34}
	ch.text("title", "start", sideMargin, 16, title)
	first, last := at[0]/100, at[len(at)-1]/100
	x := func(v float64) float64 {
		return left + (min(max(v, first), last)-first)/(last-first)*(halfChart-left-right)
	}
	bottom := float64(head + rowHeight*len(rows))
	for _, v := range at {
		class := "grid"
		if math.Abs(v) < 1e-9 {
			class = "zero"
		}
		ch.line(class, x(v/100), head-8, x(v/100), bottom)
		label := tickLabel(v, at[1]-at[0])
		if v > 1e-9 {
			label = "+" + label
		}
		ch.text("tick", "middle", x(v/100), bottom+16, label)
	}
	better, worse := "faster", "slower"
	if rows[0].Direction == stats.LowerIsBetter {
		better, worse = worse, better
	}
	zero := x(0)
	ch.text("side", "end", zero-8, head-14, "◂ "+worse)
	ch.text("side", "start", zero+8, head-14, better+" ▸")
	var desc []string
	for i, d := range rows {
		series := c.target(d.Target) + 1
		y := float64(head+rowHeight*i) + rowHeight/2
		label := labelOf(d)
		if i > 0 && labelOf(rows[i-1]) == label {
			label = ""
		} else if i > 0 {
			ch.line("rule", sideMargin, y-rowHeight/2, halfChart-sideMargin, y-rowHeight/2)
		}
		ch.text("label", "start", sideMargin, y+4, trimMiddle(label, longLabel))
		ch.text(fmt.Sprintf("name t%d", series), "end", left-12, y+4, trimMiddle(d.Target, longName))
		tip := fmt.Sprintf("%s, %s: %s against %s, %s", d.Target, labelOf(d), change(d.Ratio.Value), d.Baseline, d.Verdict())
		kind := "point"
		if d.Ratio.HasInterval() {
			tip += ", 95 % interval " + interval(d.Ratio)
			ch.line(classes("range", series), x(d.Ratio.Low-1), y, x(d.Ratio.High-1), y)
			if d.Ratio.High-1 > last {
				ch.Cut = true
				ch.line(classes("range", series), x(last)-5, y-5, x(last), y)
				ch.line(classes("range", series), x(last)-5, y+5, x(last), y)
			}
		} else {
			kind = "point hollow"
		}
		ch.Marks = append(ch.Marks, mark{
			Shape: "path", Class: classes(kind, series), D: marker((series-1)%looks, x(d.Ratio.Value-1), y, 5.5), Tip: tip, Focus: true,
		})
		ch.text(fmt.Sprintf("value t%d", series), "end", halfChart-sideMargin, y+4, change(d.Ratio.Value))
		desc = append(desc, tip)
	}
	ch.Desc = strings.Join(desc, ". ")
	return ch
}
