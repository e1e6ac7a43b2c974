package report

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// course is a line over the time of one cell.
type course struct {
	target    string
	series    int // the target's place plus one
	iteration int
	step      float64 // seconds from point to point; more is a gap
	points    []coursePoint
	counts    bool // the values are whole numbers of something
}

// text writes a value of the line.
func (l *course) text(v float64) string {
	if l.counts {
		return thousands(int64(v))
	}
	return number(v)
}

type coursePoint struct {
	at, value float64 // seconds since the measured start; in the chart's unit
	more      string  // said in the tip after the value
}

// courses makes the lines of a group from its timelines.
func (c *Comparison) courses(g int, of func(*Timeline) (step float64, points []coursePoint)) []course {
	var out []course
	for i := range c.Timelines {
		t := &c.Timelines[i]
		if t.Group != g {
			continue
		}
		x := course{target: t.Target, series: c.target(t.Target) + 1, iteration: t.Iteration}
		if x.step, x.points = of(t); len(x.points) > 0 {
			out = append(out, x)
		}
	}
	return out
}

func (c *Comparison) throughputCourse() *figure {
	f := &figure{
		ID: "throughput-over-time", Title: "Throughput over time", Legend: c.legend(),
		Alt: "Successful commands per second over the measured time, a panel per size, a line per target and iteration.",
	}
	for g := range c.Groups {
		lines := c.courses(g, func(t *Timeline) (float64, []coursePoint) {
			var points []coursePoint
			for _, p := range t.Points {
				points = append(points, coursePoint{p.AtS, p.ThroughputPerS, fmt.Sprintf(", mean %s ms", number(p.MeanMS))})
			}
			return t.Step.Seconds(), points
		})
		if len(lines) > 0 {
			if f.Caption == "" {
				f.Caption = fmt.Sprintf("Successful commands per second, means over %s. ", seconds(lines[0].step))
			}
			f.course(c, g, "throughput", "commands/s", lines)
		}
	}
	f.Caption += f.linesNote()
	return f
}

func (c *Comparison) latencyCourse() *figure {
	f := &figure{
		ID: "latency-over-time", Title: "Latency over time", Legend: c.legend(),
		Alt: "Mean and p99 of the service time over the measured time, panels per size, a line per target and iteration.",
	}
	tail := ""
	for g := range c.Groups {
		mean := c.courses(g, func(t *Timeline) (float64, []coursePoint) {
			var points []coursePoint
			for _, p := range t.Points {
				if p.MeanMS > 0 {
					points = append(points, coursePoint{p.AtS, p.MeanMS, fmt.Sprintf(", slowest %s ms", number(p.MaxMS))})
				}
			}
			return t.Step.Seconds(), points
		})
		if len(mean) == 0 {
			continue
		}
		if f.Caption == "" {
			f.Caption = fmt.Sprintf("Service time of successful commands in milliseconds, less is better: means over %s", seconds(mean[0].step))
		}
		f.course(c, g, "mean latency", "ms", mean)
		p99 := c.courses(g, func(t *Timeline) (float64, []coursePoint) {
			step := 0.0
			var points []coursePoint
			for _, w := range t.Windows {
				step = max(step, w.Seconds)
				if w.Count >= 100*leastBeyond {
					points = append(points, coursePoint{w.AtS, w.P99MS, fmt.Sprintf(" of %s commands", thousands(w.Count))})
				}
			}
			return step, points
		})
		if len(p99) > 0 {
			if tail == "" {
				tail = fmt.Sprintf(", and the p99 of windows of %s that have %s commands or more", seconds(p99[0].step), thousands(100*leastBeyond))
			}
			f.course(c, g, "p99 latency", "ms", p99)
		}
	}
	f.Caption += tail + ". " + f.linesNote()
	return f
}

// course adds a chart and the numbers behind it.
func (f *figure) course(c *Comparison, g int, what, unit string, lines []course) {
	title := fmt.Sprintf("Size %s: %s", c.Groups[g].Label, what)
	f.Charts = append(f.Charts, courseChart(title+c.chartMark(), unit, lines))
	if t := courseTable(title+", "+unit, lines); t != nil {
		f.Data = append(f.Data, t)
	}
}

// mostCourseCells bounds the numbers listed behind a chart; what is more is
// in the run record alone.
const mostCourseCells = 5000

// courseTable lists the points of the lines, those of one step side by side.
func courseTable(caption string, lines []course) *sheet {
	t := &sheet{Caption: caption, Columns: []column{{Head: "minute", Right: true}}}
	step := lines[0].step
	slot := func(p coursePoint) int { return int(p.at / step) }
	var slots []int
	for _, l := range lines {
		t.Columns = append(t.Columns, column{Head: fmt.Sprintf("%s #%d", l.target, l.iteration), Right: true})
		for _, p := range l.points {
			slots = append(slots, slot(p))
		}
	}
	slices.Sort(slots)
	slots = slices.Compact(slots)
	if len(slots)*len(lines) > mostCourseCells {
		return nil
	}
	for _, k := range slots {
		r := row{Cells: []cell{{Text: clock((float64(k) + 0.5) * step)}}}
		for _, l := range lines {
			i := slices.IndexFunc(l.points, func(p coursePoint) bool { return slot(p) == k })
			if i < 0 {
				r.Cells = append(r.Cells, noCell())
				continue
			}
			r.Cells = append(r.Cells, cell{Text: l.text(l.points[i].value)})
		}
		t.Rows = append(t.Rows, r)
	}
	return t
}

// clock writes a time of s seconds as minutes and seconds: 4:30.
func clock(s float64) string {
	tenths := int64(math.Round(s * 10))
	text := fmt.Sprintf("%d:%02d", tenths/600, tenths/10%60)
	if tenths%10 != 0 {
		text += fmt.Sprintf(".%d", tenths%10)
	}
	return text
}

func courseChart(title, unit string, lines []course) chart {
	ch := chart{Title: title, W: wideChart, H: 250}
	low, high, end := math.Inf(1), 0.0, 0.0
	for _, l := range lines {
		for _, p := range l.points {
			low, high = min(low, p.value), max(high, p.value)
			end = max(end, p.at+l.step/2)
		}
	}
	bottom := 0.0
	scale := unit
	if low > 0.5*high && !lines[0].counts { // the lines would be squeezed into the top
		bottom = low - (high-low)*0.15
		if ch.OffZero = ticks(bottom, high, axisTicks)[0] > 0; ch.OffZero {
			scale += "; the axis does not start at zero"
		}
	}
	ch.text("title", "start", 6, 16, title)
	if bottom == 0 {
		high = max(high, 1e-9)
	}
	y := ch.yAxis(scale, bottom, high)
	perTick, name := 1.0, "seconds"
	if end > 180 {
		perTick, name = 60, "minutes"
	}
	at := ticks(0, end/perTick, 10)
	limit := max(end/perTick, 1e-9)
	x := func(s float64) float64 {
		return marginLeft + s/perTick/limit*float64(wideChart-marginLeft-marginRight)
	}
	for _, v := range at {
		if v <= limit*1.0001 {
			ch.text("tick", "middle", x(v*perTick), float64(ch.H-12), tickLabel(v, at[1]-at[0]))
		}
	}
	ch.text("unit", "end", float64(wideChart-marginRight), 34, name+" since the measured start")
	var desc []string
	for _, l := range lines {
		later := ""
		if l.iteration > 1 {
			later = " later"
		}
		var d strings.Builder
		least, most := math.Inf(1), 0.0
		for i, p := range l.points {
			letter := "L"
			if i == 0 || p.at-l.points[i-1].at > 1.5*l.step {
				letter = "M"
			}
			fmt.Fprintf(&d, "%s%s %s", letter, px(x(p.at)), px(y(p.value)))
			least, most = min(least, p.value), max(most, p.value)
		}
		tip := fmt.Sprintf("%s, iteration %d: %s to %s %s", l.target, l.iteration, l.text(least), l.text(most), unit)
		ch.Marks = append(ch.Marks, mark{Shape: "path", Class: classes("course", l.series) + later, D: d.String(), Tip: tip, Focus: true})
		desc = append(desc, tip)
		// Markers thin out so that they stay apart.
		every := max(len(l.points)/30, 1)
		for i, p := range l.points {
			if i%every != 0 {
				continue
			}
			ch.Marks = append(ch.Marks, mark{
				Shape: "path", Class: classes("dot", l.series) + later, D: marker((l.series-1)%looks, x(p.at), y(p.value), 3.2),
				Tip: fmt.Sprintf("%s, iteration %d, at %s: %s %s%s", l.target, l.iteration, clock(p.at), l.text(p.value), unit, p.more),
			})
		}
	}
	ch.Desc = strings.Join(desc, ". ")
	return ch
}
