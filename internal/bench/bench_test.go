package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mongo-sandbox/sandbox/internal/loadgen"
	"github.com/mongo-sandbox/sandbox/internal/record"
)

func TestRun(t *testing.T) {
	runner := &fakeRunner{}
	o := options(t, runner)
	var phases []string
	o.Progress = func(e Event) {
		phases = append(phases, fmt.Sprintf("%s %s %d/%d", e.Phase, e.Target, e.Number, e.Total))
	}
	result, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"a/1000/default/1", "b/1000/default/1", "a/2000/default/1", "b/2000/default/1",
		"a/1000/default/2", "b/1000/default/2",
	}
	if diff := cmp.Diff(want, runner.runs); diff != "" {
		t.Errorf("cells run (-want +got):\n%s", diff)
	}
	if result.Cells != 6 || result.Finished != 6 || result.Invalid != 0 || result.Skipped != 0 {
		t.Errorf("result = %+v", result)
	}
	if got := statuses(t, result.Dir); got[record.Counted] != 6 || len(got) != 1 {
		t.Errorf("statuses = %v", got)
	}
	run := openRun(t, result.Dir).Run()
	if run.Finished == nil || run.Baseline != "a" || run.Targets[1].ActualVersion != "9.0.1" || run.LoadHost.CPUs != 2 ||
		run.Engine != record.EngineMongod || !strings.HasSuffix(run.ID, "-first-look") {
		t.Errorf("run = %+v", run)
	}
	for _, want := range []string{"inspecting a 0/0", "seeding b 2/6", "running b 2/6", "cell_done b 6/6"} {
		if !slices.Contains(phases, want) {
			t.Errorf("no event %q in %q", want, phases)
		}
	}
	journal := journalOf(t, result.Dir)
	if got := journal[len(journal)-1]; got != record.RunFinished {
		t.Errorf("journal ends with %q", got)
	}
}

func TestEmbeddedTargetMakesTheRunEmbedded(t *testing.T) {
	runner := &fakeRunner{inspect: func(t Target) (record.Target, error) {
		facts := factsOf(t)
		if t.Name == "b" {
			facts.Engine = record.EngineEmbedded
		}
		return facts, nil
	}}
	result, err := Run(t.Context(), options(t, runner))
	if err != nil {
		t.Fatal(err)
	}
	if result.Run.Engine != record.EngineEmbedded {
		t.Errorf("engine = %s", result.Run.Engine)
	}
}

func TestInvalidCellIsRunAgainAndKept(t *testing.T) {
	for name, c := range map[string]struct {
		invalid      int // attempts of one cell
		reruns       int
		want         map[record.Status]int
		resultHasBad int
	}{
		"once":      {1, 0, map[record.Status]int{record.Counted: 6, record.Invalid: 1}, 0},
		"twice":     {2, 0, map[record.Status]int{record.Counted: 6, record.Invalid: 2}, 0},
		"always":    {99, 0, map[record.Status]int{record.Counted: 5, record.Invalid: 3}, 1},
		"no reruns": {99, -1, map[record.Status]int{record.Counted: 5, record.Invalid: 1}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			runner := &fakeRunner{cell: func(_ context.Context, job Job, cell *record.CellWriter) (record.Cell, error) {
				out := goodCell()
				if job.ID.String() == "b/1000/default/1" && cell.Attempt() <= c.invalid {
					out.Valid, out.InvalidReasons = false, []string{"member m1 restarted"}
				}
				return out, nil
			}}
			o := options(t, runner)
			o.Reruns = c.reruns
			result, err := Run(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, statuses(t, result.Dir)); diff != "" {
				t.Errorf("statuses (-want +got):\n%s", diff)
			}
			if result.Finished != 6 || result.Invalid != c.resultHasBad {
				t.Errorf("result = %+v", result)
			}
			ran := len(runner.runs)
			o.Resume = result.Dir
			if _, err := Run(t.Context(), o); err != nil || len(runner.runs) != ran {
				t.Errorf("resuming a finished run: %v, ran %d more cells", err, len(runner.runs)-ran)
			}
			if !slices.Contains(journalOf(t, result.Dir), "cell_invalid b/1000/default/1 member m1 restarted") {
				t.Error("the journal does not say why the cell is invalid")
			}
		})
	}
}

func TestTargetDown(t *testing.T) {
	for name, c := range map[string]struct {
		failure  error
		attempts int // at the cell that fails
	}{
		"at once":              {fmt.Errorf("run workload: %w", loadgen.ErrTargetDown), 1},
		"after bounded reruns": {errors.New("connection refused by mongodb://admin:hunter2@h"), 3},
	} {
		t.Run(name, func(t *testing.T) {
			broken := true
			runner := &fakeRunner{cell: func(_ context.Context, job Job, _ *record.CellWriter) (record.Cell, error) {
				if broken && job.ID.String() == "a/2000/default/1" {
					return record.Cell{}, c.failure
				}
				return goodCell(), nil
			}}
			o := options(t, runner)
			result, err := Run(t.Context(), o)
			var down *DownError
			if !errors.Is(err, loadgen.ErrTargetDown) || !errors.As(err, &down) || !slices.Equal(down.Targets, []string{"a"}) {
				t.Fatalf("error = %v", err)
			}
			if result.Finished != 4 || result.Skipped != 1 || result.Run.Finished != nil {
				t.Errorf("result = %+v", result)
			}
			want := map[record.Status]int{record.Counted: 4, record.Partial: c.attempts}
			if diff := cmp.Diff(want, statuses(t, result.Dir)); diff != "" {
				t.Errorf("statuses (-want +got):\n%s", diff)
			}
			journal := strings.Join(journalOf(t, result.Dir), "\n")
			if !strings.Contains(journal, "target_down a ") || strings.Contains(journal, "hunter2") {
				t.Errorf("journal:\n%s", journal)
			}

			broken = false
			o.Resume = result.Dir
			result, err = Run(t.Context(), o)
			if err != nil || result.Finished != 6 || result.Run.Finished == nil {
				t.Errorf("resumed: %v, %+v", err, result)
			}
			if got := statuses(t, result.Dir); got[record.Counted] != 6 || got[record.Superseded] != 0 {
				t.Errorf("statuses = %v", got)
			}
		})
	}
}

func TestTargetDownAtTheStart(t *testing.T) {
	dead := map[string]bool{"a": true}
	runner := &fakeRunner{inspect: func(t Target) (record.Target, error) {
		if dead[t.Name] {
			return record.Target{}, errors.New("no answer")
		}
		return factsOf(t), nil
	}}
	o := options(t, runner)
	result, err := Run(t.Context(), o)
	if !errors.Is(err, loadgen.ErrTargetDown) {
		t.Fatalf("error = %v", err)
	}
	if result.Finished != 3 || result.Skipped != 3 {
		t.Errorf("result = %+v", result)
	}
	if got := result.Run.Targets[0]; got.Name != "a" || got.RequestedVersion != "8.0.34" || got.ActualVersion != "" {
		t.Errorf("target that is down = %+v", got)
	}
	clear(dead)
	o.Resume = result.Dir
	result, err = Run(t.Context(), o)
	if err != nil || result.Finished != 6 || result.Run.Targets[0].ActualVersion != "8.0.34" {
		t.Errorf("resumed: %v, %+v", err, result)
	}

	dead["a"], dead["b"] = true, true
	o.Resume, o.RunsDir = "", t.TempDir()
	if result, err = Run(t.Context(), o); !errors.Is(err, loadgen.ErrTargetDown) || result != nil {
		t.Errorf("all down: %v, %+v", err, result)
	}
}

func TestInterruptKeepsWhatWasMeasured(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	runner := &fakeRunner{}
	runner.cell = func(ctx context.Context, job Job, cell *record.CellWriter) (record.Cell, error) {
		if job.ID.String() == "a/2000/default/1" && ctx.Err() == nil && cell.Attempt() == 1 {
			cancel()
			out := goodCell()
			out.Interrupted = true
			return out, cell.Interval(record.Interval{EndS: 1})
		}
		return goodCell(), nil
	}
	o := options(t, runner)
	result, err := Run(ctx, o)
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("error = %v", err)
	}
	var partial *record.CellRecord
	for _, c := range cellsOf(t, result.Dir) {
		if c.Status == record.Partial {
			partial = &c
		}
	}
	if partial == nil || partial.Cell == nil || !partial.Cell.Interrupted || partial.Cell.Valid || partial.Cell.Commands != 10 {
		t.Fatalf("partial = %+v", partial)
	}
	o.Resume = result.Dir
	result, err = Run(t.Context(), o)
	if err != nil || result.Finished != 6 {
		t.Errorf("resumed: %v, %+v", err, result)
	}
	if got := statuses(t, result.Dir); got[record.Counted] != 6 || got[record.Partial] != 1 {
		t.Errorf("statuses = %v", got)
	}
}

func TestInterruptAfterTheMeasurementLosesNothing(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	runner := &fakeRunner{cell: func(context.Context, Job, *record.CellWriter) (record.Cell, error) {
		cancel()
		return goodCell(), nil
	}}
	result, err := Run(ctx, options(t, runner))
	if !errors.Is(err, context.Canceled) || result.Finished != 1 {
		t.Errorf("error %v, result %+v", err, result)
	}
}

func TestPauseBetweenCells(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := options(t, &fakeRunner{})
		o.Interval = 5 * time.Minute
		var pauses int
		o.Progress = func(e Event) {
			if e.Phase == Pausing && e.Wait == o.Interval {
				pauses++
			}
		}
		began := time.Now()
		if _, err := Run(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		if got, want := time.Since(began), 5*o.Interval; got != want || pauses != 5 {
			t.Errorf("took %s with %d pauses, want %s with 5", got, pauses, want)
		}

		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		o.RunsDir = t.TempDir()
		result, err := Run(ctx, o)
		if !errors.Is(err, context.DeadlineExceeded) || result.Finished != 1 {
			t.Errorf("interrupted pause: %v, %+v", err, result)
		}
		if journal := journalOf(t, result.Dir); journal[len(journal)-1] != record.Interrupted {
			t.Errorf("journal = %q", journal)
		}
	})
}

func TestLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := options(t, &fakeRunner{cell: func(_ context.Context, job Job, _ *record.CellWriter) (record.Cell, error) {
			// Preparation is proportional to the documents, as seeding is.
			time.Sleep(job.Settings.Duration + time.Duration(job.ID.Size)*time.Second/1000)
			job.Progress(Event{Phase: Explaining})
			return goodCell(), nil
		}})
		o.Interval = 10 * time.Second
		o.Settings.Duration = 30 * time.Second
		var atFirst, afterFirst, inThird time.Duration
		o.Progress = func(e Event) {
			switch {
			case e.Phase == Explaining && e.Number == 1:
				atFirst = e.Left
			case e.Phase == CellDone && e.Number == 1:
				afterFirst = e.Left
			case e.Phase == Running && e.Number == 3:
				inThird = e.Left
			}
		}
		if _, err := Run(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		// Sizes in order: 1k 1k 2k 2k 1k 1k, 31 s or 32 s each.
		const second = time.Second
		if atFirst != 0 {
			t.Errorf("left at the first cell's end = %s, want 0: nothing to go by", atFirst)
		}
		if want := 5*10*second + 31*second + 2*32*second + 2*31*second; afterFirst != want {
			t.Errorf("left after the first cell = %s, want %s", afterFirst, want)
		}
		if want := 3*10*second + 2*32*second + 2*31*second; inThird != want {
			t.Errorf("left in the third cell = %s, want %s", inThird, want)
		}
	})
}

func TestResumeRefusesOtherSettings(t *testing.T) {
	runner := &fakeRunner{}
	first := options(t, runner)
	result, err := Run(t.Context(), first)
	if err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*Options){
		"environment is other now and was first-look":    func(o *Options) { o.Environment = "other" },
		"seed is 1 now and was 178477":                   func(o *Options) { o.Settings.Seed = 1 },
		"ops-per-worker is 7 now and was 1000":           func(o *Options) { o.Settings.OpsPerWorker = 7 },
		"duration is 2s now and was 1s":                  func(o *Options) { o.Settings.Duration = 2 * time.Second },
		"rate is 5 now and was 0":                        func(o *Options) { o.Settings.Rate = 5 },
		"write-concern is majority now":                  func(o *Options) { o.Settings.WriteConcern = "majority" },
		"mix is map[find:1] now":                         func(o *Options) { o.Settings.Mix = map[string]int{"find": 1} },
		"sizes is 1k:2 now and was 1k:2,2k:1":            func(o *Options) { o.Sizes = o.Sizes[:1] },
		"order is random now":                            func(o *Options) { o.Order = Random },
		"baseline is b now and was a":                    func(o *Options) { o.Baseline = "b" },
		"interval is 1s now":                             func(o *Options) { o.Interval = time.Second },
		"targets is a now and was a,b":                   func(o *Options) { o.Targets = o.Targets[:1] },
		"version of target b is 9.0.2 now and was 9.0.1": func(o *Options) { o.Targets[1].RequestedVersion = "9.0.2" },
	} {
		o := first
		o.Resume = result.Dir
		o.Targets = slices.Clone(o.Targets)
		change(&o)
		_, err := Run(t.Context(), o)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one about %q", err, want)
		}
	}
}

func TestRunRefusesBadOptions(t *testing.T) {
	for want, change := range map[string]func(*Options){
		"no runner":                   func(o *Options) { o.Runner = nil },
		"no target":                   func(o *Options) { o.Targets = nil },
		"no data size":                func(o *Options) { o.Sizes = nil },
		"duration 0s":                 func(o *Options) { o.Settings.Duration = 0 },
		"interval -1s":                func(o *Options) { o.Interval = -time.Second },
		`order "chaos"`:               func(o *Options) { o.Order = "chaos" },
		`baseline "z"`:                func(o *Options) { o.Baseline = "z" },
		"is empty or there twice":     func(o *Options) { o.Targets = append(o.Targets, o.Targets[0]) },
		`unknown kind of command "x"`: func(o *Options) { o.Settings.Mix = map[string]int{"x": 1} },
		"size 1k":                     func(o *Options) { o.Settings.Workers = 0 },
	} {
		o := options(t, &fakeRunner{})
		change(&o)
		_, err := Run(t.Context(), o)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one about %q", err, want)
		}
	}
}

func TestTwoRunsInOneSecond(t *testing.T) {
	o := options(t, &fakeRunner{})
	now := time.Date(2026, 11, 30, 12, 54, 5, 0, time.UTC)
	o.Now = func() time.Time { return now }
	seen := map[string]bool{}
	for range 3 {
		result, err := Run(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		if seen[result.Run.ID] || !strings.HasPrefix(result.Run.ID, "20261130-125405-first-look") {
			t.Errorf("run id %s", result.Run.ID)
		}
		seen[result.Run.ID] = true
	}
}

// TestEnvironmentTakenDown: nobody waits for servers that were taken down.
func TestEnvironmentTakenDown(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var gone atomic.Bool
	o := options(t, &fakeRunner{cell: func(ctx context.Context, _ Job, cell *record.CellWriter) (record.Cell, error) {
		if cell.ID().Target == "a" {
			return goodCell(), nil
		}
		gone.Store(true)
		// Still there: whoever removes the state first waits for the end.
		if sleep(ctx, 2*goneEvery) {
			_ = listener.Close()
		}
		<-ctx.Done()
		out := goodCell()
		out.Interrupted = true
		return out, nil
	}})
	for i := range o.Targets {
		o.Targets[i].Members = []Member{{Name: "m", Address: listener.Addr().String()}}
	}
	o.Gone = gone.Load
	result, err := Run(t.Context(), o)
	var down *DownError
	if !errors.As(err, &down) || !errors.Is(err, loadgen.ErrTargetDown) || !errors.Is(err, errGone) {
		t.Fatalf("error = %v", err)
	}
	if result.Finished != 1 || result.Skipped != 5 || len(down.Targets) != 2 {
		t.Errorf("result = %+v", result)
	}
	if got := statuses(t, result.Dir); got[record.Partial] != 1 {
		t.Errorf("statuses = %v", got)
	}
}

func TestMissingFactsAreWarnings(t *testing.T) {
	runner := &fakeRunner{missing: []string{"member m does not tell its parameters"}}
	o := options(t, runner)
	o.Targets = o.Targets[:1]
	result, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if got := result.Run.Warnings; !slices.Equal(got, runner.missing) {
		t.Errorf("warnings = %q", got)
	}
	runner.missing = append(runner.missing, "mongodb://u:hunter2@h refused")
	o.Resume = result.Dir
	for range 2 {
		if result, err = Run(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	if got := result.Run.Warnings; len(got) != 2 || strings.Contains(got[1], "hunter2") {
		t.Errorf("warnings after resuming = %q", got)
	}
}

// A run that goes on on machines that were made anew is of no single set of
// them.
func TestResumedOnOtherMachines(t *testing.T) {
	t.Parallel()
	began := []record.MemberFacts{{Name: "m0", MachineID: "1"}, {Name: "m1", MachineID: "2"}, {Name: "m2"}}
	now := []record.MemberFacts{{Name: "m1", MachineID: "22"}, {Name: "m0", MachineID: "1"}, {Name: "m2", MachineID: "3"}}
	got, moved := withoutMoved(began, now)
	if !moved || got[0].MachineID != "1" || got[1].MachineID != "" || got[2].MachineID != "" || began[1].MachineID != "2" {
		t.Errorf("%+v, %v", got, moved)
	}
	if _, moved := withoutMoved(began, began); moved {
		t.Error("the same machines are others")
	}

	// A machine of another type has kept its id. What one side does not know
	// is no difference.
	small := record.CloudFacts{MachineType: "n2-standard-4", Zone: "z-a", DiskType: "pd-ssd", DiskGB: 80}
	large, older, bigDisk := small, small, small
	large.MachineType, older.DiskType, older.DiskGB, bigDisk.DiskGB = "n2-standard-8", "", 0, 200
	for name, c := range map[string]struct {
		was, now record.CloudFacts
		moved    bool
	}{
		"the same": {small, small, false}, "larger": {small, large, true}, "another disk": {small, bigDisk, true},
		"an older inventory": {older, small, false}, "an older record": {record.CloudFacts{}, small, false},
	} {
		began := []record.MemberFacts{{Name: "m0", MachineID: "1", Cloud: c.was}}
		want := c.was
		if c.moved {
			want = record.CloudFacts{}
		}
		got, moved := withoutMoved(began, []record.MemberFacts{{Name: "m0", MachineID: "1", Cloud: c.now}})
		if moved != c.moved || got[0].Cloud != want || got[0].MachineID != "1" {
			t.Errorf("%s: %+v, moved %v", name, got[0], moved)
		}
	}
}
