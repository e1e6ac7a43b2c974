package report

import (
	"fmt"
	"math"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mongo-sandbox/sandbox/internal/record"
)

// A shell reads back what was written, whatever is in it, in lines that fit.
func TestCommandLines(t *testing.T) {
	for _, args := range [][]string{
		{"sandbox", "report"},
		{"sandbox", "bench", "-var-file", "a b.tfvars", "--sizes", "1M:3,4M:1,8M:1", "--duration", "30m", "--order", "sequential", "--read-preference=secondary", "--aa", "--op-timeout", "300ms"},
		{"sandbox", "compare", strings.Repeat("a", 90), strings.Repeat("b", 120), "--check", `p99 of find a's vs "b" <= -5% at $HOME`, "--label", "x,y", ""},
	} {
		lines := commandLines(args)
		for _, l := range lines {
			if len(strings.Fields(strings.TrimSuffix(l, "\\"))) > 1 && len(l) > commandWidth {
				t.Errorf("%d characters could be broken: %s", len(l), l)
			}
		}
		script := `sandbox() { printf '%s\0' sandbox "$@"; }` + "\n" + strings.Join(lines, "\n") + "\n"
		out, err := exec.CommandContext(t.Context(), "sh", "-c", script).Output()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(args, strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	if got := commandLines([]string{"sandbox", "bench", "--sizes", "1k"}); len(got) != 1 {
		t.Errorf("a short command has %d lines", len(got))
	}
}

func TestWithoutFlags(t *testing.T) {
	for line, want := range map[string]string{
		"sandbox bench --sizes 1k --aa --rate 5 -env x": "sandbox bench --aa -env x",
		"sandbox bench -sizes=1k -rate=5":               "sandbox bench",
		"sandbox bench --aa sizes rate":                 "sandbox bench --aa sizes rate",
		"sandbox bench --sizes":                         "sandbox bench",
	} {
		if got := strings.Join(withoutFlags(strings.Fields(line), "sizes", "rate"), " "); got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}

func TestUnhurriedRate(t *testing.T) {
	for slowest, want := range map[float64]float64{
		3328: 2600, 100: 80, 12.5: 10, 12.4: 9.9, 99_999: 79_000, 0: 0, 0.05: 0.04,
	} {
		g := Group{Summaries: []Summary{{Cells: 1, ThroughputPerS: slowest * 1.5}, {Cells: 1, ThroughputPerS: slowest}, {Cells: 1, Refused: "x", ThroughputPerS: 1}, {}}}
		if got := g.unhurriedRate(); math.Abs(got-want) > 1e-12 {
			t.Errorf("%v: %v, want %v", slowest, got, want)
		}
	}
}

// code is what the blocks' commands are, without the breaks in their lines.
func code(blocks []block) string {
	var lines []string
	for _, b := range blocks {
		lines = append(lines, b.Code...)
	}
	return strings.ReplaceAll(strings.Join(lines, "\n"), " \\\n ", "")
}

func TestRateRecipe(t *testing.T) {
	c := *compared(t, "published")
	want := "sandbox up -var-file mongodb-9-first-look.tfvars --platform gcp\n" +
		"sandbox bench -var-file mongodb-9-first-look.tfvars --duration 30m --order sequential --read-preference secondary --op-timeout 300ms --sizes 1M:3 --rate 2600\n" +
		"sandbox down -env mongodb-9-first-look"
	if got := code(c.rateRecipe()); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if text := strings.Join(blockTexts(c.rateRecipe()), " "); !strings.Contains(text, "2,600 per second are at most 80 % of what the slowest target did at 1M; take 2,000 at 4M and 1,200 at 8M, each in a run of its own:") {
		t.Error(text)
	}
	// Of sizes in another order the smallest is taken.
	c.Groups = slices.Clone(c.Groups)
	slices.Reverse(c.Groups)
	if got := code(c.rateRecipe()); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	c.Run.Settings.Rate = 100
	if got := c.rateRecipe(); got != nil {
		t.Errorf("a run with a rate: %+v", got)
	}
	c.Run.Settings.Rate, c.Groups = 0, []Group{{Summaries: []Summary{{}, {}}}}
	if got := c.rateRecipe(); got != nil {
		t.Errorf("nothing was measured: %+v", got)
	}
}

func TestMachinesRecipe(t *testing.T) {
	c := *compared(t, "published")
	c.asked.options.Baseline = "psmdb80"
	want := `sandbox down -env mongodb-9-first-look
sandbox up -var-file mongodb-9-first-look.tfvars --platform gcp
sandbox bench -var-file mongodb-9-first-look.tfvars --sizes 1M:3,4M:1,8M:1 --duration 30m --order sequential --read-preference secondary --op-timeout 300ms
sandbox compare 20261106-093000-first-look RUN2 --baseline psmdb80
sandbox down -env mongodb-9-first-look`
	if diff := cmp.Diff(want, code(c.machinesRecipe())); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := compared(t, "embedded").machinesRecipe(); got != nil {
		t.Errorf("all on one machine: %+v", got)
	}
	c.Run.Files = nil
	if got := c.machinesRecipe(); got != nil {
		t.Errorf("nothing to make machines of: %+v", got)
	}
}

// What was asked for beside the records is asked for again.
func TestRecipeRepeatsWhatWasAsked(t *testing.T) {
	check, err := ParseThreshold("throughput b vs a >= -90%")
	if err != nil {
		t.Fatal(err)
	}
	last := func(c *Comparison) string {
		lines := strings.Split(code(c.recipes()), "\n")
		i := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, "sandbox compare ") })
		if i < 0 {
			t.Fatalf("no compare in %q", lines)
		}
		return lines[i]
	}
	runs := func(labels []string, o Options) *Comparison {
		in, err := combine([]Input{placementRun(t, 0, 0.04), placementRun(t, 1, 0.04)}, labels, o)
		if err != nil {
			t.Fatal(err)
		}
		return build(t, in)
	}
	ids := "sandbox compare 20261106-093000-mongodb-9-first-look 20261107-093000-mongodb-9-first-look"
	for _, test := range []struct {
		labels  []string
		options Options
		want    string
	}{
		{nil, Options{}, ids},
		{nil, Options{Pool: PoolAuto}, ids},
		{[]string{"before", "after"}, Options{Pool: PoolNever}, ids + " --label before,after --pool never"},
		{nil, Options{Pool: PoolAlways, Baseline: "b", Thresholds: []Threshold{check}}, ids + " --pool always --baseline b --check 'throughput b vs a >= -90%'"},
	} {
		if got := last(runs(test.labels, test.options)); got != test.want {
			t.Errorf("%q, want %q", got, test.want)
		}
	}
	in := placementRun(t, 0, 0.04)
	in.Options = Options{Baseline: "b", Thresholds: []Threshold{check}}
	if got := code(build(t, in).recipes()); !strings.Contains(got, "\nsandbox report --baseline b --check 'throughput b vs a >= -90%'\n") {
		t.Error(got)
	}
}

func TestTimeText(t *testing.T) {
	run := func(change func(*Comparison)) string {
		started := time.Date(2026, 11, 6, 9, 30, 0, 0, time.UTC)
		finished := started.Add(4*time.Hour + 5*time.Minute)
		c := &Comparison{Run: record.Run{
			Started: started, Finished: &finished, Platform: "gcp", Interval: 5 * time.Minute, Settings: record.Settings{Duration: 30 * time.Minute},
			Targets: make([]record.Target, 2), Sizes: []record.Size{{Documents: 1000, Iterations: 2}, {Documents: 4000}},
		}}
		// One cell of each size is there: the others take as long to seed.
		for _, size := range []int64{1000, 4000} {
			c.Cells = append(c.Cells, Cell{CellID: record.CellID{Size: size}, Result: &record.Cell{Seeding: record.Seeding{DurationS: float64(size) * 0.06}}})
		}
		change(c)
		return c.timeText()
	}
	for name, test := range map[string]struct {
		change func(*Comparison)
		want   string
	}{
		"all": {
			func(*Comparison) {},
			"Time: 6 cells of 30 min, 5 pauses of 5 min and 12 min of seeding (as recorded) come to 3 h 37 min; this run took 4 h 5 min from its start to its end. Making the machines comes on top.",
		},
		"with a warm-up, not finished, on one machine": {
			func(c *Comparison) {
				c.Run.Settings.Warmup, c.Run.Finished, c.Run.Platform = 2*time.Minute, nil, "local"
			},
			"Time: 6 cells of 30 min, 2 min of warm-up before each, 5 pauses of 5 min and 12 min of seeding (as recorded) come to 3 h 49 min.",
		},
		"one cell": {
			func(c *Comparison) {
				c.Run.Targets, c.Run.Sizes, c.Cells = c.Run.Targets[:1], c.Run.Sizes[1:], nil
			},
			"Time: 1 cell of 30 min; this run took 4 h 5 min from its start to its end. Making the machines comes on top.",
		},
		"nothing to add up": {func(c *Comparison) { c.Run.Sizes = nil }, ""},
	} {
		if got := run(test.change); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
	if got := fmt.Sprint(compared(t, "published").recipes()); !strings.Contains(got, "44 min of seeding (as recorded) come to 9 h 24 min") {
		t.Errorf("the time is not among the recipes: %s", got)
	}
}
