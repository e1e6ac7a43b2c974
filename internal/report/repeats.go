package report

import (
	"encoding/json"
	"fmt"
	"io"
	"math"

	"github.com/mongo-sandbox/sandbox/internal/stats"
)

// Repeat says of one difference how many iterations of both targets would
// have found it, had it been of a given size.
type Repeat struct {
	Group    int // index in Comparison.Groups
	Target   string
	Baseline string
	Metric   string
	// Iterations are the fewer of the two targets'.
	Iterations int
	// Within and Between are the standard deviations, relative to the
	// estimate, of what differs inside an iteration and between iterations:
	// those of the noisier target. Between is -1 when it is not known.
	Within, Between float64
	// Plans is empty when there was too little data.
	Plans []stats.Repeat
}

// plannedEffects are the differences that a plan is made for.
var plannedEffects = [...]float64{0.01, 0.02, 0.05}

// repeats plans the iterations for the differences of a group. A run of one
// target is planned for a second one with the same noise.
func (b *builder) repeats(g int, spreads map[spreadKey]stats.Spread) {
	if b.c.pool != nil {
		return // more placements would be needed, not more iterations
	}
	for t := range b.c.Targets {
		x := &b.c.Targets[t]
		base := b.c.target(x.Baseline)
		if base < 0 && len(b.c.Targets) == 1 {
			base = t
		}
		if base < 0 || x.AAOf != "" || !b.c.Groups[g].Summaries[t].Shown() || !b.c.Groups[g].Summaries[base].Shown() {
			continue
		}
		for _, metric := range []string{MetricThroughput, MetricMean} {
			ts, bs := spreads[spreadKey{t, AllOperations, metric}], spreads[spreadKey{base, AllOperations, metric}]
			r := Repeat{
				Group: g, Target: x.Name, Baseline: b.c.Targets[base].Name, Metric: metric,
				Iterations: min(b.c.Groups[g].Summaries[t].Cells, b.c.Groups[g].Summaries[base].Cells),
				Within:     math.Sqrt(max(ts.Within, bs.Within)), Between: -1,
			}
			tb, tk := ts.Between()
			bb, bk := bs.Between()
			if tk && bk {
				r.Between = math.Sqrt(max(tb, bb))
			}
			r.Plans, _ = stats.Repeats(ts, bs, plannedEffects[:])
			b.c.Repeats = append(b.c.Repeats, r)
		}
	}
}

// RenderRepeats writes the plan of iterations as text.
func RenderRepeats(w io.Writer, c *Comparison, o TextOptions) error {
	t := &sheet{
		Caption: "Iterations of each target that find a difference",
		Columns: []column{{Head: "size"}, {Head: "target"}, {Head: "metric"}, {Head: "now", Right: true}, {Head: "within", Right: true}, {Head: "between", Right: true}},
		Note: fmt.Sprintf("Found: by the report's 95 %% interval, in %.0f %% of such runs. In brackets: enough with 80 %% confidence, because what few iterations say of noise is uncertain itself. "+
			"Within and between: the standard deviation inside an iteration, which a longer --duration lowers, and between iterations, which only more of them average out; of the noisier of the two targets.", stats.Power*100),
	}
	for _, effect := range plannedEffects {
		t.Columns = append(t.Columns, column{Head: fmt.Sprintf("%.0f %%", effect*100), Right: true})
	}
	single := false
	for i := range c.Repeats {
		r := &c.Repeats[i]
		repeat := i > 0 && c.Repeats[i-1].Group == r.Group
		x := row{First: i > 0 && !repeat, Cells: []cell{
			{Text: c.Groups[r.Group].Label, Repeat: repeat},
			{Text: r.Target, Series: c.target(r.Target) + 1, Repeat: repeat && c.Repeats[i-1].Target == r.Target},
			{Text: metricWords(r.Metric)}, {Text: fmt.Sprint(r.Iterations)}, {Text: percent(r.Within)}, {Text: "unknown", Tone: toneCaution},
		}}
		if r.Between >= 0 {
			x.Cells[5] = cell{Text: percent(r.Between)}
		}
		for k := range plannedEffects {
			if len(r.Plans) == 0 {
				x.Cells = append(x.Cells, noCell())
				continue
			}
			single = single || r.Plans[k].LowerBound
			x.Cells = append(x.Cells, cell{Text: repeatText(r.Plans[k])})
		}
		t.Rows = append(t.Rows, x)
	}
	p := &page{Title: "How many iterations would it take?", Subtitle: c.subtitle(), Banner: c.Banner()}
	var blocks []block
	if len(t.Rows) == 0 {
		blocks = append(blocks, block{Text: "Nothing was compared, so there is no noise to plan with."})
	} else {
		blocks = append(blocks, block{Table: t})
	}
	if single {
		blocks = append(blocks, block{Text: "One iteration does not show what differs between iterations: its numbers (\">=\") are lower bounds, as if nothing did. Two or more iterations of every size give an estimate."})
	}
	if len(c.Warnings) > 0 {
		blocks = append(blocks, block{Text: "Noted during the run:"}, block{List: c.Warnings})
	}
	writer := newTextWriter(w, o)
	writer.head(p)
	for _, b := range blocks {
		writer.block(b)
	}
	return writer.w.Flush()
}

func repeatText(r stats.Repeat) string {
	count := func(n int) string {
		if n == 0 {
			return fmt.Sprintf("over %s", thousands(stats.MaxRepeats))
		}
		return thousands(int64(n))
	}
	if r.LowerBound {
		return ">= " + count(r.Iterations)
	}
	if r.Iterations == 0 {
		return count(0)
	}
	return fmt.Sprintf("%s (%s)", count(r.Iterations), count(r.AtMost))
}

type jsonRepeats struct {
	SchemaVersion int    `json:"schema_version"`
	RunID         string `json:"run_id"`
	// Power is the probability of a difference of that effect being found by
	// the 95 % interval with so many iterations.
	Power    float64      `json:"power"`
	Plans    []jsonRepeat `json:"plans"`
	Warnings []string     `json:"warnings"`
}

// jsonRepeat: standard deviations are relative; between is null when it is
// not known.
type jsonRepeat struct {
	Target     string             `json:"target"`
	Baseline   string             `json:"baseline"`
	Size       int64              `json:"size"`
	Variant    string             `json:"variant"`
	Metric     string             `json:"metric"`
	Iterations int                `json:"iterations"`
	WithinSD   float64            `json:"within_sd"`
	BetweenSD  *float64           `json:"between_sd"`
	Effects    []jsonRepeatEffect `json:"effects"`
}

// jsonRepeatEffect: iterations is null when more than 1,000 are needed, and
// a lower bound when lower_bound says so; at_most are enough with 80 %
// confidence, null when not known or more than 1,000.
type jsonRepeatEffect struct {
	Effect     float64 `json:"effect"`
	Iterations *int    `json:"iterations"`
	AtMost     *int    `json:"at_most"`
	LowerBound bool    `json:"lower_bound"`
}

// RenderRepeatsJSON writes the plan of iterations as JSON.
func RenderRepeatsJSON(w io.Writer, c *Comparison) error {
	out := jsonRepeats{SchemaVersion: jsonSchemaVersion, RunID: c.Run.ID, Power: stats.Power, Plans: []jsonRepeat{}, Warnings: c.AllWarnings()}
	for i := range c.Repeats {
		r := &c.Repeats[i]
		x := jsonRepeat{
			Target: r.Target, Baseline: r.Baseline, Size: c.Groups[r.Group].Size, Variant: c.Groups[r.Group].Variant, Metric: r.Metric,
			Iterations: r.Iterations, WithinSD: digits(r.Within), Effects: []jsonRepeatEffect{},
		}
		if r.Between >= 0 {
			between := digits(r.Between)
			x.BetweenSD = &between
		}
		for _, p := range r.Plans {
			effect := jsonRepeatEffect{Effect: p.Effect, LowerBound: p.LowerBound}
			if p.Iterations > 0 {
				effect.Iterations = &p.Iterations
			}
			if p.AtMost > 0 {
				effect.AtMost = &p.AtMost
			}
			x.Effects = append(x.Effects, effect)
		}
		out.Plans = append(out.Plans, x)
	}
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(out)
}
