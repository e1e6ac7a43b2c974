package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/mongo-sandbox/sandbox/internal/record"
)

// victimEnv makes the test binary run a bench in the folder it names,
// reporting every event on standard output, instead of the tests.
const victimEnv = "SANDBOX_BENCH_VICTIM"

func victimOptions(dir string) (Options, error) {
	sizes, err := ParseSizes("100,200,300", 10)
	return Options{
		Environment: "victim", Platform: "local", Order: Random, Sizes: sizes,
		Settings: record.Settings{
			Workload: "flights", Seed: 1, Workers: 1, OpsPerWorker: 1000, Mix: map[string]int{"find": 1},
			InsertBatch: 1, FindBatch: 1, Duration: time.Second,
		},
		Targets: []Target{{Name: "a"}, {Name: "b"}, {Name: "c"}},
		RunsDir: dir,
		Runner: &fakeRunner{cell: func(_ context.Context, job Job, cell *record.CellWriter) (record.Cell, error) {
			for second := range 3 {
				if err := cell.Interval(record.Interval{StartS: float64(second), EndS: float64(second + 1)}); err != nil {
					return record.Cell{}, err
				}
				job.Progress(Event{Phase: Running})
			}
			out := goodCell()
			out.Started = time.Now()
			// Now and then an attempt is worthless.
			if (job.ID.Size+int64(job.ID.Iteration))%7 == 0 && cell.Attempt() == 1 {
				out.Valid, out.InvalidReasons = false, []string{"an election happened"}
			}
			return out, nil
		}},
	}, err
}

// victim goes on with the run in dir, or starts it.
func victim(dir string) {
	o, err := victimOptions(dir)
	if err == nil {
		o.Progress = func(Event) { fmt.Println() }
		o.Resume, err = record.Newest(dir, nil)
		if errors.Is(err, record.ErrNoRun) {
			err = nil
		}
	}
	if err == nil {
		_, err = Run(context.Background(), o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// TestKillAndResume ends a bench with kill -9 at ten random moments and lets
// it go on.
func TestKillAndResume(t *testing.T) {
	dir := t.TempDir()
	const cells, kills = 90, 10
	finished := map[string]record.Cell{} // by cell and attempt
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for range kills {
		runVictim(t, dir, random)
		for _, c := range checkRecord(t, dir, finished) {
			finished[attemptName(c)] = *c.Cell
		}
	}
	t.Logf("%d attempts were finished before the last kill", len(finished))
	runVictim(t, dir, nil)

	run, err := record.Newest(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	counted := map[record.CellID]int{}
	for _, c := range checkRecord(t, dir, finished) {
		if c.Status == record.Counted {
			counted[c.ID]++
		}
	}
	o, err := victimOptions(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range plan(o.Order, o.Settings.Seed, o.Sizes, o.Targets) {
		if counted[id] != 1 {
			t.Errorf("cell %s was counted %d times", id, counted[id])
		}
		delete(counted, id)
	}
	if len(counted) > 0 {
		t.Errorf("cells that nobody asked for: %v", counted)
	}
	if openRun(t, run).Run().Finished == nil {
		t.Error("the run is not marked as finished")
	}
	if runs, err := os.ReadDir(dir); err != nil || len(runs) != 1 {
		t.Errorf("%d runs, %v: want one", len(runs), err)
	}
	checkJournal(t, run, cells)
}

func attemptName(c record.CellRecord) string { return fmt.Sprintf("%s#%d", c.ID, c.Attempt) }

// runVictim starts the victim and, with random, kills it a random time after
// a random event; else it must end well.
func runVictim(t *testing.T, dir string, random *rand.Rand) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), victimEnv+"="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if random == nil {
		_, copyErr := io.Copy(io.Discard, out)
		if err := errors.Join(copyErr, cmd.Wait()); err != nil {
			t.Fatalf("bench: %v", err)
		}
		return
	}
	events := bufio.NewScanner(out)
	for range 3 + random.IntN(70) { // the first three inspect
		if !events.Scan() {
			break
		}
	}
	// Spin for less than a cell's time, to hit the writing of any file.
	for until := time.Now().Add(time.Duration(random.IntN(5_000)) * time.Microsecond); time.Now().Before(until); {
		continue
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
}

// checkRecord reads the record and checks that nothing finished is lost,
// changed or done twice. It returns the finished attempts.
func checkRecord(t *testing.T, dir string, before map[string]record.Cell) []record.CellRecord {
	t.Helper()
	run, err := record.Newest(dir, nil)
	if errors.Is(err, record.ErrNoRun) && len(before) == 0 {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	var finished []record.CellRecord
	found := 0
	for _, c := range cellsOf(t, run) {
		switch c.Status {
		case record.Damaged, record.Superseded:
			t.Errorf("attempt %s is %s: %s", attemptName(c), c.Status, c.Problem)
		case record.Counted, record.Invalid:
			finished = append(finished, c)
			n := 0
			for _, err := range c.Intervals() {
				if err != nil {
					t.Error(err)
				}
				n++
			}
			if n != 3 {
				t.Errorf("attempt %s has %d intervals, want 3", attemptName(c), n)
			}
		}
		if old, ok := before[attemptName(c)]; ok {
			found++
			if c.Cell == nil || !c.Cell.Started.Equal(old.Started) {
				t.Errorf("attempt %s was finished and is another now", attemptName(c))
			}
		}
	}
	if found != len(before) {
		t.Errorf("%d of %d finished attempts are there", found, len(before))
	}
	return finished
}

// checkJournal checks that the log agrees with the folders.
func checkJournal(t *testing.T, run string, cells int) {
	t.Helper()
	valid := map[string]int{}
	resumed := 0
	for e, err := range openRun(t, run).Journal() {
		if err != nil {
			t.Fatal(err)
		}
		switch e.Event {
		case record.CellFinished:
			valid[e.Cell]++
		case record.Resumed:
			resumed++
		}
	}
	if len(valid) != cells {
		t.Errorf("the journal has %d finished cells, want %d", len(valid), cells)
	}
	for cell, n := range valid {
		if n != 1 {
			t.Errorf("the journal has cell %s finished %d times", cell, n)
		}
	}
	if leftovers, err := filepath.Glob(filepath.Join(run, "cells", ".new-*")); err != nil || len(leftovers) > 0 {
		t.Errorf("half-made attempts are left: %v, %v", leftovers, err)
	}
	if resumed == 0 {
		t.Error("no kill hit the run")
	}
}
