package report

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/mongo-sandbox/sandbox/internal/record"
	"github.com/mongo-sandbox/sandbox/internal/stats"
)

// operationOrder is the order in which operation types are shown; others
// follow by name.
var operationOrder = [...]string{
	"find", "aggregate", "updateOne", "updateMany", "deleteOne", "deleteMany", "insertOne", "insertMany", "transaction",
}

func compareOperations(a, b string) int {
	rank := func(s string) int {
		if i := slices.Index(operationOrder[:], s); i >= 0 {
			return i
		}
		return len(operationOrder)
	}
	return cmp.Or(cmp.Compare(rank(a), rank(b)), strings.Compare(a, b))
}

// sortedKeys are a map's keys in an order that does not change.
func sortedKeys[V any](m map[string]V, compare func(a, b string) int) []string {
	return slices.SortedFunc(maps.Keys(m), compare)
}

// maxIterations bounds what is listed as missing, whatever a record claims
// to have been asked for.
const maxIterations = 1000

// builder carries what the steps of Build share.
type builder struct {
	in     *Input
	c      *Comparison
	damage damage
	// counted holds, per group and target, the inputs of the counted cells
	// by ascending iteration.
	counted [][][]*CellInput
	// read holds what was read of the counted cells that are shown.
	read map[*CellInput]*cellCourse
}

// Build compares what is in a record.
func Build(in Input) (*Comparison, error) {
	if len(in.Run.Targets) == 0 {
		return nil, errors.New("the record names no target")
	}
	b := &builder{in: &in, read: map[*CellInput]*cellCourse{}, c: &Comparison{Run: in.Run, Runs: in.Runs, pool: in.pool, asked: asked{in.Options, in.labels}, Baseline: in.Run.Baseline}}
	if in.pool != nil {
		b.c.Placements = in.pool.count
	}
	if err := b.targets(); err != nil {
		return nil, err
	}
	b.groups()
	if err := b.thresholds(); err != nil {
		return nil, err
	}
	b.cells()
	b.sequences()
	b.parity()
	for g := range b.c.Groups {
		if err := b.group(g); err != nil {
			return nil, err
		}
	}
	b.noise()
	b.why()
	b.plans()
	b.answers()
	b.errorCounts()
	b.missing()
	b.fairness()
	b.warnings()
	b.judge()
	return b.c, nil
}

func (b *builder) targets() error {
	c := b.c
	for i, t := range b.in.Run.Targets {
		target := Target{Target: t, Origin: t.Name, Down: b.in.Down[t.Name]}
		if b.in.subjects != nil {
			target.Run, target.Origin = b.in.subjects[i].run, b.in.subjects[i].origin
		}
		c.Targets = append(c.Targets, target)
	}
	if c.target(c.Baseline) < 0 {
		c.Baseline = c.Targets[0].Name
	}
	return b.baselines()
}

func (b *builder) groups() {
	add := func(size record.Size, variant string) {
		if b.c.groupOf(size.Documents, variant) >= 0 {
			return
		}
		label := cmp.Or(size.Label, fmt.Sprint(size.Documents))
		if variant != record.DefaultVariant {
			label += " " + variant
		}
		summaries := make([]Summary, len(b.c.Targets))
		for i := range summaries {
			summaries[i].Target = b.c.Targets[i].Name
		}
		b.c.Groups = append(b.c.Groups, Group{
			Size: size.Documents, Variant: variant, Label: label, Iterations: min(max(size.Iterations, 1), maxIterations), Summaries: summaries,
		})
	}
	cells := slices.Clone(b.in.Cells)
	slices.SortStableFunc(cells, func(x, y CellInput) int {
		return cmp.Or(cmp.Compare(x.ID.Size, y.ID.Size), strings.Compare(x.ID.Variant, y.ID.Variant))
	})
	for _, size := range b.in.Run.Sizes {
		found := false
		for i := range cells {
			if cells[i].ID.Size == size.Documents {
				add(size, cells[i].ID.Variant)
				found = true
			}
		}
		if !found {
			add(size, record.DefaultVariant)
		}
	}
	for i := range cells { // sizes that the head of the record does not name
		add(record.Size{Documents: cells[i].ID.Size}, cells[i].ID.Variant)
	}
	b.counted = make([][][]*CellInput, len(b.c.Groups))
	for g := range b.counted {
		b.counted[g] = make([][]*CellInput, len(b.c.Targets))
	}
}

func (b *builder) cells() {
	order := make([]*CellInput, 0, len(b.in.Cells))
	for i := range b.in.Cells {
		order = append(order, &b.in.Cells[i])
	}
	slices.SortStableFunc(order, func(x, y *CellInput) int {
		return cmp.Or(
			cmp.Compare(b.c.groupOf(x.ID.Size, x.ID.Variant), b.c.groupOf(y.ID.Size, y.ID.Variant)),
			cmp.Compare(b.c.target(x.ID.Target), b.c.target(y.ID.Target)),
			strings.Compare(x.ID.Target, y.ID.Target),
			cmp.Compare(x.ID.Iteration, y.ID.Iteration),
			cmp.Compare(x.Attempt, y.Attempt),
		)
	})
	for _, in := range order {
		cell := Cell{CellID: in.ID, Attempt: in.Attempt, Result: in.Cell}
		cell.State, cell.Reason = b.state(in)
		t := b.c.target(in.ID.Target)
		if t < 0 {
			cell.State, cell.Reason = StateDamaged, "its target is not in the head of the record"
		}
		b.c.Cells = append(b.c.Cells, cell)
		if cell.State == StateCounted {
			g := b.c.groupOf(in.ID.Size, in.ID.Variant)
			b.counted[g][t] = append(b.counted[g][t], in)
		}
	}
}

func (b *builder) state(in *CellInput) (CellState, string) {
	failed := b.in.Failed[AttemptKey{in.ID.String(), in.Attempt}]
	switch {
	case in.Status == record.Damaged || in.Status != record.Partial && in.Cell == nil:
		return StateDamaged, cmp.Or(in.Problem, "its numbers cannot be read")
	case in.Status == record.Partial && in.Cell != nil && in.Cell.Interrupted:
		return StateInterrupted, "stopped by the user before its time"
	case in.Status == record.Partial:
		return StatePartial, cmp.Or(failed, "begun and not ended")
	case in.Status == record.Invalid || !in.Cell.Valid:
		return StateInvalid, cmp.Or(strings.Join(in.Cell.InvalidReasons, "; "), "no reason given")
	case in.Cell.Interrupted:
		return StateInterrupted, "stopped by the user before its time"
	case in.Status == record.Superseded:
		return StateSuperseded, "a later attempt counts"
	case in.Cell.Commands == 0:
		return StateInvalid, "no command succeeded"
	}
	return StateCounted, ""
}

// metrics of the differences over windows, in the order they are shown.
func windowMetrics() []struct {
	name      string
	metric    stats.Metric
	direction stats.Direction
	of        func(*Summary) float64
} {
	type row = struct {
		name      string
		metric    stats.Metric
		direction stats.Direction
		of        func(*Summary) float64
	}
	return []row{
		{MetricThroughput, stats.Throughput(), stats.HigherIsBetter, func(s *Summary) float64 { return s.ThroughputPerS }},
		{MetricMean, stats.MeanLatency(), stats.LowerIsBetter, func(s *Summary) float64 { return s.LatencyMS.Mean }},
		{MetricP50, stats.Quantile(0.50), stats.LowerIsBetter, func(s *Summary) float64 { return s.LatencyMS.P50 }},
		{MetricP95, stats.Quantile(0.95), stats.LowerIsBetter, func(s *Summary) float64 { return s.LatencyMS.P95 }},
		{MetricP99, stats.Quantile(0.99), stats.LowerIsBetter, func(s *Summary) float64 { return s.LatencyMS.P99 }},
		{MetricP999, stats.Quantile(0.999), stats.LowerIsBetter, func(s *Summary) float64 {
			if !tailKnown(s.Commands) {
				return 0
			}
			return s.LatencyMS.P999
		}},
	}
}
