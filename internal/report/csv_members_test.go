package report

import (
	"bytes"
	"encoding/csv"
	"math"
	"slices"
	"strconv"
	"testing"
)

// Every figure of every member that the JSON form has is a row, and no other.
func TestMembersCSV(t *testing.T) {
	c := compared(t, "troubled")
	data, err := MembersCSV(c)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(bytes.NewReader(data)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	column := func(name string) int { return slices.Index(rows[0], name) }
	want := 0
	for i := range c.Cells {
		x := &c.Cells[i]
		for _, m := range x.Members {
			want += len(m.Values)
			for figure, v := range m.Values {
				k := slices.IndexFunc(rows, func(r []string) bool {
					return r[column("target")] == x.Target && r[column("size")] == strconv.FormatInt(x.Size, 10) &&
						r[column("iteration")] == strconv.Itoa(x.Iteration) && r[column("member")] == m.Member && r[column("figure")] == figure
				})
				if k < 0 {
					t.Fatalf("%s of %s in %s is missing", figure, m.Member, x.CellID)
				}
				if got, err := strconv.ParseFloat(rows[k][column("value")], 64); err != nil || math.Abs(got-v) > 1e-6+1e-9*math.Abs(v) || rows[k][column("member_state")] != m.State {
					t.Errorf("%v, want %v", rows[k], v)
				}
			}
		}
	}
	if want == 0 || len(rows) != want+1 {
		t.Errorf("%d rows, want %d", len(rows)-1, want)
	}
	if data, err := MembersCSV(compared(t, "answers")); err != nil || data != nil {
		t.Errorf("of members that told nothing: %q, %v", data, err)
	}
}
