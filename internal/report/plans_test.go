package report

import (
	"slices"
	"strings"
	"testing"

	"github.com/mongo-sandbox/sandbox/internal/record"
	"github.com/mongo-sandbox/sandbox/internal/stats"
)

// planned replaces the plans of a run's cells by those of finds; stages are by
// target.
func planned(in Input, stages map[string]string) Input {
	for i := range in.Cells {
		c := &in.Cells[i]
		c.Explains = explains()
		if s := stages[c.ID.Target]; s != "" {
			c.Explains = explains(explain("find", "find {_id}", 1, 1, 1, s))
		}
	}
	return in
}

func relations(c *Comparison) map[string]PlanRelation {
	out := map[string]PlanRelation{}
	for _, p := range c.Plans {
		for t := range p.Targets {
			out[c.Targets[t].Name] = p.Targets[t].Against
		}
	}
	return out
}

// Plans are compared with those of each target's own baseline.
func TestPlansAgainstTheBaseline(t *testing.T) {
	forge3 := func() Input {
		in := small(t)
		in.Run.Targets = slices.Clone(in.Run.Targets)
		again := in.Run.Targets[0]
		again.Name, again.AAOf = "a.again", "a"
		in.Run.Targets = append(in.Run.Targets, again)
		for _, c := range slices.Clone(in.Cells) {
			if c.ID.Target == "a" {
				cell := *c.Cell
				c.ID.Target, cell.Target, c.Cell = "a.again", "a.again", &cell
				in.Cells = append(in.Cells, c)
			}
		}
		return in
	}
	weeks := func(before, after map[string]string) Input {
		return joined(t, []string{"before", "after"}, planned(week(t, 0, 1), before), planned(week(t, 7, 1), after))
	}
	type stages = map[string]string
	for name, test := range map[string]struct {
		in   Input
		want map[string]PlanRelation
		text string // of the page's section
		not  string
	}{
		"one differs": {
			planned(forge3(), stages{"a": "X", "b": "Y", "a.again": "X"}),
			map[string]PlanRelation{"a": PlanUnknown, "b": PlanDifferent, "a.again": PlanSame},
			"b plans find otherwise than a", "a.again plans",
		},
		"the baseline against itself": {
			planned(forge3(), stages{"a": "X", "b": "X", "a.again": "Y"}),
			map[string]PlanRelation{"a": PlanUnknown, "b": PlanSame, "a.again": PlanDifferent},
			"a.again plans find otherwise than a", "b plans",
		},
		"all the same": {
			planned(forge3(), stages{"a": "X", "b": "X", "a.again": "X"}),
			map[string]PlanRelation{"a": PlanUnknown, "b": PlanSame, "a.again": PlanSame},
			"Every query shape that was explained had the same plan on all targets", "otherwise than",
		},
		"the baseline was not explained": {
			planned(forge3(), stages{"b": "X", "a.again": "Y"}),
			map[string]PlanRelation{"a": PlanUnknown, "b": PlanUnknown, "a.again": PlanUnknown},
			"find on a at 1k", "explain no difference",
		},
		"one was not explained": {
			planned(forge3(), stages{"a": "X", "b": "X"}),
			map[string]PlanRelation{"a": PlanUnknown, "b": PlanSame, "a.again": PlanUnknown},
			"No query shape that was explained had another plan than on a", "same plan on all targets",
		},
		"runs, each as before": {
			weeks(stages{"a": "X", "b": "Y"}, stages{"a": "X", "b": "Y"}),
			map[string]PlanRelation{"a@before": PlanUnknown, "a@after": PlanSame, "b@before": PlanUnknown, "b@after": PlanSame},
			"had another plan than on the same target in run before", "DIFFERENT",
		},
		"runs, one otherwise": {
			weeks(stages{"a": "X", "b": "Y"}, stages{"a": "Y", "b": "Y"}),
			map[string]PlanRelation{"a@before": PlanUnknown, "a@after": PlanDifferent, "b@before": PlanUnknown, "b@after": PlanSame},
			"a@after plans find otherwise than a@before", "b@after plans",
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := build(t, test.in)
			got := relations(c)
			for target, want := range test.want {
				if got[target] != want {
					t.Errorf("%s: %q, want %q", target, got[target], want)
				}
			}
			text := words(t, FormatText, c)
			if !strings.Contains(text, test.text) {
				t.Errorf("%q is not in the text", test.text)
			}
			if strings.Contains(text, test.not) {
				t.Errorf("%q is in the text", test.not)
			}
		})
	}

	// The table has the targets that are compared with one another, and no
	// others.
	c := build(t, weeks(stages{"a": "X", "b": "Y"}, stages{"a": "Y", "b": "Y"}))
	table := c.planDifferenceTable()
	var rows []string
	for _, r := range table.Rows {
		rows = append(rows, r.Cells[0].Text+" "+r.Cells[2].Text+" "+r.Cells[3].Text)
	}
	if want := []string{"1k a@before baseline", "1k a@after DIFFERENT", "4k a@before baseline", "4k a@after DIFFERENT"}; !slices.Equal(rows, want) {
		t.Errorf("%q, want %q", rows, want)
	}
}

// planCase is a comparison of b and c with a at two sizes, made by hand:
// relation and ratio of mean latency, by operation type, target and size.
type planCase map[string]map[string][2]struct {
	relation PlanRelation
	ratio    float64 // interval of 1 % to both sides
}

func (p planCase) comparison() *Comparison {
	c := &Comparison{Baseline: "a", Groups: []Group{{Label: "1M"}, {Label: "4M"}}}
	for _, name := range []string{"a", "b", "c"} {
		x := Target{Target: record.Target{Name: name}}
		if name != "a" {
			x.Baseline = "a"
		}
		c.Targets = append(c.Targets, x)
	}
	for _, operation := range sortedKeys(p, compareOperations) {
		for g := range c.Groups {
			plan := Plan{Group: g, Operation: operation, Shape: operation, Targets: make([]TargetPlan, 3)}
			for t := range c.Targets {
				x := p[operation][c.Targets[t].Name][g]
				plan.Targets[t].Against = x.relation
				if x.ratio > 0 {
					c.Differences = append(c.Differences, Difference{
						Group: g, Target: c.Targets[t].Name, Baseline: "a", Metric: MetricMean, Operation: operation, Direction: stats.LowerIsBetter,
						Ratio: stats.Ratio{Value: x.ratio, Low: x.ratio * 0.99, High: x.ratio * 1.01},
					})
				}
			}
			c.Plans = append(c.Plans, plan)
		}
	}
	return c
}

// What the plans do not explain is pointed out, and what they may explain.
func TestPlanFindings(t *testing.T) {
	for name, test := range map[string]struct {
		plans    planCase
		findings []string
		answers  []string
	}{
		"slower with the same plan": {
			planCase{"updateMany": {"b": {{PlanSame, 1.005}, {PlanSame, 1.117}}, "c": {{PlanDifferent, 1.2}, {PlanDifferent, 1.001}}}},
			[]string{
				"b differs from a with the same plan for updateMany: slower at 4M (+11.7 %). There the plan does not explain it.",
				"c has another plan than a for updateMany: slower at 1M (+20.0 %), no difference detected at 4M (+0.1 %). The plan may explain that difference, in part or not at all.",
			},
			[]string{"c plans updateMany otherwise than a"},
		},
		"faster with the same plan, and a plan that changes nothing": {
			planCase{"find": {"b": {{PlanSame, 0.9}, {PlanSame, 0.8}}, "c": {{PlanDifferent, 1}, {PlanSame, 1}}}},
			[]string{
				"b differs from a with the same plan for find: faster at 1M (-10.0 %) and 4M (-20.0 %). There the plan does not explain it.",
				"c has another plan than a for find: no difference detected at 1M (0.0 %).",
			},
			[]string{"c plans find at 1M otherwise than a"},
		},
		"both otherwise": {
			planCase{"find": {"b": {{PlanDifferent, 0}, {PlanDifferent, 0}}, "c": {{PlanDifferent, 0}, {PlanUnknown, 0}}}},
			nil,
			[]string{"b and c plan find otherwise than a"},
		},
		"nothing known": {
			planCase{"find": {"b": {{PlanUnknown, 1.3}, {PlanUnknown, 1.3}}}},
			nil, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := test.plans.comparison()
			if got := c.planFindings(); !slices.Equal(got, test.findings) {
				t.Errorf("findings\n%q, want\n%q", got, test.findings)
			}
			for g := range c.Groups { // so that nothing counts as not recorded
				c.Groups[g].Summaries = make([]Summary, 3)
			}
			if got := c.planAnswers(); !slices.Equal(got, test.answers) {
				t.Errorf("answers\n%q, want\n%q", got, test.answers)
			}
		})
	}

	// Shapes of one operation type share its latency: one that differs may
	// explain it, and of one that is not known nothing can be said.
	c := planCase{"find": {"b": {{PlanSame, 1.3}, {PlanSame, 1.3}}}}.comparison()
	for _, relation := range []PlanRelation{PlanDifferent, PlanUnknown} {
		with := *c
		with.Plans = slices.Concat(c.Plans, []Plan{{Operation: "find", Shape: "another", Targets: []TargetPlan{{}, {Against: relation}, {}}}})
		if got := with.relation(0, 1, "find"); got != relation {
			t.Errorf("same and %q are %q", relation, got)
		}
		if got := with.relation(1, 1, "find"); got != PlanSame {
			t.Errorf("at the other size %q", got)
		}
	}
}

// Plans that nobody recorded are named; inserts have none.
func TestPlansNotRecorded(t *testing.T) {
	text := build(t, bare(published(t))).unplannedText()
	if want := "Plans of updateOne, deleteOne and deleteMany were not recorded, so whether they differ is not known. Inserts have no plan."; text != want {
		t.Errorf("%q, want %q", text, want)
	}
	in := published(t)
	for i := range in.Cells {
		list, shapes := []record.Explain{}, []string{"find", "updateOne", "updateMany", "deleteOne", "deleteMany"}
		for _, operation := range shapes {
			if operation != "deleteOne" || in.Cells[i].ID.Target != "psmdb80" || in.Cells[i].ID.Size != 4_000_000 {
				list = append(list, explain(operation, operation, 1, 1, 1, "IDHACK"))
			}
		}
		in.Cells[i].Explains = explains(list...)
	}
	c := build(t, bare(in))
	if want := "Plans of deleteOne on psmdb80 at 4M were not recorded, so whether they differ is not known. Inserts have no plan."; c.unplannedText() != want {
		t.Errorf("%q, want %q", c.unplannedText(), want)
	}
	if got, want := c.planAnswers(), []string{"no target plans a query otherwise than mongo9"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	for i := range in.Cells {
		in.Cells[i].Explains = explains(explain("find", "find", 1, 1, 1, "A"), explain("updateOne", "u", 1, 1, 1, "A"), explain("updateMany", "um", 1, 1, 1, "A"),
			explain("deleteOne", "d", 1, 1, 1, "A"), explain("deleteMany", "dm", 1, 1, 1, "A"))
	}
	c = build(t, bare(in))
	if c.unplannedText() != "" || !slices.Equal(c.planAnswers(), []string{"query plans are the same on all targets"}) {
		t.Errorf("%q, %q", c.unplannedText(), c.planAnswers())
	}
}
