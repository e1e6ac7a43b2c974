package report

import (
	"strings"
	"testing"
)

// Which cells ended before their pass did is told, and of which commands
// nothing is proven.
func TestPasses(t *testing.T) {
	const beyond, ahead = "after its pass: it does not start over", "after the last checkpoint that it came to on every target"
	cells := func(complete func(*CellInput) bool) *Comparison {
		in := published(t)
		for i := range in.Cells {
			in.Cells[i].Cell.Complete = complete(&in.Cells[i])
		}
		return build(t, bare(in))
	}
	for name, test := range map[string]struct {
		complete func(*CellInput) bool
		status   Status
		want     string // in the check of passes
		covered  []string
	}{
		"as forged": {
			func(c *CellInput) bool { return c.Cell.Complete }, Caution,
			"3 of 15 cells ended before they had sent the whole pass of 4,000,000 commands, those at 8M on every target: there", []string{beyond, ahead},
		},
		"some": {
			func(c *CellInput) bool {
				return c.ID.Target == "mongo9" || c.ID.Size == 8_000_000 || c.ID.Size == 1_000_000 && c.ID.Iteration > 1
			}, Caution,
			"4 of 15 cells ended before they had sent the whole pass of 4,000,000 commands, those at 1M on psmdb80 (1 of 3) and psmdb83 (1 of 3); at 4M on psmdb80 and psmdb83: there",
			[]string{beyond, ahead},
		},
		"all": {func(*CellInput) bool { return true }, OK, "every cell sent the whole pass of 4,000,000 commands", []string{beyond}},
		"none": {
			func(*CellInput) bool { return false }, Caution,
			"15 of 15 cells ended before they had sent the whole pass of 4,000,000 commands, those at 1M, 4M and 8M on every target: there",
			[]string{ahead},
		},
	} {
		c := cells(test.complete)
		if check := c.check("Passes"); check.Status != test.status || !strings.HasPrefix(check.Text, test.want) {
			t.Errorf("%s: %+v", name, check)
		}
		text := c.check("Commands").Text
		for _, part := range []string{beyond, ahead} {
			want := false
			for _, s := range test.covered {
				want = want || s == part
			}
			if strings.Contains(text, part) != want {
				t.Errorf("%s: %q is told: %v, want %v: %s", name, part, !want, want, text)
			}
		}
	}
	// Where all that was sent is proven, nothing is left.
	if text := compared(t, "published").check("Commands").Text; !strings.Contains(text, "not covered") {
		t.Error(text)
	}
	in := standIn(t)
	for i := range in.Cells {
		in.Cells[i].Cell.Commands, in.Cells[i].Cell.Errors = 32_000, 0
	}
	if text := build(t, in).check("Commands").Text; strings.Contains(text, "not covered") || strings.Contains(text, "at least") {
		t.Error(text)
	}
}
