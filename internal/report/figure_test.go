package report

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mongo-sandbox/sandbox/internal/record"
)

// The Markdown form with its figures, as a folder that can be looked at.
func TestGoldenFigures(t *testing.T) {
	text, figures, err := MarkdownWithFigures(compared(t, "published"), "report-figures")
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join("testdata", "published")
	files := append([]File{{"report.md", text}}, figures...)
	for i := range files[1:] {
		files[i+1].Name = filepath.Join("report-figures", files[i+1].Name)
	}
	if *update {
		if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(filepath.Join(dir, "report-figures"), 0o755)); err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if err := os.WriteFile(filepath.Join(dir, f.Name), f.Data, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, f := range files {
		want, err := os.ReadFile(filepath.Join(dir, f.Name))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(f.Data)); diff != "" {
			t.Errorf("differs from %s (-update writes it):\n%s", f.Name, diff)
		}
	}
}

// A figure's file is well-formed, needs nothing else, and is what the text
// refers to.
func TestFiguresStandAlone(t *testing.T) {
	for _, s := range scenarios(t) {
		c := compared(t, s.name)
		text, figures, err := MarkdownWithFigures(c, "a (b)-figures")
		if err != nil {
			t.Fatal(err)
		}
		var linked []string
		for _, m := range regexp.MustCompile(`!\[[^\]]{20,}\]\(a%20%28b%29-figures/([a-z0-9-]+\.svg)\)`).FindAllSubmatch(text, -1) {
			linked = append(linked, string(m[1]))
		}
		var names []string
		for _, f := range figures {
			names = append(names, f.Name)
			decoder := xml.NewDecoder(bytes.NewReader(f.Data))
			for {
				token, err := decoder.Token()
				if errors.Is(err, io.EOF) {
					break
				}
				if err != nil {
					t.Fatalf("%s: %s: %v", s.name, f.Name, err)
				}
				start, ok := token.(xml.StartElement)
				if !ok {
					continue
				}
				if start.Name.Local == "script" {
					t.Errorf("%s: %s has a script", s.name, f.Name)
				}
				for _, a := range start.Attr {
					if a.Name.Local == "href" || a.Name.Local == "src" {
						t.Errorf("%s: %s refers to %s", s.name, f.Name, a.Value)
					}
				}
			}
			for _, bad := range []string{"var(", "ZgotmplZ", "NaN", "Inf", "fill: ;", "stroke: ;", "@import"} {
				if bytes.Contains(f.Data, []byte(bad)) {
					t.Errorf("%s: %s has %q", s.name, f.Name, bad)
				}
			}
			for _, m := range regexp.MustCompile(`url\(([^)]*)\)`).FindAllSubmatch(f.Data, -1) {
				if !bytes.Contains(f.Data, []byte(fmt.Sprintf(`id="%s"`, bytes.TrimPrefix(m[1], []byte("#"))))) {
					t.Errorf("%s: %s refers to %s", s.name, f.Name, m[1])
				}
			}
			if !bytes.Contains(f.Data, []byte(`class="paper"`)) {
				t.Errorf("%s: %s has no background", s.name, f.Name)
			}
			if c.Embedded() && !bytes.Contains(f.Data, []byte("embedded, not MongoDB")) {
				t.Errorf("%s: %s does not say what answered", s.name, f.Name)
			}
		}
		if diff := cmp.Diff(linked, names); diff != "" || len(names) == 0 {
			t.Errorf("%s: linked (-) and written (+):\n%s", s.name, diff)
		}
	}
}

// What a record says becomes no markup in a figure either.
func TestHostileFigures(t *testing.T) {
	in := standIn(t)
	evil := "<script>alert(1)</script>\x1b[31m]]>\"'"
	in.Run.Targets = slices.Clone(in.Run.Targets)
	old := in.Run.Targets[1].Name
	in.Run.Targets[1].Name, in.Run.ID = evil, evil
	for i := range in.Cells {
		if in.Cells[i].ID.Target == old {
			in.Cells[i].ID.Target, in.Cells[i].Cell.Target = evil, evil
		}
	}
	_, figures, err := MarkdownWithFigures(build(t, in), "f")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range figures {
		if bytes.Contains(f.Data, []byte("<script")) || bytes.ContainsRune(f.Data, '\x1b') {
			t.Errorf("%s lets markup through", f.Name)
		}
		if err := xml.Unmarshal(f.Data, new(struct{})); err != nil {
			t.Errorf("%s: %v", f.Name, err)
		}
	}
}

func (p *page) figure(id string) *figure {
	for _, f := range p.figures() {
		if f.ID == id {
			return f
		}
	}
	return nil
}

// Every figure that the report promises is there, with a caption, a sentence
// for those who do not see it, and the numbers in its charts' descriptions.
func TestFigures(t *testing.T) {
	c := compared(t, "published")
	p := newPage(c)
	charts := map[string]int{}
	for _, f := range p.figures() {
		charts[f.ID] = len(f.Charts)
		if f.Caption == "" || f.Alt == "" || len(f.Legend) == 0 {
			t.Errorf("%s: caption %q, alt %q, legend %v", f.ID, f.Caption, f.Alt, f.Legend)
		}
		for _, ch := range f.Charts {
			if !regexp.MustCompile(`\d`).MatchString(ch.Desc) {
				t.Errorf("%s: the description of %q has no numbers", f.ID, ch.Title)
			}
		}
	}
	want := map[string]int{
		"differences": 2, "errors-over-time": 3, "throughput-by-size": 1, "latency-by-size": 5, "operations-mean": 3, "operations-p99": 3,
		"throughput-over-time": 3, "latency-over-time": 6, "cpu-per-command": 2,
	}
	if diff := cmp.Diff(want, charts); diff != "" {
		t.Errorf("charts (-want +got):\n%s", diff)
	}
	// A row per operation type and target, each with its interval.
	f := p.figure("operations-mean")
	if n := strings.Count(f.Charts[0].Desc, "95 % interval"); n != 2*len(mixShares) {
		t.Errorf("%d intervals: %s", n, f.Charts[0].Desc)
	}
	if !strings.Contains(f.Caption, "Of these 42 intervals about 2 would exclude zero even if nothing differed") {
		t.Errorf("%s", f.Caption)
	}
}

// The numbers behind the courses are those of the record.
func TestCourseNumbers(t *testing.T) {
	in := published(t)
	c := compared(t, "published")
	var first record.Window
	for w, err := range in.find(t, "psmdb80", 4_000_000, 1).Windows {
		if err != nil {
			t.Fatal(err)
		}
		first = w
		break
	}
	merged, err := decode(first.Operations["find"].Histogram)
	if err != nil {
		t.Fatal(err)
	}
	for name, o := range first.Operations {
		if name == "find" {
			continue
		}
		d, err := decode(o.Histogram)
		if err == nil {
			err = merged.Merge(d)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	f := newPage(c).figure("latency-over-time")
	i := slices.IndexFunc(f.Data, func(s *sheet) bool { return strings.HasPrefix(s.Caption, "Size 4M: p99") })
	table := f.Data[i]
	if len(table.Rows) != 30 || len(table.Columns) != 4 || table.Columns[2].Head != "psmdb80 #1" {
		t.Fatalf("%d rows of %v", len(table.Rows), table.Columns)
	}
	if got, want := table.Rows[0].Cells[2].Text, number(merged.Quantile(0.99)/usPerMS); got != want || table.Rows[0].Cells[0].Text != "0:30" {
		t.Errorf("%v, want %s", table.Rows[0].Cells, want)
	}
	mean := f.Data[i-1]
	if len(mean.Rows) != 30 || mean.Rows[29].Cells[0].Text != "29:30" {
		t.Errorf("%d rows, the last %v", len(mean.Rows), mean.Rows[len(mean.Rows)-1].Cells)
	}
}

// Of p99.9, no more is said than the number of commands allows.
func TestTail(t *testing.T) {
	in := published(t)
	in.find(t, "psmdb80", 4_000_000, 1).Cell.Commands = 9_999
	c := build(t, in)
	if d := c.difference(1, "psmdb80", MetricP999, AllOperations); d != nil {
		t.Errorf("of 9,999 commands: %+v", d)
	}
	if d := c.difference(1, "psmdb83", MetricP999, AllOperations); d == nil || !d.Ratio.HasInterval() {
		t.Errorf("of the others: %+v", d)
	}
	for _, test := range []struct {
		commands int64
		shown    bool
		note     string
	}{
		{9_999, false, "at 4M: it takes 10,000 commands, of which 10 are slower"},
		{10_000, true, "at 4M on as few as 10: a few stalls move it"},
		{99_999, true, "at 4M on as few as 99: a few stalls move it"},
		{100_000, true, ""},
	} {
		s := &c.Groups[1].Summaries[1]
		s.Commands = test.commands
		if got := s.latency(&latencyMetrics[4]); (got > 0) != test.shown {
			t.Errorf("%d commands: p99.9 is %v", test.commands, got)
		}
		note, caption := c.latencyTable().Note, c.latencyFigure().Caption
		if test.note != "" && (!strings.Contains(note, test.note) || !strings.Contains(caption, test.note)) {
			t.Errorf("%d commands: note %q, caption %q", test.commands, note, caption)
		}
		if test.note == "" && strings.Contains(note, "p99.9") {
			t.Errorf("%d commands: note %q", test.commands, note)
		}
	}
}

func TestForestTicks(t *testing.T) {
	d := func(value, low, high float64) *Difference {
		x := &Difference{}
		x.Ratio.Value, x.Ratio.Low, x.Ratio.High = value, low, high
		return x
	}
	for _, test := range []struct {
		rows        []*Difference
		first, last float64
	}{
		{[]*Difference{d(1.02, 1.01, 1.03)}, -1, 4},
		{[]*Difference{d(0.5, 0.01, 50)}, -100, 200}, // not flattened
		{[]*Difference{d(0.02, 0.01, 0.03), d(4, 3, 5)}, -100, 400},
	} {
		at := forestTicks(test.rows)
		if at[0] != test.first || at[len(at)-1] != test.last || len(at) < 2 {
			t.Errorf("%v", at)
		}
	}
}
