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
		"a candidate":     {[3][2]string{{"community", "8.0.34-rc2"}, {"psmdb", "8.0.34-15"}, {"community", "8.0.34"}}, nil},
		"no candidate":    {[3][2]string{{"community", "8.0.34-rc2"}, {"psmdb", "8.0.34-15"}, {"community", "8.0.35"}}, []string{"psmdb80"}},
		"one of them":     {[3][2]string{{"community", "9.0.4"}, {"psmdb", "8.0.34-15"}, {"community", "8.3.13"}}, []string{"psmdb80"}},
	} {
		in := published(t)
		in.Run.Targets = slices.Clone(in.Run.Targets)
		for i, v := range test.versions {
			in.Run.Targets[i].Distribution, in.Run.Targets[i].ActualVersion = v[0], v[1]
		}
		c := build(t, bare(in))
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

// A target without results tells nothing apart.
func TestTargetWithoutResultsTellsNothingApart(t *testing.T) {
	in := published(t)
	in.Run.Targets = slices.Clone(in.Run.Targets)
	in.Run.Targets[2].Distribution, in.Run.Targets[2].ActualVersion = "community", "8.0.34"
	if slices.ContainsFunc(build(t, bare(in)).Fairness.Checks, func(x Check) bool { return x.Name == "Attribution" }) {
		t.Fatal("the third target tells them apart")
	}
	in.Cells = slices.DeleteFunc(in.Cells, func(c CellInput) bool { return c.ID.Target == "psmdb83" })
	if x := build(t, bare(in)).check("Attribution"); x.Status != Caution {
		t.Errorf("%+v", x)
	}
}

func TestWarmupIsSaid(t *testing.T) {
	in := published(t)
	// Its steady state is a limit, and so is what rests on it.
	if x := build(t, in).check("Warm-up"); x.Status != Caution || !strings.HasPrefix(x.Text, "none: ") {
		t.Errorf("%+v", x)
	}
	in.Run.Settings.Warmup = time.Minute
	if x := build(t, in).check("Warm-up"); x.Status != OK || !strings.HasPrefix(x.Text, "what was sent before") {
		t.Errorf("%+v", x)
	}
	in.Run.Settings.Warmup = 0
	c := build(t, in)
	said := func(heads ...RunHead) (text string) {
		c.Runs = heads
		(&builder{c: c}).checkWarmup(func(_ string, status Status, format string, args ...any) {
			text = string(status) + " " + fmt.Sprintf(format, args...)
		})
		return text
	}
	for i := range c.Fairness.Checks {
		if c.Fairness.Checks[i].Name == steadyState {
			c.Fairness.Checks[i].Status = OK
		}
	}
	if got := said(); !strings.HasPrefix(got, "ok none: ") {
		t.Errorf("steady: %s", got)
	}
	warm, cold := RunHead{Label: "warm"}, RunHead{Label: "cold"}
	warm.Settings.WarmupCommands = 1000
	if got := said(warm, cold); !strings.HasPrefix(got, "caution none in run cold: ") {
		t.Errorf("one of two: %s", got)
	}
}
