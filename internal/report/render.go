package report

import (
	"fmt"
	"io"
	"strings"
)

// The formats of Render.
const (
	FormatText     = "text"
	FormatMarkdown = "md"
	FormatHTML     = "html"
	FormatJSON     = "json"
	FormatCSV      = "csv"
	FormatBench    = "benchstat"
)

// Formats names the formats, in the order of a help text.
func Formats() []string {
	return []string{FormatText, FormatMarkdown, FormatHTML, FormatJSON, FormatCSV, FormatBench}
}

// Render writes c in the named format; text is without colour, Markdown
// without figures (MarkdownWithFigures has them). An unknown
// format is an error that names the known ones.
func Render(w io.Writer, format string, c *Comparison) error {
	switch format {
	case FormatText:
		return RenderText(w, c, TextOptions{})
	case FormatMarkdown:
		return renderMarkdown(w, c)
	case FormatHTML:
		return renderHTML(w, c)
	case FormatJSON:
		return renderJSON(w, c)
	case FormatCSV:
		return renderCSV(w, c)
	case FormatBench:
		return renderBenchstat(w, c)
	}
	return fmt.Errorf("unknown report format %q: use %s", format, strings.Join(Formats(), ", "))
}

// printable replaces control characters, which a hostile record could hold,
// so that they cannot reach a terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 {
			return '\uFFFD'
		}
		return r
	}, s)
}
