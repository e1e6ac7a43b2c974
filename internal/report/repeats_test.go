package report

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/mongo-sandbox/sandbox/internal/record"
)

func TestRepeats(t *testing.T) {
	c := build(t, published(t))
	var b bytes.Buffer
	if err := RenderRepeats(&b, c, TextOptions{}); err != nil {
		t.Fatal(err)
	}
	golden(t, "repeats.text", b.Bytes())
	b.Reset()
	if err := RenderRepeatsJSON(&b, c); err != nil {
		t.Fatal(err)
	}
	var doc struct {
		RunID string `json:"run_id"`
		Plans []struct {
			Target, Metric string
			Size           int64
			Iterations     int
			BetweenSD      *float64 `json:"between_sd"`
			Effects        []struct {
				Effect     float64
				Iterations *int
				AtMost     *int `json:"at_most"`
				LowerBound bool `json:"lower_bound"`
			}
		}
	}
	if err := json.Unmarshal(b.Bytes(), &doc); err != nil {
		t.Fatal(err)
	}
	if len(doc.Plans) != 3*2*2 || doc.RunID == "" {
		t.Fatalf("%+v", doc)
	}
	for _, p := range doc.Plans {
		single := p.Size != 1_000_000
		if (p.BetweenSD == nil) != single || len(p.Effects) != 3 {
			t.Errorf("%+v", p)
		}
		for i, e := range p.Effects {
			if e.LowerBound != single || e.Iterations == nil || *e.Iterations < 2 || (e.AtMost == nil) != single {
				t.Errorf("%s at %d: %+v", p.Target, p.Size, e)
			}
			if i > 0 && *e.Iterations > *p.Effects[i-1].Iterations {
				t.Errorf("a larger difference takes more iterations: %+v", p)
			}
		}
	}
}

// A run of one target is planned for one more like it.
func TestRepeatsOfOneTarget(t *testing.T) {
	in := small(t)
	in.Run.Targets = slices.Clone(in.Run.Targets[:1])
	in.Cells = slices.DeleteFunc(in.Cells, func(c CellInput) bool { return c.ID.Target != "a" })
	c := build(t, in)
	if len(c.Repeats) != 2 || c.Repeats[0].Target != "a" || c.Repeats[0].Baseline != "a" || len(c.Repeats[0].Plans) != 3 {
		t.Errorf("%+v", c.Repeats)
	}
	for i := range in.Cells {
		in.Cells[i].Windows = nil
		in.Cells[i].Cell.Operations = map[string]record.Operation{}
	}
	c = build(t, in)
	var b bytes.Buffer
	if err := RenderRepeats(&b, c, TextOptions{}); err != nil || !strings.Contains(b.String(), " -") {
		t.Errorf("%v\n%s", err, b.String())
	}
}
