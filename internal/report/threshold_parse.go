package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/agext/levenshtein"
)

// ThresholdGrammar is the form of a threshold, for a help text.
const ThresholdGrammar = "METRIC [of OPERATION] TARGET vs TARGET >=|<= PERCENT% [at SIZE]"

// Threshold is a claim about the difference of one target from another.
type Threshold struct {
	// Text is the claim as typed.
	Text   string
	Metric string // one of the Metric… constants
	// Operation is an operation type, or AllOperations; "" is that, too.
	Operation string
	Target    string
	// Baseline is the target that it is compared with, which need not be the
	// run's.
	Baseline string
	// AtLeast: the difference is to be Percent or more, else Percent or
	// less.
	AtLeast bool
	Percent float64 // -5 is 5 % less than the other's
	Size    string  // as typed; empty is every size

	operationColumn, targetColumn, baselineColumn, sizeColumn int
}

// SyntaxError is a mistake in a threshold.
type SyntaxError struct {
	Text    string
	Column  int // of the character where it is, from 1
	Problem string
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("check %q, column %d: %s", e.Text, e.Column, e.Problem)
}

// thresholdMetrics are the words for metrics.
var thresholdMetrics = [...]struct{ word, metric string }{
	{"throughput", MetricThroughput}, {"mean", MetricMean}, {"p50", MetricP50}, {"p95", MetricP95}, {"p99", MetricP99}, {"p99.9", MetricP999}, {"cpu", MetricCPUPrimary},
	{"cpu-secondaries", MetricCPUSecondary},
}

// token is a word or an operator of a threshold.
type token struct {
	text   string
	column int
}

// ParseThreshold reads a threshold such as
//
//	throughput psmdb80 vs mongo9 >= -5% at 4M
//	p95 of updateOne psmdb80 vs mongo9 <= 10%
//
// The metrics are throughput, mean, p50, p95, p99 and p99.9 (latency), cpu
// (server CPU per command, primary) and cpu-secondaries; of one operation type
// mean, p50, p95 and p99. The error is a *SyntaxError. Whether the operation
// type, the targets and the size exist is for Build to find.
func ParseThreshold(text string) (Threshold, error) {
	p := thresholdParser{text: text, tokens: thresholdTokens(text)}
	t := Threshold{Text: strings.Join(strings.Fields(text), " ")}
	metric, err := p.word("a metric: " + metricList())
	if err != nil {
		return t, err
	}
	words := make([]string, 0, len(thresholdMetrics))
	for _, m := range thresholdMetrics {
		words = append(words, m.word)
		if m.word == metric.text {
			t.Metric = m.metric
		}
	}
	if t.Metric == "" {
		return t, p.fail(metric, "%q is no metric%s; want %s", metric.text, didYouMean(metric.text, words), metricList())
	}
	if err := p.operation(&t, metric.text); err != nil {
		return t, err
	}
	target, err := p.word("a target")
	if err != nil {
		return t, err
	}
	if err := p.keyword("vs"); err != nil {
		return t, err
	}
	baseline, err := p.word("the target to compare it with")
	if err != nil {
		return t, err
	}
	if baseline.text == target.text {
		return t, p.fail(baseline, "%s is compared with itself", baseline.text)
	}
	t.Target, t.targetColumn = target.text, target.column
	t.Baseline, t.baselineColumn = baseline.text, baseline.column
	switch op := p.next(); op.text {
	case ">=":
		t.AtLeast = true
	case "<=":
	case "":
		return t, p.fail(op, "it ends where >= or <= should be")
	default:
		return t, p.fail(op, "%q: want >= or <=", op.text)
	}
	if t.Percent, err = p.percent(); err != nil {
		return t, err
	}
	at := p.next()
	if at.text == "" {
		return t, nil
	}
	if at.text != "at" {
		return t, p.fail(at, "%q: after the percentage only \"at SIZE\" may follow", at.text)
	}
	size, err := p.word("a size, such as 4M")
	if err != nil {
		return t, err
	}
	t.Size, t.sizeColumn = size.text, size.column
	if rest := p.next(); rest.text != "" {
		return t, p.fail(rest, "%q: nothing may follow the size", rest.text)
	}
	return t, nil
}

// String writes a threshold as ParseThreshold reads it.
func (t *Threshold) String() string {
	metric, op := "", "<="
	for _, m := range thresholdMetrics {
		if m.metric == t.Metric {
			metric = m.word
		}
	}
	if t.AtLeast {
		op = ">="
	}
	if t.Operation != AllOperations {
		metric += " of " + t.Operation
	}
	text := fmt.Sprintf("%s %s vs %s %s %s%%", metric, t.Target, t.Baseline, op, strconv.FormatFloat(t.Percent, 'f', -1, 64))
	if t.Size != "" {
		text += " at " + t.Size
	}
	return text
}

// operation reads "of OPERATION". A target may be called "of": then "vs"
// follows.
func (p *thresholdParser) operation(t *Threshold, metric string) error {
	t.Operation = AllOperations
	if p.at >= len(p.tokens) || p.tokens[p.at].text != "of" || p.at+1 < len(p.tokens) && p.tokens[p.at+1].text == "vs" {
		return nil
	}
	of := p.next()
	operation, err := p.word("an operation type, such as updateOne,")
	if err != nil {
		return err
	}
	switch t.Metric {
	case MetricMean, MetricP50, MetricP95, MetricP99:
	default:
		return p.fail(of, "%s is known of all commands together only; want mean, p50, p95 or p99 of an operation type", metric)
	}
	t.Operation, t.operationColumn = operation.text, operation.column
	return nil
}

func metricList() string {
	words := make([]string, len(thresholdMetrics))
	for i, m := range thresholdMetrics {
		words[i] = m.word
	}
	return strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
}

// thresholdTokens cuts a text at white space and around operators.
func thresholdTokens(text string) []token {
	var out []token
	column, start := 0, -1
	var word strings.Builder
	flush := func() {
		if start >= 0 {
			out = append(out, token{word.String(), start})
			word.Reset()
			start = -1
		}
	}
	operator := false // the word so far is one
	for _, r := range text {
		column++
		switch {
		case unicode.IsSpace(r):
			flush()
			operator = false
			continue
		case r == '<' || r == '>':
			if !operator {
				flush()
			}
			operator = true
		case operator && r != '=':
			flush()
			operator = false
		}
		if start < 0 {
			start = column
		}
		word.WriteRune(r)
	}
	flush()
	return out
}

type thresholdParser struct {
	text   string
	tokens []token
	at     int
}

// next is the next token; one without text stands after the last.
func (p *thresholdParser) next() token {
	if p.at >= len(p.tokens) {
		return token{column: utf8.RuneCountInString(strings.TrimRight(p.text, " \t\n")) + 1}
	}
	p.at++
	return p.tokens[p.at-1]
}

func (p *thresholdParser) fail(at token, format string, args ...any) error {
	return &SyntaxError{Text: p.text, Column: at.column, Problem: fmt.Sprintf(format, args...)}
}

// word takes a token that is no operator.
func (p *thresholdParser) word(what string) (token, error) {
	t := p.next()
	switch {
	case t.text == "":
		return t, p.fail(t, "it ends where %s should be", what)
	case strings.ContainsAny(t.text, "<>"):
		return t, p.fail(t, "%q: want %s", t.text, what)
	}
	return t, nil
}

func (p *thresholdParser) keyword(word string) error {
	t, err := p.word(fmt.Sprintf("%q", word))
	if err == nil && t.text != word {
		err = p.fail(t, "%q: want %q", t.text, word)
	}
	return err
}

func (p *thresholdParser) percent() (float64, error) {
	t, err := p.word("a percentage, such as -5%")
	if err != nil {
		return 0, err
	}
	digits, found := strings.CutSuffix(t.text, "%")
	if !found && p.at < len(p.tokens) && p.tokens[p.at].text == "%" {
		p.at++
		found = true
	}
	if !found {
		return 0, p.fail(t, "%q: want a percentage, such as -5%%", t.text)
	}
	plain := !strings.ContainsFunc(digits, func(r rune) bool { return (r < '0' || r > '9') && !strings.ContainsRune("+-.", r) })
	v, err := strconv.ParseFloat(digits, 64)
	if err != nil || !plain {
		return 0, p.fail(t, "%q: want a percentage, such as -5%%", t.text)
	}
	const most = 1e6
	if v <= -100 || v > most || math.IsNaN(v) {
		return 0, p.fail(t, "%s: a difference lies between -100%% and %d%%", t.text, int(most))
	}
	return v, nil
}

// didYouMean is the nearest of the known words, as a question; empty when
// none is near.
func didYouMean(word string, known []string) string {
	best, distance := "", 1+len(word)/2
	for _, k := range known {
		if d := levenshtein.Distance(strings.ToLower(word), strings.ToLower(k), nil); d < distance {
			best, distance = k, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf(", did you mean %s?", best)
}
