package stats

import (
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/HdrHistogram/hdrhistogram-go"
)

func near(a, b, tolerance float64) bool { return math.Abs(a-b) <= tolerance*math.Abs(b) }

// Values of the t table in NIST/SEMATECH e-Handbook of Statistical Methods,
// section 1.3.6.7.2, two-sided 95 % and 99 %.
func TestStudentT(t *testing.T) {
	for _, test := range []struct{ confidence, df, want float64 }{
		{0.95, 1, 12.706}, {0.95, 2, 4.303}, {0.95, 3, 3.182}, {0.95, 4, 2.776}, {0.95, 10, 2.228},
		{0.95, 30, 2.042}, {0.95, 100, 1.984}, {0.95, 1e9, 1.960},
		{0.99, 1, 63.657}, {0.99, 5, 4.032}, {0.99, 60, 2.660},
	} {
		if got := studentT(test.confidence, test.df); !near(got, test.want, 0.0004) {
			t.Errorf("studentT(%v, %v) = %.4f, want %.3f", test.confidence, test.df, got, test.want)
		}
	}
	if a, b, c := studentT(0.95, 4), studentT(0.95, 4.5), studentT(0.95, 5); b >= a || b <= c {
		t.Errorf("t falls with the degrees of freedom: %v %v %v", a, b, c)
	}
}

func histogram(t testing.TB, values ...int64) *hdrhistogram.Histogram {
	t.Helper()
	h := hdrhistogram.New(1, 60_000_000, 3)
	for _, v := range values {
		if err := h.RecordValue(v); err != nil {
			t.Fatal(err)
		}
	}
	return h
}

// FromHDR copies the buckets of one of the library's histograms.
func FromHDR(h *hdrhistogram.Histogram) *Distribution {
	s := h.Export()
	var index []int32
	var count []int64
	for i, c := range s.Counts {
		if c > 0 {
			index, count = append(index, int32(i)), append(count, c)
		}
	}
	return FromBuckets(s.LowestTrackableValue, int(s.SignificantFigures), index, count)
}

func latencies(seed uint64, n int) []int64 {
	rng := rand.New(rand.NewPCG(seed, 0))
	out := make([]int64, n)
	for i := range out {
		out[i] = min(1+int64(500*math.Exp(1.5*rng.NormFloat64())), 60_000_000)
	}
	return out
}

func TestQuantilesAgreeWithExactSort(t *testing.T) {
	values := latencies(1, 200_000)
	d := FromHDR(histogram(t, values...))
	slices.Sort(values)
	for _, q := range []float64{0, 0.001, 0.5, 0.9, 0.95, 0.99, 0.999, 0.9999, 1} {
		exact := float64(values[max(int(math.Ceil(q*float64(len(values))))-1, 0)])
		if got := d.Quantile(q); got < exact || got > exact*1.001 {
			t.Errorf("quantile %v = %v, exact %v", q, got, exact)
		}
	}
}

func TestQuantilesAgreeWithLibrary(t *testing.T) {
	for _, digits := range []int{1, 2, 3, 4} {
		h := hdrhistogram.New(1, 60_000_000, digits)
		for _, v := range latencies(2, 5000) {
			if err := h.RecordValue(v); err != nil {
				t.Fatal(err)
			}
		}
		d := FromHDR(h)
		for _, q := range []float64{0.01, 0.5, 0.95, 0.99, 0.999, 1} {
			if got, want := d.Quantile(q), float64(h.ValueAtQuantile(q*100)); got != want {
				t.Errorf("%d digits, quantile %v = %v, the library says %v", digits, q, got, want)
			}
		}
		if !near(d.Mean(), h.Mean(), 0.001) {
			t.Errorf("%d digits: mean %v, the library says %v", digits, d.Mean(), h.Mean())
		}
	}
}

func TestMerge(t *testing.T) {
	a, b := latencies(3, 3000), latencies(4, 500)
	var merged Distribution
	for _, part := range []*Distribution{FromHDR(histogram(t, a...)), nil, FromHDR(histogram(t)), FromHDR(histogram(t, b...))} {
		if err := merged.Merge(part); err != nil {
			t.Fatal(err)
		}
	}
	want := FromHDR(histogram(t, append(slices.Clone(a), b...)...))
	if !reflect.DeepEqual(&merged, want) {
		t.Error("merging parts differs from recording all")
	}
	other := hdrhistogram.New(1, 60_000_000, 2)
	if err := other.RecordValue(5); err != nil {
		t.Fatal(err)
	}
	if err := merged.Merge(FromHDR(other)); err == nil {
		t.Error("histograms of different precision were merged")
	}
}

func TestWeightedMixture(t *testing.T) {
	a, b := latencies(5, 1000), latencies(6, 300)
	c, err := newCumulative([]*Distribution{FromHDR(histogram(t, a...)), nil, FromHDR(histogram(t, b...))})
	if err != nil {
		t.Fatal(err)
	}
	weighted := slices.Concat(a, a, b, b, b)
	want := FromHDR(histogram(t, weighted...))
	for _, q := range []float64{0.01, 0.5, 0.95, 0.99} {
		got := c.quantile(q, []int{2, 9, 3})
		// One step of the histogram apart at most: 1 µs or 0.1 %.
		if w := want.Quantile(q); math.Abs(got-w) > max(1, 0.001*w) {
			t.Errorf("quantile %v of the mixture = %v, want about %v", q, got, w)
		}
	}
	if got := c.quantile(0.5, []int{0, 5, 0}); got != 0 {
		t.Errorf("quantile of nothing = %v", got)
	}
}

func TestAutocorrelation(t *testing.T) {
	// r = 0.25 by hand for 1 2 3 4 5 has sum of products 4 and of squares
	// 10, r = 0.4, corrected by (1+1.6)/5.
	if got := autocorrelation([]float64{1, 2, 3, 4, 5}); !near(got, 0.9, 1e-9) {
		t.Errorf("trend: %v, want the bound 0.9 (0.4 + 2.6/5 = 0.92)", got)
	}
	if got := autocorrelation([]float64{1, -1, 1, -1, 1, -1, 1, -1}); got > -0.8 {
		t.Errorf("alternating: %v", got)
	}
	if got := autocorrelation([]float64{7, 7, 7, 7}); got != 0 {
		t.Errorf("constant: %v", got)
	}
	rng := rand.New(rand.NewPCG(9, 9))
	for _, want := range []float64{0, 0.3, 0.6} {
		x := make([]float64, 20000)
		for i := range x {
			x[i] = math.Sqrt(1-want*want) * rng.NormFloat64()
			if i > 0 {
				x[i] += want * x[i-1]
			}
		}
		if got := autocorrelation(x); math.Abs(got-want) > 0.02 {
			t.Errorf("AR(1) with %v: %v", want, got)
		}
	}
}

func TestBlockLength(t *testing.T) {
	for _, test := range []struct {
		r    float64
		n    int
		want int
	}{
		{0, 30, 1}, {0.05, 30, 1},
		{0.3, 30, 3},    // cbrt(6·0.09/0.8281)·cbrt(30) = 2.69
		{0.5, 100, 7},   // cbrt(6·0.25/0.5625)·cbrt(100) = 6.44
		{-0.5, 100, 7},  // the sign does not matter
		{0.9, 30, 10},   // the longest allowed
		{0.9, 4000, 82}, // cbrt(6·0.81/0.0361)·cbrt(4000) = 81.4
	} {
		if got := blockLength(test.r, test.n); got != test.want {
			t.Errorf("blockLength(%v, %d) = %d, want %d", test.r, test.n, got, test.want)
		}
	}
}

// Blocks must widen the interval of a correlated series.
func TestAutocorrelationWidens(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	independent := simulation{iterations: 1, windows: 60, noise: 0.03}.side(rng, 0)
	correlated := simulation{iterations: 1, windows: 60, noise: 0.03, autocorrelation: 0.8}.side(rng, 0)
	_, a, err := Estimate(independent, []Metric{Throughput()}, 1)
	if err != nil {
		t.Fatal(err)
	}
	_, b, err := Estimate(correlated, []Metric{Throughput()}, 1)
	if err != nil {
		t.Fatal(err)
	}
	// The variance of the mean of independent windows is 0.03²/60.
	if want := 0.0009 / 60; a[0].Variance < want/2 || a[0].Variance > want*2.5 {
		t.Errorf("independent windows: variance %v, want about %v", a[0].Variance, want)
	}
	if b[0].Variance < 3*a[0].Variance || b[0].Block < 5 {
		t.Errorf("correlated %+v, independent %+v", b[0], a[0])
	}
}

func TestEstimateIsRepeatable(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	data := simulation{iterations: 2, windows: 12, noise: 0.05, autocorrelation: 0.4}.side(rng, 0)
	v1, s1, _ := Estimate(data, []Metric{Throughput(), MeanLatency()}, 42)
	v2, s2, _ := Estimate(data, []Metric{MeanLatency(), Throughput()}, 42)
	slices.Reverse(v2)
	slices.Reverse(s2)
	if !reflect.DeepEqual(v1, v2) || !reflect.DeepEqual(s1, s2) {
		t.Errorf("order of the metrics matters: %v %v, %v %v", v1, s1, v2, s2)
	}
}

// A slow wave has a longer memory than its neighbours' correlation tells: the
// resampled blocks see more of it than the AR(1) formula, differently with
// every seed.
func TestBlocksSeeSlowWaves(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 6))
	series := make([]Window, 120)
	for i := range series {
		x := 0.04*math.Sin(2*math.Pi*float64(i)/60) + 0.04*rng.NormFloat64()
		series[i] = Window{Seconds: 60, Count: int64(200000 * math.Exp(x))}
	}
	data := [][]Window{series}
	_, a, _ := Estimate(data, []Metric{Throughput()}, 42)
	_, b, _ := Estimate(data, []Metric{Throughput()}, 43)
	if a[0].Variance == b[0].Variance || !near(a[0].Variance, b[0].Variance, 0.3) {
		t.Errorf("variance %v with one seed, %v with another", a[0].Variance, b[0].Variance)
	}
}

func TestEstimateOfLittle(t *testing.T) {
	for name, data := range map[string][][]Window{
		"nothing":             nil,
		"an empty iteration":  {nil},
		"windows of no time":  {{{}, {}, {}, {}, {}, {}}},
		"fewer than 5":        {{{Seconds: 1, Count: 5, Sum: 9}, {Seconds: 1, Count: 6, Sum: 9}}},
		"nothing but failure": {{{Seconds: 1}, {Seconds: 1}, {Seconds: 1}, {Seconds: 1}, {Seconds: 1}}},
	} {
		_, spreads, err := Estimate(data, []Metric{Throughput(), MeanLatency(), Quantile(0.99)}, 1)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, s := range spreads {
			if s.Known() {
				t.Errorf("%s: spread %+v", name, s)
			}
		}
	}
}

// Two iterations with one window each are two independent values.
func TestIterationsAreTheRepetitions(t *testing.T) {
	data := [][]Window{{{Seconds: 10, Count: 1000}}, {{Seconds: 10, Count: 1100}}}
	values, spreads, err := Estimate(data, []Metric{Throughput()}, 1)
	if err != nil {
		t.Fatal(err)
	}
	// ln(1.1) = 0.09531; the sample variance of two values is half the
	// square of their difference, that of their mean half of that.
	if values[0] != 105 || !near(spreads[0].Variance, 0.09531*0.09531/4, 1e-3) || spreads[0].DF != 1 {
		t.Errorf("value %v, spread %+v", values[0], spreads[0])
	}
	// t of one degree of freedom is 12.706.
	half := 12.706 * 0.09531 / 2
	if low, high := spreads[0].Interval(values[0]); !near(low, 105*math.Exp(-half), 1e-3) || !near(high, 105*math.Exp(half), 1e-3) {
		t.Errorf("%v to %v", low, high)
	}
	if low, high := (Spread{}).Interval(105); low != 0 || high != 0 {
		t.Errorf("an interval without data: %v to %v", low, high)
	}
}

func TestCompare(t *testing.T) {
	one := Spread{Variance: 0.0001, DF: 2, Iterations: 3}
	r := Compare(95, 100, one, one)
	// t of 4 degrees of freedom times √0.0002.
	half := 2.776 * math.Sqrt(0.0002)
	if !near(r.Low, 0.95*math.Exp(-half), 1e-3) || !near(r.High, 0.95*math.Exp(half), 1e-3) || r.WithinRun {
		t.Errorf("%+v", r)
	}
	if !r.Differs() || r.Outcome(HigherIsBetter) != Slower || r.Outcome(LowerIsBetter) != Faster {
		t.Errorf("%+v is called %q", r, r.Outcome(HigherIsBetter))
	}
	inverse := Compare(100, 95, one, one)
	if !near(inverse.Low, 1/r.High, 1e-12) || inverse.Outcome(HigherIsBetter) != Faster {
		t.Errorf("the other way round: %+v", inverse)
	}
	// (2.776 + 0.941) √0.0002 = 0.0526, and exp of that.
	same := Compare(98, 100, one, one)
	if same.Differs() || same.Verdict(HigherIsBetter) != "no difference detected (would have detected 5.4 %)" {
		t.Errorf("%+v: %q", same, same.Verdict(HigherIsBetter))
	}
	if !Compare(1, 1, one, Spread{Iterations: 1, DF: 5}).WithinRun {
		t.Error("one iteration is not marked")
	}
	unknown := Compare(50, 100, one, Spread{})
	if unknown.Value != 0.5 || unknown.HasInterval() || unknown.Differs() || !strings.Contains(unknown.Verdict(HigherIsBetter), "not enough data") {
		t.Errorf("%+v", unknown)
	}
	if nothing := Compare(0, 100, one, one); nothing.Value != 0 || nothing.HasInterval() {
		t.Errorf("%+v", nothing)
	}
}

func TestPercent(t *testing.T) {
	for share, want := range map[float64]string{0: "0.1 %", 0.0123: "1.3 %", 0.05: "5.0 %", 0.123: "13 %", 2: "200 %"} {
		if got := Percent(share); got != want {
			t.Errorf("%v: %q, want %q", share, got, want)
		}
	}
}

func BenchmarkEstimate(b *testing.B) {
	var windows []Window
	for i := range 30 {
		h := histogram(b, latencies(uint64(i), 20000)...)
		windows = append(windows, Window{Seconds: 60, Count: h.TotalCount(), Sum: h.Mean() * float64(h.TotalCount()), Latency: FromHDR(h)})
	}
	metrics := []Metric{Throughput(), MeanLatency(), Quantile(0.5), Quantile(0.95), Quantile(0.99)}
	for b.Loop() {
		if _, _, err := Estimate([][]Window{windows, windows, windows}, metrics, 1); err != nil {
			b.Fatal(err)
		}
	}
}
