package report

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/mongo-sandbox/sandbox/internal/record"
)

// withCloud changes a copy of the members of a run's targets.
func withCloud(in Input, change func(target string, member int, m *record.MemberFacts)) Input {
	in.Run.Targets = slices.Clone(in.Run.Targets)
	for t := range in.Run.Targets {
		x := &in.Run.Targets[t]
		x.Members = slices.Clone(x.Members)
		for i := range x.Members {
			change(x.Name, i, &x.Members[i])
		}
	}
	return in
}

func zone(i int) string { return fmt.Sprintf("z-%c", 'a'+rune(i%3)) }

// What the platform made is under the parity gate: a difference is the
// environment's. Zones are compared as a whole: members of one target may be in
// several.
func TestParityOfMachines(t *testing.T) {
	for name, test := range map[string]struct {
		change func(target string, member int, m *record.MemberFacts)
		want   []string // facts and their values
	}{
		"alike": {func(string, int, *record.MemberFacts) {}, nil},
		"another machine type": {
			func(target string, _ int, m *record.MemberFacts) {
				if target == "b" {
					m.Cloud.MachineType = "n2-standard-8"
				}
			},
			[]string{"machine type: n2-standard-4, n2-standard-8"},
		},
		"one larger disk": {
			func(target string, member int, m *record.MemberFacts) {
				if target == "b" && member == 1 {
					m.Cloud.DiskGB = 200
				}
			},
			[]string{"data disk: pd-ssd 80 GB, pd-ssd 200 GB / pd-ssd 80 GB"},
		},
		"another kind of disk and CPU platform": {
			func(target string, _ int, m *record.MemberFacts) {
				if target == "a" {
					m.Cloud.DiskType, m.Cloud.CPUPlatform = "pd-balanced", "Intel Cascade Lake"
				}
			},
			[]string{"CPU platform: Intel Cascade Lake, Intel Ice Lake", "data disk: pd-balanced 80 GB, pd-ssd 80 GB"},
		},
		"spread alike": {func(_ string, member int, m *record.MemberFacts) { m.Cloud.Zone = zone(member) }, nil},
		"spread otherwise": {
			func(target string, member int, m *record.MemberFacts) {
				if m.Cloud.Zone = zone(member); target == "b" && member == 2 {
					m.Cloud.Zone = zone(1)
				}
			},
			[]string{"zones: z-a, z-b, z-c, z-a, 2 x z-b"},
		},
		"spread alike, the primaries apart": {
			func(target string, member int, m *record.MemberFacts) {
				m.Cloud.Zone, m.Role = zone(member), "SECONDARY"
				if member == map[string]int{"a": 0, "b": 1}[target] {
					m.Role = "PRIMARY"
				}
			},
			nil, // a limit of its own
		},
		"one does not tell": {
			func(target string, _ int, m *record.MemberFacts) {
				if target == "b" {
					m.Cloud = record.CloudFacts{}
				}
			},
			nil,
		},
		"none tells": {func(_ string, _ int, m *record.MemberFacts) { m.Cloud = record.CloudFacts{} }, nil},
		"an arbiter has another machine": {
			func(_ string, member int, m *record.MemberFacts) {
				if member == 2 {
					m.Role, m.Cloud = "ARBITER", record.CloudFacts{MachineType: "e2-micro", Zone: "z-x"}
				}
			},
			nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := build(t, withCloud(small(t), test.change))
			var got []string
			for _, p := range c.Fairness.Parity {
				if p.Cause == CauseEnvironment {
					got = append(got, p.Fact+": "+strings.Join(p.Values, ", "))
				}
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("%q, want %q", got, test.want)
			}
			apart := slices.ContainsFunc(c.Fairness.Checks, func(x Check) bool {
				return x.Name == "Primaries" && x.Status == Caution && strings.Contains(x.Text, "a in z-a and b in z-b")
			})
			if apart != strings.HasSuffix(name, "the primaries apart") {
				t.Errorf("%+v", c.Fairness.Checks)
			}
			if check := c.check("Environment"); (check.Status == Unfair) != (len(test.want) > 0) {
				t.Errorf("%+v", check)
			}
		})
	}
}

// The table has the facts that a member tells, and one column where all
// targets have the same.
func TestMachineTable(t *testing.T) {
	table := func(change func(target string, member int, m *record.MemberFacts)) (heads, rows []string, note string) {
		x := build(t, withCloud(small(t), change)).machineTable()
		for _, c := range x.Columns {
			heads = append(heads, c.Head)
		}
		for _, r := range x.Rows {
			text := r.Cells[0].Text + ":"
			for _, c := range r.Cells[1:] {
				text += " " + c.Text
			}
			rows = append(rows, text)
		}
		return heads, rows, x.Note
	}
	heads, rows, note := table(func(string, int, *record.MemberFacts) {})
	if !slices.Equal(heads, []string{"fact", "members of all targets"}) || note != "Cache: what the storage engine is given." {
		t.Errorf("%q, %q", heads, note)
	}
	for _, want := range []string{"machine type: n2-standard-4", "zone: northamerica-northeast1-a", "data disk: pd-ssd 80 GB", "CPUs: 4", "file system: xfs of 80.0 GiB, mounted noatime,rw"} {
		if !slices.Contains(rows, want) {
			t.Errorf("%q is not in %q", want, rows)
		}
	}
	heads, rows, _ = table(func(target string, member int, m *record.MemberFacts) {
		m.Cloud.DiskType, m.Cloud.DiskGB, m.Cloud.CPUPlatform = "", 0, ""
		if m.Cloud.Zone = zone(member); target == "b" {
			m.Cloud.MachineType, m.Settings = "", nil
		}
	})
	if !slices.Equal(heads, []string{"fact", "a", "b"}) {
		t.Errorf("%q", heads)
	}
	for _, want := range []string{"machine type: n2-standard-4 -", "zone: z-a / z-b / z-c z-a / z-b / z-c"} {
		if !slices.Contains(rows, want) {
			t.Errorf("%q is not in %q", want, rows)
		}
	}
	if slices.ContainsFunc(rows, func(s string) bool { return strings.HasPrefix(s, "data disk") || strings.HasPrefix(s, "CPU platform") }) {
		t.Errorf("nobody told of disks and platforms: %q", rows)
	}
	_, rows, note = table(func(_ string, member int, m *record.MemberFacts) { m.Cloud.Zone, m.Settings = zone(member), nil })
	if !strings.HasPrefix(note, "Each member's own") || strings.Contains(note, "Cache") {
		t.Errorf("%q under %q", note, rows)
	}
	if _, rows, _ = table(func(_ string, _ int, m *record.MemberFacts) { *m = record.MemberFacts{Name: m.Name} }); len(rows) > 0 {
		t.Errorf("%q of members that tell nothing", rows)
	}
}

// Placements of a pool may be in different zones; their machines are to be
// equal, as far as both tell.
func TestPoolOfUnequalMachines(t *testing.T) {
	for name, test := range map[string]struct {
		change func(string, int, *record.MemberFacts)
		reason string
	}{
		"another zone":         {func(_ string, _ int, m *record.MemberFacts) { m.Cloud.Zone = "z-b" }, ""},
		"an earlier record":    {func(_ string, _ int, m *record.MemberFacts) { m.Cloud = record.CloudFacts{} }, ""},
		"another machine type": {func(_ string, _ int, m *record.MemberFacts) { m.Cloud.MachineType = "n2-standard-8" }, "machine type of a: n2-standard-4 in one, n2-standard-8 in two"},
		"another disk":         {func(_ string, _ int, m *record.MemberFacts) { m.Cloud.DiskGB = 100 }, "data disk of a: pd-ssd 80 GB in one, pd-ssd 100 GB in two"},
	} {
		_, reason := poolable([]Input{placementRun(t, 0, 0.01), withCloud(placementRun(t, 1, 0.01), test.change)}, []string{"one", "two"})
		if reason != test.reason {
			t.Errorf("%s: %q, want %q", name, reason, test.reason)
		}
	}
}
