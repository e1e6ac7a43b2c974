package report

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"golang.org/x/perf/benchfmt"
)

// benchResults reads a report as benchstat does.
func benchResults(t *testing.T, c *Comparison) ([]*benchfmt.Result, benchfmt.UnitMetadataMap) {
	t.Helper()
	reader := benchfmt.NewReader(bytes.NewReader(render(t, FormatBench, c)), "report")
	var out []*benchfmt.Result
	for reader.Scan() {
		switch x := reader.Result().(type) {
		case *benchfmt.Result:
			out = append(out, x.Clone())
		case *benchfmt.SyntaxError:
			t.Errorf("%v", x)
		}
	}
	if err := reader.Err(); err != nil {
		t.Fatal(err)
	}
	return out, reader.Units()
}

func TestBenchstatReadsIt(t *testing.T) {
	for _, s := range scenarios(t) {
		c := compared(t, s.name)
		results, units := benchResults(t, c)
		want := map[string]int{} // by target
		for i := range c.Cells {
			if x := &c.Cells[i]; x.State == StateCounted {
				want[x.Target] += 1 + len(x.Result.Operations)
			}
		}
		got := map[string]int{}
		var config string // all but the target
		for _, r := range results {
			got[r.GetConfig("target")]++
			var rest []string
			for _, kv := range r.Config {
				if kv.Key != "target" && kv.File {
					rest = append(rest, kv.Key+": "+string(kv.Value))
				}
			}
			if text := strings.Join(rest, "\n"); config == "" {
				config = text
			} else if text != config {
				t.Errorf("%s: the targets have different configurations, which benchstat would put into different tables:\n%s\n%s", s.name, config, text)
			}
			base, parts := r.Name.Parts()
			if string(base) != "Flights" || len(parts) != 2 || !bytes.HasPrefix(parts[0], []byte("/size=")) || !bytes.HasPrefix(parts[1], []byte("/operation=")) {
				t.Errorf("%s: name %s", s.name, r.Name)
			}
			for _, v := range r.Values {
				if !(v.Value > 0) || math.IsInf(v.Value, 0) {
					t.Errorf("%s: %s is %v %s", s.name, r.Name, v.Value, v.Unit)
				}
				if better := units.Get(v.Unit, "better"); better == nil || better.Value != map[bool]string{true: "higher", false: "lower"}[v.Unit == "cmd/s"] {
					t.Errorf("%s: better=%v for %s", s.name, better, v.Unit)
				}
			}
		}
		for target, n := range want {
			if got[target] != n {
				t.Errorf("%s: %d lines of %s, want %d", s.name, got[target], target, n)
			}
		}
		if len(got) != len(want) {
			t.Errorf("%s: lines of %v, want %v", s.name, got, want)
		}
		if !strings.Contains(config, "seed: 178477") || c.Embedded() != strings.Contains(config, "warning: EMBEDDED") {
			t.Errorf("%s: configuration\n%s", s.name, config)
		}
	}
}

func TestBenchstatValues(t *testing.T) {
	c := compared(t, "published")
	results, _ := benchResults(t, c)
	i := 0
	for k := range c.Cells { // those of mongo9 come first, sizes as in the run
		x := &c.Cells[k]
		if x.Target != "mongo9" || x.Size != 1_000_000 {
			continue
		}
		r := results[i]
		i += 1 + len(x.Result.Operations)
		for unit, want := range map[string]float64{
			"cmd/s": x.Result.ThroughputPerS, "sec/op": x.Result.LatencyMS.Mean / 1e3, "p99.9-sec/op": x.Result.LatencyMS.P999 / 1e3,
			"primary-cpu-sec/op": x.Result.CPUUSPerCommand.Primary / 1e6,
		} {
			if got, ok := r.Value(unit); !ok || math.Abs(got/want-1) > 1e-5 {
				t.Errorf("iteration %d: %v %s (%v), want %v", x.Iteration, got, unit, ok, want)
			}
		}
		if r.Iters != int(x.Result.Commands) || string(r.Name.Full()) != "Flights/size=1M/operation=all" {
			t.Errorf("%s %d", r.Name, r.Iters)
		}
	}
	if i != 3*(1+len(mixShares)) {
		t.Errorf("%d lines", i)
	}
}
