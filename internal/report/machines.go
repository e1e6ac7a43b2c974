package report

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/mongo-sandbox/sandbox/internal/record"
)

// cloudFacts are what a platform made alike, as it should. Members of others,
// and earlier records, do not tell.
func cloudFacts() []memberFact {
	return []memberFact{
		{name: "machine type", cause: CauseEnvironment, untold: true, of: func(m *record.MemberFacts) string { return m.Cloud.MachineType }},
		{name: "CPU platform", cause: CauseEnvironment, untold: true, of: func(m *record.MemberFacts) string { return m.Cloud.CPUPlatform }},
		{name: "data disk", cause: CauseEnvironment, untold: true, of: diskText},
	}
}

// zoneFacts are where the machines are. Members of one target may be in
// several zones; those of another should be in as many of the same, or their
// ways to the load host and to one another differ.
func zoneFacts() []memberFact {
	return []memberFact{
		{name: "zones", cause: CauseEnvironment, untold: true, each: true, of: func(m *record.MemberFacts) string { return m.Cloud.Zone }},
	}
}

// checkPrimaries says when the targets' primaries were in different zones: an
// election decides that, and may do so again.
func (b *builder) checkPrimaries(add addCheck) {
	in := map[int]string{} // zones by family
	var where []string
	differ := false
	for t := range b.c.Targets {
		for _, m := range dataBearing(&b.c.Targets[t].Target) {
			if m.Role != "PRIMARY" || m.Cloud.Zone == "" || b.c.Targets[t].AAOf != "" {
				continue
			}
			family := b.c.family(t)
			differ = differ || in[family] != "" && in[family] != m.Cloud.Zone
			in[family] = m.Cloud.Zone
			where = append(where, b.c.Targets[t].Name+" in "+m.Cloud.Zone)
		}
	}
	if differ {
		add("Primaries", Caution, "the primaries were in different zones when the run began, %s: their ways to the load host differ", list(where))
	}
}

// diskText is the disk that holds a member's data.
func diskText(m *record.MemberFacts) string {
	if m.Cloud.DiskGB <= 0 {
		return m.Cloud.DiskType
	}
	return strings.TrimSpace(fmt.Sprintf("%s %d GB", m.Cloud.DiskType, m.Cloud.DiskGB))
}

// diskCapacity is the setting with the size of the file system, in bytes.
const diskCapacity = "disk.capacity_bytes"

// gibText writes a setting in bytes; "" when it is none.
func gibText(setting string) string {
	n, err := strconv.ParseFloat(setting, 64)
	if err != nil {
		return ""
	}
	return fmt.Sprintf("%.1f GiB", n/(1<<30))
}

// fileSystemText is what the data is kept on, as the server sees it.
func fileSystemText(m *record.MemberFacts) string {
	text := m.Settings["disk.file_system"]
	if size := gibText(m.Settings[diskCapacity]); size != "" {
		text += " of " + size
	}
	if options := m.Settings["disk.mount_options"]; options != "" {
		text += ", mounted " + options
	}
	return strings.TrimPrefix(strings.TrimPrefix(text, " of "), ", ")
}

// eachText writes sorted values with how often each is there: 2 x a, b.
func eachText(values []string) string {
	var parts []string
	for _, v := range slices.Compact(slices.Clone(values)) {
		n := 0
		for _, x := range values {
			if x == v {
				n++
			}
		}
		if n > 1 {
			v = fmt.Sprintf("%d x %s", n, v)
		}
		parts = append(parts, v)
	}
	return strings.Join(parts, ", ")
}

// machineFact is a row of the machineTable.
type machineFact struct {
	head string
	of   func(*record.MemberFacts) string
}

// machineTable is what the data-bearing members run on, also where it is
// equal: a row for every fact that a member tells, and a column for all
// targets where they have the same.
func (c *Comparison) machineTable() *sheet {
	facts := []machineFact{
		{"machine type", func(m *record.MemberFacts) string { return m.Cloud.MachineType }},
		{"zone", func(m *record.MemberFacts) string { return m.Cloud.Zone }},
		{"CPUs", func(m *record.MemberFacts) string { return positive(int64(m.Machine.CPUs)) }},
		{"CPU model", func(m *record.MemberFacts) string { return m.Machine.CPUModel }},
		{"CPU platform", func(m *record.MemberFacts) string { return m.Cloud.CPUPlatform }},
		{"memory", func(m *record.MemberFacts) string { return memoryText(m.Machine) }},
		{"cache", func(m *record.MemberFacts) string {
			return gibText(m.Settings[cacheSetting])
		}},
		{"data disk", diskText},
		{"file system", fileSystemText},
		{"operating system", func(m *record.MemberFacts) string { return m.Machine.OS }},
		{"kernel", func(m *record.MemberFacts) string { return m.Machine.Kernel }},
	}
	if c.pool != nil { // which may be in any
		facts = slices.DeleteFunc(facts, func(f machineFact) bool { return f.head == "zone" })
	}
	t := &sheet{Caption: "What the members run on", Columns: []column{{Head: "fact"}}}
	var told []int               // targets whose members tell anything
	values := map[int][]string{} // by target, one per fact
	several := false
	for i := range c.Targets {
		known := false
		for _, f := range facts {
			var distinct []string
			for _, m := range dataBearing(&c.Targets[i].Target) {
				if v := f.of(m); v != "" && !slices.Contains(distinct, v) {
					distinct = append(distinct, v)
				}
			}
			known = known || len(distinct) > 0
			several = several || len(distinct) > 1
			values[i] = append(values[i], strings.Join(distinct, valueSeparator))
		}
		if known {
			told = append(told, i)
		}
	}
	columns := told
	alike := len(told) > 1 && len(told) == len(c.Targets) &&
		!slices.ContainsFunc(told, func(i int) bool { return !slices.Equal(values[i], values[told[0]]) })
	if alike {
		columns = told[:1]
		t.Columns = append(t.Columns, column{Head: "members of all targets", Wrap: true})
	} else {
		for _, i := range told {
			t.Columns = append(t.Columns, column{Head: c.Targets[i].Name, Wrap: true})
		}
	}
	cache := false
	for k, f := range facts {
		r := row{Cells: []cell{{Text: f.head}}}
		known := false
		for _, i := range columns {
			known = known || values[i][k] != ""
			x := cell{Text: cmp.Or(values[i][k], none)}
			if values[i][k] == "" {
				x = noCell()
			}
			r.Cells = append(r.Cells, x)
		}
		if known {
			t.Rows = append(t.Rows, r)
			cache = cache || f.head == "cache"
		}
	}
	var notes []string
	if c.pool != nil {
		notes = append(notes, fmt.Sprintf("Of run %s; what the others tell is the same, but for their zones.", c.Runs[0].Label))
	}
	if several {
		notes = append(notes, "Each member's own: several values where those of a target differ.")
	}
	if cache {
		notes = append(notes, "Cache: what the storage engine is given.")
	}
	t.Note = strings.Join(notes, " ")
	return t
}

// jsonTargetMember: cloud is absent unless the platform made the machine.
type jsonTargetMember struct {
	Name    string              `json:"name"`
	Role    string              `json:"role"`
	Machine record.MachineFacts `json:"machine"`
	Cloud   *record.CloudFacts  `json:"cloud,omitempty"`
}

func newJSONTargetMembers(t *Target) []jsonTargetMember {
	var out []jsonTargetMember
	for i := range t.Members {
		m := &t.Members[i]
		x := jsonTargetMember{Name: m.Name, Role: m.Role, Machine: m.Machine}
		if m.Cloud != (record.CloudFacts{}) {
			x.Cloud = &m.Cloud
		}
		out = append(out, x)
	}
	return out
}
