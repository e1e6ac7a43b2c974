package report

import (
	"cmp"
	"fmt"
	"math"
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
		a, c := first.Cell, in.Cell
		if a.FingerprintCommands == c.FingerprintCommands && a.Fingerprint != c.Fingerprint {
			refuse(t, fmt.Sprintf("its fingerprint over %s commands per worker differs from that of %s",
				thousands(a.FingerprintCommands), b.c.Targets[reference].Name))
			continue
		}
		if len(chains) == 0 {
			chains = append(chains, pair[0])
		}
		chains = append(chains, pair[1])
		alike = append(alike, in)
	}
	if len(alike) > 1 {
		s.Commands, s.PerWorker, s.Fingerprint = proven(chains, first.Cell.SequenceID)
		equal := !slices.ContainsFunc(alike, func(in *CellInput) bool {
			return in.Cell.Fingerprint != first.Cell.Fingerprint || in.Cell.FingerprintCommands != first.Cell.FingerprintCommands
		})
		if n := first.Cell.FingerprintCommands; equal && first.Cell.Fingerprint != "" && n >= s.PerWorker {
			s.PerWorker, s.Fingerprint = n, first.Cell.Fingerprint
			s.Commands = max(s.Commands, n*int64(b.settings(first).Workers))
		}
		if s.Commands == 0 && s.Problem == "" {
			s.Problem = "nothing proven: too few commands per worker on some target"
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
// is equal. A chain's state depends on all before it, so the last state that
// both have kept decides.
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
	both := []record.Checkpoints{a, b}
	for w := range a.Workers {
		end := commonPrefix(w, both)
		if end == 0 || sameState(w, end, both) {
			continue
		}
		sound := int64(0)
		for _, n := range keptStates(w, &a) {
			if _, ok := b.State(w, n); !ok || n > end {
				continue
			}
			if !sameState(w, n, both) {
				end = n
				break
			}
			sound = n
		}
		return fmt.Sprintf("from worker %d, commands %s to %s, on", w, thousands(sound+1), thousands(end))
	}
	return ""
}

// keptStates are the numbers of commands after which a worker's state was
// kept, ascending.
func keptStates(w int, v *record.Checkpoints) (at []int64) {
	if w < len(v.Early) {
		for i := range v.Early[w] {
			at = append(at, int64(i+1)*v.EarlyEvery)
		}
	}
	if w < len(v.Workers) {
		for i := range v.Workers[w] {
			at = append(at, int64(i+1)*v.Every)
		}
	}
	if w < len(v.Last) {
		at = append(at, v.Last[w].Commands)
	}
	slices.Sort(at)
	return at
}

// commonPrefix is the largest number of commands after which all have kept
// the state of a worker: as a rule that of the last common checkpoint, before
// the first one that of an early state, and where all chains end after as
// many commands, all of them.
func commonPrefix(w int, chains []record.Checkpoints) int64 {
	for _, n := range slices.Backward(keptStates(w, &chains[0])) {
		all := true
		for i := range chains[1:] {
			_, ok := chains[i+1].State(w, n)
			all = all && ok
		}
		if all {
			return n
		}
	}
	return 0
}

func sameState(w int, n int64, chains []record.Checkpoints) bool {
	first, _ := chains[0].State(w, n)
	return !slices.ContainsFunc(chains[1:], func(v record.Checkpoints) bool {
		state, _ := v.State(w, n)
		return state != first
	})
}

// proven is what chains without a difference prove: the number of commands
// that all share, and, where the states for it were kept, the fingerprint of
// the longest prefix within them that is as long for every worker.
func proven(chains []record.Checkpoints, sequenceID string) (commands, perWorker int64, fingerprint string) {
	if len(chains) == 0 || len(chains[0].Workers) == 0 {
		return 0, 0, ""
	}
	first := &chains[0]
	least := int64(math.MaxInt64)
	for w := range first.Workers {
		n := commonPrefix(w, chains)
		commands += n
		least = min(least, n)
	}
	for _, n := range slices.Backward(keptStates(0, first)) {
		if n > least {
			continue
		}
		if text, ok := first.Fingerprint(sequenceID, n); ok {
			return commands, n, text
		}
	}
	return commands, 0, ""
}
