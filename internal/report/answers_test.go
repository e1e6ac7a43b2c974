package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"

	"github.com/mongo-sandbox/sandbox/internal/record"
)

// outcomes makes the content of an outcomes.csv.zst.
func outcomes(t testing.TB, list []record.Outcome) func() (*record.OutcomeReader, error) {
	t.Helper()
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		t.Fatal(err)
	}
	var lines, data []byte
	for i := range list {
		lines = list[i].AppendTo(lines)
		if len(lines) > 64<<10 || i == len(list)-1 {
			data = encoder.EncodeAll(lines, data)
			lines = lines[:0]
		}
	}
	return func() (*record.OutcomeReader, error) { return record.NewOutcomeReader(bytes.NewReader(data)) }
}

// answered is what a sound server answers to the first commands of workers,
// in an order that depends on the seed.
func answered(commands []int64, seed uint64, change func(*record.Outcome)) []record.Outcome {
	rng := rand.New(rand.NewPCG(seed, 1))
	next := make([]int64, len(commands))
	var list []record.Outcome
	for {
		var due []int
		for w := range commands {
			if next[w] < commands[w] {
				due = append(due, w)
			}
		}
		if len(due) == 0 {
			return list
		}
		w := due[rng.IntN(len(due))]
		o := record.Outcome{Worker: w, Command: next[w]}
		switch i := int64(w) + next[w]; i % 10 {
		case 0:
			o.Operation, o.Documents, o.Modified = "updateMany", 10, 10
		case 1:
			o.Operation, o.Documents = "deleteOne", 1
		case 2:
			o.Operation, o.Documents = "insertMany", 10
		default:
			o.Operation, o.Documents, o.Digest, o.Digested = "find", 5, uint32(i)*2654435761, true
		}
		if change != nil {
			change(&o)
		}
		list = append(list, o)
		next[w]++
	}
}

// answersRun is a run of two targets that recorded outcomes, 40 to 55
// commands of every worker on a and 55 to 40 on b, which may change them.
func answersRun(t testing.TB, change func(iteration int, o *record.Outcome)) Input {
	in := small(t)
	in.Run.Settings.RecordOutcomes = true
	in.Run.Settings.ReadPreference = "primary"
	in.Run.CommandLine = commandLine(&in.Run)
	for i := range in.Cells {
		c := &in.Cells[i]
		var commands []int64
		for w := range int64(16) {
			if c.ID.Target == "a" {
				commands = append(commands, 40+w)
			} else {
				commands = append(commands, 55-w)
			}
		}
		c.Outcomes = outcomes(t, answered(commands, uint64(i), func(o *record.Outcome) {
			if c.ID.Target == "b" && change != nil {
				change(c.ID.Iteration, o)
			}
		}))
	}
	return in
}

// answersDiffer is answersRun with a difference of every kind.
func answersDiffer(t testing.TB) Input {
	return answersRun(t, func(iteration int, o *record.Outcome) {
		switch i := iteration; {
		case i == 1 && o.Worker == 3 && o.Command == 5: // a find
			o.Digest++
		case i == 1 && o.Worker == 2 && o.Command == 18: // updateMany
			o.Modified = 9
		case i == 1 && o.Worker == 2 && o.Command == 21: // a find, after that
			o.Documents, o.Digest = 4, 1
		case i == 1 && o.Worker == 2 && o.Command == 39: // deleteOne, after that
			o.Documents = 0
		case i == 2 && o.Worker == 0 && o.Command == 2: // insertMany
			o.Error, o.Documents = "DuplicateKey", 3
		case i == 2 && o.Worker == 7 && o.Command == 47: // a only sent 47
			o.Documents = 99
		}
	})
}

func TestAnswersAlike(t *testing.T) {
	c := build(t, answersRun(t, nil))
	commands := int64(0)
	for w := range int64(16) {
		commands += min(40+w, 55-w)
	}
	if len(c.Answers) != 2 {
		t.Fatalf("%+v", c.Answers)
	}
	for _, a := range c.Answers {
		if a.Commands != commands || a.Differ() != 0 || a.Problem != "" || len(a.Examples) != 0 || a.Digested == 0 || len(a.Operations) != 4 {
			t.Errorf("%+v, want %d commands without a difference", a, commands)
		}
	}
	if check := c.check("Answers"); check.Status != OK || !strings.Contains(check.Text, thousands(2*commands)+" commands") {
		t.Errorf("%+v", check)
	}
	for _, format := range []string{FormatText, FormatMarkdown, FormatHTML} {
		if got := words(t, format, c); !strings.Contains(got, "b at 1k over 1,392 commands (2 iterations)") {
			t.Errorf("%s does not say over how many commands", format)
		}
	}
}

// words is a rendering without its line breaks and escapes.
func words(t testing.TB, format string, c *Comparison) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(string(render(t, format, c))), " "), `\`, "")
}

func TestAnswersDiffer(t *testing.T) {
	c := build(t, answersDiffer(t))
	want := [][]AnswersOperation{
		{
			{Type: "find", Commands: c.Answers[0].Operations[0].Commands, Count: 1, Content: 1, Following: 1},
			{Type: "updateMany", Commands: c.Answers[0].Operations[1].Commands, Modified: 1},
			{Type: "deleteOne", Commands: c.Answers[0].Operations[2].Commands, Count: 1, Following: 1},
			{Type: "insertMany", Commands: c.Answers[0].Operations[3].Commands},
		},
		{
			{Type: "find", Commands: c.Answers[1].Operations[0].Commands},
			{Type: "updateMany", Commands: c.Answers[1].Operations[1].Commands},
			{Type: "deleteOne", Commands: c.Answers[1].Operations[2].Commands},
			{Type: "insertMany", Commands: c.Answers[1].Operations[3].Commands, Error: 1},
		},
	}
	for i := range want {
		if diff := cmp.Diff(want[i], c.Answers[i].Operations); diff != "" {
			t.Error(diff)
		}
	}
	var examples []string
	for _, a := range c.Answers {
		for _, e := range a.Examples {
			examples = append(examples, strings.Join([]string{e.Kind, answerText(&e.Target), answerText(&e.Base)}, " | "))
		}
	}
	if diff := cmp.Diff([]string{
		"content | 5 returned, digest f1bbcd89 | 5 returned, digest f1bbcd88",
		"modified | 10 matched, 9 modified | 10 matched, 10 modified",
		"count | 4 returned, digest 00000001 | 5 returned, digest 36fbeee7",
		"error | DuplicateKey (3 inserted) | 10 inserted",
	}, examples); diff != "" {
		t.Error(diff)
	}
	if check := c.check("Answers"); check.Status != Caution || !strings.Contains(check.Text, "5 of 1,392 commands were answered otherwise by b than by a") {
		t.Errorf("%+v", check)
	}
	text := words(t, FormatText, c)
	for _, want := range []string{
		"b answered 5 of 1,392 commands otherwise than a",
		"sandbox workload print --worker 3 --op 5 --size 1000 --iteration 1 ", "--seed 178477", "a different answer is a finding, not a race",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the text lacks %q", want)
		}
	}

	var doc struct {
		Outcomes []struct {
			Commands, Differ, Findings int64
			Operations                 []map[string]any
			Examples                   []struct {
				Worker         int
				Op             int64
				Kind           string
				Answer         map[string]any
				BaselineAnswer map[string]any `json:"baseline_answer"`
				Print          string
			}
		}
	}
	if err := json.Unmarshal(render(t, FormatJSON, c), &doc); err != nil {
		t.Fatal(err)
	}
	if len(doc.Outcomes) != 2 || doc.Outcomes[0].Differ != 4 || doc.Outcomes[1].Findings != 1 {
		t.Fatalf("%+v", doc.Outcomes)
	}
	e := doc.Outcomes[1].Examples[0]
	if e.Worker != 0 || e.Op != 2 || e.Kind != AnswerError || e.Answer["error"] != "DuplicateKey" || e.BaselineAnswer["documents"] != 10.0 ||
		!strings.HasPrefix(e.Print, "sandbox workload print --worker 0 --op 2 --size 1000 --iteration 2 --workload flights --seed 178477") || strings.Contains(e.Print, `\`) {
		t.Errorf("%+v", e)
	}
}

// Secondaries may be behind: what they answer is no finding, what the
// primary answers is.
func TestAnswersOfSecondaries(t *testing.T) {
	in := answersDiffer(t)
	in.Run.Settings.ReadPreference = "secondaryPreferred"
	c := build(t, in)
	if a := &c.Answers[0]; a.Differ() != 4 || a.Findings() != 2 || !a.Operations[0].Stale || a.Operations[1].Stale {
		t.Errorf("%+v", a)
	}
	if first := c.Answers[0].Examples[0]; first.Kind != AnswerModified || first.Stale {
		t.Errorf("the first example is no finding: %+v", first)
	}
	if check := c.check("Answers"); check.Status != Caution || !strings.Contains(check.Text, "3 of 1,392 commands were answered otherwise") ||
		!strings.Contains(check.Text, "2 reads did, too, which says nothing") {
		t.Errorf("%+v", check)
	}
	if text := words(t, FormatText, c); !strings.Contains(text, "perhaps stale") || !strings.Contains(text, "With --read-preference primary") {
		t.Error("the text does not say that reads may have been stale")
	}
	only := answersRun(t, func(_ int, o *record.Outcome) { o.Digest++ })
	only.Run.Settings.ReadPreference = "secondary"
	c = build(t, only)
	if check := c.check("Answers"); check.Status != Caution || !strings.Contains(check.Text, "the writes among 1,392 commands were answered alike") {
		t.Errorf("%+v", check)
	}
	if text := words(t, FormatText, c); strings.Contains(text, "b answered ") || strings.Contains(text, "not a race") {
		t.Error("a stale read is called a finding")
	}
	alike := answersRun(t, nil)
	alike.Run.Settings.ReadPreference = "nearest"
	if check := build(t, alike).check("Answers"); check.Status != OK || !strings.Contains(check.Text, "and yet were alike") {
		t.Errorf("%+v", check)
	}
}

func TestAnswersAreNotNeeded(t *testing.T) {
	absent := func() (*record.OutcomeReader, error) { return nil, fs.ErrNotExist }
	in := small(t)
	for i := range in.Cells {
		in.Cells[i].Outcomes = absent
	}
	if c := build(t, in); len(c.Answers) != 0 || c.check("Answers") != (Check{}) || strings.Contains(words(t, FormatText, c), "Did they answer") {
		t.Errorf("%+v", c.Answers)
	}
	in.Run.Settings.RecordOutcomes = true
	if check := build(t, in).check("Answers"); check.Status != Caution || !strings.Contains(check.Text, "no two cells") {
		t.Errorf("%+v", check)
	}
	in = answersRun(t, nil)
	in.find(t, "b", 1000, 2).Outcomes = absent
	c := build(t, in)
	if check := c.check("Answers"); check.Status != Caution || !strings.Contains(check.Text, "b at 1k iteration 2: no outcomes of b are recorded") ||
		!strings.Contains(check.Text, "696 commands") {
		t.Errorf("%+v", check)
	}
}

func TestAnswersOfOlderRecords(t *testing.T) {
	c := build(t, answersRun(t, func(_ int, o *record.Outcome) { o.Digest, o.Digested = 0, false }))
	if c.Answers[0].Digested != 0 || c.Answers[0].Differ() != 0 {
		t.Errorf("%+v", c.Answers[0])
	}
	if check := c.check("Answers"); check.Status != OK || !strings.Contains(check.Text, "only the number of documents is known") {
		t.Errorf("%+v", check)
	}
}

func TestAnswersThatCannotBeCompared(t *testing.T) {
	compare := func(change func(*CellInput)) Answers {
		in := answersRun(t, nil)
		change(in.find(t, "b", 1000, 1))
		c := build(t, in)
		if c.Answers[1].Problem != "" || c.Answers[1].Commands != 696 {
			t.Errorf("the other iteration: %+v", c.Answers[1])
		}
		for _, format := range Formats() {
			render(t, format, c)
		}
		return c.Answers[0]
	}
	a := compare(func(c *CellInput) {
		c.Outcomes = outcomes(t, answered(slices.Repeat([]int64{50}, 16), 9, func(o *record.Outcome) {
			if o.Worker == 5 && o.Command == 31 {
				o.Operation = "aggregate"
			}
		}))
	})
	if !strings.Contains(a.Problem, "command 31 of worker 5 is aggregate on one target and find on the other") || a.Commands == 0 {
		t.Errorf("%+v", a)
	}
	a = compare(func(c *CellInput) {
		c.Outcomes = func() (*record.OutcomeReader, error) { return record.NewOutcomeReader(strings.NewReader("garbage")) }
	})
	if !strings.Contains(a.Problem, "line 1") || a.Commands != 0 {
		t.Errorf("%+v", a)
	}
	a = compare(func(c *CellInput) {
		c.Outcomes = func() (*record.OutcomeReader, error) { return nil, errors.New("no disk") }
	})
	if a.Problem != "no disk" {
		t.Errorf("%+v", a)
	}
	// A cell of another sequence is not compared at all.
	in := answersRun(t, nil)
	in.find(t, "b", 1000, 1).Cell.SequenceID = "other"
	if c := build(t, in); len(c.Answers) != 0 {
		t.Errorf("%+v", c.Answers)
	}
}

// Answers whose like does not come for long are not kept without end.
func TestAnswersOfWorkersFarApart(t *testing.T) {
	in := answersRun(t, nil)
	for _, target := range []string{"a", "b"} {
		order := []int{0, 1}
		if target == "b" {
			order = []int{1, 0}
		}
		var list []record.Outcome
		for _, w := range order {
			for i := range int64(maxPendingAnswers/2 + 10) { // both targets' are kept
				list = append(list, record.Outcome{Worker: w, Command: i, Operation: "deleteOne", Documents: 1})
			}
		}
		in.find(t, target, 1000, 1).Outcomes = outcomes(t, list)
	}
	a := build(t, in).Answers[0]
	if !strings.Contains(a.Problem, "too far apart") || a.Commands != 0 {
		t.Errorf("%+v", a)
	}
}

func TestAnswersFromDisk(t *testing.T) {
	in := answersDiffer(t)
	want := string(render(t, FormatText, build(t, in)))
	c, err := Load(write(t, in), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(render(t, FormatText, c))); diff != "" {
		t.Error(diff)
	}
}

// writeOutcomes puts a cell's outcomes into a record.
func writeOutcomes(t testing.TB, c *CellInput, cw *record.CellWriter) {
	t.Helper()
	if c.Outcomes == nil {
		return
	}
	r, err := c.Outcomes()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	sink, err := cw.Outcomes()
	if err != nil {
		t.Fatal(err)
	}
	var o record.Outcome
	var lines []byte
	for {
		err := r.Next(&o)
		if len(lines) > 100<<10 || err != nil {
			if _, err := sink.Write(lines); err != nil {
				t.Fatal(err)
			}
			lines = lines[:0]
		}
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		lines = o.AppendTo(lines)
	}
}

// BenchmarkAnswers compares three targets' answers to as many commands each,
// from disk; cpu-ns/command is for each of the three.
func BenchmarkAnswers(b *testing.B) {
	const commands = 300_000
	var f *forge
	targets := []record.Target{f.target("a", "community", "9.0", "9.0.4"), f.target("b", "psmdb", "psmdb-80", "8.0.34"), f.target("c", "psmdb", "psmdb-83", "8.3.13")}
	f = newForge(b, targets, []record.Size{{Documents: 1000, Label: "1k", Iterations: 1}}, 10*time.Second)
	f.window = 1
	f.run.Settings.OpsPerWorker = commands / 16
	f.throughput = map[int64]map[string]float64{1000: {"a": 31000, "b": 33000, "c": 32000}}
	in := f.input()
	in.Run.Settings.ReadPreference = "primary"
	for i := range in.Cells {
		in.Cells[i].Outcomes = outcomes(b, answered(slices.Repeat([]int64{commands / 16}, 16), uint64(i), nil))
	}
	dir := write(b, in)
	before := cpuSeconds(b)
	for b.Loop() {
		c, err := Load(dir, Options{})
		if err != nil {
			b.Fatal(err)
		}
		if len(c.Answers) != 2 || c.Answers[0].Commands != commands || c.Answers[1].Differ() != 0 {
			b.Fatalf("%+v", c.Answers)
		}
	}
	b.ReportMetric((cpuSeconds(b)-before)/float64(b.N)/3/commands*1e9, "cpu-ns/command")
}
