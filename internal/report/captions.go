package report

import "strings"

// whiskersNote explains the whiskers of the bars, and why a bar has none.
func (c *Comparison) whiskersNote(bars []barGroup) string {
	whiskers, baseline, few, alone := false, false, false, false
	for _, g := range bars {
		for _, b := range g.bars {
			switch {
			case b.high > 0:
				whiskers = true
			case c.Targets[b.series-1].Baseline == "":
				baseline = true
			case b.diff == "":
				alone = true
			default:
				few = true
			}
		}
	}
	if !whiskers && !few && !alone {
		return "" // one target, or nothing
	}
	var parts []string
	if whiskers {
		parts = append(parts, "Whiskers: the 95 % interval of the difference from the baseline, as the baseline's value times its ends.")
		if baseline {
			parts = append(parts, "The baseline itself has none.")
		}
	}
	switch {
	case few && whiskers:
		parts = append(parts, "Where another bar with a difference has none, there was too little data for one.")
	case few:
		parts = append(parts, "No bar has a 95 % interval: there was too little data for one.")
	}
	if alone {
		parts = append(parts, "A bar of another target without a difference has no baseline beside it.")
	}
	return " " + strings.Join(parts, " ")
}

// axisNote says where the vertical axes of the charts begin.
func (f *figure) axisNote() string {
	cut := 0
	for i := range f.Charts {
		if f.Charts[i].OffZero {
			cut++
		}
	}
	switch n := len(f.Charts); {
	case cut == 0 && n == 1:
		return "The vertical axis starts at zero."
	case cut == 0:
		return "The vertical axes start at zero."
	case cut == 1 && n == 1:
		return "The vertical axis does not start at zero, so changes look larger."
	case cut == n:
		return "The vertical axes do not start at zero, so changes look larger."
	}
	return "The vertical axes start at zero, but for those of the panels that say otherwise, where changes look larger."
}

// linesNote says what is a line of a figure over time, and on which axis.
func (f *figure) linesNote() string {
	return "One line per iteration, the first of each target drawn strongest. " + f.axisNote()
}

// forestNote explains the points and lines of differences.
func forestNote(rows []*Difference) string {
	intervals, hollow := false, false
	for _, d := range rows {
		if d.Ratio.HasInterval() {
			intervals = true
		} else {
			hollow = true
		}
	}
	note := "Point: the difference."
	if intervals {
		note += " Line: its 95 % interval. Where it includes zero, no difference was detected."
	}
	switch {
	case hollow && intervals:
		note += " A hollow point has no interval: there was too little data."
	case hollow:
		note += " The points are hollow, without an interval: there was too little data for one."
	}
	return note
}

// columnNotes joins what there is to say of the columns that a table has.
// Columns that share an explanation are named together, in their order.
func columnNotes(columns []memberColumn) string {
	var texts []string
	names := map[string][]string{}
	for _, column := range columns {
		if column.note == "" {
			continue
		}
		if names[column.note] == nil {
			texts = append(texts, column.note)
		}
		name, _, _ := strings.Cut(column.head, " ")
		names[column.note] = append(names[column.note], name)
	}
	for i, text := range texts {
		texts[i] = strings.Join(names[text], ", ") + ": " + text + "."
	}
	return strings.Join(texts, " ")
}
