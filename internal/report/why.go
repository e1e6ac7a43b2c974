package report

import (
	"fmt"
	"slices"
	"strings"
)

// figureWords says what a figure is and how its value is written.
type figureWords struct {
	label string
	write func(float64) string
}

// wordsOf are the words for the figures that evidence is made of.
func wordsOf(figure string) figureWords {
	perS := func(v float64) string { return number(v) + " per second" }
	ms := func(v float64) string { return number(v) + " ms" }
	switch figure {
	case MachineCPUShare:
		return figureWords{"machine CPU", percent}
	case ProcessCPUShare:
		return figureWords{"mongod alone", percent}
	case StealShare:
		return figureWords{"taken by the hypervisor", percent}
	case DiskBusyShare:
		return figureWords{"disk busy", percent}
	case DiskInFlight:
		return figureWords{"operations in flight", number}
	case DiskReadsPerS:
		return figureWords{"reads", perS}
	case DiskWritesPerS:
		return figureWords{"writes", perS}
	case DiskReadMS:
		return figureWords{"a read took", ms}
	case CacheHitRatio:
		return figureWords{"cache hits", precisePercent}
	case CachePagesReadPerCommand:
		return figureWords{"pages read per command", number}
	case CacheReadMS:
		return figureWords{"a page took", ms}
	case CacheWaitShare, AllCacheWaitShare:
		return figureWords{"workers' time waiting for pages", percent}
	case EvictionWaitShare, AllEvictionWait:
		return figureWords{"workers' time making room in the cache", percent}
	case CacheFillShare:
		return figureWords{"cache in use", percent}
	case CacheDirtyShare:
		return figureWords{"cache dirty", percent}
	case FlowControlWaitShare:
		return figureWords{"workers' time held back by flow control", percent}
	case FlowControlLaggedShare:
		return figureWords{"time under flow control", percent}
	case WriteConcernWaitShare:
		return figureWords{"workers' time waiting for acknowledgement by other members", percent}
	case LagMaxS:
		return figureWords{"largest lag", seconds}
	case LagMeanS:
		return figureWords{"mean lag", seconds}
	case TicketWaitShare, AllTicketWait:
		return figureWords{"workers' time waiting for a ticket", percent}
	case TicketsExhaustedShare:
		return figureWords{"readings without a free ticket", percent}
	case LoadHostCPUShare:
		return figureWords{"CPU of the load host used by the load generator", percent}
	case RateShare:
		return figureWords{"of the rate asked for", percent}
	}
	return figureWords{figure, number}
}

// precisePercent writes a share near 1 with the digits that tell it from it.
func precisePercent(share float64) string {
	if share > 0.9 && share < 1 {
		return fmt.Sprintf("%.2f %%", share*100)
	}
	return percent(share)
}

// text is the evidence in words, without the member.
func (e *Evidence) text() string {
	w := wordsOf(e.Figure)
	text := w.label + " " + w.write(e.Value)
	if e.Threshold != 0 {
		text += " (limit " + w.write(e.Threshold) + ")"
	}
	return text
}

// text is the verdict in a few words.
func (b *Bottleneck) text() string {
	of := ""
	if b.Where != "" {
		of = " of " + b.Where
	}
	switch b.Limit {
	case LimitLoadHost:
		return "the load host"
	case LimitFlowControl:
		return "flow control"
	case LimitCPU:
		return "CPU" + of
	case LimitDisk:
		return "disk" + of
	case LimitCacheMisses:
		return "cache misses" + of
	case LimitEviction:
		return "eviction" + of
	case LimitReplication:
		return "replication"
	case LimitTickets:
		return "tickets" + of
	case LimitNone:
		return "none found"
	}
	return "cannot say"
}

// evidenceText joins the evidence, member by member.
func (b *Bottleneck) evidenceText() string {
	var parts []string
	for k, member := range b.evidenceMembers() {
		var texts []string
		for i := range b.Evidence {
			if b.Evidence[i].Member == member {
				text := b.Evidence[i].text()
				if k > 0 { // the limits have been named
					text, _, _ = strings.Cut(text, " (limit ")
				}
				texts = append(texts, text)
			}
		}
		head := ""
		if member != "" {
			head = member + ": "
		}
		parts = append(parts, head+strings.Join(texts, ", "))
	}
	if len(b.Also) > 0 {
		also := make([]string, len(b.Also))
		for i, limit := range b.Also {
			also[i] = (&Bottleneck{Limit: limit}).text()
		}
		parts = append(parts, "also reached: "+list(also))
	}
	if b.Limit == LimitUnknown {
		parts = append(slices.Clone(b.Missing), parts...)
	}
	return strings.Join(parts, "; ")
}

func (b *Bottleneck) evidenceMembers() []string {
	var members []string
	for i := range b.Evidence {
		if !slices.Contains(members, b.Evidence[i].Member) {
			members = append(members, b.Evidence[i].Member)
		}
	}
	return members
}

// limitBlocks say what limited each target at each size, and what the
// members did.
func (c *Comparison) limitBlocks() []block {
	if len(c.Limits) == 0 {
		return nil
	}
	if text := c.sameUnknown(); text != "" {
		return []block{{Text: "Cannot say what limited throughput: " + text + "."}}
	}
	t := &sheet{
		Caption: "What limited throughput",
		Columns: []column{{Head: "size"}, {Head: "target"}, {Head: "limited by", Whole: true}, {Head: "cells", Right: true}, {Head: "evidence", Wrap: true}},
		Note: "The first rule that held, by fixed thresholds. Which rules there are, why these thresholds and what they do not prove is told in docs/bottleneck.md of github.com/mongo-sandbox/sandbox. What is past a threshold may still not be all that held a cell up. " +
			"Cells: how many of the target's cells have this verdict; the evidence is the first one's.",
	}
	previous := -1
	for i := range c.Limits {
		l := &c.Limits[i]
		b := &l.Bottleneck
		verdict := cell{Text: b.text()}
		if b.Limit == LimitUnknown || b.Limit == LimitNone {
			verdict.Tone = toneMuted
		}
		if b.Limit == LimitLoadHost {
			verdict.Tone = toneBad
		}
		t.Rows = append(t.Rows, row{First: previous >= 0 && previous != l.Group, Cells: []cell{
			{Text: c.Groups[l.Group].Label, Repeat: previous == l.Group}, {Text: l.Target, Series: c.target(l.Target) + 1}, verdict,
			{Text: fmt.Sprintf("%d of %d", l.Cells, l.Of)}, {Text: b.evidenceText()},
		}})
		previous = l.Group
	}
	return []block{{Table: t}, {Table: c.memberTable()}}
}

// sameUnknown is the one reason for which nothing can be said of any target;
// "" when something can be, or the reasons differ.
func (c *Comparison) sameUnknown() string {
	first := c.Limits[0].Bottleneck.evidenceText()
	for i := range c.Limits {
		if b := &c.Limits[i].Bottleneck; b.Limit != LimitUnknown || b.evidenceText() != first {
			return ""
		}
	}
	return first
}

// memberColumn is a figure in the table of members.
type memberColumn struct {
	head, figure string
	write        func(float64) string
	note         string // explains it
}

// memberColumns are the figures of the table of members, the most telling
// first. What is 0 everywhere, such as flow control's, is left out.
func memberColumns() []memberColumn {
	ofHundred := func(v float64) string { return number(v * 100) }
	hits := func(v float64) string { return strings.TrimSuffix(precisePercent(v), " %") }
	const cache, workers = "of WiredTiger's cache", "of the workers' time, "
	return []memberColumn{
		{"CPU %", MachineCPUShare, ofHundred, "of the machine"},
		{"disk %", DiskBusyShare, ofHundred, "the time the busiest one was busy"},
		{"queue", DiskInFlight, number, "mean operations at the busiest disk"},
		{"rd/cmd", DiskReadsPerCommand, number, "disk reads per command of the cell"},
		{"hits %", CacheHitRatio, hits, cache},
		{"wait %", CacheWaitShare, ofHundred, workers + "waiting for pages"},
		{"lag s", LagMaxS, number, "the largest"},
		{"flow %", FlowControlWaitShare, ofHundred, workers + "held back by flow control"},
		{"fill %", CacheFillShare, ofHundred, cache},
		{"iowait %", IOWaitShare, ofHundred, "CPUs idle while something waits for a disk"},
	}
}

// mostColumns keeps the table of members within 80 characters.
const mostColumns = 8

// memberTable is what the members did, the mean over a target's cells.
func (c *Comparison) memberTable() *sheet {
	t := &sheet{
		Caption: "What the members did in the measured time",
		Columns: []column{{Head: "size"}, {Head: "member"}},
		Note:    "Means over the target's counted cells; the JSON form has all figures of every cell. ",
	}
	columns := memberColumns()
	var used []int // columns that have a value
	type line struct {
		group, series int
		name          string
		primary       bool
		values        map[string]float64
	}
	var lines []line
	for _, l := range c.Limits {
		for _, m := range c.meanMembers(l.Group, l.Target) {
			lines = append(lines, line{l.Group, c.target(l.Target) + 1, m.Member, m.State == "PRIMARY", m.Values})
		}
	}
	for i, column := range columns {
		if len(used) < mostColumns && slices.ContainsFunc(lines, func(l line) bool { return l.values[column.figure] > 0 }) {
			used = append(used, i)
		}
	}
	if len(used) == 0 {
		return t
	}
	var shown []memberColumn
	for _, i := range used {
		t.Columns = append(t.Columns, column{Head: columns[i].head, Right: true})
		shown = append(shown, columns[i])
	}
	t.Note += columnNotes(shown)
	if slices.ContainsFunc(lines, func(l line) bool { return l.primary }) {
		t.Note += " (P): the primary."
	}
	for i, l := range lines {
		repeat := i > 0 && lines[i-1].group == l.group
		name := cell{Text: l.name, Series: l.series}
		if l.primary {
			name.Text += " (P)"
		}
		r := row{First: i > 0 && !repeat, Cells: []cell{{Text: c.Groups[l.group].Label, Repeat: repeat}, name}}
		for _, k := range used {
			x := noCell()
			if v, ok := l.values[columns[k].figure]; ok {
				x = cell{Text: columns[k].write(v)}
				if v == 0 {
					x = cell{Text: "0", Tone: toneMuted}
				}
			}
			r.Cells = append(r.Cells, x)
		}
		t.Rows = append(t.Rows, r)
	}
	return t
}

// meanMembers joins what the members did in a target's cells of a group.
func (c *Comparison) meanMembers(g int, target string) []MemberMetrics {
	group := &c.Groups[g]
	var out []MemberMetrics
	var counts []map[string]float64
	for i := range c.Cells {
		x := &c.Cells[i]
		if x.Target != target || x.Size != group.Size || x.Variant != group.Variant {
			continue
		}
		for k := range x.Members {
			m := &x.Members[k]
			at := slices.IndexFunc(out, func(o MemberMetrics) bool { return o.Member == m.Member })
			if at < 0 {
				at = len(out)
				out = append(out, MemberMetrics{Member: m.Member, State: m.State, Values: map[string]float64{}})
				counts = append(counts, map[string]float64{})
			}
			for figure, v := range m.Values {
				if figure == LagMaxS {
					out[at].Values[figure] = max(out[at].Values[figure], v)
					counts[at][figure] = 1
					continue
				}
				out[at].Values[figure] += v
				counts[at][figure]++
			}
		}
	}
	for i := range out {
		for figure := range out[i].Values {
			out[i].Values[figure] /= counts[i][figure]
		}
	}
	return out
}

// whyGlance says what limited the targets, and where CPU per command and
// plans differ.
func (c *Comparison) whyGlance() glance {
	g := glance{Question: "Why?"}
	if len(c.Limits) > 0 {
		if text := c.sameUnknown(); text != "" {
			g.Answers = append(g.Answers, "cannot say what limited throughput: "+text)
		} else {
			g.Answers = append(g.Answers, c.limitAnswers()...)
		}
	}
	g.Answers = append(g.Answers, c.reasons()...)
	g.Answers = append(g.Answers, c.planAnswers()...)
	if len(g.Answers) == 0 {
		g.Answers = []string{"cannot say: nothing was recorded of the members and of the plans"}
		g.Tone = toneMuted
	}
	return g
}

// limitAnswers name the limits: in a line for all targets where they agree,
// else size by size.
func (c *Comparison) limitAnswers() []string {
	var shared, answers []string
	at := map[string][]string{} // sizes by the limit that all targets had there
	for k := range c.Groups {
		by := map[string][]string{} // targets by limit
		var limits []string
		for i := range c.Limits {
			if l := &c.Limits[i]; l.Group == k {
				text := l.Bottleneck.text()
				if !slices.Contains(limits, text) {
					limits = append(limits, text)
				}
				by[text] = append(by[text], l.Target)
			}
		}
		label := c.Groups[k].Label
		switch {
		case len(limits) == 1:
			if at[limits[0]] == nil {
				shared = append(shared, limits[0])
			}
			at[limits[0]] = append(at[limits[0]], label)
		case len(limits) > 1:
			parts := make([]string, len(limits))
			for i, text := range limits {
				parts[i] = fmt.Sprintf("%s (%s)", text, list(by[text]))
			}
			answers = append(answers, fmt.Sprintf("nearest its limit at %s: %s", label, strings.Join(parts, "; ")))
		}
	}
	if len(shared) == 0 {
		return answers
	}
	parts := make([]string, len(shared))
	for i, text := range shared {
		parts[i] = fmt.Sprintf("%s at %s", text, list(at[text]))
	}
	who := "nearest its limit on every target, by fixed thresholds: "
	if len(c.Targets) == 1 {
		who = "nearest its limit, by fixed thresholds: "
	}
	return append([]string{who + strings.Join(parts, "; ")}, answers...)
}
