package report

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/mongo-sandbox/sandbox/internal/record"
	"github.com/mongo-sandbox/sandbox/internal/stats"
)

// page is a Comparison in words: what text, Markdown and HTML all show.
type page struct {
	Title    string
	Subtitle []string
	Banner   []string
	Glance   []glance
	Sections []section
}

// glance answers one question in a line or a few.
type glance struct {
	Question string
	Answers  []string
	Tone     tone
}

type section struct {
	ID     string
	Title  string
	Blocks []block
}

// block is one piece of a section; exactly one of its contents is set.
type block struct {
	Text   string
	Checks []Check
	List   []string
	Table  *sheet
	Figure *figure
	Code   []string
}

type sheet struct {
	Caption string
	Columns []column
	Rows    []row
	// Note explains what is not obvious.
	Note string
}

type column struct {
	Head  string
	Right bool // numbers
	// Wrap breaks long text into lines where space is short; else it is cut
	// in the middle.
	Wrap bool
	// Diff: the difference that belongs to the column before it.
	Diff bool
	// Whole: words that are never shortened.
	Whole bool
}

type row struct {
	Cells []cell
	First bool // begins a group of rows
	// difference is the one that the row is about, if it is about one.
	difference *Difference
}

type cell struct {
	Text string
	Tone tone
	// Repeat: the same as in the row above; text leaves it out.
	Repeat bool
	// Series is the target's place plus one, for its colour and marker.
	Series int
}

// tone is what a text means, for colours, empty for nothing in particular; it
// never carries what the words do not say.
type tone string

const (
	toneGood    tone = "good"
	toneBad     tone = "bad"
	toneCaution tone = "caution"
	toneMuted   tone = "muted"
)

// noCell stands where there is no value.
func noCell() cell { return cell{Text: none, Tone: toneMuted} }

func outcomeTone(o stats.Outcome) tone {
	switch o {
	case stats.Faster:
		return toneGood
	case stats.Slower:
		return toneBad
	}
	return toneMuted
}

func newPage(c *Comparison) *page {
	p := &page{Title: c.title(), Subtitle: c.subtitle(), Banner: c.Banner(), Glance: c.glances()}
	for _, s := range []section{c.fairSection(), c.thresholdSection(), c.answersSection(), c.differsSection(), c.whereSection(), c.whySection(), c.cellsSection(), c.repeatSection()} {
		if len(s.Blocks) > 0 {
			p.Sections = append(p.Sections, s)
		}
	}
	return p
}

func (c *Comparison) title() string {
	var names []string
	for i := range c.Targets {
		if c.Targets[i].AAOf == "" {
			names = append(names, c.Targets[i].Name)
		}
	}
	if len(names) == 1 {
		return names[0] + " on its own"
	}
	return list(names) + " compared"
}

func (c *Comparison) subtitle() []string {
	r := &c.Run
	head := fmt.Sprintf("run %s, environment %s on platform %s, started %s",
		r.ID, cmp.Or(r.Environment, none), cmp.Or(r.Platform, none), r.Started.UTC().Format("2006-01-02 15:04 UTC"))
	if len(c.Runs) > 0 {
		var runs []string
		for i := range c.Runs {
			runs = append(runs, fmt.Sprintf("%s (%s)", c.Runs[i].Label, c.Runs[i].ID))
		}
		head = fmt.Sprintf("%d runs: %s", len(runs), list(runs))
		if c.pool != nil {
			head = fmt.Sprintf("%d runs on %s, pooled: %s", len(runs), plural(c.Placements, "placement", "placements"), list(runs))
		}
	}
	sizes := make([]string, len(r.Sizes))
	for i, s := range r.Sizes {
		sizes[i] = fmt.Sprintf("%s x %d", cmp.Or(s.Label, thousands(s.Documents)), max(s.Iterations, 1))
	}
	pace := "closed loop, no think time"
	if r.Settings.Rate > 0 {
		pace = fmt.Sprintf("open loop at %s commands/s", number(r.Settings.Rate))
	}
	settings := fmt.Sprintf("%s workload, documents x iterations: %s; %s each, %d workers, %s; read preference %s, write concern %s",
		r.Settings.Workload, strings.Join(sizes, ", "), seconds(r.Settings.Duration.Seconds()), r.Settings.Workers, pace,
		cmp.Or(r.Settings.ReadPreference, "primary"), cmp.Or(r.Settings.WriteConcern, "the server's default"))
	return []string{head, settings}
}

func (c *Comparison) fairSection() section {
	s := section{ID: "fair", Title: "Is the comparison fair?"}
	s.Blocks = append(s.Blocks, block{Checks: c.Fairness.Checks})
	if len(c.Runs) > 0 {
		s.Blocks = append(s.Blocks, block{Table: c.runTable()})
	}
	s.Blocks = append(s.Blocks, block{Table: c.targetTable()}, block{Table: c.machineTable()}, block{Table: c.datasetTable()})
	if len(c.Fairness.Parity) > 0 {
		t := &sheet{
			Caption: "Facts that differ between the targets' members",
			Columns: []column{{Head: "fact", Wrap: true}, {Head: "whose", Whole: true}},
		}
		for i := range c.Targets {
			t.Columns = append(t.Columns, column{Head: c.Targets[i].Name, Wrap: true})
		}
		for i, p := range c.Fairness.Parity {
			r := row{First: i > 0 && c.Fairness.Parity[i-1].Cause != p.Cause}
			whose := cell{Text: "the version's", Tone: toneMuted}
			if p.Cause == CauseEnvironment {
				whose = cell{Text: "the environment's", Tone: toneBad}
			}
			r.Cells = append(r.Cells, cell{Text: p.Fact}, whose)
			for _, v := range p.Values {
				r.Cells = append(r.Cells, cell{Text: v})
			}
			t.Rows = append(t.Rows, r)
		}
		t.Note = "The version's differences are part of what is compared; the environment's should not be there."
		s.Blocks = append(s.Blocks, block{Table: t})
	}
	if len(c.Warnings) > 0 {
		s.Blocks = append(s.Blocks, block{Text: "Noted during the run:"}, block{List: c.Warnings})
	}
	return s.withoutEmpty()
}

func (c *Comparison) targetTable() *sheet {
	t := &sheet{
		Caption: "Targets",
		Columns: []column{{Head: "target"}, {Head: "distribution"}, {Head: "requested"}, {Head: "actual"}, {Head: "engine"}, {Head: "members"}, {Head: "role"}},
	}
	for i := range c.Targets {
		x := &c.Targets[i]
		role := noCell()
		switch {
		case x.AAOf != "":
			role = cell{Text: "A/A of " + x.AAOf}
		case c.isBaseline(x.Name):
			role = cell{Text: "baseline"}
		}
		if x.Down != "" {
			role = cell{Text: "went down", Tone: toneBad}
		}
		engine := cell{Text: cmp.Or(x.Engine, none)}
		if x.Engine == record.EngineEmbedded {
			engine.Tone = toneBad
		}
		t.Rows = append(t.Rows, row{Cells: []cell{
			{Text: x.Name, Series: i + 1}, {Text: cmp.Or(x.Distribution, none)}, {Text: cmp.Or(x.RequestedVersion, none)},
			{Text: cmp.Or(x.ActualVersion, none)}, engine, {Text: cmp.Or(positive(int64(len(x.Members))), none)}, role,
		}})
	}
	return t
}

// absentRow is the row of a target that has no result beside the others.
func (s *Summary) absentRow(columns int) ([]cell, bool) {
	reason := s.Absent
	if s.Cells > 0 {
		reason = s.Refused
	}
	if reason == "" {
		return nil, false
	}
	word := "no result"
	if s.Cells > 0 {
		word = "not comparable"
	}
	cells := make([]cell, columns)
	for i := range cells {
		cells[i] = noCell()
	}
	cells[columns-1] = cell{Text: word, Tone: toneBad}
	return cells, true
}

func (c *Comparison) whySection() section {
	s := section{ID: "why", Title: "Why: what limited it, CPU per command, query plans"}
	s.Blocks = append(s.Blocks, c.limitBlocks()...)
	s.Blocks = append(s.Blocks, block{Table: c.cpuTable()}, block{Figure: c.cpuFigure()}, block{Table: c.planTable()})
	s.Blocks = append(s.Blocks, c.planDifferenceBlocks()...)
	return s.withoutEmpty()
}

func (c *Comparison) cellsSection() section {
	s := section{ID: "cells", Title: "Errors and every cell"}
	t := &sheet{
		Caption: "Every cell",
		Columns: []column{
			{Head: "size"}, {Head: "target"}, {Head: "it.", Right: true}, {Head: "state", Wrap: true}, {Head: "pass", Whole: true},
			{Head: "commands", Right: true}, {Head: "errors", Right: true}, {Head: "time", Right: true},
			{Head: "per second", Right: true}, {Head: "fingerprint", Whole: true},
		},
		Note: "Only counted cells are compared. Pass: whole, or how many of its first commands every worker sent. Fingerprint: its first 12 digits, over these; " +
			"cells that got further have another one. What targets have in common is under \"How to repeat it\".",
	}
	var previous *Cell
	for i := range c.Cells {
		x := &c.Cells[i]
		g, series := c.groupOf(x.Size, x.Variant), c.target(x.Target)+1
		sameSize := previous != nil && previous.Size == x.Size && previous.Variant == x.Variant
		state := cell{Text: string(x.State)}
		switch x.State {
		case StateCounted:
		case StateRefused: // the reason is among the checks
			state.Tone = toneBad
		default:
			state.Tone = toneBad
			state.Text += ": " + x.Reason
		}
		r := row{First: previous != nil && !sameSize, Cells: []cell{
			{Text: c.Groups[g].Label, Repeat: sameSize}, {Text: x.Target, Series: series, Repeat: sameSize && previous.Target == x.Target},
			{Text: fmt.Sprint(x.Iteration)}, state,
		}}
		if n := x.Result; n != nil {
			pass := cell{Text: "whole"}
			if !n.Complete {
				pass = cell{Text: "part", Tone: toneCaution}
				if n.FingerprintCommands > 0 {
					pass.Text = thousands(n.FingerprintCommands)
				}
			}
			failed := cell{Text: thousands(n.Errors), Tone: toneMuted}
			if n.Errors > 0 {
				failed.Tone = toneBad
			}
			r.Cells = append(r.Cells, pass, cell{Text: thousands(n.Commands)}, failed, cell{Text: seconds(n.DurationS)},
				cell{Text: number(n.ThroughputPerS)}, cell{Text: cmp.Or(short(n.Fingerprint), none)})
		} else {
			for range 6 {
				r.Cells = append(r.Cells, noCell())
			}
		}
		t.Rows = append(t.Rows, r)
		previous = x
	}
	s.Blocks = append(s.Blocks, block{Table: c.errorTable()})
	s.Blocks = append(s.Blocks, c.troubleBlocks()...)
	s.Blocks = append(s.Blocks, block{Table: t})
	return s.withoutEmpty()
}

func short(fingerprint string) string {
	if len(fingerprint) > 12 {
		return fingerprint[:12]
	}
	return fingerprint
}
