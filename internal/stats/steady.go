package stats

import (
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
)

// Steadiness tells whether a series kept its level.
type Steadiness struct {
	// Known: the series was long enough to tell.
	Known bool
	// P is the probability that a series that keeps its level, with noise
	// like this one's, looks as unsteady as this one.
	P float64
	// Shape is what fits the series better, a trend or a jump.
	Shape Shape
	// Change is the relative change from the beginning to the end: of the
	// straight line fitted to the series, or of the mean after the jump
	// against that before it.
	Change float64
	// Line is the relative change from the beginning to the end, of the
	// straight line fitted to the series, whatever its shape.
	Line float64
	// LastHalf is the relative change over the last half, by the straight
	// line fitted to it alone.
	LastHalf float64
	// At is how far into the series the jump is, a share of its length.
	At float64
	// critical is the change of the line, as a share of the mean, that is just
	// told from none at the level asked for; power is how much more a true
	// change has to be for its line to exceed that with probability Power.
	critical, power float64
}

// Detectable is the change from beginning to end, in a straight line and as a
// share of the mean, that would have been told from none with probability
// Power, when a change that looks smaller than least is called none.
func (s *Steadiness) Detectable(least float64) float64 {
	return max(s.critical, least) + s.power
}

// Shape is a way to be unsteady.
type Shape string

// The shapes.
const (
	Trend Shape = "trend" // all along
	Jump  Shape = "jump"  // from one level to another
)

// minSteady is the shortest series that is judged.
const minSteady = 10

// A series is compared with so many simulated ones that p-values are multiples
// of 1/500, or of a tenth of the level asked for if that is less.
const (
	leastReplicates = 499
	belowLevel      = 10
)

// NoiseAutocorrelation estimates the lag-1 autocorrelation of the noise of
// series that were measured under like conditions, each around a level that
// may have a trend or a jump of its own. It is a cautious estimate: one
// standard error is added, so that a series on its own is not called unsteady
// for noise that is more correlated than it looks. The seed makes the
// simulation repeatable.
func NoiseAutocorrelation(series [][]float64, seed uint64) float64 {
	var weights, sum, variance float64
	lists := byLength(series)
	// Sums depend on their order, in the last digit.
	for _, n := range slices.Sorted(maps.Keys(lists)) {
		list, f := lists[n], newUnsteadiness(n)
		var raw, count float64
		for _, y := range list {
			if m, ok := f.of(y); ok {
				raw += m.r
				count++
			}
		}
		if count == 0 {
			continue
		}
		r, sd := f.unbias(raw/count, rand.New(rand.NewPCG(seed, uint64(n))))
		w := float64(n) * count
		weights += w
		sum += w * r
		variance += w * w * sd * sd / count
	}
	if weights == 0 {
		return 0
	}
	return min(max((sum+math.Sqrt(variance))/weights, 0), mostCorrelated)
}

// mostCorrelated bounds the autocorrelation: beyond it noise and drift are
// one thing.
const mostCorrelated = 0.95

func byLength(series [][]float64) map[int][][]float64 {
	out := map[int][][]float64{}
	for _, y := range series {
		if relative := toLevel(y); relative != nil {
			out[len(y)] = append(out[len(y)], relative)
		}
	}
	return out
}

// toLevel divides a series by its mean; nil when it cannot be judged.
func toLevel(series []float64) []float64 {
	if len(series) < minSteady {
		return nil
	}
	level, _ := moments(series)
	if !(level > 0) || math.IsInf(level, 0) {
		return nil
	}
	out := make([]float64, len(series))
	for i, v := range series {
		out[i] = v / level
	}
	return out
}

// SteadyTest tests series of one length. Making it is what costs time: it is
// to be shared by series whose noise is alike.
type SteadyTest struct {
	f *unsteadiness
	// trends, jumps and unusual of the simulated series ascend.
	trends, jumps []float64
	unusual       []int
	alpha         float64
}

// NewSteadyTest makes the test of series of n values, one for each of a number
// of equally long stretches of time, whose noise has the lag-1 autocorrelation
// r; the package comment says how. alpha is the level that P is compared with.
// The seed makes the simulation repeatable.
func NewSteadyTest(n int, r, alpha float64, seed uint64) *SteadyTest {
	x := &SteadyTest{alpha: alpha}
	if n < minSteady {
		return x
	}
	x.f = newUnsteadiness(n)
	rng := rand.New(rand.NewPCG(seed, uint64(n)))
	noise := make([]float64, n)
	var trends, jumps []float64
	for range max(leastReplicates, int(math.Ceil(belowLevel/alpha))-1) {
		simulate(noise, r, rng)
		if v, ok := x.f.of(noise); ok {
			trends = append(trends, v.trend)
			jumps = append(jumps, v.jump)
		}
	}
	x.trends, x.jumps = slices.Sorted(slices.Values(trends)), slices.Sorted(slices.Values(jumps))
	x.unusual = make([]int, len(trends))
	for i := range trends {
		x.unusual[i] = x.exceeding(trends[i], jumps[i])
	}
	slices.Sort(x.unusual)
	return x
}

// exceeding is how many simulated series have so large a trend, or so large a
// jump: whichever are fewer.
func (x *SteadyTest) exceeding(trend, jump float64) int {
	return min(exceeding(x.trends, trend), exceeding(x.jumps, jump))
}

// Of tests whether a series of positive values kept its level.
func (x *SteadyTest) Of(series []float64) Steadiness {
	relative := toLevel(series)
	if relative == nil || x.f == nil || len(relative) != x.f.n {
		return Steadiness{}
	}
	n := x.f.n
	seen, ok := x.f.of(relative)
	if !ok { // no variation at all
		return Steadiness{Known: true, P: 1}
	}
	asUnusual := 1 + sort.SearchInts(x.unusual, x.exceeding(seen.trend, seen.jump)+1)
	s := Steadiness{
		Known: true, P: float64(asUnusual) / float64(len(x.unusual)+1),
		Shape: Trend, Line: changeOfLine(relative), LastHalf: changeOfLine(relative[n/2:]),
	}
	s.Change = s.Line
	if seen.byJump {
		before, after := split(relative, seen.at)
		s.Shape, s.At, s.Change = Jump, float64(seen.at)/float64(n), after/before-1
	}
	// Half of alpha is the trend's, half the jump's. Slopes are as often
	// above as below the true one.
	unit := seen.scale * x.f.slopeSD * float64(n-1)
	s.critical = x.trend(1-x.alpha/2) * unit
	s.power = x.trend(2*Power-1) * unit
	return s
}

// trend is a quantile of the simulated trends.
func (x *SteadyTest) trend(share float64) float64 {
	return x.trends[min(int(float64(len(x.trends))*share), len(x.trends)-1)]
}

// simulate fills a series with AR(1) noise of variance 1.
func simulate(noise []float64, r float64, rng *rand.Rand) {
	x := rng.NormFloat64()
	for i := range noise {
		noise[i] = x
		x = r*x + math.Sqrt(1-r*r)*rng.NormFloat64()
	}
}

// exceeding is how many of the values, which ascend, are at least v.
func exceeding(values []float64, v float64) int {
	return len(values) - sort.SearchFloat64s(values, v)
}

// unsteadiness measures series of one length.
type unsteadiness struct {
	n       int
	edge    int       // a jump leaves at least so many values on either side
	time    []float64 // centred
	slopeSD float64   // of the slope fitted to white noise of variance 1
}

func newUnsteadiness(n int) *unsteadiness {
	f := &unsteadiness{n: n, edge: max(2, n/10), time: make([]float64, n)}
	var squares float64
	for i := range f.time {
		f.time[i] = float64(i) - float64(n-1)/2
		squares += f.time[i] * f.time[i]
	}
	f.slopeSD = 1 / math.Sqrt(squares)
	return f
}

// measured is how unsteady a series is.
type measured struct {
	// trend and jump are the slope and the largest jump in units of the
	// standard deviation that they would have if the residuals were white.
	trend, jump float64
	at          int     // the first value after the largest jump
	byJump      bool    // it fits better than a line
	r           float64 // lag-1 autocorrelation of the residuals
	scale       float64 // standard deviation of the residuals
}

// of measures a series; ok is false when what is left of it beside the line
// or the jump does not vary.
func (f *unsteadiness) of(y []float64) (m measured, ok bool) {
	n := float64(f.n)
	mean, variance := moments(y)
	total := variance * (n - 1)
	var product, sum, largest float64
	for i, v := range y {
		product += f.time[i] * v
		if k := i; k >= f.edge && f.n-k >= f.edge {
			// sum is that of the first k deviations.
			if d := math.Abs(sum) * math.Sqrt(n/(float64(k)*(n-float64(k)))); d > largest {
				largest, m.at = d, k
			}
		}
		sum += v - mean
	}
	slope := product * f.slopeSD * f.slopeSD
	line := math.Abs(product) * f.slopeSD
	// Squares explained; a jump also chose its place.
	m.byJump = n*math.Log(max(total-largest*largest, 1e-300))+math.Log(n) < n*math.Log(max(total-line*line, 1e-300))

	var previous, squares, products float64
	before, after := split(y, m.at)
	for i, v := range y {
		e := v - mean - slope*f.time[i]
		if m.byJump {
			e = v - after
			if i < m.at {
				e = v - before
			}
		}
		squares += e * e
		if i > 0 {
			products += e * previous
		}
		previous = e
	}
	if squares <= 1e-20*n*max(mean*mean, 1e-12) {
		return m, false
	}
	m.r = products / squares
	m.scale = math.Sqrt(squares / (n - 2))
	m.trend, m.jump = line/m.scale, largest/m.scale
	return m, true
}

// unbias gives the autocorrelation of the noise whose residuals have that of
// raw on average: what is left beside a line or a jump is less correlated
// than the noise was. sd is the standard deviation of the estimate from one
// series. Both are found by simulation, on a grid (indirect inference).
func (f *unsteadiness) unbias(raw float64, rng *rand.Rand) (r, sd float64) {
	const step, replicates = 0.05, 100
	noise := make([]float64, f.n)
	var before, deviation float64
	for k := 0; ; k++ {
		r := float64(k) * step
		var mean, squares float64
		for range replicates {
			simulate(noise, r, rng)
			m, _ := f.of(noise)
			mean += m.r / replicates
			squares += m.r * m.r / replicates
		}
		deviation = math.Sqrt(max(squares-mean*mean, 0))
		if mean >= raw || r >= mostCorrelated {
			slope := (mean - before) / step
			if k == 0 || slope <= 0 {
				return r, deviation
			}
			return r - (mean-max(raw, before))/slope, deviation / slope
		}
		before = mean
	}
}

// split are the means before and from an index.
func split(y []float64, at int) (before, after float64) {
	before, _ = moments(y[:at])
	after, _ = moments(y[at:])
	return before, after
}

// changeOfLine is the relative change from the first to the last value of
// the straight line fitted to a series.
func changeOfLine(y []float64) float64 {
	n := float64(len(y))
	mean, _ := moments(y)
	var product, squares float64
	for i, v := range y {
		t := float64(i) - (n-1)/2
		product += t * v
		squares += t * t
	}
	half := product / squares * (n - 1) / 2
	if mean <= half || mean <= -half {
		return 0 // the line begins or ends below zero
	}
	return (mean+half)/(mean-half) - 1
}
