package report

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files")

func scenarios(t testing.TB) []struct {
	name  string
	input Input
} {
	return []struct {
		name  string
		input Input
	}{
		{"published", published(t)}, {"embedded", standIn(t)}, {"troubled", troubled(t)}, {"answers", answersDiffer(t)},
	}
}

func build(t testing.TB, in Input) *Comparison {
	t.Helper()
	c, err := Build(in)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// built keeps the comparisons of scenarios, for tests that only read them.
var built sync.Map

func compared(t testing.TB, name string) *Comparison {
	made, _ := built.LoadOrStore(name, sync.OnceValue(func() *Comparison {
		for _, s := range scenarios(t) {
			if s.name == name {
				return build(t, s.input)
			}
		}
		t.Fatalf("no scenario %s", name)
		return nil
	}))
	return made.(func() *Comparison)()
}

func render(t testing.TB, format string, c *Comparison) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := Render(&b, format, c); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// golden compares with a golden file, or writes it.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("differs from %s (-update writes it):\n%s", path, diff)
	}
}

// The golden files are the report as it should be read; look at them after
// -update.
func TestGolden(t *testing.T) {
	for _, s := range scenarios(t) {
		c := compared(t, s.name)
		for _, format := range Formats() {
			t.Run(s.name+"."+format, func(t *testing.T) {
				golden(t, s.name+"."+format, render(t, format, c))
			})
		}
	}
}
