package report

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/mongo-sandbox/sandbox/internal/record"
	"github.com/mongo-sandbox/sandbox/internal/stats"
)

func TestParseThreshold(t *testing.T) {
	for text, want := range map[string]Threshold{
		"throughput psmdb80 vs mongo9 >= -5%":    {Metric: MetricThroughput, Target: "psmdb80", Baseline: "mongo9", AtLeast: true, Percent: -5},
		"p99.9 a vs b <= 10%":                    {Metric: MetricP999, Target: "a", Baseline: "b", Percent: 10},
		" p99  a@x vs b.again <= +2.5 %  at 4M ": {Metric: MetricP99, Target: "a@x", Baseline: "b.again", Percent: 2.5, Size: "4M"},
		"cpu a vs b<=0%":                         {Metric: MetricCPUPrimary, Target: "a", Baseline: "b"},
		"p95 of updateOne a vs b <= 10% at 4M":   {Metric: MetricP95, Operation: "updateOne", Target: "a", Baseline: "b", Percent: 10, Size: "4M"},
		"mean of vs of.2 >= 1%":                  {Metric: MetricMean, Target: "of", Baseline: "of.2", AtLeast: true, Percent: 1},
		"mean of find of vs b >= 1%":             {Metric: MetricMean, Operation: "find", Target: "of", Baseline: "b", AtLeast: true, Percent: 1},
		"mean vs vs at>=10% at at":               {Metric: MetricMean, Target: "vs", Baseline: "at", AtLeast: true, Percent: 10, Size: "at"},
	} {
		got, err := ParseThreshold(text)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		got.Text, got.operationColumn, got.targetColumn, got.baselineColumn, got.sizeColumn = "", 0, 0, 0, 0
		if want.Operation == "" {
			want.Operation = AllOperations
		}
		if got != want {
			t.Errorf("%q: %+v, want %+v", text, got, want)
		}
	}
}

func TestThresholdMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"":                                "column 1: it ends where a metric",
		"througput a vs b >= 1%":          `column 1: "througput" is no metric, did you mean throughput?`,
		"p98 a vs b >= 1%":                `did you mean p9`,
		"mean a with b >= 1%":             `column 8: "with": want "vs"`,
		"mean a vs a >= 1%":               "column 11: a is compared with itself",
		"mean a vs":                       "column 10: it ends where the target to compare it with should be",
		"mean a vs b":                     "column 12: it ends where >= or <= should be",
		"mean a vs b > 1%":                `column 13: ">": want >= or <=`,
		"mean a vs b => 1%":               `column 13: "=": want >= or <=`,
		"mean é vs b >= 1":                `column 16: "1": want a percentage`,
		"mean a vs b >= x%":               `column 16: "x%": want a percentage`,
		"mean a vs b >= 0x1%":             `want a percentage`,
		"mean a vs b >= -100%":            "a difference lies between -100% and",
		"mean a vs b >= 1% for 4M":        `column 19: "for": after the percentage only "at SIZE" may follow`,
		"mean a vs b >= 1% at":            "column 21: it ends where a size",
		"mean a vs b >= 1% at 4M 5":       `column 25: "5": nothing may follow the size`,
		"throughput of find a vs b >= 1%": "column 12: throughput is known of all commands together only",
		"cpu of find a vs b >= 1%":        "column 5: cpu is known of all commands together only; want mean, p50, p95 or p99",
		"mean of":                         "column 8: it ends where an operation type",
		"mean of >= 1%":                   `column 9: ">=": want an operation type`,
		"mean of find vs b >= 1%":         `column 17: "b": want "vs"`,
		"mean >= vs b >= 1%":              `column 6: ">=": want a target`,
	} {
		_, err := ParseThreshold(text)
		var syntax *SyntaxError
		if !errors.As(err, &syntax) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func FuzzParseThreshold(f *testing.F) {
	f.Add("throughput psmdb80 vs mongo9 >= -5% at 4M")
	f.Add("p95 of updateOne psmdb80 vs mongo9 <= 10%")
	f.Fuzz(func(t *testing.T, text string) {
		first, err := ParseThreshold(text)
		if err != nil {
			var syntax *SyntaxError
			if !errors.As(err, &syntax) || syntax.Column < 1 || syntax.Column > len(text)+1 {
				t.Fatalf("%q: %#v", text, err)
			}
			return
		}
		again, err := ParseThreshold(first.String())
		if err != nil {
			t.Fatalf("%q was written as %q: %v", text, first.String(), err)
		}
		if again.Metric != first.Metric || again.Operation != first.Operation || again.Target != first.Target || again.Baseline != first.Baseline ||
			again.AtLeast != first.AtLeast || again.Percent != first.Percent || again.Size != first.Size {
			t.Fatalf("%q: %+v, then %+v", text, first, again)
		}
	})
}

// asking builds the comparison of an input with checks.
func asking(t *testing.T, in Input, checks ...string) (*Comparison, error) {
	t.Helper()
	for _, text := range checks {
		threshold, err := ParseThreshold(text)
		if err != nil {
			t.Fatal(err)
		}
		in.Options.Thresholds = append(in.Options.Thresholds, threshold)
	}
	return Build(in)
}

func TestThresholds(t *testing.T) {
	wants := map[string]struct {
		outcome ThresholdOutcome
		at      string // what the first size says
	}{
		// psmdb80 is 2.3 % slower than mongo9 at 1M, give or take 2.
		"throughput psmdb80 vs mongo9 >= -15%":               {Met, ""},
		"throughput psmdb80 vs mongo9 >= -2.3% at 1M":        {NotProven, "both sides of -2.3 %"},
		"throughput psmdb80 vs mongo9 >= +10% at 1M":         {Missed, "beyond +10.0 %"},
		"throughput psmdb80 vs mongo9 <= +10%":               {Met, ""},
		"throughput mongo9 vs psmdb80 >= -3% at 1M":          {Met, ""}, // the other way round
		"throughput psmdb83 vs psmdb80 >= -30%":              {Met, ""}, // neither is the baseline
		"mean psmdb80 vs mongo9 <= 40% at 1000000":           {Met, ""},
		"cpu psmdb80 vs mongo9 <= 90% at 4M":                 {Met, ""}, // one iteration, read every minute
		"cpu psmdb80 vs mongo9 <= 5.5% at 4M":                {NotProven, "both sides of +5.5 %"},
		"cpu-secondaries psmdb83 vs mongo9 <= 5%":            {Missed, "beyond +5.0 %"},
		"cpu-secondaries psmdb83 vs mongo9 <= 0% at 1M":      {Missed, "beyond 0.0 %"},
		"p95 of updateMany psmdb83 vs mongo9 <= 40%":         {Met, ""},
		"p95 of updateMany psmdb83 vs mongo9 <= 2% at 1M":    {Missed, "beyond +2.0 %"},
		"mean of deleteMany psmdb80 vs mongo9 <= 1.7% at 1M": {NotProven, "both sides of +1.7 %"},
		"cpu psmdb83 vs mongo9 <= 90% at 1M":                 {Met, ""},
	}
	checks := slices.Sorted(maps.Keys(wants))
	c, err := asking(t, published(t), checks...)
	if err != nil {
		t.Fatal(err)
	}
	for i, check := range checks {
		want, got := wants[check], &c.Thresholds[i]
		if got.Outcome != want.outcome || !strings.Contains(got.Sizes[0].Reason, want.at) {
			t.Errorf("%s: %+v", check, got)
		}
		alone := Comparison{Thresholds: []ThresholdResult{*got}}
		if alone.ThresholdsMet() != (want.outcome == Met) {
			t.Errorf("%s: met: %t", check, alone.ThresholdsMet())
		}
	}
}

// The worst size decides, and all of them are shown.
func TestThresholdAtEverySize(t *testing.T) {
	c, err := asking(t, published(t), "throughput psmdb83 vs mongo9 >= -12%", "throughput psmdb83 vs mongo9 >= -1% at 4M")
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Thresholds[0].Sizes) != 3 || c.Thresholds[1].Outcome != Missed {
		t.Fatalf("%+v", c.Thresholds)
	}
	text := string(render(t, FormatText, c))
	for _, want := range []string{"ARE THE THRESHOLDS MET?", "Thresholds?", "throughput psmdb83 vs mongo9 >= -1% at 4M: missed at 4M"} {
		if !strings.Contains(strings.Join(strings.Fields(text), " "), want) {
			t.Errorf("%q is not in the text", want)
		}
	}
	var doc struct {
		Checks []struct {
			Check, Operator, Outcome string
			Threshold                float64
			Sizes                    []struct {
				Size  int64
				Ratio *float64
			}
		}
	}
	if err := json.Unmarshal(render(t, FormatJSON, c), &doc); err != nil {
		t.Fatal(err)
	}
	if x := doc.Checks[1]; x.Outcome != "missed" || x.Operator != ">=" || x.Threshold != 0.99 || x.Sizes[0].Size != 4_000_000 || x.Sizes[0].Ratio == nil {
		t.Errorf("%+v", doc.Checks)
	}
}

// What is missing or unfair meets no threshold, however low.
func TestThresholdsThatCannotBeMet(t *testing.T) {
	for check, want := range map[string]ThresholdOutcome{
		"throughput b-bigger-machines vs a-baseline >= -50% at 100k": NotFair,
		"throughput d-other-commands vs a-baseline >= -99% at 100k":  NotFair,
		"throughput c-died vs a-baseline >= -99% at 1M":              NoResult,
		"throughput b-bigger-machines vs a-baseline >= -99% at 1M":   NoResult, // an iteration is missing
	} {
		c, err := asking(t, troubled(t), check)
		if err != nil {
			t.Fatal(err)
		}
		if got := c.Thresholds[0]; got.Outcome != want || got.Sizes[0].Reason == "" {
			t.Errorf("%s: %+v, want %s", check, got, want)
		}
	}
	for check, want := range map[string]string{
		"mean psmdb8 vs mongo9 >= 1%":               "column 6: target psmdb8 is not among the targets, did you mean psmdb80?",
		"mean psmdb80 vs mongo >= 1%":               "column 17: target mongo is not among the targets, did you mean mongo9?",
		"mean of updateone psmdb80 vs mongo9 >= 1%": "column 9: there is no operation type updateone, did you mean updateOne?",
		"mean psmdb80 vs mongo9 >= 1% at 40M":       "column 33: there is no size 40M, did you mean 4M?",
		"mean psmdb80 vs mongo9 >= 1% at 99999":     "there is no size 99999",
	} {
		_, err := asking(t, published(t), check)
		var request *RequestError
		if !errors.As(err, &request) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", check, err)
		}
	}
}

// again is published with a second measurement of its baseline.
func again(t *testing.T, factor float64) Input {
	in := published(t)
	in.Run.Targets = slices.Clone(in.Run.Targets)
	second := in.Run.Targets[0]
	second.Name, second.AAOf = "mongo9.again", "mongo9"
	in.Run.Targets = append(in.Run.Targets, second)
	for _, c := range slices.Clone(in.Cells) {
		if c.ID.Target != "mongo9" {
			continue
		}
		cell := *c.Cell
		cell.ThroughputPerS *= factor
		c.ID.Target, cell.Target, c.Cell = second.Name, second.Name, &cell
		in.Cells = append(in.Cells, c)
	}
	in.Run.CommandLine, in.Run.Finished = commandLine(&in.Run), finish(&in.Run, in.Cells)
	return in
}

func TestNoiseFloor(t *testing.T) {
	c := build(t, again(t, 0.96))
	// psmdb80 differs by -2.3 %, psmdb83 by -8.6 %, and mongo9 from itself
	// by -4 %.
	small, large := c.difference(0, "psmdb80", MetricThroughput, AllOperations), c.difference(0, "psmdb83", MetricThroughput, AllOperations)
	if !small.WithinNoise() || large.WithinNoise() || digits(small.Noise) != 0.96 {
		t.Errorf("%+v, %+v", small, large)
	}
	if d := c.difference(0, "mongo9.again", MetricThroughput, AllOperations); d.Noise != 0 || d.WithinNoise() {
		t.Errorf("%+v", d)
	}
	if check := c.check("Noise floor"); check.Status != Caution || !strings.Contains(check.Text, "throughput -4.0 % at 1M") {
		t.Errorf("%+v", check)
	}
	text := string(render(t, FormatText, c))
	for line := range strings.Lines(text) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 100 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	for _, want := range []string{"no more than A/A", "mongo9, psmdb80 and psmdb83 compared", "A/A of mongo9", "no more than A/A at 1M"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in the text", want)
		}
	}
	golden(t, "again.text", []byte(text))
	if check := build(t, again(t, 1)).check("Noise floor"); check.Status != OK {
		t.Errorf("%+v", check)
	}
	if build(t, published(t)).measuredNoise() {
		t.Error("a noise floor that nobody measured")
	}

	for _, block := range c.planDifferenceBlocks() {
		if block.Table != nil && !strings.Contains(block.Table.Note, "~ no larger than A/A") {
			t.Errorf("the mark of noise is not explained: %+v", block)
		}
	}

	// A verdict of the interval's is not taken back, but marked.
	d := Difference{Metric: MetricThroughput, Ratio: stats.Ratio{Value: 0.98, Low: 0.97, High: 0.99}, Direction: stats.HigherIsBetter, Noise: 1.03}
	if d.Verdict() != "slower, but no more than A/A" || d.outcomeWord() != "slower" {
		t.Errorf("%q, %q", d.Verdict(), d.outcomeWord())
	}
}

// The floor is that of differences from the baseline that was measured a
// second time, and of no others; the glance lists nothing that is below it.
func TestNoiseFloorOfAnotherBaseline(t *testing.T) {
	compared := func(with string) *Comparison {
		c := &Comparison{Baseline: with, Groups: []Group{{Label: "1M"}}}
		for _, name := range []string{"mongo9", "mongo9.again", "psmdb80", "psmdb83"} {
			x := Target{Target: record.Target{Name: name}}
			switch name {
			case "mongo9.again":
				x.AAOf, x.Baseline = "mongo9", "mongo9"
			case with:
			default:
				x.Baseline = with
			}
			c.Targets = append(c.Targets, x)
			if x.Baseline != "" {
				ratio := map[string]float64{"mongo9.again": 1.2, "psmdb83": 1.1, "psmdb80": 1.3, "mongo9": 1.3}[name]
				c.Differences = append(c.Differences, Difference{
					Target: name, Baseline: x.Baseline, Metric: MetricCPUPrimary, Operation: AllOperations, Direction: stats.LowerIsBetter,
					Ratio: stats.Ratio{Value: ratio, Low: ratio * 0.99, High: ratio * 1.01},
				})
			}
		}
		(&builder{c: c}).noise()
		return c
	}
	for with, want := range map[string][]string{
		"mongo9": {"CPU per command of psmdb80 against mongo9, whether or not CPU was the limit: primary +30.0 % at 1M"},
		"psmdb80": {
			"CPU per command of mongo9 against psmdb80, whether or not CPU was the limit: primary +30.0 % at 1M",
			"CPU per command of psmdb83 against psmdb80, whether or not CPU was the limit: primary +10.0 % at 1M",
		},
	} {
		c := compared(with)
		if got := c.whyGlance().Answers; !slices.Equal(got, want) {
			t.Errorf("compared with %s: %q, want %q", with, got, want)
		}
		if c.measuredNoise() != (with == "mongo9") {
			t.Errorf("compared with %s: %+v", with, c.Differences)
		}
	}
}
