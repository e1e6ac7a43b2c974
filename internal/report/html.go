package report

import (
	_ "embed" // for the page
	"fmt"
	"html/template"
	"io"
	"regexp"
	"strings"
)

//go:embed page.html
var pageHTML string

// htmlPage is what the template shows.
type htmlPage struct {
	*page
	// Series are the places plus one of the targets, for the rules that
	// hide what the legend switches off.
	Series []int
	Footer string
}

// renderHTML writes one file that needs no other: styles, script and charts
// are inside.
func renderHTML(w io.Writer, c *Comparison) error {
	t, err := parsePage()
	if err != nil {
		return fmt.Errorf("parse the page: %w", err)
	}
	p := htmlPage{page: newPage(c)}
	for i := range c.Targets {
		p.Series = append(p.Series, i+1)
	}
	p.Footer = c.madeBy() + " Latencies are service times where they are not called response times; all intervals are 95 %."
	var buffer strings.Builder
	if err := t.Execute(&buffer, p); err != nil {
		return err
	}
	// What escaping leaves alone: control characters.
	for line := range strings.Lines(buffer.String()) {
		if _, err := io.WriteString(w, printable(strings.TrimSuffix(line, "\n"))+"\n"); err != nil {
			return err
		}
	}
	return nil
}

// numberAndUnit finds what belongs on one line: 5 %, 30 min, 2 h 5 min.
var numberAndUnit = regexp.MustCompile(`[0-9] (?:%|(?:h [0-9]+ min|per second|commands/s|[KMG]iB|min|ms|µs|s|h)\b)`)

// keepUnits keeps numbers and their units on one line, by spaces that do not
// break. What is to be copied must not go through it.
func keepUnits(s string) string {
	return numberAndUnit.ReplaceAllStringFunc(s, func(m string) string { return strings.ReplaceAll(m, " ", "\u00a0") })
}

// parsePage takes a millisecond; a package variable would be state.
func parsePage() (*template.Template, error) {
	return template.New("page").Funcs(template.FuncMap{
		"add":    func(a, b int) int { return a + b },
		"lookOf": lookOf,
		"mark":   checkMark,
		"keep":   keepUnits,
	}).Parse(pageHTML)
}

// checkMark is the word for a status.
func checkMark(s Status) string {
	switch s {
	case Caution:
		return "limit"
	case Unfair:
		return "unfair"
	}
	return "ok"
}
