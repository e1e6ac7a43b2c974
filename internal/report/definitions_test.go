package report

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/mongo-sandbox/sandbox/internal/record"
)

func parityOf(c *Comparison, fact string) *Parity {
	i := slices.IndexFunc(c.Fairness.Parity, func(p Parity) bool { return p.Fact == fact })
	if i < 0 {
		return nil
	}
	return &c.Fairness.Parity[i]
}

func TestDefinitionsAreCompared(t *testing.T) {
	const index = "index flights.status_1"
	other := func(members []string, value string) record.Definitions {
		facts := map[string]string{"collection flights": "{}"}
		if value != "" {
			facts[index] = value
		}
		return record.Definitions{Members: members, Facts: facts}
	}
	for name, test := range map[string]struct {
		of    []record.Definitions // psmdb83's
		cause Cause
		value string
	}{
		"another definition":        {[]record.Definitions{other([]string{"a", "b", "c"}, "x")}, CauseVersion, "x"},
		"no such index":             {[]record.Definitions{other([]string{"a", "b", "c"}, "")}, CauseVersion, "none"},
		"members of a target apart": {[]record.Definitions{other([]string{"a", "b"}, "x"), other([]string{"c"}, "y")}, CauseEnvironment, "x / y"},
		"not told":                  {nil, "", ""},
	} {
		in := published(t)
		for i := range in.Cells {
			if in.Cells[i].ID.Target == "psmdb83" {
				in.Cells[i].Cell.Definitions = test.of
			}
		}
		c := build(t, bare(in))
		p := parityOf(c, index)
		switch {
		case test.cause == "":
			if p != nil || !slices.Contains(c.Fairness.Compared, index) {
				t.Errorf("%s: %+v", name, p)
			}
		case p == nil || p.Cause != test.cause || p.Values[2] != test.value:
			t.Errorf("%s: %+v", name, p)
		}
		if unfair := c.check("Environment").Status == Unfair; unfair != (test.cause == CauseEnvironment) {
			t.Errorf("%s: %+v", name, c.check("Environment"))
		}
	}
}

// How the kernel hands out memory follows the server's version; the disk
// does not.
func TestMemoryAndDiskParity(t *testing.T) {
	for name, test := range map[string]struct {
		target, member int
		fact, value    string
		cause          Cause
	}{
		"THP of another version":       {1, -1, "memory.thp_enabled", "never", CauseVersion},
		"a version that tells nothing": {1, -1, "memory.thp_enabled", "", ""},
		"a member that tells nothing":  {1, 1, "disk.capacity_bytes", "", ""},
		"a little more":                {1, 1, "disk.capacity_bytes", "85857402881", ""},
		"THP of one member":            {1, 2, "memory.thp_enabled", "never", CauseEnvironment},
		"a smaller disk":               {1, -1, "disk.capacity_bytes", "1", CauseEnvironment},
		"a disk that is not told":      {1, -1, "disk.capacity_bytes", "", ""},
		"another file system":          {2, 1, "disk.file_system", "ext4", CauseEnvironment},
	} {
		in := published(t)
		in.Run.Targets = slices.Clone(in.Run.Targets)
		x := &in.Run.Targets[test.target]
		x.Members = slices.Clone(x.Members)
		for k := range x.Members {
			if test.member >= 0 && k != test.member {
				continue
			}
			settings := map[string]string{}
			for name, v := range x.Members[k].Settings {
				settings[name] = v
			}
			settings[test.fact] = test.value
			x.Members[k].Settings = settings
		}
		if p := parityOf(build(t, bare(in)), test.fact); (p == nil) != (test.cause == "") || p != nil && p.Cause != test.cause {
			t.Errorf("%s: %+v", name, p)
		}
	}
	// Targets of one major version may not differ in it.
	in := published(t)
	in.Run.Targets = slices.Clone(in.Run.Targets)
	x := &in.Run.Targets[1]
	x.Members = slices.Clone(x.Members)
	for k := range x.Members {
		x.Members[k].Version = "9.0.1-1"
		x.Members[k].Settings = map[string]string{"memory.thp_enabled": "never"}
	}
	if p := parityOf(build(t, bare(in)), "memory.thp_enabled"); p == nil || p.Cause != CauseEnvironment {
		t.Errorf("two of 9.0: %+v", p)
	}
}

// What only one of the targets tells has been compared with nothing.
func TestFactsThatOneTargetTells(t *testing.T) {
	const index = "index flights.status_1"
	compared := func(silent ...string) []string {
		in := published(t)
		in.Run.Targets = slices.Clone(in.Run.Targets)
		for i := range in.Run.Targets {
			if slices.Contains(silent, in.Run.Targets[i].Name) {
				in.Run.Targets[i].Members = slices.Clone(in.Run.Targets[i].Members)
				for k := range in.Run.Targets[i].Members {
					in.Run.Targets[i].Members[k].Cloud = record.CloudFacts{}
				}
			}
		}
		for i := range in.Cells {
			if slices.Contains(silent, in.Cells[i].ID.Target) {
				in.Cells[i].Cell.Definitions = nil
			}
		}
		c := build(t, bare(in))
		if check := c.check("Environment"); check.Status != OK {
			t.Errorf("%q do not tell: %+v", silent, check)
		}
		return c.Fairness.Compared
	}
	for _, fact := range []string{index, "machine type", "zones", "data disk"} {
		if !slices.Contains(compared("psmdb80"), fact) {
			t.Errorf("%s of two targets was not compared", fact)
		}
		if slices.Contains(compared("psmdb80", "mongo9"), fact) {
			t.Errorf("%s of one target was compared", fact)
		}
	}
}

func TestEnvironmentSaysWhatItCovered(t *testing.T) {
	x := build(t, bare(published(t))).check("Environment")
	for _, want := range []string{"facts (", "3 parameters", "3 of the disk", "2 indexes", "5 differ with the versions"} {
		if x.Status != OK || !strings.Contains(x.Text, want) {
			t.Errorf("%q is not in %+v", want, x)
		}
	}
}

// An earlier program did not ask how the kernel hands out memory, nor what the
// data is kept on: a comparison with its record finds no difference in that.
func TestOlderRecordTellsLess(t *testing.T) {
	older, newer := placementRun(t, 0, 0), placementRun(t, 1, 0)
	for i := range older.Run.Targets {
		for _, m := range older.Run.Targets[i].Members {
			maps.DeleteFunc(m.Settings, func(name, _ string) bool {
				return strings.HasPrefix(name, "memory.") || strings.HasPrefix(name, "disk.")
			})
		}
	}
	joined, err := Join([]Input{older, newer}, nil)
	if err != nil {
		t.Fatal(err)
	}
	c := build(t, joined)
	for _, p := range c.Fairness.Parity {
		if strings.HasPrefix(p.Fact, "memory.") || strings.HasPrefix(p.Fact, "disk.") {
			t.Errorf("%+v", p)
		}
	}
	if x := c.check("Environment"); x.Status != OK {
		t.Errorf("%+v", x)
	}
}
