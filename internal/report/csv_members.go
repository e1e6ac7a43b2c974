package report

import (
	"bytes"
	"encoding/csv"
	"strconv"
	"strings"
)

// memberHeader names the columns of the members' CSV form: one row per counted
// cell, member and figure. docs/bottleneck.md lists the figures and their
// units; a figure that the member did not tell has no row. iteration and warning are
// as in csvHeader.
var memberHeader = [...]string{
	"run_id", "target", "size", "variant", "iteration", "attempt", "member", "member_state", "readings", "span_s", "figure", "value", "warning",
}

// MembersCSV is what the members did meanwhile, which has rows of its own
// beside those of the CSV form; nil when no member told anything.
func MembersCSV(c *Comparison) ([]byte, error) {
	var b bytes.Buffer
	out := csv.NewWriter(&b)
	if err := out.Write(memberHeader[:]); err != nil {
		return nil, err
	}
	warning := ""
	if banner := c.Banner(); len(banner) > 0 {
		warning = banner[0]
	}
	told := false
	for i := range c.Cells {
		x := &c.Cells[i]
		run := &c.Run
		if k := c.target(x.Target); k >= 0 {
			run = c.runAt(&x.CellID, &c.Targets[k])
		}
		for k := range x.Members {
			m := &x.Members[k]
			for _, figure := range sortedKeys(m.Values, strings.Compare) {
				told = true
				if err := writeRow(out, []string{
					run.ID, x.Target, strconv.FormatInt(x.Size, 10), x.Variant, strconv.Itoa(x.Iteration), strconv.Itoa(x.Attempt),
					m.Member, m.State, strconv.Itoa(m.Readings), decimal(m.SpanS), figure, decimal(m.Values[figure]), warning,
				}, len(memberHeader)); err != nil {
					return nil, err
				}
			}
		}
	}
	out.Flush()
	if !told {
		return nil, out.Error()
	}
	return b.Bytes(), out.Error()
}
