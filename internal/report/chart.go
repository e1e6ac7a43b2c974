package report

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// figure is one or several charts that answer one question.
type figure struct {
	ID      string
	Title   string
	Caption string
	// Alt says in a sentence what is drawn, to those who do not see it.
	Alt    string
	Charts []chart
	// Legend lists the targets drawn, as their places plus one.
	Legend []legendEntry
	// Data are the numbers behind the charts, where no table of the page
	// has them.
	Data []*sheet
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
	// OffZero: the vertical axis starts elsewhere, and says so.
	OffZero bool
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

// valueWidth is that of the values on bars, which are larger and bold.
const valueWidth = 8.2

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

// axisTicks is about how many steps a vertical axis has.
const axisTicks = 5

// yAxis draws a vertical axis from 0 or from the first tick and returns the
// scale.
func (c *chart) yAxis(unit string, low, high float64) func(float64) float64 {
	at := ticks(low, high, axisTicks)
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
	top, widest, most, longest := 0.0, 0.0, 1, 0
	for _, g := range groups {
		most = max(most, len(g.bars))
		for _, b := range g.bars {
			top, widest = max(top, b.value), max(widest, b.high)
			longest = max(longest, utf8.RuneCountInString(number(b.value)))
		}
	}
	// One hopeless interval must not flatten all bars.
	top = max(top, min(widest, whiskerRoom*top))
	c.text("title", "start", 6, 16, title)
	y := c.yAxis(unit, 0, top*1.04)
	slotWidth := float64(width-marginLeft-marginRight) / float64(len(groups))
	barSlot := min(slotWidth*0.86/float64(most), 92)
	barWidth := barSlot * 0.82
	fits := valueWidth*float64(longest) <= barSlot-1 // all or none: a gap would look like a missing value
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
			if fits {
				if b.diff != "" && textWidth(b.diff) <= barSlot-2 {
					c.text(fmt.Sprintf("diff t%d", b.series), "middle", center, above-5, b.diff)
					above -= 13
				}
				c.text(fmt.Sprintf("value t%d", b.series), "middle", center, above-5, number(b.value))
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
				b.tip += fmt.Sprintf(", %s against %s, ", b.diff, d.Baseline) + d.Verdict()
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
		Caption: "Successful commands per second, more is better, with the difference from " + c.baselineWords() + ".",
		Alt:     c.barsAlt("successful commands per second"),
	}
	if groups := c.groupBars(MetricThroughput, "commands/s", func(s *Summary) float64 { return s.ThroughputPerS }); len(groups) > 0 {
		f.Charts = []chart{barChart("Throughput"+c.chartMark(), "commands/s", wideChart, 320, groups)}
		f.Caption += c.whiskersNote(groups)
	}
	f.noteCuts()
	return f
}

func (c *Comparison) latencyFigure() *figure {
	f := &figure{
		ID: "latency-by-size", Title: "Latency by size", Legend: c.legend(),
		Caption: "Service time of successful commands in milliseconds, less is better: the mean, and what 50, 95, 99 and 99.9 % of the commands did not exceed. " +
			"Each panel has its own scale, from zero.",
		Alt: c.barsAlt("mean, p50, p95, p99 and p99.9 of the service time in milliseconds, a panel each"),
	}
	var bars []barGroup
	for _, m := range latencyMetrics {
		groups := c.groupBars(m.metric, "ms "+m.head, func(s *Summary) float64 { return s.latency(&m) })
		if len(groups) > 0 {
			f.Charts = append(f.Charts, barChart(upperFirst(m.head)+c.chartMark(), "ms", halfChart, 270, groups))
			bars = append(bars, groups...)
		}
	}
	f.Caption += c.whiskersNote(bars) + c.tailNote()
	f.noteCuts()
	return f
}

func (c *Comparison) cpuFigure() *figure {
	f := &figure{
		ID: "cpu-per-command", Title: "CPU per command by size", Legend: c.legend(),
		Caption: "Server CPU time, user and system, per successful command in microseconds, less is better; that of the secondaries is the sum over all of them. " +
			"Each panel has its own scale, from zero.",
		Alt: c.barsAlt("server CPU per command in microseconds, the primary and the secondaries a panel each"),
	}
	var bars []barGroup
	for _, m := range []struct {
		metric, title string
		of            func(*Summary) float64
	}{
		{MetricCPUPrimary, "Primary", func(s *Summary) float64 { return cpuOf(s, true) }},
		{MetricCPUSecondary, "Secondaries", func(s *Summary) float64 { return cpuOf(s, false) }},
	} {
		if groups := c.groupBars(m.metric, "µs CPU per command", m.of); len(groups) > 0 {
			f.Charts = append(f.Charts, barChart(m.title+c.chartMark(), "µs", halfChart, 250, groups))
			bars = append(bars, groups...)
		}
	}
	f.Caption += c.whiskersNote(bars)
	f.noteCuts()
	return f
}

// barsAlt says in a sentence what bars show; the numbers are in the table
// beside them.
func (c *Comparison) barsAlt(what string) string {
	var names, sizes []string
	for _, e := range c.legend() {
		names = append(names, e.Name)
	}
	for g := range c.Groups {
		sizes = append(sizes, c.Groups[g].Label)
	}
	return fmt.Sprintf("Bars of %s at %s: %s.", list(names), list(sizes), what)
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
