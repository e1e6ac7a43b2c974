package report

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/mongo-sandbox/sandbox/internal/stats"
)

// figure is one or several charts that answer one question.
type figure struct {
	ID      string
	Title   string
	Caption string
	Charts  []chart
	// Legend lists the targets drawn, as their places plus one.
	Legend []legendEntry
}

type legendEntry struct {
	Series int
	Name   string
	Look   look
}

// chart is a drawing in SVG's terms, complete but for its style sheet: the
// template only writes it down.
type chart struct {
	Title string
	Desc  string // for those who do not see it
	W, H  int
	Marks []mark
	// Cut: an interval goes on beyond the scale; an arrow says where.
	Cut bool
}

// mark is one SVG element. Coordinates are text, ready to be written.
type mark struct {
	Shape        string // rect, line, path or text
	Class        string
	X, Y, W, H   string // rect and text; of a line X, Y is its start
	X2, Y2       string
	D            string // path
	Text, Anchor string
	Tip          string // shown on hover and focus
	Focus        bool   // reachable by keyboard
}

// looks is the number of distinct series styles; the style sheet has as many.
const looks = 8

// look is what tells a series from others beside its colour.
type look struct {
	Index  int    // 0 to looks-1: class c<Index>
	Marker string // path around the origin
}

func lookOf(series int) look {
	i := (series - 1) % looks
	return look{Index: i, Marker: marker(i, 0, 0, 4.5)}
}

// marker draws the shape of a series around a point.
func marker(index int, x, y, r float64) string {
	polygon := func(points ...float64) string {
		var b strings.Builder
		for i := 0; i < len(points); i += 2 {
			letter := "L"
			if i == 0 {
				letter = "M"
			}
			fmt.Fprintf(&b, "%s%s %s", letter, px(x+r*points[i]), px(y+r*points[i+1]))
		}
		return b.String() + "Z"
	}
	switch index {
	case 1:
		return polygon(-0.85, -0.85, 0.85, -0.85, 0.85, 0.85, -0.85, 0.85) // square
	case 2:
		return polygon(0, -1.1, 1.05, 0.8, -1.05, 0.8) // triangle
	case 3:
		return polygon(0, -1.2, 1.2, 0, 0, 1.2, -1.2, 0) // diamond
	case 4:
		return polygon(0, 1.1, 1.05, -0.8, -1.05, -0.8) // triangle on its tip
	case 5:
		return polygon(-0.35, -1.1, 0.35, -1.1, 0.35, -0.35, 1.1, -0.35, 1.1, 0.35, 0.35, 0.35, 0.35, 1.1, -0.35, 1.1, -0.35, 0.35, -1.1, 0.35, -1.1, -0.35, -0.35, -0.35) // plus
	case 6:
		return polygon(0, -1.15, 1.09, -0.36, 0.68, 0.93, -0.68, 0.93, -1.09, -0.36) // pentagon
	case 7:
		return polygon(-1.1, -0.6, 1.1, -0.6, 1.1, 0.6, -1.1, 0.6) // bar
	}
	return fmt.Sprintf("M%s %sA%[3]s %[3]s 0 1 0 %[4]s %[2]sA%[3]s %[3]s 0 1 0 %[1]s %[2]sZ", px(x-r), px(y), px(r), px(x+r))
}

// px writes a coordinate with a tenth of a pixel.
func px(v float64) string {
	s := strconv.FormatFloat(v, 'f', 1, 64)
	return strings.TrimSuffix(s, ".0")
}

func classes(kind string, series int) string {
	return fmt.Sprintf("%s c%d t%d", kind, (series-1)%looks, series)
}

// charWidth is the width of a character of the small labels, in pixels.
const charWidth = 6.4

func textWidth(s string) float64 { return charWidth * float64(utf8.RuneCountInString(s)) }

func (c *chart) line(class string, x, y, x2, y2 float64) {
	c.Marks = append(c.Marks, mark{Shape: "line", Class: class, X: px(x), Y: px(y), X2: px(x2), Y2: px(y2)})
}

func (c *chart) text(class, anchor string, x, y float64, s string) {
	c.Marks = append(c.Marks, mark{Shape: "text", Class: class, Anchor: anchor, X: px(x), Y: px(y), Text: s})
}

// ticks are round numbers that cover low to high in about n steps.
func ticks(low, high float64, n int) []float64 {
	if !(high > low) {
		high = low + 1
	}
	raw := (high - low) / float64(n)
	scale := math.Pow(10, math.Floor(math.Log10(raw)))
	step := 10 * scale
	for _, k := range [...]float64{1, 2, 2.5, 5} {
		if k*scale >= raw*0.999 {
			step = k * scale
			break
		}
	}
	first := math.Floor(low/step+1e-9) * step
	var out []float64
	for i := range 100 {
		v := first + float64(i)*step
		out = append(out, v)
		if v >= high-step*1e-9 {
			break
		}
	}
	if len(out) < 2 { // values so close that they are one after rounding
		out = append(out, first+step)
	}
	return out
}

// tickLabel writes an axis number without needless digits.
func tickLabel(v, step float64) string {
	digits := 0
	for s := step; digits < 4 && math.Abs(s-math.Round(s)) > 1e-6*s; digits++ {
		s *= 10
	}
	s := strconv.FormatFloat(v, 'f', digits, 64)
	if digits == 0 {
		s = thousands(int64(math.Round(v)))
	}
	return strings.TrimPrefix(s, "-0.0")
}

type bar struct {
	series    int
	value     float64
	low, high float64 // of the interval; 0 without one
	diff      string
	tip       string
}

type barGroup struct {
	label string
	bars  []bar
}

// plot margins.
const (
	marginLeft   = 58
	marginRight  = 14
	marginTop    = 46
	marginBottom = 30
)

// yAxis draws a vertical axis from 0 or from the first tick and returns the
// scale.
func (c *chart) yAxis(unit string, low, high float64) func(float64) float64 {
	at := ticks(low, high, 5)
	first, last := at[0], at[len(at)-1]
	bottom := float64(c.H - marginBottom)
	height := bottom - marginTop
	y := func(v float64) float64 { return bottom - (v-first)/(last-first)*height }
	step := at[1] - at[0]
	for _, v := range at {
		c.line("grid", marginLeft, y(v), float64(c.W-marginRight), y(v))
		c.text("tick", "end", marginLeft-7, y(v)+4, tickLabel(v, step))
	}
	c.text("unit", "start", 6, 34, unit)
	return y
}

// whiskerRoom is how many times the highest bar the scale may reach.
const whiskerRoom = 2

// arrowNote is added to captions of figures in which an interval is cut.
const arrowNote = " An arrow: it goes on beyond the scale."

// barChart draws groups of bars from zero.
func barChart(title, unit string, width, height int, groups []barGroup) chart {
	c := chart{Title: title, W: width, H: height}
	top, widest, most := 0.0, 0.0, 1
	for _, g := range groups {
		most = max(most, len(g.bars))
		for _, b := range g.bars {
			top, widest = max(top, b.value), max(widest, b.high)
		}
	}
	// One hopeless interval must not flatten all bars.
	top = max(top, min(widest, whiskerRoom*top))
	c.text("title", "start", 6, 16, title)
	y := c.yAxis(unit, 0, top*1.04)
	slotWidth := float64(width-marginLeft-marginRight) / float64(len(groups))
	barSlot := min(slotWidth*0.86/float64(most), 92)
	barWidth := barSlot * 0.82
	var desc []string
	for i, g := range groups {
		middle := marginLeft + slotWidth*(float64(i)+0.5)
		c.text("label", "middle", middle, float64(height-10), g.label)
		left := middle - barSlot*float64(len(g.bars))/2
		for k, b := range g.bars {
			x := left + barSlot*float64(k) + (barSlot-barWidth)/2
			center := x + barWidth/2
			c.Marks = append(c.Marks, mark{
				Shape: "rect", Class: classes("bar", b.series), X: px(x), Y: px(y(b.value)), W: px(barWidth), H: px(max(y(0)-y(b.value), 0.5)),
				Tip: b.tip, Focus: true,
			})
			desc = append(desc, b.tip)
			above := y(b.value)
			if b.high > 0 {
				low, high := y(min(b.low, top)), y(min(b.high, top))
				above = min(above, high)
				end := min(barWidth/4, 7)
				class := fmt.Sprintf("whisker t%d", b.series)
				c.line(fmt.Sprintf("halo t%d", b.series), center, low, center, high)
				c.line(class, center, low, center, high)
				c.line(class, center-end, low, center+end, low)
				if b.high > top {
					c.Cut = true
					c.line(class, center-end, high+end, center, high)
					c.line(class, center+end, high+end, center, high)
				} else {
					c.line(class, center-end, high, center+end, high)
				}
			}
			label := number(b.value)
			if fits := textWidth(label) <= barSlot-1; fits {
				if b.diff != "" && textWidth(b.diff) <= barSlot-2 {
					c.text(fmt.Sprintf("diff t%d", b.series), "middle", center, above-5, b.diff)
					above -= 13
				}
				c.text(fmt.Sprintf("value t%d", b.series), "middle", center, above-5, label)
			}
		}
	}
	c.line("axis", marginLeft, y(0), float64(width-marginRight), y(0))
	c.Desc = strings.Join(desc, ". ")
	return c
}

// groupBars makes the bars of a metric for every group that has any.
func (c *Comparison) groupBars(metric, unit string, of func(*Summary) float64) []barGroup {
	var out []barGroup
	for g := range c.Groups {
		group := barGroup{label: c.Groups[g].Label}
		for i := range c.Groups[g].Summaries {
			s := &c.Groups[g].Summaries[i]
			if !s.Shown() || of(s) <= 0 {
				continue
			}
			b := bar{series: i + 1, value: of(s)}
			b.tip = fmt.Sprintf("%s, %s: %s %s", s.Target, group.label, number(b.value), unit)
			if d := c.difference(g, s.Target, metric, AllOperations); d != nil {
				b.diff = change(d.Ratio.Value)
				b.tip += fmt.Sprintf(", %s against %s, ", b.diff, c.Baseline) + d.Verdict()
				if d.Ratio.HasInterval() {
					b.low, b.high = d.Base*d.Ratio.Low, d.Base*d.Ratio.High
					b.tip += ", 95 % interval " + interval(d.Ratio)
				}
			}
			group.bars = append(group.bars, b)
		}
		if len(group.bars) > 0 {
			out = append(out, group)
		}
	}
	return out
}

func (c *Comparison) legend() []legendEntry {
	var out []legendEntry
	for i := range c.Targets {
		for g := range c.Groups {
			if c.Groups[g].Summaries[i].Shown() {
				out = append(out, legendEntry{Series: i + 1, Name: c.Targets[i].Name, Look: lookOf(i + 1)})
				break
			}
		}
	}
	return out
}

// chartMark follows a chart's title, because charts are copied without the
// page around them.
func (c *Comparison) chartMark() string {
	if c.Embedded() {
		return " (embedded, not MongoDB)"
	}
	return ""
}

const (
	wideChart = 880
	halfChart = 436
)

func (c *Comparison) throughputFigure() *figure {
	f := &figure{
		ID: "throughput-by-size", Title: "Throughput by size", Legend: c.legend(),
		Caption: "Successful commands per second, more is better, with the difference from " + c.Baseline +
			". Whiskers: the 95 % interval of the difference, drawn on the baseline's value.",
	}
	if groups := c.groupBars(MetricThroughput, "commands/s", func(s *Summary) float64 { return s.ThroughputPerS }); len(groups) > 0 {
		f.Charts = []chart{barChart("Throughput"+c.chartMark(), "commands/s", wideChart, 320, groups)}
	}
	f.noteCuts()
	return f
}

func (c *Comparison) latencyFigure() *figure {
	f := &figure{
		ID: "latency-by-size", Title: "Latency by size", Legend: c.legend(),
		Caption: "Service time of successful commands in milliseconds, less is better. Each panel has its own scale, from zero. Whiskers as above.",
	}
	for _, m := range latencyMetrics {
		groups := c.groupBars(m.metric, "ms "+m.head, func(s *Summary) float64 { return m.of(&s.LatencyMS) })
		if len(groups) > 0 {
			f.Charts = append(f.Charts, barChart(upperFirst(m.head)+c.chartMark(), "ms", halfChart, 270, groups))
		}
	}
	f.noteCuts()
	return f
}

func (c *Comparison) cpuFigure() *figure {
	f := &figure{
		ID: "cpu-per-command", Title: "CPU per command", Legend: c.legend(),
		Caption: "Server CPU time per successful command in microseconds, less is better; secondaries summed. Whiskers as above.",
	}
	for _, m := range []struct {
		metric, title string
		of            func(*Summary) float64
	}{
		{MetricCPUPrimary, "Primary", func(s *Summary) float64 { return cpuOf(s, true) }},
		{MetricCPUSecondary, "Secondaries", func(s *Summary) float64 { return cpuOf(s, false) }},
	} {
		if groups := c.groupBars(m.metric, "µs CPU per command", m.of); len(groups) > 0 {
			f.Charts = append(f.Charts, barChart(m.title+c.chartMark(), "µs", halfChart, 250, groups))
		}
	}
	f.noteCuts()
	return f
}

func (f *figure) noteCuts() {
	if slices.ContainsFunc(f.Charts, func(c chart) bool { return c.Cut }) {
		f.Caption += arrowNote
	}
}

func cpuOf(s *Summary, primary bool) float64 {
	switch {
	case s.CPU == nil:
		return 0
	case primary:
		return s.CPU.Primary
	}
	return s.CPU.Secondary
}

func (c *Comparison) differenceFigure() *figure {
	f := &figure{
		ID: "differences", Title: "Differences from " + c.Baseline + " and how sure they are",
		Caption: "Point: the difference. Line: its 95 % interval. A line that touches zero means that no difference was detected. " +
			"A hollow point has no interval: there was too little data.",
	}
	for _, m := range []struct{ metric, title string }{{MetricThroughput, "Throughput"}, {MetricMean, "Mean latency"}} {
		var rows []*Difference
		for i := range c.Differences {
			if d := &c.Differences[i]; d.Metric == m.metric && d.Operation == AllOperations {
				rows = append(rows, d)
			}
		}
		if len(rows) > 0 {
			f.Charts = append(f.Charts, c.forest(m.title, rows))
		}
	}
	f.noteCuts()
	for _, e := range c.legend() {
		if e.Name != c.Baseline {
			f.Legend = append(f.Legend, e)
		}
	}
	return f
}

// forest draws one line per difference around zero.
func (c *Comparison) forest(title string, rows []*Difference) chart {
	const (
		rowHeight = 24
		left      = 170
		right     = 66
		head      = 48
	)
	ch := chart{Title: title, W: halfChart, H: head + rowHeight*len(rows) + 34}
	ch.text("title", "start", 6, 16, title+", difference in %"+c.chartMark())
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
	first, last := at[0]/100, at[len(at)-1]/100
	if first < -1 && len(at) > 2 { // nothing falls by more than all of it
		first, at = -1, at[1:]
	}
	x := func(v float64) float64 {
		return left + (min(max(v, first), last)-first)/(last-first)*float64(halfChart-left-right)
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
		label := c.Groups[d.Group].Label
		if i > 0 && rows[i-1].Group == d.Group {
			label = ""
		} else if i > 0 {
			ch.line("rule", 6, y-rowHeight/2, halfChart-6, y-rowHeight/2)
		}
		ch.text("label", "start", 6, y+4, trimMiddle(label, 8))
		ch.text(fmt.Sprintf("name t%d", series), "end", left-12, y+4, trimMiddle(d.Target, 15))
		tip := fmt.Sprintf("%s, %s: %s against %s, %s", d.Target, c.Groups[d.Group].Label, change(d.Ratio.Value), c.Baseline, d.Verdict())
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
		ch.text(fmt.Sprintf("value t%d", series), "end", halfChart-6, y+4, change(d.Ratio.Value))
		desc = append(desc, tip)
	}
	ch.Desc = strings.Join(desc, ". ")
	return ch
}

func (c *Comparison) timelineFigure() *figure {
	f := &figure{ID: "throughput-over-time", Title: "Throughput over time", Legend: c.legend()}
	for g := range c.Groups {
		var lines []*Timeline
		for i := range c.Timelines {
			if c.Timelines[i].Group == g {
				lines = append(lines, &c.Timelines[i])
			}
		}
		if len(lines) > 0 {
			if f.Caption == "" {
				f.Caption = fmt.Sprintf("Successful commands per second, means over %s; one line per iteration, the first drawn strongest. ", seconds(lines[0].Step.Seconds())) +
					"The vertical axis starts at zero unless it says otherwise."
			}
			f.Charts = append(f.Charts, c.timelineChart(g, lines))
		}
	}
	return f
}

func (c *Comparison) timelineChart(g int, lines []*Timeline) chart {
	ch := chart{Title: "Size " + c.Groups[g].Label + c.chartMark(), W: wideChart, H: 260}
	low, high, end := math.Inf(1), 0.0, 0.0
	for _, l := range lines {
		for _, p := range l.Points {
			low, high = min(low, p.ThroughputPerS), max(high, p.ThroughputPerS)
			end = max(end, p.AtS+l.Step.Seconds()/2)
		}
	}
	unit := "commands/s"
	bottom := 0.0
	if low > 0.5*high { // the lines would be squeezed into the top
		bottom = low - (high-low)*0.15
		unit += "; the axis does not start at zero"
	}
	ch.text("title", "start", 6, 16, ch.Title)
	y := ch.yAxis(unit, bottom, max(high, bottom+1))
	scale, name := 1.0, "seconds"
	if end > 180 {
		scale, name = 60, "minutes"
	}
	at := ticks(0, end/scale, 10)
	limit := max(end/scale, 1e-9)
	x := func(s float64) float64 {
		return marginLeft + s/scale/limit*float64(wideChart-marginLeft-marginRight)
	}
	for _, v := range at {
		if v <= limit*1.0001 {
			ch.text("tick", "middle", x(v*scale), float64(ch.H-12), tickLabel(v, at[1]-at[0]))
		}
	}
	ch.text("unit", "end", float64(wideChart-marginRight), 34, name+" since the measured start")
	var desc []string
	for _, l := range lines {
		series := c.target(l.Target) + 1
		class := classes("course", series)
		if l.Iteration > 1 {
			class += " later"
		}
		var d strings.Builder
		least, most := math.Inf(1), 0.0
		for i, p := range l.Points {
			letter := "L"
			if i == 0 || p.AtS-l.Points[i-1].AtS > 1.5*l.Step.Seconds() {
				letter = "M"
			}
			fmt.Fprintf(&d, "%s%s %s", letter, px(x(p.AtS)), px(y(p.ThroughputPerS)))
			least, most = min(least, p.ThroughputPerS), max(most, p.ThroughputPerS)
		}
		tip := fmt.Sprintf("%s, iteration %d: %s to %s commands/s", l.Target, l.Iteration, number(least), number(most))
		ch.Marks = append(ch.Marks, mark{Shape: "path", Class: class, D: d.String(), Tip: tip, Focus: true})
		desc = append(desc, tip)
		// Markers thin out so that they stay apart.
		every := max(len(l.Points)/30, 1)
		for i, p := range l.Points {
			if i%every != 0 {
				continue
			}
			pointClass := classes("dot", series)
			if l.Iteration > 1 {
				pointClass += " later"
			}
			ch.Marks = append(ch.Marks, mark{
				Shape: "path", Class: pointClass, D: marker((series-1)%looks, x(p.AtS), y(p.ThroughputPerS), 3.2),
				Tip: fmt.Sprintf("%s, iteration %d, at %s: %s commands/s, mean %s ms", l.Target, l.Iteration, seconds(p.AtS), number(p.ThroughputPerS), number(p.MeanMS)),
			})
		}
	}
	ch.Desc = strings.Join(desc, ". ")
	return ch
}
