package stats

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// course is a series of minutes: AR(1) noise around a level that may change.
type course struct {
	n               int
	noise           float64
	autocorrelation float64
	level           func(share float64) float64
}

func (c course) String() string {
	return fmt.Sprintf("%d values, noise %.1f%%, r %.1f", c.n, c.noise*100, c.autocorrelation)
}

func (c course) series(rng *rand.Rand) []float64 {
	out := make([]float64, c.n)
	x := rng.NormFloat64()
	for i := range out {
		level := 3000.0
		if c.level != nil {
			level *= c.level(float64(i) / float64(c.n-1))
		}
		out[i] = level * math.Exp(c.noise*x)
		x = c.autocorrelation*x + math.Sqrt(1-c.autocorrelation*c.autocorrelation)*rng.NormFloat64()
	}
	return out
}

func steady(series []float64, r, alpha float64, seed uint64) Steadiness {
	return NewSteadyTest(len(series), r, alpha, seed).Of(series)
}

// unsteady is the share of trials that are called unsteady at the level alpha,
// when so many series are measured together.
func (c course) unsteady(trials, together int, alpha float64) float64 {
	found := 0
	for trial := range trials {
		rng := rand.New(rand.NewPCG(uint64(trial), 0x57ead))
		all := make([][]float64, together)
		for i := range all {
			all[i] = c.series(rng)
		}
		r := NoiseAutocorrelation(all, uint64(trial))
		if steady(all[0], r, alpha, uint64(trial)).P <= alpha {
			found++
		}
	}
	return float64(found) / float64(trials)
}

// A course that keeps its level is called unsteady in 5 % of the cases at
// most: with the noise of TestEqualSystemsAreRarelyCalledDifferent, on its
// own and beside others.
func TestSteadyIsRarelyCalledUnsteady(t *testing.T) {
	trials, allowed := 400, 0.05
	if testing.Short() {
		trials, allowed = 100, 0.12
	}
	for _, test := range []struct {
		course
		together int
	}{
		{course{n: 30, noise: 0.03, autocorrelation: 0}, 1},
		{course{n: 30, noise: 0.03, autocorrelation: 0.3}, 1},
		{course{n: 30, noise: 0.03, autocorrelation: 0.6}, 1},
		{course{n: 10, noise: 0.03, autocorrelation: 0.3}, 1},
		{course{n: 30, noise: 0.03, autocorrelation: 0.3}, 9},
		{course{n: 30, noise: 0.03, autocorrelation: 0.6}, 9},
	} {
		t.Run(fmt.Sprintf("%s, %d together", test.course, test.together), func(t *testing.T) {
			t.Parallel()
			share := test.unsteady(trials, test.together, 0.05)
			t.Logf("%.1f %% of %d steady series called unsteady", share*100, trials)
			if share > allowed {
				t.Errorf("%.1f %% of %d steady series called unsteady, at most %.0f %% wanted", share*100, trials, allowed*100)
			}
		})
	}
}

func rising(by float64) func(float64) float64 { return func(at float64) float64 { return 1 + by*at } }

func jumping(by, when float64) func(float64) float64 {
	return func(at float64) float64 {
		if at < when {
			return 1
		}
		return 1 + by
	}
}

// A test that never calls anything unsteady would pass the one above.
func TestDriftIsFound(t *testing.T) {
	trials := 200
	if testing.Short() {
		trials = 60
	}
	for name, test := range map[string]struct {
		course
		together int
		alpha    float64
		atLeast  float64
	}{
		"10 %, three together":   {course{30, 0.03, 0.3, rising(0.10)}, 3, 0.05, 0.75},
		"10 %, nine together":    {course{30, 0.03, 0.3, rising(0.10)}, 9, 0.05, 0.85},
		"10 % at 2 % noise":      {course{30, 0.02, 0.3, rising(0.10)}, 3, 0.05, 0.95},
		"-10 % at 2 % noise":     {course{30, 0.02, 0.3, rising(-0.10)}, 3, 0.05, 0.95},
		"jump of 10 % at a half": {course{30, 0.02, 0.3, jumping(0.10, 0.5)}, 3, 0.05, 0.95},
		"jump of -15 %, early":   {course{30, 0.02, 0.3, jumping(-0.15, 0.2)}, 3, 0.05, 0.95},
		// As one of nine cells, and of 27.
		"10 % at 2 % noise, one of nine": {course{30, 0.02, 0.3, rising(0.10)}, 3, 0.05 / 9, 0.75},
		"10 % at 2 % noise, one of 27":   {course{30, 0.02, 0.3, rising(0.10)}, 9, 0.05 / 27, 0.75},
		"10 %, one of nine":              {course{30, 0.03, 0.3, rising(0.10)}, 3, 0.05 / 9, 0.4},
		"20 % on its own":                {course{30, 0.03, 0.3, rising(0.20)}, 1, 0.05, 0.8},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			share := test.unsteady(trials, test.together, test.alpha)
			t.Logf("found in %.0f %% of %d trials", share*100, trials)
			if share < test.atLeast {
				t.Errorf("found in %.0f %% of %d trials, at least %.0f %% wanted", share*100, trials, test.atLeast*100)
			}
		})
	}
}

func TestSteadySaysHow(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	near := func(what string, got, want, within float64) {
		t.Helper()
		if math.Abs(got-want) > within {
			t.Errorf("%s %.3f, want %.3f", what, got, want)
		}
	}
	s := steady(course{30, 0.005, 0, rising(0.12)}.series(rng), 0, 0.05, 1)
	if s.Shape != Trend || s.P > 0.01 {
		t.Errorf("a trend: %+v", s)
	}
	near("change", s.Change, 0.12, 0.01)
	near("last half", s.LastHalf, 0.055, 0.01)
	s = steady(course{30, 0.005, 0, jumping(-0.2, 0.4)}.series(rng), 0, 0.05, 1)
	if s.Shape != Jump || s.P > 0.01 {
		t.Errorf("a jump: %+v", s)
	}
	near("change", s.Change, -0.2, 0.01)
	near("at", s.At, 0.4, 0.03)
	// What would have been detected shrinks with the noise.
	if a, b := steady(course{n: 30, noise: 0.01}.series(rng), 0, 0.05, 1), steady(course{n: 30, noise: 0.04}.series(rng), 0, 0.05, 1); a.Detectable(0)*2 > b.Detectable(0) || a.Detectable(0) <= 0 {
		t.Errorf("detectable %.3f at 1 %% noise, %.3f at 4 %%", a.Detectable(0), b.Detectable(0))
	}
}

func TestSteadyOfOddSeries(t *testing.T) {
	flat, zeros, one := make([]float64, 30), make([]float64, 30), make([]float64, 30)
	for i := range flat {
		flat[i], one[i] = 7, 7
	}
	one[29] = 7.1
	if s := steady(flat, 0, 0.05, 1); !s.Known || s.P != 1 {
		t.Errorf("without variation: %+v", s)
	}
	for name, series := range map[string][]float64{
		"none": nil, "short": flat[:9], "zeros": zeros, "infinite": append([]float64{math.Inf(1)}, flat...), "no numbers": append([]float64{math.NaN()}, flat...),
	} {
		if s := steady(series, 0, 0.05, 1); s.Known {
			t.Errorf("%s: %+v", name, s)
		}
		if r := NoiseAutocorrelation([][]float64{series}, 1); r != 0 {
			t.Errorf("%s: r %v", name, r)
		}
	}
	for _, v := range []float64{steady(one, 0.95, 0.05, 1).P, NoiseAutocorrelation([][]float64{one, flat}, 1)} {
		if math.IsNaN(v) || v < 0 || v > 1 {
			t.Errorf("a last value that differs: %v", v)
		}
	}
	a, b := steady(one, 0.3, 0.05, 9), steady(one, 0.3, 0.05, 9)
	if a != b {
		t.Error("equal seeds give different results")
	}
}

// "It would have been found with a probability of 80 %" is held, also where
// the level is small because many series are tested.
func TestDetectableDriftIsFound(t *testing.T) {
	trials := 400
	if testing.Short() {
		trials = 100
	}
	for _, alpha := range []float64{0.05, 0.05 / 27} {
		c := course{n: 30, noise: 0.03, autocorrelation: 0.3}
		test := NewSteadyTest(c.n, c.autocorrelation, alpha, 1)
		var detectable float64
		for trial := range trials {
			s := test.Of(c.series(rand.New(rand.NewPCG(uint64(trial), 1))))
			detectable += s.Detectable(0) / float64(trials)
			if s.Detectable(0.5) <= 0.5 {
				t.Fatalf("what matters is 50 %%, detectable %.2f", s.Detectable(0.5))
			}
		}
		// Relative to the mean, half way.
		c.level = func(at float64) float64 { return 1 + detectable*(at-0.5) }
		found := 0
		for trial := range trials {
			if test.Of(c.series(rand.New(rand.NewPCG(uint64(trial), 2)))).P <= alpha {
				found++
			}
		}
		share := float64(found) / float64(trials)
		t.Logf("level %.4f: a drift of %.1f %% was found in %.0f %% of %d trials", alpha, detectable*100, share*100, trials)
		if share < 0.72 || share > 0.92 {
			t.Errorf("level %.4f: a drift of %.1f %% was found in %.0f %% of %d trials, wanted about %.0f %%", alpha, detectable*100, share*100, trials, Power*100)
		}
	}
}

// The order of a map is another one each time.
func TestNoiseAutocorrelationIsRepeatable(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	var all [][]float64
	for n := 10; n < 30; n++ {
		all = append(all, course{n: n, noise: 0.03, autocorrelation: 0.4}.series(rng))
	}
	want := NoiseAutocorrelation(all, 1)
	for range 20 {
		if got := NoiseAutocorrelation(all, 1); got != want {
			t.Fatalf("%v, then %v", want, got)
		}
	}
}
