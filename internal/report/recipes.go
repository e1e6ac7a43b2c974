package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/mongo-sandbox/sandbox/internal/record"
)

// asked is what was asked for beside the records, to be asked again.
type asked struct {
	options Options
	labels  []string // of the runs, as they were given; else none
}

// flags repeat on a command line what was asked for.
func (a *asked) flags() (flags []string) {
	if len(a.labels) > 0 {
		flags = append(flags, "--label", strings.Join(a.labels, ","))
	}
	if p := a.options.Pool; p != "" && p != PoolAuto {
		flags = append(flags, "--pool", p)
	}
	if a.options.Baseline != "" {
		flags = append(flags, "--baseline", a.options.Baseline)
	}
	for i := range a.options.Thresholds {
		flags = append(flags, "--check", a.options.Thresholds[i].Text)
	}
	return flags
}

// withoutFlags is a command line without some flags that take a value.
func withoutFlags(line []string, flags ...string) (out []string) {
	for i := 0; i < len(line); i++ {
		name, dashes := strings.TrimLeft(line[i], "-"), strings.HasPrefix(line[i], "-")
		name, _, joined := strings.Cut(name, "=")
		if dashes && slices.Contains(flags, name) {
			if !joined {
				i++ // its value
			}
			continue
		}
		out = append(out, line[i])
	}
	return out
}

// commandWidth is how long a line of a command may be that can be broken.
const commandWidth = 96

// commandLines write a command so that a POSIX shell reads it back, in lines
// that are not too long; a flag stays with its value.
func commandLines(args []string) (lines []string) {
	line := ""
	for i := 0; i < len(args); i++ {
		part := args[i : i+1]
		if flag := strings.HasPrefix(args[i], "-") && !strings.Contains(args[i], "="); flag && i+1 < len(args) && !strings.HasPrefix(args[i+1], "-") {
			part = args[i : i+2]
			i++
		}
		text := shellQuote(part)
		switch {
		case line == "":
			line = text
		case utf8.RuneCountInString(line)+utf8.RuneCountInString(text)+len("  \\") > commandWidth:
			lines = append(lines, line+" \\")
			line = "  " + text
		default:
			line += " " + text
		}
	}
	return append(lines, line)
}

// unhurried is the share of the slowest target's throughput at which all can
// follow, with some room.
const unhurried = 0.8

// unhurriedRate is a rate that all targets of a group can follow, in two
// digits; 0 when that is not known.
func (g *Group) unhurriedRate() float64 {
	slowest := 0.0
	for i := range g.Summaries {
		if s := &g.Summaries[i]; s.Shown() && s.ThroughputPerS > 0 && (slowest == 0 || s.ThroughputPerS < slowest) {
			slowest = s.ThroughputPerS
		}
	}
	if slowest == 0 {
		return 0
	}
	unit := math.Pow(10, math.Floor(math.Log10(unhurried*slowest))-1)
	return digits(math.Floor(unhurried*slowest/unit+1e-9) * unit)
}

// rateRecipe is the run that tells response times, which this one does not.
func (c *Comparison) rateRecipe() []block {
	if c.Run.Settings.Rate > 0 {
		return nil
	}
	smallest := -1
	var others []string
	for g := range c.Groups {
		if c.Groups[g].unhurriedRate() > 0 && (smallest < 0 || c.Groups[g].Size < c.Groups[smallest].Size) {
			smallest = g
		}
	}
	if smallest < 0 {
		return nil
	}
	for g := range c.Groups {
		if r := c.Groups[g].unhurriedRate(); g != smallest && r > 0 {
			others = append(others, fmt.Sprintf("%s at %s", number(r), c.Groups[g].Label))
		}
	}
	x := &c.Groups[smallest]
	rate := x.unhurriedRate()
	text := fmt.Sprintf("To see how long users who keep arriving would wait takes another run, with --rate: it starts commands when they are due, whatever the answers. "+
		"%s per second are at most %.0f %% of what the slowest target did at %s", number(rate), unhurried*100, x.Label)
	if len(others) > 0 {
		text += fmt.Sprintf("; take %s, each in a run of its own", list(others))
	}
	size := record.Size{Documents: x.Size}
	if i := slices.IndexFunc(c.Run.Sizes, func(s record.Size) bool { return s.Documents == x.Size }); i >= 0 {
		size = c.Run.Sizes[i]
	}
	line := append(withoutFlags(c.Run.CommandLine, "sizes", "iterations", "rate"),
		"--sizes", fmt.Sprintf("%s:%d", cmp.Or(size.Label, fmt.Sprint(size.Documents)), max(size.Iterations, 1)), "--rate", strconv.FormatFloat(rate, 'f', -1, 64))
	commands := commandLines(line)
	if len(c.Run.Files) > 0 {
		_, up := upCommand(&c.Run)
		commands = slices.Concat(commandLines(up), commands, commandLines(append([]string{"sandbox", "down"}, environmentFlag(c.Run.Environment)...)))
	}
	return []block{{Text: text + ":"}, {Code: commands}}
}

// machinesRecipe is the run on other machines that a single one calls for.
func (c *Comparison) machinesRecipe() []block {
	r := &c.Run
	if !c.ownMachines() || len(r.Files) == 0 {
		return nil
	}
	_, up := upCommand(r)
	down := append([]string{"sandbox", "down"}, environmentFlag(r.Environment)...)
	compare := append([]string{"sandbox", "compare", r.ID, "RUN2"}, c.asked.flags()...)
	return []block{
		{Text: "Whether it holds on other machines takes a second run, on new ones. RUN2 is to be replaced by the id of that run, the name of its folder in runs/:"},
		{Code: slices.Concat(commandLines(down), commandLines(up), commandLines(r.CommandLine), commandLines(compare), commandLines(down))},
	}
}

// timeText says how long the run takes and took.
func (c *Comparison) timeText() string {
	r := &c.Run
	s := &r.Settings
	cells, seeding := 0, 0.0
	for _, size := range r.Sizes {
		n := len(r.Targets) * min(max(size.Iterations, 1), maxIterations)
		cells += n
		sum, seen := 0.0, 0
		for i := range c.Cells {
			if x := &c.Cells[i]; x.Result != nil && x.Size == size.Documents && x.Result.Seeding.DurationS > 0 {
				sum, seen = sum+x.Result.Seeding.DurationS, seen+1
			}
		}
		if seen > 0 {
			seeding += sum / float64(seen) * float64(n)
		}
	}
	if cells == 0 || s.Duration <= 0 {
		return ""
	}
	total := float64(cells)*(s.Duration+s.Warmup).Seconds() + float64(cells-1)*r.Interval.Seconds() + seeding
	parts := []string{fmt.Sprintf("%s of %s", plural(cells, "cell", "cells"), seconds(s.Duration.Seconds()))}
	if s.Warmup > 0 {
		parts = append(parts, fmt.Sprintf("%s of warm-up before each", seconds(s.Warmup.Seconds())))
	}
	if r.Interval > 0 && cells > 1 {
		parts = append(parts, fmt.Sprintf("%s of %s", plural(cells-1, "pause", "pauses"), seconds(r.Interval.Seconds())))
	}
	if seeding > 0 {
		parts = append(parts, fmt.Sprintf("%s of seeding (as recorded)", seconds(seeding)))
	}
	text := fmt.Sprintf("Time: %s", list(parts))
	if len(parts) > 1 {
		text += fmt.Sprintf(" come to %s", seconds(finite(total)))
	}
	if r.Finished != nil && r.Finished.After(r.Started) {
		text += fmt.Sprintf("; this run took %s from its start to its end", seconds(r.Finished.Sub(r.Started).Seconds()))
	}
	if r.Platform == "gcp" {
		text += ". Making the machines comes on top"
	}
	return text + "."
}
