package record

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/klauspost/compress/zstd"
)

func at(second int) time.Time { return time.Date(2026, 11, 30, 12, 54, second, 0, time.UTC) }

func sampleRun() Run {
	return Run{
		ID:          NewID(at(5), "first-look"),
		Started:     at(5),
		Environment: "first-look",
		Platform:    "local",
		Engine:      EngineEmbedded,
		CommandLine: []string{"sandbox", "bench", "--sizes", "1k"},
		Settings:    Settings{Workload: "flights", Seed: 178477, Workers: 2, Mix: map[string]int{"find": 60}},
		Sizes:       []Size{{Documents: 1000, Label: "1k", Iterations: 2}},
		Order:       "interleaved",
		Baseline:    "mongodb-8",
		Targets:     []Target{{Name: "mongodb-8"}, {Name: "mongodb-9"}},
	}
}

func cellID(target string, iteration int) CellID {
	return CellID{Target: target, Size: 1000, Variant: DefaultVariant, Iteration: iteration}
}

func sampleCell() Cell {
	return Cell{
		Valid: true, Complete: true, Started: at(6), DurationS: 10.5,
		Commands: 42, Operations: map[string]Operation{"find": {Count: 42}},
	}
}

func create(t *testing.T) *Writer {
	t.Helper()
	w, err := Create(filepath.Join(t.TempDir(), "runs", "r"), sampleRun())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close() })
	return w
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func begin(t *testing.T, w *Writer, id CellID) *CellWriter {
	t.Helper()
	c, err := w.Begin(id, at(6))
	must(t, err)
	return c
}

func reader(t *testing.T, w *Writer) *Reader {
	t.Helper()
	r, err := Open(w.Dir())
	must(t, err)
	t.Cleanup(func() { must(t, r.Close()) })
	return r
}

func cells(t *testing.T, w *Writer) []CellRecord {
	t.Helper()
	cells, err := reader(t, w).Cells()
	must(t, err)
	return cells
}

func collect[T any](t *testing.T, seq func(func(T, error) bool)) []T {
	t.Helper()
	var out []T
	for v, err := range seq {
		must(t, err)
		out = append(out, v)
	}
	return out
}

func TestRoundTrip(t *testing.T) {
	w := create(t)
	c := begin(t, w, cellID("mongodb-9", 1))
	none, one := int64(0), int64(1)
	intervals := []Interval{
		// The first is as older writers left it: what was not counted stays
		// apart from what did not happen.
		{StartS: 0, EndS: 1, Operations: map[string]IntervalOperation{"find": {Count: 20, SumUS: 9000, MaxUS: 800}}},
		{
			StartS: 1, EndS: 2, Operations: map[string]IntervalOperation{"find": {Count: 22, Errors: 1, SumUS: 9100, MaxUS: 801}},
			Trouble: Trouble{Retries: &none, Timeouts: &one, ErrorCodes: map[string]int64{"find/Timeout": 1}},
		},
	}
	windows := []Window{{
		StartS: 0, EndS: 2, Operations: map[string]WindowOperation{"find": {Count: 42, SumUS: 18100, ResponseSumUS: 19000, ResponseHistogram: "x"}},
		Trouble: Trouble{Timeouts: &none},
	}}
	samples := []Sample{
		{At: at(6), Phase: "before", Member: "m0", State: "PRIMARY", Values: map[string]float64{"cpu.user_us": 12.5}},
		{At: at(9), Phase: "after", Member: "m0", Error: "dial mongodb://a:b@h: refused"},
	}
	checkpoints := Checkpoints{Every: 1000, Workers: [][]string{{strings.Repeat("ab", 32)}, {}}}
	explains := []Explain{{Operation: "find", Shape: "find {flight_id: {$in}}", Command: []byte(`{"find":"flights"}`), Stages: []string{"FETCH", "IXSCAN a_1"}, Keys: 10}}
	for _, v := range intervals {
		must(t, c.Interval(v))
	}
	must(t, c.Window(windows[0]))
	for _, v := range samples {
		must(t, c.Sample(v))
	}
	_, err := io.WriteString(c.Latency(), "#[log]\n")
	must(t, err)
	must(t, c.Checkpoints(checkpoints))
	must(t, c.Explains(explains))
	must(t, c.Finish(sampleCell(), at(20)))

	r := reader(t, w)
	want := sampleRun()
	want.SchemaVersion = SchemaVersion
	if diff := cmp.Diff(want, r.Run(), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("run (-want +got):\n%s", diff)
	}
	got, err := r.Cells()
	must(t, err)
	if len(got) != 1 || got[0].Status != Counted || got[0].Attempt != 1 {
		t.Fatalf("cells = %+v", got)
	}
	wantCell := sampleCell()
	wantCell.CellID, wantCell.Attempt = cellID("mongodb-9", 1), 1
	if diff := cmp.Diff(&wantCell, got[0].Cell); diff != "" {
		t.Errorf("cell (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(intervals, collect(t, got[0].Intervals())); diff != "" {
		t.Errorf("intervals (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(windows, collect(t, got[0].Windows())); diff != "" {
		t.Errorf("windows (-want +got):\n%s", diff)
	}
	samples[1].Error = "dial mongodb://a:[redacted]@h: refused"
	if diff := cmp.Diff(samples, collect(t, got[0].Samples())); diff != "" {
		t.Errorf("samples (-want +got):\n%s", diff)
	}
	gotCheckpoints, err := got[0].Checkpoints()
	must(t, err)
	if diff := cmp.Diff(checkpoints, gotCheckpoints); diff != "" {
		t.Errorf("checkpoints (-want +got):\n%s", diff)
	}
	gotExplains, err := got[0].Explains()
	must(t, err)
	explains[0].Command = gotExplains[0].Command // indented now
	if diff := cmp.Diff(explains, gotExplains); diff != "" {
		t.Errorf("explains (-want +got):\n%s", diff)
	}
	log, err := got[0].LatencyLog()
	must(t, err)
	text, err := io.ReadAll(log)
	must(t, errors.Join(err, log.Close()))
	if string(text) != "#[log]\n" {
		t.Errorf("latency log %q", text)
	}
	wantEvents := []Event{
		{At: at(6), Event: CellStarted, Cell: "mongodb-9/1000/default/1", Attempt: 1},
		{At: at(20), Event: CellFinished, Cell: "mongodb-9/1000/default/1", Attempt: 1},
	}
	if diff := cmp.Diff(wantEvents, collect(t, r.Journal())); diff != "" {
		t.Errorf("journal (-want +got):\n%s", diff)
	}
}

func TestStatuses(t *testing.T) {
	w := create(t)
	id := cellID("t", 1)
	invalid := sampleCell()
	invalid.Valid, invalid.InvalidReasons = false, []string{"member m1 restarted"}

	must(t, begin(t, w, id).Abandon(nil, CellFailed, "no primary", at(7)))
	part := sampleCell()
	part.Interrupted = true
	must(t, begin(t, w, id).Abandon(&part, Interrupted, "", at(8)))
	must(t, begin(t, w, id).Finish(invalid, at(9)))
	must(t, begin(t, w, id).Finish(sampleCell(), at(10)))
	must(t, begin(t, w, id).Finish(sampleCell(), at(11)))
	begin(t, w, id) // still running

	var got []string
	for _, c := range cells(t, w) {
		got = append(got, fmt.Sprintf("%d %s finished=%v outcome=%v", c.Attempt, c.Status, c.Finished(), c.Cell != nil))
	}
	want := []string{
		"1 partial finished=false outcome=false",
		"2 partial finished=false outcome=true",
		"3 invalid finished=true outcome=true",
		"4 superseded finished=true outcome=true",
		"5 counted finished=true outcome=true",
		"6 partial finished=false outcome=false",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("statuses (-want +got):\n%s", diff)
	}
	events := collect(t, reader(t, w).Journal())
	var names []string
	for _, e := range events {
		names = append(names, e.Event+" "+e.Reason)
	}
	for _, want := range []string{"cell_failed no primary", "interrupted ", "cell_invalid member m1 restarted"} {
		if !slices.Contains(names, want) {
			t.Errorf("journal lacks %q: %q", want, names)
		}
	}
}

func TestResume(t *testing.T) {
	w := create(t)
	begin(t, w, cellID("t", 1))
	must(t, begin(t, w, cellID("t", 2)).Finish(sampleCell(), at(9)))
	must(t, w.Close())

	// What kill -9 may leave: a half-made attempt, a torn line, a finished
	// cell that the journal never heard of.
	must(t, os.Mkdir(filepath.Join(w.Dir(), cellsDir, ".new-123"), 0o755))
	path := filepath.Join(w.Dir(), journalFile)
	data, err := os.ReadFile(path)
	must(t, err)
	lines := strings.SplitAfter(string(data), "\n")
	torn := strings.Join(lines[:len(lines)-2], "") + lines[len(lines)-2][:10]
	must(t, os.WriteFile(path, []byte(torn), 0o644))

	w, err = Resume(w.Dir(), at(30))
	must(t, err)
	t.Cleanup(func() { _ = w.Close() })
	if c := begin(t, w, cellID("t", 1)); c.Attempt() != 2 {
		t.Errorf("next attempt is %d, want 2", c.Attempt())
	}
	var got []string
	for _, e := range collect(t, reader(t, w).Journal()) {
		got = append(got, fmt.Sprintf("%s %s %d", e.Event, e.Cell, e.Attempt))
	}
	want := []string{
		"cell_started t/1000/default/1 1",
		"cell_started t/1000/default/2 1",
		"cell_finished t/1000/default/2 1",
		"resumed  0",
		"cell_started t/1000/default/1 2",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("journal (-want +got):\n%s", diff)
	}
	if _, err := os.Stat(filepath.Join(w.Dir(), cellsDir, ".new-123")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("half-made attempt is still there: %v", err)
	}
}

func TestOneWriter(t *testing.T) {
	w := create(t)
	if _, err := Resume(w.Dir(), at(9)); !errors.Is(err, ErrLocked) {
		t.Errorf("second writer: %v, want ErrLocked", err)
	}
	if _, err := Create(w.Dir(), sampleRun()); !errors.Is(err, ErrLocked) {
		t.Errorf("second creator: %v, want ErrLocked", err)
	}
	must(t, w.Close())
	if _, err := Create(w.Dir(), sampleRun()); !errors.Is(err, fs.ErrExist) {
		t.Errorf("create over a record: %v, want fs.ErrExist", err)
	}
	again, err := Resume(w.Dir(), at(9))
	must(t, err)
	must(t, again.Close())
}

func TestTornLastLine(t *testing.T) {
	w := create(t)
	c := begin(t, w, cellID("t", 1))
	must(t, c.Interval(Interval{EndS: 1}))
	must(t, c.Interval(Interval{StartS: 1, EndS: 2}))
	path := filepath.Join(w.Dir(), cellsDir, "t_1000_default_1_1", intervalsFile)
	data, err := os.ReadFile(path)
	must(t, err)
	for cut := range len(data) {
		must(t, os.WriteFile(path, data[:cut], 0o644))
		got := collect(t, cells(t, w)[0].Intervals())
		if want := strings.Count(string(data[:cut]), "\n"); len(got) != want {
			t.Fatalf("%d bytes: %d intervals, want %d", cut, len(got), want)
		}
	}
	// Lines that are no JSON cost themselves only.
	must(t, os.WriteFile(path, slices.Concat([]byte("{]\n"), data, []byte("\x00\x00\n")), 0o644))
	var got []float64
	var errs []string
	for v, err := range cells(t, w)[0].Intervals() {
		if err != nil {
			errs = append(errs, err.Error())
		} else {
			got = append(got, v.EndS)
		}
	}
	if !slices.Equal(got, []float64{1, 2}) || len(errs) != 2 || !strings.Contains(errs[0], "t_1000_default_1_1/intervals.ndjson: line 1: ") ||
		!strings.Contains(errs[1], "line 4: ") {
		t.Errorf("intervals that end at %v, errors %q", got, errs)
	}
}

func TestDamagedIdentity(t *testing.T) {
	damage := func(t *testing.T, finish bool, files map[string]string) (*Writer, CellRecord) {
		w := create(t)
		c := begin(t, w, cellID("t", 1))
		if finish {
			must(t, c.Finish(sampleCell(), at(9)))
		} else {
			partial := sampleCell()
			must(t, c.Abandon(&partial, Interrupted, "", at(9)))
		}
		for name, content := range files {
			must(t, os.WriteFile(filepath.Join(w.Dir(), cellsDir, "t_1000_default_1_1", name), []byte(content), 0o644))
		}
		got := cells(t, w)
		if len(got) != 1 || !strings.Contains(got[0].Problem, "cells/t_1000_default_1_1/id.json: ") {
			t.Fatalf("cells = %+v", got)
		}
		return w, got[0]
	}
	for name, test := range map[string]struct {
		finish bool
		want   Status
	}{"finished": {true, Counted}, "given up": {false, Partial}} {
		t.Run(name, func(t *testing.T) {
			// The outcome still says which cell it is.
			if _, c := damage(t, test.finish, map[string]string{idFile: "{"}); c.Status != test.want || c.ID != cellID("t", 1) || c.Attempt != 1 || c.Cell == nil {
				t.Errorf("cell = %+v", c)
			}
		})
	}
	another := `{"target":"u","size":1000,"variant":"default","iteration":1,"attempt":1,"valid":true}`
	for name, content := range map[string]string{"outcome damaged too": "{", "outcome of another cell": another} {
		t.Run(name, func(t *testing.T) {
			w, c := damage(t, true, map[string]string{idFile: "{", cellFile: content})
			if c.Status != Unknown || c.ID != (CellID{}) || c.Cell != nil || c.Finished() {
				t.Errorf("cell = %+v", c)
			}
			// The run can be gone on with all the same.
			must(t, w.Close())
			again, err := Resume(w.Dir(), at(10))
			must(t, err)
			defer func() { must(t, again.Close()) }()
			if next := begin(t, again, cellID("t", 1)); next.Attempt() != 2 {
				t.Errorf("attempt %d, want 2", next.Attempt())
			}
		})
	}
}

func TestDamagedJournalLine(t *testing.T) {
	w := create(t)
	must(t, begin(t, w, cellID("t", 1)).Finish(sampleCell(), at(9)))
	must(t, w.Close())
	path := filepath.Join(w.Dir(), journalFile)
	data, err := os.ReadFile(path)
	must(t, err)
	must(t, os.WriteFile(path, append(data, "garbage\n"...), 0o644))
	again, err := Resume(w.Dir(), at(10))
	must(t, err)
	defer func() { must(t, again.Close()) }()
	var got []string
	for e, err := range reader(t, again).Journal() {
		if err != nil {
			got = append(got, "error")
			continue
		}
		got = append(got, e.Event)
	}
	if want := []string{CellStarted, CellFinished, "error", Resumed}; !slices.Equal(got, want) {
		t.Errorf("journal %q, want %q", got, want)
	}
}

func TestRunThatCannotBeWrittenLeavesNothing(t *testing.T) {
	bad := sampleRun()
	bad.Environment = "mongodb://u:pass" + "word@h/" // refused: a record holds no secret
	dir := filepath.Join(t.TempDir(), "runs", "r")
	if _, err := Create(dir, bad); err == nil {
		t.Fatal("a record with a password was written")
	}
	if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the folder is left behind: %v", err)
	}
	w, err := Create(dir, sampleRun())
	must(t, err)
	must(t, w.Close())

	// What others have put there stays, and so does a record.
	if _, err := Create(dir, bad); !errors.Is(err, fs.ErrExist) {
		t.Errorf("create over a record: %v", err)
	}
	if _, err := Open(dir); err != nil {
		t.Error(err)
	}
	other := filepath.Join(t.TempDir(), "r")
	must(t, os.MkdirAll(other, 0o755))
	must(t, os.WriteFile(filepath.Join(other, "notes"), nil, 0o644))
	if _, err := Create(other, bad); err == nil {
		t.Error("a record with a password was written")
	}
	if entries, err := os.ReadDir(other); err != nil || len(entries) != 1 || entries[0].Name() != "notes" {
		t.Errorf("left: %v, %v", entries, err)
	}
}

func TestDamagedCellIsShownAndNotFinished(t *testing.T) {
	for name, content := range map[string]string{
		"not JSON":     "{",
		"another cell": `{"target":"u","size":1000,"variant":"default","iteration":1,"attempt":1,"valid":true}`,
		"too many":     `{"operations":{"a":` + strings.Repeat("[", maxDocumentNodes) + `}}`,
	} {
		t.Run(name, func(t *testing.T) {
			w := create(t)
			must(t, begin(t, w, cellID("t", 1)).Finish(sampleCell(), at(9)))
			must(t, os.WriteFile(filepath.Join(w.Dir(), cellsDir, "t_1000_default_1_1", cellFile), []byte(content), 0o644))
			got := cells(t, w)
			if len(got) != 1 || got[0].Status != Damaged || got[0].Finished() || got[0].Problem == "" {
				t.Errorf("cells = %+v", got)
			}
		})
	}
}

func TestOpenRefuses(t *testing.T) {
	for name, c := range map[string]struct{ run, message string }{
		"newer schema": {`{"schema_version":2,"targets":"another form"}`, "schema version 2 is newer"},
		"no schema":    {`{}`, "not a run record"},
		"not JSON":     {`x`, "run.json"},
		"wrong types":  {`{"schema_version":1,"targets":7}`, "run.json"},
		"many objects": {`{"schema_version":1,"targets":[` + strings.Repeat("{},", maxDocumentNodes) + `{}]}`, "objects and arrays"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			must(t, os.WriteFile(filepath.Join(dir, runFile), []byte(c.run), 0o644))
			_, err := Open(dir)
			if err == nil || !strings.Contains(err.Error(), c.message) {
				t.Errorf("error %v, want one about %q", err, c.message)
			}
		})
	}
	if _, err := Open(t.TempDir()); !errors.Is(err, ErrNoRun) {
		t.Errorf("empty folder: %v, want ErrNoRun", err)
	}
}

func TestReadersStayInsideTheRecord(t *testing.T) {
	w := create(t)
	c := begin(t, w, cellID("t", 1))
	must(t, c.Finish(sampleCell(), at(9)))
	dir := filepath.Join(w.Dir(), cellsDir, "t_1000_default_1_1")
	outside := filepath.Join(t.TempDir(), "outside")
	must(t, os.WriteFile(outside, []byte("{}\n"), 0o644))
	must(t, os.Symlink(outside, filepath.Join(dir, intervalsFile)))
	must(t, os.Mkdir(filepath.Join(dir, windowsFile), 0o755))
	cell := cells(t, w)[0]
	for name, seq := range map[string]func() error{
		"link": func() error {
			for _, err := range cell.Intervals() {
				return err
			}
			return nil
		},
		"folder": func() error {
			for _, err := range cell.Windows() {
				return err
			}
			return nil
		},
	} {
		if err := seq(); err == nil {
			t.Errorf("%s was read", name)
		}
	}
}

func TestNoSecretEnters(t *testing.T) {
	const password = "hunter2"
	uri := "mongodb://admin:" + password + "@h:1/"
	run := sampleRun()
	run.CommandLine = []string{"sandbox", "--uri", uri, "--password", password}
	run.Warnings = []string{"cannot reach " + uri}
	run.Files = []InputFile{{Name: "a.tfvars", Text: "uri = \"" + uri + "\"\n"}}
	dir := filepath.Join(t.TempDir(), "r")
	w, err := Create(dir, run)
	must(t, err)
	t.Cleanup(func() { _ = w.Close() })
	c := begin(t, w, cellID("t", 1))
	cell := sampleCell()
	cell.Warnings = []string{uri}
	must(t, c.Sample(Sample{Error: uri}))
	must(t, c.Abandon(&cell, CellFailed, uri, at(9)))

	hidden := sampleRun()
	hidden.Targets[0].Members = []MemberFacts{{Settings: map[string]string{"x": uri}}}
	if err := w.SetRun(hidden); !errors.Is(err, errSecret) {
		t.Errorf("settings with a password: %v, want a refusal", err)
	}
	files := 0
	must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		files++
		data, err := os.ReadFile(path)
		if strings.Contains(string(data), password) {
			t.Errorf("%s holds the password:\n%s", path, data)
		}
		return err
	}))
	if files < 5 {
		t.Errorf("looked at %d files only", files)
	}
}

func TestNewest(t *testing.T) {
	runs := t.TempDir()
	if _, err := Newest(filepath.Join(runs, "none"), nil); !errors.Is(err, ErrNoRun) {
		t.Errorf("no folder: %v, want ErrNoRun", err)
	}
	finished := at(50)
	for i, done := range []bool{false, true} {
		run := sampleRun()
		run.ID = NewID(at(i), "e")
		if done {
			run.Finished = &finished
		}
		w, err := Create(filepath.Join(runs, run.ID), run)
		must(t, err)
		must(t, w.Close())
	}
	must(t, os.Mkdir(filepath.Join(runs, "zzz-not-a-run"), 0o755))
	got, err := Newest(runs, nil)
	if want := filepath.Join(runs, "20261130-125401-e"); got != want || err != nil {
		t.Errorf("newest = %s, %v, want %s", got, err, want)
	}
	got, err = Newest(runs, func(r Run) bool { return r.Finished == nil })
	if want := filepath.Join(runs, "20261130-125400-e"); got != want || err != nil {
		t.Errorf("newest unfinished = %s, %v, want %s", got, err, want)
	}
}

func TestNames(t *testing.T) {
	ids := []CellID{
		{"a", 1, "2_x", 1}, {"a_1", 2, "x", 1}, {"A", 1, "x", 1}, {"a", 1, "x", 1}, {"a", 11, "x", 1},
		{"..", 1, "../..", 1}, {"", 1, "", 1}, {"é/\x00", 1, "x", 1},
		{strings.Repeat("x", 300), 1, "x", 1}, {strings.Repeat("x", 301), 1, "x", 1},
	}
	seen := map[string]CellID{}
	for _, id := range ids {
		name := dirName(id, 1)
		if other, found := seen[strings.ToLower(name)]; found {
			t.Errorf("%+v and %+v share the name %s", id, other, name)
		}
		seen[strings.ToLower(name)] = id
		if len(name) > 255 || strings.ContainsAny(name, "/\x00 ") || strings.HasPrefix(name, ".") || filepath.Base(name) != name {
			t.Errorf("%q is no safe name", name)
		}
	}
	if got, want := dirName(cellID("psmdb-8.0", 2), 3), "psmdb-8.0_1000_default_2_3"; got != want {
		t.Errorf("name %q, want %q", got, want)
	}
}

// Every write of outcomes can be read on its own: what a sudden end tears is
// the last frame at most.
func TestOutcomesAreFrames(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	w, err := Create(dir, Run{ID: "run"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = w.Close() }()
	cell, err := w.Begin(CellID{Target: "a", Size: 1, Variant: DefaultVariant, Iteration: 1}, time.Unix(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	out, err := cell.Outcomes()
	if err != nil {
		t.Fatal(err)
	}
	for _, lines := range []string{"0,0,find,,5,\n", "0,1,updateOne,,1,1\n0,2,find,,0,\n"} {
		if _, err := out.Write([]byte(lines)); err != nil {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile(filepath.Join(dir, "cells", "a_1_default_1_1", "outcomes.csv.zst"))
	if err != nil {
		t.Fatal(err)
	}
	decoder, err := zstd.NewReader(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer decoder.Close()
	text, err := decoder.DecodeAll(data, nil)
	if want := "0,0,find,,5,\n0,1,updateOne,,1,1\n0,2,find,,0,\n"; err != nil || string(text) != want {
		t.Errorf("read %q, %v", text, err)
	}
}

func TestCheckpointsAreChecked(t *testing.T) {
	digest := strings.Repeat("ab", 32)
	for name, test := range map[string]struct {
		text string
		bad  bool
	}{
		"an old record":     {`{"every":1000,"workers":[["` + digest + `"]]}`, false},
		"all there is":      {`{"every":1000,"workers":[[]],"early_every":10,"early":[["` + digest + `"]],"last":[{"commands":12,"state":"` + digest + `"}]}`, false},
		"no digest":         {`{"every":1000,"workers":[["00"]]}`, true},
		"no early digest":   {`{"every":1000,"workers":[[]],"early_every":10,"early":[["00"]]}`, true},
		"no early distance": {`{"every":1000,"workers":[[]],"early":[["` + digest + `"]]}`, true},
		"too many early":    {`{"every":1000,"workers":[[]],"early_every":10,"early":[[],[]]}`, true},
		"too many ends":     {`{"every":1000,"workers":[],"last":[{"commands":1,"state":"` + digest + `"}]}`, true},
		"a negative end":    {`{"every":1000,"workers":[[]],"last":[{"commands":-1,"state":"` + digest + `"}]}`, true},
		"no end":            {`{"every":1000,"workers":[[]],"last":[{"commands":1}]}`, true},
		"too many workers":  {`{"every":1000,"workers":[` + strings.Repeat("[],", maxWorkers) + `[]]}`, true},
	} {
		w := create(t)
		begin(t, w, cellID("t", 1))
		must(t, os.WriteFile(filepath.Join(w.Dir(), cellsDir, "t_1000_default_1_1", checkpointsFile), []byte(test.text), 0o644))
		if _, err := cells(t, w)[0].Checkpoints(); (err != nil) != test.bad {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestStatesOfAChain(t *testing.T) {
	digest := func(n int) string { return fmt.Sprintf("%064d", n) }
	v := Checkpoints{
		Every: 30, Workers: [][]string{{digest(30), digest(60)}, {}},
		EarlyEvery: 10, Early: [][]string{{digest(10), digest(20)}, {digest(10)}},
		Last: []ChainEnd{{61, digest(61)}, {17, digest(17)}},
	}
	for _, test := range []struct {
		worker int
		kept   []int64
	}{{0, []int64{10, 20, 30, 60, 61}}, {1, []int64{10, 17}}, {2, nil}, {-1, nil}} {
		for n := int64(-1); n < 100; n++ {
			state, ok := v.State(test.worker, n)
			if ok != slices.Contains(test.kept, n) || ok && state != digest(int(n)) {
				t.Errorf("worker %d after %d commands: %q, %v", test.worker, n, state, ok)
			}
		}
	}
	for n, want := range map[int64]bool{10: true, 17: false, 20: false, 0: false} {
		if _, ok := v.Fingerprint("id", n); ok != want {
			t.Errorf("a fingerprint over %d: %v", n, ok)
		}
	}
	if _, ok := (&Checkpoints{}).Fingerprint("id", 10); ok {
		t.Error("no chains have a fingerprint")
	}
}

// Members of other platforms and of earlier records have no cloud facts, and
// none are written for them.
func TestCloudFacts(t *testing.T) {
	var m MemberFacts
	if err := json.Unmarshal([]byte(`{"name":"m","address":"h:1","role":"PRIMARY","version":"9.0.4","machine":{}}`), &m); err != nil || m.Cloud != (CloudFacts{}) {
		t.Errorf("%+v, %v", m, err)
	}
	if text, err := json.Marshal(m); err != nil || strings.Contains(string(text), "cloud") {
		t.Errorf("%s, %v", text, err)
	}
	m.Cloud = CloudFacts{MachineType: "n2-standard-4", Zone: "z-a", DiskGB: 80}
	text, err := json.Marshal(m)
	if err != nil || !strings.Contains(string(text), `"cloud":{"machine_type":"n2-standard-4","zone":"z-a","disk_gb":80}`) {
		t.Errorf("%s, %v", text, err)
	}

	all := CloudFacts{MachineType: "t", CPUPlatform: "p", Zone: "z", DiskType: "d", DiskGB: 1}
	for name, other := range map[string]CloudFacts{
		"type": {MachineType: "x"}, "platform": {CPUPlatform: "x"}, "zone": {Zone: "x"}, "disk": {DiskType: "x"}, "size": {DiskGB: 2},
	} {
		if !all.Contradicts(other) || !other.Contradicts(all) {
			t.Errorf("another %s is no contradiction", name)
		}
	}
	for name, other := range map[string]CloudFacts{"the same": all, "nothing known": {}, "less known": {Zone: "z"}} {
		if all.Contradicts(other) || other.Contradicts(all) {
			t.Errorf("%s is a contradiction", name)
		}
	}
}
