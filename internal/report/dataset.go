package report

import (
	"fmt"
	"slices"
	"strconv"
)

// cacheSetting is the fact that tells how large a member's cache is.
const cacheSetting = "wiredTiger.cache_bytes"

// CacheBytes is the smallest cache of the target's data-bearing members, 0
// unless all of them told.
func (t *Target) CacheBytes() int64 {
	least := int64(0)
	for i := range t.Members {
		m := &t.Members[i]
		if m.Role == arbiter {
			continue
		}
		n, err := strconv.ParseFloat(m.Settings[cacheSetting], 64)
		if err != nil || !(n >= 1 && n < 1<<62) {
			return 0
		}
		if least == 0 || int64(n) < least {
			least = int64(n)
		}
	}
	return least
}

// gibibytes writes a number of bytes with the digits that small ones need.
func gibibytes(n int64) string {
	switch {
	case n >= 1<<29:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	case n >= 1<<19:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
}

// dataset is what the summary's target was seeded with, as the columns of
// datasetTable have it.
func (s *Summary) dataset(cache int64) []cell {
	cells := []cell{
		{Text: thousands(s.DatasetDocuments)}, {Text: gibibytes(s.DatasetBytes)}, {Text: thousands(s.DatasetBytes / max(s.DatasetDocuments, 1))},
		noCell(), noCell(),
	}
	if cache > 0 {
		cells[3], cells[4] = cell{Text: gibibytes(cache)}, cell{Text: number(float64(s.DatasetBytes)/float64(cache)) + " x"}
	}
	return cells
}

// datasetTable sets the data of each size against the cache: in a row for all
// targets where they are equal.
func (c *Comparison) datasetTable() *sheet {
	t := &sheet{
		Caption: "What was seeded, and how it fits the cache",
		Columns: []column{
			{Head: "size"}, {Head: "target"}, {Head: "documents", Right: true}, {Head: "data", Right: true}, {Head: "bytes/doc", Right: true},
			{Head: "cache", Right: true}, {Head: "data/cache", Right: true},
		},
		Note: "Data: the documents as BSON, before the commands that were measured; indexes come on top, and compression on disk is left out. " +
			"Cache: of the member that has least, - where one did not tell.",
	}
	for g := range c.Groups {
		var names []int
		var rows [][]cell
		same := true
		for i := range c.Groups[g].Summaries {
			s := &c.Groups[g].Summaries[i]
			if s.Cells == 0 || s.DatasetBytes <= 0 {
				continue
			}
			x := s.dataset(c.Targets[i].CacheBytes())
			same = same && (len(rows) == 0 || slices.Equal(x, rows[0]))
			names, rows = append(names, i), append(rows, x)
		}
		if same && len(rows) > 1 {
			rows = rows[:1]
		}
		for k, x := range rows {
			name := cell{Text: "all", Tone: toneMuted}
			if len(rows) > 1 || len(names) == 1 {
				name = cell{Text: c.Targets[names[k]].Name, Series: names[k] + 1}
			}
			t.Rows = append(t.Rows, row{First: k == 0 && len(t.Rows) > 0 && len(rows) > 1, Cells: append(
				[]cell{{Text: c.Groups[g].Label, Repeat: k > 0}, name}, x...)})
		}
	}
	return t
}

// datasetLines are the rows of datasetTable in words.
func (c *Comparison) datasetLines() []string {
	var out []string
	for _, r := range c.datasetTable().Rows {
		x := r.Cells
		out = append(out, fmt.Sprintf("seeded at %s, %s: %s documents, %s of BSON, cache %s", x[0].Text, x[1].Text, x[2].Text, x[3].Text, x[5].Text))
	}
	return out
}
