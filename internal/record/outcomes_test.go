package record

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"
)

// compress makes one zstd frame of every part.
func compress(t testing.TB, parts ...string) []byte {
	t.Helper()
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		t.Fatal(err)
	}
	var out []byte
	for _, part := range parts {
		out = encoder.EncodeAll([]byte(part), out)
	}
	return out
}

func readOutcomes(t testing.TB, data []byte) (all []Outcome, err error) {
	t.Helper()
	r, err := NewOutcomeReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	for {
		var o Outcome
		if err = r.Next(&o); err != nil {
			break
		}
		all = append(all, o)
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return all, err
}

func TestOutcomesFromWriterToReader(t *testing.T) {
	w, err := Create(filepath.Join(t.TempDir(), "run"), Run{ID: "r"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = w.Close() }()
	cell, err := w.Begin(CellID{Target: "t", Size: 1, Variant: DefaultVariant, Iteration: 1}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	sink, err := cell.Outcomes()
	if err != nil {
		t.Fatal(err)
	}
	want := []Outcome{
		{Worker: 0, Command: 0, Operation: "find", Documents: 5, Digest: 0x0badcafe, Digested: true},
		{Worker: 15, Command: 0, Operation: "updateMany", Documents: 10, Modified: 9},
		{Worker: 0, Command: 1, Operation: "find", Digested: true},
		{Worker: 0, Command: 2, Operation: "insertMany", Error: "DuplicateKey", Documents: 3},
	}
	for i := range want {
		if _, err := sink.Write(want[i].AppendTo(nil)); err != nil {
			t.Fatal(err)
		}
	}
	if err := cell.Finish(Cell{Valid: true}, time.Now()); err != nil {
		t.Fatal(err)
	}
	r, err := Open(w.Dir())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	cells, err := r.Cells()
	if err != nil || len(cells) != 1 {
		t.Fatalf("%d cells, %v", len(cells), err)
	}
	outcomes, err := cells[0].Outcomes()
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range want {
		var got Outcome
		if err := outcomes.Next(&got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(x, got); diff != "" {
			t.Error(diff)
		}
	}
	if err := outcomes.Next(&Outcome{}); !errors.Is(err, io.EOF) {
		t.Errorf("after the last: %v", err)
	}
	if err := outcomes.Close(); err != nil {
		t.Error(err)
	}

	// Damage is an error that names the file and the line.
	path := filepath.Join(w.Dir(), cellsDir, dirName(cells[0].ID, 1), outcomesFile)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data[:len(data)-3], 0o600); err != nil {
		t.Fatal(err)
	}
	if outcomes, err = cells[0].Outcomes(); err != nil {
		t.Fatal(err)
	}
	for err == nil {
		err = outcomes.Next(&Outcome{})
	}
	if errors.Is(err, io.EOF) || !strings.Contains(err.Error(), outcomesFile+": line 4: ") {
		t.Errorf("%v", err)
	}
	_ = outcomes.Close()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, err := cells[0].Outcomes(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without the file: %v", err)
	}
}

func TestOutcomeLines(t *testing.T) {
	odd := Outcome{Operation: "find", Error: "a,b\n\"c\"\x00" + strings.Repeat("x", maxOutcomeLine)}
	line := string(odd.AppendTo(nil))
	if strings.Count(line, ",") != 6 || strings.Count(line, "\n") != 1 || len(line) > maxOutcomeLine {
		t.Errorf("a server's odd error name becomes %q", line)
	}
	// What an earlier program wrote has no digests.
	got, err := readOutcomes(t, compress(t, "0,0,find,,5,\n0,1,updateOne,,2,1\n", "1,0,find,Timeout,0,\n"))
	want := []Outcome{
		{Operation: "find", Documents: 5}, {Command: 1, Operation: "updateOne", Documents: 2, Modified: 1},
		{Worker: 1, Operation: "find", Error: "Timeout"},
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
	// A torn last line is the trace of a sudden end.
	if got, err := readOutcomes(t, compress(t, "0,0,find,,5,,\n0,1,fi")); len(got) != 1 || err != nil {
		t.Errorf("%d outcomes, %v", len(got), err)
	}
	if got, err := readOutcomes(t, nil); len(got) != 0 || err != nil {
		t.Errorf("an empty file has %d outcomes, %v", len(got), err)
	}
}

func TestOutcomesRefused(t *testing.T) {
	for name, test := range map[string]struct {
		data []byte
		want string
	}{
		"not zstd":           {[]byte("0,0,find,,5,,\n"), "line 1: "},
		"too few fields":     {compress(t, "0,0,find,,5\n"), "line 1: 5 fields"},
		"too many fields":    {compress(t, "0,0,find,,5,,,\n"), "more than 7 fields"},
		"no worker":          {compress(t, ",0,find,,5,,\n"), `worker ""`},
		"worker":             {compress(t, "1024,0,find,,5,,\n"), `worker "1024"`},
		"negative":           {compress(t, "0,-1,find,,5,,\n"), `command "-1"`},
		"a gap":              {compress(t, "0,0,find,,5,,\n1,1,find,,5,,\n"), "line 2: command 1 of worker 1, want 0"},
		"the same again":     {compress(t, "0,0,find,,5,,\n0,0,find,,5,,\n"), "command 0 of worker 0, want 1"},
		"no operation":       {compress(t, "0,0,,,5,,\n"), "operation"},
		"a count":            {compress(t, "0,0,find,,five,,\n"), "counts"},
		"a digest":           {compress(t, "0,0,find,,5,,abc\n"), `digest "abc"`},
		"a digest of others": {compress(t, "0,0,find,,5,,abcdefgh\n"), `digest "abcdefgh"`},
		"a long line":        {compress(t, "0,0,"+strings.Repeat("x", maxOutcomeLine)+",,5,,\n"), "longer than"},
		"an endless line":    {compress(t, strings.Repeat("x", 1<<20)), "longer than"},
		"empty line":         {compress(t, "\n"), "1 fields"},
	} {
		if _, err := readOutcomes(t, test.data); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %s", name, err, test.want)
		}
	}
	var names strings.Builder
	for i := range maxOutcomeNames + 1 {
		fmt.Fprintf(&names, "0,%d,find,e%d,,,\n", i, i)
	}
	if _, err := readOutcomes(t, compress(t, names.String())); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("names without end: %v", err)
	}
}

// manyOutcomes writes n outcomes of 16 workers in frames of 3,000 lines.
func manyOutcomes(t testing.TB, n int) []byte {
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1))
	if err != nil {
		t.Fatal(err)
	}
	var out, lines []byte
	for i := range n {
		o := Outcome{Worker: i % 16, Command: int64(i / 16), Operation: "find", Documents: 5, Digest: uint32(i) * 2654435761, Digested: true}
		if i%5 > 2 {
			o = Outcome{Worker: o.Worker, Command: o.Command, Operation: "updateMany", Documents: 10, Modified: 10}
		}
		lines = o.AppendTo(lines)
		if i%3000 == 2999 || i == n-1 {
			out = encoder.EncodeAll(lines, out)
			lines = lines[:0]
		}
	}
	return out
}

func TestOutcomesTakeLittleMemory(t *testing.T) {
	const count = 300_000
	data := manyOutcomes(t, count)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	r, err := NewOutcomeReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	var o Outcome
	n := 0
	for ; r.Next(&o) == nil; n++ {
	}
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; n != count || got > 8<<20 {
		t.Errorf("%d outcomes took %d bytes of memory, all in all", n, got)
	}
}

func BenchmarkOutcomes(b *testing.B) {
	const count = 1_000_000
	data := manyOutcomes(b, count)
	for b.Loop() {
		r, err := NewOutcomeReader(bytes.NewReader(data))
		if err != nil {
			b.Fatal(err)
		}
		var o Outcome
		n := 0
		for ; r.Next(&o) == nil; n++ {
		}
		if n != count {
			b.Fatal(n)
		}
		_ = r.Close()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/count, "ns/outcome")
	b.ReportMetric(float64(len(data))/count, "bytes/outcome")
}

// FuzzOutcomes hands arbitrary content to the reader. What it accepts, it
// writes and reads again unchanged.
func FuzzOutcomes(f *testing.F) {
	f.Add([]byte("0,0,find,,5,,0badcafe\n1,0,updateOne,,2,1,\n0,1,insertMany,DuplicateKey,3,,\n"), true)
	f.Add([]byte("0,0,find,,5,\n0,1,updateMany,WriteConflict,,\n"), true)
	f.Add([]byte("0,0,find,,5,,\n0,2,find,,5,,\n"), true)
	f.Add([]byte("1024,0,find,,18446744073709551615,,FFFFFFFF\n"), true)
	f.Add(compress(f, "0,0,find,,5,,\n"), false)
	f.Add([]byte("\x28\xb5\x2f\xfd\x00"), false)
	f.Fuzz(func(t *testing.T, data []byte, plain bool) {
		if plain {
			data = compress(t, string(data))
		}
		all, _ := readOutcomes(t, data)
		var lines []byte
		for i := range all {
			if all[i].Worker < 0 || all[i].Worker >= maxWorkers || all[i].Documents < 0 || all[i].Modified < 0 {
				t.Fatalf("%+v", all[i])
			}
			lines = all[i].AppendTo(lines)
		}
		again, err := readOutcomes(t, compress(t, string(lines)))
		if err != nil || len(again) != len(all) {
			t.Fatalf("%d of %d outcomes come back, %v", len(again), len(all), err)
		}
		clean := func(name string) string { return string(appendName(nil, name)) }
		for i := range all {
			all[i].Operation, all[i].Error = clean(all[i].Operation), clean(all[i].Error)
		}
		if diff := cmp.Diff(all, again); diff != "" {
			t.Fatal(diff)
		}
	})
}
