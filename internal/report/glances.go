package report

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/mongo-sandbox/sandbox/internal/record"
	"github.com/mongo-sandbox/sandbox/internal/stats"
)

func (c *Comparison) glances() []glance {
	glances := slices.DeleteFunc([]glance{c.fairGlance(), c.differentGlance(), c.sureGlance(), c.whereGlance(), c.whyGlance()}, func(g glance) bool { return len(g.Answers) == 0 })
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
			g.Answers = append(g.Answers, fmt.Sprintf("and %s: %s", plural(len(limits), "limit", "limits"), everyOne(limits)))
		}
	case len(limits) > 0:
		g.Tone = toneCaution
		g.Answers = append(g.Answers, fmt.Sprintf("commands and settings: %s, with %s: %s", yes, plural(len(limits), "limit", "limits"), everyOne(limits)))
	default:
		g.Answers = append(g.Answers, "yes: same commands, same environment, valid cells")
	}
	if text := c.apart(); text != "" {
		g.Answers = append(g.Answers, text)
	}
	if c.Embedded() {
		g.Tone = toneBad
		g.Answers = append(g.Answers, "whatever it says: the embedded engine answered, not MongoDB")
	}
	return g
}

// apart says what equal commands and settings do not make equal: on which
// machines, and when, the targets of one run were measured.
func (c *Comparison) apart() string {
	switch own, turns := c.ownMachines(), len(c.Runs) == 0 && len(c.Targets) > 1 && c.Run.Order == "sequential"; {
	case own && turns:
		return "each target ran on machines of its own and at a time of its own: how machines or hours differ shows as a difference between targets"
	case own:
		return "each target ran on machines of its own: how machines differ shows as a difference between targets"
	case turns:
		return "each target ran at a time of its own: how hours differ shows as a difference between targets"
	}
	return ""
}

func (c *Comparison) differentGlance() glance {
	g := glance{Question: "Different?"}
	for i := range c.Targets {
		name := c.Targets[i].Name
		base := c.Targets[i].Baseline
		if base == "" || c.Targets[i].AAOf != "" {
			continue
		}
		var words, absent []string
		at := map[string][]string{} // sizes by verdict
		for k := range c.Groups {
			d := c.difference(k, name, MetricThroughput, AllOperations)
			if d == nil {
				absent = append(absent, c.Groups[k].Label)
				continue
			}
			word, text := d.word(), c.Groups[k].Label
			if d.Ratio.Differs() && !d.onlyNoise() && !d.Ratio.WithinRun && d.Ratio.Placements < 2 && c.ownMachines() {
				word += " on these machines"
			}
			if word != string(stats.NoDifference) {
				text += " (" + change(d.Ratio.Value) + ")"
			}
			if at[word] == nil {
				words = append(words, word)
			}
			at[word] = append(at[word], text)
		}
		parts := make([]string, len(words))
		for k, word := range words {
			parts[k] = fmt.Sprintf("%s at %s", word, list(at[word]))
		}
		if len(absent) > 0 {
			parts = append(parts, "not compared at "+list(absent))
		}
		g.Answers = append(g.Answers, fmt.Sprintf("%s against %s, by throughput: %s", name, base, strings.Join(parts, "; ")))
		if text := c.failuresDiffer(name); text != "" {
			g.Answers = append(g.Answers, text)
		}
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

// whereGlance says which operation types a difference is in.
func (c *Comparison) whereGlance() glance {
	g := glance{Question: "Where?"}
	for i := range c.Targets {
		t := &c.Targets[i]
		if t.Baseline == "" || t.AAOf != "" {
			continue
		}
		var texts []string
		at := map[string][]string{} // sizes by text
		for k := range c.Groups {
			text := c.operationsText(k, t.Name)
			if text == "" {
				continue
			}
			if at[text] == nil {
				texts = append(texts, text)
			}
			at[text] = append(at[text], c.Groups[k].Label)
		}
		parts := make([]string, len(texts))
		for k, text := range texts {
			parts[k] = fmt.Sprintf("at %s %s", list(at[text]), text)
		}
		if len(parts) > 0 {
			g.Answers = append(g.Answers, fmt.Sprintf("%s against %s, by mean latency of operation types: %s", t.Name, t.Baseline, strings.Join(parts, "; ")))
		}
	}
	return g
}

// operationsText says how many operation types are slower or faster in a
// group, and which the most.
func (c *Comparison) operationsText(group int, target string) string {
	type side struct {
		word  string
		found int
		most  *Difference
	}
	types := 0
	sides := map[stats.Outcome]*side{stats.Slower: {word: "slower"}, stats.Faster: {word: "faster"}}
	for i := range c.Differences {
		d := &c.Differences[i]
		if d.Group != group || d.Target != target || d.Metric != MetricMean || d.Operation == AllOperations || !d.Ratio.HasInterval() {
			continue
		}
		types++
		s := sides[d.Ratio.Outcome(d.Direction)]
		if s == nil || d.onlyNoise() {
			continue
		}
		s.found++
		if s.most == nil || math.Abs(math.Log(d.Ratio.Value)) > math.Abs(math.Log(s.most.Ratio.Value)) {
			s.most = d
		}
	}
	if types == 0 {
		return ""
	}
	var parts []string
	for _, o := range []stats.Outcome{stats.Slower, stats.Faster} {
		if s := sides[o]; s.found > 0 {
			parts = append(parts, fmt.Sprintf("%s in %d of %d, most in %s (%s)", s.word, s.found, types, s.most.Operation, change(s.most.Ratio.Value)))
		}
	}
	return cmp.Or(strings.Join(parts, ", "), "no difference detected in any") + c.largestShare(group, target)
}

// largestShare names the operation type that makes most of a difference in
// mean latency: its share of the baseline's commands times what each takes
// longer. It says nothing where no difference was found.
func (c *Comparison) largestShare(group int, target string) string {
	whole := c.difference(group, target, MetricMean, AllOperations)
	if whole == nil || !whole.Ratio.Differs() || whole.onlyNoise() {
		return ""
	}
	base := &c.Groups[group].Summaries[c.target(whole.Baseline)]
	most, name := 0.0, ""
	for _, o := range base.Operations {
		if d := c.difference(group, target, MetricMean, o.Type); d != nil && base.Commands > 0 {
			if part := float64(o.Count) / float64(base.Commands) * (d.Value - d.Base) / (whole.Value - whole.Base); part > most {
				most, name = part, o.Type
			}
		}
	}
	if name == "" {
		return ""
	}
	return fmt.Sprintf("; %s makes %s of the whole difference", name, percent(min(most, 1)))
}

// detectableRange is the range of true differences in throughput that would have
// been detected.
type detectableRange struct{ least, most float64 }

func (d *detectableRange) add(r stats.Ratio) {
	if !r.HasInterval() {
		return
	}
	if d.least == 0 || r.Detectable < d.least {
		d.least = r.Detectable
	}
	d.most = max(d.most, r.Detectable)
}

// text is the range, "1.3 to 2.2 %", or "" when there is none.
func (d *detectableRange) text() string {
	if d.most == 0 {
		return ""
	}
	a, b := stats.Percent(d.least), stats.Percent(d.most)
	if a == b {
		return a
	}
	return strings.TrimSuffix(a, " %") + " to " + b
}

func (c *Comparison) sureGlance() glance {
	g := glance{Question: "How sure?"}
	var over, within, without []string
	var acrossRange, withinRange detectableRange
	var across []string          // sizes whose intervals see more than one run
	pooled := map[int][]string{} // by number of placements
	for k := range c.Groups {
		var found, interval, single bool
		var detect detectableRange
		placements := c.Placements
		for i := range c.Differences {
			if d := &c.Differences[i]; d.Group == k && d.Metric == MetricThroughput {
				detect.add(d.Ratio)
				found = true
				interval = interval || d.Ratio.HasInterval()
				placements = min(placements, d.Ratio.Placements)
				single = single || d.Ratio.WithinRun
			}
		}
		sum := &acrossRange
		switch label := c.Groups[k].Label; {
		case !found:
		case !interval:
			without = append(without, label)
		case single:
			within = append(within, label)
			sum = &withinRange
		case placements > 1:
			pooled[placements] = append(pooled[placements], label)
			across = append(across, label)
		default:
			over = append(over, label)
			across = append(across, label)
		}
		if detect.most > 0 {
			sum.least, sum.most = min(cmp.Or(sum.least, detect.least), detect.least), max(sum.most, detect.most)
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
		g.Answers = append(g.Answers, fmt.Sprintf("at %s: 95 %% intervals within one run only, blind to what differs from run to run and from machine to machine", list(within)))
	}
	if len(without) > 0 {
		g.Tone = toneCaution
		g.Answers = append(g.Answers, fmt.Sprintf("at %s: too little data for an interval", list(without)))
	}
	var ranges []string
	if text := acrossRange.text(); text != "" {
		ranges = append(ranges, fmt.Sprintf("%s or more at %s", text, list(across)))
	}
	if text := withinRange.text(); text != "" {
		ranges = append(ranges, fmt.Sprintf("%s or more at %s, in those runs", text, list(within)))
	}
	if len(ranges) > 0 {
		g.Answers = append(g.Answers, "would have been detected with a probability of 80 %, as a true difference in throughput: "+strings.Join(ranges, "; "))
	}
	if text := c.countIntervals(); text != "" {
		g.Answers = append(g.Answers, text)
	}
	if len(g.Answers) == 0 {
		g.Answers = []string{"nothing was compared"}
	}
	return g
}

// manyIntervals is from how many on some exclude zero by chance alone.
const manyIntervals = 20

// countIntervals puts what the page's intervals say against what chance
// alone would have them say.
func (c *Comparison) countIntervals() string {
	count := map[stats.Outcome]int{}
	all := 0
	for i := range c.Differences {
		if d := &c.Differences[i]; d.Ratio.HasInterval() && d.onPage() {
			count[d.Ratio.Outcome(d.Direction)]++
			all++
		}
	}
	if all < manyIntervals {
		return ""
	}
	return fmt.Sprintf("of the %d intervals on this page %d say worse than the baseline, %d better, and %d include zero; if nothing differed, about %d would exclude it by chance. "+
		"They are not so many findings: throughput, latencies and operation types of a cell come from the same commands, and move together",
		all, count[stats.Slower], count[stats.Faster], count[stats.NoDifference], (all+10)/20)
}
