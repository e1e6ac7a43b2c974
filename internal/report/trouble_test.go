package report

import (
	"encoding/csv"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mongo-sandbox/sandbox/internal/record"
)

func blockTexts(blocks []block) []string {
	var out []string
	for _, b := range blocks {
		if b.Text != "" {
			out = append(out, b.Text)
		}
	}
	return out
}

// The figure has the panels of what occurred and the table the minutes in
// which it did, with the record's counts.
func TestTroubleOverTime(t *testing.T) {
	c := compared(t, "published")
	f := newPage(c).figure("errors-over-time")
	var titles []string
	for _, ch := range f.Charts {
		titles = append(titles, ch.Title)
	}
	if want := []string{"Size 4M: failed commands", "Size 4M: timeouts", "Size 4M: retries"}; !slices.Equal(titles, want) {
		t.Errorf("panels %q, want %q", titles, want)
	}
	// Those that nothing happened to are there, at zero.
	if want := "mongo9, iteration 1: 0 to 0 in 60 s. psmdb80, iteration 1: 0 to 0 in 60 s. psmdb83, iteration 1: 0 to 201 in 60 s"; f.Charts[0].Desc != want {
		t.Errorf("%q, want %q", f.Charts[0].Desc, want)
	}
	if !slices.ContainsFunc(f.Charts[0].Marks, func(m mark) bool {
		return m.Tip == "psmdb83, iteration 1, at 10:30: 201 in 60 s: 200 find/Timeout and 1 updateOne/WriteConflict"
	}) {
		t.Error("no tip says what failed")
	}
	var rows [][]string
	for _, r := range c.troubleTable().Rows {
		var cells []string
		for _, x := range r.Cells {
			cells = append(cells, x.Text)
		}
		rows = append(rows, cells)
	}
	want := [][]string{
		{"4M", "psmdb83", "1", "10:00 to 11:00", "201", "200", "7", "200 find/Timeout and 1 updateOne/WriteConflict"},
		{"4M", "psmdb83", "1", "20:00 to 21:00", "11", "0", "0", "11 updateOne/WriteConflict"},
	}
	if diff := cmp.Diff(want, rows); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}

	var report struct{ Cells []jsonCell }
	if err := json.Unmarshal(render(t, FormatJSON, c), &report); err != nil {
		t.Fatal(err)
	}
	for _, x := range report.Cells {
		if *x.Timeouts > 0 != (len(x.Trouble) > 0) {
			t.Errorf("%s at %d: %d timeouts, trouble %+v", x.Target, x.Size, *x.Timeouts, x.Trouble)
		}
		if len(x.Trouble) > 0 {
			got := x.Trouble[0]
			if *x.Timeouts != 200 || len(x.Trouble) != 2 || got.StartS != 600 || got.EndS != 660 || got.Errors != 201 || *got.Timeouts != 200 || *got.Retries != 7 ||
				got.ErrorCodes["updateOne/WriteConflict"] != 1 {
				t.Errorf("%+v", x.Trouble)
			}
		}
	}

	lines, err := csv.NewReader(strings.NewReader(string(render(t, FormatCSV, c)))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	at := func(line []string, name string) string { return line[slices.Index(lines[0], name)] }
	seen := map[string]string{}
	for _, line := range lines[1:] {
		if at(line, "target") == "psmdb83" && at(line, "size") == "4000000" {
			seen[at(line, "operation")] = strings.Join([]string{at(line, "timeouts"), at(line, "retries"), at(line, "error_codes")}, ",")
		}
	}
	if seen["all"] != "200,7,find/Timeout=200;updateOne/WriteConflict=12" || seen["find"] != ",,find/Timeout=200" || seen["deleteOne"] != ",," {
		t.Errorf("%q", seen)
	}
}

// The last seconds of a cell are no point of its throughput when they are
// less than half of one; what went wrong in them is still told.
func TestTroubleAtTheEnd(t *testing.T) {
	in := published(t)
	c := in.find(t, "psmdb80", 8_000_000, 1)
	whole := c.Intervals
	c.Intervals = func(yield func(record.Interval, error) bool) {
		for v, err := range whole {
			if !yield(v, err) {
				return
			}
		}
		yield(record.Interval{
			StartS: 1800, EndS: 1801.5, Operations: map[string]record.IntervalOperation{"find": {Errors: 16}},
			Trouble: record.Trouble{Retries: ptr(0), Timeouts: ptr(16), ErrorCodes: map[string]int64{"find/Timeout": 16}},
		}, nil)
	}
	rows := build(t, in).troubleTable().Rows
	last := rows[len(rows)-1].Cells
	if last[1].Text != "psmdb80" || last[3].Text != "30:00 to 30:01.5" || last[4].Text != "16" {
		t.Errorf("%+v", last)
	}
}

// Where nothing went wrong a sentence says so with the counts; what a record
// does not say is not taken for zero.
func TestNoTroubleAndUnknownTrouble(t *testing.T) {
	of := func(change func(*CellInput)) *Comparison {
		in := standIn(t)
		for i := range in.Cells {
			change(&in.Cells[i])
		}
		return build(t, in)
	}
	mapped := func(c *CellInput, change func(*record.Interval)) {
		whole := c.Intervals
		c.Intervals = func(yield func(record.Interval, error) bool) {
			for v, err := range whole {
				change(&v)
				if !yield(v, err) {
					return
				}
			}
		}
	}
	older := of(func(*CellInput) {})
	if got := blockTexts(older.troubleBlocks()); len(got) != 1 || !strings.HasPrefix(got[0], "No command of a counted cell failed: 0 errors and 0 retries in the ") ||
		!strings.HasSuffix(got[0], " Timeouts are not told from other errors, nor is it recorded when retries came: an earlier version of sandbox made the record.") {
		t.Errorf("an older record: %q", got)
	}
	if text := string(render(t, FormatJSON, older)); strings.Contains(text, `"timeouts"`) || strings.Contains(text, `"trouble"`) {
		t.Error("an older record's timeouts are in the JSON")
	}
	calm := of(func(c *CellInput) {
		c.Cell.Timeouts = ptr(0)
		mapped(c, func(v *record.Interval) { v.Retries, v.Timeouts = ptr(0), ptr(0) })
	})
	if got := blockTexts(calm.troubleBlocks()); len(got) != 1 || !strings.HasPrefix(got[0], "No command of a counted cell failed: 0 errors, 0 timeouts and 0 retries in the ") ||
		!strings.HasSuffix(got[0], " commands of counted cells.") {
		t.Errorf("nothing went wrong: %q", got)
	}
	blind := of(func(c *CellInput) {
		c.Cell.Timeouts = ptr(0)
		mapped(c, func(v *record.Interval) { v.Timeouts = ptr(0) })
	})
	if got := blockTexts(blind.troubleBlocks()); len(got) != 1 || !strings.Contains(got[0], ": 0 errors and 0 timeouts in the ") || !strings.HasSuffix(got[0], " Retries were not counted.") {
		t.Errorf("without a monitor: %q", got)
	}
	// An older record says when commands failed, and nothing else.
	failed := of(func(c *CellInput) {
		if c.ID.Target == "mongo9" && c.ID.Size == 1000 && c.ID.Iteration == 2 {
			c.Cell.Errors, c.Cell.ErrorCodes = 5, map[string]int64{"find/Timeout": 5}
			mapped(c, func(v *record.Interval) {
				if v.StartS == 3 {
					v.Operations = map[string]record.IntervalOperation{"find": {Errors: 5}}
				}
			})
		}
	})
	blocks := failed.troubleBlocks()
	if len(blocks) != 2 || len(blocks[0].Figure.Charts) != 1 || !strings.Contains(blocks[0].Figure.Caption, "is not recorded: an earlier version of sandbox made the record") {
		t.Fatalf("%+v", blocks)
	}
	rows := blocks[1].Table.Rows
	if len(rows) != 1 || rows[0].Cells[3].Text != "0:03 to 0:04" || rows[0].Cells[4].Text != "5" || rows[0].Cells[5].Text != none || rows[0].Cells[6].Text != none {
		t.Errorf("%+v", rows)
	}
}

// Absurd counts and any number of codes of a record cost no more than honest
// ones.
func TestAbsurdTrouble(t *testing.T) {
	bins := troubleBins{step: 60}
	huge := int64(1) << 62
	for i := range 300 {
		bins.add(0, &record.Interval{
			StartS: float64(i) / 6, EndS: float64(i+1) / 6, Operations: map[string]record.IntervalOperation{"find": {Errors: huge}, "other": {Errors: -huge}},
			Trouble: record.Trouble{Retries: ptr(huge), Timeouts: ptr(-1), ErrorCodes: map[string]int64{strings.Repeat("x", i): 1}},
		})
	}
	s := bins.trouble().Stretches[0]
	if s.Errors != 1<<63-1 || s.Retries != 1<<63-1 || s.Timeouts != 0 || len(s.Codes) != mostCodes+1 || s.Codes[otherCodes] != 200 || s.EndS != 50 {
		t.Errorf("%d errors, %d retries, %d timeouts, %d codes, until %v s", s.Errors, s.Retries, s.Timeouts, len(s.Codes), s.EndS)
	}
}
