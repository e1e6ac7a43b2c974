package stats

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// placed is a simulation on several sets of machines, each with a shift of
// its own.
type placed struct {
	simulation
	placements int
	machines   float64 // relative standard deviation of placements
}

func (s placed) side(rng *rand.Rand, shift float64) [][][]Window {
	out := make([][][]Window, s.placements)
	for p := range out {
		out[p] = s.simulation.side(rng, shift+s.machines*rng.NormFloat64())
	}
	return out
}

// differing is the share of trials whose interval excludes 1: with the
// placements as a level of their own and, if both are asked for, with all
// iterations taken as if they had run on one set of machines.
func (s placed) differing(t testing.TB, trials int, both bool) (level, ignored float64) {
	t.Helper()
	metrics := []Metric{Throughput()}
	flat := func(placements [][][]Window, seed uint64) ([]float64, []Spread, error) {
		var all [][]Window
		for _, p := range placements {
			all = append(all, p...)
		}
		return Estimate(all, metrics, seed)
	}
	pooled := func(placements [][][]Window, seed uint64) ([]float64, []Spread, error) {
		return EstimatePlacements(placements, metrics, seed)
	}
	for trial := range trials {
		rng := rand.New(rand.NewPCG(uint64(trial), 0x91ace))
		first, second := s.side(rng, 0), s.side(rng, s.effect)
		for i, estimate := range []func([][][]Window, uint64) ([]float64, []Spread, error){pooled, flat} {
			if i > 0 && !both {
				break
			}
			a, as, err := estimate(first, uint64(trial))
			if err != nil {
				t.Fatal(err)
			}
			b, bs, err := estimate(second, uint64(trial))
			if err != nil {
				t.Fatal(err)
			}
			if r := Compare(b[0], a[0], bs[0], as[0]); r.Differs() {
				if i == 0 {
					level += 1 / float64(trials)
				} else {
					ignored += 1 / float64(trials)
				}
			}
		}
	}
	return level, ignored
}

// Machines that differ make equal systems look different on every iteration
// alike. The level of placements sees that; an estimator that takes the
// iterations of all placements for independent is fooled.
func TestPlacementsAreALevel(t *testing.T) {
	trials, allowed := 1000, 0.07
	if testing.Short() {
		trials, allowed = 100, 0.12
	}
	for _, test := range []struct {
		placed
		fools bool
	}{
		{placed{simulation{iterations: 3, windows: 6, noise: 0.02, autocorrelation: 0.3, between: 0.003}, 2, 0.03}, true},
		{placed{simulation{iterations: 2, windows: 6, noise: 0.02, between: 0.003}, 5, 0.03}, true},
		{placed{simulation{iterations: 1, windows: 10, noise: 0.02, autocorrelation: 0.3}, 3, 0.03}, false},
		{placed{simulation{iterations: 2, windows: 6, noise: 0.03, autocorrelation: 0.6, between: 0.01}, 3, 0}, false},
	} {
		t.Run(fmt.Sprintf("%d placements of %s", test.placements, test.simulation), func(t *testing.T) {
			t.Parallel()
			level, ignored := test.differing(t, trials, test.fools)
			t.Logf("%d placements, %.1f%% apart: %.1f %% of %d A/A comparisons called different", test.placements, test.machines*100, level*100, trials)
			if test.fools {
				t.Logf("%.1f %% when placements are ignored", ignored*100)
			}
			if level > allowed {
				t.Errorf("%.1f %% of %d A/A comparisons called different, at most %.0f %% wanted", level*100, trials, allowed*100)
			}
			// Twice what the bar allows, however few trials there are.
			if test.fools && ignored < 0.14 {
				t.Errorf("ignoring placements calls %.1f %% different: the test above proves nothing", ignored*100)
			}
		})
	}
}

// A difference that is larger than what machines make is found.
func TestPlacementsFindATrueDifference(t *testing.T) {
	s := placed{simulation{iterations: 2, windows: 10, noise: 0.02, autocorrelation: 0.3, between: 0.003, effect: math.Log(0.93)}, 4, 0.01}
	if share, _ := s.differing(t, 60, false); share < 0.9 {
		t.Errorf("a difference of 7 %% was found in %.0f %% of trials", share*100)
	}
}

func TestPlacementSpread(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	s := placed{simulation{iterations: 3, windows: 10, noise: 0.01}, 2, 0.1}
	two := s.side(rng, 0)
	metrics := []Metric{Throughput(), MeanLatency()}
	values, spreads, err := EstimatePlacements(two, metrics, 1)
	if err != nil {
		t.Fatal(err)
	}
	x := spreads[0]
	if x.Placements != 2 || x.Iterations != 6 || x.Windows != 60 || x.DF != 1 || x.repetitions() != 2 {
		t.Errorf("%+v", x)
	}
	// The value is that of all windows, as without the level.
	flat, _, err := Estimate(append(append([][]Window{}, two[0]...), two[1]...), metrics, 1)
	if err != nil || flat[0] != values[0] {
		t.Errorf("%v, want %v (%v)", values, flat, err)
	}
	// What lies between two placements by hand.
	a, _, _ := Estimate(two[0], metrics, 1)
	b, _, _ := Estimate(two[1], metrics, 1)
	if d := math.Log(a[0] / b[0]); math.Abs(x.Variance/(d*d/4)-1) > 0.01 {
		t.Errorf("variance %v, want %v", x.Variance, d*d/4)
	}

	// A placement without data is none; one alone tells what iterations do.
	_, one, err := EstimatePlacements([][][]Window{two[0], {nil}, nil}, metrics, 1)
	if err != nil || one[0].Placements != 1 || one[0].DF != 2 {
		t.Errorf("%+v, %v", one[0], err)
	}
	_, none, err := EstimatePlacements(nil, metrics, 1)
	if err != nil || none[0].Known() || none[0].Placements != 0 {
		t.Errorf("%+v, %v", none[0], err)
	}

	// The side that ran on fewer placements says how many stand behind it.
	if r := Compare(values[0], a[0], x, one[0]); r.Placements != 1 || r.WithinRun {
		t.Errorf("%+v", r)
	}

	// Placements weigh by their time.
	long := [][][]Window{{two[0][0]}, {two[1][0], two[1][1], two[1][2]}}
	_, weighted, err := EstimatePlacements(long, metrics, 1)
	if err != nil {
		t.Fatal(err)
	}
	even := acrossPlacements([]placement{{Spread: Spread{Iterations: 1}, estimate: 0, seconds: 1}, {Spread: Spread{Iterations: 1}, estimate: 1, seconds: 1}})
	uneven := acrossPlacements([]placement{{Spread: Spread{Iterations: 1}, estimate: 0, seconds: 1}, {Spread: Spread{Iterations: 1}, estimate: 1, seconds: 3}})
	if !near(even.Variance, 0.25, 1e-9) || !near(uneven.Variance, 0.5*10/16, 1e-9) || weighted[0].Iterations != 4 {
		t.Errorf("%v, %v, %+v", even.Variance, uneven.Variance, weighted[0])
	}
}
