package report

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/mongo-sandbox/sandbox/internal/record"
	"github.com/mongo-sandbox/sandbox/internal/stats"
)

// page is a Comparison in words: what text, Markdown and HTML all show.
type page struct {
	Title    string
	Subtitle []string
	Banner   []string
	Glance   []glance
	Sections []section
}

// glance answers one question in a line or a few.
type glance struct {
	Question string
	Answers  []string
	Tone     tone
}

type section struct {
	ID     string
	Title  string
	Blocks []block
}

// block is one piece of a section; exactly one of its contents is set.
type block struct {
	Text   string
	Checks []Check
	List   []string
	Table  *sheet
	Figure *figure
	Code   []string
}

type sheet struct {
	Caption string
	Columns []column
	Rows    []row
	// Note explains what is not obvious.
	Note string
}

type column struct {
	Head  string
	Right bool // numbers
	// Wrap breaks long text into lines where space is short; else it is cut
	// in the middle.
	Wrap bool
	// Diff: the difference that belongs to the column before it.
	Diff bool
	// Whole: words that are never shortened.
	Whole bool
}

type row struct {
	Cells []cell
	First bool // begins a group of rows
}

type cell struct {
	Text string
	Tone tone
	// Repeat: the same as in the row above; text leaves it out.
	Repeat bool
	// Series is the target's place plus one, for its colour and marker.
	Series int
}

// tone is what a text means, for colours, empty for nothing in particular; it
// never carries what the words do not say.
type tone string

const (
	toneGood    tone = "good"
	toneBad     tone = "bad"
	toneCaution tone = "caution"
	toneMuted   tone = "muted"
)

// noCell stands where there is no value.
func noCell() cell { return cell{Text: none, Tone: toneMuted} }

func outcomeTone(o stats.Outcome) tone {
	switch o {
	case stats.Faster:
		return toneGood
	case stats.Slower:
		return toneBad
	}
	return toneMuted
}

func newPage(c *Comparison) *page {
	p := &page{Title: c.title(), Subtitle: c.subtitle(), Banner: c.Banner(), Glance: c.glances()}
	for _, s := range []section{c.fairSection(), c.differsSection(), c.whereSection(), c.whySection(), c.cellsSection(), c.repeatSection()} {
		if len(s.Blocks) > 0 {
			p.Sections = append(p.Sections, s)
		}
	}
	return p
}

func (c *Comparison) title() string {
	names := make([]string, len(c.Targets))
	for i := range c.Targets {
		names[i] = c.Targets[i].Name
	}
	if len(names) == 1 {
		return names[0] + " on its own"
	}
	return list(names) + " compared"
}

func (c *Comparison) subtitle() []string {
	r := &c.Run
	head := fmt.Sprintf("run %s, environment %s on platform %s, started %s",
		r.ID, cmp.Or(r.Environment, none), cmp.Or(r.Platform, none), r.Started.UTC().Format("2006-01-02 15:04 UTC"))
	sizes := make([]string, len(r.Sizes))
	for i, s := range r.Sizes {
		sizes[i] = fmt.Sprintf("%s x %d", cmp.Or(s.Label, thousands(s.Documents)), max(s.Iterations, 1))
	}
	pace := "closed loop, no think time"
	if r.Settings.Rate > 0 {
		pace = fmt.Sprintf("open loop at %s commands/s", number(r.Settings.Rate))
	}
	settings := fmt.Sprintf("%s workload, size x iterations: %s; %s each, %d workers, %s",
		r.Settings.Workload, strings.Join(sizes, ", "), seconds(r.Settings.Duration.Seconds()), r.Settings.Workers, pace)
	return []string{head, settings}
}

func (c *Comparison) glances() []glance {
	return []glance{c.fairGlance(), c.differentGlance(), c.sureGlance()}
}

func (c *Comparison) fairGlance() glance {
	var unfair, limits []string
	for _, check := range c.Fairness.Checks {
		switch check.Status {
		case Unfair:
			unfair = append(unfair, strings.ToLower(check.Name))
		case Caution:
			limits = append(limits, strings.ToLower(check.Name))
		}
	}
	yes := "yes"
	if sequences := c.Fairness.Sequences; len(sequences) > 0 && !slices.ContainsFunc(sequences, func(s Sequence) bool { return s.Commands > 0 }) {
		yes = "not proven" // that the targets were sent the same
	}
	g := glance{Question: "Fair?", Tone: toneGood}
	switch {
	case len(unfair) > 0:
		g.Tone = toneBad
		g.Answers = append(g.Answers, fmt.Sprintf("NO, because of %s", list(unfair)))
		if len(limits) > 0 {
			g.Answers = append(g.Answers, fmt.Sprintf("and %s: %s", plural(len(limits), "limit", "limits"), list(limits)))
		}
	case len(limits) > 0:
		g.Tone = toneCaution
		g.Answers = append(g.Answers, fmt.Sprintf("%s, with %s: %s", yes, plural(len(limits), "limit", "limits"), list(limits)))
	default:
		g.Answers = append(g.Answers, "yes: same commands, same environment, valid cells")
	}
	if c.Embedded() {
		g.Tone = toneBad
		g.Answers = append(g.Answers, "whatever it says: the embedded engine answered, not MongoDB")
	}
	return g
}

func (c *Comparison) differentGlance() glance {
	g := glance{Question: "Different?"}
	for i := range c.Targets {
		name := c.Targets[i].Name
		if name == c.Baseline {
			continue
		}
		var parts []string
		for _, o := range []stats.Outcome{stats.Slower, stats.Faster, stats.NoDifference, stats.Unknown} {
			var at []string
			for k := range c.Groups {
				d := c.difference(k, name, MetricThroughput, AllOperations)
				if d == nil || d.Ratio.Outcome(d.Direction) != o {
					continue
				}
				text := c.Groups[k].Label
				if o != stats.NoDifference {
					text += " (" + change(d.Ratio.Value) + ")"
				}
				at = append(at, text)
			}
			if len(at) > 0 {
				parts = append(parts, fmt.Sprintf("%s at %s", o, list(at)))
			}
		}
		var absent []string
		for k := range c.Groups {
			if c.difference(k, name, MetricThroughput, AllOperations) == nil {
				absent = append(absent, c.Groups[k].Label)
			}
		}
		if len(absent) > 0 {
			parts = append(parts, "not compared at "+list(absent))
		}
		g.Answers = append(g.Answers, fmt.Sprintf("%s against %s, by throughput: %s", name, c.Baseline, strings.Join(parts, "; ")))
	}
	if len(g.Answers) == 0 {
		g.Answers = []string{"one target: nothing to compare it with"}
	} else if !slices.ContainsFunc(c.Targets, func(t Target) bool { return t.Engine != record.EngineEmbedded }) {
		g.Answers = append(g.Answers, "all targets were the same embedded engine: a difference is chance or the machine's")
	}
	return g
}

func (c *Comparison) sureGlance() glance {
	g := glance{Question: "How sure?"}
	var over, within, without []string
	compared := 0
	least, most := 0.0, 0.0 // detectable differences of throughput
	for k := range c.Groups {
		var found, interval, single bool
		for i := range c.Differences {
			d := &c.Differences[i]
			if d.Group != k {
				continue
			}
			if d.Ratio.HasInterval() {
				compared++
			}
			if d.Metric == MetricThroughput {
				if v := d.Ratio.Detectable; d.Ratio.HasInterval() {
					if least == 0 || v < least {
						least = v
					}
					most = max(most, v)
				}
				found = true
				interval = interval || d.Ratio.HasInterval()
				single = single || d.Ratio.WithinRun
			}
		}
		switch label := c.Groups[k].Label; {
		case !found:
		case !interval:
			without = append(without, label)
		case single:
			within = append(within, label)
		default:
			over = append(over, label)
		}
	}
	if len(over) > 0 {
		g.Answers = append(g.Answers, fmt.Sprintf("at %s: 95 %% intervals over iterations", list(over)))
	}
	if len(within) > 0 {
		g.Tone = toneCaution
		g.Answers = append(g.Answers, fmt.Sprintf("at %s: 95 %% intervals within one run only, blind to machine-to-machine variance", list(within)))
	}
	if len(without) > 0 {
		g.Tone = toneCaution
		g.Answers = append(g.Answers, fmt.Sprintf("at %s: too little data for an interval", list(without)))
	}
	if most > 0 {
		text := "throughput that differs by " + stats.Percent(least)
		if a, b := stats.Percent(least), stats.Percent(most); a != b {
			text += " (at best) to " + b + " (at worst)"
		}
		g.Answers = append(g.Answers, text+" or more would have been detected")
	}
	if len(g.Answers) == 0 {
		g.Answers = []string{"nothing was compared"}
	} else if compared >= 20 {
		g.Answers = append(g.Answers, fmt.Sprintf("of %d intervals on this page about %d would exclude zero even if nothing differed", compared, (compared+10)/20))
	}
	return g
}

func (c *Comparison) fairSection() section {
	s := section{ID: "fair", Title: "Is the comparison fair?"}
	s.Blocks = append(s.Blocks, block{Checks: c.Fairness.Checks}, block{Table: c.targetTable()})
	if len(c.Fairness.Parity) > 0 {
		t := &sheet{
			Caption: "Facts that differ between the targets' members",
			Columns: []column{{Head: "fact", Wrap: true}, {Head: "whose", Whole: true}},
		}
		for i := range c.Targets {
			t.Columns = append(t.Columns, column{Head: c.Targets[i].Name, Wrap: true})
		}
		for i, p := range c.Fairness.Parity {
			r := row{First: i > 0 && c.Fairness.Parity[i-1].Cause != p.Cause}
			whose := cell{Text: "the version's", Tone: toneMuted}
			if p.Cause == CauseEnvironment {
				whose = cell{Text: "the environment's", Tone: toneBad}
			}
			r.Cells = append(r.Cells, cell{Text: p.Fact}, whose)
			for _, v := range p.Values {
				r.Cells = append(r.Cells, cell{Text: v})
			}
			t.Rows = append(t.Rows, r)
		}
		t.Note = "The version's differences are part of what is compared; the environment's should not be there."
		s.Blocks = append(s.Blocks, block{Table: t})
	}
	if len(c.Warnings) > 0 {
		s.Blocks = append(s.Blocks, block{Text: "Noted during the run:"}, block{List: c.Warnings})
	}
	return s
}

func (c *Comparison) targetTable() *sheet {
	t := &sheet{
		Caption: "Targets",
		Columns: []column{{Head: "target"}, {Head: "distribution"}, {Head: "requested"}, {Head: "actual"}, {Head: "engine"}, {Head: "members"}, {Head: "role"}},
	}
	for i := range c.Targets {
		x := &c.Targets[i]
		role := noCell()
		if x.Name == c.Baseline {
			role = cell{Text: "baseline"}
		}
		if x.Down != "" {
			role = cell{Text: "went down", Tone: toneBad}
		}
		engine := cell{Text: cmp.Or(x.Engine, none)}
		if x.Engine == record.EngineEmbedded {
			engine.Tone = toneBad
		}
		t.Rows = append(t.Rows, row{Cells: []cell{
			{Text: x.Name, Series: i + 1}, {Text: cmp.Or(x.Distribution, none)}, {Text: cmp.Or(x.RequestedVersion, none)},
			{Text: cmp.Or(x.ActualVersion, none)}, engine, {Text: cmp.Or(positive(int64(len(x.Members))), none)}, role,
		}})
	}
	return t
}

// absentRow is the row of a target that has no result beside the others.
func (s *Summary) absentRow(columns int) ([]cell, bool) {
	reason := s.Absent
	if s.Cells > 0 {
		reason = s.Refused
	}
	if reason == "" {
		return nil, false
	}
	word := "no result"
	if s.Cells > 0 {
		word = "not comparable"
	}
	cells := make([]cell, columns)
	for i := range cells {
		cells[i] = noCell()
	}
	cells[columns-1] = cell{Text: word, Tone: toneBad}
	return cells, true
}

func (c *Comparison) differsSection() section {
	s := section{ID: "differs", Title: "What differs, by how much, and is it more than noise?"}
	s.Blocks = append(s.Blocks,
		block{Table: c.throughputTable()},
		block{Figure: c.differenceFigure()},
		block{Figure: c.throughputFigure()},
		block{Table: c.latencyTable()},
		block{Figure: c.latencyFigure()},
	)
	return s.withoutEmpty()
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
		Note: "Differences are from " + c.Baseline + ". \"Faster\" and \"slower\" only where the 95 % interval excludes zero; " +
			"\"would detect\" is the smallest difference that this run could have told from none.",
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
			case x.Target == c.Baseline:
				r.Cells = append(r.Cells, cell{Text: "baseline", Tone: toneMuted}, noCell(), noCell(), noCell())
			case d == nil:
				r.Cells = append(r.Cells, noCell(), noCell(), cell{Text: "no baseline here", Tone: toneMuted}, noCell())
			default:
				r.Cells = append(r.Cells, d.cells()...)
				withinRun = withinRun || d.Ratio.WithinRun && d.Ratio.HasInterval()
			}
			t.Rows = append(t.Rows, r)
		}
	}
	if withinRun {
		t.Note += " A verdict \"in this run\" is within-run only: it may not hold on other machines, nor on the same ones tomorrow."
	}
	return t
}

// cells are difference, interval, verdict and what would have been
// detected.
func (d *Difference) cells() []cell {
	o := d.Ratio.Outcome(d.Direction)
	word := string(o)
	if o != stats.NoDifference {
		word = d.Verdict()
	}
	if o == stats.Unknown {
		word = "too little data"
	}
	if d.Ratio.WithinRun && d.Ratio.Differs() {
		word += " in this run"
	}
	detectable := noCell()
	if d.Ratio.HasInterval() {
		detectable = cell{Text: stats.Percent(d.Ratio.Detectable), Tone: toneMuted}
	}
	return []cell{
		{Text: change(d.Ratio.Value), Tone: outcomeTone(o)}, {Text: interval(d.Ratio)}, {Text: word, Tone: outcomeTone(o)}, detectable,
	}
}

// latencies of the tables.
var latencyMetrics = [...]struct {
	metric string
	head   string
	of     func(*record.Latency) float64
}{
	{MetricMean, "mean", func(l *record.Latency) float64 { return l.Mean }},
	{MetricP50, "p50", func(l *record.Latency) float64 { return l.P50 }},
	{MetricP95, "p95", func(l *record.Latency) float64 { return l.P95 }},
	{MetricP99, "p99", func(l *record.Latency) float64 { return l.P99 }},
}

// marked writes a difference, with a star when it is more than noise.
func marked(d *Difference) cell {
	if d == nil {
		return noCell()
	}
	text := change(d.Ratio.Value)
	if d.Ratio.Differs() {
		text += "*"
	} else {
		text += " " // keeps the columns aligned
	}
	return cell{Text: text, Tone: outcomeTone(d.Ratio.Outcome(d.Direction))}
}

func (c *Comparison) latencyTable() *sheet {
	t := &sheet{
		Caption: "Latency, milliseconds (service time of successful commands)",
		Columns: []column{{Head: "size"}, {Head: "target"}},
		Note:    "* the 95 % interval of the difference from " + c.Baseline + " excludes zero; the intervals are in the next section.",
	}
	if c.Run.Settings.Rate > 0 {
		t.Note += " Service time runs from a command's sending to its reply: time that it waited for a free worker is in the record's response time."
	} else {
		t.Note += " A closed loop hides stalls, because a worker that waits sends nothing; what users who keep arriving would see takes a run with --rate."
	}
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
				if x.Target == c.Baseline {
					d = cell{Text: "base ", Tone: toneMuted}
				}
				r.Cells = append(r.Cells, cell{Text: number(m.of(&x.LatencyMS))}, d)
			}
			t.Rows = append(t.Rows, r)
		}
	}
	return t
}

func (c *Comparison) whereSection() section {
	s := section{ID: "where", Title: "Where: percentiles, operation types, time"}
	percentiles := &sheet{
		Caption: "Latency differences from " + c.Baseline + " by percentile",
		Columns: []column{
			{Head: "size"}, {Head: "target"}, {Head: "latency"}, {Head: "difference", Right: true},
			{Head: "95 % interval", Right: true}, {Head: "verdict", Whole: true}, {Head: "would detect", Right: true},
		},
	}
	for g := range c.Groups {
		for i := range c.Targets {
			first := true
			for _, m := range latencyMetrics {
				d := c.difference(g, c.Targets[i].Name, m.metric, AllOperations)
				if d == nil {
					continue
				}
				last := len(percentiles.Rows) - 1
				newSize := last < 0 || percentiles.Rows[last].Cells[0].Text != c.Groups[g].Label
				percentiles.Rows = append(percentiles.Rows, row{First: last >= 0 && first, Cells: append([]cell{
					{Text: c.Groups[g].Label, Repeat: !newSize}, {Text: d.Target, Series: i + 1, Repeat: !first}, {Text: m.head},
				}, d.cells()...)})
				first = false
			}
		}
	}
	s.Blocks = append(s.Blocks, block{Table: percentiles})
	for _, m := range []int{0, 3} { // mean and p99
		for _, t := range c.operationTables(m) {
			s.Blocks = append(s.Blocks, block{Table: t})
		}
	}
	s.Blocks = append(s.Blocks, block{Figure: c.timelineFigure()})
	return s.withoutEmpty()
}

// besidePerTable is how many targets fit beside the baseline in one table.
const besidePerTable = 3

func (c *Comparison) operationTables(metric int) []*sheet {
	m := latencyMetrics[metric]
	base := c.target(c.Baseline)
	var others []int
	for i := range c.Targets {
		if i != base {
			others = append(others, i)
		}
	}
	chunks := slices.Collect(slices.Chunk(others, besidePerTable))
	if len(chunks) == 0 {
		chunks = [][]int{nil}
	}
	var out []*sheet
	for _, chunk := range chunks {
		t := &sheet{
			Caption: fmt.Sprintf("%s latency by operation type, milliseconds, with differences from %s", upperFirst(m.head), c.Baseline),
			Columns: []column{{Head: "size"}, {Head: "operation"}, {Head: "share", Right: true}, {Head: c.Baseline, Right: true}},
			Note:    "* the 95 % interval of the difference excludes zero. Share: of the successful commands.",
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

func (c *Comparison) whySection() section {
	s := section{ID: "why", Title: "Why: CPU per command, query plans"}
	cpu := &sheet{
		Caption: "Server CPU per successful command, microseconds (user and system)",
		Columns: []column{
			{Head: "size"}, {Head: "target"}, {Head: "primary", Right: true}, {Head: "diff ", Right: true, Diff: true},
			{Head: "secondaries", Right: true}, {Head: "diff ", Right: true, Diff: true},
		},
		Note: "Secondaries: the sum over all of them. * the 95 % interval of the difference from " + c.Baseline + " excludes zero; one iteration gives no interval.",
	}
	for g := range c.Groups {
		for i := range c.Groups[g].Summaries {
			x := &c.Groups[g].Summaries[i]
			if !x.Shown() || x.CPU == nil {
				continue
			}
			primary := marked(c.difference(g, x.Target, MetricCPUPrimary, AllOperations))
			secondary := marked(c.difference(g, x.Target, MetricCPUSecondary, AllOperations))
			if x.Target == c.Baseline {
				primary = cell{Text: "base ", Tone: toneMuted}
				secondary = primary
			}
			repeat := len(cpu.Rows) > 0 && cpu.Rows[len(cpu.Rows)-1].Cells[0].Text == c.Groups[g].Label
			cpu.Rows = append(cpu.Rows, row{First: !repeat && len(cpu.Rows) > 0, Cells: []cell{
				{Text: c.Groups[g].Label, Repeat: repeat}, {Text: x.Target, Series: i + 1},
				{Text: number(x.CPU.Primary)}, primary, {Text: number(x.CPU.Secondary)}, secondary,
			}})
		}
	}
	s.Blocks = append(s.Blocks, block{Table: cpu}, block{Figure: c.cpuFigure()}, block{Table: c.planTable()})
	return s.withoutEmpty()
}

func (c *Comparison) planTable() *sheet {
	t := &sheet{
		Caption: "Query plans, by explain of sampled commands after the measured time",
		Columns: []column{{Head: "sizes", Wrap: true}, {Head: "shape", Wrap: true}, {Head: "plans", Whole: true}, {Head: "target"}, {Head: "plan", Wrap: true}, {Head: "keys/doc", Right: true}, {Head: "docs/doc", Right: true}},
		Note:    "keys/doc and docs/doc: index keys and documents examined per document returned or changed.",
	}
	// Plans that are the same at several sizes are shown once.
	type shown struct {
		sizes []string
		cells [][]cell
		same  bool
	}
	var all []shown
	for i := range c.Plans {
		p := &c.Plans[i]
		x := shown{sizes: []string{c.Groups[p.Group].Label}, same: p.Same}
		for k := range p.Targets {
			plan := &p.Targets[k]
			if plan.Samples == 0 {
				continue
			}
			verdict, name := cell{Text: "DIFFERENT", Tone: toneCaution}, cell{Text: c.Targets[k].Name, Series: k + 1}
			if p.Same {
				verdict, name = cell{Text: "same", Tone: toneMuted}, cell{Text: "all", Tone: toneMuted}
			}
			x.cells = append(x.cells, []cell{
				{Text: p.Shape}, verdict, name, {Text: strings.Join(plan.Variants, " or ")},
				{Text: number(plan.KeysPerReturned)}, {Text: number(plan.DocumentsPerReturned)},
			})
			if p.Same {
				break
			}
		}
		k := slices.IndexFunc(all, func(y shown) bool {
			return slices.EqualFunc(x.cells, y.cells, slices.Equal)
		})
		if k >= 0 {
			all[k].sizes = append(all[k].sizes, x.sizes...)
		} else {
			all = append(all, x)
		}
	}
	for _, x := range all {
		for i, cells := range x.cells {
			r := row{First: i == 0 && len(t.Rows) > 0, Cells: append([]cell{{Text: strings.Join(x.sizes, ", "), Repeat: i > 0}}, cells...)}
			r.Cells[1].Repeat, r.Cells[2].Repeat = i > 0, i > 0
			t.Rows = append(t.Rows, r)
		}
	}
	return t
}

func (c *Comparison) cellsSection() section {
	s := section{ID: "cells", Title: "Errors and every cell"}
	errs := &sheet{
		Caption: "Errors by code; failed commands are in no throughput and no latency",
		Columns: []column{{Head: "size"}, {Head: "target"}, {Head: "operation"}, {Head: "code", Wrap: true}, {Head: "failed", Right: true}, {Head: "share", Right: true}},
	}
	for i := range c.Errors {
		e := &c.Errors[i]
		errs.Rows = append(errs.Rows, row{Cells: []cell{
			{Text: c.Groups[e.Group].Label}, {Text: e.Target, Series: c.target(e.Target) + 1}, {Text: cmp.Or(e.Operation, none)}, {Text: e.Code},
			{Text: thousands(e.Count), Tone: toneBad}, {Text: percent(e.Share)},
		}})
	}
	if len(errs.Rows) == 0 {
		s.Blocks = append(s.Blocks, block{Text: "No command of a counted cell failed."})
	}
	t := &sheet{
		Caption: "Every cell",
		Columns: []column{
			{Head: "size"}, {Head: "target"}, {Head: "it.", Right: true}, {Head: "state", Wrap: true}, {Head: "pass", Whole: true},
			{Head: "commands", Right: true}, {Head: "errors", Right: true}, {Head: "time", Right: true},
			{Head: "per second", Right: true}, {Head: "fingerprint", Whole: true},
		},
		Note: "Only counted cells are compared. Pass: whether every worker sent its whole pass. Fingerprint: its first 12 digits, over the pass or the prefix that every worker sent.",
	}
	var previous *Cell
	for i := range c.Cells {
		x := &c.Cells[i]
		g, series := c.groupOf(x.Size, x.Variant), c.target(x.Target)+1
		sameSize := previous != nil && previous.Size == x.Size && previous.Variant == x.Variant
		state := cell{Text: string(x.State)}
		switch x.State {
		case StateCounted:
		case StateRefused: // the reason is among the checks
			state.Tone = toneBad
		default:
			state.Tone = toneBad
			state.Text += ": " + x.Reason
		}
		r := row{First: previous != nil && !sameSize, Cells: []cell{
			{Text: c.Groups[g].Label, Repeat: sameSize}, {Text: x.Target, Series: series, Repeat: sameSize && previous.Target == x.Target},
			{Text: fmt.Sprint(x.Iteration)}, state,
		}}
		if n := x.Result; n != nil {
			pass := cell{Text: "whole"}
			if !n.Complete {
				pass = cell{Text: "part", Tone: toneCaution}
			}
			failed := cell{Text: thousands(n.Errors), Tone: toneMuted}
			if n.Errors > 0 {
				failed.Tone = toneBad
			}
			r.Cells = append(r.Cells, pass, cell{Text: thousands(n.Commands)}, failed, cell{Text: seconds(n.DurationS)},
				cell{Text: number(n.ThroughputPerS)}, cell{Text: cmp.Or(short(n.Fingerprint), none)})
		} else {
			for range 6 {
				r.Cells = append(r.Cells, noCell())
			}
		}
		t.Rows = append(t.Rows, r)
		previous = x
	}
	s.Blocks = append(s.Blocks, block{Table: errs}, block{Table: t})
	return s.withoutEmpty()
}

func short(fingerprint string) string {
	if len(fingerprint) > 12 {
		return fingerprint[:12]
	}
	return fingerprint
}

func (c *Comparison) repeatSection() section {
	r := &c.Run
	s := section{ID: "repeat", Title: "How to repeat it"}
	s.Blocks = append(s.Blocks, c.recipe()...)
	t := &sheet{Caption: "Settings", Columns: []column{{Head: "setting"}, {Head: "value", Wrap: true}}}
	add := func(name, value string) {
		t.Rows = append(t.Rows, row{Cells: []cell{{Text: name}, {Text: cmp.Or(value, none)}}})
	}
	x := &r.Settings
	add("workload", x.Workload)
	add("seed", fmt.Sprint(x.Seed))
	add("workers", fmt.Sprint(x.Workers))
	add("ops-per-worker", thousands(x.OpsPerWorker))
	add("mix", mixText(x.Mix))
	add("insert-batch, find-batch, find-limit", fmt.Sprintf("%d, %d, %d", x.InsertBatch, x.FindBatch, x.FindLimit))
	add("duration, warm-up, pause between cells", fmt.Sprintf("%s, %s, %s", seconds(x.Duration.Seconds()), durationText(x.Warmup), durationText(r.Interval)))
	if x.Rate > 0 {
		add("rate", number(x.Rate)+" commands/s")
	}
	add("order", r.Order)
	add("read preference", x.ReadPreference)
	add("write concern", cmp.Or(x.WriteConcern, "the server's default"))
	if x.OpTimeout > 0 {
		add("op-timeout", x.OpTimeout.String())
	}
	add("tool", strings.TrimSpace(fmt.Sprintf("sandbox %s %s", r.Tool.Version, r.Tool.Commit)))
	add("built and run with", fmt.Sprintf("%s on %s/%s", r.Tool.GoVersion, r.Tool.OS, r.Tool.Arch))
	if m := r.LoadHost; m != (record.MachineFacts{}) {
		add("load host", machineText(m))
	}
	for i := range c.Targets {
		if v := c.Targets[i].GitVersion; v != "" {
			add("git version of "+c.Targets[i].Name, v)
		}
	}
	s.Blocks = append(s.Blocks, block{Table: t})

	if len(r.Files) > 0 {
		files := &sheet{Caption: "Input files; the record keeps a copy of each", Columns: []column{{Head: "file"}, {Head: "SHA-256", Whole: true}}}
		for _, f := range r.Files {
			files.Rows = append(files.Rows, row{Cells: []cell{{Text: f.Name}, {Text: f.SHA256}}})
		}
		s.Blocks = append(s.Blocks, block{Table: files})
	}
	if len(c.Fairness.Sequences) > 0 {
		prints := &sheet{
			Caption: "Commands sent to all targets of a size and iteration",
			Columns: []column{{Head: "size"}, {Head: "it.", Right: true}, {Head: "same"}, {Head: "proven over", Right: true}, {Head: "fingerprint", Whole: true}},
			Note:    "Proven over: commands per target, all workers together. A fingerprint is shown where one covers the same commands on all targets; else equality was proven checkpoint by checkpoint.",
		}
		for _, q := range c.Fairness.Sequences {
			same := cell{Text: "yes"}
			if !q.Same {
				same = cell{Text: "NO", Tone: toneBad}
			} else if q.Commands == 0 {
				same = cell{Text: "unproven", Tone: toneCaution}
			}
			over := none
			if q.Commands > 0 {
				over = thousands(q.Commands)
			}
			prints.Rows = append(prints.Rows, row{Cells: []cell{
				{Text: c.Groups[q.Group].Label}, {Text: fmt.Sprint(q.Iteration)}, same, {Text: over}, {Text: cmp.Or(q.Fingerprint, none)},
			}})
		}
		s.Blocks = append(s.Blocks, block{Table: prints})
	}
	return s
}

// recipe is the whole way from nothing to this report, to be copied.
func (c *Comparison) recipe() []block {
	r := &c.Run
	if len(r.CommandLine) == 0 {
		return nil
	}
	if len(r.CommandLine) < 2 || r.CommandLine[1] != "bench" {
		return []block{{Code: []string{shellQuote(r.CommandLine), "sandbox report"}}}
	}
	up := []string{"sandbox", "up"}
	var commands []string
	named := "" // the environment, by the first file
	for i, f := range r.Files {
		name := path.Base(f.Name)
		if strings.HasPrefix(name, "-") {
			name = "./" + name
		}
		commands = append(commands, fmt.Sprintf("jq -j '.files[%d].text' %s > %s",
			i, shellQuote([]string{"runs/" + r.ID + "/run.json"}), shellQuote([]string{name})))
		up = append(up, "-var-file", name)
		if i == 0 {
			named = strings.TrimSuffix(strings.TrimSuffix(name, ".json"), ".tfvars")
		}
	}
	var blocks []block
	if len(r.Files) > 0 {
		if r.Environment != "" && r.Environment != named {
			up = append(up, "-env", r.Environment)
		}
		if r.Platform != "" {
			up = append(up, "--platform", r.Platform)
		}
		commands = append(commands, shellQuote(up))
		blocks = append(blocks, block{Text: "With this record in runs/ and sandbox " + cmp.Or(r.Tool.Version, "of the version below") +
			". The first lines write the environment's files from the copies in the record; variables that were set outside of files are not among them."})
	}
	commands = append(commands, shellQuote(r.CommandLine), "sandbox report", shellQuote(append([]string{"sandbox", "down"}, environmentFlag(r.Environment)...)))
	return append(append(blocks, block{Code: commands}), c.fingerprintRecipe()...)
}

func environmentFlag(name string) []string {
	if name == "" {
		return nil
	}
	return []string{"-env", name}
}

// fingerprintRecipe recomputes a fingerprint of this page without a server.
func (c *Comparison) fingerprintRecipe() []block {
	x := &c.Run.Settings
	i := slices.IndexFunc(c.Cells, func(v Cell) bool {
		return v.State == StateCounted && v.Result != nil && v.Result.Complete && v.Result.Fingerprint != ""
	})
	if i < 0 {
		return []block{{Text: fmt.Sprintf("No cell sent its whole pass of %s commands, so there is no fingerprint that `sandbox workload fingerprint` could recompute; "+
			"with a smaller --ops-per-worker there is.", thousands(x.OpsPerWorker*int64(x.Workers)))}}
	}
	v := &c.Cells[i]
	var command []string
	for _, part := range [][]string{
		{"sandbox", "workload", "fingerprint", "--size", fmt.Sprint(v.Size), "--iteration", fmt.Sprint(v.Iteration)},
		{"  --workload", x.Workload, "--seed", fmt.Sprint(x.Seed), "--workers", fmt.Sprint(x.Workers), "--ops-per-worker", fmt.Sprint(x.OpsPerWorker)},
		{"  --mix", mixText(x.Mix)},
		{"  --insert-batch", fmt.Sprint(x.InsertBatch), "--find-batch", fmt.Sprint(x.FindBatch), "--find-limit", fmt.Sprint(x.FindLimit)},
	} {
		command = append(command, part[0]+" "+shellQuote(part[1:]))
	}
	return []block{
		{Text: fmt.Sprintf("The fingerprint of a whole pass needs no server; other sizes and iterations likewise. This prints %s, if the commands are still the same:", v.Result.Fingerprint)},
		{Code: strings.Split(strings.Join(command, " \\\n"), "\n")},
	}
}

func durationText(d time.Duration) string {
	if d == 0 {
		return "none"
	}
	return seconds(d.Seconds())
}

func machineText(m record.MachineFacts) string {
	var parts []string
	if m.CPUs > 0 {
		parts = append(parts, plural(m.CPUs, "CPU", "CPUs"))
	}
	if m.MemoryMB > 0 {
		parts = append(parts, fmt.Sprintf("%.1f GiB", float64(m.MemoryMB)/1024))
	}
	for _, s := range []string{m.CPUModel, m.OS, m.Kernel} {
		if s != "" {
			parts = append(parts, s)
		}
	}
	return strings.Join(parts, ", ")
}

// shellQuote writes a command line so that a POSIX shell reads it back.
func shellQuote(args []string) string {
	quoted := make([]string, len(args))
	for i, a := range args {
		plain := a != "" && !strings.ContainsFunc(a, func(r rune) bool {
			letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
			return !letter && !strings.ContainsRune("-_./:=,@%+", r)
		})
		if plain {
			quoted[i] = a
		} else {
			quoted[i] = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
	}
	return strings.Join(quoted, " ")
}
