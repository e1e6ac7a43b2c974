package report

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

// TextOptions adapt the text to where it is shown.
type TextOptions struct {
	// Color adds ANSI colours.
	Color bool
	// Width is the number of columns to fit, 100 when 0. Tables are made
	// narrower by wrapping and shortening, never below what numbers need.
	Width int
}

const defaultWidth = 100

// RenderText writes c for a terminal.
func RenderText(w io.Writer, c *Comparison, o TextOptions) error {
	t := newTextWriter(w, o)
	t.page(newPage(c))
	return t.w.Flush() // bufio keeps the first error
}

func newTextWriter(w io.Writer, o TextOptions) *textWriter {
	if o.Width <= 0 {
		o.Width = defaultWidth
	}
	return &textWriter{w: bufio.NewWriter(w), o: o}
}

type textWriter struct {
	w *bufio.Writer
	o TextOptions
}

// ANSI attributes.
const (
	ansiBold   = "1"
	ansiBanner = "1;97;41"
	ansiRed    = "31"
	ansiGreen  = "32"
	ansiYellow = "33"
	ansiDim    = "2"
)

func (t *textWriter) paint(attribute, s string) string {
	if !t.o.Color || s == "" || attribute == "" {
		return s
	}
	return "\x1b[" + attribute + "m" + s + "\x1b[0m"
}

func toneANSI(n tone) string {
	switch n {
	case toneGood:
		return ansiGreen
	case toneBad:
		return ansiRed
	case toneCaution:
		return ansiYellow
	case toneMuted:
		return ansiDim
	}
	return ""
}

func (t *textWriter) line(s string) {
	_, _ = t.w.WriteString(strings.TrimRight(s, " "))
	_ = t.w.WriteByte('\n')
}

// wrapped writes s after first, broken at spaces, later lines indented to
// the same column.
func (t *textWriter) wrapped(first, s string) {
	indent := utf8.RuneCountInString(first)
	lines := wrap(printable(s), max(t.o.Width-indent, 20))
	for i, l := range lines {
		if i == 0 {
			t.line(first + l)
		} else {
			t.line(strings.Repeat(" ", indent) + l)
		}
	}
}

func wrap(s string, width int) []string {
	var lines []string
	current := ""
	for _, word := range strings.Fields(s) {
		switch {
		case current == "":
			current = word
		case utf8.RuneCountInString(current)+1+utf8.RuneCountInString(word) > width:
			lines = append(lines, current)
			current = word
		default:
			current += " " + word
		}
	}
	return append(lines, current)
}

// head writes what stands above the answers.
func (t *textWriter) head(p *page) {
	t.banner(p.Banner)
	t.line(t.paint(ansiBold, printable(p.Title)))
	for _, s := range p.Subtitle {
		t.wrapped("", s)
	}
}

func (t *textWriter) page(p *page) {
	t.head(p)
	t.line("")
	for _, g := range p.Glance {
		for i, answer := range g.Answers {
			question := ""
			if i == 0 {
				question = g.Question
			}
			label := fmt.Sprintf("  %-12s", question)
			lines := wrap(printable(answer), t.o.Width-len(label))
			for k, l := range lines {
				if k > 0 {
					label = strings.Repeat(" ", len(label))
				}
				t.line(t.paint(ansiBold, label) + t.paint(toneANSI(g.Tone), l))
			}
		}
	}
	for i, s := range p.Sections {
		t.line("")
		title := fmt.Sprintf("%d. %s", i+1, strings.ToUpper(s.Title))
		t.line(t.paint(ansiBold, title))
		t.line(t.paint(ansiBold, strings.Repeat("=", min(utf8.RuneCountInString(title), t.o.Width))))
		for _, b := range s.Blocks {
			t.block(b)
		}
	}
	if len(p.Banner) > 0 {
		t.line("")
		t.banner(p.Banner[:1])
	}
}

func (t *textWriter) banner(lines []string) {
	if len(lines) == 0 {
		return
	}
	bar := strings.Repeat("!", t.o.Width)
	t.line(t.paint(ansiBanner, bar))
	for _, l := range lines {
		for _, part := range wrap(printable(l), t.o.Width-6) {
			t.line(t.paint(ansiBanner, fmt.Sprintf("!! %-*s !!", t.o.Width-6, part)))
		}
	}
	t.line(t.paint(ansiBanner, bar))
	if len(lines) > 1 {
		t.line("")
	}
}

func (t *textWriter) block(b block) {
	switch {
	case b.Text != "":
		t.line("")
		t.wrapped("", b.Text)
	case len(b.Checks) > 0:
		t.line("")
		for _, c := range b.Checks {
			mark, attribute := "ok", ansiGreen
			switch c.Status {
			case Caution:
				mark, attribute = "limit", ansiYellow
			case Unfair:
				mark, attribute = "UNFAIR", ansiRed
			}
			head := fmt.Sprintf("  %-6s  %-16s  ", mark, printable(c.Name))
			lines := wrap(printable(c.Text), t.o.Width-utf8.RuneCountInString(head))
			for i, l := range lines {
				if i == 0 {
					t.line(fmt.Sprintf("  %s  %-16s  %s", t.paint(attribute, fmt.Sprintf("%-6s", mark)), printable(c.Name), l))
				} else {
					t.line(strings.Repeat(" ", utf8.RuneCountInString(head)) + l)
				}
			}
		}
	case len(b.List) > 0:
		for _, item := range b.List {
			t.wrapped("  * ", item)
		}
	case len(b.Code) > 0:
		t.line("")
		for _, l := range b.Code {
			t.line("  " + printable(l)) // never broken: it is to be copied
		}
	case b.Table != nil:
		t.table(b.Table)
	}
}

const gap = 2 // spaces between columns

func (t *textWriter) table(x *sheet) {
	t.line("")
	t.line(t.paint(ansiBold, printable(x.Caption)))
	widths := t.widths(x)
	w := table.NewWriter()
	style := table.StyleLight
	style.Options = table.Options{SeparateHeader: true}
	style.Box.PaddingLeft, style.Box.PaddingRight = "", strings.Repeat(" ", gap)
	style.Format.Header = text.FormatDefault
	w.SetStyle(style)
	header := make(table.Row, len(x.Columns))
	configs := make([]table.ColumnConfig, len(x.Columns))
	for i, column := range x.Columns {
		header[i] = trimMiddle(printable(column.Head), widths[i])
		align := text.AlignLeft
		if column.Right {
			align = text.AlignRight
		}
		enforce := trimMiddle
		if column.Wrap {
			enforce = text.WrapSoft
		}
		configs[i] = table.ColumnConfig{Number: i + 1, Align: align, AlignHeader: align, WidthMax: widths[i], WidthMaxEnforcer: enforce}
	}
	w.AppendHeader(header)
	w.SetColumnConfigs(configs)
	for _, r := range x.Rows {
		cells := make(table.Row, len(r.Cells))
		for i, c := range r.Cells {
			s := printable(c.Text)
			if c.Repeat {
				s = ""
			}
			cells[i] = t.paint(toneANSI(c.Tone), s)
		}
		w.AppendRow(cells)
	}
	for i, l := range strings.Split(w.Render(), "\n") {
		if i == 1 { // the rule under the header; go-pretty draws it over the last gap too
			l = t.paint(ansiDim, strings.Repeat("─", utf8.RuneCountInString(l)-gap))
		}
		t.line(l)
	}
	if x.Note != "" {
		t.wrapped("", x.Note)
	}
}

// narrowest is how far a column of text may shrink.
const narrowest = 12

// widths gives each column the width it may take so that the table fits: the
// widest shrink first, columns of numbers not below their numbers.
func (t *textWriter) widths(x *sheet) []int {
	widths := make([]int, len(x.Columns))
	least := make([]int, len(x.Columns))
	total := 0
	for i, column := range x.Columns {
		for _, r := range x.Rows {
			if !r.Cells[i].Repeat {
				widths[i] = max(widths[i], utf8.RuneCountInString(printable(r.Cells[i].Text)))
			}
		}
		switch {
		case column.Whole:
			least[i] = max(widths[i], utf8.RuneCountInString(column.Head))
		case column.Right:
			least[i] = max(widths[i], narrowest)
		default:
			least[i] = narrowest
		}
		widths[i] = max(widths[i], utf8.RuneCountInString(column.Head))
		total += widths[i] + gap
	}
	for total-gap > t.o.Width {
		widest := -1
		for i := range widths {
			if widths[i] > least[i] && (widest < 0 || widths[i] > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			break
		}
		widths[widest]--
		total--
	}
	return widths
}

// trimMiddle shortens a name to its two ends, where names differ. Colours
// around it are kept.
func trimMiddle(s string, width int) string {
	if text.StringWidthWithoutEscSequences(s) <= width {
		return s
	}
	prefix, suffix := "", ""
	if strings.HasPrefix(s, "\x1b[") {
		end := strings.IndexByte(s, 'm') + 1
		prefix, suffix = s[:end], "\x1b[0m"
		s = strings.TrimSuffix(s[end:], suffix)
	}
	runes := []rune(s)
	left := (width - 1) / 2
	right := width - 1 - left
	return prefix + string(runes[:left]) + "…" + string(runes[len(runes)-right:]) + suffix
}
