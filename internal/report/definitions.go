package report

import (
	"fmt"
	"slices"
	"strings"
)

// definitions compares how the members define the collections and indexes
// that all were given by the same commands: members of one target may not
// differ, and what differs between targets is their versions'.
func (b *builder) definitions(add func(name string, cause Cause, values []string)) {
	facts := map[string][][]string{} // distinct values by fact and target
	told := make([]bool, len(b.c.Targets))
	b.eachCounted(func(_, t int, in *CellInput) {
		for _, d := range in.Cell.Definitions {
			told[t] = true
			for name := range d.Facts {
				if facts[name] == nil {
					facts[name] = make([][]string, len(b.c.Targets))
				}
			}
		}
	})
	b.eachCounted(func(_, t int, in *CellInput) {
		for _, d := range in.Cell.Definitions {
			for name, values := range facts {
				v := d.Facts[name]
				if v == "" {
					v = "none"
				}
				if !slices.Contains(values[t], v) {
					values[t] = append(values[t], v)
				}
			}
		}
	})
	for _, name := range sortedKeys(facts, strings.Compare) {
		cause := CauseVersion
		values := make([]string, len(b.c.Targets))
		for t := range values {
			if !told[t] {
				continue // an older record: it may be as any
			}
			slices.Sort(facts[name][t])
			if len(facts[name][t]) > 1 {
				cause = CauseEnvironment
			}
			values[t] = strings.Join(facts[name][t], valueSeparator)
		}
		add(name, cause, values)
	}
}

// comparedText says how many facts of which kind were compared.
func (f *Fairness) comparedText() string {
	kinds := []struct{ prefix, one, many string }{
		{"setParameter.", "parameter", "parameters"}, {"cmdLine.", "option", "options"}, {"default.", "default of reads and writes", "defaults of reads and writes"},
		{"disk.", "of the disk", "of the disk"}, {"memory.", "of how the kernel hands out memory", "of how the kernel hands out memory"},
		{"collection ", "collection", "collections"}, {"index ", "index", "indexes"},
	}
	counts := make([]int, len(kinds))
	rest := 0
	for _, name := range f.Compared {
		if i := slices.IndexFunc(kinds, func(k struct{ prefix, one, many string }) bool { return strings.HasPrefix(name, k.prefix) }); i >= 0 {
			counts[i]++
		} else {
			rest++
		}
	}
	parts := []string{fmt.Sprintf("%d of machine, build and storage engine", rest)}
	for i, n := range counts {
		if n > 0 {
			parts = append(parts, plural(n, kinds[i].one, kinds[i].many))
		}
	}
	return strings.Join(parts, ", ")
}
