package cli

import (
	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

// newTable returns a table without a frame, columns two spaces apart, that
// reads well on a terminal and in a pipe.
func (a *app) newTable(columns ...string) table.Writer {
	t := table.NewWriter()
	t.SetOutputMirror(a.console.Out)
	style := table.StyleDefault
	style.Options = table.OptionsNoBordersAndSeparators
	style.Box.PaddingLeft = ""
	style.Box.PaddingRight = "  "
	style.Format.Header = text.FormatDefault
	t.SetStyle(style)
	t.SuppressTrailingSpaces()
	header := make(table.Row, len(columns))
	for i, column := range columns {
		header[i] = column
	}
	t.AppendHeader(header)
	return t
}
