package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/mongo-sandbox/sandbox/internal/record"
)

// Trouble is what went wrong over the time of a cell.
type Trouble struct {
	// TimeoutsKnown and RetriesKnown: the record says when they were. Older
	// ones say of failed commands alone.
	TimeoutsKnown, RetriesKnown bool
	// Stretches follow each other from the measured start on, the last one
	// may be shorter; those without trouble are there, too.
	Stretches []TroubleStretch
}

// TroubleStretch is a part of a cell's time. A command counts where it ended.
type TroubleStretch struct {
	StartS, EndS float64
	Errors       int64 // failed commands
	Timeouts     int64 // of them those whose time limit ran out
	Retries      int64 // attempts beyond a command's first
	// Codes counts failed commands by "operation/code name".
	Codes map[string]int64
}

func (s *TroubleStretch) any() bool { return s.Errors > 0 || s.Timeouts > 0 || s.Retries > 0 }

// mostCodes bounds the codes of a stretch, whatever a record claims; servers
// have a few hundred, and answer with few of them.
const (
	mostCodes  = 100
	otherCodes = "other codes"
)

// troubleBins gathers the trouble of a cell's intervals in bins of step
// seconds. The zero value but for step is ready.
type troubleBins struct {
	step      float64
	bins      []TroubleStretch
	intervals int
	timeouts  int // intervals that say how many there were
	retries   int
}

func (t *troubleBins) add(bin int, v *record.Interval) {
	for k := len(t.bins); k <= bin; k++ {
		t.bins = append(t.bins, TroubleStretch{StartS: float64(k) * t.step, EndS: float64(k) * t.step})
	}
	b := &t.bins[bin]
	b.EndS = max(b.EndS, min(v.EndS, b.StartS+t.step))
	t.intervals++
	for _, o := range v.Operations {
		b.Errors = plus(b.Errors, o.Errors)
	}
	if v.Timeouts != nil {
		t.timeouts++
		b.Timeouts = plus(b.Timeouts, *v.Timeouts)
	}
	if v.Retries != nil {
		t.retries++
		b.Retries = plus(b.Retries, *v.Retries)
	}
	for code, n := range v.ErrorCodes {
		if b.Codes == nil {
			b.Codes = map[string]int64{}
		}
		if _, known := b.Codes[code]; !known && len(b.Codes) >= mostCodes {
			code = otherCodes
		}
		b.Codes[code] = plus(b.Codes[code], n)
	}
}

// plus adds counts of a record that may be absurd.
func plus(a, b int64) int64 {
	if b <= 0 {
		return a
	}
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// trouble is what was gathered. What only some of the intervals say is not
// known.
func (t *troubleBins) trouble() Trouble {
	for k := range len(t.bins) - 1 { // a last one may be shorter, others have gaps
		t.bins[k].EndS = t.bins[k].StartS + t.step
	}
	return Trouble{
		TimeoutsKnown: t.intervals > 0 && t.timeouts == t.intervals, RetriesKnown: t.intervals > 0 && t.retries == t.intervals, Stretches: t.bins,
	}
}

// troubleKind is a panel of the figure.
type troubleKind struct {
	what  string
	known func(*Trouble) bool
	of    func(*TroubleStretch) int64
}

const failuresPanel = "failed commands"

var troubleKinds = [...]troubleKind{
	{failuresPanel, func(*Trouble) bool { return true }, func(s *TroubleStretch) int64 { return s.Errors }},
	{"timeouts", func(t *Trouble) bool { return t.TimeoutsKnown }, func(s *TroubleStretch) int64 { return s.Timeouts }},
	{"retries", func(t *Trouble) bool { return t.RetriesKnown }, func(s *TroubleStretch) int64 { return s.Retries }},
}

// troubleFigure has a panel for each size and kind of trouble that occurred.
func (c *Comparison) troubleFigure() *figure {
	f := &figure{
		ID: "errors-over-time", Title: "Errors, timeouts and retries over time", Legend: c.legend(),
		Alt: "Failed commands, timeouts and retries over the measured time, a panel per size for each that occurred, a line per target and iteration.",
	}
	for g := range c.Groups {
		for _, kind := range troubleKinds {
			occurred := false
			lines := c.courses(g, func(t *Timeline) (float64, []coursePoint) {
				if !kind.known(&t.Trouble) {
					return 0, nil
				}
				step := t.Step.Seconds()
				points := make([]coursePoint, 0, len(t.Trouble.Stretches))
				for i := range t.Trouble.Stretches {
					s := &t.Trouble.Stretches[i]
					n := kind.of(s)
					occurred = occurred || n > 0
					point := coursePoint{at: s.StartS + step/2, value: float64(n)}
					if text := s.codesText(); text != "" && kind.what == failuresPanel {
						point.more = ": " + text
					}
					points = append(points, point)
				}
				return step, points
			})
			if !occurred {
				continue
			}
			for i := range lines {
				lines[i].counts = true
			}
			unit := "in " + seconds(lines[0].step)
			if f.Caption == "" {
				f.Caption = fmt.Sprintf("Commands of counted cells that failed, those of them that ran out of time, and attempts that the driver repeated, counted in stretches of %s "+
					"by when the command ended; a panel for what occurred. ", seconds(lines[0].step))
			}
			f.course(c, g, kind.what, unit, lines)
		}
	}
	if f.Caption != "" {
		f.Caption += f.linesNote() + c.troubleUnknown()
	}
	return f
}

// troubleUnknown names the targets whose records do not say all.
func (c *Comparison) troubleUnknown() string {
	var old, unseen []string
	for i := range c.Timelines {
		t := &c.Timelines[i]
		switch {
		case !t.Trouble.TimeoutsKnown:
			if !slices.Contains(old, t.Target) {
				old = append(old, t.Target)
			}
		case !t.Trouble.RetriesKnown && !slices.Contains(unseen, t.Target):
			unseen = append(unseen, t.Target)
		}
	}
	text := ""
	if len(old) > 0 {
		text += fmt.Sprintf(" When commands of %s ran out of time or were repeated, and with which codes they failed then, is not recorded: an earlier version of sandbox made the record.", list(old))
	}
	if len(unseen) > 0 {
		text += fmt.Sprintf(" Retries of %s were not counted.", list(unseen))
	}
	return text
}

// codesText are the codes of a stretch, the most frequent first.
func (s *TroubleStretch) codesText() string {
	codes := sortedKeys(s.Codes, func(a, b string) int {
		return cmp.Or(cmp.Compare(s.Codes[b], s.Codes[a]), strings.Compare(a, b))
	})
	parts := make([]string, len(codes))
	for i, code := range codes {
		parts[i] = thousands(s.Codes[code]) + " " + code
	}
	if len(parts) == 0 {
		return ""
	}
	return list(parts)
}

// mostTroubleRows bounds the table of the page; JSON has all.
const mostTroubleRows = 40

// troubleTable lists the stretches in which anything went wrong.
func (c *Comparison) troubleTable() *sheet {
	t := &sheet{
		Caption: "When commands failed, ran out of time or were repeated",
		Columns: []column{
			{Head: "size"}, {Head: "target"}, {Head: "it.", Right: true}, {Head: "minute", Whole: true}, {Head: "failed", Right: true},
			{Head: "timeouts", Right: true}, {Head: "retries", Right: true}, {Head: "codes", Wrap: true},
		},
		Note: "Timeouts are failures, too: the time that a command was given ran out. A retry is an attempt beyond a command's first, whatever came of it.",
	}
	left := 0
	var previous *Timeline
	for i := range c.Timelines {
		x := &c.Timelines[i]
		for k := range x.Trouble.Stretches {
			s := &x.Trouble.Stretches[k]
			if !s.any() {
				continue
			}
			if len(t.Rows) == mostTroubleRows {
				left++
				continue
			}
			timeouts, retries := noCell(), noCell()
			if x.Trouble.TimeoutsKnown {
				timeouts = cell{Text: thousands(s.Timeouts)}
			}
			if x.Trouble.RetriesKnown {
				retries = cell{Text: thousands(s.Retries)}
			}
			sameSize := previous != nil && previous.Group == x.Group
			sameTarget := sameSize && previous.Target == x.Target
			t.Rows = append(t.Rows, row{First: previous != nil && !sameSize, Cells: []cell{
				{Text: c.Groups[x.Group].Label, Repeat: sameSize}, {Text: x.Target, Series: c.target(x.Target) + 1, Repeat: sameTarget},
				{Text: fmt.Sprint(x.Iteration), Repeat: sameTarget && previous.Iteration == x.Iteration},
				{Text: clock(s.StartS) + " to " + clock(s.EndS)}, {Text: thousands(s.Errors)}, timeouts, retries, {Text: cmp.Or(s.codesText(), none)},
			}})
			previous = x
		}
	}
	if left > 0 {
		t.Note += fmt.Sprintf(" %s with trouble: the JSON form has them all.", plural(left, "more stretch", "more stretches"))
	}
	t.Note += c.troubleUnknown()
	return t
}

// troubleText says how much went wrong in all, where no figure does.
func (c *Comparison) troubleText() string {
	var commands, errors, timeouts, retries int64
	known := true
	for i := range c.Cells {
		n := c.Cells[i].Result
		if !c.Cells[i].sound() {
			continue
		}
		commands, errors, retries = plus(plus(commands, n.Commands), n.Errors), plus(errors, n.Errors), plus(retries, n.Retries)
		if known = known && n.Timeouts != nil; known {
			timeouts = plus(timeouts, *n.Timeouts)
		}
	}
	unseen := slices.ContainsFunc(c.Timelines, func(t Timeline) bool { return t.Trouble.TimeoutsKnown && !t.Trouble.RetriesKnown })
	if commands == 0 {
		return ""
	}
	count := func(n int64, one, many string) string {
		if n == 1 {
			return "1 " + one
		}
		return thousands(n) + " " + many
	}
	counts := []string{count(errors, "error", "errors")}
	if known {
		counts = append(counts, count(timeouts, "timeout", "timeouts"))
	}
	if !unseen {
		counts = append(counts, count(retries, "retry", "retries"))
	}
	text := fmt.Sprintf("%s in the %s commands of counted cells.", list(counts), thousands(commands))
	if errors == 0 {
		text = "No command of a counted cell failed: " + text
	}
	if !known {
		text += " Timeouts are not told from other errors, nor is it recorded when retries came: an earlier version of sandbox made the record."
	}
	if unseen {
		text += " Retries were not counted."
	}
	return text
}

// troubleBlocks are a figure of what went wrong when, and the numbers in it;
// a sentence where nothing did, or nothing says when.
func (c *Comparison) troubleBlocks() []block {
	f := c.troubleFigure()
	if len(f.Charts) == 0 {
		return []block{{Text: c.troubleText()}}
	}
	return []block{{Figure: f}, {Table: c.troubleTable()}}
}

// jsonTrouble is a stretch of a cell in which anything went wrong.
type jsonTrouble struct {
	StartS     float64          `json:"start_s"`
	EndS       float64          `json:"end_s"`
	Errors     int64            `json:"errors"`
	Timeouts   *int64           `json:"timeouts,omitempty"`
	Retries    *int64           `json:"retries,omitempty"`
	ErrorCodes map[string]int64 `json:"error_codes,omitempty"`
}

func newJSONTrouble(c *Comparison, x *Cell) []jsonTrouble {
	line := c.timeline(x)
	if line == nil {
		return nil
	}
	t := &line.Trouble
	var out []jsonTrouble
	for k := range t.Stretches {
		s := t.Stretches[k]
		if !s.any() {
			continue
		}
		v := jsonTrouble{StartS: digits(s.StartS), EndS: digits(s.EndS), Errors: s.Errors, ErrorCodes: s.Codes}
		if t.TimeoutsKnown {
			v.Timeouts = &s.Timeouts
		}
		if t.RetriesKnown {
			v.Retries = &s.Retries
		}
		out = append(out, v)
	}
	return out
}
