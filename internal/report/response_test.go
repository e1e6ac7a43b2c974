package report

import (
	"strings"
	"testing"

	"github.com/mongo-sandbox/sandbox/internal/record"
)

// In an open loop a target that queues answers each command as fast as ever:
// only its response time tells.
func TestResponseTimes(t *testing.T) {
	in := published(t)
	in.Run.Settings.Rate = 4000
	for i := range in.Cells {
		cell := *in.Cells[i].Cell
		factor := 2.0
		if cell.Target == "psmdb83" {
			factor = 50
		}
		l := cell.LatencyMS
		cell.ResponseMS = &record.Latency{Mean: factor * l.Mean, P50: factor * l.P50, P95: factor * l.P95, P99: factor * l.P99, P999: factor * l.P999, Max: factor * l.Max}
		in.Cells[i].Cell = &cell
	}
	c := build(t, in)
	for g := range c.Groups {
		for i := range c.Groups[g].Summaries {
			s := &c.Groups[g].Summaries[i]
			want := 2.0
			if s.Target == "psmdb83" {
				want = 50
			}
			if s.ResponseMS == nil || s.ResponseMS.Mean/s.LatencyMS.Mean < 0.99*want || s.ResponseMS.Mean/s.LatencyMS.Mean > 1.01*want {
				t.Errorf("%s at %s: response %v, service %v", s.Target, c.Groups[g].Label, s.ResponseMS, s.LatencyMS)
			}
		}
	}
	table := c.responseTable()
	if len(table.Rows) != 9 {
		t.Fatalf("%d rows", len(table.Rows))
	}
	// 8M: 1,520 of 4,000 a second.
	if row := table.Rows[6].Cells; row[0].Text != "8M" || row[2].Text != "38.0 %" || row[4].Text != "base " {
		t.Errorf("the baseline's row is %+v", row)
	}
	if row := table.Rows[8].Cells; row[1].Text != "psmdb83" || !strings.HasPrefix(row[4].Text, "+2") || len(row[4].Text) < 7 {
		t.Errorf("the row of a target that queues is %+v", row)
	}
	if closed := build(t, published(t)).responseTable(); len(closed.Rows) != 0 {
		t.Errorf("a closed loop has response times: %+v", closed.Rows)
	}
}

func TestRetriesAreSaid(t *testing.T) {
	in := published(t)
	cell := *in.Cells[0].Cell
	cell.Retries = 1234
	in.Cells[0].Cell = &cell
	for _, check := range build(t, in).Fairness.Checks {
		if check.Name == "Errors" && strings.Contains(check.Text, "the driver sent 1,234 commands a second time") {
			return
		}
	}
	t.Error("no check says so")
}
