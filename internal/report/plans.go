package report

import (
	"cmp"
	"slices"
	"strings"

	"github.com/mongo-sandbox/sandbox/internal/record"
)

// plans puts the plans of every query shape side by side.
func (b *builder) plans() {
	for g := range b.c.Groups {
		type key struct{ operation, shape string }
		seen := make([]map[key][]record.Explain, len(b.c.Targets))
		var shapes []key
		for t := range b.c.Targets {
			if !b.c.Groups[g].Summaries[t].Shown() {
				continue
			}
			seen[t] = map[key][]record.Explain{}
			for _, in := range b.counted[g][t] {
				if in.Explains == nil {
					continue
				}
				explains, err := in.Explains()
				if err != nil {
					b.damage.note(err.Error(), "the cell's plans are left out")
				}
				for _, e := range explains {
					k := key{e.Operation, e.Shape}
					if !slices.Contains(shapes, k) {
						shapes = append(shapes, k)
					}
					seen[t][k] = append(seen[t][k], e)
				}
			}
		}
		slices.SortFunc(shapes, func(x, y key) int {
			return cmp.Or(compareOperations(x.operation, y.operation), strings.Compare(x.shape, y.shape))
		})
		for _, k := range shapes {
			p := Plan{Group: g, Operation: k.operation, Shape: k.shape, Same: true, Targets: make([]TargetPlan, len(b.c.Targets))}
			var first []string
			seenOn := make([][]string, len(b.c.Targets))
			for t := range b.c.Targets {
				p.Targets[t] = targetPlan(seen[t][k])
				b.joinLatency(&p.Targets[t], g, t, k.operation)
				if seenOn[t] = slices.Sorted(slices.Values(p.Targets[t].Variants)); len(seenOn[t]) > 0 {
					if first != nil && !slices.Equal(first, seenOn[t]) {
						p.Same = false
					}
					first = seenOn[t]
				}
			}
			for t := range b.c.Targets {
				base := b.c.target(b.c.Targets[t].Baseline)
				if base < 0 || len(seenOn[t]) == 0 || len(seenOn[base]) == 0 {
					continue
				}
				p.Targets[t].Against = PlanDifferent
				if slices.Equal(seenOn[t], seenOn[base]) {
					p.Targets[t].Against = PlanSame
				}
			}
			b.c.Plans = append(b.c.Plans, p)
		}
		b.unplanned(g)
	}
}

// unplanned lists, per target, the operation types that have plans and of
// which none was recorded.
func (b *builder) unplanned(g int) {
	for t := range b.c.Groups[g].Summaries {
		s := &b.c.Groups[g].Summaries[t]
		if !s.Shown() {
			continue
		}
		for _, o := range s.Operations {
			recorded := slices.ContainsFunc(b.c.Plans, func(p Plan) bool {
				return p.Group == g && p.Operation == o.Type && p.Targets[t].Samples > 0
			})
			if !recorded && o.Type != "insertOne" && o.Type != "insertMany" {
				s.Unplanned = append(s.Unplanned, o.Type)
			}
		}
	}
}

func targetPlan(explains []record.Explain) TargetPlan {
	p := TargetPlan{Samples: len(explains)}
	counts := map[string]int{}
	var keys, documents, returned int64
	for _, e := range explains {
		counts[strings.Join(e.Stages, " > ")]++
		keys += e.Keys
		documents += e.Documents
		returned += e.Returned
	}
	p.Variants = sortedKeys(counts, func(x, y string) int {
		return cmp.Or(cmp.Compare(counts[y], counts[x]), strings.Compare(x, y))
	})
	if returned > 0 {
		p.KeysPerReturned = float64(keys) / float64(returned)
		p.DocumentsPerReturned = float64(documents) / float64(returned)
	}
	return p
}

// joinLatency adds how long the plan's operation type took, and how that
// differs from the baseline.
func (b *builder) joinLatency(p *TargetPlan, g, t int, operation string) {
	operations := b.c.Groups[g].Summaries[t].Operations
	if i := slices.IndexFunc(operations, func(o OperationSummary) bool { return o.Type == operation }); i >= 0 {
		p.MeanMS = operations[i].LatencyMS.Mean
	}
	p.Difference = b.c.difference(g, b.c.Targets[t].Name, MetricMean, operation)
}
