package report

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/mongo-sandbox/sandbox/internal/record"
	"github.com/mongo-sandbox/sandbox/internal/stats"
)

func (c *Comparison) glances() []glance {
	glances := []glance{c.fairGlance(), c.differentGlance(), c.sureGlance(), c.whyGlance()}
	if len(c.Thresholds) > 0 {
		glances = append(glances, c.thresholdGlance())
	}
	return glances
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
		base := c.Targets[i].Baseline
		if base == "" || c.Targets[i].AAOf != "" {
			continue
		}
		var parts []string
		for _, o := range []stats.Outcome{stats.Slower, stats.Faster, stats.NoDifference, stats.Unknown} {
			var at []string
			for k := range c.Groups {
				d := c.difference(k, name, MetricThroughput, AllOperations)
				if d == nil || d.onlyNoise() || d.Ratio.Outcome(d.Direction) != o {
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
		var absent, noise []string
		for k := range c.Groups {
			switch d := c.difference(k, name, MetricThroughput, AllOperations); {
			case d == nil:
				absent = append(absent, c.Groups[k].Label)
			case d.onlyNoise():
				noise = append(noise, fmt.Sprintf("%s (%s)", c.Groups[k].Label, change(d.Ratio.Value)))
			}
		}
		if len(noise) > 0 {
			parts = append(parts, "no more than A/A at "+list(noise))
		}
		if len(absent) > 0 {
			parts = append(parts, "not compared at "+list(absent))
		}
		g.Answers = append(g.Answers, fmt.Sprintf("%s against %s, by throughput: %s", name, base, strings.Join(parts, "; ")))
		if x := c.answersOf(-1, name); x.findings() > 0 {
			g.Answers = append(g.Answers, fmt.Sprintf("%s answered %s of %s commands otherwise than %s", name, thousands(x.findings()), thousands(x.commands), base))
		}
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
	compared, exclude := 0, 0    // intervals on the page
	least, most := 0.0, 0.0      // detectable differences of throughput
	pooled := map[int][]string{} // by number of placements
	for k := range c.Groups {
		var found, interval, single bool
		placements := c.Placements
		for i := range c.Differences {
			d := &c.Differences[i]
			if d.Group != k {
				continue
			}
			if d.Ratio.HasInterval() && d.onPage() {
				compared++
				if d.Ratio.Differs() {
					exclude++
				}
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
				placements = min(placements, d.Ratio.Placements)
				single = single || d.Ratio.WithinRun
			}
		}
		switch label := c.Groups[k].Label; {
		case !found:
		case !interval:
			without = append(without, label)
		case single:
			within = append(within, label)
		case placements > 1:
			pooled[placements] = append(pooled[placements], label)
		default:
			over = append(over, label)
		}
	}
	for _, n := range slices.Sorted(maps.Keys(pooled)) {
		text := fmt.Sprintf("at %s: 95 %% intervals over %d placements, machine-to-machine variance included", list(pooled[n]), n)
		if n == 2 {
			text += "; only two, so they are wide"
		}
		g.Answers = append(g.Answers, text)
	}
	if len(over) > 0 {
		blind := ""
		switch {
		case c.pool != nil:
			blind = " of one placement, blind to machine-to-machine variance"
		case len(c.Runs) > 0:
			blind = ", blind to what differs between the runs' days and machines"
		case c.ownMachines():
			blind = " on the same machines, blind to machine-to-machine variance"
		}
		g.Answers = append(g.Answers, fmt.Sprintf("at %s: 95 %% intervals over iterations%s", list(over), blind))
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
		text := "a true difference in throughput of " + stats.Percent(least)
		if a, b := stats.Percent(least), stats.Percent(most); a != b {
			text += " (at best) to " + b + " (at worst)"
		}
		g.Answers = append(g.Answers, text+" or more would have been detected, with a probability of 80 %")
	}
	if len(g.Answers) == 0 {
		g.Answers = []string{"nothing was compared"}
	} else if compared >= 20 {
		g.Answers = append(g.Answers, fmt.Sprintf("%d of the %d intervals on this page exclude zero; about %d would even if nothing differed", exclude, compared, (compared+10)/20))
	}
	return g
}
