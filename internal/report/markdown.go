package report

import (
	"bufio"
	"fmt"
	"io"
	"strings"
)

// renderMarkdown writes GitHub-flavoured Markdown.
func renderMarkdown(w io.Writer, c *Comparison) error {
	m := &markdownWriter{w: bufio.NewWriter(w)}
	m.page(newPage(c))
	return m.w.Flush()
}

type markdownWriter struct{ w *bufio.Writer }

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
