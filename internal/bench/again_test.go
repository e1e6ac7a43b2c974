package bench

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mongo-sandbox/sandbox/internal/record"
)

func TestAgain(t *testing.T) {
	runner := &fakeRunner{}
	o := options(t, runner)
	before := slices.Clone(o.Targets)
	o.Targets = Again(o.Targets, "")
	if want := []string{"a", "b", "a.again"}; !slices.Equal(namesOf(o.Targets), want) {
		t.Fatalf("targets %q, want %q", namesOf(o.Targets), want)
	}
	result, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"a/1000/default/1", "b/1000/default/1", "a.again/1000/default/1", "a/2000/default/1", "b/2000/default/1", "a.again/2000/default/1",
		"a/1000/default/2", "b/1000/default/2", "a.again/1000/default/2",
	}
	if diff := cmp.Diff(want, runner.runs); diff != "" {
		t.Errorf("cells run (-want +got):\n%s", diff)
	}
	targets := openRun(t, result.Dir).Run().Targets
	if len(targets) != 3 || targets[2].AAOf != "a" || targets[2].RequestedVersion != "8.0.34" || targets[0].AAOf != "" {
		t.Errorf("%+v", targets)
	}
	if got := statuses(t, result.Dir); got[record.Counted] != 9 {
		t.Errorf("statuses = %v", got)
	}

	// It goes on as it began, and without the second measurement not at all.
	o.Resume = result.Dir
	if _, err := Run(t.Context(), o); err != nil {
		t.Error(err)
	}
	o.Targets = before
	if _, err := Run(t.Context(), o); err == nil {
		t.Error("a run with other targets was resumed")
	}

	if got := namesOf(Again(before, "b")); !slices.Equal(got, []string{"a", "b", "b.again"}) {
		t.Errorf("%q", got)
	}
	if got := namesOf(Again(before, "nobody")); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("%q", got)
	}
	o = options(t, runner)
	o.Targets = Again(o.Targets, "a")[1:]
	if err := o.Check(); err == nil {
		t.Error("a second measurement without a first")
	}
}

func namesOf(targets []Target) []string {
	out := make([]string, len(targets))
	for i, t := range targets {
		out[i] = t.Name
	}
	return out
}

// The load host is told which target is measured a second time.
func TestAgainOnTheLoadHost(t *testing.T) {
	o := options(t, nil)
	o.Targets = Again(o.Targets, "b")
	data, err := encodeJob(o)
	if err != nil {
		t.Fatal(err)
	}
	there, err := decodeJob(data)
	if err != nil {
		t.Fatal(err)
	}
	if last := there.Targets[2]; last.Name != "b.again" || last.AAOf != "b" {
		t.Errorf("%+v", last)
	}
}
