package stats

import (
	"fmt"
	"math"
	"math/rand/v2"
)

// Window is a stretch of one iteration: the unit of the statistics.
type Window struct {
	Seconds float64
	Count   int64   // commands that succeeded
	Sum     float64 // of their latencies, µs
	CPU     float64 // time that servers spent meanwhile, µs
	// Latency is the distribution of their latencies, µs; nil when only
	// throughput and mean are asked for.
	Latency *Distribution
}

// Metric is something that can be estimated from windows.
type Metric struct {
	kind     metricKind
	quantile float64
}

type metricKind uint8

const (
	kindThroughput metricKind = iota
	kindMean
	kindQuantile
	kindCPU
)

// Throughput is commands per second.
func Throughput() Metric { return Metric{kind: kindThroughput} }

// MeanLatency is the mean latency, µs.
func MeanLatency() Metric { return Metric{kind: kindMean} }

// Quantile is the latency, µs, that the share q (0 to 1) of the commands
// does not exceed.
func Quantile(q float64) Metric { return Metric{kind: kindQuantile, quantile: q} }

// CPUPerCommand is the servers' CPU time per command, µs.
func CPUPerCommand() Metric { return Metric{kind: kindCPU} }

// Spread is the uncertainty of one side of a comparison: of the logarithm of
// its estimate, so a Variance of 0.0001 is a standard error of 1 %.
type Spread struct {
	Variance float64
	DF       float64 // degrees of freedom of Variance
	// Within is the part of one iteration's variance that its own windows
	// show; 0 when they are too few. What is left of an iteration's variance
	// lies between iterations.
	Within     float64
	Iterations int
	// Placements is the number of sets of machines that the iterations ran
	// on; 0 when that is not a level of its own.
	Placements int
	Windows    int // over all iterations
	// Block is the longest block of windows that was resampled as one;
	// 0 when no windows were.
	Block int
	// Autocorrelation is the mean lag-1 autocorrelation of the windows,
	// corrected for its bias in short series.
	Autocorrelation float64
}

// Known tells whether there was enough data for an interval.
func (s Spread) Known() bool { return s.DF > 0 }

// repetitions is the number of independent ones at the highest level.
func (s Spread) repetitions() int {
	if s.Placements > 0 {
		return s.Placements
	}
	return s.Iterations
}

// minWindows is the smallest number of windows of an iteration that gives
// an idea of its spread.
const minWindows = 5

// resamples is the number of bootstrap replicates: the standard error of a
// standard error from 1,000 of them is 2 %.
const resamples = 1000

// Estimate gives the value of every metric over all the iterations, each a
// series of windows in the order of time, and its spread. The spread is not
// Known when one iteration has too few windows, and 0 values are returned
// for metrics without data. The seed makes the resampling repeatable. An
// error means that the windows' histograms do not fit together.
func Estimate(iterations [][]Window, metrics []Metric, seed uint64) ([]float64, []Spread, error) {
	return estimate([][][]Window{iterations}, metrics, seed, func(levels [][]*iteration, m Metric, rng *rand.Rand) Spread {
		return spreadOf(levels[0], m, rng).Spread
	})
}

// estimate gives values over all placements' iterations; spread is asked for
// the spread of a metric.
func estimate(placements [][][]Window, metrics []Metric, seed uint64, spread func([][]*iteration, Metric, *rand.Rand) Spread) ([]float64, []Spread, error) {
	values := make([]float64, len(metrics))
	spreads := make([]Spread, len(metrics))
	series := make([][]*iteration, len(placements))
	var all []Window
	for p, iterations := range placements {
		for _, windows := range iterations {
			it, err := newIteration(windows)
			if err != nil {
				return nil, nil, err
			}
			series[p] = append(series[p], it)
			all = append(all, windows...)
		}
	}
	latency, err := latencyOf(all)
	if err != nil {
		return nil, nil, err
	}
	for m, metric := range metrics {
		values[m] = value(all, latency, metric)
		// Streams of their own, so that asking for one metric more
		// changes none of the others.
		key := uint64(metric.kind)<<56 ^ math.Float64bits(metric.quantile)
		spreads[m] = spread(series, metric, rand.New(rand.NewPCG(seed, key)))
	}
	return values, spreads, nil
}

func latencyOf(windows []Window) (*Distribution, error) {
	parts := make([]*Distribution, len(windows))
	for i := range windows {
		parts[i] = windows[i].Latency
	}
	all, err := mergeAll(parts)
	if err != nil {
		return nil, fmt.Errorf("merge windows: %w", err)
	}
	return all, nil
}

// value is the estimate of a metric over windows taken together, whose
// latencies are in latency; 0 when they are empty.
func value(windows []Window, latency *Distribution, metric Metric) float64 {
	var seconds, sum, cpu float64
	var count int64
	for _, w := range windows {
		seconds += w.Seconds
		sum += w.Sum
		cpu += w.CPU
		count += w.Count
	}
	switch {
	case metric.kind == kindQuantile:
		return latency.Quantile(metric.quantile)
	case metric.kind == kindMean && count > 0:
		return sum / float64(count)
	case metric.kind == kindCPU && count > 0:
		return cpu / float64(count)
	case metric.kind == kindThroughput && seconds > 0:
		return float64(count) / seconds
	}
	return 0
}

// iteration is a series of windows made ready for resampling.
type iteration struct {
	windows []Window
	latency *cumulative
	ones    []int
}

func newIteration(windows []Window) (*iteration, error) {
	it := &iteration{ones: make([]int, 0, len(windows))}
	parts := make([]*Distribution, 0, len(windows))
	for _, w := range windows {
		if w.Seconds > 0 {
			it.windows = append(it.windows, w)
			it.ones = append(it.ones, 1)
			parts = append(parts, w.Latency)
		}
	}
	var err error
	it.latency, err = newCumulative(parts)
	return it, err
}

// value is the metric over the windows, window i counted weights[i] times.
func (it *iteration) value(m Metric, weights []int) float64 {
	if m.kind == kindQuantile {
		return it.latency.quantile(m.quantile, weights)
	}
	var seconds, sum, cpu, count float64
	for i, k := range weights {
		w := &it.windows[i]
		seconds += float64(k) * w.Seconds
		sum += float64(k) * w.Sum
		cpu += float64(k) * w.CPU
		count += float64(k) * float64(w.Count)
	}
	switch {
	case m.kind == kindThroughput:
		return count / seconds
	case count == 0:
		return 0
	case m.kind == kindCPU:
		return cpu / count
	}
	return sum / count
}

// within is the variance of the logarithm of the iteration's estimate, from
// its own windows alone.
type within struct {
	estimate, variance, effective, r float64
	block                            int
}

func (it *iteration) within(m Metric, rng *rand.Rand) (within, bool) {
	n := len(it.windows)
	weights := make([]int, n)
	logs := make([]float64, 0, n)
	for i := range it.windows {
		weights[i] = 1
		if v := it.value(m, weights); v > 0 {
			logs = append(logs, math.Log(v))
		}
		weights[i] = 0
	}
	estimate := 0.0
	if n > 0 {
		estimate = it.value(m, it.ones)
	}
	if len(logs) < minWindows || estimate <= 0 {
		return within{estimate: estimate}, false
	}
	r := autocorrelation(logs)
	block := blockLength(r, n)

	var mean, squares float64 // Welford's running variance
	used := 0
	for range resamples {
		clear(weights)
		for left := n; left > 0; left -= block {
			start := rng.IntN(n)
			for k := range min(block, left) {
				weights[(start+k)%n]++
			}
		}
		v := it.value(m, weights)
		if v <= 0 {
			continue
		}
		used++
		delta := math.Log(v) - mean
		mean += delta / float64(used)
		squares += delta * (math.Log(v) - mean)
	}
	variance := squares / float64(max(used-1, 1))

	// The number of independent windows that would tell as much.
	positive := max(r, 0)
	effective := max(float64(n)*(1-positive)/(1+positive), 1.5)
	// What the mean of an AR(1) series of this length has for variance;
	// the sample variance is itself too small by 1/effective.
	_, sample := moments(logs)
	sample *= (1 - 1/float64(n)) / (1 - 1/effective)
	variance = max(variance, sample/effective)
	if m.kind == kindQuantile {
		// Rounding to buckets may hide all variation.
		step := it.latency.step(estimate)
		variance += step * step
	}
	return within{estimate: estimate, variance: variance, effective: effective, r: r, block: block}, true
}

// placement is what several iterations tell together.
type placement struct {
	Spread
	estimate float64 // mean of the logarithms of the iterations' estimates
	seconds  float64
}

func spreadOf(series []*iteration, m Metric, rng *rand.Rand) placement {
	var s placement
	var logs []float64
	var variance, df, r float64
	known := 0
	for _, it := range series {
		s.Windows += len(it.windows)
		w, ok := it.within(m, rng)
		if w.estimate > 0 {
			logs = append(logs, math.Log(w.estimate))
			for i := range it.windows {
				s.seconds += it.windows[i].Seconds
			}
		}
		if ok {
			known++
			variance += w.variance
			df += w.effective - 1
			r += w.r
			s.Block = max(s.Block, w.block)
		}
	}
	s.Iterations = len(logs)
	if known > 0 {
		variance /= float64(known)
		s.Within = variance
		s.Autocorrelation = r / float64(known)
	}
	switch k := float64(len(logs)); {
	case len(logs) > 1:
		mean, between := moments(logs)
		s.estimate = mean
		s.Variance = max(between, variance) / k
		s.DF = k - 1
	case len(logs) == 1:
		s.estimate = logs[0]
		if known == 1 {
			s.Variance = variance
			s.DF = df
		}
	}
	return s
}

// autocorrelation is the lag-1 autocorrelation of a series, corrected for
// its bias in short series and kept within ±0.9. A series without variation,
// or shorter than three, has none.
func autocorrelation(x []float64) float64 {
	if len(x) < 3 {
		return 0
	}
	mean, variance := moments(x)
	// Sums that differ only by rounding are no variation.
	if variance <= 1e-24*max(mean*mean, 1e-12) {
		return 0
	}
	var products float64
	for i := 1; i < len(x); i++ {
		products += (x[i] - mean) * (x[i-1] - mean)
	}
	n := float64(len(x))
	r := products / (variance * (n - 1))
	return min(max(r+(1+4*r)/n, -0.9), 0.9)
}

// blockLength is the number of neighbouring windows, out of n, that are
// resampled as one when the lag-1 autocorrelation is r; the package comment
// has the formula.
func blockLength(r float64, n int) int {
	size := float64(n)
	b := math.Ceil(math.Cbrt(6*r*r/((1-r*r)*(1-r*r))) * math.Cbrt(size))
	longest := math.Ceil(min(3*math.Sqrt(size), size/3))
	return int(max(min(b, longest), 1))
}

// moments are the mean and the sample variance.
func moments(x []float64) (mean, variance float64) {
	for _, v := range x {
		mean += v
	}
	mean /= float64(len(x))
	if len(x) < 2 {
		return mean, 0
	}
	for _, v := range x {
		variance += (v - mean) * (v - mean)
	}
	return mean, variance / float64(len(x)-1)
}
