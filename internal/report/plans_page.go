package report

import (
	"fmt"
	"slices"
	"strings"
)

// againstHead heads the column of planWord.
func (c *Comparison) againstHead() string {
	if bases, _ := c.followers(); len(bases) == 1 {
		return "vs " + c.Targets[bases[0]].Name
	}
	return "vs base"
}

// planWord says how a target's plan compares with its baseline's.
func (c *Comparison) planWord(t int, p *TargetPlan) cell {
	switch {
	case p.Against == PlanDifferent:
		return cell{Text: "DIFFERENT", Tone: toneCaution}
	case p.Against == PlanSame:
		return cell{Text: "same", Tone: toneMuted}
	case c.Targets[t].Baseline == "":
		return cell{Text: "baseline", Tone: toneMuted}
	}
	return noCell()
}

// againstNote says whose plans planWord speaks of, where its column's head
// cannot.
func (c *Comparison) againstNote() string {
	if bases, _ := c.followers(); len(bases) == 1 {
		return ""
	}
	return " Each target's plan is compared with that of " + c.baselineWords() + "."
}

// onAll tells whether the shape was explained, with one outcome, on every
// target that has results.
func (c *Comparison) onAll(p *Plan) bool {
	if !p.Same || len(c.Targets) < 2 {
		return false
	}
	for t := range p.Targets {
		if c.Groups[p.Group].Summaries[t].Shown() && p.Targets[t].Samples == 0 {
			return false
		}
	}
	return true
}

// planTable has every query shape's plans, on one line where all targets have
// the same.
func (c *Comparison) planTable() *sheet {
	t := &sheet{
		Caption: "Query plans, by explain of sampled commands after the measured time",
		Columns: []column{
			{Head: "sizes", Wrap: true}, {Head: "shape", Wrap: true}, {Head: "target"}, {Head: c.againstHead()}, {Head: "plan", Wrap: true},
			{Head: "keys/doc", Right: true}, {Head: "docs/doc", Right: true},
		},
		Note: "keys/doc and docs/doc: index keys and documents examined per document returned or changed." + c.againstNote(),
	}
	// Plans that are the same at several sizes are shown once.
	type shown struct {
		sizes []string
		cells [][]cell
	}
	var all []shown
	for i := range c.Plans {
		p := &c.Plans[i]
		x := shown{sizes: []string{c.Groups[p.Group].Label}}
		everywhere := c.onAll(p)
		for k := range p.Targets {
			plan := &p.Targets[k]
			if plan.Samples == 0 {
				continue
			}
			name, word := cell{Text: c.Targets[k].Name, Series: k + 1}, c.planWord(k, plan)
			if everywhere {
				name, word = cell{Text: "all", Tone: toneMuted}, cell{Text: "same", Tone: toneMuted}
			}
			x.cells = append(x.cells, []cell{
				{Text: p.Shape}, name, word, {Text: strings.Join(plan.Variants, " or ")},
				{Text: number(plan.KeysPerReturned)}, {Text: number(plan.DocumentsPerReturned)},
			})
			if everywhere {
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
			r.Cells[1].Repeat = i > 0
			t.Rows = append(t.Rows, r)
		}
	}
	return t
}

// planDifferenceBlocks join plans that differ with how long their operation
// type took, and say what of that the plans do not explain.
func (c *Comparison) planDifferenceBlocks() []block {
	var blocks []block
	if t := c.planDifferenceTable(); len(t.Rows) > 0 {
		blocks = append(blocks, block{Table: t}, block{List: c.planFindings()})
	} else if same, everywhere := c.samePlans(); everywhere {
		blocks = append(blocks, block{Text: "Every query shape that was explained had the same plan on all targets at every size: plans explain no difference in latency."})
	} else if same {
		blocks = append(blocks, block{Text: "No query shape that was explained had another plan than on " + c.baselineWords() + ": there plans explain no difference in latency."})
	}
	return append(blocks, block{Text: c.unplannedText()})
}

// samePlans tells whether plans were compared and no target plans otherwise
// than its baseline, and whether all targets plan alike.
func (c *Comparison) samePlans() (same, everywhere bool) {
	everywhere = true
	for i := range c.Plans {
		everywhere = everywhere && c.onAll(&c.Plans[i])
		for t := range c.Plans[i].Targets {
			switch c.Plans[i].Targets[t].Against {
			case PlanDifferent:
				return false, false
			case PlanSame:
				same = true
			}
		}
	}
	return same, same && everywhere
}

// planDifferenceTable has the query shapes that a target plans otherwise than
// its baseline, with all targets that are compared with the same one.
func (c *Comparison) planDifferenceTable() *sheet {
	t := &sheet{
		Caption: "Different plans, and how long their operation type took",
		Columns: []column{
			{Head: "size"}, {Head: "operation"}, {Head: "target"}, {Head: c.againstHead()}, {Head: "plan", Wrap: true}, {Head: "mean ms", Right: true},
			{Head: "diff ", Right: true, Diff: true}, {Head: "95 % interval", Right: true},
		},
		Note: "The latency is that of all commands of the operation type; * the 95 % interval of the difference from " + c.baselineWords() + " excludes zero." + c.noiseNote() +
			" A different plan beside a different latency is a lead, not a proof." + c.againstNote(),
	}
	bases, others := c.followers()
	for i := range c.Plans {
		p := &c.Plans[i]
		for f, base := range bases {
			if !slices.ContainsFunc(others[f], func(k int) bool { return p.Targets[k].Against == PlanDifferent }) {
				continue
			}
			first := true
			for k := range p.Targets {
				plan := &p.Targets[k]
				if k != base && !slices.Contains(others[f], k) || plan.Samples == 0 || plan.MeanMS == 0 {
					continue
				}
				r := row{First: first && len(t.Rows) > 0, Cells: []cell{
					{Text: c.Groups[p.Group].Label, Repeat: !first}, {Text: p.Operation, Repeat: !first}, {Text: c.Targets[k].Name, Series: k + 1},
					c.planWord(k, plan), {Text: strings.Join(plan.Variants, " or ")}, {Text: number(plan.MeanMS)},
				}}
				switch {
				case k == base:
					r.Cells[3] = cell{Text: "baseline", Tone: toneMuted}
					r.Cells = append(r.Cells, cell{Text: "base ", Tone: toneMuted}, noCell())
				case plan.Difference == nil:
					r.Cells = append(r.Cells, noCell(), noCell())
				default:
					r.Cells = append(r.Cells, marked(plan.Difference), cell{Text: interval(plan.Difference.Ratio)})
				}
				t.Rows = append(t.Rows, r)
				first = false
			}
		}
	}
	return t
}

// relation joins the relations of a target's shapes of an operation type,
// whose latency they share: different where one of them is.
func (c *Comparison) relation(g, t int, operation string) PlanRelation {
	relation := PlanUnknown
	for i := range c.Plans {
		p := &c.Plans[i]
		if p.Group != g || p.Operation != operation {
			continue
		}
		switch p.Targets[t].Against {
		case PlanDifferent:
			return PlanDifferent
		case PlanUnknown:
			return PlanUnknown
		default:
			relation = PlanSame
		}
	}
	return relation
}

// planFindings say, target by target, what its plans may explain and what they
// do not: a difference in latency where they are the baseline's.
func (c *Comparison) planFindings() []string {
	var findings []string
	for t := range c.Targets {
		x := &c.Targets[t]
		if x.Baseline == "" {
			continue
		}
		same, different := map[string]*planVerdicts{}, map[string]*planVerdicts{} // by operation type
		for _, operation := range c.plannedOperations() {
			same[operation], different[operation] = &planVerdicts{}, &planVerdicts{}
			for g := range c.Groups {
				d := c.difference(g, x.Name, MetricMean, operation)
				if d == nil {
					continue
				}
				switch differs := d.Ratio.Differs() && !d.onlyNoise(); c.relation(g, t, operation) {
				case PlanDifferent:
					different[operation].add(d, c.Groups[g].Label)
				case PlanSame:
					if differs {
						same[operation].add(d, c.Groups[g].Label)
					}
				}
			}
		}
		if texts, differ := verdictTexts(different); len(texts) > 0 {
			text := fmt.Sprintf("%s has another plan than %s %s.", x.Name, x.Baseline, strings.Join(texts, "; "))
			if differ {
				text += " The plan may explain that difference, in part or not at all."
			}
			findings = append(findings, text)
		}
		if texts, _ := verdictTexts(same); len(texts) > 0 {
			findings = append(findings, fmt.Sprintf("%s differs from %s with the same plan %s. There the plan does not explain it.", x.Name, x.Baseline, strings.Join(texts, "; ")))
		}
	}
	return findings
}

// planVerdicts gathers the sizes at which a target's latency has a verdict.
type planVerdicts struct {
	words   []string // in the order of their first size
	sizes   map[string][]string
	differs bool // at one of them
}

func (v *planVerdicts) add(d *Difference, size string) {
	word := d.word()
	if v.sizes[word] == nil {
		v.words = append(v.words, word)
	}
	if v.sizes == nil {
		v.sizes = map[string][]string{}
	}
	v.sizes[word] = append(v.sizes[word], fmt.Sprintf("%s (%s)", size, change(d.Ratio.Value)))
	v.differs = v.differs || d.Ratio.Differs() && !d.onlyNoise()
}

// verdictTexts are those of the operation types that have any, and whether
// one says that something differs.
func verdictTexts(verdicts map[string]*planVerdicts) (texts []string, differ bool) {
	for _, operation := range sortedKeys(verdicts, compareOperations) {
		v := verdicts[operation]
		var parts []string
		for _, word := range v.words {
			parts = append(parts, fmt.Sprintf("%s at %s", word, list(v.sizes[word])))
		}
		if len(parts) > 0 {
			texts = append(texts, fmt.Sprintf("for %s: %s", operation, strings.Join(parts, ", ")))
		}
		differ = differ || v.differs
	}
	return texts, differ
}

// plannedOperations are the operation types of which a plan was recorded.
func (c *Comparison) plannedOperations() []string {
	var out []string
	for i := range c.Plans {
		if o := c.Plans[i].Operation; !slices.Contains(out, o) {
			out = append(out, o)
		}
	}
	slices.SortFunc(out, compareOperations)
	return out
}

// neverPlanned are the operation types that have plans of which none was
// recorded, on no target.
func (c *Comparison) neverPlanned() []string {
	var out []string
	planned := c.plannedOperations()
	for g := range c.Groups {
		for t := range c.Groups[g].Summaries {
			for _, operation := range c.Groups[g].Summaries[t].Unplanned {
				if !slices.Contains(planned, operation) && !slices.Contains(out, operation) {
					out = append(out, operation)
				}
			}
		}
	}
	slices.SortFunc(out, compareOperations)
	return out
}

// unplannedText names the operation types whose plans were not recorded, so
// that nothing can be said of them.
func (c *Comparison) unplannedText() string {
	never := c.neverPlanned()
	if len(c.Plans) == 0 && len(never) > 0 {
		return "No query plan was recorded, so whether plans differ is not known."
	}
	gaps := slices.Clone(never)
	for t := range c.Targets {
		for _, operation := range c.plannedOperations() {
			var sizes []string
			for g := range c.Groups {
				if slices.Contains(c.Groups[g].Summaries[t].Unplanned, operation) {
					sizes = append(sizes, c.Groups[g].Label)
				}
			}
			if len(sizes) > 0 {
				gaps = append(gaps, fmt.Sprintf("%s on %s at %s", operation, c.Targets[t].Name, list(sizes)))
			}
		}
	}
	if len(gaps) == 0 {
		return ""
	}
	return fmt.Sprintf("Plans of %s were not recorded, so whether they differ is not known. Inserts have no plan.", list(gaps))
}

// planAnswers say in a line each who plans what otherwise than whom.
func (c *Comparison) planAnswers() []string {
	type group struct {
		names          []string
		baseline, what string
	}
	var groups []group
	for t := range c.Targets {
		x := &c.Targets[t]
		var operations []string
		for _, operation := range c.plannedOperations() {
			var at []string
			known := 0
			for g := range c.Groups {
				switch c.relation(g, t, operation) {
				case PlanDifferent:
					at = append(at, c.Groups[g].Label)
					known++
				case PlanSame:
					known++
				}
			}
			switch {
			case len(at) == 0:
			case len(at) < known:
				operations = append(operations, operation+" at "+list(at))
			default:
				operations = append(operations, operation)
			}
		}
		if len(operations) == 0 {
			continue
		}
		what := list(operations)
		if i := slices.IndexFunc(groups, func(y group) bool { return y.baseline == x.Baseline && y.what == what }); i >= 0 {
			groups[i].names = append(groups[i].names, x.Name)
		} else {
			groups = append(groups, group{[]string{x.Name}, x.Baseline, what})
		}
	}
	of := ""
	if len(c.neverPlanned()) > 0 {
		of = fmt.Sprintf("; plans were recorded of %s only", list(c.plannedOperations()))
	}
	var answers []string
	for i, g := range groups {
		verb := "plans"
		if len(g.names) > 1 {
			verb = "plan"
		}
		answer := fmt.Sprintf("%s %s %s otherwise than %s", list(g.names), verb, g.what, g.baseline)
		if i == len(groups)-1 {
			answer += of
		}
		answers = append(answers, answer)
	}
	if len(answers) > 0 {
		return answers
	}
	switch same, everywhere := c.samePlans(); {
	case everywhere:
		answers = append(answers, "query plans are the same on all targets"+of)
	case same:
		answers = append(answers, "no target plans a query otherwise than "+c.baselineWords()+of)
	}
	return answers
}
