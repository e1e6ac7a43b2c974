package stats

import "math"

// Power is the probability with which a difference that is there is found: by
// a planned number of iterations, or by a run, if it is said that the run would
// have detected it.
const Power = 0.8

// MaxRepeats is the largest number of iterations that Repeats looks at.
const MaxRepeats = 1000

// assurance is the confidence of Repeat.AtMost.
const assurance = 0.8

// Repeat says how often both sides of a comparison have to be repeated.
type Repeat struct {
	// Effect is the relative difference to be found: 0.01 is 1 %.
	Effect float64
	// Iterations of each side find it with probability Power, if the
	// variances are as estimated; 0 when more than MaxRepeats are needed.
	Iterations int
	// AtMost are enough with 80 % confidence: variances estimated from few
	// iterations are themselves uncertain. 0 when more than MaxRepeats are
	// needed, and when the variances' uncertainty is not known.
	AtMost int
	// LowerBound: a side was measured in one iteration, so what differs
	// between iterations is not in Iterations, and AtMost is not known.
	LowerBound bool
}

// PerIteration is the variance of the logarithm of a single iteration's
// estimate, between iterations and within them taken together; of one
// iteration only what lies within.
func (s Spread) PerIteration() float64 { return s.Variance * float64(max(s.Iterations, 1)) }

// Between is the part of PerIteration that lies between iterations, and
// whether there were iterations enough to tell.
func (s Spread) Between() (float64, bool) {
	if s.Iterations < 2 || !s.Known() {
		return 0, false
	}
	return max(s.PerIteration()-s.Within, 0), true
}

// Repeats estimates how many iterations of each side find each effect, from
// the spreads of a comparison that was made. It is false when these are not
// Known.
//
// With n iterations a side, Compare's interval has the half-width
// t(0.975, ν) · √(V/n), V being the sum of both sides' variances per
// iteration and ν its degrees of freedom: 2n-2 when the sides vary alike,
// down to n-1 when one alone varies. The estimate of a true difference is
// farther than that from zero with probability Power when ln(1+effect) is at
// least
//
//	t(0.975, ν) · √(V'/n) + t(Power, ν) · √(V/n)
//
// which takes a shifted t distribution for the noncentral one. V' is V as
// the interval takes it on average: a side's estimated variance is never
// less than what lies within its iterations. Two iterations are the least
// that tell what lies between them. AtMost takes V's upper confidence limit,
// df·V/χ², with the degrees of freedom of the sum as it was estimated.
func Repeats(target, baseline Spread, effects []float64) ([]Repeat, bool) {
	if !target.Known() || !baseline.Known() {
		return nil, false
	}
	single := target.Iterations < 2 || baseline.Iterations < 2
	out := make([]Repeat, len(effects))
	for i, effect := range effects {
		out[i] = Repeat{Effect: effect, Iterations: repeats(target, baseline, 1, effect), LowerBound: single}
		if !single {
			out[i].AtMost = repeats(target, baseline, varianceLimit(target, baseline), effect)
		}
	}
	return out, true
}

// varianceLimit is the factor from the sum of two estimated variances to its
// upper confidence limit.
func varianceLimit(a, b Spread) float64 {
	df := sumDF(a.PerIteration(), a.DF, b.PerIteration(), b.DF)
	return df / chiSquare(1-assurance, df)
}

// repeats is the number of iterations for variances that are factor times
// those of the spreads; 0 when it is more than MaxRepeats.
func repeats(target, baseline Spread, factor, effect float64) int {
	enough := func(n int) bool {
		df := float64(n - 1)
		x, y := factor*target.PerIteration(), factor*baseline.PerIteration()
		v, taken := x+y, atLeast(x, target.Within, df)+atLeast(y, baseline.Within, df)
		both := sumDF(x, df, y, df)
		// studentT is two-sided: P(|T| > t) = 1-confidence.
		half := studentT(confidence, both) * math.Sqrt(taken/float64(n))
		return half+studentT(2*Power-1, both)*math.Sqrt(v/float64(n)) <= math.Log1p(effect)
	}
	if !enough(MaxRepeats) {
		return 0
	}
	low, high := 2, MaxRepeats
	for low < high {
		if mid := (low + high) / 2; enough(mid) {
			high = mid
		} else {
			low = mid + 1
		}
	}
	return low
}

// atLeast is the mean of an estimated variance that is not taken to be less
// than least: of max(v·χ²/df, least).
func atLeast(v, least, df float64) float64 {
	if least <= 0 || v <= 0 {
		return max(v, least)
	}
	x := df * least / v
	return least*chiSquareBelow(x, df) + v*(1-chiSquareBelow(x, df+2))
}

// chiSquareBelow is the probability that χ² is less than x, by the same
// approximation as chiSquare.
func chiSquareBelow(x, df float64) float64 {
	k := 2 / (9 * df)
	return 0.5 * math.Erfc(-(math.Cbrt(x/df)-1+k)/math.Sqrt(2*k))
}

// chiSquare is the quantile p of the χ² distribution, by Wilson and
// Hilferty's cube root (1931): within 2 % for two degrees of freedom or more
// and the p used here.
func chiSquare(p, df float64) float64 {
	z := math.Sqrt2 * math.Erfinv(2*p-1)
	k := 2 / (9 * df)
	return df * math.Pow(max(1-k+z*math.Sqrt(k), 1e-3), 3)
}
