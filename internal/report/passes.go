package report

import (
	"fmt"
	"strings"
)

// passes counts a target's cells of a group, and those that did not send the
// whole pass.
func (b *builder) passes(g, t int) (cells, incomplete int) {
	for _, in := range b.counted[g][t] {
		cells++
		if !in.Cell.Complete {
			incomplete++
		}
	}
	return cells, incomplete
}

// checkPasses says which cells, of so many that count, were too short for the
// whole pass.
func (b *builder) checkPasses(counted int, add addCheck) {
	const name = "Passes"
	pass := thousands(b.c.Run.Settings.OpsPerWorker * int64(b.c.Run.Settings.Workers))
	incomplete := 0
	var where, everywhere []string
	for g := range b.c.Groups {
		var targets []string
		all, there := true, 0
		for t := range b.c.Targets {
			cells, n := b.passes(g, t)
			if cells == 0 {
				continue
			}
			there++
			all = all && n == cells
			incomplete += n
			switch {
			case n == cells:
				targets = append(targets, b.c.Targets[t].Name)
			case n > 0:
				targets = append(targets, fmt.Sprintf("%s (%d of %d)", b.c.Targets[t].Name, n, cells))
			}
		}
		switch {
		case len(targets) == 0:
		case all && there > 1:
			everywhere = append(everywhere, b.c.Groups[g].Label)
		default:
			where = append(where, b.c.Groups[g].Label+" on "+list(targets))
		}
	}
	if len(everywhere) > 0 {
		where = append(where, list(everywhere)+" on every target")
	}
	switch {
	case counted == 0:
	case incomplete == 0:
		add(name, OK, "every cell sent the whole pass of %s commands", pass)
	default:
		add(name, Caution, "%d of %d cells ended before they had sent the whole pass of %s commands, those at %s: there the fingerprints cover as much of it as every target was sent",
			incomplete, counted, pass, strings.Join(where, "; at "))
	}
}

// uncovered says which commands no fingerprint covers, and what they are. A
// worker's commands are numbered through: after its pass it goes on with the
// next number, whose command follows from the same seed (package loadgen).
func (b *builder) uncovered() string {
	whole, part := false, false
	for g := range b.c.Groups {
		for t := range b.c.Targets {
			cells, incomplete := b.passes(g, t)
			part = part || incomplete > 0
			whole = whole || incomplete < cells
		}
	}
	const (
		beyond = "after its pass: it does not start over but goes on in the same deterministic sequence"
		ahead  = "after the last checkpoint that it came to on every target"
	)
	switch {
	case whole && part:
		return "; not covered is what a worker sent " + ahead + ", or " + beyond
	case part:
		return "; not covered is what a worker sent " + ahead
	case whole:
		return "; not covered is what a worker sent " + beyond
	}
	return ""
}
