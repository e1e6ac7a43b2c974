package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/mongo-sandbox/sandbox/internal/record"
)

// What Options.Pool may be.
const (
	// PoolAuto pools runs if all of them may be, and no target of a single
	// run is asked for.
	PoolAuto = "auto"
	// PoolAlways refuses runs that may not be pooled, with the reason.
	PoolAlways = "always"
	// PoolNever lists runs apart.
	PoolNever = "never"
)

// pooling says where the iterations of pooled runs come from. They are
// numbered through, in the order of the runs.
type pooling struct {
	// down is Input.Down of every run.
	down       []map[string]string
	placements []int // by run, from 0
	count      int   // of placements
	// iterations of a size, by run.
	iterations map[int64][]int
}

// origin is the run of an iteration, and its number there.
func (p *pooling) origin(size int64, iteration int) (run, original int) {
	for i, n := range p.iterations[size] {
		if iteration <= n {
			return i, iteration
		}
		iteration -= n
	}
	return len(p.placements) - 1, iteration // not reached: it was counted
}

// runAt is the head of the run that a cell belongs to.
func (c *Comparison) runAt(id *record.CellID, t *Target) *record.Run {
	if c.pool == nil {
		return c.runOf(t)
	}
	run, _ := c.pool.origin(id.Size, id.Iteration)
	return &c.Runs[run].Run
}

// downAt is why a target was given up in the run that a cell belongs to.
func (c *Comparison) downAt(id *record.CellID, t *Target) string {
	if c.pool == nil {
		return t.Down
	}
	run, _ := c.pool.origin(id.Size, id.Iteration)
	return c.pool.down[run][t.Name]
}

// runIteration is an iteration's number in its run, which its commands are
// made from.
func (c *Comparison) runIteration(size int64, iteration int) int {
	if c.pool == nil {
		return iteration
	}
	_, original := c.pool.origin(size, iteration)
	return original
}

// combine puts runs together, pooled or apart.
func combine(inputs []Input, labels []string, o Options) (Input, error) {
	given := labels
	labels, err := labelRuns(inputs, labels)
	if err != nil {
		return Input{}, err
	}
	var out Input
	reason := ""
	if pool := cmp.Or(o.Pool, PoolAuto); pool != PoolNever {
		var placements []int
		switch placements, reason = poolable(inputs, labels); {
		case reason == "" && (pool == PoolAlways || !o.namesRun(&inputs[0].Run)):
			out = pooled(inputs, labels, placements)
			out.Options, out.labels = o, given
			return out, nil
		case pool == PoolAlways:
			return Input{}, &RequestError{"the runs cannot be pooled: " + reason, "without --pool always they are listed apart"}
		}
	}
	if out, err = Join(inputs, labels); err != nil {
		return out, err
	}
	out.Options, out.labels, out.notPooled = o, given, reason
	return out, nil
}

// namesRun tells whether a target of a single run is asked for, NAME@LABEL.
func (o *Options) namesRun(r *record.Run) bool {
	names := []string{o.Baseline}
	for i := range o.Thresholds {
		names = append(names, o.Thresholds[i].Target, o.Thresholds[i].Baseline)
	}
	return slices.ContainsFunc(names, func(name string) bool {
		return strings.Contains(name, "@") && !slices.ContainsFunc(r.Targets, func(t record.Target) bool { return t.Name == name })
	})
}

// poolable says on which placement each run was made, from 0, if all are
// repetitions of one: of the same targets, under the same commands and
// settings, on machines that are equal and not the same. Else it says why
// they are not.
func poolable(inputs []Input, labels []string) (placements []int, reason string) {
	first := &inputs[0]
	if len(first.Run.Targets) < 2 {
		return nil, "with one target nothing would be compared"
	}
	for i := range inputs {
		in := &inputs[i]
		if !slices.ContainsFunc(in.Cells, counts) {
			return nil, fmt.Sprintf("run %s has no finished cell", labels[i])
		}
		if i == 0 {
			continue
		}
		differ := func(what, x, y string) string {
			return fmt.Sprintf("%s: %s in %s, %s in %s", what, cmp.Or(x, "unknown"), labels[0], cmp.Or(y, "unknown"), labels[i])
		}
		if reason := targetsDiffer(&first.Run, &in.Run, differ); reason != "" {
			return nil, reason
		}
		if d := sequenceDifferences(&first.Run.Settings, &in.Run.Settings); len(d) > 0 {
			return nil, fmt.Sprintf("other commands in %s and %s: %s", labels[0], labels[i], strings.Join(d, ", "))
		}
		for _, f := range slices.Concat(runSettings(), runEnvironment()) {
			if x, y := f.of(&first.Run), f.of(&in.Run); x != y {
				return nil, differ(f.name, x, y)
			}
		}
		if x, y := sizesText(&first.Run), sizesText(&in.Run); x != y {
			return nil, differ("sizes", x, y)
		}
	}
	if placements, reason = placed(inputs, labels); reason != "" {
		return nil, reason
	}
	for i := 1; i < len(inputs); i++ {
		if reason := commandsDiffer(first, &inputs[i]); reason != "" {
			return nil, fmt.Sprintf("other commands in %s and %s: %s", labels[0], labels[i], reason)
		}
	}
	return placements, ""
}

// counts tells whether an attempt has numbers to compare.
func counts(in CellInput) bool {
	return in.Status == record.Counted && in.Cell != nil && in.Cell.Valid
}

// targetsDiffer says how the targets of two runs differ in more than the
// machines they were on.
func targetsDiffer(a, b *record.Run, differ func(what, x, y string) string) string {
	names := func(r *record.Run) string {
		var out []string
		for i := range r.Targets {
			out = append(out, r.Targets[i].Name)
		}
		slices.Sort(out)
		return list(out)
	}
	if x, y := names(a), names(b); x != y {
		return differ("targets", x, y)
	}
	for i := range a.Targets {
		x := &a.Targets[i]
		y := &b.Targets[slices.IndexFunc(b.Targets, func(t record.Target) bool { return t.Name == x.Name })]
		for _, f := range []struct{ name, x, y string }{
			{"distribution", x.Distribution, y.Distribution}, {"version", x.ActualVersion, y.ActualVersion},
			{"git version", short(x.GitVersion), short(y.GitVersion)}, {"engine", x.Engine, y.Engine}, {"A/A of", x.AAOf, y.AAOf},
		} {
			if f.x != f.y {
				return differ(f.name+" of "+x.Name, f.x, f.y)
			}
		}
		xm, ym := dataBearing(x), dataBearing(y)
		if len(xm) != len(ym) {
			return differ("members of "+x.Name, fmt.Sprint(len(xm)), fmt.Sprint(len(ym)))
		}
		facts := slices.Concat(memberFacts(), cloudFacts())
		settings := map[string]bool{}
		for _, m := range slices.Concat(xm, ym) {
			for name := range m.Settings {
				settings[name] = true
			}
		}
		for _, name := range sortedKeys(settings, strings.Compare) {
			facts = append(facts, settingFact(name))
		}
		for k := range facts {
			if vx, vy := facts[k].value(xm), facts[k].value(ym); vx != vy && (!facts[k].untold || vx != "" && vy != "") {
				return differ(facts[k].name+" of "+x.Name, vx, vy)
			}
		}
	}
	return ""
}

func dataBearing(t *record.Target) []*record.MemberFacts {
	var out []*record.MemberFacts
	for i := range t.Members {
		if t.Members[i].Role != arbiter {
			out = append(out, &t.Members[i])
		}
	}
	return out
}

func sizesText(r *record.Run) string {
	var out []string
	for _, s := range r.Sizes {
		out = append(out, thousands(s.Documents))
	}
	return list(out)
}

// placed numbers the sets of machines that runs were made on.
func placed(inputs []Input, labels []string) (placements []int, reason string) {
	machines := make([][]string, len(inputs))
	for i := range inputs {
		r := &inputs[i].Run
		for k := range r.Targets {
			members := dataBearing(&r.Targets[k])
			for _, m := range members {
				machines[i] = append(machines[i], m.MachineID)
			}
			if len(members) == 0 {
				machines[i] = append(machines[i], "")
			}
		}
		slices.Sort(machines[i])
		machines[i] = slices.Compact(machines[i])
		switch {
		case r.Platform == "local":
			return nil, "the local platform makes no machines"
		case slices.Contains(machines[i], ""):
			return nil, fmt.Sprintf("run %s does not say on which machines it ran", labels[i])
		}
	}
	count := 0
	for i := range inputs {
		placement := count
		for k := range i {
			if slices.Equal(machines[i], machines[k]) {
				placement = placements[k]
				break
			}
			if slices.ContainsFunc(machines[i], func(id string) bool { return slices.Contains(machines[k], id) }) {
				return nil, fmt.Sprintf("runs %s and %s share some of their machines", labels[k], labels[i])
			}
		}
		placements = append(placements, placement)
		count = max(count, placement+1)
	}
	if count < 2 {
		return nil, "all were made on the same machines"
	}
	return placements, ""
}

// commandsDiffer says how the commands of two runs differ, by their
// fingerprints in every size and iteration that both have.
func commandsDiffer(a, b *Input) string {
	type key struct {
		groupKey
		iteration int
	}
	firsts := map[key]*CellInput{}
	for i := range a.Cells {
		if in := &a.Cells[i]; counts(*in) {
			k := key{groupKey{in.ID.Size, in.ID.Variant}, in.ID.Iteration}
			if firsts[k] == nil {
				firsts[k] = in
			}
		}
	}
	seen := map[key]bool{}
	for i := range b.Cells {
		y := &b.Cells[i]
		k := key{groupKey{y.ID.Size, y.ID.Variant}, y.ID.Iteration}
		x := firsts[k]
		if x == nil || seen[k] || !counts(*y) {
			continue
		}
		seen[k] = true
		where := fmt.Sprintf("at %s documents, iteration %d", thousands(y.ID.Size), y.ID.Iteration)
		if x.Cell.SequenceID != y.Cell.SequenceID {
			return "of another sequence " + where
		}
		if x.Cell.FingerprintCommands == y.Cell.FingerprintCommands && x.Cell.Fingerprint != y.Cell.Fingerprint {
			return "another fingerprint " + where
		}
		if x.Checkpoints == nil || y.Checkpoints == nil {
			continue
		}
		// What cannot be read is noted where targets are compared.
		cx, errX := x.Checkpoints()
		cy, errY := y.Checkpoints()
		if errX == nil && errY == nil {
			if problem := firstDifference(cx, cy); problem != "" {
				return where + " " + problem
			}
		}
	}
	if len(seen) == 0 {
		return "no size and iteration that both have finished"
	}
	return ""
}

// pooled puts runs together as repetitions of one.
func pooled(inputs []Input, labels []string, placements []int) Input {
	out := Input{
		Run: inputs[0].Run, Down: map[string]string{}, Failed: map[AttemptKey]string{},
		pool: &pooling{placements: placements, count: slices.Max(placements) + 1, iterations: map[int64][]int{}},
	}
	out.Run.Warnings, out.Run.Sizes = nil, slices.Clone(inputs[0].Run.Sizes)
	most := func(in *Input, size int64) (n int) {
		for _, s := range in.Run.Sizes {
			if s.Documents == size {
				n = min(max(s.Iterations, 1), maxIterations)
			}
		}
		for i := range in.Cells {
			if id := &in.Cells[i].ID; id.Size == size {
				n = max(n, id.Iteration)
			}
		}
		return n
	}
	for k := range out.Run.Sizes {
		size := &out.Run.Sizes[k]
		size.Iterations = 0
		for i := range inputs {
			n := most(&inputs[i], size.Documents)
			out.pool.iterations[size.Documents] = append(out.pool.iterations[size.Documents], n)
			size.Iterations += n
		}
	}
	for i := range inputs {
		in := &inputs[i]
		out.Runs = append(out.Runs, RunHead{Label: labels[i], Placement: placements[i] + 1, Run: in.Run})
		if in.Run.Engine == record.EngineEmbedded {
			out.Run.Engine = record.EngineEmbedded
		}
	}
	for i := range inputs {
		in := &inputs[i]
		prefix := "run " + labels[i] + ": "
		for _, text := range in.Run.Warnings {
			out.Run.Warnings = append(out.Run.Warnings, prefix+text)
		}
		for _, text := range in.Damage {
			out.Damage = append(out.Damage, prefix+text)
		}
		out.pool.down = append(out.pool.down, in.Down)
		for name, reason := range in.Down {
			out.Down[name] = joinReasons(out.Down[name], prefix+reason)
		}
		for _, cell := range in.Cells {
			iterations := out.pool.iterations[cell.ID.Size]
			if iterations == nil {
				continue // of a size that the head does not name
			}
			before := cell.ID.String()
			for _, n := range iterations[:i] {
				cell.ID.Iteration += n
			}
			if reason, failed := in.Failed[AttemptKey{before, cell.Attempt}]; failed {
				out.Failed[AttemptKey{cell.ID.String(), cell.Attempt}] = reason
			}
			out.Cells = append(out.Cells, cell.of(&out.Runs[i]))
		}
	}
	return out
}

// onePlacement names the groups in which a difference between pooled runs
// rests on one placement of a target.
func (c *Comparison) onePlacement() (labels []string) {
	if c.pool == nil {
		return nil
	}
	for i := range c.Differences {
		d := &c.Differences[i]
		label := c.Groups[d.Group].Label
		if d.Metric == MetricThroughput && d.Operation == AllOperations && d.Ratio.HasInterval() && d.Ratio.Placements < 2 && !slices.Contains(labels, label) {
			labels = append(labels, label)
		}
	}
	return labels
}

// checkPlacements says what comes of pooling runs, and how many placements
// stand behind it.
func (c *Comparison) checkPlacements(add addCheck) {
	const name = "Placements"
	if blind := c.onePlacement(); len(blind) > 0 {
		add(name, Caution, "%d runs on %d sets of machines are pooled, but at %s some target has cells of one set only: those intervals are blind to what differs from machine to machine",
			len(c.Runs), c.Placements, list(blind))
		return
	}
	text := fmt.Sprintf("%d runs on %d sets of machines, each made anew, are pooled: intervals include what differs from machine to machine", len(c.Runs), c.Placements)
	if c.Placements == 2 {
		add(name, Caution, "%s, with one degree of freedom for each target; they hold, and are wide: a third placement would narrow them most", text)
		return
	}
	add(name, OK, "%s, with %d degrees of freedom for each target", text, c.Placements-1)
}
