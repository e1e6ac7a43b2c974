package stats

import (
	"math"
	"math/rand/v2"
	"testing"
)

// cpuSimulation is a server whose commands per second and CPU per command
// vary by themselves, read every so many seconds and never on the minute.
type cpuSimulation struct {
	minutes         int
	load            float64 // relative standard deviation of a second's commands
	noise           float64 // and of the CPU per command of ten seconds
	autocorrelation float64 // of neighbouring ten seconds
	between         float64 // relative standard deviation of iterations
}

func (s cpuSimulation) windows(rng *rand.Rand, shift float64) []Window {
	var progress []Progress
	var readings []Reading
	var commands int64
	var cpu float64
	level := shift + s.between*rng.NormFloat64()
	x, speed := rng.NormFloat64(), rng.NormFloat64()
	next := -0.2
	jitter := func() float64 { return 0.3 * rng.Float64() }
	for second := range s.minutes * 60 {
		if second%10 == 0 {
			x = s.autocorrelation*x + math.Sqrt(1-s.autocorrelation*s.autocorrelation)*rng.NormFloat64()
		}
		speed = 0.9*speed + math.Sqrt(1-0.81)*rng.NormFloat64()
		rate := 3000 * math.Exp(s.load*speed)
		spent := rate * 500 * math.Exp(level+s.noise*x)
		for ; next < float64(second+1); next += 10 {
			at := max(next+jitter(), next)
			readings = append(readings, Reading{at, cpu + spent*max(min(at-float64(second), 1), 0)})
		}
		commands += int64(math.Round(rate))
		cpu += spent
		progress = append(progress, Progress{float64(second + 1), commands})
	}
	end := float64(s.minutes * 60)
	readings = append(readings, Reading{end + 0.1, cpu})
	return CPUWindows(readings, progress, 60)
}

// Two equal servers are called different in CPU per command as rarely as in
// throughput, within one run and over iterations.
func TestEqualCPUIsRarelyCalledDifferent(t *testing.T) {
	trials, allowed := 1000, 0.07
	if testing.Short() {
		trials, allowed = 100, 0.12
	}
	metrics := []Metric{CPUPerCommand()}
	for name, test := range map[string]struct {
		cpuSimulation
		iterations int
	}{
		"20 minutes":                 {cpuSimulation{minutes: 20, load: 0.1, noise: 0.03}, 1},
		"20 minutes, autocorrelated": {cpuSimulation{minutes: 20, load: 0.1, noise: 0.03, autocorrelation: 0.9}, 1},
		"10 minutes":                 {cpuSimulation{minutes: 10, load: 0.3, noise: 0.02, autocorrelation: 0.5}, 1},
		"3 iterations of 10 minutes": {cpuSimulation{minutes: 10, load: 0.1, noise: 0.02, autocorrelation: 0.5, between: 0.01}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			side := func(rng *rand.Rand) [][]Window {
				out := make([][]Window, test.iterations)
				for i := range out {
					out[i] = test.windows(rng, 0)
				}
				return out
			}
			different := 0
			for trial := range trials {
				rng := rand.New(rand.NewPCG(uint64(trial), 0xc9))
				a, as, err := Estimate(side(rng), metrics, uint64(trial))
				if err != nil {
					t.Fatal(err)
				}
				b, bs, err := Estimate(side(rng), metrics, uint64(trial))
				if err != nil {
					t.Fatal(err)
				}
				if Compare(b[0], a[0], bs[0], as[0]).Differs() {
					different++
				}
			}
			share := float64(different) / float64(trials)
			t.Logf("%.1f %% of %d A/A comparisons called different", share*100, trials)
			if share > allowed {
				t.Errorf("%.1f %% of %d A/A comparisons called different, at most %.0f %% wanted", share*100, trials, allowed*100)
			}
		})
	}
}

func TestTrueCPUDifferenceIsFound(t *testing.T) {
	s := cpuSimulation{minutes: 30, load: 0.3, noise: 0.03, autocorrelation: 0.5}
	metrics := []Metric{CPUPerCommand()}
	const trials = 50
	found := 0
	for trial := range trials {
		rng := rand.New(rand.NewPCG(uint64(trial), 3))
		a, as, _ := Estimate([][]Window{s.windows(rng, 0)}, metrics, 1)
		b, bs, _ := Estimate([][]Window{s.windows(rng, math.Log(1.05))}, metrics, 1)
		r := Compare(b[0], a[0], bs[0], as[0])
		if r.Differs() && r.Low > 1 {
			found++
		}
	}
	// Commands vary by ten times as much, and are no part of it.
	if found < trials*9/10 {
		t.Errorf("5 %% more CPU was found in %d of %d trials", found, trials)
	}
}

func TestCPUWindows(t *testing.T) {
	// 100 commands/s of 500 µs each, read at odd times.
	var progress []Progress
	for s := 1; s <= 130; s++ {
		progress = append(progress, Progress{float64(s), int64(100 * s)})
	}
	var readings []Reading
	for _, at := range []float64{-0.3, 10.2, 20.5, 30.1, 40.4, 50.2, 60.7, 70.1, 80.2, 90.3, 100.4, 110.5, 120.1, 130.2} {
		readings = append(readings, Reading{at, 7e9 + max(min(at, 130), 0)*100*500})
	}
	windows := CPUWindows(readings, progress, 60)
	var cpu float64
	var count int64
	for _, w := range windows {
		cpu += w.CPU
		count += w.Count
		if per := w.CPU / float64(w.Count); math.Abs(per-500) > 0.2 {
			t.Errorf("%.2f µs per command in %+v", per, w)
		}
	}
	// The ten seconds after the second minute stand in its window.
	if len(windows) != 2 || count != 13000 || !near(cpu, 13000*500, 1e-9) || math.Abs(windows[0].Seconds-60.5) > 0.6 {
		t.Errorf("%+v", windows)
	}
	values, _, err := Estimate([][]Window{windows}, []Metric{CPUPerCommand(), Throughput()}, 1)
	if err != nil || !near(values[0], 500, 1e-9) {
		t.Errorf("%v, %v", values, err)
	}
	if n := len(CPUWindows(readings, progress, 10)); n != 13 {
		t.Errorf("%d windows of ten seconds, want 13", n)
	}
	// Windows shorter than the pause between readings are as long as that.
	if n := len(CPUWindows(readings, progress, 3)); n != 13 {
		t.Errorf("%d windows, want 13", n)
	}

	back := append([]Reading{}, readings...)
	back[5].CPU = 0
	for name, got := range map[string][]Window{
		"a counter set back": CPUWindows(back, progress, 60),
		"one reading":        CPUWindows(readings[:1], progress, 60),
		"no commands":        CPUWindows(readings, nil, 60),
		"no length":          CPUWindows(readings, progress, 0),
	} {
		if got != nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestCommandsAt(t *testing.T) {
	progress := []Progress{{1, 100}, {2, 300}, {4, 300}, {4, 500}}
	for at, want := range map[float64]int64{-1: 0, 0: 0, 0.5: 50, 1: 100, 1.5: 200, 2: 300, 3: 300, 4: 300, 5: 500} {
		if got := commandsAt(progress, at); got != want {
			t.Errorf("at %v: %d, want %d", at, got, want)
		}
	}
}
