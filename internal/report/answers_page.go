package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/mongo-sandbox/sandbox/internal/record"
)

// answersSum is the Answers of a target, of one group or all, over
// iterations.
type answersSum struct {
	commands, digested int64
	iterations         int
	operations         []AnswersOperation
	problems           []string
}

// answersOf adds up what is known of a target's answers in a group, or in
// all of them if that is below 0.
func (c *Comparison) answersOf(group int, target string) answersSum {
	var sum answersSum
	for i := range c.Answers {
		a := &c.Answers[i]
		if a.Target != target || group >= 0 && a.Group != group {
			continue
		}
		sum.commands += a.Commands
		sum.digested += a.Digested
		if a.Commands > 0 {
			sum.iterations++
		}
		if a.Problem != "" {
			sum.problems = append(sum.problems, fmt.Sprintf("%s at %s iteration %d: %s", target, c.Groups[a.Group].Label, a.Iteration, a.Problem))
		}
		for k := range a.Operations {
			o := &a.Operations[k]
			at := slices.IndexFunc(sum.operations, func(x AnswersOperation) bool { return x.Type == o.Type && x.Stale == o.Stale })
			if at < 0 {
				sum.operations = append(sum.operations, AnswersOperation{Type: o.Type, Stale: o.Stale})
				at = len(sum.operations) - 1
			}
			s := &sum.operations[at]
			s.Commands += o.Commands
			s.Error += o.Error
			s.Count += o.Count
			s.Modified += o.Modified
			s.Content += o.Content
			s.Following += o.Following
		}
	}
	slices.SortStableFunc(sum.operations, func(x, y AnswersOperation) int { return compareOperations(x.Type, y.Type) })
	return sum
}

func (s *answersSum) findings() (n int64) {
	for i := range s.operations {
		if o := &s.operations[i]; !o.Stale {
			n += o.Differ()
		}
	}
	return n
}

func (s *answersSum) differ() (n int64) {
	for i := range s.operations {
		n += s.operations[i].Differ()
	}
	return n
}

// checkAnswers says whether the targets answered alike.
func (b *builder) checkAnswers(add addCheck) {
	const name = "Answers"
	if len(b.c.Answers) == 0 {
		if b.c.Run.Settings.RecordOutcomes && len(b.c.Fairness.Sequences) > 0 {
			add(name, Caution, "outcomes were to be recorded, and are of no two cells that can be compared")
		}
		return
	}
	var commands, findings, stale int64
	var problems, where []string
	digested, staleReads := true, false
	for i := range b.c.Targets {
		s := b.c.answersOf(-1, b.c.Targets[i].Name)
		commands += s.commands
		findings += s.findings()
		stale += s.differ() - s.findings()
		problems = append(problems, s.problems...)
		if s.findings() > 0 {
			where = append(where, b.c.Targets[i].Name)
		}
		for k := range s.operations {
			if o := &s.operations[k]; isRead(o.Type) {
				staleReads = staleReads || o.Stale
				digested = digested && s.digested > 0
			}
		}
	}
	extra := ""
	if stale > 0 {
		extra += fmt.Sprintf("; %s reads did, too, which says nothing: they may have met a secondary that was behind", thousands(stale))
	} else if staleReads {
		extra += "; reads may have met secondaries that were behind, and yet were alike"
	}
	if !digested {
		extra += "; of what reads returned only the number of documents is known"
	}
	if len(problems) > 0 {
		extra += "; not all was compared: " + strings.Join(problems, "; ")
	}
	switch {
	case findings > 0:
		add(name, Caution, "%s of %s commands were answered otherwise by %s than by %s, as the next section shows%s",
			thousands(findings), thousands(commands), list(where), b.c.baselineWords(), extra)
	case commands == 0:
		add(name, Caution, "nothing was compared: %s", strings.Join(problems, "; "))
	case stale > 0:
		add(name, Caution, "the writes among %s commands were answered alike%s", thousands(commands), extra)
	case len(problems) > 0:
		add(name, Caution, "all of %s commands that were compared with the baseline's were answered alike%s", thousands(commands), extra)
	default:
		add(name, OK, "all of %s commands that were compared with the baseline's were answered alike%s", thousands(commands), extra)
	}
}

func isRead(operation string) bool { return operation == "find" || operation == "aggregate" }

func (c *Comparison) answersSection() section {
	s := section{ID: "answers", Title: "Did they answer the same?"}
	if len(c.Answers) == 0 {
		return s
	}
	var alike []string
	t := &sheet{
		Caption: "Commands that were answered otherwise than by " + c.baselineWords(),
		Columns: []column{
			{Head: "size"}, {Head: "target"}, {Head: "operation"}, {Head: "compared", Right: true}, {Head: "differ", Right: true},
			{Head: "error", Right: true}, {Head: "count", Right: true}, {Head: "modified", Right: true}, {Head: "content", Right: true},
			{Head: "following", Right: true}, {Head: "meaning", Whole: true},
		},
		Note: "Every command counts once, by the first that applies: another error, another number of documents returned, matched, inserted or deleted, " +
			"of documents modified, as many documents with another content. Following: after a write of the same worker that failed or was answered otherwise, so perhaps because of it.",
	}
	findings, stale := false, false
	for g := range c.Groups {
		for i := range c.Targets {
			sum := c.answersOf(g, c.Targets[i].Name)
			if sum.commands == 0 {
				continue
			}
			if sum.differ() == 0 {
				alike = append(alike, fmt.Sprintf("%s at %s over %s commands (%s)", c.Targets[i].Name, c.Groups[g].Label, thousands(sum.commands), plural(sum.iterations, "iteration", "iterations")))
				continue
			}
			first := true
			for k := range sum.operations {
				o := &sum.operations[k]
				if o.Differ() == 0 {
					continue
				}
				meaning := cell{Text: "finding", Tone: toneBad}
				if o.Stale {
					meaning = cell{Text: "perhaps stale", Tone: toneMuted}
				}
				findings, stale = findings || !o.Stale, stale || o.Stale
				r := row{First: first && len(t.Rows) > 0, Cells: []cell{
					{Text: c.Groups[g].Label, Repeat: !first}, {Text: c.Targets[i].Name, Series: i + 1, Repeat: !first}, {Text: o.Type}, {Text: thousands(o.Commands)},
				}}
				for _, n := range []int64{o.Differ(), o.Error, o.Count, o.Modified, o.Content, o.Following} {
					if n == 0 {
						r.Cells = append(r.Cells, noCell())
					} else {
						r.Cells = append(r.Cells, cell{Text: thousands(n)})
					}
				}
				r.Cells = append(r.Cells, meaning)
				t.Rows = append(t.Rows, r)
				first = false
			}
		}
	}
	if findings {
		s.Blocks = append(s.Blocks, block{Text: "Some commands were answered differently. The commands and the data are the same, and with reads from the primary " +
			"the answers to a worker's commands do not depend on the other workers: a different answer is a finding, not a race. " +
			"A find without an order may return any of the documents that match, up to its limit, so that another plan can change its content."})
	}
	if stale {
		s.Blocks = append(s.Blocks, block{Text: "Reads went to secondaries, or could (read preference " + cmp.Or(c.Run.Settings.ReadPreference, none) +
			"): one that was behind answers differently, so that their differences say nothing. With --read-preference primary they would be findings."})
	}
	if len(alike) > 0 {
		s.Blocks = append(s.Blocks, block{Text: "Every command was answered as by " + c.baselineWords() + ", with the same error or none and the same counts" + c.contentToo() + ":"}, block{List: alike})
	}
	s.Blocks = append(s.Blocks, block{Table: t})
	return section{ID: s.ID, Title: s.Title, Blocks: append(s.withoutEmpty().Blocks, c.answersExamples()...)}
}

func (c *Comparison) contentToo() string {
	for i := range c.Answers {
		if c.Answers[i].Digested > 0 {
			return ", and the same content of what it read"
		}
	}
	return ""
}

// answersExamples shows the first commands that were answered differently,
// and how to print them.
func (c *Comparison) answersExamples() []block {
	t := &sheet{
		Caption: "The first of them",
		Columns: []column{
			{Head: "size"}, {Head: "it.", Right: true}, {Head: "worker", Right: true}, {Head: "op", Right: true}, {Head: "operation"},
			{Head: "target"}, {Head: "its answer", Wrap: true}, {Head: "that of " + c.baselineWords(), Wrap: true},
		},
	}
	var first []string
	var group, target = -1, ""
	for i := range c.Answers {
		a := &c.Answers[i]
		for k := range a.Examples {
			e := &a.Examples[k]
			if first == nil {
				first = c.printCommand(a, e)
			}
			t.Rows = append(t.Rows, row{First: (a.Group != group || a.Target != target) && len(t.Rows) > 0, Cells: []cell{
				{Text: c.Groups[a.Group].Label}, {Text: fmt.Sprint(a.Iteration)}, {Text: fmt.Sprint(e.Target.Worker)}, {Text: fmt.Sprint(e.Target.Command)},
				{Text: e.Target.Operation}, {Text: a.Target, Series: c.target(a.Target) + 1}, {Text: answerText(&e.Target)}, {Text: answerText(&e.Base)},
			}})
			group, target = a.Group, a.Target
		}
	}
	if len(t.Rows) == 0 {
		return nil
	}
	return []block{
		{Table: t},
		{Text: "Every command can be made again without a server, by its size, iteration, worker and number (op). This prints the first of the table:"},
		{Code: first},
	}
}

// printCommand is the command line that prints an example, in lines.
func (c *Comparison) printCommand(a *Answers, e *AnswersExample) []string {
	return c.workloadCommand([]string{
		"sandbox", "workload", "print", "--worker", fmt.Sprint(e.Target.Worker), "--op", fmt.Sprint(e.Target.Command),
		"--size", fmt.Sprint(c.Groups[a.Group].Size), "--iteration", fmt.Sprint(c.runIteration(c.Groups[a.Group].Size, a.Iteration)),
	})
}

// answerText is an outcome in words.
func answerText(o *record.Outcome) string {
	var text string
	switch n := thousands(o.Documents); o.Operation {
	case "find", "aggregate":
		text = n + " returned"
		if digest := digestText(o); digest != "" {
			text += ", digest " + digest
		}
	case "updateOne", "updateMany":
		text = fmt.Sprintf("%s matched, %s modified", n, thousands(o.Modified))
	case "deleteOne", "deleteMany":
		text = n + " deleted"
	case "insertOne", "insertMany":
		text = n + " inserted"
	default:
		text = n + " documents"
	}
	if o.Error != "" {
		return o.Error + " (" + text + ")"
	}
	return text
}

func digestText(o *record.Outcome) string {
	if !o.Digested {
		return ""
	}
	return fmt.Sprintf("%08x", o.Digest)
}
