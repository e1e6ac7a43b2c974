package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/mongo-sandbox/sandbox/internal/record"
)

// parity lists the facts in which the targets, or the members of one,
// differ. Arbiters hold no data and are left out.
func (b *builder) parity() {
	facts := slices.Concat(memberFacts(), cloudFacts(), zoneFacts())
	members := make([][]*record.MemberFacts, len(b.c.Targets))
	names := map[string]bool{}
	for t := range b.c.Targets {
		for i := range b.c.Targets[t].Members {
			m := &b.c.Targets[t].Members[i]
			if m.Role == arbiter {
				continue
			}
			members[t] = append(members[t], m)
			for name := range m.Settings {
				names[name] = true
			}
		}
	}
	for _, name := range sortedKeys(names, strings.Compare) {
		f := settingFact(name)
		f.cause = b.settingCause(name, members)
		facts = append(facts, f)
	}

	add := func(name string, cause Cause, values []string) {
		known := map[int]string{} // of the targets that are compared with one another
		differs, told, compared := false, false, len(values) == 1
		for t, v := range values {
			if len(members[t]) == 0 || v == "" {
				values[t] = "unknown"
				continue
			}
			family := b.c.family(t)
			if strings.Contains(v, valueSeparator) || known[family] != "" && v != known[family] {
				differs = true
			}
			compared = compared || known[family] != ""
			known[family] = v
			told = told || v != "none"
		}
		if told && compared || differs {
			b.c.Fairness.Compared = append(b.c.Fairness.Compared, name)
		}
		if differs {
			b.c.Fairness.Parity = append(b.c.Fairness.Parity, Parity{Fact: name, Cause: cause, Values: values})
		}
	}
	distribution := make([]string, len(members))
	git := make([]string, len(members))
	count := make([]string, len(members))
	for t := range b.c.Targets {
		distribution[t], git[t] = b.c.Targets[t].Distribution, cmp.Or(short(b.c.Targets[t].GitVersion), "none")
		count[t] = fmt.Sprint(len(members[t]))
	}
	add("distribution", CauseVersion, distribution)
	add("git version", CauseVersion, git)
	add("data-bearing members", CauseEnvironment, count)
	for _, f := range facts {
		values := make([]string, len(members))
		for t := range members {
			values[t] = f.value(members[t])
		}
		add(f.name, f.cause, values)
	}
	b.definitions(add)
	b.runParity()
	slices.SortStableFunc(b.c.Fairness.Parity, func(x, y Parity) int {
		rank := func(c Cause) int {
			if c == CauseEnvironment {
				return 0
			}
			return 1
		}
		return cmp.Compare(rank(x.Cause), rank(y.Cause))
	})
}

// arbiter is the role of members that hold no data.
const arbiter = "ARBITER"

// memberFact is something that members should have in common.
type memberFact struct {
	name  string
	cause Cause
	of    func(*record.MemberFacts) string
	// untold: what no member of a target tells is not known, and no
	// difference from what another target's tell.
	untold bool
	// each: the members of a target may differ, as long as those of the others
	// do in the same way.
	each bool
}

// memberFacts are those beside the settings.
func memberFacts() []memberFact {
	return []memberFact{
		{name: "version", cause: CauseVersion, of: func(m *record.MemberFacts) string { return m.Version }},
		{name: "feature compatibility version", cause: CauseVersion, of: func(m *record.MemberFacts) string { return m.FCV }},
		{name: "operating system", cause: CauseEnvironment, of: func(m *record.MemberFacts) string { return m.Machine.OS }},
		{name: "kernel", cause: CauseEnvironment, of: func(m *record.MemberFacts) string { return m.Machine.Kernel }},
		{name: "CPU model", cause: CauseEnvironment, of: func(m *record.MemberFacts) string { return m.Machine.CPUModel }},
		{name: "CPUs", cause: CauseEnvironment, of: func(m *record.MemberFacts) string { return positive(int64(m.Machine.CPUs)) }},
		{name: "memory", cause: CauseEnvironment, of: func(m *record.MemberFacts) string { return memoryText(m.Machine) }},
	}
}

// value is that of members, or several where they differ; "" where it is not
// known.
func (f *memberFact) value(members []*record.MemberFacts) string {
	var values []string
	for _, m := range members {
		switch v := f.of(m); {
		case v == "" && f.untold:
		case f.each || !slices.Contains(values, cmp.Or(v, "none")):
			values = append(values, cmp.Or(v, "none"))
		}
	}
	slices.Sort(values)
	if f.each {
		return eachText(values)
	}
	return strings.Join(values, valueSeparator)
}

// valueSeparator stands between the values of one target's members.
const valueSeparator = " / "

// settingCause tells whom a setting belongs to. What a build is made of, a
// setting that one version does not know, and a parameter that nobody set
// (so that it is the version's default) come with the version.
func (b *builder) settingCause(name string, members [][]*record.MemberFacts) Cause {
	if strings.HasPrefix(name, "buildInfo.") {
		return CauseVersion
	}
	parameter, isParameter := strings.CutPrefix(name, "setParameter.")
	set := false
	for t := range members {
		knows := false
		for _, m := range members[t] {
			_, has := m.Settings[name]
			_, given := m.Settings["cmdLine.setParameter."+parameter]
			knows = knows || has
			set = set || given
		}
		if isParameter && !knows && len(members[t]) > 0 {
			return CauseVersion
		}
	}
	switch {
	case isParameter && !set:
		return CauseVersion
	case strings.HasPrefix(name, "memory."):
		return memoryCause(name, members)
	}
	return CauseEnvironment
}

// settingFact is a setting as a fact, without its cause. Not every version of
// the server tells how the kernel hands out memory and what the data is kept
// on, nor did earlier programs ask. Sizes are written as they are read: a file
// system's may move by a little.
func settingFact(name string) memberFact {
	f := memberFact{name: name, of: func(m *record.MemberFacts) string { return m.Settings[name] }}
	f.untold = strings.HasPrefix(name, "memory.") || strings.HasPrefix(name, "disk.")
	if name == diskCapacity {
		f.of = func(m *record.MemberFacts) string { return gibText(m.Settings[name]) }
	}
	return f
}

// memoryCause: how the kernel is to hand out memory is the server version's
// to ask for, so that targets of different major versions may differ. Members
// of one may not.
func memoryCause(name string, members [][]*record.MemberFacts) Cause {
	of := map[string]string{} // by major version
	for _, list := range members {
		for _, m := range list {
			value := m.Settings[name]
			if value == "" {
				continue // not told
			}
			if before, seen := of[series(m.Version)]; seen && before != value {
				return CauseEnvironment
			}
			of[series(m.Version)] = value
		}
	}
	return CauseVersion
}

// series is the major version of a version: 8.0 of 8.0.34-15.
func series(version string) string {
	parts := strings.SplitN(version, ".", 3)
	return strings.Join(parts[:min(len(parts), 2)], ".")
}

// memoryText is a machine's memory: equal ones report a few MB apart.
func memoryText(m record.MachineFacts) string {
	if m.MemoryMB == 0 {
		return ""
	}
	return fmt.Sprintf("%.1f GiB", float64(m.MemoryMB)/1024)
}

func positive(n int64) string {
	if n <= 0 {
		return ""
	}
	return fmt.Sprint(n)
}
