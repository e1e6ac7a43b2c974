package environment

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
)

// Severity tells what stops the work from what does not.
type Severity string

// The severities.
const (
	SeverityError   Severity = "error"
	SeverityWarning Severity = "warning"
)

// Problem is one thing that is wrong or doubtful in the input.
type Problem struct {
	Severity Severity `json:"severity"`
	Summary  string   `json:"summary"`
	Detail   string   `json:"detail,omitempty"`
	// File is the name of the file as given, "-var name", "TF_VAR_name" or
	// "--platform"; empty when the problem has no place.
	File   string `json:"file,omitempty"`
	Line   int    `json:"line,omitempty"`   // from 1; 0 without a place in the file
	Column int    `json:"column,omitempty"` // from 1, in characters
	Hint   string `json:"hint,omitempty"`   // what to do about it
}

// Problems is everything wrong or doubtful in one set of inputs, in the order
// of reading. A nil *Problems has none.
type Problems struct {
	diags hcl.Diagnostics
	order map[string]int // file name -> position in the order of reading
	files map[string]*hcl.File
}

// extra is what a Problem knows beyond a diagnostic.
type extra struct {
	detail, hint string
	file         string // when there is no subject
}

// Bounds of what WriteText shows: problems, and bytes of a line.
const (
	maxShown = 100
	maxLine  = 1000
)

// HasErrors reports whether anything stops the work.
func (p *Problems) HasErrors() bool { return p != nil && p.diags.HasErrors() }

// Err returns p as an error if it has errors, else nil.
func (p *Problems) Err() error {
	if !p.HasErrors() {
		return nil
	}
	return p
}

// Error says the first error in one line, with its place, and how many more
// there are. WriteText shows them all.
func (p *Problems) Error() string {
	var first string
	errors := 0
	for _, problem := range p.List() {
		if problem.Severity != SeverityError {
			continue
		}
		if errors++; errors > 1 {
			continue
		}
		first = problem.Summary
		if problem.Detail != "" {
			first += ": " + problem.Detail
		}
		switch {
		case problem.Line > 0:
			first = fmt.Sprintf("%s:%d:%d: %s", problem.File, problem.Line, problem.Column, first)
		case problem.File != "":
			first = problem.File + ": " + first
		}
	}
	if errors > 1 {
		return fmt.Sprintf("%s (and %d more)", first, errors-1)
	}
	return first
}

// List returns the problems in the order of their places.
func (p *Problems) List() []Problem {
	if p == nil {
		return nil
	}
	list := make([]Problem, 0, len(p.diags))
	for _, diag := range p.sorted() {
		problem := Problem{Severity: SeverityError, Summary: diag.Summary, Detail: diag.Detail}
		if diag.Severity == hcl.DiagWarning {
			problem.Severity = SeverityWarning
		}
		if x, ok := diag.Extra.(extra); ok {
			problem.Detail, problem.Hint, problem.File = x.detail, x.hint, x.file
		}
		if diag.Subject != nil {
			problem.File = diag.Subject.Filename
			problem.Line, problem.Column = diag.Subject.Start.Line, diag.Subject.Start.Column
		}
		list = append(list, problem)
	}
	return list
}

// Warnings returns the problems that do not stop the work.
func (p *Problems) Warnings() []Problem {
	return slices.DeleteFunc(p.List(), func(x Problem) bool { return x.Severity == SeverityError })
}

// MarshalJSON gives the list of problems, empty rather than null.
func (p *Problems) MarshalJSON() ([]byte, error) {
	if list := p.List(); list != nil {
		return json.Marshal(list)
	}
	return []byte("[]"), nil
}

// WriteText renders every problem with the line it is about. A width of 0
// does not wrap; color adds VT100 sequences. Values of unknown variables and
// of those that may hold passwords are blanked out of the lines. Beyond the
// first hundred problems it says only how many there are.
func (p *Problems) WriteText(w io.Writer, width int, color bool) error {
	if p == nil {
		return nil
	}
	diags := p.sorted()
	more := max(len(diags)-maxShown, 0)
	var text strings.Builder
	for _, diag := range diags[:len(diags)-more] {
		if err := p.writeOne(&text, diag, width, color); err != nil {
			return fmt.Errorf("write problems: %w", err)
		}
	}
	if more > 0 {
		fmt.Fprintf(&text, "And %d more problems.\n", more)
	}
	out := bufio.NewWriter(w)
	for line := range strings.Lines(text.String()) {
		if len(line) > maxLine {
			line = strings.ToValidUTF8(line[:maxLine], "") + "…"
			if color {
				line += "\x1b[0m"
			}
		}
		// What was blanked out leaves white space behind.
		if _, err := out.WriteString(strings.TrimRight(line, " \t\r\n") + "\n"); err != nil {
			return fmt.Errorf("write problems: %w", err)
		}
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("write problems: %w", err)
	}
	return nil
}

// writeOne renders one problem. HCL's writer names the line only, and marks
// the column where there is colour; the column is added to the line's number.
func (p *Problems) writeOne(w io.Writer, diag *hcl.Diagnostic, width int, color bool) error {
	var text bytes.Buffer
	if err := hcl.NewDiagnosticTextWriter(&text, p.files, uint(max(width, 0)), color).WriteDiagnostic(diag); err != nil {
		return err
	}
	rendered := text.String()
	if diag.Subject != nil {
		place := fmt.Sprintf("on %s line %d", diag.Subject.Filename, diag.Subject.Start.Line)
		rendered = strings.Replace(rendered, place, fmt.Sprintf("%s, column %d", place, diag.Subject.Start.Column), 1)
	}
	_, err := io.WriteString(w, rendered)
	return err
}

// sorted orders by file as read and then by place; what has no place comes
// first.
func (p *Problems) sorted() hcl.Diagnostics {
	position := func(d *hcl.Diagnostic) (file, offset int) {
		if d.Subject == nil {
			return -1, 0
		}
		return p.order[d.Subject.Filename], d.Subject.Start.Byte
	}
	diags := slices.Clone(p.diags)
	slices.SortStableFunc(diags, func(a, b *hcl.Diagnostic) int {
		af, ao := position(a)
		bf, bo := position(b)
		if af != bf {
			return af - bf
		}
		return ao - bo
	})
	return diags
}

// source registers the text that a file name stands for.
func (p *Problems) source(name string, text []byte, file *hcl.File) {
	if _, ok := p.order[name]; !ok {
		p.order[name] = len(p.order)
	}
	shown := &hcl.File{Bytes: printable(text)}
	if file != nil {
		shown.Body, shown.Nav = file.Body, file.Nav
	}
	p.files[name] = shown
}

// printable is text with everything that would steer a terminal, or is no
// text, replaced byte by byte.
func printable(text []byte) []byte {
	out := bytes.Clone(text)
	for i := 0; i < len(out); {
		r, size := utf8.DecodeRune(out[i:])
		lineEnd := r == '\n' || r == '\r' && i+1 < len(out) && out[i+1] == '\n'
		if !lineEnd && r != '\t' && (unicode.IsControl(r) || r == utf8.RuneError && size == 1) {
			copy(out[i:], "??"[:size])
		}
		i += size
	}
	return out
}

// blank removes a part of a source from what is shown of it.
func (p *Problems) blank(r hcl.Range) {
	file := p.files[r.Filename]
	if file == nil || r.Start.Byte < 0 || r.Start.Byte > len(file.Bytes) {
		return
	}
	end := min(r.End.Byte, len(file.Bytes))
	if end < r.Start.Byte {
		end = len(file.Bytes) // the parser did not find the end
	}
	part := file.Bytes[r.Start.Byte:end]
	if len(bytes.Trim(part, ". \r\n")) == 0 {
		return // it is inside of what has been removed
	}
	dots := 3
	for i, b := range part {
		switch {
		case b == '\n' || b == '\r':
		case dots > 0:
			part[i] = '.'
			dots--
		default:
			part[i] = ' '
		}
	}
}

func (p *Problems) add(severity hcl.DiagnosticSeverity, at *hcl.Range, summary, detail, hint string) {
	shown := detail
	if hint != "" {
		shown = strings.TrimSpace(detail + " " + hint)
	}
	p.diags = append(p.diags, &hcl.Diagnostic{
		Severity: severity, Summary: summary, Detail: shown, Subject: at,
		Extra: extra{detail: detail, hint: hint},
	})
}

func (p *Problems) refuse(at *hcl.Range, summary, detail, hint string) {
	p.add(hcl.DiagError, at, summary, detail, hint)
}

func (p *Problems) warn(at *hcl.Range, summary, detail, hint string) {
	p.add(hcl.DiagWarning, at, summary, detail, hint)
}

// refuseFile is for a file that has no text to point at.
func (p *Problems) refuseFile(name, summary, detail, hint string) {
	p.refuse(nil, summary, detail, hint)
	p.diags[len(p.diags)-1].Extra = extra{detail: detail, hint: hint, file: name}
}

// syntax takes over what the HCL library found, with a hint where its words
// leave a newcomer alone.
func (p *Problems) syntax(diags hcl.Diagnostics) {
	said := map[string]bool{}
	for _, diag := range diags {
		if said[diag.Summary+diag.Detail] {
			continue // an open quote is reported for every line after it
		}
		said[diag.Summary+diag.Detail] = true
		hint := ""
		switch diag.Summary {
		case "Variables not allowed":
			hint = "Write text in double quotes."
		case "Function calls not allowed":
			hint = "A variable file holds plain values."
		}
		if strings.HasPrefix(diag.Summary, "Unexpected") && strings.Contains(diag.Summary, "block") {
			hint = "Assign values with an equals sign: replsets = { … }."
		}
		p.add(diag.Severity, diag.Subject, diag.Summary, diag.Detail, hint)
	}
}
