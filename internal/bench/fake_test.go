package bench

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/mongo-sandbox/sandbox/internal/record"
)

// fakeRunner stands in for deployments: cell decides what becomes of an
// attempt.
type fakeRunner struct {
	inspect func(Target) (record.Target, error)
	missing []string // warnings of every target
	cell    func(context.Context, Job, *record.CellWriter) (record.Cell, error)

	mu   sync.Mutex
	runs []string
}

func (f *fakeRunner) LoadHost(context.Context) (record.MachineFacts, error) {
	return record.MachineFacts{CPUs: 2}, nil
}

func (f *fakeRunner) Inspect(_ context.Context, t Target) (record.Target, []string, error) {
	if f.inspect != nil {
		facts, err := f.inspect(t)
		return facts, f.missing, err
	}
	return factsOf(t), f.missing, nil
}

func factsOf(t Target) record.Target {
	r := t.described()
	r.ActualVersion = t.RequestedVersion
	return r
}

func (f *fakeRunner) RunCell(ctx context.Context, job Job, cell *record.CellWriter) (record.Cell, error) {
	f.mu.Lock()
	f.runs = append(f.runs, job.ID.String())
	f.mu.Unlock()
	job.Progress(Event{Phase: Seeding, Documents: job.ID.Size})
	job.Progress(Event{Phase: Running})
	if f.cell != nil {
		return f.cell(ctx, job, cell)
	}
	return goodCell(), nil
}

func goodCell() record.Cell {
	return record.Cell{Valid: true, Complete: true, Commands: 10, DurationS: 1, Operations: map[string]record.Operation{}}
}

// options are those of a small run of two targets.
func options(t *testing.T, runner Runner) Options {
	t.Helper()
	sizes, err := ParseSizes("1k:2,2k:1", 1)
	if err != nil {
		t.Fatal(err)
	}
	return Options{
		Environment: "first-look", Platform: "local", Order: Interleaved, Sizes: sizes,
		Settings: record.Settings{
			Workload: "flights", Seed: 178477, Workers: 2, OpsPerWorker: 1000, Mix: map[string]int{"find": 60, "update": 40},
			InsertBatch: 10, FindBatch: 10, FindLimit: 5, Duration: time.Second,
		},
		Targets: []Target{{Name: "a", RequestedVersion: "8.0.34"}, {Name: "b", RequestedVersion: "9.0.1"}},
		RunsDir: t.TempDir(), Runner: runner,
	}
}

// openRun reads the run in dir.
func openRun(t *testing.T, dir string) *record.Reader {
	t.Helper()
	r, err := record.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

func cellsOf(t *testing.T, dir string) []record.CellRecord {
	t.Helper()
	cells, err := openRun(t, dir).Cells()
	if err != nil {
		t.Fatal(err)
	}
	return cells
}

// statuses counts attempts by status.
func statuses(t *testing.T, dir string) map[record.Status]int {
	t.Helper()
	n := map[record.Status]int{}
	for _, c := range cellsOf(t, dir) {
		n[c.Status]++
	}
	return n
}

func journalOf(t *testing.T, dir string) []string {
	t.Helper()
	var events []string
	for e, err := range openRun(t, dir).Journal() {
		if err != nil {
			t.Fatal(err)
		}
		line := e.Event
		for _, part := range []string{e.Target, e.Cell, e.Reason} {
			if part != "" {
				line += " " + part
			}
		}
		events = append(events, line)
	}
	return events
}
