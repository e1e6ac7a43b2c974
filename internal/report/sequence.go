package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/mongo-sandbox/sandbox/internal/record"
)

// sequences finds out whether the targets were sent the same commands, and
// refuses to put side by side those that were not.
func (b *builder) sequences() {
	for g := range b.c.Groups {
		last := 0
		for _, cells := range b.counted[g] {
			for _, in := range cells {
				last = max(last, in.ID.Iteration)
			}
		}
		for iteration := 1; iteration <= last; iteration++ {
			b.sequence(g, iteration)
		}
		for i := range b.c.Cells {
			c := &b.c.Cells[i]
			if c.State != StateCounted || b.c.groupOf(c.Size, c.Variant) != g {
				continue
			}
			if refused := b.c.Groups[g].Summaries[b.c.target(c.Target)].Refused; refused != "" {
				c.State, c.Reason = StateRefused, refused
			}
		}
	}
}

func (b *builder) sequence(g, iteration int) {
	at := make([]*CellInput, len(b.c.Targets))
	present := 0
	for t, cells := range b.counted[g] {
		for _, in := range cells {
			if in.ID.Iteration == iteration {
				at[t] = in
				present++
			}
		}
	}
	if present < 2 {
		return
	}
	reference := b.c.target(b.c.Baseline)
	if at[reference] == nil {
		reference = slices.IndexFunc(at, func(in *CellInput) bool { return in != nil })
	}
	s := Sequence{Group: g, Iteration: iteration, Same: true}
	refuse := func(t int, reason string) {
		s.Same = false
		s.Problem = joinReasons(s.Problem, b.c.Targets[t].Name+": "+reason)
		summary := &b.c.Groups[g].Summaries[t]
		summary.Refused = cmp.Or(summary.Refused, reason)
	}
	first := at[reference]
	var chains []record.Checkpoints
	alike := []*CellInput{first}
	for t, in := range at {
		if in == nil || t == reference {
			continue
		}
		if in.Cell.SequenceID != first.Cell.SequenceID {
			refuse(t, fmt.Sprintf("its commands are of another sequence than those of %s (%s)",
				b.c.Targets[reference].Name, b.sequenceSettings(first, in)))
			continue
		}
		pair := b.chains(first, in)
		if problem := firstDifference(pair[0], pair[1]); problem != "" {
			refuse(t, fmt.Sprintf("its commands differ from those of %s %s", b.c.Targets[reference].Name, problem))
			continue
		}
		if len(chains) == 0 {
			chains = append(chains, pair[0])
		}
		chains = append(chains, pair[1])
		a, c := first.Cell, in.Cell
		if a.FingerprintCommands == c.FingerprintCommands && a.Fingerprint != c.Fingerprint {
			refuse(t, fmt.Sprintf("its fingerprint over %s commands per worker differs from that of %s",
				thousands(a.FingerprintCommands), b.c.Targets[reference].Name))
			continue
		}
		alike = append(alike, in)
	}
	if len(alike) > 1 {
		s.Commands = commonCommands(chains)
		equal := !slices.ContainsFunc(alike, func(in *CellInput) bool {
			return in.Cell.Fingerprint != first.Cell.Fingerprint || in.Cell.FingerprintCommands != first.Cell.FingerprintCommands
		})
		if equal && first.Cell.Fingerprint != "" {
			s.Fingerprint = first.Cell.Fingerprint
			s.Commands = max(s.Commands, first.Cell.FingerprintCommands*int64(b.settings(first).Workers))
		}
		if s.Commands == 0 && s.Problem == "" {
			s.Problem = "nothing proven: too few commands per worker for a checkpoint on every target"
		}
	}
	b.c.Fairness.Sequences = append(b.c.Fairness.Sequences, s)
}

func joinReasons(a, b string) string {
	if a == "" {
		return b
	}
	return a + "; " + b
}

func (b *builder) settings(in *CellInput) *record.Settings {
	if in.Settings != nil {
		return in.Settings
	}
	return &b.c.Run.Settings
}

func (b *builder) chains(cells ...*CellInput) []record.Checkpoints {
	out := make([]record.Checkpoints, len(cells))
	for i, in := range cells {
		if in.Checkpoints == nil {
			continue
		}
		var err error
		if out[i], err = in.Checkpoints(); err != nil {
			b.damage.note(err.Error(), "the cell's commands are compared by its fingerprint only")
		}
	}
	return out
}

// sequenceSettings says which setting makes two sequences different.
func (b *builder) sequenceSettings(x, y *CellInput) string {
	differences := sequenceDifferences(b.settings(x), b.settings(y))
	if a, c := x.Cell.Seeding.Documents, y.Cell.Seeding.Documents; a != c {
		differences = append(differences, fmt.Sprintf("seeded documents: %s and %s", thousands(a), thousands(c)))
	}
	if len(differences) == 0 {
		return "the recorded settings are equal, so the program that made the commands was not the same"
	}
	return strings.Join(differences, ", ")
}

// sequenceDifferences names the settings that define a command sequence and
// differ between a and b, as "seed: 1 and 2".
func sequenceDifferences(a, b *record.Settings) []string {
	var out []string
	note := func(name string, x, y any) {
		if x != y {
			out = append(out, fmt.Sprintf("%s: %v and %v", name, x, y))
		}
	}
	note("workload", a.Workload, b.Workload)
	note("seed", a.Seed, b.Seed)
	note("workers", a.Workers, b.Workers)
	note("ops-per-worker", a.OpsPerWorker, b.OpsPerWorker)
	note("mix", mixText(a.Mix), mixText(b.Mix))
	note("insert-batch", a.InsertBatch, b.InsertBatch)
	note("find-batch", a.FindBatch, b.FindBatch)
	note("find-limit", a.FindLimit, b.FindLimit)
	return out
}

// firstDifference says where two chains part, or "" when their common prefix
// is equal. A chain's state depends on all before it, so the last common
// checkpoint decides.
func firstDifference(a, b record.Checkpoints) string {
	if len(a.Workers) == 0 || len(b.Workers) == 0 {
		return ""
	}
	if a.Every != b.Every {
		return fmt.Sprintf("or cannot be compared: checkpoints every %d and every %d commands", a.Every, b.Every)
	}
	if len(a.Workers) != len(b.Workers) {
		return fmt.Sprintf("in the number of workers, %d and %d", len(a.Workers), len(b.Workers))
	}
	for w := range a.Workers {
		x, y := a.Workers[w], b.Workers[w]
		n := min(len(x), len(y))
		if n == 0 || x[n-1] == y[n-1] {
			continue
		}
		i := 0
		for x[i] == y[i] {
			i++
		}
		return fmt.Sprintf("from worker %d, commands %s to %s, on", w, thousands(int64(i)*a.Every+1), thousands(int64(i+1)*a.Every))
	}
	return ""
}

// commonCommands is the length of the checkpointed prefix that all share.
func commonCommands(chains []record.Checkpoints) (total int64) {
	if len(chains) == 0 {
		return 0
	}
	for w := range chains[0].Workers {
		common := len(chains[0].Workers[w])
		for _, c := range chains[1:] {
			if w >= len(c.Workers) {
				return 0
			}
			common = min(common, len(c.Workers[w]))
		}
		total += int64(common) * chains[0].Every
	}
	return total
}
