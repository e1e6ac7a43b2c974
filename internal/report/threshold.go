package report

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/mongo-sandbox/sandbox/internal/stats"
)

// ThresholdOutcome says what became of a threshold.
type ThresholdOutcome string

// The outcomes of a threshold, best first. A threshold is a claim that the
// record has to prove: one that a noisy measurement can neither prove nor
// refute is not met. Else the worst measurement would pass every check.
const (
	Met       ThresholdOutcome = "met"        // the whole 95 % interval is on the right side
	NotProven ThresholdOutcome = "not proven" // the interval has both sides, or there is none
	Missed    ThresholdOutcome = "missed"     // the whole interval is on the wrong side
	NoResult  ThresholdOutcome = "no result"  // a cell that it takes is missing
	NotFair   ThresholdOutcome = "not fair"   // the comparison does not hold
)

// ThresholdResult is a threshold and what became of it at every size that it
// is about.
type ThresholdResult struct {
	Threshold
	Outcome ThresholdOutcome // the worst of all sizes
	Sizes   []ThresholdSize
}

// ThresholdSize is what became of a threshold in one group.
type ThresholdSize struct {
	Group   int // index in Comparison.Groups
	Outcome ThresholdOutcome
	// Reason says why, unless it is Met.
	Reason string
	Ratio  stats.Ratio // zero when there is no result
}

// ThresholdsMet tells whether all thresholds that were asked for are met.
func (c *Comparison) ThresholdsMet() bool {
	return !slices.ContainsFunc(c.Thresholds, func(t ThresholdResult) bool { return t.Outcome != Met })
}

// thresholds finds the targets and sizes that the thresholds name.
func (b *builder) thresholds() error {
	for _, t := range b.in.Options.Thresholds {
		t.Operation = cmp.Or(t.Operation, AllOperations)
		r := ThresholdResult{Threshold: t, Outcome: Met}
		for _, side := range []struct {
			name   *string
			column int
		}{{&r.Target, t.targetColumn}, {&r.Baseline, t.baselineColumn}} {
			i := b.c.resolve(*side.name)
			if i < 0 {
				return b.c.unknownTarget(fmt.Sprintf("check %q, column %d: target", t.Text, side.column), *side.name)
			}
			*side.name = b.c.Targets[i].Name
		}
		if known := b.operationTypes(); t.Operation != AllOperations && len(known) > 0 && !slices.Contains(known, t.Operation) {
			return &RequestError{fmt.Sprintf("check %q, column %d: there is no operation type %s%s", t.Text, t.operationColumn, t.Operation, didYouMean(t.Operation, known)),
				"the operation types are " + list(known)}
		}
		if r.Target == r.Baseline {
			return &RequestError{fmt.Sprintf("check %q: %s is compared with itself", t.Text, r.Target), ""}
		}
		var known []string
		for g := range b.c.Groups {
			group := &b.c.Groups[g]
			known = append(known, group.Label)
			if t.Size == "" || t.Size == group.Label || documents(t.Size) == group.Size {
				r.Sizes = append(r.Sizes, ThresholdSize{Group: g})
			}
		}
		if len(r.Sizes) == 0 {
			return &RequestError{fmt.Sprintf("check %q, column %d: there is no size %s%s", t.Text, t.sizeColumn, t.Size, didYouMean(t.Size, known)),
				"the sizes are " + list(known)}
		}
		b.c.Thresholds = append(b.c.Thresholds, r)
	}
	return nil
}

// operationTypes are those of all cells; none when no cell left numbers.
func (b *builder) operationTypes() []string {
	types := map[string]bool{}
	for i := range b.in.Cells {
		if cell := b.in.Cells[i].Cell; cell != nil {
			for name := range cell.Operations {
				types[name] = true
			}
		}
	}
	return sortedKeys(types, compareOperations)
}

// documents reads a size as the command line does: 4M, 8k, 2500; 0 is none.
func documents(size string) int64 {
	factor := int64(1)
	for suffix, f := range map[string]int64{"M": 1_000_000, "k": 1000, "K": 1000} {
		if digits, found := strings.CutSuffix(size, suffix); found {
			size, factor = digits, f
			break
		}
	}
	n, err := strconv.ParseInt(size, 10, 32)
	if err != nil || n <= 0 {
		return 0
	}
	return n * factor
}

// measureThresholds computes the differences of a group that the thresholds
// are about: they need not be those from the baseline.
func (b *builder) measureThresholds(g int, spreads map[spreadKey]stats.Spread) {
	for i := range b.c.Thresholds {
		t := &b.c.Thresholds[i]
		for k := range t.Sizes {
			if t.Sizes[k].Group != g {
				continue
			}
			b.pair(g, b.c.target(t.Target), b.c.target(t.Baseline), spreads, func(d Difference) {
				if d.Metric == t.Metric && d.Operation == t.Operation {
					t.Sizes[k].Ratio = d.Ratio
				}
			})
		}
	}
}

// judge compares what was measured with what was asked for.
func (b *builder) judge() {
	order := [...]ThresholdOutcome{Met, NotProven, Missed, NoResult, NotFair}
	for i := range b.c.Thresholds {
		t := &b.c.Thresholds[i]
		for k := range t.Sizes {
			s := &t.Sizes[k]
			s.Outcome, s.Reason = b.judgeSize(t, s)
			if slices.Index(order[:], s.Outcome) > slices.Index(order[:], t.Outcome) {
				t.Outcome = s.Outcome
			}
		}
	}
}

func (b *builder) judgeSize(t *ThresholdResult, s *ThresholdSize) (ThresholdOutcome, string) {
	group := &b.c.Groups[s.Group]
	for _, name := range []string{t.Target, t.Baseline} {
		x := &group.Summaries[b.c.target(name)]
		switch {
		case x.Cells == 0:
			return NoResult, fmt.Sprintf("%s: %s", name, x.Absent)
		case x.Refused != "":
			return NotFair, fmt.Sprintf("%s: %s", name, x.Refused)
		}
		for _, m := range b.c.Missing {
			if m.Target == name && m.Size == group.Size && m.Variant == group.Variant {
				return NoResult, fmt.Sprintf("%s iteration %d: %s", name, m.Iteration, m.Reason)
			}
		}
	}
	if !b.c.Fairness.Fair {
		var names []string
		for _, check := range b.c.Fairness.Checks {
			if check.Status == Unfair {
				names = append(names, strings.ToLower(check.Name))
			}
		}
		return NotFair, "because of " + list(names)
	}
	r, limit := s.Ratio, 1+t.Percent/100
	switch {
	case r.Value == 0:
		return NoResult, "it was not measured"
	case !r.HasInterval():
		return NotProven, "too little data for an interval"
	case t.AtLeast && r.Low >= limit, !t.AtLeast && r.High <= limit:
		return Met, ""
	case t.AtLeast && r.High < limit, !t.AtLeast && r.Low > limit:
		return Missed, "the whole interval is beyond " + change(limit)
	}
	return NotProven, "the interval has both sides of " + change(limit)
}

// ThresholdSummary says in one line which thresholds are not met.
func (c *Comparison) ThresholdSummary() string {
	var parts []string
	for i := range c.Thresholds {
		t := &c.Thresholds[i]
		for _, s := range t.Sizes {
			if s.Outcome == Met {
				continue
			}
			text := fmt.Sprintf("%s: %s at %s", t.Text, s.Outcome, c.Groups[s.Group].Label)
			if s.Ratio.Value > 0 {
				text += fmt.Sprintf(" (%s)", change(s.Ratio.Value))
			}
			parts = append(parts, text)
		}
	}
	return strings.Join(parts, "; ")
}

func (c *Comparison) thresholdGlance() glance {
	g := glance{Question: "Thresholds?", Tone: toneGood}
	met := 0
	for i := range c.Thresholds {
		if c.Thresholds[i].Outcome == Met {
			met++
		}
	}
	if met == len(c.Thresholds) {
		g.Answers = []string{fmt.Sprintf("met: %s", plural(met, "check", "checks"))}
		return g
	}
	g.Tone = toneBad
	g.Answers = []string{fmt.Sprintf("%d of %d met; not: %s", met, len(c.Thresholds), c.ThresholdSummary())}
	return g
}

func (c *Comparison) thresholdSection() section {
	s := section{ID: "thresholds", Title: "Are the thresholds met?"}
	if len(c.Thresholds) == 0 {
		return s
	}
	t := &sheet{
		Caption: "Checks asked for",
		Columns: []column{
			{Head: "check", Wrap: true}, {Head: "size"}, {Head: "difference", Right: true}, {Head: "95 % interval", Right: true},
			{Head: "outcome", Whole: true}, {Head: "why", Wrap: true},
		},
		Note: "Met: the whole 95 % interval satisfies the check. Missed: none of it does. Not proven: it has both sides, so the check is not met; " +
			"more iterations make it narrower, and `sandbox bench --plan-repeats` says how many.",
	}
	withinRun := false
	for i := range c.Thresholds {
		x := &c.Thresholds[i]
		for k, size := range x.Sizes {
			tone := toneBad
			switch size.Outcome {
			case Met:
				tone = toneGood
			case NotProven:
				tone = toneCaution
			}
			difference := noCell()
			if size.Ratio.Value > 0 {
				difference = cell{Text: change(size.Ratio.Value)}
			}
			withinRun = withinRun || size.Ratio.WithinRun && size.Ratio.HasInterval()
			t.Rows = append(t.Rows, row{First: k == 0 && i > 0, Cells: []cell{
				{Text: x.Text, Repeat: k > 0}, {Text: c.Groups[size.Group].Label}, difference, {Text: interval(size.Ratio)},
				{Text: string(size.Outcome), Tone: tone}, {Text: size.Reason},
			}})
		}
	}
	if withinRun {
		t.Note += " Intervals of one iteration are within-run only: what is met here may not be met tomorrow."
	}
	s.Blocks = append(s.Blocks, block{Table: t})
	return s
}

// jsonThreshold is a check that was asked for; outcome is the worst of its
// sizes.
type jsonThreshold struct {
	Check     string              `json:"check"`
	Metric    string              `json:"metric"`
	Operation string              `json:"operation"`
	Target    string              `json:"target"`
	Baseline  string              `json:"baseline"`
	Operator  string              `json:"operator"`
	Threshold float64             `json:"threshold"` // as a ratio: -5% is 0.95
	Outcome   ThresholdOutcome    `json:"outcome"`
	Sizes     []jsonThresholdSize `json:"sizes"`
}

// jsonThresholdSize: low and high are null without an interval, ratio
// without a result.
type jsonThresholdSize struct {
	Size      int64            `json:"size"`
	Variant   string           `json:"variant"`
	Outcome   ThresholdOutcome `json:"outcome"`
	Reason    string           `json:"reason,omitempty"`
	Ratio     *float64         `json:"ratio"`
	Low       *float64         `json:"low"`
	High      *float64         `json:"high"`
	WithinRun bool             `json:"within_run"`
}

func newJSONThresholds(c *Comparison) []jsonThreshold {
	out := []jsonThreshold{}
	for i := range c.Thresholds {
		t := &c.Thresholds[i]
		x := jsonThreshold{
			Check: t.Text, Metric: t.Metric, Operation: t.Operation, Target: t.Target, Baseline: t.Baseline, Operator: "<=",
			Threshold: digits(1 + t.Percent/100), Outcome: t.Outcome, Sizes: []jsonThresholdSize{},
		}
		if t.AtLeast {
			x.Operator = ">="
		}
		for _, s := range t.Sizes {
			size := jsonThresholdSize{
				Size: c.Groups[s.Group].Size, Variant: c.Groups[s.Group].Variant, Outcome: s.Outcome, Reason: s.Reason, WithinRun: s.Ratio.WithinRun,
			}
			if s.Ratio.Value > 0 {
				ratio := digits(s.Ratio.Value)
				size.Ratio = &ratio
			}
			if s.Ratio.HasInterval() {
				low, high := digits(s.Ratio.Low), digits(s.Ratio.High)
				size.Low, size.High = &low, &high
			}
			x.Sizes = append(x.Sizes, size)
		}
		out = append(out, x)
	}
	return out
}
