package report

import (
	"math"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/mongo-sandbox/sandbox/internal/record"
	"github.com/mongo-sandbox/sandbox/internal/stats"
)

// Interval is a 95 % interval; zeros when there is none.
type Interval struct{ Low, High float64 }

// CPUInterval is the uncertainty of CPU per command, µs.
type CPUInterval struct{ Primary, Secondary Interval }

// cpuMetric is CPU per command of the primary or of the secondaries.
type cpuMetric struct {
	name     string
	of       func(*record.CPUPerCommand) float64
	interval func(*CPUInterval) *Interval
	reading  func(*cpuRound) float64
}

func cpuMetrics() []cpuMetric {
	return []cpuMetric{
		{
			MetricCPUPrimary, func(c *record.CPUPerCommand) float64 { return c.Primary },
			func(i *CPUInterval) *Interval { return &i.Primary }, func(r *cpuRound) float64 { return r.primary },
		},
		{
			MetricCPUSecondary, func(c *record.CPUPerCommand) float64 { return c.Secondary },
			func(i *CPUInterval) *Interval { return &i.Secondary }, func(r *cpuRound) float64 { return r.secondary },
		},
	}
}

// cpuRounds gathers the CPU counters of a cell's members, which are all read
// at once, every so often.
type cpuRounds struct {
	rounds  []cpuRound
	current cpuRound
	seen    []string // members in the current round
	unknown bool     // a member did not tell, so nothing can be added up
}

// cpuRound is what the members' counters said at one time, µs.
type cpuRound struct {
	atS                float64 // mean of the members' times, seconds since the measured start
	members            int
	primary, secondary float64
}

// maxRounds bounds what is kept of a cell: two weeks of readings.
const maxRounds = 1 << 17

// add takes the next reading; a member that comes again begins a round.
func (c *cpuRounds) add(s *record.Sample, started time.Time) {
	if slices.Contains(c.seen, s.Member) || len(c.seen) == maxMembers {
		c.end()
	}
	c.seen = append(c.seen, s.Member)
	user, hasUser := s.Values["cpu.user_us"]
	system, hasSystem := s.Values["cpu.system_us"]
	switch {
	case len(s.Values) == 0:
		return // silent, or an arbiter
	case !hasUser || !hasSystem:
		c.unknown = true
		return
	}
	switch s.State {
	case "PRIMARY", "STANDALONE":
		c.current.primary += user + system
	case "SECONDARY":
		c.current.secondary += user + system
	default:
		return
	}
	c.current.members++
	c.current.atS += s.At.Sub(started).Seconds()
}

// end closes the current round.
func (c *cpuRounds) end() {
	if c.current.members > 0 && len(c.rounds) < maxRounds {
		c.current.atS /= float64(c.current.members)
		c.rounds = append(c.rounds, c.current)
	}
	c.current, c.seen = cpuRound{}, c.seen[:0]
}

// readings are the counters that of takes from every round in which all
// members told; none when a member never does.
func (c *cpuRounds) readings(of func(*cpuRound) float64) []stats.Reading {
	if c.unknown {
		return nil
	}
	most := 0
	for i := range c.rounds {
		most = max(most, c.rounds[i].members)
	}
	var out []stats.Reading
	for i := range c.rounds {
		if r := &c.rounds[i]; r.members == most {
			out = append(out, stats.Reading{AtS: r.atS, CPU: of(r)})
		}
	}
	return out
}

// cellCourse is what is read of a counted cell second by second and reading
// by reading, each once.
type cellCourse struct {
	members  *cellReadings
	points   []Point
	trouble  Trouble
	progress []stats.Progress
	cpu      CPUInterval // from this cell alone
}

// readCells reads the course of the cells of a group that are shown.
func (b *builder) readCells(g int) {
	var cells []*CellInput
	for t := range b.c.Targets {
		if b.c.Groups[g].Summaries[t].Shown() {
			cells = append(cells, b.counted[g][t]...)
		}
	}
	courses := make([]*cellCourse, len(cells))
	var tasks errgroup.Group
	tasks.SetLimit(4)
	for i, in := range cells {
		tasks.Go(func() error {
			x := &cellCourse{members: b.readings(in)}
			if in.Intervals != nil {
				x.points, x.trouble = b.points(in, timelineStep(in.Cell.DurationS).Seconds(), x.advance)
			}
			courses[i] = x
			return nil
		})
	}
	_ = tasks.Wait() // they have no errors
	for i, in := range cells {
		b.read[in] = courses[i]
	}
}

// advance adds the commands of an interval.
func (x *cellCourse) advance(v record.Interval) {
	last := stats.Progress{}
	if n := len(x.progress); n > 0 {
		last = x.progress[n-1]
	}
	// Damaged times would undo the order.
	if !(v.EndS >= last.AtS) || math.IsInf(v.EndS, 0) || len(x.progress) >= 8*maxRounds {
		return
	}
	for _, o := range v.Operations {
		last.Commands += o.Count
	}
	last.AtS = v.EndS
	x.progress = append(x.progress, last)
}

// tolerableLoss is the share of a cell's commands that its seconds may lack,
// or have too many, before nothing is joined with them.
const tolerableLoss = 0.05

// cpuWindows are a cell's windows of about so many seconds, with the CPU time
// that of takes from the readings.
func (b *builder) cpuWindows(in *CellInput, seconds float64, of func(*cpuRound) float64) []stats.Window {
	x := b.read[in]
	if x == nil || len(x.progress) == 0 {
		return nil
	}
	commands := float64(x.progress[len(x.progress)-1].Commands)
	if math.Abs(commands-float64(in.Cell.Commands)) > tolerableLoss*float64(in.Cell.Commands) {
		return nil
	}
	return stats.CPUWindows(x.members.cpu.readings(of), x.progress, seconds)
}

// cpuSpreads adds the uncertainty of a target's CPU per command, which is
// estimated as that of throughput is, and the intervals of the target and of
// every cell. A cell without enough readings is one window: it says what its
// iteration came to, and nothing of the noise inside. raw are the cells'
// windows, of about the length of which those of CPU time are.
func (b *builder) cpuSpreads(g, t int, raw [][]record.Window, out map[spreadKey]stats.Spread) error {
	summary := &b.c.Groups[g].Summaries[t]
	if summary.CPU == nil {
		return nil
	}
	cells := b.counted[g][t]
	metrics := []stats.Metric{stats.CPUPerCommand()}
	for _, m := range cpuMetrics() {
		windows := make([][]stats.Window, len(cells))
		for i, in := range cells {
			if in.Cell.CPUUSPerCommand == nil {
				continue
			}
			windows[i] = b.cpuWindows(in, usualLength(raw[i]), m.reading)
			if len(windows[i]) == 0 {
				n := in.Cell.Commands
				windows[i] = []stats.Window{{Seconds: max(in.Cell.DurationS, 1), Count: n, CPU: m.of(in.Cell.CPUUSPerCommand) * float64(n)}}
			}
			_, alone, err := stats.Estimate(windows[i:i+1], metrics, b.seed(g, t, m.name))
			if err != nil {
				return err
			}
			low, high := alone[0].Interval(m.of(in.Cell.CPUUSPerCommand))
			*m.interval(&b.read[in].cpu) = Interval{low, high}
		}
		spreads, err := b.estimate(g, t, windows, metrics, m.name)
		if err != nil {
			return err
		}
		out[spreadKey{t, AllOperations, m.name}] = spreads[0]
		low, high := spreads[0].Interval(m.of(summary.CPU))
		*m.interval(&summary.CPUInterval) = Interval{low, high}
	}
	return nil
}

// cpuTable is CPU per command with its differences from the baseline.
func (c *Comparison) cpuTable() *sheet {
	t := &sheet{
		Caption: "Server CPU per successful command, microseconds (user and system)",
		Columns: []column{{Head: "size"}, {Head: "target"}},
		Note:    "Secondaries: the sum over all of them. * the 95 % interval of the difference from " + c.baselineWords() + " excludes zero." + c.noiseNote(),
	}
	for _, head := range []string{"primary", "secondaries"} {
		t.Columns = append(t.Columns, column{Head: head, Right: true}, column{Head: "diff ", Right: true, Diff: true}, column{Head: "95 % interval", Right: true})
	}
	withinRun, without := false, false
	for g := range c.Groups {
		group := &c.Groups[g]
		repeat := false
		for i := range group.Summaries {
			x := &group.Summaries[i]
			if !x.Shown() || x.CPU == nil {
				continue
			}
			r := row{First: !repeat && len(t.Rows) > 0, Cells: []cell{{Text: group.Label, Repeat: repeat}, {Text: x.Target, Series: i + 1}}}
			repeat = true
			for _, m := range cpuMetrics() {
				d := c.difference(g, x.Target, m.name, AllOperations)
				r.Cells = append(r.Cells, cell{Text: number(m.of(x.CPU))})
				switch {
				case c.isBaseline(x.Target):
					r.Cells = append(r.Cells, cell{Text: "base ", Tone: toneMuted}, noCell())
				case d == nil:
					r.Cells = append(r.Cells, noCell(), noCell())
				default:
					r.Cells = append(r.Cells, marked(d), cell{Text: interval(d.Ratio)})
					withinRun = withinRun || d.Ratio.WithinRun && d.Ratio.HasInterval()
					without = without || !d.Ratio.HasInterval()
				}
			}
			t.Rows = append(t.Rows, r)
		}
	}
	if withinRun {
		t.Note += " Intervals of one iteration are within-run only: they may not hold on other machines, nor on the same ones tomorrow."
	}
	if without {
		t.Note += " There is no interval where too few readings of CPU time could be joined with the commands of a target's only iteration."
	}
	return t
}

// jsonCPU: the bounds are those of a 95 % interval, absent without one.
type jsonCPU struct {
	Primary       float64  `json:"primary"`
	Secondary     float64  `json:"secondary"`
	PrimaryLow    *float64 `json:"primary_low,omitempty"`
	PrimaryHigh   *float64 `json:"primary_high,omitempty"`
	SecondaryLow  *float64 `json:"secondary_low,omitempty"`
	SecondaryHigh *float64 `json:"secondary_high,omitempty"`
}

func newJSONCPU(c *record.CPUPerCommand, interval *CPUInterval) *jsonCPU {
	if c == nil {
		return nil
	}
	bound := func(v float64) *float64 {
		if v <= 0 || math.IsInf(v, 0) {
			return nil
		}
		v = digits(v)
		return &v
	}
	return &jsonCPU{
		Primary: c.Primary, Secondary: c.Secondary,
		PrimaryLow: bound(interval.Primary.Low), PrimaryHigh: bound(interval.Primary.High),
		SecondaryLow: bound(interval.Secondary.Low), SecondaryHigh: bound(interval.Secondary.High),
	}
}
