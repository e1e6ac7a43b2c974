package record

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// The percentiles of a record are within the histogram's precision of those
// of an exact sort, after it was written and read, too.
func TestPercentilesAgainstASort(t *testing.T) {
	count := 10_000_000
	if testing.Short() || raceDetector {
		count = 1_000_000
	}
	lognormal := func(rng *rand.Rand, median, sigma float64) float64 { return median * math.Exp(sigma*rng.NormFloat64()) }
	samples := make([]uint32, count)
	for name, draw := range map[string]func(*rand.Rand) float64{
		"lognormal": func(rng *rand.Rand) float64 { return lognormal(rng, 3100, 0.8) },
		// What a cache does: hits and, one time in five, a disk.
		"bimodal": func(rng *rand.Rand) float64 {
			if rng.IntN(5) == 0 {
				return lognormal(rng, 14_000, 0.5)
			}
			return lognormal(rng, 450, 0.3)
		},
	} {
		rng := rand.New(rand.NewPCG(178477, uint64(len(name))))
		recorded := NewHistogram()
		sum := 0.0
		for i := range samples {
			us := min(max(int64(math.Round(draw(rng))), MinLatencyUS), MaxLatencyUS)
			samples[i] = uint32(us)
			sum += float64(us)
			if err := recorded.RecordValue(us); err != nil {
				t.Fatal(err)
			}
		}
		slices.Sort(samples)
		text, err := EncodeHistogram(recorded)
		if err != nil {
			t.Fatal(err)
		}
		decoded, err := DecodeHistogram(text)
		if err != nil {
			t.Fatal(err)
		}
		read := dense(decoded)
		// 3 digits: a value and that of its bucket differ by less than a
		// thousandth, and below 2,048 µs not at all.
		const precision = 0.001
		worst := 0.0
		check := func(what string, got, exact float64) {
			t.Helper()
			off := math.Abs(got-exact) / exact
			worst = max(worst, off)
			if off > precision || exact < 2048 && got != exact && what != "mean" {
				t.Errorf("%s: %s is %v µs, by sorting %v (%.3f %%)", name, what, got, exact, 100*off)
			}
		}
		for q, label := range map[float64]string{0.5: "p50", 0.75: "p75", 0.9: "p90", 0.95: "p95", 0.99: "p99", 0.995: "p99.5", 0.999: "p99.9", 0.9999: "p99.99"} {
			rank := max(int(math.Round(q*float64(count))), 1)
			check(label, float64(recorded.ValueAtPercentile(q*100)), float64(samples[rank-1]))
			check(label+" as read", float64(read.ValueAtPercentile(q*100)), float64(samples[rank-1]))
		}
		summary := LatencyOf(read)
		check("mean", summary.Mean*1000, sum/float64(count))
		check("p50", summary.P50*1000, float64(samples[count/2-1]))
		check("p99.9", summary.P999*1000, float64(samples[count/1000*999-1]))
		check("maximum", summary.Max*1000, float64(samples[count-1]))
		t.Logf("%s: %d samples, %.4f %% off at worst", name, count, 100*worst)
	}
}

// BenchmarkDecodeHistogram reads the histogram of a busy minute.
func BenchmarkDecodeHistogram(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 1))
	h := NewHistogram()
	for range 150_000 {
		if err := h.RecordValue(int64(3100 * math.Exp(0.8*rng.NormFloat64()))); err != nil {
			b.Fatal(err)
		}
	}
	text, err := EncodeHistogram(h)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := DecodeHistogram(text); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(len(text)), "bytes/text")
}
