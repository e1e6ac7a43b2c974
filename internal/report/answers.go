package report

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/mongo-sandbox/sandbox/internal/record"
)

// Answers compares what a target and the baseline answered to the same
// commands, in one size and iteration: to the first commands of every worker,
// as many as both were sent.
type Answers struct {
	Group     int // index in Comparison.Groups
	Iteration int
	Target    string
	Baseline  string
	// Commands were compared; Digested of them by the content of what they
	// returned, too.
	Commands, Digested int64
	Operations         []AnswersOperation // in the order they are shown
	// Examples are the first commands that were answered differently.
	Examples []AnswersExample
	// Problem is why no or not all commands could be compared, else "".
	Problem string
}

// AnswersOperation is one operation type's share of Answers. Of a command
// only the first kind of difference counts, in the order of the fields.
type AnswersOperation struct {
	Type     string
	Commands int64
	// Stale: reads were not bound to the primary, so that a difference may
	// be a secondary's that was behind. Otherwise it is a finding: the
	// answers to a worker's commands do not depend on the other workers.
	Stale bool
	// Error: one failed, or both with different errors. Count: another
	// number of documents returned, matched, inserted or deleted. Modified:
	// of documents modified. Content: as many documents, and different ones.
	Error, Count, Modified, Content int64
	// Following differences came after a write of the same worker that
	// failed or was answered differently, and may be its consequence.
	Following int64
}

// Differ is the number of commands that were answered differently.
func (o *AnswersOperation) Differ() int64 { return o.Error + o.Count + o.Modified + o.Content }

// Findings are the commands that no stale read explains.
func (a *Answers) Findings() (n int64) {
	for i := range a.Operations {
		if o := &a.Operations[i]; !o.Stale {
			n += o.Differ()
		}
	}
	return n
}

// Differ is the number of commands that were answered differently.
func (a *Answers) Differ() (n int64) {
	for i := range a.Operations {
		n += a.Operations[i].Differ()
	}
	return n
}

// The kinds of difference between two answers.
const (
	AnswerError    = "error"
	AnswerCount    = "count"
	AnswerModified = "modified"
	AnswerContent  = "content"
)

// AnswersExample is a command that was answered differently.
type AnswersExample struct {
	Kind string
	// Stale and Following as in AnswersOperation.
	Stale, Following bool
	Target, Base     record.Outcome
}

const (
	// maxAnswersExamples of one Answers are kept.
	maxAnswersExamples = 3
	// maxPendingAnswers bounds the answers of both targets of a pair of cells
	// that wait for their like of the other, because one target's workers
	// went on at another pace than the other's. At 56 bytes each they are 29
	// MB, twice that where their lists have just grown, for each of
	// answersTasks pairs.
	maxPendingAnswers = 1 << 19
	// answersTasks are compared at a time; each holds two decoders and what
	// is pending.
	answersTasks = 2
)

// answers compares the outcomes of the counted cells with the baseline's.
func (b *builder) answers() {
	type pair struct {
		at   int // in Comparison.Answers
		x, y *CellInput
	}
	var pairs []pair
	for g := range b.c.Groups {
		for t := range b.c.Targets {
			base := b.c.target(b.c.Targets[t].Baseline)
			if base < 0 || !b.c.Groups[g].Summaries[t].Shown() || !b.c.Groups[g].Summaries[base].Shown() {
				continue
			}
			for _, x := range b.counted[g][t] {
				i := slices.IndexFunc(b.counted[g][base], func(y *CellInput) bool { return y.ID.Iteration == x.ID.Iteration })
				if i < 0 || x.Outcomes == nil || b.counted[g][base][i].Outcomes == nil {
					continue
				}
				pairs = append(pairs, pair{len(b.c.Answers), x, b.counted[g][base][i]})
				b.c.Answers = append(b.c.Answers, Answers{Group: g, Iteration: x.ID.Iteration, Target: b.c.Targets[t].Name, Baseline: b.c.Targets[base].Name})
			}
		}
	}
	recorded := make([]bool, len(b.c.Answers))
	var tasks errgroup.Group
	tasks.SetLimit(answersTasks)
	for _, p := range pairs {
		tasks.Go(func() error {
			recorded[p.at] = b.compareAnswers(&b.c.Answers[p.at], p.x, p.y)
			return nil
		})
	}
	_ = tasks.Wait()
	kept := b.c.Answers[:0]
	for i := range b.c.Answers {
		if recorded[i] {
			kept = append(kept, b.c.Answers[i])
		}
	}
	b.c.Answers = slices.Clip(kept)
}

// compareAnswers fills a from the cells of the target and the baseline. It
// returns false when neither has recorded anything.
func (b *builder) compareAnswers(a *Answers, target, base *CellInput) bool {
	x, xErr := target.Outcomes()
	y, yErr := base.Outcomes()
	for _, r := range []*record.OutcomeReader{x, y} {
		if r != nil {
			defer func() { _ = r.Close() }()
		}
	}
	var without []string
	for _, side := range []struct {
		in  *CellInput
		err error
	}{{target, xErr}, {base, yErr}} {
		switch {
		case errors.Is(side.err, fs.ErrNotExist):
			without = append(without, side.in.ID.Target)
		case side.err != nil:
			a.Problem = joinReasons(a.Problem, side.err.Error())
		}
	}
	if len(without) == 2 {
		return false
	}
	if len(without) == 1 {
		a.Problem = joinReasons(a.Problem, "no outcomes of "+without[0]+" are recorded")
	}
	if a.Problem != "" {
		return true
	}
	c := &answersComparer{answers: a, stale: !b.primaryReads(target) || !b.primaryReads(base)}
	c.sides[0].reader, c.sides[1].reader = x, y
	if err := c.run(); err != nil {
		a.Problem = err.Error()
	}
	slices.SortFunc(a.Operations, func(x, y AnswersOperation) int { return compareOperations(x.Type, y.Type) })
	return true
}

// primaryReads tells whether a cell's reads all went to the primary, which
// is what drivers do when nothing is said.
func (b *builder) primaryReads(in *CellInput) bool {
	preference := b.settings(in).ReadPreference
	return preference == "" || strings.EqualFold(preference, "primary")
}

// answer is an Outcome that waits for its like.
type answer struct {
	operation, failure  string
	documents, modified int64
	digest              uint32
	digested            bool
}

// answersSide is one target's outcomes, and by worker those that the other
// target's are not there yet for.
type answersSide struct {
	reader  *record.OutcomeReader
	read    int64
	waiting []answersQueue
	pending int
	ended   bool
}

// answersQueue holds consecutive answers of a worker.
type answersQueue struct {
	list []answer
	head int
}

func (q *answersQueue) push(a *answer) {
	if q.head > 1024 && q.head > len(q.list)/2 {
		q.list = q.list[:copy(q.list, q.list[q.head:])]
		q.head = 0
	}
	q.list = append(q.list, *a)
}

func (q *answersQueue) pop() (answer, bool) {
	if q.head == len(q.list) {
		return answer{}, false
	}
	a := q.list[q.head]
	q.head++
	if q.head == len(q.list) {
		q.list, q.head = q.list[:0], 0
	}
	return a, true
}

func (s *answersSide) of(worker int) *answersQueue {
	for len(s.waiting) <= worker {
		s.waiting = append(s.waiting, answersQueue{})
	}
	return &s.waiting[worker]
}

// answersComparer reads two cells' outcomes side by side. Each file has the
// commands of every worker in order, and the workers mixed as they were
// answered.
type answersComparer struct {
	answers  *Answers
	stale    bool
	sides    [2]answersSide // the target's and the baseline's
	diverged []bool         // by worker
}

func (c *answersComparer) run() error {
	var o record.Outcome
	for {
		side, other := &c.sides[0], &c.sides[1]
		if side.ended || !other.ended && other.read < side.read {
			side, other = other, side
		}
		if side.ended || other.ended && other.pending == 0 {
			return nil
		}
		err := side.reader.Next(&o)
		if errors.Is(err, io.EOF) {
			side.ended = true
			continue
		}
		if err != nil {
			return err
		}
		side.read++
		mine := answer{o.Operation, o.Error, o.Documents, o.Modified, o.Digest, o.Digested}
		theirs, found := other.of(o.Worker).pop()
		switch {
		case found:
			other.pending--
			if side == &c.sides[1] {
				mine, theirs = theirs, mine
			}
			if mine.operation != theirs.operation {
				return fmt.Errorf("command %d of worker %d is %s on one target and %s on the other: the commands are not the same",
					o.Command, o.Worker, mine.operation, theirs.operation)
			}
			c.compare(o.Worker, o.Command, &mine, &theirs)
		case other.ended: // the other target was not sent it
		case side.pending+other.pending >= maxPendingAnswers:
			return errors.New("the workers' paces are too far apart: the rest is not compared")
		default:
			side.of(o.Worker).push(&mine)
			side.pending++
		}
	}
}

func (c *answersComparer) compare(worker int, command int64, target, base *answer) {
	a := c.answers
	a.Commands++
	digested := target.digested && base.digested
	if digested {
		a.Digested++
	}
	i := slices.IndexFunc(a.Operations, func(o AnswersOperation) bool { return o.Type == target.operation })
	read := isRead(target.operation)
	if i < 0 {
		i = len(a.Operations)
		a.Operations = append(a.Operations, AnswersOperation{Type: target.operation, Stale: read && c.stale})
	}
	o := &a.Operations[i]
	o.Commands++
	for len(c.diverged) <= worker {
		c.diverged = append(c.diverged, false)
	}
	following := c.diverged[worker]
	kind := ""
	switch {
	case target.failure != base.failure:
		kind = AnswerError
		o.Error++
	case target.documents != base.documents:
		kind = AnswerCount
		o.Count++
	case target.modified != base.modified:
		kind = AnswerModified
		o.Modified++
	case digested && target.digest != base.digest:
		kind = AnswerContent
		o.Content++
	}
	if !read && (kind != "" || target.failure != "") {
		// Who failed may have been carried out or not.
		c.diverged[worker] = true
	}
	if kind == "" {
		return
	}
	if following {
		o.Following++
	}
	outcome := func(x *answer) record.Outcome {
		return record.Outcome{
			Worker: worker, Command: command, Operation: x.operation, Error: x.failure,
			Documents: x.documents, Modified: x.modified, Digest: x.digest, Digested: x.digested,
		}
	}
	a.example(AnswersExample{Kind: kind, Stale: o.Stale, Following: following, Target: outcome(target), Base: outcome(base)})
}

// example keeps e if it is among the first: findings come before what may be
// stale, what follows from nothing before what may, then lower numbers.
func (a *Answers) example(e AnswersExample) {
	at := slices.IndexFunc(a.Examples, func(x AnswersExample) bool {
		return cmp.Or(
			cmp.Compare(e.rank(), x.rank()),
			cmp.Compare(e.Target.Command, x.Target.Command),
			cmp.Compare(e.Target.Worker, x.Target.Worker),
		) < 0
	})
	if at < 0 {
		at = len(a.Examples)
	}
	if at < maxAnswersExamples {
		a.Examples = slices.Insert(a.Examples, at, e)
		a.Examples = a.Examples[:min(len(a.Examples), maxAnswersExamples)]
	}
}

func (e *AnswersExample) rank() (n int) {
	if e.Stale {
		n += 2
	}
	if e.Following {
		n++
	}
	return n
}
