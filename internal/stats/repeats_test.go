package stats

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// Values of the χ² table in NIST/SEMATECH e-Handbook of Statistical Methods,
// section 1.3.6.7.4, and of 20 % from the distribution function of even
// degrees of freedom, which is elementary.
func TestChiSquare(t *testing.T) {
	for _, test := range []struct{ p, df, want float64 }{
		{0.2, 2, 0.44629}, {0.2, 4, 1.64878}, {0.2, 6, 3.07009}, {0.1, 10, 4.865}, {0.05, 30, 18.493},
	} {
		if got := chiSquare(test.p, test.df); !near(got, test.want, 0.02) {
			t.Errorf("chiSquare(%v, %v) = %.4f, want %.4f", test.p, test.df, got, test.want)
		}
		if got := chiSquareBelow(test.want, test.df); math.Abs(got-test.p) > 0.004 {
			t.Errorf("chiSquareBelow(%v, %v) = %.4f, want %.2f", test.want, test.df, got, test.p)
		}
	}
}

// spreads of a comparison whose sides have the given standard deviation per
// iteration, of which within lies in the windows.
func planned(sd, within float64, iterations int) Spread {
	s := Spread{Iterations: iterations, Within: within * within, DF: float64(iterations - 1), Variance: sd * sd / float64(iterations)}
	if iterations == 1 {
		s.DF = 20
	}
	return s
}

func TestRepeats(t *testing.T) {
	side := planned(0.01, 0.004, 3)
	plan, ok := Repeats(side, side, []float64{0.01, 0.02, 0.05})
	if !ok || len(plan) != 3 {
		t.Fatalf("%+v, %v", plan, ok)
	}
	// With known variances (z for t) 2·0.01²·(1.96+0.84)²/ln(1.01)² = 15.9;
	// t's wider tails ask for one more. And n·effect² is about constant.
	if n := plan[0].Iterations; n != 17 {
		t.Errorf("1 %% at 1 %% noise: %d iterations, want 17", n)
	}
	if plan[1].Iterations != 6 || plan[2].Iterations != 3 {
		t.Errorf("2 %%: %d, 5 %%: %d iterations", plan[1].Iterations, plan[2].Iterations)
	}
	for _, r := range plan {
		if r.LowerBound || r.AtMost < r.Iterations {
			t.Errorf("%+v", r)
		}
	}
	if b, known := side.Between(); !known || !near(b, 0.01*0.01-0.004*0.004, 1e-9) {
		t.Errorf("between = %v, %v", b, known)
	}

	// One iteration tells what lies within it: a lower bound.
	one := planned(0.004, 0.004, 1)
	bound, ok := Repeats(one, side, []float64{0.01})
	if !ok || !bound[0].LowerBound || bound[0].AtMost != 0 || bound[0].Iterations >= plan[0].Iterations {
		t.Errorf("%+v, %v", bound, ok)
	}
	if _, known := one.Between(); known {
		t.Error("one iteration tells what lies between iterations")
	}

	if _, ok := Repeats(side, Spread{}, []float64{0.01}); ok {
		t.Error("a plan without data")
	}
	hopeless := planned(0.9, 0, 3)
	if plan, _ := Repeats(hopeless, hopeless, []float64{0.01}); plan[0].Iterations != 0 || plan[0].AtMost != 0 {
		t.Errorf("%+v", plan)
	}
	quiet := planned(0, 0, 3)
	if plan, _ := Repeats(quiet, quiet, []float64{0.01}); plan[0].Iterations != 2 || plan[0].AtMost != 2 {
		t.Errorf("no noise: %+v", plan)
	}
}

// The planned number of iterations finds the difference about as often as
// promised, and one with half as many does not.
func TestPlannedRepeatsFindTheDifference(t *testing.T) {
	trials := 300
	if testing.Short() {
		trials = 100
	}
	for _, test := range []struct {
		simulation
		effect float64
	}{
		{simulation{windows: 10, noise: 0.01, autocorrelation: 0.3, between: 0.01}, 0.02},
		{simulation{windows: 10, noise: 0.02, autocorrelation: 0, between: 0.005}, 0.02},
		{simulation{windows: 10, noise: 0.01, autocorrelation: 0.3, between: 0.02}, 0.05},
	} {
		t.Run(fmt.Sprintf("%s, effect %.2f", test.simulation, test.effect), func(t *testing.T) {
			t.Parallel()
			// What the mean of an AR(1) series has for variance.
			n, r := float64(test.windows), test.autocorrelation
			within := test.noise * test.noise / n * (1 + r) / (1 - r)
			side := planned(math.Sqrt(within+test.between*test.between), math.Sqrt(within), 1_000_000)
			plan, ok := Repeats(side, side, []float64{test.effect})
			if !ok {
				t.Fatal("no plan")
			}
			s := test.simulation
			s.effect, s.iterations = math.Log1p(test.effect), plan[0].Iterations
			share := s.differing(t, trials)
			s.iterations = (s.iterations + 1) / 2
			half := s.differing(t, trials)
			t.Logf("%d iterations found it in %.0f %% of %d trials, %d in %.0f %%", plan[0].Iterations, share*100, trials, s.iterations, half*100)
			if share < 0.72 || share > 0.96 {
				t.Errorf("%d iterations found it in %.0f %% of %d trials, wanted about %.0f %%", plan[0].Iterations, share*100, trials, Power*100)
			}
			if s.iterations > 1 && half > 0.72 {
				t.Errorf("%d iterations found it in %.0f %%: the plan asks for too many", s.iterations, half*100)
			}
		})
	}
}

// A plan from three iterations is as uncertain as their variance: what it
// calls enough with 80 % confidence is enough about that often.
func TestAtMostIsEnough(t *testing.T) {
	trials := 400
	if testing.Short() {
		trials = 100
	}
	s := simulation{iterations: 3, windows: 6, noise: 0.005, between: 0.01}
	exact := planned(math.Sqrt(s.noise*s.noise/float64(s.windows)+s.between*s.between), 0, 1_000_000)
	truth, _ := Repeats(exact, exact, []float64{0.02})
	enough, point := 0, 0
	for trial := range trials {
		spreads := make([]Spread, 2)
		for i := range spreads {
			_, got, err := Estimate(s.side(rand.New(rand.NewPCG(uint64(trial), uint64(i))), 0), []Metric{Throughput()}, 1)
			if err != nil {
				t.Fatal(err)
			}
			spreads[i] = got[0]
		}
		plan, ok := Repeats(spreads[0], spreads[1], []float64{0.02})
		if !ok {
			t.Fatal("no plan")
		}
		if plan[0].AtMost == 0 || plan[0].AtMost >= truth[0].Iterations {
			enough++
		}
		if plan[0].Iterations >= truth[0].Iterations {
			point++
		}
	}
	share := float64(enough) / float64(trials)
	t.Logf("%d iterations are needed; at_most was enough in %.0f %% of plans, the point estimate in %.0f %%", truth[0].Iterations, share*100, 100*float64(point)/float64(trials))
	if share < 0.72 {
		t.Errorf("at_most was enough in %.0f %% of plans", share*100)
	}
}
