package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/mongo-sandbox/sandbox/internal/record"
)

// Where something is called gathered in few cells, and in a short time of one.
const (
	// gatheredShare of it has to be there.
	gatheredShare = 0.9
	// gatheredCells are the most cells that are named.
	gatheredCells = 3
	// gatheredTime is the longest part of a cell's time that is named, and
	// leastStretches how many there have to be for it.
	gatheredTime   = 0.1
	leastStretches = 5
)

// occurrence is something that is counted in cells and over their time.
type occurrence struct {
	of    func(*record.Cell) int64
	at    func(*TroubleStretch) int64
	known func(*Trouble) bool
}

func failedCommands() occurrence {
	return occurrence{
		of:    func(n *record.Cell) int64 { return n.Errors },
		at:    func(s *TroubleStretch) int64 { return s.Errors },
		known: func(*Trouble) bool { return true },
	}
}

func repeatedAttempts() occurrence {
	return occurrence{
		of:    func(n *record.Cell) int64 { return n.Retries },
		at:    func(s *TroubleStretch) int64 { return s.Retries },
		known: func(t *Trouble) bool { return t.RetriesKnown },
	}
}

// sound tells whether the numbers of a cell count, beside others or not.
func (x *Cell) sound() bool {
	return x.Result != nil && (x.State == StateCounted || x.State == StateRefused)
}

// where says in which cells something occurred, and when if it was all at
// once: a share of all commands would dilute what one cell met in a minute.
// It begins with a comma; shares adds how much it is of a cell's commands.
func (c *Comparison) where(o occurrence, shares bool) string {
	var cells []*Cell
	var total int64
	counted := 0
	for i := range c.Cells {
		x := &c.Cells[i]
		if !x.sound() {
			continue
		}
		counted++
		if n := o.of(x.Result); n > 0 {
			cells = append(cells, x)
			total = plus(total, n)
		}
	}
	if len(cells) == 0 {
		return ""
	}
	slices.SortStableFunc(cells, func(x, y *Cell) int { return cmp.Compare(o.of(y.Result), o.of(x.Result)) })
	var named []string
	var there int64
	for _, x := range cells {
		if len(named) == gatheredCells || float64(there) >= gatheredShare*float64(total) {
			break
		}
		there = plus(there, o.of(x.Result))
		named = append(named, c.cellName(x.CellID))
	}
	if float64(there) < gatheredShare*float64(total) {
		text := fmt.Sprintf(", in %d of %d cells", len(cells), counted)
		if shares {
			worst := slices.MaxFunc(cells, func(x, y *Cell) int { return cmp.Compare(failedShare(x.Result), failedShare(y.Result)) })
			text += fmt.Sprintf(", in %s most often: %s of its commands", c.cellName(worst.CellID), percent(failedShare(worst.Result)))
		}
		return text
	}
	many := ""
	switch {
	case there < total:
		many = thousands(there) + " of them "
	case total > 1:
		many = "all "
	}
	if len(named) == 1 {
		text := fmt.Sprintf(", %sin %s", many, named[0])
		separator := ", "
		if shares {
			text += fmt.Sprintf(": %s of its commands", percent(failedShare(cells[0].Result)))
		}
		if when := c.when(o, cells[0]); when != "" {
			text += separator + when
		}
		return text
	}
	for i := range named {
		about := []string{thousands(o.of(cells[i].Result))}
		if shares {
			about = append(about, percent(failedShare(cells[i].Result))+" of its commands")
		}
		if when := c.when(o, cells[i]); when != "" {
			about = append(about, when)
		}
		named[i] += " (" + strings.Join(about, ", ") + ")"
	}
	return fmt.Sprintf(", %sin %s", many, list(named))
}

// failedShare is the share of a cell's commands that failed.
func failedShare(n *record.Cell) float64 {
	return float64(n.Errors) / float64(max(plus(n.Errors, n.Commands), 1))
}

// when says in which short part of a cell's time something gathered; "" where
// it did not, or nothing says when it was.
func (c *Comparison) when(o occurrence, x *Cell) string {
	t := c.timeline(x)
	if t == nil || !o.known(&t.Trouble) || len(t.Trouble.Stretches) < leastStretches {
		return ""
	}
	stretches, total := t.Trouble.Stretches, o.of(x.Result)
	for long := 1; float64(long) <= max(gatheredTime*float64(len(stretches)), 1); long++ {
		first, most := 0, int64(0)
		for i := 0; i+long <= len(stretches); i++ {
			n := int64(0)
			for k := range long {
				n = plus(n, o.at(&stretches[i+k]))
			}
			if n > most {
				first, most = i, n
			}
		}
		if float64(most) < gatheredShare*float64(total) {
			continue
		}
		span := fmt.Sprintf("between minute %s and %s", clock(stretches[first].StartS), clock(stretches[first+long-1].EndS))
		if most < total {
			return thousands(most) + " of them " + span
		}
		return span
	}
	return ""
}

// timeline is the course of a cell, nil when there is none.
func (c *Comparison) timeline(x *Cell) *Timeline {
	g := c.groupOf(x.Size, x.Variant)
	for i := range c.Timelines {
		if t := &c.Timelines[i]; x.State == StateCounted && t.Group == g && t.Target == x.Target && t.Iteration == x.Iteration {
			return t
		}
	}
	return nil
}

// checkErrors says how many commands failed, and where.
func (b *builder) checkErrors(add addCheck) {
	var failed, sent, retried int64
	worst := 0.0
	for i := range b.c.Cells {
		x := &b.c.Cells[i]
		if !x.sound() {
			continue
		}
		n := x.Result
		failed, retried, sent = plus(failed, n.Errors), plus(retried, n.Retries), plus(plus(sent, n.Errors), n.Commands)
		worst = max(worst, failedShare(n))
	}
	again := ""
	if retried > 0 {
		commands := "commands"
		if retried == 1 {
			commands = "command"
		}
		again = fmt.Sprintf("; the driver sent %s %s a second time%s", thousands(retried), commands, b.c.where(repeatedAttempts(), false))
	}
	const name = "Errors"
	switch {
	case sent == 0:
	case failed == 0:
		add(name, OK, "no command failed%s", again)
	case worst > tolerableErrors:
		add(name, Unfair, "%s of %s commands failed%s; failures are in no throughput and no latency, but commands that fail do other work, and more than %s in one cell is too much to leave aside%s",
			thousands(failed), thousands(sent), b.c.where(failedCommands(), true), percent(tolerableErrors), again)
	default:
		add(name, Caution, "%s of %s commands failed%s; failures are in no throughput and no latency%s",
			thousands(failed), thousands(sent), b.c.where(failedCommands(), true), again)
	}
}

// fewFailures are so few commands that their number is chance.
const fewFailures = 10

// failuresDiffer says in a sentence, without its full stop, that commands
// failed on a target more or less often than on the one that it is compared
// with: at least twice as often, and not by a few. "" where they did not. Only
// sizes count at which both have a result.
func (c *Comparison) failuresDiffer(target string) string {
	t := c.target(target)
	if t < 0 {
		return ""
	}
	base := c.target(c.Targets[t].Baseline)
	if base < 0 {
		return ""
	}
	var failed, sent [2]int64
	for g := range c.Groups {
		pair := [2]*Summary{&c.Groups[g].Summaries[t], &c.Groups[g].Summaries[base]}
		if !pair[0].Shown() || !pair[1].Shown() {
			continue
		}
		for i, s := range pair {
			failed[i], sent[i] = plus(failed[i], s.Errors), plus(plus(sent[i], s.Errors), s.Commands)
		}
	}
	mine, others := float64(failed[0])/float64(max(sent[0], 1)), float64(failed[1])/float64(max(sent[1], 1))
	if max(failed[0], failed[1]) < fewFailures || max(mine, others) < 2*min(mine, others) {
		return ""
	}
	of := func(i int) string {
		if failed[i] == 0 {
			return "none"
		}
		return thousands(failed[i])
	}
	return fmt.Sprintf("%s of %s commands failed on %s and %s of %s on %s",
		of(0), thousands(sent[0]), target, of(1), thousands(sent[1]), c.Targets[base].Name)
}

// isTimeout tells whether a code says that a time limit ran out: the
// driver's, or the server's.
func isTimeout(code string) bool { return code == "Timeout" || code == "MaxTimeMSExpired" }

// errorTable lists failed commands by operation type and code, with what the
// record says of how long they took.
func (c *Comparison) errorTable() *sheet {
	t := &sheet{
		Caption: "Errors by code; failed commands are in no throughput and no latency",
		Columns: []column{
			{Head: "size"}, {Head: "target"}, {Head: "operation"}, {Head: "code", Wrap: true}, {Head: "failed", Right: true}, {Head: "share", Right: true},
			{Head: "time limit", Right: true}, {Head: "slowest success", Right: true},
		},
	}
	limited, unlimited := false, false
	for i := range c.Errors {
		e := &c.Errors[i]
		limit := noCell()
		if isTimeout(e.Code) {
			if d := c.runOf(&c.Targets[c.target(e.Target)]).Settings.OpTimeout; d > 0 {
				limit, limited = cell{Text: timeLimit(d.Seconds())}, true
			} else {
				limit, unlimited = cell{Text: "not set", Tone: toneMuted}, true
			}
		}
		slowest := noCell()
		if e.SlowestMS > 0 {
			slowest = cell{Text: number(e.SlowestMS) + " ms"}
		}
		t.Rows = append(t.Rows, row{Cells: []cell{
			{Text: c.Groups[e.Group].Label}, {Text: e.Target, Series: c.target(e.Target) + 1}, {Text: cmp.Or(e.Operation, none)}, {Text: e.Code},
			{Text: thousands(e.Count), Tone: toneBad}, {Text: percent(e.Share)}, limit, slowest,
		}})
	}
	t.Note = "Share: of all commands that the target was sent at the size. Slowest success: of the same operation type in the same cells. How long a failed command took is not recorded."
	if limited {
		t.Note += " Time limit: --op-timeout, after which the driver gives a command up, retries included."
	}
	if unlimited {
		t.Note += " No --op-timeout was set: what ran out was a limit of the driver's or of the server's own, which the record does not tell."
	}
	return t
}

// timeLimit writes a limit, which may be short.
func timeLimit(s float64) string {
	if s < 1 {
		return number(s*1000) + " ms"
	}
	return seconds(s)
}
