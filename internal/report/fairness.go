package report

import (
	"cmp"
	"fmt"
	"net"
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
	// tolerableForeign is the share of the load host's CPUs above which what
	// other processes use may have held up the load generator, and one
	// target's cells more than another's.
	tolerableForeign = 0.10
)

// fairness draws the checks up.
func (b *builder) fairness() {
	f := &b.c.Fairness
	add := func(name string, status Status, format string, args ...any) {
		f.Checks = append(f.Checks, Check{Name: name, Status: status, Text: fmt.Sprintf(format, args...)})
	}
	b.checkEngine(add)
	b.checkRuns(add)
	b.checkCommands(add)
	b.checkParity(add)
	b.checkAttribution(add)
	b.checkCells(add)
	b.checkLoadHost(add)
	b.checkErrors(add)
	b.checkAnswers(add)
	b.checkRepetition(add)
	b.checkMachines(add)
	b.checkPrimaries(add)
	b.checkAA(add)
	b.checkDuration(add)
	b.checkSteady(add)
	b.checkWarmup(add)
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
	perWorker := b.c.Run.Settings.OpsPerWorker
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
			perWorker = min(perWorker, s.PerWorker)
		}
	}
	switch {
	case len(problems) > 0:
		add(name, Unfair, "not compared where the commands differ: %s", strings.Join(problems, "; "))
	case unproven > 0:
		add(name, Caution, "fingerprints equal in %d of %d size and iteration pairs; in %d too few commands were sent to prove it (a longer --duration or a smaller --ops-per-worker would)",
			same, len(sequences), unproven)
	default:
		over, uncovered := thousands(commands), ""
		if sent := b.fewestSent(); sent > commands {
			over += " of at least " + thousands(sent)
			uncovered = b.uncovered()
		}
		shortest := ""
		if perWorker > 0 && perWorker < b.c.Run.Settings.OpsPerWorker {
			shortest = fmt.Sprintf("; the shortest fingerprint covers the first %s of every worker", thousands(perWorker))
		}
		pairs := "the only size and iteration pair"
		if n := len(sequences); n > 1 {
			pairs = fmt.Sprintf("all %d size and iteration pairs", n)
		}
		add(name, OK, "the same in %s by fingerprints and checkpoints, over %s commands per target%s%s", pairs, over, shortest, uncovered)
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
		compared := len(b.c.Fairness.Compared)
		text := fmt.Sprintf("the members agree in all of %d facts (%s)", compared, b.c.Fairness.comparedText())
		if n := len(version); n > 0 {
			text = fmt.Sprintf("the members agree in %d of %d facts (%s); %s with the versions", compared-n, compared, b.c.Fairness.comparedText(), plural(n, "differs", "differ"))
		}
		add(name, OK, "%s", text)
	}
	if slices.ContainsFunc(b.c.heads(), func(r RunHead) bool { return r.Platform == "local" }) && len(b.c.Targets) > 0 {
		add("Machines", Caution, "all members and the load generator shared one machine with whatever else ran there, so each took CPU, memory and disk from the others")
	}
}

func (b *builder) checkCells(add addCheck) {
	asked := 0
	for g := range b.c.Groups {
		for t := range b.c.Targets {
			asked += b.asked(g, t)
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
	b.checkPasses(counted, add)
}

// cellName is a cell in words.
func (c *Comparison) cellName(id record.CellID) string {
	return fmt.Sprintf("%s at %s iteration %d", id.Target, c.Groups[c.groupOf(id.Size, id.Variant)].Label, id.Iteration)
}

func (b *builder) cellName(id record.CellID) string { return b.c.cellName(id) }

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
	b.checkForeignLoad(add)
}

// checkForeignLoad looks for what else ran on the load host of a cell's run.
// On the local platform that is the members, which a check of its own speaks
// of.
func (b *builder) checkForeignLoad(add addCheck) {
	var disturbed []string
	highest := 0.0
	b.eachCounted(func(_, t int, in *CellInput) {
		run := b.c.runOf(&b.c.Targets[t])
		client, seconds := in.Cell.Client, in.Cell.DurationS
		if run.Platform == "local" || run.LoadHost.CPUs == 0 || client.MachineCPUPercent <= 0 || seconds <= 0 {
			return
		}
		foreign := client.MachineCPUPercent/100 - client.CPUS/seconds/float64(run.LoadHost.CPUs)
		highest = max(highest, foreign)
		if foreign > tolerableForeign {
			disturbed = append(disturbed, b.cellName(in.ID))
		}
	})
	if len(disturbed) > 0 {
		add("Foreign load", Caution, "other processes used up to %s of the load host's CPU, more than %s in %s: %s",
			percent(min(highest, 1)), percent(tolerableForeign), plural(len(disturbed), "cell", "cells"), list(disturbed))
	}
}

func (b *builder) checkMachines(add addCheck) {
	if b.c.ownMachines() {
		add("Machines", Caution, "each target ran on machines of its own: a slower machine looks like a slower target, and no interval on this page sees that; "+
			"a new environment and sandbox compare would")
	}
}

// ownMachines reports whether the targets of one run share no machine. Of
// several runs the check of runs says more.
func (c *Comparison) ownMachines() bool {
	if len(c.Runs) > 0 {
		return false
	}
	owner := map[string]int{}
	several := false
	for t := range c.Targets {
		for _, m := range c.Targets[t].Members {
			host, _, err := net.SplitHostPort(m.Address)
			if err != nil {
				host = m.Address
			}
			other, taken := owner[host]
			if taken && other != t && c.Targets[t].AAOf == "" && c.Targets[other].AAOf == "" {
				return false
			}
			several = several || len(owner) > 0 && !taken
			owner[host] = t
		}
	}
	return several && c.Run.Platform != "local" && len(c.Targets) > 1
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
	case len(b.c.onePlacement()) > 0:
		add(name, OK, "%d or more iterations of every cell, of several runs: intervals include what differs from iteration to iteration, and from machine to machine but at %s",
			fewest, list(b.c.onePlacement()))
	case b.c.pool != nil:
		add(name, OK, "%d or more iterations of every cell, of several runs: intervals include what differs from iteration to iteration and from machine to machine", fewest)
	default:
		what := "run to run, though not"
		if len(b.c.Runs) > 0 {
			what = "iteration to iteration, though not between the runs nor"
		}
		add(name, OK, "%d or more iterations of every cell: intervals include what differs from %s from machine to machine", fewest, what)
	}
	if len(uneven) > 0 {
		add("Iterations", Caution, "at %s some targets have fewer counted iterations than others", list(uneven))
	}
	if slices.ContainsFunc(b.c.heads(), func(r RunHead) bool { return r.Order == "sequential" && len(r.Targets) > 1 }) {
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
	for _, r := range b.c.heads() {
		if r.Finished == nil {
			name := "the run"
			if len(b.c.Runs) > 0 {
				name = "run " + r.Label
			}
			w = append(w, name+" has not finished: this is what is there so far")
		}
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
