package report

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/mongo-sandbox/sandbox/internal/record"
)

// benchUnits are the units of the benchmark format. Latencies are service
// times, CPU is that of the servers per successful command; all in seconds,
// as benchstat has them.
var benchUnits = [...]struct {
	unit   string
	better string
	// of is the unit's value, 0 when there is none. cpu is nil for rows of
	// one operation type.
	of func(perSecond float64, l *record.Latency, cpu *record.CPUPerCommand) float64
}{
	{"cmd/s", "higher", func(perSecond float64, _ *record.Latency, _ *record.CPUPerCommand) float64 { return perSecond }},
	{"sec/op", "lower", func(_ float64, l *record.Latency, _ *record.CPUPerCommand) float64 { return l.Mean / msPerS }},
	{"p50-sec/op", "lower", func(_ float64, l *record.Latency, _ *record.CPUPerCommand) float64 { return l.P50 / msPerS }},
	{"p95-sec/op", "lower", func(_ float64, l *record.Latency, _ *record.CPUPerCommand) float64 { return l.P95 / msPerS }},
	{"p99-sec/op", "lower", func(_ float64, l *record.Latency, _ *record.CPUPerCommand) float64 { return l.P99 / msPerS }},
	{"p99.9-sec/op", "lower", func(_ float64, l *record.Latency, _ *record.CPUPerCommand) float64 { return l.P999 / msPerS }},
	{"primary-cpu-sec/op", "lower", func(_ float64, _ *record.Latency, cpu *record.CPUPerCommand) float64 {
		if cpu == nil {
			return 0
		}
		return cpu.Primary / usPerS
	}},
	{"secondaries-cpu-sec/op", "lower", func(_ float64, _ *record.Latency, cpu *record.CPUPerCommand) float64 {
		if cpu == nil {
			return 0
		}
		return cpu.Secondary / usPerS
	}},
}

const (
	msPerS = 1e3
	usPerS = 1e6
)

// renderBenchstat writes the counted cells in the text format of Go
// benchmarks (golang.org/design/14313-benchmark-format), which benchstat
// reads: `benchstat -col target` puts the targets side by side.
//
// A line is one iteration of one operation type, or of all. benchstat takes
// the lines of one name for independent samples. Iterations are nearly that;
// the windows inside of one are not: they share placement, data and cache,
// and would make small intervals of what one machine did once. What is the
// same for all targets is configuration, so that benchstat compares only
// what got the same commands; what is not is in lines that it skips.
func renderBenchstat(w io.Writer, c *Comparison) error {
	out := bufio.NewWriter(w)
	line := func(format string, args ...any) {
		_, _ = fmt.Fprintf(out, format+"\n", args...)
	}
	for _, r := range c.heads() {
		line("# run %s: environment %s on platform %s, started %s, sandbox %s", printable(r.ID), printable(cmp.Or(r.Environment, none)),
			printable(cmp.Or(r.Platform, none)), r.Started.UTC().Format(time.RFC3339), printable(cmp.Or(r.Tool.Version, none)))
	}
	for i := range c.Targets {
		t := &c.Targets[i]
		line("# target %s: %s, requested %s, actual %s", printable(t.Name), printable(cmp.Or(t.Distribution, none)),
			printable(cmp.Or(t.RequestedVersion, none)), printable(cmp.Or(t.ActualVersion, none)))
	}
	for g := range c.Groups {
		for i := range c.Groups[g].Summaries {
			s := &c.Groups[g].Summaries[i]
			if reason := cmp.Or(s.Refused, s.Absent); reason != "" {
				line("# %s has no line at %s: %s", printable(s.Target), printable(c.Groups[g].Label), printable(reason))
			}
		}
	}
	for i := range c.Errors {
		e := &c.Errors[i]
		line("# %s at %s: %d commands failed (%s %s); they are in no number", printable(e.Target), printable(c.Groups[e.Group].Label),
			e.Count, printable(cmp.Or(e.Operation, none)), printable(e.Code))
	}
	for _, text := range c.datasetLines() {
		line("# %s", printable(text))
	}
	line("# One line per iteration: what happens inside of one is no independent sample. Compare with: benchstat -col target -filter /operation:all")
	line("")
	for _, u := range benchUnits {
		line("Unit %s better=%s", u.unit, u.better)
	}
	line("")
	x := &c.Run.Settings
	for _, setting := range [...][2]string{
		{"workload", x.Workload}, {"seed", strconv.FormatUint(x.Seed, 10)}, {"workers", strconv.Itoa(x.Workers)}, {"mix", mixText(x.Mix)},
		{"insert-batch", strconv.Itoa(x.InsertBatch)}, {"find-batch", strconv.Itoa(x.FindBatch)}, {"find-limit", strconv.Itoa(x.FindLimit)},
		{"duration", x.Duration.String()}, {"rate", rateText(x.Rate)},
		{"read-preference", x.ReadPreference}, {"write-concern", cmp.Or(x.WriteConcern, "the server's default")},
	} {
		line("%s: %s", setting[0], printable(cmp.Or(setting[1], none)))
	}
	if banner := c.Banner(); len(banner) > 0 {
		line("warning: %s", printable(banner[0]))
	}
	for i := range c.Targets {
		c.benchTarget(line, i)
	}
	return out.Flush() // bufio keeps the first error
}

func rateText(rate float64) string {
	if rate > 0 {
		return strconv.FormatFloat(rate, 'g', -1, 64) + " commands/s"
	}
	return "closed loop"
}

// benchTarget writes the lines of one target.
func (c *Comparison) benchTarget(line func(string, ...any), target int) {
	name := c.Targets[target].Name
	headed, placement := false, 0
	for i := range c.Cells {
		x := &c.Cells[i]
		if x.Target != name || x.State != StateCounted || x.Result == nil || x.Result.DurationS <= 0 {
			continue
		}
		if !headed {
			line("\ntarget: %s", printable(name))
			headed = true
		}
		if c.pool != nil { // iterations on other machines are other samples
			run, _ := c.pool.origin(x.Size, x.Iteration)
			if p := c.Runs[run].Placement; p != placement {
				placement = p
				line("placement: %d", p)
			}
		}
		n := x.Result
		at := c.benchName(&x.CellID)
		write := func(operation string, count int64, perSecond float64, l record.Latency, cpu *record.CPUPerCommand) {
			if count <= 0 {
				return
			}
			if !tailKnown(count) {
				l.P999 = 0
			}
			text := fmt.Sprintf("%s/operation=%s %d", at, benchWord(operation), count)
			for _, u := range benchUnits {
				if v := finite(u.of(perSecond, &l, cpu)); v > 0 {
					text += fmt.Sprintf(" %s %s", strconv.FormatFloat(v, 'g', 6, 64), u.unit)
				}
			}
			line("%s", text)
		}
		write(AllOperations, n.Commands, n.ThroughputPerS, n.LatencyMS, n.CPUUSPerCommand)
		for _, operation := range sortedKeys(n.Operations, compareOperations) {
			o := n.Operations[operation]
			write(operation, o.Count, float64(o.Count)/n.DurationS, o.LatencyMS, nil)
		}
	}
}

// benchName is what a benchmark's line begins with.
func (c *Comparison) benchName(id *record.CellID) string {
	group := &c.Groups[c.groupOf(id.Size, id.Variant)]
	name := "Benchmark" + upperFirst(benchWord(cmp.Or(c.Run.Settings.Workload, "workload")))
	if id.Variant == record.DefaultVariant {
		return name + "/size=" + benchWord(group.Label)
	}
	return name + "/size=" + benchWord(strings.TrimSuffix(group.Label, " "+id.Variant)) + "/variant=" + benchWord(id.Variant)
}

// benchWord keeps a name in one part of a benchmark's name.
func benchWord(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) || r == '/' {
			return '_'
		}
		return r
	}, printable(s))
}
