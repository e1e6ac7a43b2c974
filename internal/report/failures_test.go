package report

import (
	"strings"
	"testing"
	"time"

	"github.com/mongo-sandbox/sandbox/internal/record"
)

// struck is a cell in which commands failed and were repeated, and when.
type struck struct {
	target  string
	failed  int64
	retries int64
	// at are the failures of stretches of a minute; none is an older record.
	at []int64
}

// struckComparison has a cell of 1,000 commands for each, of one size.
func struckComparison(cells []struck) *Comparison {
	c := &Comparison{Groups: []Group{{Size: 1000, Variant: record.DefaultVariant, Label: "1k"}}}
	for _, x := range cells {
		id := record.CellID{Target: x.target, Size: 1000, Variant: record.DefaultVariant, Iteration: 1}
		c.Cells = append(c.Cells, Cell{CellID: id, State: StateCounted, Result: &record.Cell{Commands: 1000 - x.failed, Errors: x.failed, Retries: x.retries}})
		if x.at == nil {
			continue
		}
		t := Timeline{Target: x.target, Iteration: 1}
		for i, n := range x.at {
			t.Trouble.Stretches = append(t.Trouble.Stretches, TroubleStretch{StartS: float64(i) * 60, EndS: float64(i+1) * 60, Errors: n, Retries: 2 * n})
		}
		c.Timelines = append(c.Timelines, t)
	}
	return c
}

// inMinute is ten minutes of which one had n failures.
func inMinute(minute int, n int64) []int64 {
	out := make([]int64, 10)
	out[minute] = n
	return out
}

func TestWhereCommandsFailed(t *testing.T) {
	even := []int64{2, 2, 2, 2, 2, 2, 2, 2, 2, 2}
	for name, test := range map[string]struct {
		cells []struck
		want  string
	}{
		"nowhere":             {[]struck{{target: "a", at: inMinute(0, 0)}, {target: "b"}}, ""},
		"in a minute":         {[]struck{{target: "a", failed: 20, at: inMinute(3, 20)}, {target: "b"}}, ", all in a at 1k iteration 1: 2.0 % of its commands, between minute 3:00 and 4:00"},
		"one command":         {[]struck{{target: "a", failed: 1, at: inMinute(3, 1)}, {target: "b"}}, ", in a at 1k iteration 1: 0.1 % of its commands, between minute 3:00 and 4:00"},
		"nearly in a minute":  {[]struck{{target: "a", failed: 20, at: []int64{1, 0, 0, 0, 0, 0, 0, 0, 0, 19}}}, ", all in a at 1k iteration 1: 2.0 % of its commands, 19 of them between minute 9:00 and 10:00"},
		"over the whole time": {[]struck{{target: "a", failed: 20, at: even}, {target: "b"}}, ", all in a at 1k iteration 1: 2.0 % of its commands"},
		"in two minutes":      {[]struck{{target: "a", failed: 20, at: []int64{0, 0, 10, 10, 0, 0, 0, 0, 0, 0}}}, ", all in a at 1k iteration 1: 2.0 % of its commands"},
		"in two of twenty minutes": {
			[]struck{{target: "a", failed: 20, at: append([]int64{0, 0, 10, 10}, make([]int64, 16)...)}},
			", all in a at 1k iteration 1: 2.0 % of its commands, between minute 2:00 and 4:00",
		},
		"few stretches":   {[]struck{{target: "a", failed: 20, at: []int64{20, 0, 0, 0}}}, ", all in a at 1k iteration 1: 2.0 % of its commands"},
		"an older record": {[]struck{{target: "a", failed: 20}, {target: "b"}}, ", all in a at 1k iteration 1: 2.0 % of its commands"},
		"most in one": {
			[]struck{{target: "a", failed: 2}, {target: "b", failed: 98, at: inMinute(0, 98)}},
			", 98 of them in b at 1k iteration 1: 9.8 % of its commands, between minute 0:00 and 1:00",
		},
		"in two": {
			[]struck{{target: "a", failed: 20, at: inMinute(3, 20)}, {target: "b", failed: 30, at: even}, {target: "c"}},
			", all in b at 1k iteration 1 (30, 3.0 % of its commands) and a at 1k iteration 1 (20, 2.0 % of its commands, between minute 3:00 and 4:00)",
		},
		"in many": {
			[]struck{{target: "a", failed: 20}, {target: "b", failed: 30}, {target: "c", failed: 20}, {target: "d", failed: 20}, {target: "e"}},
			", in 4 of 5 cells, in b at 1k iteration 1 most often: 3.0 % of its commands",
		},
	} {
		if got := struckComparison(test.cells).where(failedCommands(), true); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

// What is known of failed commands need not be of attempts that were
// repeated.
func TestWhereAttemptsWereRepeated(t *testing.T) {
	c := struckComparison([]struck{{target: "a", retries: 40, at: inMinute(3, 20)}, {target: "b", failed: 5}})
	if got, want := c.where(repeatedAttempts(), false), ", all in a at 1k iteration 1"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	c.Timelines[0].Trouble.RetriesKnown = true
	if got, want := c.where(repeatedAttempts(), false), ", all in a at 1k iteration 1, between minute 3:00 and 4:00"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	// What does not count is left out.
	c.Cells[0].State = StateInvalid
	if got := c.where(repeatedAttempts(), false); got != "" {
		t.Errorf("%q", got)
	}
}

func TestErrorsCheck(t *testing.T) {
	check := compared(t, "published").check("Errors")
	if want := "212 of 79,166,964 commands failed, all in psmdb83 at 4M iteration 1: 0.005 % of its commands, 201 of them between minute 10:00 and 11:00; " +
		"failures are in no throughput and no latency; the driver sent 7 commands a second time, all in psmdb83 at 4M iteration 1, between minute 10:00 and 11:00"; check.Status != Caution || check.Text != want {
		t.Errorf("%+v", check)
	}
	check = compared(t, "troubled").check("Errors")
	if check.Status != Unfair || !strings.Contains(check.Text, "all in b-bigger-machines at 100k iteration 1: 3.6 % of its commands, 39,990 of them between minute 0:20 and 0:30; ") ||
		!strings.Contains(check.Text, "more than 1.0 % in one cell is too much to leave aside") {
		t.Errorf("%+v", check)
	}
	if check := compared(t, "embedded").check("Errors"); check.Status != OK || check.Text != "no command failed" {
		t.Errorf("%+v", check)
	}
}

func TestFailuresDiffer(t *testing.T) {
	with := func(target, base int64) string {
		c := &Comparison{
			Targets: []Target{{Target: record.Target{Name: "old"}}, {Target: record.Target{Name: "new"}, Baseline: "old"}},
			Groups: []Group{
				{Summaries: []Summary{{Cells: 1, Commands: 1_000_000 - base, Errors: base}, {Cells: 1, Commands: 2_000_000 - target, Errors: target}}},
				// Where one has no result, the other's do not count.
				{Summaries: []Summary{{Cells: 1, Commands: 1000, Errors: 900}, {}}},
			},
		}
		if text := c.failuresDiffer("old"); text != "" {
			t.Errorf("the baseline differs from itself: %q", text)
		}
		return c.failuresDiffer("new")
	}
	for _, test := range []struct {
		target, base int64
		want         string
	}{
		{0, 0, ""}, {9, 0, ""}, {0, 9, ""},
		{10, 0, "10 of 2,000,000 commands failed on new and none of 1,000,000 on old"},
		{0, 5000, "none of 2,000,000 commands failed on new and 5,000 of 1,000,000 on old"},
		// By shares: as many of twice as many are half as often.
		{100, 100, "100 of 2,000,000 commands failed on new and 100 of 1,000,000 on old"},
		{101, 100, ""}, {399, 100, ""},
		{400, 100, "400 of 2,000,000 commands failed on new and 100 of 1,000,000 on old"},
	} {
		if got := with(test.target, test.base); got != test.want {
			t.Errorf("%d and %d: %q, want %q", test.target, test.base, got, test.want)
		}
	}
	c := compared(t, "published")
	if got := c.failuresDiffer("psmdb83"); !strings.HasPrefix(got, "212 of ") || !strings.HasSuffix(got, " on mongo9") || c.failuresDiffer("psmdb80") != "" || c.failuresDiffer("nobody") != "" {
		t.Errorf("%q, %q", got, c.failuresDiffer("psmdb80"))
	}
}

// What the record knows of how long failed commands took stands beside them:
// a time limit only beside those that ran into one.
func TestErrorTable(t *testing.T) {
	table := func(limit time.Duration) *sheet {
		input := published(t)
		input.Run.Settings.OpTimeout = limit
		return build(t, bare(input)).errorTable()
	}
	cells := func(s *sheet, column int) string {
		var out []string
		for _, r := range s.Rows {
			out = append(out, r.Cells[column].Text)
		}
		return strings.Join(out, ", ")
	}
	s := table(300 * time.Millisecond)
	if got := cells(s, 6); got != "300 ms, -" || !strings.Contains(s.Note, "Time limit: --op-timeout") || strings.Contains(s.Note, "No --op-timeout was set") {
		t.Errorf("limits %s: %s", got, s.Note)
	}
	if got := cells(s, 7); got != "96.6 ms, 99.1 ms" {
		t.Errorf("slowest %s", got)
	}
	s = table(2 * time.Second)
	if got := cells(s, 6); got != "2.0 s, -" {
		t.Errorf("limits %s", got)
	}
	s = table(0)
	if got := cells(s, 6); got != "not set, -" || strings.Contains(s.Note, "Time limit: --op-timeout") || !strings.Contains(s.Note, "No --op-timeout was set") {
		t.Errorf("limits %s: %s", got, s.Note)
	}
	if n := len(compared(t, "embedded").errorTable().Rows); n != 0 {
		t.Errorf("%d rows where nothing failed", n)
	}
}
