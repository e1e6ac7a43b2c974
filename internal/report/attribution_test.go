package report

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestDistributionAndVersionAtOnce(t *testing.T) {
	for name, test := range map[string]struct {
		versions [3][2]string // distribution and version of the three targets
		want     []string     // who is named; none: no check
	}{
		"both":            {[3][2]string{{"community", "9.0.4"}, {"psmdb", "8.0.34-15"}, {"psmdb", "8.3.13-4"}}, []string{"psmdb80", "psmdb83"}},
		"version alone":   {[3][2]string{{"psmdb", "9.0.4-1"}, {"psmdb", "8.0.34-15"}, {"psmdb", "8.3.13-4"}}, nil},
		"distribution":    {[3][2]string{{"community", "8.0.34"}, {"psmdb", "8.0.34-15"}, {"enterprise", "8.0.34"}}, nil},
		"told apart":      {[3][2]string{{"community", "9.0.4"}, {"psmdb", "8.0.34-15"}, {"psmdb", "9.0.4-2"}}, nil},
		"told apart, too": {[3][2]string{{"community", "9.0.4"}, {"psmdb", "8.0.34-15"}, {"community", "8.0.34"}}, nil},
		"one of them":     {[3][2]string{{"community", "9.0.4"}, {"psmdb", "8.0.34-15"}, {"community", "8.3.13"}}, []string{"psmdb80"}},
	} {
		in := published(t)
		in.Run.Targets = slices.Clone(in.Run.Targets)
		for i, v := range test.versions {
			in.Run.Targets[i].Distribution, in.Run.Targets[i].ActualVersion = v[0], v[1]
		}
		c := build(t, in)
		i := slices.IndexFunc(c.Fairness.Checks, func(x Check) bool { return x.Name == "Attribution" })
		if (i >= 0) != (len(test.want) > 0) {
			t.Errorf("%s: %+v", name, c.Fairness.Checks)
			continue
		}
		for _, target := range []string{"psmdb80", "psmdb83"} {
			if i >= 0 && strings.Contains(c.Fairness.Checks[i].Text, target+" (") != slices.Contains(test.want, target) {
				t.Errorf("%s: %s", name, c.Fairness.Checks[i].Text)
			}
		}
	}
}

func TestWarmupIsSaid(t *testing.T) {
	in := published(t)
	if x := build(t, in).check("Warm-up"); x.Status != OK || !strings.HasPrefix(x.Text, "none: ") {
		t.Errorf("%+v", x)
	}
	in.Run.Settings.Warmup = time.Minute
	if x := build(t, in).check("Warm-up"); x.Status != OK || !strings.HasPrefix(x.Text, "what was sent before") {
		t.Errorf("%+v", x)
	}
	// Too short to tell.
	in.Run.Settings.Warmup = 0
	c := build(t, in)
	c.Cells[0].Steady = nil
	c.Fairness.Checks = nil
	(&builder{c: c}).checkWarmup(func(name string, status Status, format string, args ...any) {
		if text := fmt.Sprintf(format, args...); name != "Warm-up" || status != Caution || !strings.Contains(text, "and 1 of 15 cells") {
			t.Errorf("%s is %s: %s", name, status, text)
		}
		c.Fairness.Checks = append(c.Fairness.Checks, Check{})
	})
	if len(c.Fairness.Checks) != 1 {
		t.Error("nothing is said of a cell that is too short to tell")
	}
}
