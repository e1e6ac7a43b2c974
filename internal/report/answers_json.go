package report

import (
	"strings"

	"github.com/mongo-sandbox/sandbox/internal/record"
)

// jsonAnswers says where a target answered differently than the baseline to
// the same commands. The list is empty unless outcomes were recorded.
// findings are the differences that no stale read explains; digested of the
// commands returned documents whose content was compared.
type jsonAnswers struct {
	Target     string                 `json:"target"`
	Baseline   string                 `json:"baseline"`
	Size       int64                  `json:"size"`
	Variant    string                 `json:"variant"`
	Iteration  int                    `json:"iteration"`
	Commands   int64                  `json:"commands"`
	Digested   int64                  `json:"digested"`
	Differ     int64                  `json:"differ"`
	Findings   int64                  `json:"findings"`
	Operations []jsonAnswersOperation `json:"operations"`
	Examples   []jsonAnswersExample   `json:"examples"`
	Problem    string                 `json:"problem,omitempty"`
}

// jsonAnswersOperation: the kinds of difference add up to differ; following
// of them came after a write of the same worker that failed or was answered
// differently.
type jsonAnswersOperation struct {
	Operation  string `json:"operation"`
	Commands   int64  `json:"commands"`
	Differ     int64  `json:"differ"`
	Error      int64  `json:"error"`
	Count      int64  `json:"count"`
	Modified   int64  `json:"modified"`
	Content    int64  `json:"content"`
	Following  int64  `json:"following"`
	MaybeStale bool   `json:"maybe_stale"`
}

// jsonAnswersExample is a command that was answered differently; print is
// the command line that prints it.
type jsonAnswersExample struct {
	Worker         int        `json:"worker"`
	Op             int64      `json:"op"`
	Operation      string     `json:"operation"`
	Kind           string     `json:"kind"`
	MaybeStale     bool       `json:"maybe_stale"`
	Following      bool       `json:"following"`
	Answer         jsonAnswer `json:"answer"`
	BaselineAnswer jsonAnswer `json:"baseline_answer"`
	Print          string     `json:"print"`
}

// jsonAnswer: documents were returned, matched, inserted or deleted; digest
// is empty when there is none.
type jsonAnswer struct {
	Error     string `json:"error,omitempty"`
	Documents int64  `json:"documents"`
	Modified  int64  `json:"modified"`
	Digest    string `json:"digest,omitempty"`
}

func newJSONAnswers(c *Comparison) []jsonAnswers {
	out := []jsonAnswers{}
	for i := range c.Answers {
		a := &c.Answers[i]
		x := jsonAnswers{
			Target: a.Target, Baseline: a.Baseline, Size: c.Groups[a.Group].Size, Variant: c.Groups[a.Group].Variant, Iteration: a.Iteration,
			Commands: a.Commands, Digested: a.Digested, Differ: a.Differ(), Findings: a.Findings(), Problem: a.Problem,
			Operations: []jsonAnswersOperation{}, Examples: []jsonAnswersExample{},
		}
		for k := range a.Operations {
			o := &a.Operations[k]
			x.Operations = append(x.Operations, jsonAnswersOperation{o.Type, o.Commands, o.Differ(), o.Error, o.Count, o.Modified, o.Content, o.Following, o.Stale})
		}
		for k := range a.Examples {
			e := &a.Examples[k]
			lines := c.printCommand(a, e)
			for n := range lines {
				lines[n] = strings.TrimSpace(strings.TrimSuffix(lines[n], "\\"))
			}
			x.Examples = append(x.Examples, jsonAnswersExample{
				Worker: e.Target.Worker, Op: e.Target.Command, Operation: e.Target.Operation, Kind: e.Kind, MaybeStale: e.Stale, Following: e.Following,
				Answer: newJSONAnswer(&e.Target), BaselineAnswer: newJSONAnswer(&e.Base), Print: strings.Join(lines, " "),
			})
		}
		out = append(out, x)
	}
	return out
}

func newJSONAnswer(o *record.Outcome) jsonAnswer {
	return jsonAnswer{Error: o.Error, Documents: o.Documents, Modified: o.Modified, Digest: digestText(o)}
}
