package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mongo-sandbox/sandbox/internal/record"
)

// What the checks measure by.
const (
	// checkpointInterval is how often a server writes a checkpoint by
	// default (storage.syncPeriodSecs, 60 s).
	checkpointInterval = time.Minute
	// enoughCheckpoints a cell should cover, so that none of them decides
	// its result.
	enoughCheckpoints = 5
	// tolerableErrors is the share of failed commands above which a cell
	// measures something else than the others.
	tolerableErrors = 0.01
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

// parity lists the facts in which the targets, or the members of one,
// differ. Arbiters hold no data and are left out.
func (b *builder) parity() {
	type fact struct {
		name  string
		cause Cause
		of    func(*record.MemberFacts) string
	}
	facts := []fact{
		{"version", CauseVersion, func(m *record.MemberFacts) string { return m.Version }},
		{"feature compatibility version", CauseVersion, func(m *record.MemberFacts) string { return m.FCV }},
		{"operating system", CauseEnvironment, func(m *record.MemberFacts) string { return m.Machine.OS }},
		{"kernel", CauseEnvironment, func(m *record.MemberFacts) string { return m.Machine.Kernel }},
		{"CPU model", CauseEnvironment, func(m *record.MemberFacts) string { return m.Machine.CPUModel }},
		{"CPUs", CauseEnvironment, func(m *record.MemberFacts) string { return positive(int64(m.Machine.CPUs)) }},
		{"memory", CauseEnvironment, func(m *record.MemberFacts) string {
			if m.Machine.MemoryMB == 0 {
				return ""
			}
			// Equal machines report a few MB apart.
			return fmt.Sprintf("%.1f GiB", float64(m.Machine.MemoryMB)/1024)
		}},
	}
	members := make([][]*record.MemberFacts, len(b.c.Targets))
	names := map[string]bool{}
	for t := range b.c.Targets {
		for i := range b.c.Targets[t].Members {
			m := &b.c.Targets[t].Members[i]
			if m.Role == "ARBITER" {
				continue
			}
			members[t] = append(members[t], m)
			for name := range m.Settings {
				names[name] = true
			}
		}
	}
	for _, name := range sortedKeys(names, strings.Compare) {
		facts = append(facts, fact{name, b.settingCause(name, members), func(m *record.MemberFacts) string { return m.Settings[name] }})
	}

	add := func(name string, cause Cause, values []string) {
		known := ""
		differs := false
		for t, v := range values {
			if len(members[t]) == 0 {
				values[t] = "unknown"
				continue
			}
			if strings.Contains(v, valueSeparator) || known != "" && v != known {
				differs = true
			}
			known = v
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
			var distinct []string
			for _, m := range members[t] {
				if v := cmp.Or(f.of(m), "none"); !slices.Contains(distinct, v) {
					distinct = append(distinct, v)
				}
			}
			slices.Sort(distinct)
			values[t] = strings.Join(distinct, valueSeparator)
		}
		add(f.name, f.cause, values)
	}
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
	if isParameter && !set {
		return CauseVersion
	}
	return CauseEnvironment
}

func positive(n int64) string {
	if n <= 0 {
		return ""
	}
	return fmt.Sprint(n)
}

// fairness draws the checks up.
func (b *builder) fairness() {
	f := &b.c.Fairness
	add := func(name string, status Status, format string, args ...any) {
		f.Checks = append(f.Checks, Check{Name: name, Status: status, Text: fmt.Sprintf(format, args...)})
	}
	b.checkEngine(add)
	b.checkCommands(add)
	b.checkParity(add)
	b.checkCells(add)
	b.checkLoadHost(add)
	b.checkErrors(add)
	b.checkRepetition(add)
	b.checkDuration(add)
	f.Fair = !slices.ContainsFunc(f.Checks, func(c Check) bool { return c.Status == Unfair })
}

type addCheck func(name string, status Status, format string, args ...any)

func (b *builder) checkEngine(add addCheck) {
	var stand, servers []string
	for i := range b.c.Targets {
		if t := &b.c.Targets[i]; t.Engine == record.EngineEmbedded {
			stand = append(stand, t.Name)
		} else {
			servers = append(servers, t.Name)
		}
	}
	switch {
	case len(stand) > 0 && len(servers) > 0:
		add("Engine", Unfair, "the embedded engine stood in for %s, and MongoDB answered for %s: they cannot be compared",
			list(stand), list(servers))
	case len(stand) > 0:
		add("Engine", Caution, "the embedded engine answered for every target, so differences are noise or the environment's, never MongoDB's")
	}
}

func (b *builder) checkCommands(add addCheck) {
	const name = "Commands"
	sequences := b.c.Fairness.Sequences
	if len(sequences) == 0 {
		if len(b.c.Targets) < 2 {
			add(name, Caution, "one target only: nothing is compared")
		} else {
			add(name, Caution, "no size and iteration has a counted cell of two targets: nothing is compared")
		}
		return
	}
	var commands int64
	same, unproven := 0, 0
	var problems []string
	for _, s := range sequences {
		where := fmt.Sprintf("%s iteration %d", b.c.Groups[s.Group].Label, s.Iteration)
		switch {
		case !s.Same:
			problems = append(problems, where+": "+s.Problem)
		case s.Commands == 0:
			unproven++
		default:
			same++
			commands += s.Commands
		}
	}
	switch {
	case len(problems) > 0:
		add(name, Unfair, "not compared where the commands differ: %s", strings.Join(problems, "; "))
	case unproven > 0:
		add(name, Caution, "fingerprints equal in %d of %d size and iteration pairs; in %d too few commands were sent to prove it (a longer --duration or a smaller --ops-per-worker would)",
			same, len(sequences), unproven)
	default:
		over := thousands(commands)
		if sent := b.fewestSent(); sent > commands {
			over += " of at least " + thousands(sent)
		}
		add(name, OK, "fingerprints equal in all %s, over %s commands per target",
			plural(len(sequences), "size and iteration pair", "size and iteration pairs"), over)
	}
}

// fewestSent is how many commands the target that was sent fewest was sent.
func (b *builder) fewestSent() int64 {
	sent := make([]int64, len(b.c.Targets))
	b.eachCounted(func(_, t int, in *CellInput) { sent[t] += in.Cell.Commands + in.Cell.Errors })
	sent = slices.DeleteFunc(sent, func(n int64) bool { return n == 0 })
	if len(sent) == 0 {
		return 0
	}
	return slices.Min(sent)
}

func (b *builder) checkParity(add addCheck) {
	var version, environment []string
	unknown := false
	for i := range b.c.Targets {
		if len(b.c.Targets[i].Members) == 0 {
			unknown = true
		}
	}
	for _, p := range b.c.Fairness.Parity {
		if p.Cause == CauseEnvironment {
			environment = append(environment, p.Fact)
		} else {
			version = append(version, p.Fact)
		}
	}
	const name = "Environment"
	versions := ""
	if len(version) > 0 {
		versions = fmt.Sprintf("; %s with the versions", plural(len(version), "difference comes", "differences come"))
	}
	switch {
	case len(environment) > 0:
		add(name, Unfair, "the members differ in %s%s", list(environment), versions)
	case unknown:
		add(name, Caution, "some targets' members did not say what they run on%s", versions)
	default:
		add(name, OK, "no difference found between the members%s", versions)
	}
	if b.c.Run.Platform == "local" && len(b.c.Targets) > 0 {
		add("Machines", Caution, "all members and the load generator shared one machine with whatever else ran there, so each took CPU, memory and disk from the others")
	}
}

func (b *builder) checkCells(add addCheck) {
	asked, incomplete := 0, 0
	for g := range b.c.Groups {
		asked += b.c.Groups[g].Iterations * len(b.c.Targets)
	}
	for g := range b.counted {
		for t := range b.counted[g] {
			for _, in := range b.counted[g][t] {
				if !in.Cell.Complete {
					incomplete++
				}
			}
		}
	}
	counted := asked - len(b.c.Missing)
	var why []string
	for _, m := range b.c.Missing {
		why = append(why, fmt.Sprintf("%s (%s)", b.cellName(m.CellID), m.Reason))
	}
	if len(why) > 4 {
		why = append(why[:3], fmt.Sprintf("and %d more", len(why)-3))
	}
	switch {
	case counted == 0:
		add("Cells", Unfair, "none of %d cells counts: %s", asked, strings.Join(why, "; "))
	case len(why) > 0:
		add("Cells", Caution, "%d of %d cells count; not: %s", counted, asked, strings.Join(why, "; "))
	default:
		add("Cells", OK, "all %d cells are valid", asked)
	}
	pass := b.c.Run.Settings.OpsPerWorker * int64(b.c.Run.Settings.Workers)
	if incomplete > 0 {
		add("Passes", Caution, "%d of %d cells did not send the whole pass of %s commands; fingerprints are compared on the prefix that all sent",
			incomplete, counted, thousands(pass))
	} else if counted > 0 {
		add("Passes", OK, "every cell sent the whole pass of %s commands", thousands(pass))
	}
}

// cellName is a cell in words.
func (b *builder) cellName(id record.CellID) string {
	return fmt.Sprintf("%s at %s iteration %d", id.Target, b.c.Groups[b.c.groupOf(id.Size, id.Variant)].Label, id.Iteration)
}

func (b *builder) eachCounted(f func(g, t int, in *CellInput)) {
	for g := range b.counted {
		for t := range b.counted[g] {
			for _, in := range b.counted[g][t] {
				f(g, t, in)
			}
		}
	}
}

func (b *builder) checkLoadHost(add addCheck) {
	var bound []string
	known := false
	highest := 0.0
	b.eachCounted(func(_, _ int, in *CellInput) {
		highest = max(highest, in.Cell.Client.CPUPercent)
		known = known || in.Cell.Client.CPUPercent > 0
		if in.Cell.Client.ClientBound {
			bound = append(bound, b.cellName(in.ID))
		}
	})
	switch {
	case len(bound) > 0:
		add("Load host", Unfair, "%s client-bound, so the load host and not the server set the pace: %s",
			plural(len(bound), "cell is", "cells are"), list(bound))
	case known:
		add("Load host", OK, "the load generator used at most %s of its machine's CPU", percent(highest/100))
	}
}

func (b *builder) checkErrors(add addCheck) {
	var failed, sent int64
	worst, where := 0.0, ""
	b.eachCounted(func(_, _ int, in *CellInput) {
		failed += in.Cell.Errors
		sent += in.Cell.Errors + in.Cell.Commands
		if n := in.Cell.Errors + in.Cell.Commands; n > 0 {
			if share := float64(in.Cell.Errors) / float64(n); share > worst {
				worst, where = share, b.cellName(in.ID)
			}
		}
	})
	switch {
	case sent == 0:
	case failed == 0:
		add("Errors", OK, "no command failed")
	case worst > tolerableErrors:
		add("Errors", Unfair, "%s of %s commands failed, most often %s of %s; failures are in no throughput and no latency, but commands that fail do other work",
			thousands(failed), thousands(sent), percent(worst), where)
	default:
		add("Errors", Caution, "%s of %s commands failed (%s); failures are in no throughput and no latency",
			thousands(failed), thousands(sent), percent(float64(failed)/float64(sent)))
	}
}

func (b *builder) checkRepetition(add addCheck) {
	var single, uneven []string
	fewest := 0
	for g := range b.c.Groups {
		least, most := 0, 0
		for t := range b.c.Groups[g].Summaries {
			n := len(b.counted[g][t])
			if n == 0 {
				continue
			}
			if least == 0 || n < least {
				least = n
			}
			most = max(most, n)
		}
		if least == 0 {
			continue
		}
		if fewest == 0 || least < fewest {
			fewest = least
		}
		if least == 1 {
			single = append(single, b.c.Groups[g].Label)
		}
		if least != most {
			uneven = append(uneven, b.c.Groups[g].Label)
		}
	}
	const name = "Repetition"
	switch {
	case fewest == 0:
		return
	case len(single) > 0:
		add(name, Caution, "one iteration at %s: those intervals are within-run only, blind to what differs from run to run and from machine to machine",
			list(single))
	default:
		add(name, OK, "%d or more iterations of every cell: intervals include what differs from run to run, though not from machine to machine", fewest)
	}
	if len(uneven) > 0 {
		add("Iterations", Caution, "at %s some targets have fewer counted iterations than others", list(uneven))
	}
	if b.c.Run.Order == "sequential" && len(b.c.Targets) > 1 {
		add("Order", Caution, "targets ran one after another: a machine that changes over time looks like a difference between targets")
	}
}

func (b *builder) checkDuration(add addCheck) {
	shortest := 0.0
	b.eachCounted(func(_, _ int, in *CellInput) {
		if d := in.Cell.DurationS; shortest == 0 || d < shortest {
			shortest = d
		}
	})
	if shortest == 0 {
		return
	}
	enough := float64(enoughCheckpoints) * checkpointInterval.Seconds()
	if shortest < enough {
		add("Duration", Caution, "the shortest cell measured %s: less than %d checkpoints of %s, so caches, checkpoints and background work may not have shown",
			seconds(shortest), enoughCheckpoints, seconds(checkpointInterval.Seconds()))
		return
	}
	// Windows are minutes in cells of ten minutes or more.
	if shortest < 10*checkpointInterval.Seconds() {
		add("Duration", Caution, "the shortest cell measured %s: its windows are shorter than the minute between checkpoints, so neighbouring windows differ by nature",
			seconds(shortest))
		return
	}
	add("Duration", OK, "every cell measured %s or more, in windows of whole minutes", seconds(shortest))
}

// warnings gathers what the run and its cells noted themselves.
func (b *builder) warnings() {
	w := slices.Clone(b.c.Run.Warnings)
	if b.c.Run.Finished == nil {
		w = append(w, "the run has not finished: this is what is there so far")
	}
	w = append(w, b.in.Damage...)
	w = append(w, b.damage.list()...)
	for i := range b.c.Targets {
		if t := &b.c.Targets[i]; t.Down != "" {
			w = append(w, fmt.Sprintf("%s went down: %s", t.Name, t.Down))
		}
	}
	type note struct {
		text  string
		cells []string
	}
	var notes []note
	b.eachCounted(func(_, _ int, in *CellInput) {
		for _, text := range in.Cell.Warnings {
			i := slices.IndexFunc(notes, func(n note) bool { return n.text == text })
			if i < 0 {
				notes = append(notes, note{text: text})
				i = len(notes) - 1
			}
			notes[i].cells = append(notes[i].cells, b.cellName(in.ID))
		}
	})
	for _, n := range notes {
		w = append(w, fmt.Sprintf("%s: %s", list(n.cells), n.text))
	}
	b.c.Warnings = w
}

// Banner is what every rendering says first when the embedded engine
// answered; empty otherwise.
func (c *Comparison) Banner() []string {
	if !c.Embedded() {
		return nil
	}
	lines := []string{
		"EMBEDDED ENGINE: THESE NUMBERS SAY NOTHING ABOUT MONGODB",
		"A small in-memory stand-in answered the commands. Use this report to try the flow, never to compare versions.",
	}
	for i := range c.Targets {
		if t := &c.Targets[i]; t.Engine == record.EngineEmbedded {
			lines = append(lines, fmt.Sprintf("%s: requested %s, actual %s", t.Name, cmp.Or(t.RequestedVersion, "nothing"), cmp.Or(t.ActualVersion, "unknown")))
		}
	}
	return lines
}

// AllWarnings are the banner, every check that is not OK, and the warnings
// that the run and its cells noted.
func (c *Comparison) AllWarnings() []string {
	out := []string{}
	if banner := c.Banner(); len(banner) > 0 {
		out = append(out, strings.Join(banner, " | "))
	}
	for _, check := range c.Fairness.Checks {
		if check.Status != OK {
			out = append(out, fmt.Sprintf("%s: %s", check.Name, check.Text))
		}
	}
	return append(out, c.Warnings...)
}
