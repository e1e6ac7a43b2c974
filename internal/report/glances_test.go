package report

import (
	"slices"
	"strings"
	"testing"

	"github.com/mongo-sandbox/sandbox/internal/record"
	"github.com/mongo-sandbox/sandbox/internal/stats"
)

func answers(t *testing.T, c *Comparison, question string) string {
	t.Helper()
	for _, g := range c.glances() {
		if g.Question == question {
			return strings.Join(g.Answers, "\n")
		}
	}
	return ""
}

// The head claims no more than the tables below it.
func TestHeadKeepsQualifiers(t *testing.T) {
	c := build(t, published(t))
	for question, wants := range map[string][]string{
		"Fair?":      {"each target ran on machines of its own and at a time of its own"},
		"Different?": {"psmdb83 against mongo9, by throughput: slower on these machines at 1M (-8.6 %); slower in this run at 4M (-10.0 %) and 8M (-1.9 %)"},
		"How sure?":  {"or more at 1M; ", "or more at 4M and 8M, in those runs", "of the 132 intervals on this page 114 say worse"},
		"Where?":     {"psmdb83 against mongo9", "at 8M slower in 3 of 7, most in updateMany (+7.8 %); updateMany makes "},
		"Why?":       {"disk of every member at 8M", "secondaries, which answer reads, +6.8 % at 1M", "what made the difference of psmdb80 against mongo9 is not known at 8M (no difference detected in CPU per command of the primary; CPU per command of the secondaries +5.4 %; disk reads"},
	} {
		got := answers(t, c, question)
		for _, want := range wants {
			if !strings.Contains(got, want) {
				t.Errorf("%s says nothing of %q:\n%s", question, want, got)
			}
		}
	}
	// At 8M psmdb83 took more CPU per command, which is no reason there.
	if d := c.difference(2, "psmdb83", MetricCPUPrimary, AllOperations); d == nil || !d.Ratio.Differs() {
		t.Fatalf("%+v: the test needs a difference", d)
	}
	if why := answers(t, c, "Why?"); !strings.Contains(why, "is not known at 8M (CPU per command of the primary +10.8 %") || strings.Contains(why, "% at 8M") {
		t.Errorf("CPU per command where disks were the limit:\n%s", why)
	}
}

func TestApart(t *testing.T) {
	in := published(t)
	in.Run.Order = "interleaved"
	if got := build(t, bare(in)).apart(); !strings.HasPrefix(got, "each target ran on machines of its own: ") {
		t.Errorf("interleaved: %q", got)
	}
	in = published(t)
	in.Run.Platform = "local"
	if got := build(t, bare(in)).apart(); !strings.HasPrefix(got, "each target ran at a time of its own: ") {
		t.Errorf("local: %q", got)
	}
	in.Run.Order = "interleaved"
	if got := build(t, bare(in)).apart(); got != "" {
		t.Errorf("local, interleaved: %q", got)
	}
}

// What answers nothing is no reason, however much CPU it takes.
func TestSecondariesAreAReasonOnlyWhenTheyAnswer(t *testing.T) {
	in := published(t)
	in.Run.Settings.ReadPreference = "primary"
	c := build(t, in)
	if why := answers(t, c, "Why?"); strings.Contains(why, "secondaries") || !strings.Contains(why, "primary +6.8 % at 1M") {
		t.Errorf("primary reads:\n%s", why)
	}
	// Less CPU does not explain that a target is slower.
	c = build(t, published(t))
	for i := range c.Differences {
		if d := &c.Differences[i]; d.Target == "psmdb83" && (d.Metric == MetricCPUPrimary || d.Metric == MetricCPUSecondary) {
			d.Ratio = stats.Ratio{Value: 0.9, Low: 0.89, High: 0.91}
		}
	}
	if why := answers(t, c, "Why?"); !strings.Contains(why, "of psmdb83 against mongo9 is not known at 1M (CPU per command of the primary -10.0 %") {
		t.Errorf("less CPU, and slower:\n%s", why)
	}
	// Nor is anything a reason when the limit is not known.
	for i := range c.Limits {
		c.Limits[i].Bottleneck = Bottleneck{Limit: LimitUnknown}
	}
	if why := answers(t, c, "Why?"); strings.Contains(why, "not known at") || !strings.Contains(why, "whether or not CPU was the limit: primary +6.8 % at 1M") {
		t.Errorf("limits not known:\n%s", why)
	}
}

func TestWhoseLimit(t *testing.T) {
	busy, idle := map[string]float64{MachineCPUShare: 0.95}, map[string]float64(nil)
	evicts := func(share float64) map[string]float64 { return map[string]float64{EvictionWaitShare: share} }
	for name, test := range map[string]struct {
		primary, first, second map[string]float64
		want                   string
	}{
		"primary":             {busy, idle, idle, "CPU of the primary"},
		"secondary":           {idle, busy, idle, "CPU of a secondary"},
		"secondaries":         {idle, busy, busy, "CPU of 2 secondaries"},
		"primary and another": {busy, busy, idle, "CPU of the primary and a secondary"},
		"all":                 {busy, busy, busy, "CPU of every member"},
		"a sum of one":        {evicts(0.3), evicts(0.01), evicts(0), "eviction of the primary"},
		"a sum of all":        {evicts(0.1), evicts(0.1), evicts(0.1), "eviction of every member"},
	} {
		got := bottleneckOf(bottleneckInput{members: []MemberMetrics{
			metrics("m0", "PRIMARY", test.primary), metrics("m1", "SECONDARY", test.first), metrics("m2", "SECONDARY", test.second),
		}})
		if got.text() != test.want {
			t.Errorf("%s: %q, want %q", name, got.text(), test.want)
		}
	}
	if got := bottleneckOf(bottleneckInput{members: []MemberMetrics{metrics("m0", "STANDALONE", busy)}}); got.text() != "CPU" {
		t.Errorf("standalone: %q", got.text())
	}
}

func TestBoundKeepsItsSide(t *testing.T) {
	for ratio, want := range map[float64]string{
		1.025: "+2.5", 0.975: "-2.5", 1.0003: "+0.03", 0.9997: "-0.03", 1.000004: "+0.0004", 1.0000000001: "+0.0", 0.9999999999: "-0.0", 1: "0.0", 2.5: "+150", 0.5: "-50.0",
	} {
		if got := bound(ratio); got != want {
			t.Errorf("%v: %q, want %q", ratio, got, want)
		}
	}
}

// A page of one target asks no question that takes two.
func TestHeadOfOneTarget(t *testing.T) {
	in := published(t)
	in.Run.Targets = in.Run.Targets[:1]
	in.Cells = slices.DeleteFunc(in.Cells, func(c CellInput) bool { return c.ID.Target != in.Run.Targets[0].Name })
	c := build(t, in)
	if got := answers(t, c, "Where?"); got != "" {
		t.Errorf("Where? %s", got)
	}
	if got := answers(t, c, "Fair?"); strings.Contains(got, "each target") {
		t.Errorf("Fair? %s", got)
	}
	if c.Run.Engine != record.EngineMongod || answers(t, c, "Different?") != "one target: nothing to compare it with" {
		t.Errorf("Different? %s", answers(t, c, "Different?"))
	}
}
