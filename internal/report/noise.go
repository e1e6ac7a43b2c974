package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/mongo-sandbox/sandbox/internal/stats"
)

// noise puts beside every difference from a baseline what the same deployment,
// measured a second time as a target of its own, showed against itself. Of
// other baselines it says nothing.
func (b *builder) noise() {
	for i := range b.c.Targets {
		again := &b.c.Targets[i]
		if again.AAOf == "" || again.Baseline != again.AAOf {
			continue
		}
		for k := range b.c.Differences {
			d := &b.c.Differences[k]
			if d.Target == again.Name || d.Baseline != again.AAOf {
				continue
			}
			if floor := b.c.difference(d.Group, again.Name, d.Metric, d.Operation); floor != nil {
				d.Noise = floor.Ratio.Value
			}
		}
	}
}

// WithinNoise tells whether a difference is no larger than the one that the
// baseline showed against itself.
func (d *Difference) WithinNoise() bool {
	return d.Noise > 0 && d.Ratio.Value > 0 && math.Abs(math.Log(d.Ratio.Value)) <= math.Abs(math.Log(d.Noise))
}

// onlyNoise tells whether a difference that its interval calls one is no
// larger than what the baseline showed against itself.
func (d *Difference) onlyNoise() bool { return d.WithinNoise() && d.Ratio.Differs() }

// tone is that of the outcome, unless it is no more than noise.
func (d *Difference) tone() tone {
	if d.onlyNoise() {
		return toneMuted
	}
	return outcomeTone(d.Ratio.Outcome(d.Direction))
}

// measuredNoise tells whether the baseline was measured a second time.
func (c *Comparison) measuredNoise() bool {
	return slices.ContainsFunc(c.Differences, func(d Difference) bool { return d.Noise > 0 })
}

// noiseNote explains the mark of differences that are no more than noise.
func (c *Comparison) noiseNote() string {
	if !c.measuredNoise() {
		return ""
	}
	return " ~ no larger than A/A, the difference that the baseline showed against itself."
}

// checkAA says what the baseline's second measurement showed.
func (b *builder) checkAA(add addCheck) {
	for i := range b.c.Targets {
		again := &b.c.Targets[i]
		if again.AAOf == "" || again.Baseline != again.AAOf {
			continue
		}
		var shown, beyond []string
		count := 0
		for k := range b.c.Differences {
			d := &b.c.Differences[k]
			if d.Target != again.Name || d.Operation != AllOperations {
				continue
			}
			count++
			text := fmt.Sprintf("%s %s at %s", metricWords(d.Metric), change(d.Ratio.Value), b.c.Groups[d.Group].Label)
			if d.Metric == MetricThroughput {
				shown = append(shown, text)
			}
			if d.Ratio.Differs() {
				beyond = append(beyond, text+" (95 % "+interval(d.Ratio)+")")
			}
		}
		const name = "Noise floor"
		switch {
		case len(shown) == 0:
			add(name, Caution, "%s and %s have no size in common: the noise floor is not known", again.AAOf, again.Name)
		case len(beyond) > 0:
			add(name, Caution, "%s differed from itself by more than its intervals allow, in %d of %d metrics (1 in 20 would by chance): %s; differences up to that are this environment's noise",
				again.AAOf, len(beyond), count, list(beyond))
		default:
			add(name, OK, "%s did not differ from itself by more than its intervals allow: %s", again.AAOf, list(shown))
		}
	}
}

// noiseCell is the noise floor beside a difference.
func (d *Difference) noiseCell() cell {
	if d.Noise <= 0 {
		return noCell()
	}
	return cell{Text: change(d.Noise), Tone: toneMuted}
}

// withNoise adds a column for the noise floor after that of the interval.
func (c *Comparison) withNoise(t *sheet) {
	if !c.measuredNoise() {
		return
	}
	at := slices.IndexFunc(t.Columns, func(x column) bool { return x.Head == "verdict" })
	t.Columns = slices.Insert(t.Columns, at, column{Head: "A/A", Right: true})
	// The page has no room for both.
	t.Columns[len(t.Columns)-1].Head = "detects"
	t.Note = strings.Replace(t.Note, "would detect", "detects", 1)
	t.Note += " A/A: the same difference of the baseline, measured a second time, from itself: the noise floor."
	for i := range t.Rows {
		r := &t.Rows[i]
		floor := noCell()
		if r.difference != nil {
			floor = r.difference.noiseCell()
		}
		r.Cells = slices.Insert(r.Cells, at, floor)
	}
}

func metricWords(metric string) string {
	switch metric {
	case MetricThroughput:
		return "throughput"
	case MetricMean:
		return "mean latency"
	case MetricP50:
		return "p50"
	case MetricP95:
		return "p95"
	case MetricP99:
		return "p99"
	case MetricP999:
		return "p99.9"
	case MetricResponseMean:
		return "mean response time"
	case MetricResponseP50:
		return "response p50"
	case MetricResponseP95:
		return "response p95"
	case MetricResponseP99:
		return "response p99"
	case MetricResponseP999:
		return "response p99.9"
	case MetricCPUPrimary:
		return "CPU per command (primary)"
	case MetricCPUSecondary:
		return "CPU per command (secondaries)"
	}
	return metric
}

// outcomeWord is a difference's outcome for machines.
func (d *Difference) outcomeWord() string {
	switch o := d.Ratio.Outcome(d.Direction); o {
	case stats.NoDifference:
		return "none"
	case stats.Unknown:
		return "unknown"
	default:
		return string(o)
	}
}
