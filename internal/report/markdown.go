package report

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/url"
	"strings"
)

// renderMarkdown writes GitHub-flavoured Markdown without figures.
func renderMarkdown(w io.Writer, c *Comparison) error {
	m := &markdownWriter{w: bufio.NewWriter(w)}
	m.page(newPage(c))
	return m.w.Flush()
}

// MarkdownWithFigures is the report as GitHub-flavoured Markdown and the
// figures that it shows, which belong into folder, a path relative to the
// text, with slashes.
func MarkdownWithFigures(c *Comparison, folder string) (text []byte, figures []File, err error) {
	var b bytes.Buffer
	m := &markdownWriter{w: bufio.NewWriter(&b), folder: folder}
	p := newPage(c)
	m.page(p)
	if err := m.w.Flush(); err != nil {
		return nil, nil, err
	}
	figures, err = c.figureFiles(p.figures())
	return b.Bytes(), figures, err
}

// figures are those of all sections.
func (p *page) figures() []*figure {
	var out []*figure
	for _, s := range p.Sections {
		for _, b := range s.Blocks {
			if b.Figure != nil {
				out = append(out, b.Figure)
			}
		}
	}
	return out
}

type markdownWriter struct {
	w      *bufio.Writer
	folder string // of the figures, "" without them
}

func (m *markdownWriter) line(format string, args ...any) {
	_, _ = fmt.Fprintf(m.w, format+"\n", args...)
}

// escape keeps text from being read as Markdown or HTML.
func escape(s string) string {
	var b strings.Builder
	for _, r := range printable(s) {
		if strings.ContainsRune("\\`*_<>[]|~#&", r) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}

func (m *markdownWriter) page(p *page) {
	for i, l := range p.Banner {
		if i == 0 {
			m.line("> [!CAUTION]\n> **%s**", escape(l))
			continue
		}
		m.line(">\n> %s", escape(l))
	}
	if len(p.Banner) > 0 {
		m.line("")
	}
	m.line("# %s\n", escape(p.Title))
	for _, s := range p.Subtitle {
		m.line("%s\n", escape(s))
	}
	for _, g := range p.Glance {
		for i, answer := range g.Answers {
			if i == 0 {
				m.line("- **%s** %s", escape(g.Question), escape(answer))
			} else {
				m.line("  - %s", escape(answer))
			}
		}
	}
	for i, s := range p.Sections {
		m.line("\n## %d. %s", i+1, escape(s.Title))
		for _, b := range s.Blocks {
			m.block(b)
		}
	}
}

func (m *markdownWriter) block(b block) {
	switch {
	case b.Text != "":
		m.line("\n%s", escape(b.Text))
	case len(b.Checks) > 0:
		m.line("\n| | check | finding |\n|---|---|---|")
		for _, c := range b.Checks {
			mark := "ok"
			switch c.Status {
			case Caution:
				mark = "limit"
			case Unfair:
				mark = "**UNFAIR**"
			}
			m.line("| %s | %s | %s |", mark, escape(c.Name), escape(c.Text))
		}
	case len(b.List) > 0:
		m.line("")
		for _, item := range b.List {
			m.line("- %s", escape(item))
		}
	case len(b.Code) > 0:
		m.line("\n```sh")
		for _, l := range b.Code {
			// A fence inside the text must not end the block.
			m.line("%s", strings.ReplaceAll(printable(l), "```", "` ` `"))
		}
		m.line("```")
	case b.Table != nil:
		m.table(b.Table)
	case b.Figure != nil && m.folder != "":
		link := &url.URL{Path: m.folder + "/" + b.Figure.ID + ".svg"}
		// Parentheses would end the link.
		target := strings.NewReplacer("(", "%28", ")", "%29").Replace(link.EscapedPath())
		m.line("\n**%s**\n\n![%s](%s)\n\n*%s*", escape(b.Figure.Title), escape(b.Figure.Alt), target, escape(b.Figure.Caption))
	}
}

func (m *markdownWriter) table(x *sheet) {
	m.line("\n**%s**\n", escape(x.Caption))
	head, rule := "|", "|"
	for _, column := range x.Columns {
		head += " " + escape(strings.TrimSpace(column.Head)) + " |"
		if column.Right {
			rule += "---:|"
		} else {
			rule += "---|"
		}
	}
	m.line("%s\n%s", head, rule)
	for _, r := range x.Rows {
		line := "|"
		for _, c := range r.Cells {
			line += " " + escape(strings.TrimSpace(c.Text)) + " |"
		}
		m.line("%s", line)
	}
	if x.Note != "" {
		m.line("\n%s", escape(x.Note))
	}
}
