package report

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mongo-sandbox/sandbox/internal/record"
	"github.com/mongo-sandbox/sandbox/internal/stats"
)

func TestWhiskersNote(t *testing.T) {
	c := &Comparison{Targets: []Target{{Target: record.Target{Name: "a"}}, {Target: record.Target{Name: "b"}, Baseline: "a"}}}
	base := bar{series: 1, value: 10}
	with, without, alone := bar{series: 2, value: 9, diff: "-10 %", low: 8, high: 9.5}, bar{series: 2, value: 9, diff: "-10 %"}, bar{series: 2, value: 9}
	const whiskers, none, few, all, nobody = "Whiskers:", "The baseline itself has none.", "Where another bar with a difference has none", "No bar has a 95 % interval", "no baseline beside it"
	for name, test := range map[string]struct {
		bars []bar
		want []string
	}{
		"all have one":           {[]bar{base, with}, []string{whiskers, none}},
		"too little data at one": {[]bar{base, with, base, without}, []string{whiskers, none, few}},
		"too little data":        {[]bar{base, without}, []string{all}},
		"without a baseline":     {[]bar{base, with, alone}, []string{whiskers, none, nobody}},
		"one target":             {[]bar{base}, nil},
		"nothing":                {nil, nil},
	} {
		note := c.whiskersNote([]barGroup{{bars: test.bars}})
		for _, sentence := range []string{whiskers, none, few, all, nobody} {
			if got, want := strings.Contains(note, sentence), slices.Contains(test.want, sentence); got != want {
				t.Errorf("%s: %q in %q: %v, want %v", name, sentence, note, got, want)
			}
		}
	}
}

func TestForestNote(t *testing.T) {
	with, without := &Difference{Ratio: stats.Ratio{Value: 1.1, Low: 1.05, High: 1.2}}, &Difference{Ratio: stats.Ratio{Value: 1.1}}
	for name, test := range map[string]struct {
		rows         []*Difference
		line, hollow bool
	}{
		"intervals": {[]*Difference{with, with}, true, false},
		"one not":   {[]*Difference{with, without}, true, true},
		"none":      {[]*Difference{without}, false, true},
	} {
		note := forestNote(test.rows)
		if got := strings.Contains(note, "Line:"); got != test.line {
			t.Errorf("%s: a line is explained: %v, want %v", name, got, test.line)
		}
		if got := strings.Contains(note, "hollow"); got != test.hollow {
			t.Errorf("%s: a hollow point is explained: %v, want %v", name, got, test.hollow)
		}
	}
}

// What the caption says of the axes is what the panels say, and what they do.
func TestAxisNote(t *testing.T) {
	line := func(values ...float64) course {
		x := course{target: "a", series: 1, iteration: 1, step: 60}
		for i, v := range values {
			x.points = append(x.points, coursePoint{at: float64(60*i + 30), value: v})
		}
		return x
	}
	zero, cut := line(10, 2, 9), line(100, 96, 99)
	counts := line(100, 96, 99)
	counts.counts = true
	flat := line(0.1, 0.1) // its axis would begin at 0.1, and is labelled from 0 on
	for name, test := range map[string]struct {
		lines []course
		want  string
		cut   int
	}{
		"from zero":        {[]course{zero}, "The vertical axis starts at zero.", 0},
		"all from zero":    {[]course{zero, counts, flat}, "The vertical axes start at zero.", 0},
		"cut":              {[]course{cut}, "The vertical axis does not start at zero, so changes look larger.", 1},
		"all cut":          {[]course{cut, cut}, "The vertical axes do not start at zero, so changes look larger.", 2},
		"some cut":         {[]course{cut, zero}, "The vertical axes start at zero, but for those of the panels that say otherwise, where changes look larger.", 1},
		"nothing is drawn": {nil, "The vertical axes start at zero.", 0},
	} {
		f := &figure{}
		said, drawn := 0, 0
		for _, l := range test.lines {
			ch := courseChart("", "ms", []course{l})
			f.Charts = append(f.Charts, ch)
			lowest := math.Inf(1)
			for _, m := range ch.Marks {
				switch {
				case m.Class == "unit" && strings.Contains(m.Text, "the axis does not start at zero"):
					said++
				case m.Class == "tick" && m.Anchor == "end":
					lowest = min(lowest, parseNumber(t, m.Text))
				}
			}
			if lowest > 0 {
				drawn++
			}
		}
		if got := f.axisNote(); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
		if said != test.cut || drawn != test.cut {
			t.Errorf("%s: %d panels say it, %d do it, want %d", name, said, drawn, test.cut)
		}
	}
}

func parseNumber(t *testing.T, s string) float64 {
	t.Helper()
	v, err := strconv.ParseFloat(strings.ReplaceAll(s, ",", ""), 64)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// The note of the table of members explains the columns that are there.
func TestMemberColumnNotes(t *testing.T) {
	note := func(change func(*memberLoad)) string {
		t.Helper()
		var f *forge
		f = newForge(t, []record.Target{f.target("a", "community", "9.0", "9.0.4")}, []record.Size{{Documents: 1000, Label: "1k", Iterations: 1}}, 10*time.Second)
		f.window, f.grid = 1, 10
		f.throughput[1000] = map[string]float64{"a": 900}
		in := f.input()
		load := memberLoad{processCPU: 0.3, machineCPU: 0.35, diskBusy: 0.2, inFlight: 0.3, pagesPerS: 9e4, hits: 0.999}
		change(&load)
		in.Cells[0].Samples = f.readings(&in.Cells[0], 1, []memberLoad{load, load})
		return build(t, in).memberTable().Note
	}
	plain := note(func(*memberLoad) {})
	for _, absent := range []string{"flow", "lag", "wait", "fill"} {
		if strings.Contains(plain, absent+":") || strings.Contains(plain, absent+",") {
			t.Errorf("%s is not there, and explained: %s", absent, plain)
		}
	}
	if want := "CPU: of the machine. disk: the time the busiest one was busy. queue: mean operations at the busiest disk. rd/cmd: disk reads per command of the cell. hits: of WiredTiger's cache. (P): the primary."; !strings.HasSuffix(plain, want) {
		t.Errorf("%q, want %q at its end", plain, want)
	}
	held := note(func(l *memberLoad) { l.flowWait, l.fill, l.lag = 0.3, 0.5, 4 })
	for _, want := range []string{"flow: of the workers' time, held back by flow control.", "hits, fill: of WiredTiger's cache.", "lag: the largest."} {
		if !strings.Contains(held, want) {
			t.Errorf("%q is not in %q", want, held)
		}
	}
}
