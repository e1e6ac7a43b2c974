package report

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mongo-sandbox/sandbox/internal/record"
)

// small is a sound run of two targets with two iterations of one size.
func small(t testing.TB) Input {
	return forged(t, "small", func(t testing.TB) Input {
		var f *forge
		targets := []record.Target{f.target("a", "community", "9.0", "9.0.4"), f.target("b", "community", "8.0", "8.0.34")}
		f = newForge(t, targets, []record.Size{{Documents: 1000, Label: "1k", Iterations: 2}}, 10*time.Second)
		f.window = 1
		f.run.Settings.OpsPerWorker = 500
		f.throughput = map[int64]map[string]float64{1000: {"a": 900, "b": 1000}}
		in := f.input()
		for i := range in.Cells {
			in.Cells[i].Explains = explains(explain("find", "{flight_id: {$in}}", 5, 5, 5, "FETCH", "IXSCAN flight_id_1"))
		}
		return in
	})
}

// What is damaged costs itself only, and the report names the file.
func TestDamageIsNamedAndCostsNoMore(t *testing.T) {
	const cell = "cells/b_1000_default_1_1/"
	garbage := func([]byte) []byte { return []byte("\x00garbage") }
	appended := func(line string) func([]byte) []byte {
		return func(data []byte) []byte { return append(data, line+"\n"...) }
	}
	counted := func(t *testing.T, c *Comparison, want int) {
		n := 0
		for i := range c.Cells {
			if c.Cells[i].State == StateCounted {
				n++
			}
		}
		if n != want {
			t.Errorf("%d cells count, want %d", n, want)
		}
	}
	whole := func(t *testing.T, c *Comparison) { counted(t, c, 4) }
	for name, test := range map[string]struct {
		file   string
		damage func([]byte) []byte
		names  string // what the warning names, if not the file
		check  func(*testing.T, *Comparison)
	}{
		"last line of the journal":  {"journal.ndjson", appended("garbage"), "", whole},
		"identity, with an outcome": {cell + "id.json", garbage, "", whole},
		"outcome":                   {cell + "cell.json", garbage, "", func(t *testing.T, c *Comparison) { counted(t, c, 3) }},
		"plans": {cell + "explain.json", garbage, "", func(t *testing.T, c *Comparison) {
			counted(t, c, 4)
			if len(c.Plans) != 1 || c.Plans[0].Targets[0].Samples != 2 || c.Plans[0].Targets[1].Samples != 1 {
				t.Errorf("plans: %+v", c.Plans)
			}
		}},
		"chains": {cell + "checkpoints.json", garbage, "", func(t *testing.T, c *Comparison) {
			counted(t, c, 4)
			for _, s := range c.Fairness.Sequences {
				if !s.Same || s.Commands == 0 {
					t.Errorf("the fingerprints are equal all the same: %+v", s)
				}
			}
		}},
		"seconds": {cell + "intervals.ndjson", func(data []byte) []byte { return slices.Concat([]byte("{]\nx\n"), data) }, "", func(t *testing.T, c *Comparison) {
			counted(t, c, 4)
			for _, line := range c.Timelines {
				if len(line.Points) != 10 {
					t.Errorf("%s iteration %d has %d points", line.Target, line.Iteration, len(line.Points))
				}
			}
		}},
		"windows": {cell + "windows.ndjson", appended("garbage"), "", whole},
		"histogram of a window": {
			cell + "windows.ndjson", func(data []byte) []byte {
				return bytes.Replace(data, []byte(`"histogram":"HIST`), []byte(`"histogram":"TSIH`), 3)
			},
			"windows.ndjson of b/1000/default/1: window at 0 s: find: ", whole,
		},
		"histogram of the outcome": {
			cell + "cell.json", func(data []byte) []byte {
				return bytes.Replace(data, []byte(`"histogram": "HIST`), []byte(`"histogram": "TSIH`), 1)
			}, "cell.json of b at 1000 documents: histogram of ", whole,
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := write(t, small(t))
			path := filepath.Join(dir, filepath.FromSlash(test.file))
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			damaged := test.damage(slices.Clone(data))
			if bytes.Equal(data, damaged) {
				t.Fatal("nothing was damaged")
			}
			if err := os.WriteFile(path, damaged, 0o600); err != nil {
				t.Fatal(err)
			}
			c, err := Load(dir, Options{})
			if err != nil {
				t.Fatal(err)
			}
			if test.names == "" {
				test.names = test.file
			}
			var found []string
			for _, w := range c.Warnings {
				if strings.HasPrefix(w, "damaged: ") {
					found = append(found, w)
				}
			}
			if len(found) != 1 || !strings.Contains(found[0], test.names) {
				t.Errorf("warnings %q, want one about %s", found, test.names)
			}
			test.check(t, c)
			if len(c.Differences) == 0 || !slices.ContainsFunc(c.Differences, func(d Difference) bool { return d.Metric == MetricThroughput && d.Ratio.HasInterval() }) {
				t.Error("nothing is compared any more")
			}
			for _, format := range Formats() {
				render(t, format, c)
			}
			if text := string(render(t, FormatText, c)); !strings.Contains(strings.Join(strings.Fields(text), " "), "damaged: ") {
				t.Error("the text does not say it")
			}
		})
	}
	t.Run("identity and outcome", func(t *testing.T) {
		dir := write(t, small(t))
		for _, file := range []string{"id.json", "cell.json"} {
			if err := os.WriteFile(filepath.Join(dir, filepath.FromSlash(cell), file), []byte("{"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		c, err := Load(dir, Options{})
		if err != nil {
			t.Fatal(err)
		}
		counted(t, c, 3)
		if len(c.Cells) != 3 || len(c.Missing) != 1 || !slices.ContainsFunc(c.Warnings, func(w string) bool { return strings.Contains(w, cell+"id.json") }) {
			t.Errorf("%d cells, missing %+v, warnings %q", len(c.Cells), c.Missing, c.Warnings)
		}
	})
}
