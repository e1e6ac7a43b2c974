package stats

import (
	"fmt"
	"math"
)

// confidence is the coverage of every interval.
const confidence = 0.95

// Ratio is target/baseline with its 95 % interval.
type Ratio struct {
	Value     float64 // 1 is "the same"; 0 when either side has no value
	Low, High float64 // 0 when there is no interval
	// WithinRun: at least one side was measured in a single iteration, so
	// the interval is blind to what differs from run to run.
	WithinRun bool
	// Placements is the smaller number of sets of machines that a side was
	// measured on, if that is a level of its own on both, else 0. With less
	// than 2 the interval is blind to what differs from machine to machine.
	Placements int
	// Detectable is the true relative difference (0.03 is 3 %) whose interval
	// would have excluded 1 with probability Power; 0 when there is no
	// interval.
	Detectable float64
}

// Interval is the 95 % interval of an estimate; zeros when s is not Known.
func (s Spread) Interval(estimate float64) (low, high float64) {
	if !s.Known() || estimate <= 0 {
		return 0, 0
	}
	half := studentT(confidence, s.DF) * math.Sqrt(s.Variance)
	return estimate * math.Exp(-half), estimate * math.Exp(half)
}

// Compare divides the target's value by the baseline's.
func Compare(target, baseline float64, ts, bs Spread) Ratio {
	if target <= 0 || baseline <= 0 {
		return Ratio{}
	}
	r := Ratio{Value: target / baseline, WithinRun: ts.Iterations < 2 || bs.Iterations < 2, Placements: min(ts.Placements, bs.Placements)}
	if !ts.Known() || !bs.Known() {
		return r
	}
	deviation := math.Sqrt(ts.Variance + bs.Variance)
	half := differenceT(confidence, ts, bs) * deviation
	r.Low = r.Value * math.Exp(-half)
	r.High = r.Value * math.Exp(half)
	r.Detectable = math.Expm1(half + differenceT(2*Power-1, ts, bs)*deviation)
	return r
}

// differenceT is the two-sided quantile for the difference of two sides, of
// estimated variances. Welch's degrees of freedom hold the level when both
// have as many repetitions. Otherwise a side of few that happens to vary
// little passes for the quieter one, and up to 10 % of equal systems would be
// called different; so both sides' own quantiles are weighed instead.
func differenceT(confidence float64, a, b Spread) float64 {
	v := a.Variance + b.Variance
	if a.repetitions() == b.repetitions() || !(v > 0) {
		return studentT(confidence, sumDF(a.Variance, a.DF, b.Variance, b.DF))
	}
	return (a.Variance*studentT(confidence, a.DF) + b.Variance*studentT(confidence, b.DF)) / v
}

// sumDF is the degrees of freedom of the sum of two estimated variances, a
// with dfA and b with dfB of them (Satterthwaite 1946; Welch 1947): from the
// smaller one, where that side's variance is all there is, to both added.
func sumDF(a, dfA, b, dfB float64) float64 {
	q := a*a/dfA + b*b/dfB
	if !(q > 0) {
		return min(dfA, dfB)
	}
	return (a + b) * (a + b) / q
}

// HasInterval tells whether there was enough data for an interval.
func (r Ratio) HasInterval() bool { return r.High > 0 }

// Differs tells whether the interval excludes 1.
func (r Ratio) Differs() bool { return r.HasInterval() && (r.Low > 1 || r.High < 1) }

// Direction says what a ratio above 1 means for a metric.
type Direction bool

// The directions.
const (
	LowerIsBetter  Direction = false // latency
	HigherIsBetter Direction = true  // throughput
)

// Outcome is the word for a comparison.
type Outcome string

// The outcomes. Faster and Slower are used only when the interval excludes 1.
const (
	Faster       Outcome = "faster"
	Slower       Outcome = "slower"
	NoDifference Outcome = "no difference detected"
	Unknown      Outcome = "not enough data for an interval"
)

// Outcome is the word for the ratio of a metric of the given direction.
func (r Ratio) Outcome(d Direction) Outcome {
	switch {
	case !r.HasInterval():
		return Unknown
	case !r.Differs():
		return NoDifference
	case (r.Low > 1) == bool(d):
		return Faster
	default:
		return Slower
	}
}

// Verdict is the outcome in words: "no difference detected" carries what
// would have been detected.
func (r Ratio) Verdict(d Direction) string {
	o := r.Outcome(d)
	if o == NoDifference {
		return fmt.Sprintf("%s (would have detected %s)", o, Percent(r.Detectable))
	}
	return string(o)
}

// Percent writes a share, rounded up: "would have detected" must not
// claim more than was so.
func Percent(share float64) string {
	p := share * 100
	switch {
	case p < 0.1:
		return "0.1 %"
	case p < 10:
		return fmt.Sprintf("%.1f %%", math.Ceil(p*10-1e-9)/10)
	default:
		return fmt.Sprintf("%.0f %%", math.Ceil(p-1e-9))
	}
}
